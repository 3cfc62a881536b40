"""Photos that look like held-out ones, in other sizes and encodings."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
from PIL import Image

from weights.making.image_tower import data as module
from weights.making.image_tower.data import ALIKE, look_alikes, small_picture


@pytest.fixture
def photos(tmp_path):
    """Eight pictures of smooth random shapes."""
    chance = np.random.default_rng(3)
    files = []
    for number in range(8):
        rough = chance.integers(0, 256, (5, 5, 3)).astype(np.uint8)
        files.append(tmp_path / f"{number}.png")
        Image.fromarray(rough).resize((160, 120), Image.Resampling.BICUBIC).save(files[-1])
    return files


def test_docstrings():
    assert not doctest.testmod(module).failed


def test_a_smaller_copy_in_another_format_is_found_and_named(photos, tmp_path):
    copy = tmp_path / "copy.jpg"
    Image.open(photos[5]).resize((70, 61)).save(copy, quality=60)
    (found,) = look_alikes([photos[0], copy], photos[1:])
    assert found[:2] == (1, photos[5])
    assert ALIKE < found[2] <= 1 + 1e-6


def test_other_brightness_is_the_same_photo(photos):
    with Image.open(photos[2]) as image:
        brighter = image.point(lambda level: level // 2 + 60)
        assert small_picture(brighter) @ small_picture(image) > ALIKE


def test_other_photos_are_not_alike(photos):
    assert look_alikes(photos[:4], photos[4:]) == []
    assert look_alikes([], photos) == look_alikes(photos, []) == []


def test_one_colour_is_like_nothing(tmp_path, photos):
    plain = tmp_path / "plain.png"
    Image.new("RGB", (30, 30), "white").save(plain)
    assert look_alikes([plain], [plain, *photos]) == []
