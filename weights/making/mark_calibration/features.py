"""Rows of `weights.making.mark_calibration.rows` → what the network reads, on disk.

In: rows, photos, a backbone with a feature map. Out: a folder of arrays, named by what it is made of. Every
photo, window, caption and word is embedded once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xxhash

from capscore.backbones.base import Backbone
from capscore.embedding.cache import EmbeddingCache
from capscore.embedding.embedder import Embedder
from capscore.files.console import progress_bar
from capscore.images.boxes import normalised
from capscore.images.load import load_image
from capscore.infometic.mark_calibration import MARKED_CLASSES, PhotoBatch
from capscore.infometic.regions import windows
from capscore.infometic.words import words_by_language
from training.data.alignment_features import embedded
from training.data.stored import whole_folder
from weights.making.mark_calibration.rows import names_of_things, read_mark_rows

# Most windows of a photo; only photos more than three times as wide as high have more.
MOST_WINDOWS = 40
# Photos from which the reduction of the map is computed.
_SAMPLE = 1500
_FORMAT = 6
_PHOTOS = 16


@dataclass(frozen=True, eq=False)
class MarkFeatures:
    """Features of p photos, c captions and v distinct words; arrays have the names of their files."""

    files: list[str]  # of the photos
    captions: list[str]
    words: list[tuple[str, str]]  # (language, word in lower case) of the distinct words
    vocabulary: list[dict[str, int]]  # things: language → place of the thing's name among the distinct words
    split: np.ndarray  # of each photo
    weight: np.ndarray  # (r, features), of the reduction of the map
    bias: np.ndarray  # (r,)
    side: np.ndarray  # (h, w)
    cells: np.ndarray  # float16 (p, h · w, r)
    whole: np.ndarray  # float16 (p, d)
    windows: np.ndarray  # float16 (p, MOST_WINDOWS, d)
    there: np.ndarray  # bool (p, MOST_WINDOWS)
    boxes: np.ndarray  # float16 (p, MOST_WINDOWS, 4), the windows as shares of the photo's sides
    language: np.ndarray  # of each caption
    photo: np.ndarray  # of each caption
    texts: np.ndarray  # float16 (c, d), embeddings of the captions
    start: np.ndarray  # int64 (c + 1,), where the words of each caption begin in `word` and `word_class`
    word: np.ndarray  # int64, places among `words`
    word_class: np.ndarray  # int8, places in `MARKED_CLASSES`
    embeddings: np.ndarray  # float16 (v, d), of the words alone
    support: np.ndarray  # uint8 (v, p), 255 × the highest cosine of a word with any of a photo's captions

    @cached_property
    def place_of(self) -> dict[tuple[str, str], int]:
        return {word: index for index, word in enumerate(self.words)}

    @cached_property
    def captions_of(self) -> list[np.ndarray]:
        order = np.argsort(self.photo, kind="stable")
        return np.split(order, np.searchsorted(self.photo[order], np.arange(1, len(self.files))))

    @cached_property
    def by_class(self) -> dict[tuple[str, int], np.ndarray]:
        """Language and class → its words, as often as captions have them."""
        language = np.array([code for code, _ in self.words])[self.word]
        found = {}
        for code, kind in product(np.unique(language).tolist(), range(len(MARKED_CLASSES))):
            found[code, kind] = self.word[(language == code) & (self.word_class == kind)]
        return found

    def words_of(self, caption: int) -> slice:
        return slice(int(self.start[caption]), int(self.start[caption + 1]))

    def of_split(self, name: str) -> list[int]:
        return np.flatnonzero(self.split == name).tolist()

    def seen(self, photos: Sequence[int]) -> PhotoBatch:
        arrays = (rows_at(array, photos) for array in (self.cells, self.whole, self.windows))
        return PhotoBatch(*arrays, torch.from_numpy(self.there[photos]))


def rows_at(array: np.ndarray, places: Any) -> torch.Tensor:
    """Rows of an array on disk, float32."""
    return torch.from_numpy(array[places].astype(np.float32))


def prepare(rows_file: str, backbone: Backbone, reduced: int, folder: Path) -> MarkFeatures:
    """Features of a file of rows, with `reduced` channels of the backbone's feature map."""
    digest = xxhash.xxh3_128(Path(rows_file).read_bytes())
    digest.update(f"{_FORMAT}|{backbone.fingerprint}|{reduced}".encode())
    made = folder / digest.hexdigest()
    if not made.exists():
        rows = read_mark_rows(rows_file)
        with whole_folder(made) as aside:
            arrays = _see(rows, backbone, reduced, aside) | _read(rows, backbone, aside)
            for name, array in arrays.items():
                np.save(aside / f"{name}.npy", array)
    index = json.loads((made / "index.json").read_text(encoding="utf-8"))
    index["words"] = [(language, word) for language, word in index["words"]]
    arrays = {path.stem: np.load(path, mmap_mode="r") for path in made.glob("*.npy")}
    return MarkFeatures(**index, **arrays)


def reduction(maps: np.ndarray, reduced: int) -> tuple[np.ndarray, np.ndarray]:
    """Principal components of cells (n, features): weight (reduced, features), bias (reduced,).

    The first component has variance 1, and the others keep their ratio to it.
    """
    rows = torch.from_numpy(maps).float()
    mean = rows.mean(dim=0)
    centred = rows - mean
    # of few cells the matrix is singular, and in float32 there may be no solution
    values, vectors = torch.linalg.eigh((centred.T @ centred / len(rows)).double())
    weight = (vectors[:, -reduced:].flip(1).T / values[-1].sqrt()).float()
    return weight.numpy(), (-(weight @ mean)).numpy()


def feature_maps(
    files: Sequence[str], backbone: Backbone
) -> Iterator[tuple[slice, torch.Tensor, list[tuple[int, int]]]]:
    """Places, feature maps on the CPU and sizes of some photos after the other."""
    with progress_bar("Photos", len(files)) as advance:
        for start in range(0, len(files), _PHOTOS):
            images = [load_image(file) for file in files[start : start + _PHOTOS]]
            maps = backbone.feature_maps([backbone.preprocess(image) for image in images]).cpu()
            yield slice(start, start + len(images)), maps, [image.size for image in images]
            advance(len(images))


def _on_disk(folder: Path, name: str, kind: Any, *shape: int) -> np.ndarray:
    return np.lib.format.open_memmap(folder / f"{name}.npy", "w+", kind, shape)


def _flat(maps: torch.Tensor) -> np.ndarray:
    return maps.flatten(2).transpose(1, 2).numpy()


def _see(rows: Sequence[Any], backbone: Backbone, reduced: int, folder: Path) -> dict[str, np.ndarray]:
    """Write the large arrays of photos; returns the small ones."""
    files, split = [row["file"] for row in rows], np.array([row["split"] for row in rows])
    trained = np.flatnonzero(split == "train")
    chosen = np.random.default_rng(0).choice(trained, min(_SAMPLE, len(trained)), replace=False)
    sample = [maps for _, maps, _ in feature_maps([files[place] for place in np.sort(chosen)], backbone)]
    side, channels = sample[0].shape[2:], sample[0].shape[1]
    weight, bias = reduction(np.concatenate([_flat(maps).reshape(-1, channels) for maps in sample]), reduced)
    n, dim = len(files), backbone.dim
    cells = _on_disk(folder, "cells", np.float16, n, side[0] * side[1], len(weight))
    shown = _on_disk(folder, "windows", np.float16, n, MOST_WINDOWS, dim)
    shares = _on_disk(folder, "boxes", np.float16, n, MOST_WINDOWS, 4)
    whole, there = np.zeros((n, dim), np.float16), np.zeros((n, MOST_WINDOWS), bool)
    for part, maps, sizes in feature_maps(files, backbone):
        cells[part], whole[part] = _flat(maps) @ weight.T + bias, backbone.encode_maps(maps)
        boxes = [normalised(windows(size)[1 : MOST_WINDOWS + 1], size) for size in sizes]
        there[part] = np.arange(MOST_WINDOWS) < np.array([len(own) for own in boxes])[:, None]
        shown[part][there[part]] = backbone.encode_map_regions(maps, boxes)
        shares[part][there[part]] = np.concatenate(boxes)
    of_map = {"weight": weight, "bias": bias, "side": np.array(side)}
    return {"split": split, "whole": whole, "there": there, **of_map}


def _read(rows: Sequence[Any], backbone: Backbone, folder: Path) -> dict[str, np.ndarray]:
    """Write the support of words, and the index; returns the other arrays of captions and words."""
    listed = [(photo, *caption[:2]) for photo, row in enumerate(rows) for caption in row["captions"]]
    photos, captions, languages = map(list, zip(*listed, strict=True))
    places: dict[tuple[str, str], int] = {}
    word, classes, starts = [], [], [0]
    for language, own in zip(languages, words_by_language(captions, languages), strict=True):
        for marked in own:
            if marked.word_class in MARKED_CLASSES:
                word.append(places.setdefault((language, marked.text.lower()), len(places)))
                classes.append(MARKED_CLASSES.index(marked.word_class))
        starts.append(len(word))
    vocabulary = [
        {language: places.setdefault((language, name), len(places)) for language, name in names.items()}
        for names in names_of_things()
    ]
    embedder = Embedder(backbone, cache=EmbeddingCache(None))
    photo, start = np.array(photos, np.int64), np.array(starts, np.int64)
    arrays = {"photo": photo, "start": start, "word": np.array(word, np.int64)}
    arrays |= {"word_class": np.array(classes, np.int8), "language": np.array(languages)}
    arrays["texts"] = embedded(embedder, captions).astype(np.float16)
    arrays["embeddings"] = embedded(embedder, [text for _, text in places]).astype(np.float16)
    support = _on_disk(folder, "support", np.uint8, len(places), len(rows))
    rows_of_words = torch.from_numpy(arrays["embeddings"]).float()
    _support(rows_of_words, arrays["word"], np.repeat(photo, np.diff(start)), support)
    index = {"files": [row["file"] for row in rows], "captions": captions, "words": list(places)}
    content = json.dumps({**index, "vocabulary": vocabulary}, ensure_ascii=False)
    (folder / "index.json").write_text(content, encoding="utf-8")
    return arrays


def _support(embeddings: torch.Tensor, word: np.ndarray, photo: np.ndarray, out: np.ndarray) -> None:
    """Write 255 × the highest cosine of each word with the words of each photo to `out` (v, p)."""
    pairs = np.unique(np.stack([photo, word], axis=1), axis=0)
    of_photo, own = torch.from_numpy(pairs[:, 0].copy()), torch.from_numpy(pairs[:, 1].copy())
    columns = embeddings.T.contiguous()
    for start in range(0, len(embeddings), 256):
        cosines = (embeddings[start : start + 256] @ columns)[:, own]
        best = torch.full((len(cosines), out.shape[1]), -1.0)
        best.scatter_reduce_(1, of_photo[None].expand(len(cosines), -1), cosines, "amax")
        out[start : start + 256] = (best.clamp(0.0, 1.0) * 255.0).round().byte().numpy()
