"""Photos → what the frozen half of the trunk gives for each view, computed once, in memory-mapped files.

A view is a file `view-0.npy` of (photos, channels, height, width) in float16, with `view-0.json` beside it:
the photos, the settings, the digest of the frozen half, and how many photos are done. A run that is killed
continues behind the last batch that is on disk, with the same batches, so it ends with the same file.
"""

from __future__ import annotations

import json
import math
import os
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn

from capscore.backbones.base import weights_digest
from capscore.backbones.embedded.image_tower import photo_pixels
from capscore.errors import CapscoreError, ImageError, InputError, ResultWriteError
from capscore.files.console import progress_bar
from capscore.files.write import write_text
from capscore.images.load import load_image
from training.engine.processes import say
from weights.making.image_tower.rows import PhotoRow
from weights.making.photo_names import Photo

# Batches between two moments at which a killed run can continue.
_SAVE_EVERY = 8
# Batches between two lines about the progress.
_SAY_EVERY = 100
_FORMAT = 1
# Smallest share of the photo's area in a crop.
LEAST_AREA = 0.45
# Largest logarithm of a crop's stretch, width over height, relative to the photo's.
STRETCH = 0.25
CONTRAST = 0.25
# In grey levels of 255.
BRIGHTNESS = 18.0
GREY_SHARE = 0.1


@dataclass(frozen=True)
class ViewSettings:
    """How photos become features.

    Attributes:
        side: Height and width of a view in pixels.
        seed: Seed for the random views.
        batch_size: Photos at once.
        half_precision: Whether the random views are computed in bfloat16, which CPUs that have it do about
            twice as fast. The whole photo is always in float32.
    """

    side: int = 256
    seed: int = 0
    batch_size: int = 32
    half_precision: bool = True


def photo_features(
    rows: Sequence[PhotoRow], network: nn.Module, folder: Path, views: int, settings: ViewSettings
) -> list[np.ndarray]:
    """The features of all views, computed where they are not on disk.

    Args:
        rows: Photos with pixels.
        network: Frozen half of the trunk: pixels (n, 3, side, side) in [−1, 1] → (n, channels, height,
            width).
        folder: Where the files are.
        views: Number of views: the whole photo and `views` − 1 random ones.
        settings: How photos become features.

    Returns:
        Per view a memory-mapped array (photos, channels, height, width) of float16, which cannot be written.

    Raises:
        CapscoreError: the folder holds features of other photos, settings or weights, or damaged ones.
        InputError: a photo cannot be read, or its features are not finite; names it.
        ResultWriteError: the disk is full or cannot be written.
    """
    network = network.eval().to(memory_format=torch.channels_last)
    digest = weights_digest(network)
    found: list[np.ndarray] = []
    for view in range(views):
        file = _View(rows, network, digest, folder, view, settings)
        file.finish()
        found.append(file.opened())
    return found


class _View:
    """One view's file, whole or in part."""

    def __init__(
        self,
        rows: Sequence[PhotoRow],
        network: nn.Module,
        digest: str,
        folder: Path,
        view: int,
        settings: ViewSettings,
    ):
        self.rows, self.network, self.view, self.settings = rows, network, view, settings
        self.path, self.manifest = folder / f"view-{view}.npy", folder / f"view-{view}.json"
        self.is_half = settings.half_precision and view > 0
        self.described: dict[str, Any] = {
            "format": _FORMAT,
            "view": view,
            "network": digest,
            "settings": asdict(settings),
            "photos": [[row.name, row.file.stat().st_size if row.file else 0] for row in rows],
        }

    def finish(self) -> None:
        """Compute what is missing."""
        done = self._done()
        if done >= len(self.rows):
            return
        array = self.opened(to_write=True) if done else None
        with progress_bar(f"View {self.view}", len(self.rows), done=done) as advance:
            for number, (start, features) in enumerate(self._batches(done), start=1):
                if array is None:
                    array = self._made(features.shape[1:])
                array[start : start + len(features)] = features
                done = start + len(features)
                advance(len(features))
                if number % _SAVE_EVERY == 0 or done == len(self.rows):
                    self._save(array, done)
                if number % _SAY_EVERY == 0:
                    say(f"view {self.view}: {done:,} of {len(self.rows):,} photos")

    def _done(self) -> int:
        """Number of photos that are on disk."""
        if not self.manifest.exists():
            return 0
        try:
            said = json.loads(self.manifest.read_text(encoding="utf-8"))
            done = said.pop("done")
            if not isinstance(done, int) or not 0 <= done <= len(said["photos"]):
                raise ValueError(f"done is {done!r:.60}")
        except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
            raise CapscoreError(
                f"{self.manifest} is damaged ({error}): remove it, and the features of its view are computed "
                "again"
            ) from None
        if said != self.described:
            differ = [name for name in self.described if said.get(name) != self.described[name]]
            raise CapscoreError(
                f"{self.manifest.parent} holds features of view {self.view} with other {', '.join(differ)}: "
                "give another folder as features, or remove this one"
            )
        return done

    def _made(self, shape: tuple[int, ...]) -> np.memmap:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            array = np.lib.format.open_memmap(
                self.path, mode="w+", dtype=np.float16, shape=(len(self.rows), *shape)
            )
            if hasattr(os, "posix_fallocate"):  # a disk that is full is an error now, and not a crash later
                with open(self.path, "r+b") as file:
                    os.posix_fallocate(file.fileno(), 0, array.offset + array.nbytes)
            return array
        except OSError as error:
            raise _unwritten(self.path, error) from error

    def opened(self, *, to_write: bool = False) -> np.memmap:
        """The file, checked."""
        try:
            # opened to read first, since opening to write makes a file that was cut short whole, with zeros
            array = np.load(self.path, mmap_mode="r")
            if array.dtype != np.float16 or len(array) != len(self.rows):
                raise ValueError(f"{array.dtype} of {array.shape}")
            return np.lib.format.open_memmap(self.path, mode="r+") if to_write else array
        except (OSError, EOFError, ValueError) as error:
            raise CapscoreError(
                f"{self.path} is damaged ({error}): remove {self.manifest}, and its view is computed again"
            ) from None

    def _save(self, array: np.memmap, done: int) -> None:
        """Make the first `done` photos safe: first the features, then the number."""
        try:
            array.flush()
        except OSError as error:
            raise _unwritten(self.path, error) from error
        write_text(self.manifest, json.dumps({**self.described, "done": done}), "list of features")

    def _batches(self, done: int) -> Iterator[tuple[int, np.ndarray]]:
        """(number of its first photo, features) of each batch; the next one is decoded meanwhile."""
        starts = range(done, len(self.rows), self.settings.batch_size)
        with ThreadPoolExecutor(1) as ahead:
            coming = ahead.submit(self._pixels, done)
            for start in starts:
                pixels = coming.result()
                if start + self.settings.batch_size < len(self.rows):
                    coming = ahead.submit(self._pixels, start + self.settings.batch_size)
                yield start, self._features(start, pixels)

    def _pixels(self, start: int) -> torch.Tensor:
        views = []
        for number in range(start, min(start + self.settings.batch_size, len(self.rows))):
            row = self.rows[number]
            try:
                image = load_image(row.file)
            except ImageError as error:
                raise InputError(f"{row.photo}: {error.message}", row=number, field="photos") from None
            views.append(
                view_pixels(image, row.photo, self.view, side=self.settings.side, seed=self.settings.seed)
            )
        return torch.from_numpy(np.stack(views)).contiguous(memory_format=torch.channels_last)

    @torch.inference_mode()
    def _features(self, start: int, pixels: torch.Tensor) -> np.ndarray:
        with torch.autocast("cpu", torch.bfloat16, enabled=self.is_half), np.errstate(over="ignore"):
            features = self.network(pixels).float().contiguous().numpy().astype(np.float16)
        good = np.isfinite(features).all(axis=(1, 2, 3))
        if not good.all():
            number = start + int(np.flatnonzero(~good)[0])
            row = self.rows[number]
            raise InputError(
                f"{row.photo} ({row.name}) has features that are not finite, or too large for float16, in "
                f"view {self.view}",
                row=number,
                field="photos",
            )
        return features


def _unwritten(path: Path, error: OSError) -> ResultWriteError:
    return ResultWriteError(f"the features {path} could not be written: {error.strerror or error}")


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
    # a digest that is the same in every process, unlike Python's hash
    chance = np.random.default_rng([seed, view, zlib.crc32(photo.collection.encode()), photo.number])
    box = _crop(image.width, image.height, chance)
    pixels = np.asarray(image.resize(size, Image.Resampling.BILINEAR, box=box), dtype=np.float32)
    if chance.random() < 0.5:
        pixels = pixels[:, ::-1]
    contrast, brightness = chance.uniform(-CONTRAST, CONTRAST), chance.uniform(-BRIGHTNESS, BRIGHTNESS)
    pixels = (pixels - 127.5) * (1 + contrast) + 127.5 + brightness
    if chance.random() < GREY_SHARE:
        pixels = np.broadcast_to(pixels.mean(axis=2, keepdims=True), pixels.shape)
    scaled = (pixels.clip(0, 255) / 127.5 - 1).transpose(2, 0, 1)
    return np.ascontiguousarray(scaled, dtype=np.float32)


def _crop(width: int, height: int, chance: np.random.Generator) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of a random part of the photo, in pixels."""
    area = chance.uniform(LEAST_AREA, 1.0)
    stretch = math.exp(chance.uniform(-STRETCH, STRETCH))
    # a crop that would be wider or higher than the photo keeps its area
    across = min(1.0, max(area, math.sqrt(area * stretch)))
    down = area / across
    left, top = chance.uniform(0, 1 - across), chance.uniform(0, 1 - down)
    return left * width, top * height, (left + across) * width, (top + down) * height
