"""What captions describe → embeddings, as far as training moves them: each distinct image or stand-in once.

In: rows with an image or texts that stand in for it. Out: `Pictures`, and the number of each row's picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import xxhash
from torch.nn import functional as F

from capscore.backbones.base import Backbone
from capscore.errors import ImageError
from capscore.files.console import progress_bar
from capscore.images.load import content_key, load_image
from training.data.rows import Row
from training.data.stored_rows import StoredRows

# What of an image stays the same in training, and is computed once: its embedding, where the image tower is
# not trained; its feature map, where only what follows the map is; nothing but the file.
Fixed = Literal["embedding", "map", "pixels"]
_AT_ONCE = 32
_TEXTS_AT_ONCE = 64
_THREADS = 8


class Pictures:
    """Distinct images and stand-ins.

    Args:
        backbone: Backbone before any training. Stand-ins go through its text tower as it is now, and are
            never trained.
        fixed: What is computed once.
        folder: Folder for a temporary file of what is computed once; None for the system's.

    Attributes:
        keys: Content key of each: equal files, or equal stand-ins, are one picture.
        n_stand_ins: Number of stand-ins among them.
    """

    def __init__(self, backbone: Backbone, fixed: Fixed, folder: Path | None = None):
        self.backbone, self.fixed, self.folder = backbone, fixed, folder
        self.keys: list[str] = []
        self._numbers: dict[str, int] = {}
        self._images: dict[int, Any] = {}
        self._stand_ins: dict[int, torch.Tensor] = {}
        # number of a picture → its row in the matrix of what is computed once
        self._stored_row: dict[int, int] = {}
        self._stored: StoredRows | None = None
        self._shape: tuple[int, ...] = ()
        self._matrix: np.ndarray | None = None

    @property
    def n_stand_ins(self) -> int:
        return len(self._stand_ins)

    def add(self, rows: Sequence[Row]) -> list[int]:
        """Take in the pictures of rows; returns the number of each row's picture.

        Raises:
            ImageError: an image cannot be read; names its row.
        """
        with ThreadPoolExecutor(_THREADS) as pool:
            keys = list(pool.map(_key, rows))
            new: dict[int, Row] = {}
            for row, key in zip(rows, keys, strict=True):
                number = self._numbers.setdefault(key, len(self.keys))
                if number == len(self.keys):
                    self.keys.append(key)
                    new[number] = row
            self._add_images({number: row for number, row in new.items() if not row.stand_in}, pool)
        self._add_stand_ins({number: row for number, row in new.items() if row.stand_in})
        return [self._numbers[key] for key in keys]

    def embed(self, numbers: Sequence[int]) -> torch.Tensor:
        """Embeddings (n, d) of pictures as the backbone is now, with gradients where it is trained.

        Each distinct picture is embedded once.
        """
        distinct = list(dict.fromkeys(numbers))
        shown = [number for number in distinct if number not in self._stand_ins]
        texts = [number for number in distinct if number in self._stand_ins]
        parts = [self._embed_images(shown)] if shown else []
        if texts:
            stacked = torch.stack([self._stand_ins[number] for number in texts])
            parts.append(stacked.to(self.backbone.device))
        row_of = {number: row for row, number in enumerate((*shown, *texts))}
        rows = torch.cat([part.float() for part in parts])
        return rows[torch.tensor([row_of[number] for number in numbers], device=rows.device)]

    def _embed_images(self, numbers: Sequence[int]) -> torch.Tensor:
        if self.fixed == "pixels":
            with ThreadPoolExecutor(_THREADS) as pool:
                return self.backbone.embed_pixels(list(pool.map(self._pixels, numbers)))
        assert self._stored is not None, "images have been added"
        if self._matrix is None:
            self._matrix = self._stored.finish()
        read = np.array(self._matrix[[self._stored_row[number] for number in numbers]], dtype=np.float32)
        stored = torch.from_numpy(read.reshape(-1, *self._shape)).to(self.backbone.device)
        return stored if self.fixed == "embedding" else self.backbone.embed_maps(stored)

    @torch.no_grad()
    def embedded(self, numbers: Sequence[int]) -> np.ndarray:
        """`embed` without gradients, a few at a time, float32 (n, d)."""
        distinct, index = np.unique(np.asarray(numbers, dtype=np.int64), return_inverse=True)
        starts = range(0, len(distinct), _AT_ONCE)
        parts = [self.embed(distinct[start : start + _AT_ONCE].tolist()).cpu().numpy() for start in starts]
        return np.concatenate(parts)[index]

    def _pixels(self, number: int) -> torch.Tensor:
        return self.backbone.preprocess(load_image(self._images[number]))

    def _add_images(self, rows: dict[int, Row], pool: ThreadPoolExecutor) -> None:
        """Open each image once, so that one that cannot be read ends a run in its first minutes."""
        self._images |= {number: row.image for number, row in rows.items()}

        def read(number: int) -> torch.Tensor:
            try:
                return self._pixels(number)
            except ImageError as error:
                raise ImageError(f"{rows[number].where}, image: {error.message}") from None

        listed = list(rows)
        with progress_bar("Reading images", len(listed)) as advance:
            for start in range(0, len(listed), _AT_ONCE):
                numbers = listed[start : start + _AT_ONCE]
                pixels = list(pool.map(read, numbers))
                if self.fixed != "pixels":
                    self._store(numbers, pixels)
                advance(len(numbers))

    def _store(self, numbers: list[int], pixels: list[torch.Tensor]) -> None:
        if self.fixed == "embedding":
            rows = self.backbone.encode_pixels(pixels)
        else:
            rows = self.backbone.feature_maps(pixels).cpu().numpy()
        self._shape, self._matrix = rows.shape[1:], None
        if self._stored is None:
            # a map is a thousand times larger than an embedding
            dtype = np.float32 if self.fixed == "embedding" else np.float16
            self._stored = StoredRows(int(np.prod(self._shape)), self.folder, dtype)
        self._stored_row |= zip(numbers, self._stored.append(rows.reshape(len(rows), -1)), strict=True)

    def _add_stand_ins(self, rows: dict[int, Row]) -> None:
        texts = list(dict.fromkeys(text for row in rows.values() for text in row.stand_in))
        found: dict[str, torch.Tensor] = {}
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            part = texts[start : start + _TEXTS_AT_ONCE]
            encoded = self.backbone.encode_texts([self.backbone.prefix + text for text in part])
            found |= zip(part, torch.from_numpy(encoded), strict=True)
        for number, row in rows.items():
            mean = torch.stack([found[text] for text in row.stand_in]).mean(dim=0)
            self._stand_ins[number] = F.normalize(mean, dim=0)


def _key(row: Row) -> str:
    if row.stand_in:
        joined = "\x1f".join(row.stand_in).encode("utf-8", "surrogatepass")
        return f"texts:{xxhash.xxh3_128_hexdigest(joined)}"
    try:
        return content_key(row.image)
    except ImageError as error:
        raise ImageError(f"{row.where}, image: {error.message}") from None
