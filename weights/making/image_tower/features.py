"""Photos → what the frozen half of the trunk gives for each view, computed once, in memory-mapped files.

A view is a file `view-0.npy` of (photos, channels, height, width) in float16, with `view-0.json` beside it:
the photos, the settings, the digest of the frozen half, and how many photos are done. A run that is killed
continues behind the last batch that is on disk, with the same batches, so it ends with the same file.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from capscore.backbones.base import weights_digest
from capscore.errors import CapscoreError, ImageError, InputError, ResultWriteError
from capscore.files.console import progress_bar
from capscore.files.whole_file import write_text
from capscore.images.load import load_image
from training.engine.processes import say
from training.engine.training_log import duration
from weights.making.image_tower.rows import PhotoRow
from weights.making.image_tower.views import view_pixels

# Batches between two moments at which a killed run can continue.
_SAVE_EVERY = 8
# Seconds between two lines about the progress.
_SAY_EVERY = 60.0
_FORMAT = 1


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
        began, from_photo, said = time.monotonic(), done, 0.0
        array = self.opened(to_write=True) if done else None
        with progress_bar(f"View {self.view}", len(self.rows), done=done) as advance:
            for number, (start, features) in enumerate(self._batches(done), start=1):
                if array is None:
                    array = self._made(features.shape[1:])
                array[start : start + len(features)] = features
                done = start + len(features)
                advance(len(features))
                if number % _SAVE_EVERY and done < len(self.rows):
                    continue
                self._save(array, done)
                seconds = time.monotonic() - began
                if seconds - said > _SAY_EVERY and done < len(self.rows):
                    said = seconds
                    left = seconds / (done - from_photo) * (len(self.rows) - done)
                    say(f"view {self.view}: {done:,} of {len(self.rows):,} photos, {duration(left)} left")
        say(f"view {self.view}: {done - from_photo:,} photos in {duration(time.monotonic() - began)}")

    # ------------------------------------------------------------------------ files

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
            raise ResultWriteError(
                f"the features {self.path} could not be written: {error.strerror or error}"
            ) from error

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
            raise ResultWriteError(
                f"the features {self.path} could not be written: {error.strerror or error}"
            ) from error
        write_text(self.manifest, json.dumps({**self.described, "done": done}), "list of features")

    # ---------------------------------------------------------------------- network

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
