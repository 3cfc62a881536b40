"""Features on disk: a killed run ends with the same file, and what is stale or damaged is not used."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from capscore.errors import CapscoreError, InputError
from weights.making.held_out import Photo
from weights.making.image_tower import features
from weights.making.image_tower.features import ViewSettings, photo_features, view_pixels
from weights.making.image_tower.rows import PhotoRow

from .sources import draw_photo

SETTINGS = ViewSettings(side=16, batch_size=4, half_precision=False)


class Half(nn.Module):
    """Pixels (n, 3, 16, 16) → (n, 5, 8, 8); counts its photos."""

    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.conv = nn.Conv2d(3, 5, 3, stride=2, padding=1)
        self.photos = 0

    def forward(self, pixels):
        self.photos += len(pixels)
        return self.conv(pixels)


class Killed(Exception):
    pass


class KilledHalf(Half):
    """Is killed at its third batch."""

    def forward(self, pixels):
        if self.photos >= 8:
            raise Killed
        return super().forward(pixels)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    found = []
    for number in range(1, 19):
        path = folder / f"{number}_a.jpg"
        draw_photo(path, number)
        found.append(PhotoRow(Photo("flickr", number), path.name, path, "flickr8k", {"en": ("A dog.",)}))
    return found


def test_features_are_those_of_each_view(rows, tmp_path):
    network = Half()
    found = photo_features(rows, network, tmp_path, 3, SETTINGS)
    assert [(view.shape, view.dtype) for view in found] == [((18, 5, 8, 8), np.float16)] * 3
    for view, number in ((0, 0), (1, 7), (2, 17)):
        image = features.load_image(rows[number].file)
        pixels = view_pixels(image, rows[number].photo, view, side=16, seed=0)
        expected = network(torch.from_numpy(pixels)[None])[0].detach().numpy()
        np.testing.assert_allclose(found[view][number].astype(float), expected, rtol=1e-3, atol=1e-3)
    with pytest.raises(ValueError, match="read-only"):
        found[0][0] = 0


def test_what_is_on_disk_is_not_computed_again(rows, tmp_path):
    first = photo_features(rows, Half(), tmp_path, 2, SETTINGS)
    network = Half()
    again = photo_features(rows, network, tmp_path, 3, SETTINGS)
    assert network.photos == 18  # the third view alone
    for view in range(2):
        np.testing.assert_array_equal(first[view], again[view])


def test_a_killed_run_ends_with_the_same_features(rows, tmp_path):
    whole = photo_features(rows, Half(), tmp_path / "whole", 2, SETTINGS)
    with pytest.raises(Killed):
        photo_features(rows, KilledHalf(), tmp_path / "part", 2, SETTINGS)
    assert not (tmp_path / "part" / "view-0.json").exists()
    for one, other in zip(whole, photo_features(rows, Half(), tmp_path / "part", 2, SETTINGS), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_order_of_the_photos_does_not_matter(rows, tmp_path):
    forward = photo_features(rows, Half(), tmp_path / "a", 2, SETTINGS)
    backward = photo_features(rows[::-1], Half(), tmp_path / "b", 2, SETTINGS)
    alone = photo_features(rows[5:6], Half(), tmp_path / "c", 2, replace(SETTINGS, batch_size=7))
    for view in range(2):
        np.testing.assert_allclose(
            forward[view].astype(float), backward[view][::-1].astype(float), rtol=2e-3, atol=1e-4
        )
        np.testing.assert_allclose(
            forward[view][5].astype(float), alone[view][0].astype(float), rtol=2e-3, atol=1e-4
        )


def test_only_random_views_are_computed_in_half_precision(rows, tmp_path):
    full = photo_features(rows, Half(), tmp_path / "a", 2, SETTINGS)
    half = photo_features(rows, Half(), tmp_path / "b", 2, replace(SETTINGS, half_precision=True))
    np.testing.assert_array_equal(full[0], half[0])
    difference = np.abs(full[1].astype(float) - half[1].astype(float)).max()
    assert 0 < difference < 0.03


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: (rows, Half(seed=1), SETTINGS),
        lambda rows: (rows[1:], Half(), SETTINGS),
        lambda rows: (rows, Half(), replace(SETTINGS, seed=1)),
    ],
)
def test_features_of_something_else_are_not_taken(rows, tmp_path, change):
    photo_features(rows, Half(), tmp_path, 1, SETTINGS)
    given, network, settings = change(rows)
    with pytest.raises(CapscoreError, match="features of other photos, settings or weights: give another"):
        photo_features(given, network, tmp_path, 1, settings)


def test_a_photo_that_cannot_be_read_is_named(rows, tmp_path):
    broken = tmp_path / "7_b.jpg"
    broken.write_bytes(b"no photo")
    bad = rows[6]._replace(name="7_b.jpg", file=broken)
    with pytest.raises(InputError, match=r"^row 6, photos: Flickr 7: .*7_b\.jpg") as caught:
        photo_features([*rows[:6], bad], Half(), tmp_path / "out", 1, SETTINGS)
    assert caught.value.row == 6


def test_features_that_are_not_finite_name_their_photo(rows, tmp_path):
    network = Half()
    with torch.no_grad():
        network.conv.bias[2] = 1e6  # too large for float16
    with pytest.raises(InputError, match=r"^row 0, photos: Flickr 1 \(1_a\.jpg\) has features that are not"):
        photo_features(rows, network, tmp_path, 1, SETTINGS)
