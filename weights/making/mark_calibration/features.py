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
from weights.making.image_tower.rows import LABELLED
from weights.making.mark_calibration.rows import THINGS, names_of_things, read_mark_rows

# Most windows of a photo; only photos more than three times as wide as high have more.
MOST_WINDOWS = 40
# Photos from which the reduction of the map is computed.
_SAMPLE = 1500
_FORMAT = 3
_PHOTOS, _TEXTS = 16, 256
# Sources whose captions are names of things.
_NAMES = (LABELLED, THINGS)
# Names whose last word is not the thing.
_NO_HEAD = frozenset(("hot dog",))


@dataclass(frozen=True, eq=False)
class MarkFeatures:
    """Features of p photos, c captions and v distinct words; arrays have the names of their files."""

    photos: list[str]
    files: list[str]
    captions: list[str]
    words: list[tuple[str, str]]  # (language, word in lower case) of the distinct words
    vocabulary: list[dict[str, int]]  # things: language → place of the thing's name among the distinct words
    split: np.ndarray  # of each photo
    reducer: tuple[np.ndarray, np.ndarray]  # weight (r, features), bias (r,) of the reduction of the map
    side: tuple[int, int]  # (h, w)
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
    labelled: np.ndarray  # bool (p,), of which only names of things that they show are known
    complete: np.ndarray  # bool (p,), whose things are all named, as far as COCO knows them
    of_things: np.ndarray  # bool (c,), for captions that name one of COCO's things

    @cached_property
    def place_of(self) -> dict[tuple[str, str], int]:
        """(language, word in lower case) → its place among the distinct words."""
        return {word: index for index, word in enumerate(self.words)}

    @cached_property
    def captions_of(self) -> list[np.ndarray]:
        """For each photo its captions, int64 (m,)."""
        order = np.argsort(self.photo, kind="stable")
        return np.split(order, np.searchsorted(self.photo[order], np.arange(1, len(self.photos))))

    def words_of(self, caption: int) -> slice:
        """Where the words of a caption lie."""
        return slice(int(self.start[caption]), int(self.start[caption + 1]))


def prepare(
    rows_file: Path, backbone: Backbone, reduced: int, folder: Path, say: Callable[[str], None]
) -> MarkFeatures:
    """Features of a file of `mark_calibration.rows`, with `reduced` channels of the backbone's feature map.

    They are read from the folder if they were computed before, else computed and stored there; then it is
    replaced as a whole.
    """
    rows = read_mark_rows(rows_file)
    digest = xxhash.xxh3_128(rows_file.read_bytes())
    digest.update(f"{_FORMAT}|{backbone.fingerprint}|{reduced}".encode())
    about = folder / "about.json"
    if about.is_file() and json.loads(about.read_text()).get("digest") == digest.hexdigest():
        return load(folder)
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    seen = _see(rows, backbone, reduced, folder, say)
    _read(rows, backbone, folder, say, seen)
    about.write_text(json.dumps({"digest": digest.hexdigest()}))  # last: without it, all is computed again
    return load(folder)


def load(folder: Path) -> MarkFeatures:
    """Features of a folder that `prepare` wrote."""
    index = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    index["words"] = [(language, word) for language, word in index["words"]]
    with np.load(folder / "arrays.npz") as stored:
        arrays = dict(stored)
    arrays["reducer"] = (arrays["reducer"], arrays.pop("reducer_bias"))
    arrays["side"] = tuple(arrays["side"].tolist())
    big = {
        name: np.load(folder / f"{name}.npy", mmap_mode="r")
        for name in ("cells", "windows", "texts", "embeddings", "support")
    }
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


def _see(
    rows: Sequence[dict[str, Any]], backbone: Backbone, reduced: int, folder: Path, say: Callable[[str], None]
) -> dict[str, np.ndarray]:
    """Photos → cells and windows on disk, and small arrays by name."""
    files = [row["file"] for row in rows]
    trained = [row["file"] for row in rows if row["split"] == "train" and not _is_labelled(row)]
    if len(trained) < 2:
        raise InputError(f"{len(trained)} photos to train on: expected more", field="rows")
    chosen = np.random.default_rng(0).choice(len(trained), min(_SAMPLE, len(trained)), replace=False)
    sample = []
    for start in range(0, len(chosen), _PHOTOS):
        maps, _ = feature_maps(
            [trained[place] for place in sorted(chosen)[start : start + _PHOTOS]], backbone
        )
        sample.append(maps.flatten(2).transpose(1, 2).flatten(0, 1).numpy())
    weight, bias = reduction(np.concatenate(sample), reduced)
    del sample
    side: tuple[int, int] = (0, 0)
    whole = np.zeros((len(files), backbone.dim), np.float16)
    there = np.zeros((len(files), MOST_WINDOWS), bool)
    shares = np.zeros((len(files), MOST_WINDOWS, 4), np.float16)
    shown = np.lib.format.open_memmap(
        folder / "windows.npy", "w+", np.float16, (len(files), MOST_WINDOWS, backbone.dim)
    )
    cells = None
    for start in range(0, len(files), _PHOTOS):
        part = files[start : start + _PHOTOS]
        maps, sizes = feature_maps(part, backbone)
        if cells is None:
            side = tuple(maps.shape[2:])
            shape = (len(files), side[0] * side[1], len(weight))
            cells = np.lib.format.open_memmap(folder / "cells.npy", "w+", np.float16, shape)
        flat = maps.flatten(2).transpose(1, 2).numpy()
        cells[start : start + len(part)] = flat @ weight.T + bias
        whole[start : start + len(part)] = backbone.encode_maps(maps)
        boxes = [normalised(windows(size)[1 : MOST_WINDOWS + 1], size) for size in sizes]
        found = np.split(
            backbone.encode_map_regions(maps, boxes), np.cumsum([len(own) for own in boxes])[:-1]
        )
        for place, (own, places) in enumerate(zip(found, boxes, strict=True), start=start):
            shown[place, : len(own)] = own
            shares[place, : len(own)] = places
            there[place, : len(own)] = True
        if start % (_PHOTOS * 64) == 0:
            say(f"{start + len(part):,} of {len(files):,} photos")
    assert cells is not None
    cells.flush()
    shown.flush()
    return {
        "reducer": weight,
        "reducer_bias": bias,
        "whole": whole,
        "there": there,
        "boxes": shares,
        "side": np.array(side),
    }


def _is_labelled(row: dict[str, Any]) -> bool:
    return all(source in _NAMES for *_, source in row["captions"])


def _read(
    rows: Sequence[dict[str, Any]],
    backbone: Backbone,
    folder: Path,
    say: Callable[[str], None],
    seen: dict[str, np.ndarray],
) -> None:
    """Captions → words, embeddings of captions and words, support of words by photos."""
    listed = [
        (photo, caption, language)
        for photo, row in enumerate(rows)
        for caption, language, _ in row["captions"]
    ]
    sources = [source for row in rows for *_, source in row["captions"]]
    named = [source in _NAMES for source in sources]
    tagged = _tagged(listed, named, say)
    places: dict[tuple[str, str], int] = {}
    word, classes, starts = [], [], [0]
    for (_, _, language), own_words in zip(listed, tagged, strict=True):
        for text, word_class in own_words:
            word.append(places.setdefault((language, text), len(places)))
            classes.append(MARKED_CLASSES.index(word_class))
        starts.append(len(word))
    photo_of_caption = np.array([photo for photo, *_ in listed], np.int64)
    vocabulary = [
        {language: places.setdefault((language, name), len(places)) for language, name in names.items()}
        for names in names_of_things()
    ]
    emoji = {names["en"] for names in vocabulary}
    for (_, _, language), is_name, own_words in zip(listed, named, tagged, strict=True):
        # of a label of two words, the second is the thing: "grand piano"
        if is_name and language == "en" and (place := places[language, own_words[-1][0]]) not in emoji:
            emoji.add(place)
            vocabulary.append({language: place})
    say(f"{len(listed):,} captions and {len(places):,} words to embed")
    texts = {"texts": [caption for _, caption, _ in listed], "embeddings": [text for _, text in places]}
    for name, own in texts.items():
        shape = len(own), backbone.dim
        out = np.lib.format.open_memmap(folder / f"{name}.npy", "w+", np.float16, shape)
        embed_texts(backbone, own, out)
        out.flush()
    embeddings = torch.from_numpy(np.array(out)).float()
    _support(embeddings, np.array(word), np.array(starts), photo_of_caption, len(rows), folder)
    np.savez(
        folder / "arrays.npz",
        split=np.array([row["split"] for row in rows]),
        language=np.array([language for *_, language in listed]),
        photo=photo_of_caption,
        start=np.array(starts, np.int64),
        word=np.array(word, np.int64),
        word_class=np.array(classes, np.int8),
        labelled=np.array([_is_labelled(row) for row in rows]),
        complete=np.array([any(source == THINGS for *_, source in row["captions"]) for row in rows]),
        of_things=np.array([source == THINGS for source in sources]),
        **seen,
    )
    index: dict[str, list] = {f"{name}s": [row[name] for row in rows] for name in ("photo", "file")}
    index |= {"captions": texts["texts"], "words": list(places), "vocabulary": vocabulary}
    (folder / "index.json").write_text(json.dumps(index, ensure_ascii=False), encoding="utf-8")


def _tagged(
    listed: Sequence[tuple[int, str, str]], named: Sequence[bool], say: Callable[[str], None]
) -> list[list[tuple[str, str]]]:
    """(word in lower case, class) of each caption; a tagger needs sentences, so names of things are nouns."""
    tagged: list[list[tuple[str, str]]] = [
        [(name, "noun") for name in _names(caption, language)] if is_name else []
        for (_, caption, language), is_name in zip(listed, named, strict=True)
    ]
    for language in sorted({item[2] for item, is_name in zip(listed, named, strict=True) if not is_name}):
        own = [place for place, item in enumerate(listed) if item[2] == language and not named[place]]
        say(f"words of {len(own):,} captions in {language}")
        found = caption_words([listed[place][1] for place in own], language)
        for place, words in zip(own, found, strict=True):
            tagged[place] = [
                (word.text.lower(), word.word_class) for word in words if word.word_class in MARKED_CLASSES
            ]
    return tagged


def embed_texts(backbone: Backbone, texts: Sequence[str], out: np.ndarray | None = None) -> np.ndarray:
    """Embeddings of texts, (n, d), those of like length together, in `out` or in a new array of float32."""
    out = np.zeros((len(texts), backbone.dim), np.float32) if out is None else out
    order = iter(sorted(range(len(texts)), key=lambda place: len(texts[place])))
    while part := list(islice(order, _TEXTS)):
        out[part] = backbone.encode_texts([texts[place] for place in part])
    return out


def _names(caption: str, language: str) -> list[str]:
    """The name of a thing, and in English also the last of its words.

    >>> _names("grand piano", "en"), _names("tambour à main", "fr")
    (['grand piano', 'piano'], ['tambour à main'])
    """
    name = caption.lower()
    last = name.rpartition(" ")[2]
    return [name, last] if language == "en" and last != name and name not in _NO_HEAD else [name]


def _support(
    embeddings: torch.Tensor,
    word: np.ndarray,
    starts: np.ndarray,
    photo_of_caption: np.ndarray,
    n_photos: int,
    folder: Path,
) -> None:
    of_word = np.repeat(photo_of_caption, np.diff(starts))
    pairs = np.unique(np.stack([of_word, word], axis=1), axis=0)
    photo, own = torch.from_numpy(pairs[:, 0].copy()), torch.from_numpy(pairs[:, 1].copy())
    out = np.lib.format.open_memmap(folder / "support.npy", "w+", np.uint8, (len(embeddings), n_photos))
    columns = embeddings.T.contiguous()
    for start in range(0, len(embeddings), 256):
        cosines = (embeddings[start : start + 256] @ columns)[:, own]
        best = torch.full((len(cosines), n_photos), -1.0)
        best.scatter_reduce_(1, photo[None].expand(len(cosines), -1), cosines, "amax")
        out[start : start + 256] = (best.clamp(0.0, 1.0) * 255.0).round().byte().numpy()
    out.flush()
