"""Views of photos and their features on disk."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from capscore.backbones.embedded.backbone import load_efficientnet
from capscore.backbones.embedded.image_tower import STAGES, ImageTower
from capscore.errors import InputError
from capscore.images.load import load_image
from tools.tiny.sources_of_weights import draw_photo
from weights.making.held_out import Photo
from weights.making.image_tower import features
from weights.making.image_tower.features import TrainedHalf, folded, frozen_half, photo_features, view_pixels
from weights.making.image_tower.rows import PhotoRow
from weights.making.settings import ImageTowerSettings

PHOTO = Photo("flickr", 1000268201)


def gradient(width: int, height: int) -> Image.Image:
    """Red gives the column, green the row; blue is 128."""
    pixels = np.full((height, width, 3), 128, dtype=np.uint8)
    pixels[..., 0] = np.linspace(0, 255, width)
    pixels[..., 1] = np.linspace(0, 255, height)[:, None]
    return Image.fromarray(pixels)


def test_the_first_view_is_the_whole_photo_and_others_depend_on_photo_and_number():
    image = gradient(80, 60)
    expected = np.asarray(image.resize((16, 16), Image.Resampling.BICUBIC), dtype=np.float64) / 127.5 - 1
    np.testing.assert_allclose(view_pixels(image, PHOTO, 0, 16), expected.transpose(2, 0, 1), atol=1e-6)
    first = view_pixels(image, PHOTO, 1, 16)
    np.testing.assert_array_equal(first, view_pixels(image, PHOTO, 1, 16))
    for photo, view in ((PHOTO, 2), (Photo("flickr", 2), 1), (Photo("coco", PHOTO.number), 1)):
        assert np.abs(view_pixels(image, photo, view, 16) - first).max() > 0.01


def test_crops_colours_and_mirrors_have_the_stated_ranges():
    image = gradient(128, 128)
    views = [view_pixels(image, Photo("flickr", n), 1, 8) for n in range(1500)]
    coloured = [view for view in views if not np.allclose(view[0], view[2], atol=1e-6)]
    assert 110 <= len(views) - len(coloured) <= 190  # 10 %: 150 ± 12
    assert 0.45 < np.mean([red[0, -1] < red[0, 0] for red, *_ in coloured]) < 0.55
    # blue is 128, so contrast hardly moves it, and brightness alone does: 0.004 ± 18 / 127.5
    levels = np.array([blue.mean() for *_, blue in coloured])
    assert -0.142 < levels.min() < -0.13 and 0.13 < levels.max() < 0.147
    # from the middle of the first to that of the last of 8 cells are 7/8 of the crop
    inner = [(red, green) for red, green, _ in coloured if max(np.abs(red).max(), np.abs(green).max()) < 1]
    across = np.array([abs(red[0, -1] - red[0, 0]) for red, _ in inner]) * 8 / 7 / 2
    down = np.array([green[-1, 0] - green[0, 0] for _, green in inner]) * 8 / 7 / 2
    stretch, area = across / down, across * down
    assert np.exp(-0.26) < stretch.min() < np.exp(-0.2) and np.exp(0.2) < stretch.max() < np.exp(0.26)
    # the area is multiplied by the squared contrast, .75² to 1.25²
    assert 0.45 * 0.75**2 * 0.98 < area.min() < 0.3 and 0.9 < area.max() < 1.25**2


@pytest.mark.parametrize(("size", "view"), [((1, 1), 0), ((1, 300), 1)])
def test_an_odd_photo_of_one_colour_has_views_of_one_colour(size, view):
    pixels = view_pixels(Image.new("RGB", size, (10, 200, 90)), PHOTO, view, 32)
    assert pixels.shape == (3, 32, 32) and pixels.dtype == np.float32 and np.abs(pixels).max() <= 1
    assert np.ptp(pixels, axis=(1, 2)).max() < 1e-6


class Half(nn.Module):
    """Pixels (n, 3, 16, 16) → (n, 5, 8, 8); counts its photos."""

    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.conv, self.photos = nn.Conv2d(3, 5, 3, stride=2, padding=1), 0

    def forward(self, pixels):
        self.photos += len(pixels)
        return self.conv(pixels)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    folder, found = tmp_path_factory.mktemp("photos"), []
    for number in range(1, 11):
        path = folder / f"{number}_a.jpg"
        draw_photo(path, number)
        found.append(PhotoRow(Photo("flickr", number), path.name, path, {"en": ("A dog.",)}))
    return found


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch):
    monkeypatch.setattr(features, "_AT_ONCE", 4)


def made(rows, network, out, views, half=False):
    given = ImageTowerSettings(str(out), data="", photos="", texts="", views=views, half_precision=half)
    return photo_features(given, rows, network, side=16)[0]


def test_features_are_those_of_each_view_and_computed_once(rows, tmp_path):
    network = Half()
    found = made(rows, network, tmp_path, 2)
    assert [(view.shape, view.dtype) for view in found] == [((10, 5, 8, 8), np.float16)] * 2
    for view, number in ((0, 0), (1, 7), (1, 9)):
        pixels = view_pixels(load_image(rows[number].file), rows[number].photo, view, 16)
        expected = network(torch.from_numpy(pixels)[None])[0].detach().numpy()
        np.testing.assert_allclose(found[view][number].astype(float), expected, rtol=1e-3, atol=1e-3)
    again = Half()
    np.testing.assert_array_equal(made(rows, again, tmp_path, 3)[1], found[1])
    assert again.photos == 10  # the third view alone
    # of other weights, photos or settings there are none yet
    others = (rows, Half(seed=1), False), (rows[1:], Half(), False), (rows, Half(), True)
    for given, network, half in others:
        other = made(given, network, tmp_path, 2, half)
        assert network.photos == 2 * len(given)
    # random views alone are in half precision
    np.testing.assert_array_equal(other[0], found[0])
    assert 0 < np.abs(other[1].astype(float) - found[1].astype(float)).max() < 0.03


def test_a_photo_that_cannot_be_read_is_named(rows, tmp_path):
    (tmp_path / "7_b.jpg").write_bytes(b"no photo")
    bad = rows[6]._replace(name="7_b.jpg", file=tmp_path / "7_b.jpg")
    with pytest.raises(InputError, match=r"7_b\.jpg"):
        made([*rows[:6], bad], Half(), tmp_path, 1)
    assert not list(tmp_path.rglob("*.npy"))


def test_both_halves_are_the_published_trunk():
    tower, blocks = ImageTower(), sum(stage[0] for stage in STAGES[:4])
    tower.trunk = folded(load_efficientnet())
    pixels = torch.rand(1, 3, 64, 64) * 2 - 1
    with torch.inference_mode():
        found = TrainedHalf(tower, blocks)(frozen_half(tower.trunk, blocks)(pixels))
        torch.testing.assert_close(found, tower.trunk(pixels), atol=1e-5, rtol=1e-5)
