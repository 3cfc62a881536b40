"""Views of a photo: what is random about them, and that only seed, photo and view decide it."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
from PIL import Image

from weights.making.held_out import Photo
from weights.making.image_tower import features as views
from weights.making.image_tower.features import view_pixels

PHOTO = Photo("flickr", 1000268201)


def gradient(width=80, height=60) -> Image.Image:
    """Red tells the column, green the row; blue is 128."""
    pixels = np.full((height, width, 3), 128, dtype=np.uint8)
    pixels[..., 0] = np.linspace(0, 255, width)
    pixels[..., 1] = np.linspace(0, 255, height)[:, None]
    return Image.fromarray(pixels)


def test_the_first_view_is_the_whole_photo_as_the_backbone_reads_it():
    image = gradient()
    expected = np.asarray(image.resize((16, 16), Image.Resampling.BICUBIC), dtype=np.float64) / 127.5 - 1
    np.testing.assert_allclose(
        view_pixels(image, PHOTO, 0, side=16, seed=0), expected.transpose(2, 0, 1), atol=1e-6
    )
    # whatever the seed
    np.testing.assert_array_equal(
        view_pixels(image, PHOTO, 0, side=16, seed=0), view_pixels(image, PHOTO, 0, side=16, seed=5)
    )


def test_a_view_depends_on_seed_photo_and_number():
    image = gradient()
    first = view_pixels(image, PHOTO, 1, side=16, seed=0)
    np.testing.assert_array_equal(first, view_pixels(image, PHOTO, 1, side=16, seed=0))
    for photo, view, seed in (
        (PHOTO, 2, 0),
        (PHOTO, 1, 1),
        (Photo("flickr", 1000268202), 1, 0),
        (Photo("coco", 1000268201), 1, 0),
    ):
        assert np.abs(view_pixels(image, photo, view, side=16, seed=seed) - first).max() > 0.01


def measured():
    """Of 2,000 views of a gradient: crop's width, height and left edge as shares, mirrored, grey."""
    found, image = [], gradient(256, 256)
    for number in range(2000):
        pixels = view_pixels(image, Photo("flickr", number), 1, side=8, seed=0)
        red, green, blue = pixels
        grey = np.allclose(red, blue, atol=1e-6) and np.allclose(red, green, atol=1e-6)
        found.append((red, green, blue, grey))
    return found


def test_crops_colours_and_mirrors_have_the_stated_ranges():
    found = measured()
    greys = sum(grey for *_, grey in found)
    assert 150 <= greys <= 250  # 10 %: 200 ± 13
    coloured = [(red, green, blue) for red, green, blue, grey in found if not grey]
    mirrored = sum(red[0, -1] < red[0, 0] for red, *_ in coloured)
    assert 0.45 < mirrored / len(coloured) < 0.55
    # blue is 128, so contrast hardly moves it, and brightness alone does: 0.004 ± 18 / 127.5
    levels = np.array([blue.mean() for *_, blue in coloured])
    assert -0.142 < levels.min() < -0.13 and 0.13 < levels.max() < 0.147
    # from the middle of the first to that of the last of 8 cells are 7/8 of the crop
    inner = [(red, green) for red, green, _ in coloured if max(np.abs(red).max(), np.abs(green).max()) < 1]
    across = np.array([abs(red[0, -1] - red[0, 0]) for red, _ in inner]) * 8 / 7 / 2
    down = np.array([green[-1, 0] - green[0, 0] for _, green in inner]) * 8 / 7 / 2
    stretch = across / down
    assert np.exp(-0.26) < stretch.min() < np.exp(-0.2) and np.exp(0.2) < stretch.max() < np.exp(0.26)
    # the area is multiplied by the squared contrast, .75² to 1.25²
    area = across * down
    assert 0.45 * 0.75**2 * 0.98 < area.min() < 0.3 and 0.9 < area.max() < 1.25**2


@pytest.mark.parametrize("size", [(1, 1), (1, 300), (300, 1), (7, 5)])
@pytest.mark.parametrize("view", [0, 1, 2])
def test_an_odd_photo_has_views(size, view):
    image = Image.new("RGB", size, (10, 200, 90))
    pixels = view_pixels(image, PHOTO, view, side=32, seed=0)
    assert pixels.shape == (3, 32, 32) and pixels.dtype == np.float32
    assert np.abs(pixels).max() <= 1
    assert np.ptp(pixels, axis=(1, 2)).max() < 1e-6  # one colour stays one colour


def test_examples():
    found = doctest.testmod(views)
    assert found.attempted and not found.failed
