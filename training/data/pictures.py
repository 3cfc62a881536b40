"""What captions describe → embeddings, as far as training moves them: each distinct image or stand-in once.

In: rows with an image or texts that stand in for it. Out: `Pictures`, and the number of each row's picture.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
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
from training.data.rated_rows import RatedRow
from training.data.stored_rows import StoredRows

# What of an image stays the same in training, and is computed once: its embedding, where the image tower is
# not trained; its feature map, where only what follows the map is; nothing but the file.
Kept = Literal["embedding", "map", "pixels"]
_CHUNK = 1024
_AT_ONCE = 32
_IN_MEMORY = 2**30


class Pictures:
    """Distinct images and stand-ins.

    Args:
        backbone: Backbone before any training. Stand-ins go through its text tower as it is now, and are
            never trained.
        kept: What is computed once.
        folder: Folder for temporary files, if what is kept takes more than a gigabyte; None for the system's.

    Attributes:
        keys: Content key of each: equal files, or equal stand-ins, are one picture.
        n_stand_ins: Number of stand-ins among them.
    """

    def __init__(self, backbone: Backbone, kept: Kept, folder: Path | None = None):
        self.backbone, self.kept = backbone, kept
        self.keys: list[str] = []
        self.n_stand_ins = 0
        self._folder = folder
        self._places: dict[str, int] = {}
        self._images: dict[int, Any] = {}
        # number of a picture → its row in the matrix of what is kept
        self._row: dict[int, int] = {}
        self._fixed: dict[int, torch.Tensor] = {}
        self._stored: StoredRows | None = None
        self._shape: tuple[int, ...] = ()
        self._matrix: np.ndarray | None = None

    def add(self, rows: Iterable[RatedRow]) -> list[int]:
        """Take in the pictures of rows; returns the number of each row's picture.

        Raises:
            ImageError: an image cannot be read; names its row's place.
        """
        numbers: list[int] = []
        source = iter(rows)
        with ThreadPoolExecutor(8) as pool:
            while chunk := list(islice(source, _CHUNK)):
                keys = list(pool.map(_key, chunk))
                fresh = {}
                for row, key in zip(chunk, keys, strict=True):
                    if key not in self._places:
                        fresh[len(self.keys)] = row
                        self._places[key] = len(self.keys)
                        self.keys.append(key)
                numbers += [self._places[key] for key in keys]
                self._take({n: row for n, row in fresh.items() if not row.stand_in}, pool)
                self._stand_in({n: row for n, row in fresh.items() if row.stand_in})
        return numbers

    def finish(self) -> None:
        """Call once after the last `add`."""
        if self._stored is not None:
            self._matrix = self._stored.finish()

    def n_calls(self, numbers: Sequence[int]) -> int:
        """How often what is trained of the image tower computes for these pictures: once, or never."""
        return int(self.kept != "embedding" and any(number not in self._fixed for number in numbers))

    def embed(self, numbers: Sequence[int], *, calls: int = 0) -> torch.Tensor:
        """Embeddings (n, d) of pictures as the backbone is now, with gradients where it is trained.

        Each distinct picture is embedded once.

        Args:
            numbers: Numbers of pictures, at least one.
            calls: 1 to have the tower compute even if it need not.
        """
        distinct = list(dict.fromkeys(numbers))
        shown = [number for number in distinct if number not in self._fixed]
        if calls > self.n_calls(numbers):
            shown = [next(number for number in range(len(self.keys)) if number not in self._fixed)]
        at = self.backbone.device
        parts = []
        if shown and self.kept == "pixels":
            with ThreadPoolExecutor(8) as pool:
                parts.append(self.backbone.embed_pixels(list(pool.map(self._pixels, shown))))
        elif shown:
            assert self._matrix is not None, "finish() comes before embed()"
            read = np.array(self._matrix[[self._row[number] for number in shown]], dtype=np.float32)
            kept = torch.from_numpy(read.reshape(-1, *self._shape)).to(at)
            parts.append(kept if self.kept == "embedding" else self.backbone.embed_maps(kept))
        fixed = [number for number in distinct if number in self._fixed]
        if fixed:
            parts.append(torch.stack([self._fixed[number] for number in fixed]).to(at))
        place = {number: row for row, number in enumerate((*shown, *fixed))}
        rows = torch.cat([part.float() for part in parts])
        return rows[torch.tensor([place[number] for number in numbers], device=rows.device)]

    @torch.no_grad()
    def embedded(self, numbers: Sequence[int]) -> np.ndarray:
        """`embed` without gradients, a few at a time, float32 (n, d)."""
        distinct = list(dict.fromkeys(numbers))
        parts = [
            self.embed(distinct[start : start + _AT_ONCE]).cpu().numpy()
            for start in range(0, len(distinct), _AT_ONCE)
        ]
        place = {number: row for row, number in enumerate(distinct)}
        return np.concatenate(parts)[[place[number] for number in numbers]]

    def _pixels(self, number: int) -> torch.Tensor:
        return self.backbone.preprocess(load_image(self._images[number]))

    def _take(self, fresh: dict[int, RatedRow], pool: ThreadPoolExecutor) -> None:
        """Images: opened once, so that one that cannot be read ends a run in its first minutes."""
        if not fresh:
            return
        self._images |= {number: row.image for number, row in fresh.items()}
        listed = list(fresh.items())
        with progress_bar("Reading images", len(listed)) as advance:
            for start in range(0, len(listed), _AT_ONCE):
                part = listed[start : start + _AT_ONCE]
                pixels = list(pool.map(self._read, part))
                if self.kept != "pixels":
                    self._store([number for number, _ in part], pixels)
                advance(len(part))

    def _read(self, item: tuple[int, RatedRow]) -> torch.Tensor:
        number, row = item
        try:
            return self._pixels(number)
        except ImageError as error:
            raise ImageError(f"{row.place}, image: {error.message}") from None

    def _store(self, numbers: list[int], pixels: list[torch.Tensor]) -> None:
        if self.kept == "embedding":
            rows, dtype = self.backbone.encode_pixels(pixels), np.float32
        else:
            # in float16: a map is a thousand times larger than an embedding
            rows, dtype = self.backbone.feature_maps(pixels).cpu().numpy(), np.float16
        self._shape = rows.shape[1:]
        if self._stored is None:
            size = int(np.prod(self._shape))
            self._stored = StoredRows(size, self._folder, _IN_MEMORY, dtype)
        self._row |= {number: len(self._row) + index for index, number in enumerate(numbers)}
        self._stored.append(np.ascontiguousarray(rows.reshape(len(rows), -1), dtype=dtype))

    def _stand_in(self, fresh: dict[int, RatedRow]) -> None:
        self.n_stand_ins += len(fresh)
        texts = list(dict.fromkeys(text for row in fresh.values() for text in row.stand_in))
        place = {text: number for number, text in enumerate(texts)}
        parts = [
            torch.from_numpy(
                self.backbone.encode_texts([self.backbone.prefix + t for t in texts[start : start + 64]])
            )
            for start in range(0, len(texts), 64)
        ]
        rows = torch.cat(parts) if parts else torch.zeros(0, self.backbone.dim)
        for number, row in fresh.items():
            self._fixed[number] = F.normalize(rows[[place[text] for text in row.stand_in]].mean(dim=0), dim=0)


def _key(row: RatedRow) -> str:
    if row.stand_in:
        joined = "\x1f".join(row.stand_in).encode("utf-8", "surrogatepass")
        return f"texts:{xxhash.xxh3_128_hexdigest(joined)}"
    try:
        return content_key(row.image)
    except ImageError as error:
        raise ImageError(f"{row.place}, image: {error.message}") from None
