"""Rows of `weights.making.mark_calibration.rows` → what the network reads, on disk.

In: rows, photos, a backbone with a feature map. Out: a folder of arrays. Every photo, window, caption and
word is embedded once. A folder made from the same rows with the same backbone is read again.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xxhash

from capscore.backbones.base import Backbone
from capscore.errors import InputError
from capscore.images.boxes import normalised
from capscore.images.load import load_image
from capscore.infometic.mark_calibration import MARKED_CLASSES
from capscore.infometic.regions import windows
from capscore.infometic.words import caption_words
from weights.making.mark_calibration.rows import names_of_things, read_mark_rows

# Most windows of a photo; only photos more than three times as wide as high have more.
MOST_WINDOWS = 40
# Photos from which the reduction of the map is computed.
_SAMPLE = 1500
_FORMAT = 5
_PHOTOS, _TEXTS = 16, 256
# Arrays that are read from disk where they are needed.
_BIG = ("cells", "windows", "texts", "embeddings", "support")

Rows = Sequence[dict[str, Any]]


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
        return {
            (code, kind): self.word[(language == code) & (self.word_class == kind)]
            for code in np.unique(language).tolist()
            for kind in range(len(MARKED_CLASSES))
        }

    def words_of(self, caption: int) -> slice:
        return slice(int(self.start[caption]), int(self.start[caption + 1]))

    def of_split(self, name: str) -> list[int]:
        return np.flatnonzero(self.split == name).tolist()


def prepare(
    rows_file: Path, backbone: Backbone, reduced: int, folder: Path, say: Callable[[str], None]
) -> MarkFeatures:
    """Features of a file of `mark_calibration.rows`, with `reduced` channels of the backbone's feature map.

    They are read from the folder if it has them; else they replace what it has.
    """
    digest = xxhash.xxh3_128(rows_file.read_bytes())
    digest.update(f"{_FORMAT}|{backbone.fingerprint}|{reduced}".encode())
    about = folder / "about.json"
    if not about.is_file() or json.loads(about.read_text()).get("digest") != digest.hexdigest():
        rows = read_mark_rows(rows_file)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        arrays = _see(rows, backbone, reduced, folder, say)
        arrays |= _read(rows, backbone, folder, say)
        np.savez(folder / "arrays.npz", **arrays)
        about.write_text(json.dumps({"digest": digest.hexdigest()}))  # without it, all is computed again
    return load(folder)


def load(folder: Path) -> MarkFeatures:
    index = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    index["words"] = [(language, word) for language, word in index["words"]]
    with np.load(folder / "arrays.npz") as stored:
        arrays = dict(stored)
    big = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in _BIG}
    return MarkFeatures(**index, **arrays, **big)


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


def feature_maps(files: Sequence[str], backbone: Backbone) -> tuple[torch.Tensor, list[tuple[int, int]]]:
    """The backbone's feature maps of photos on the CPU, and the photos' sizes."""
    images = [load_image(file) for file in files]
    pixels = [backbone.preprocess(image) for image in images]
    return backbone.feature_maps(pixels).cpu(), [image.size for image in images]


def _on_disk(folder: Path, name: str, kind: Any, *shape: int) -> np.ndarray:
    return np.lib.format.open_memmap(folder / f"{name}.npy", "w+", kind, shape)


def _flat(maps: torch.Tensor) -> np.ndarray:
    return maps.flatten(2).transpose(1, 2).numpy()


def _see(
    rows: Rows, backbone: Backbone, reduced: int, folder: Path, say: Callable[[str], None]
) -> dict[str, np.ndarray]:
    """Photos → cells and windows on disk, and small arrays by name."""
    files = [row["file"] for row in rows]
    trained = [row["file"] for row in rows if row["split"] == "train"]
    if len(trained) < 2:
        raise InputError(f"{len(trained)} photos to train on: expected more", field="rows")
    chosen = np.random.default_rng(0).choice(len(trained), min(_SAMPLE, len(trained)), replace=False)
    sample = [trained[place] for place in sorted(chosen)]
    maps = [
        feature_maps(sample[start : start + _PHOTOS], backbone)[0] for start in range(0, len(sample), _PHOTOS)
    ]
    side = maps[0].shape[2:]
    weight, bias = reduction(
        np.concatenate([_flat(part).reshape(-1, part.shape[1]) for part in maps]), reduced
    )
    n, dim = len(files), backbone.dim
    cells = _on_disk(folder, "cells", np.float16, n, side[0] * side[1], len(weight))
    shown = _on_disk(folder, "windows", np.float16, n, MOST_WINDOWS, dim)
    whole, there = np.zeros((n, dim), np.float16), np.zeros((n, MOST_WINDOWS), bool)
    shares = np.zeros((n, MOST_WINDOWS, 4), np.float16)
    for start in range(0, n, _PHOTOS):
        part = slice(start, min(start + _PHOTOS, n))
        batch, sizes = feature_maps(files[part], backbone)
        cells[part] = _flat(batch) @ weight.T + bias
        whole[part] = backbone.encode_maps(batch)
        boxes = [normalised(windows(size)[1 : MOST_WINDOWS + 1], size) for size in sizes]
        found = backbone.encode_map_regions(batch, boxes)
        photo = np.repeat(np.arange(part.start, part.stop), [len(own) for own in boxes])
        place = np.concatenate([np.arange(len(own)) for own in boxes])
        shown[photo, place], shares[photo, place] = found, np.concatenate(boxes)
        there[photo, place] = True
        if start % (_PHOTOS * 64) == 0:
            say(f"{part.stop:,} of {n:,} photos")
    cells.flush()
    shown.flush()
    small = {"weight": weight, "bias": bias, "side": np.array(side)}
    return {**small, "whole": whole, "there": there, "boxes": shares}


def _read(rows: Rows, backbone: Backbone, folder: Path, say: Callable[[str], None]) -> dict[str, np.ndarray]:
    """Captions → embeddings of captions and words and their support on disk, and small arrays by name."""
    listed = [(photo, *caption[:2]) for photo, row in enumerate(rows) for caption in row["captions"]]
    photos, captions, languages = map(list, zip(*listed, strict=True))
    tagged = _tagged(captions, languages, say)
    places: dict[tuple[str, str], int] = {}
    word, classes, starts = [], [], [0]
    for language, own_words in zip(languages, tagged, strict=True):
        for text, word_class in own_words:
            word.append(places.setdefault((language, text), len(places)))
            classes.append(MARKED_CLASSES.index(word_class))
        starts.append(len(word))
    vocabulary = [
        {language: places.setdefault((language, name), len(places)) for language, name in names.items()}
        for names in names_of_things()
    ]
    say(f"{len(captions):,} captions and {len(places):,} words to embed")
    for name, own in (("texts", captions), ("embeddings", [text for _, text in places])):
        out = _on_disk(folder, name, np.float16, len(own), backbone.dim)
        embed_texts(backbone, own, out)
        out.flush()
    arrays = {
        "split": np.array([row["split"] for row in rows]),
        "language": np.array(languages),
        "photo": np.array(photos, np.int64),
        "start": np.array(starts, np.int64),
        "word": np.array(word, np.int64),
        "word_class": np.array(classes, np.int8),
    }
    of_word = np.repeat(arrays["photo"], np.diff(arrays["start"]))
    support = _on_disk(folder, "support", np.uint8, len(places), len(rows))
    _support(torch.from_numpy(np.array(out)).float(), arrays["word"], of_word, support)
    index = {"files": [row["file"] for row in rows], "captions": captions, "words": list(places)}
    content = json.dumps({**index, "vocabulary": vocabulary}, ensure_ascii=False)
    (folder / "index.json").write_text(content, encoding="utf-8")
    return arrays


def _tagged(
    captions: Sequence[str], languages: Sequence[str], say: Callable[[str], None]
) -> list[list[tuple[str, str]]]:
    """(word in lower case, class) of each caption."""
    tagged: list[list[tuple[str, str]]] = [[] for _ in captions]
    spoken = np.array(languages)
    for language in sorted(set(languages)):
        own = np.flatnonzero(spoken == language).tolist()
        say(f"words of {len(own):,} captions in {language}")
        found = caption_words([captions[place] for place in own], language)
        for place, words in zip(own, found, strict=True):
            marked = (word for word in words if word.word_class in MARKED_CLASSES)
            tagged[place] = [(word.text.lower(), word.word_class) for word in marked]
    return tagged


def embed_texts(backbone: Backbone, texts: Sequence[str], out: np.ndarray | None = None) -> np.ndarray:
    """Embeddings of texts, (n, d), those of like length together, in `out` or in a new array of float32."""
    out = np.zeros((len(texts), backbone.dim), np.float32) if out is None else out
    order = iter(sorted(range(len(texts)), key=lambda place: len(texts[place])))
    while part := list(islice(order, _TEXTS)):
        out[part] = backbone.encode_texts([texts[place] for place in part])
    return out


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
    out.flush()
