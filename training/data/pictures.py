"""What rows describe → embeddings: each distinct image, or texts that stand in for one, once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Literal

import numpy as np
import torch
import xxhash
from PIL import Image

from capscore.backbones.base import Backbone
from capscore.embedding.cache import EmbeddingCache
from capscore.embedding.embedder import Embedder, ImageReader
from capscore.embedding.photos import in_batches
from capscore.errors import ImageError
from capscore.images.load import load_image
from training.data.rows import Row
from training.data.stored import StoredRows

# What of an image stays the same in training, and is computed once: its embedding, where the image tower is
# not trained; its feature map, where only what follows the map is; nothing but the file.
Fixed = Literal["embedding", "map", "pixels"]
# Rows that are read and embedded at a time.
_CHUNK = 1024
_AT_ONCE = 32
_THREADS = 8


class Pictures:
    """Distinct images and stand-ins, with their embeddings in `matrix` before any training.

    A stand-in is a text, or the mean of several, scaled to unit length; it goes through the text tower. Equal
    pixels, or equal stand-ins, are one picture: `keys` are theirs, and `row_of` the rows in the matrix.
    """

    def __init__(self, embedder: Embedder, matrix: StoredRows, reader: ImageReader | None = None):
        self.embedder, self.matrix, self.reader = embedder, matrix, reader
        self.keys: list[str] = []
        self.stand_ins: set[int] = set()
        self.row_of: list[int] = []
        self._numbers: dict[str, int] = {}

    def add(self, rows: Iterable[Row]) -> tuple[list[Row], list[int]]:
        """Embed the pictures of rows that are new; an ImageError names the row of a damaged image.

        Returns the rows without their images, and the number of each row's picture. Rows are read in chunks.
        """
        known: list[Row] = []
        numbers: list[int] = []
        for chunk in in_batches(rows, _CHUNK):
            keys = {
                False: iter(self._add_images([row for row in chunk if not row.stand_in])),
                True: iter(self._add_stand_ins([row.stand_in for row in chunk if row.stand_in])),
            }
            numbers += [self._numbers[next(keys[bool(row.stand_in)])] for row in chunk]
            known += [replace(row, image=None) for row in chunk]
        return known, numbers

    def _add_images(self, rows: Sequence[Row]) -> list[str]:
        shown = self.embedder.images([row.image for row in rows], on_error="skip", reader=self.reader)
        raise_first(shown.failures, rows)
        new = self._number(shown.keys)
        self.row_of += self.matrix.append(shown.matrix[shown.index[new]])
        return shown.keys

    def _add_stand_ins(self, listed: Sequence[Sequence[str]]) -> list[str]:
        texts = [text for several in listed for text in several]
        embedded = self.embedder.texts(texts, prefix=self.embedder.backbone.prefix)
        ends = np.cumsum([len(several) for several in listed], dtype=np.int64)
        parts = np.split(embedded.matrix[embedded.index], ends)
        keys = []
        for several, end in zip(listed, ends.tolist(), strict=True):
            keys.append(embedded.keys[end - 1] if len(several) == 1 else _key_of_texts(several))
        new = self._number(keys)
        self.stand_ins.update(self._numbers[keys[row]] for row in new)
        self.row_of += self.matrix.append(np.array([_unit_mean(parts[row]) for row in new], np.float32))
        return keys

    def _number(self, keys: Sequence[str]) -> list[int]:
        """Number the keys that have no number yet; returns their rows."""
        new = []
        for row, key in enumerate(keys):
            if key not in self._numbers:
                self._numbers[key] = len(self.keys)
                self.keys.append(key)
                new.append(row)
        return new


def raise_first(failures: Mapping[int, ImageError], rows: Sequence[Row]) -> None:
    """Raise the first error of images, with the name of its row; nothing where there is none."""
    for index in sorted(failures):
        raise ImageError(f"{rows[index].where}, image: {failures[index].message}")


def _unit_mean(vectors: np.ndarray) -> np.ndarray:
    """Mean of unit rows, scaled to unit length; a single row as it is."""
    if len(vectors) == 1:
        return vectors[0]
    mean = vectors.mean(axis=0)
    return mean / max(float(np.linalg.norm(mean)), 1e-12)


def _key_of_texts(texts: Sequence[str]) -> str:
    """Key of several texts that stand in for an image."""
    joined = "\x1f".join(texts).encode("utf-8", "surrogatepass")
    return f"texts:{xxhash.xxh3_128_hexdigest(joined)}"


class TrainedPictures(Pictures):
    """Pictures whose embeddings follow the training of the image tower; stand-ins stay as they were.

    What is `fixed` of an image is computed once, and stored in temporary files.
    """

    def __init__(self, backbone: Backbone, fixed: Fixed):
        embedder = Embedder(backbone, cache=EmbeddingCache(None))
        super().__init__(embedder, StoredRows(backbone.dim), self)
        self.backbone, self.fixed = backbone, fixed
        self._images: dict[str, object] = {}
        self._maps: StoredRows | None = None
        self._map_shape: tuple[int, ...] = ()
        self._map_row: dict[str, int] = {}

    def _add_images(self, rows: Sequence[Row]) -> list[str]:
        if self.fixed != "pixels":
            return super()._add_images(rows)
        images = [row.image for row in rows]
        with self.embedder.photos(images, on_error="skip") as photos:
            # one that cannot be read ends a run in its first minutes
            for _ in photos.each(lambda key, image: None):
                pass
        raise_first(photos.failures, rows)
        self._images |= zip(photos.keys, images, strict=True)
        self.row_of += [-1 for _ in self._number(photos.keys)]  # nothing of them stays the same
        return photos.keys

    def wanted(self, keys: Sequence[str]) -> Collection[str]:
        if self.fixed != "map":
            return ()
        return {key for key in keys if key not in self._numbers}

    def look(self, images: Mapping[str, Image.Image]) -> None:
        maps = self.embedder.maps(list(images.values())).cpu().numpy()
        if self._maps is None:
            # a map is a thousand times larger than an embedding
            self._map_shape = maps.shape[1:]
            self._maps = StoredRows(maps[0].size, dtype=np.float16)
        self._map_row |= zip(images, self._maps.append(maps.reshape(len(maps), -1)), strict=True)

    def embed(self, numbers: Sequence[int]) -> torch.Tensor:
        """Embeddings (n, d) of pictures as the backbone is now, with gradients where it is trained.

        Each distinct picture is embedded once.
        """
        stored: list[int] = []
        moved: list[int] = []
        for number in dict.fromkeys(numbers):
            part = stored if self.fixed == "embedding" or number in self.stand_ins else moved
            part.append(number)
        parts = []
        if stored:
            parts.append(self._read(self.matrix, [self.row_of[number] for number in stored]))
        if moved:
            parts.append(self._embed_again([self.keys[number] for number in moved]).float())
        rows = torch.cat(parts)
        row_of = {number: row for row, number in enumerate((*stored, *moved))}
        return rows[torch.tensor([row_of[number] for number in numbers], device=rows.device)]

    def _embed_again(self, keys: Sequence[str]) -> torch.Tensor:
        if self._maps is not None:
            maps = self._read(self._maps, [self._map_row[key] for key in keys])
            return self.backbone.embed_maps(maps.reshape(-1, *self._map_shape))
        with ThreadPoolExecutor(_THREADS) as pool:
            return self.backbone.embed_pixels(list(pool.map(self._pixels, keys)))

    def _pixels(self, key: str) -> torch.Tensor:
        return self.backbone.preprocess(load_image(self._images[key]))

    def _read(self, matrix: StoredRows, rows: Sequence[int]) -> torch.Tensor:
        return torch.from_numpy(matrix.finish()[rows].astype(np.float32)).to(self.backbone.device)

    @torch.no_grad()
    def embedded(self, numbers: Sequence[int]) -> np.ndarray:
        """`embed` without gradients, a few at a time, float32 (n, d)."""
        distinct, index = np.unique(np.asarray(numbers, dtype=np.int64), return_inverse=True)
        parts = [self.embed(part).cpu().numpy() for part in in_batches(distinct.tolist(), _AT_ONCE)]
        return np.concatenate(parts)[index]
