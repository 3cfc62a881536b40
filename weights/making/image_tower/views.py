"""A photo → the pixels of one of its views: the whole photo, or a random crop with random colours.

What a view shows depends on the seed, the photo's number and the view's, and on nothing else.
"""

from __future__ import annotations

import math
import zlib

import numpy as np
from PIL import Image

from capscore.backbones.embedded.image_tower import photo_pixels
from weights.making.photo_names import Photo

# Smallest share of the photo's area in a crop.
LEAST_AREA = 0.45
# Largest logarithm of a crop's stretch, width over height, relative to the photo's.
STRETCH = 0.25
CONTRAST = 0.25
# In grey levels of 255.
BRIGHTNESS = 18.0
GREY_SHARE = 0.1


def view_pixels(image: Image.Image, photo: Photo, view: int, *, side: int, seed: int) -> np.ndarray:
    """The pixels of a view, as the network reads them.

    Args:
        image: The photo, RGB.
        photo: Its number, for the random draws.
        view: 0 for the whole photo, resized as the backbone does; others are random.
        side: Height and width of the result.
        seed: Seed for the random draws.

    Returns:
        Array (3, side, side) of float32 in [−1, 1].

    >>> image = Image.new("RGB", (300, 200), (255, 0, 0))
    >>> view_pixels(image, Photo("flickr", 1), 0, side=4, seed=0)[:, 0, 0].tolist()
    [1.0, -1.0, -1.0]
    """
    size = (side, side)
    if view == 0:
        return photo_pixels(image, side).numpy()
    chance = _generator(photo, view, seed)
    box = _crop(image.width, image.height, chance)
    pixels = np.asarray(image.resize(size, Image.Resampling.BILINEAR, box=box), dtype=np.float32)
    if chance.random() < 0.5:
        pixels = pixels[:, ::-1]
    contrast, brightness = chance.uniform(-CONTRAST, CONTRAST), chance.uniform(-BRIGHTNESS, BRIGHTNESS)
    pixels = (pixels - 127.5) * (1 + contrast) + 127.5 + brightness
    if chance.random() < GREY_SHARE:
        pixels = np.broadcast_to(pixels.mean(axis=2, keepdims=True), pixels.shape)
    return _scaled(pixels.clip(0, 255))


def _generator(photo: Photo, view: int, seed: int) -> np.random.Generator:
    # a digest that is the same in every process, unlike Python's hash
    collection = zlib.crc32(photo.collection.encode())
    return np.random.default_rng([seed, view, collection, photo.number])


def _crop(width: int, height: int, chance: np.random.Generator) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of a random part of the photo, in pixels."""
    area = chance.uniform(LEAST_AREA, 1.0)
    stretch = math.exp(chance.uniform(-STRETCH, STRETCH))
    # a crop that would be wider or higher than the photo keeps its area
    across = min(1.0, max(area, math.sqrt(area * stretch)))
    down = area / across
    left, top = chance.uniform(0, 1 - across), chance.uniform(0, 1 - down)
    return left * width, top * height, (left + across) * width, (top + down) * height


def _scaled(pixels: np.ndarray) -> np.ndarray:
    """Pixels (side, side, 3) in [0, 255] → (3, side, side) in [−1, 1]."""
    return np.ascontiguousarray((pixels / 127.5 - 1).transpose(2, 0, 1), dtype=np.float32)
