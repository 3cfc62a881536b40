"""Stored features and labels for InfoMetIC → batches of tensors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from capscore.errors import CapscoreError
from capscore.infometic.network import WordContext
from capscore.infometic.words import spread
from training.data.photos import Photos

# Files of the features.
VECTORS, PIECES, INDEX = "vectors.npy", "pieces.npy", "index.npz"


@dataclass(frozen=True, eq=False)
class Lists:
    """Lists of lists as one array: list i is `flat[start[i]:start[i + 1]]`."""

    start: np.ndarray
    flat: np.ndarray

    @classmethod
    def of(cls, lists: Iterable[Sequence[Any] | np.ndarray], dtype: type, *shape: int) -> Lists:
        """Lists of numbers, or of arrays of a shape."""
        lists = list(lists)
        start = np.cumsum([0, *map(len, lists)], dtype=np.int64)
        flat: Any = list(chain.from_iterable(lists))
        return cls(start, np.array(flat, dtype=dtype).reshape(-1, *shape))

    def __getitem__(self, index: int) -> np.ndarray:
        return self.flat[self.start[index] : self.start[index + 1]]


@dataclass(frozen=True)
class ImageBatch:
    """Images as `InfoMetIC.encode_images` takes them: (b, d), (b, m, d), (b, m, 4), bool (b, m)."""

    global_: Tensor
    regions: Tensor
    boxes: Tensor
    mask: Tensor


@dataclass(frozen=True)
class TextBatch:
    """Texts as `InfoMetIC.encode_texts` takes them, with the labels of their words.

    Of each piece, `shares` (b, l, w) has the part that lies in each semantic word; `labels` (b, w) are 1 for
    right and 0 for wrong; `counted` (b, w) is True for a semantic word of which a piece is seen.
    """

    global_: Tensor
    tokens: Tensor
    mask: Tensor
    shares: Tensor
    labels: Tensor
    counted: Tensor
    context: WordContext | None = field(default=None, kw_only=True)


@dataclass(frozen=True, eq=False)
class AlignmentData:
    """Features and labels of n pairs of an image and a caption, among u images and t texts.

    Attributes:
        vectors, piece_vectors: float32 memory maps, (v, d) of images, regions and texts, (p, d) of pieces.
        regions, boxes: For each image rows of `vectors`, and boxes (m, 4) in shares of the image; all 0 for a
            region without a place.
        pieces: For each text, polluted ones included, rows of `piece_vectors`.
        words, spans: For each text the labels, 1 for right and 0 for wrong, of the semantic words of which a
            piece is seen, and where they begin and end.
        shares: For each text (piece, word, share of the piece that lies in the word), numbered within it.
        n_semantic: int64 (t,), number of semantic words of a text, including words that were cut off.
        labels: For each pair 1 for its image's regions, and the null region, that the caption mentions, else
            0; empty where it is unknown what the caption mentions.
        polluted: For each pair numbers of texts; the wrong word of each is seen.
        photos: The photos of the pairs; one photo may be several images, with regions of their own.
        added: float16 (…, d), what each entry of `words` adds to its text (`added_by_words`); None if the
            network does not read it.
    """

    vectors: np.ndarray
    piece_vectors: np.ndarray
    texts: list[str]
    image_vector: np.ndarray
    regions: Lists
    boxes: Lists
    text_vector: np.ndarray
    pieces: Lists
    words: Lists
    spans: Lists
    shares: Lists
    n_semantic: np.ndarray
    pair_image: np.ndarray
    pair_text: np.ndarray
    pair_language: np.ndarray
    labels: Lists
    polluted: Lists
    photos: Photos
    digest: str
    added: np.ndarray | None = None

    def images(self, numbers: Sequence[int], device: str = "cpu") -> ImageBatch:
        """Images by their numbers, padded to the most regions among them."""
        regions, mask = self._padded([self.vectors[self.regions[number]] for number in numbers])
        boxes, _ = self._padded([self.boxes[number] for number in numbers])
        whole = np.asarray(self.vectors[self.image_vector[list(numbers)]], dtype=np.float32)
        return ImageBatch(*_tensors((whole, regions, boxes, mask), device))

    def text_batch(self, numbers: Sequence[int], device: str = "cpu", *, length: int = 0) -> TextBatch:
        """Texts by their numbers, padded to the most pieces among them, or to `length` if that is more."""
        tokens, mask = self._padded([self.piece_vectors[self.pieces[number]] for number in numbers], length)
        labels, counted = self._padded([self.words[number] for number in numbers])
        shares = np.zeros((*mask.shape, labels.shape[1]), np.float32)
        for row, number in enumerate(numbers):
            piece, word, share = self.shares[number].T
            shares[row, piece.astype(np.int64), word.astype(np.int64)] = share
        whole = np.asarray(self.vectors[self.text_vector[list(numbers)]], dtype=np.float32)
        made = _tensors((whole, tokens, mask, shares, labels, counted), device)
        return TextBatch(*made, context=self._context(numbers, shares, device))

    def _context(self, numbers: Sequence[int], shares: np.ndarray, device: str) -> WordContext | None:
        """What the words of texts add, given the shares (b, l, w) of pieces; None if it is not stored."""
        if self.added is None:
            return None
        found = []
        for number, parts in zip(numbers, shares, strict=True):
            start, stop = self.words.start[number : number + 2]
            found.append(spread(parts[:, : stop - start], self.added[start:stop].astype(np.float32)))
        return WordContext(*_tensors(map(np.stack, zip(*found, strict=True)), device))

    @staticmethod
    def _padded(lists: Sequence[np.ndarray], length: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """n arrays (m, …) as one, float32 (n, most, …), and bool (n, most), True for their entries."""
        length = max(length, *map(len, lists), 0)
        shape = lists[0].shape[1:] if lists else ()
        padded = np.zeros((len(lists), length, *shape), np.float32)
        mask = np.zeros((len(lists), length), dtype=bool)
        for row, values in enumerate(lists):
            padded[row, : len(values)], mask[row, : len(values)] = values, True
        return padded, mask

    def region_labels(self, pairs: Sequence[int], most: int, device: str = "cpu") -> Tensor:
        """Labels of the regions of pairs and, last, of the null region: (b, most + 1)."""
        labels = np.zeros((len(pairs), most + 1), np.float32)
        for row, pair in enumerate(pairs):
            *regions, labels[row, -1] = self.labels[pair]
            labels[row, : len(regions)] = regions
        return torch.from_numpy(labels).to(device)

    def with_region_labels(self) -> np.ndarray:
        """bool (n,): the pairs for which it is known what the caption mentions."""
        return np.diff(self.labels.start) > 0

    def with_pollution(self) -> np.ndarray:
        """bool (n,): the pairs that have a polluted caption."""
        return np.diff(self.polluted.start) > 0

    def hard_negatives(self) -> list[np.ndarray]:
        """For each pair, the photo's other captions in the same language with fewer semantic words."""
        groups: dict[tuple[int, str], list[int]] = {}
        photos = self.photos.number.tolist()
        for pair, key in enumerate(zip(photos, self.pair_language.tolist(), strict=True)):
            groups.setdefault(key, []).append(pair)
        found: list[np.ndarray] = [np.zeros(0, np.int64)] * len(photos)
        for pairs in groups.values():
            texts = np.unique(self.pair_text[pairs])
            for pair in pairs:
                found[pair] = texts[self.n_semantic[texts] < self.n_semantic[self.pair_text[pair]]]
        return found


def _tensors(arrays: Iterable[np.ndarray], device: str) -> list[Tensor]:
    return [torch.from_numpy(array).to(device) for array in arrays]


def store_features(
    folder: Path, arrays: Mapping[str, np.ndarray | Lists], texts: Sequence[str], photos: Photos
) -> None:
    """Write what `load_features` reads besides the matrices."""
    lists = json.dumps([list(texts), photos.names, photos.keys]).encode()
    stored: dict[str, Any] = {"json": np.frombuffer(lists, np.uint8), "photo": photos.number}
    for name, array in arrays.items():
        if isinstance(array, Lists):
            stored |= {name: array.flat, f"{name}_start": array.start}
        else:
            stored[name] = array
    np.savez(folder / INDEX, **stored)


def load_features(folder: str | Path) -> AlignmentData:
    """Read what `prepare` stored in a folder; a CapscoreError if a file is missing or damaged."""
    folder = Path(folder).expanduser()
    try:
        with np.load(folder / INDEX, allow_pickle=False) as index:
            arrays: dict[str, Any] = {name: index[name] for name in index.files}
        for name in [name for name in arrays if f"{name}_start" in arrays]:
            arrays[name] = Lists(arrays.pop(f"{name}_start"), arrays[name])
        texts, names, keys = json.loads(arrays.pop("json").tobytes())
        return AlignmentData(
            vectors=np.load(folder / VECTORS, mmap_mode="r"),
            piece_vectors=np.load(folder / PIECES, mmap_mode="r"),
            texts=texts,
            photos=Photos(arrays.pop("photo"), keys, [*map(tuple, names)]),
            digest=folder.name,
            **arrays,
        )
    except Exception as error:  # every library raises its own error for a damaged file
        mended = "remove the folder, and the same command computes them again"
        problem = f"cannot be read ({type(error).__name__}: {error}); {mended}"
        raise CapscoreError(f"the features in {folder} {problem}") from error
