"""`Row`s → features for InfoMetIC on disk: every image, region, caption and piece embedded once."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from PIL.Image import Image

from capscore.embedding.embedder import Embedder
from capscore.errors import CapscoreError, ImageError, InputError, ResultWriteError, Setting
from capscore.images.boxes import check_boxes, normalised, overlaps
from capscore.images.load import content_key, load_image
from capscore.infometic.regions import RegionFinder, Regions, choose, load_finder
from capscore.infometic.words import (
    CaptionWord,
    Pieces,
    added_by_words,
    caption_words,
    encode_pieces,
    split_pieces,
    word_shares,
)
from capscore.text.word_classes import tagger_name
from training.data.alignment_data import (
    ADDED,
    FORMAT,
    PIECES,
    VECTORS,
    AlignmentData,
    Lists,
    load_features,
    store_features,
    stored_digest,
)
from training.data.rows import Row
from training.data.stored_rows import StoredRows
from training.data.word_pollution import (
    EXCLUDED,
    WRONG,
    Polluted,
    frequent_words,
    like_words,
    pollute,
    word_labels,
)

# Regions are the boxes that the rows give.
GIVEN = "given"
# Images that are open at once.
_OPEN = 32
# Texts, or pieces, that are embedded between two writes.
_TEXTS_AT_ONCE = 16_384


@dataclass
class FeatureOptions:
    """How rows become features.

    Attributes:
        regions: Finder of regions, as `capscore.infometic.regions.load_finder` takes it: "windows"; "given"
            for the boxes of the rows.
        n_regions: Most regions of an image.
        overlap: Overlap (intersection over union) with a mentioned box from which a found region counts as
            mentioned.
        max_tokens: Most pieces of a text.
        pollutions: Number of polluted captions per pair.
        frequent: Number of words of a class from which a replacement is drawn.
        alike: Share of the polluted captions whose wrong word is among the words most like the right one
            (dog → cat, red → blue), according to the backbone; not in the paper.
        seed: Seed of everything that is drawn.

    Raises:
        CapscoreError: a value outside its range.
    """

    regions: str = "windows"
    n_regions: int = 20
    overlap: float = 0.5
    max_tokens: int = 32
    pollutions: int = 1
    frequent: int = 300
    alike: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("n_regions", 1), ("max_tokens", 1), ("pollutions", 0), ("frequent", 1)):
            value = getattr(self, name)
            if value < least:
                raise CapscoreError(Setting(name, value), f": expected a whole number of at least {least}")
        if not 0 <= self.alike <= 1:
            raise CapscoreError(Setting("alike", self.alike), ": expected a share from 0 to 1")
        if not 0 < self.overlap <= 1:
            raise CapscoreError(Setting("overlap", self.overlap), ": expected a share above 0, at most 1")
        if not self.regions.strip():
            raise CapscoreError("regions is empty: expected 'windows' or 'given'")


def prepare(
    rows: Iterable[Row],
    embedder: Embedder,
    options: FeatureOptions,
    folder: str | Path,
    *,
    word_context: bool = False,
    say: Callable[[str], None] = lambda message: None,
) -> AlignmentData:
    """Features of rows: read from the folder if they were computed from the same rows, options and backbone,
    else computed and stored there.

    Args:
        rows: At least one row.
        embedder: Embedder of the backbone. With a cache, interrupted work continues.
        options: How rows become features.
        folder: Folder of the features; it is replaced as a whole.
        word_context: Whether to store what each word adds to its text, for networks that read it.
        say: Function that takes a sentence about the progress.

    Raises:
        InputError, ImageError: there are no rows, or a row is malformed; names it.
        MissingExtraError: the package that finds the words of a language is not installed.
        BackboneUnavailable: a detector is not available.
        ResultWriteError: the folder cannot be written.
    """
    rows, folder = list(rows), Path(folder).expanduser()
    if not rows:
        raise InputError("there are no captions to train on")
    finds = options.regions != GIVEN and any(row.image is not None and not row.region_texts for row in rows)
    finder = load_finder(options.regions, embedder) if finds else None
    digest = _digest(rows, embedder, options, finder, word_context)
    before = stored_digest(folder)
    if before == digest:
        return load_features(folder)
    if before is not None:
        say(f"the features in {folder} are of other data or settings: they are computed again")
    aside = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:12]}.partial")
    try:
        aside.mkdir(parents=True)
        _build(rows, embedder, options, finder, aside, digest, word_context)
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(aside, folder)
    except OSError as error:
        if isinstance(error, CapscoreError):
            raise
        raise ResultWriteError(
            f"the features could not be written to {folder}: {error.strerror or error}"
        ) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return load_features(folder)


def _digest(
    rows: Sequence[Row],
    embedder: Embedder,
    options: FeatureOptions,
    finder: RegionFinder | None,
    word_context: bool,
) -> str:
    digest = xxhash.xxh3_128()
    parts = {
        "format": FORMAT,
        "options": {known.name: getattr(options, known.name) for known in fields(FeatureOptions)},
        "word_context": word_context,
        "backbone": embedder.fingerprint,
        "prefix": embedder.backbone.prefix,
        "finder": "" if finder is None else finder.fingerprint,
        "taggers": [tagger_name(language) for language in sorted({row.language for row in rows})],
    }
    digest.update(json.dumps(parts, sort_keys=True).encode())
    known: dict[Any, str] = {}
    for row in rows:
        plain = replace(row, image=None, where="")
        digest.update(f"{plain!r}|{_image_state(row.image, known)}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _image_state(image: Any, known: dict[Any, str]) -> str:
    """Key that changes with an image: its content, or a file's path, size and time."""
    if image is None:
        return ""
    if not isinstance(image, os.PathLike):
        return content_key(image)
    path = os.fspath(image)
    if path not in known:
        try:
            status = os.stat(path)
        except OSError as error:
            raise ImageError(f"{path}: {error.strerror or error}") from None
        known[path] = f"{path}|{status.st_size}|{status.st_mtime_ns}"
    return known[path]


def _build(
    rows: list[Row],
    embedder: Embedder,
    options: FeatureOptions,
    finder: RegionFinder | None,
    folder: Path,
    digest: str,
    word_context: bool,
) -> None:
    counts: Counter[str] = Counter()
    vectors = _Vectors(embedder, folder)
    first, pair_image, photos = _distinct_images(rows, options)
    images: list[_Image] = []
    for start in range(0, len(first), _OPEN):
        part = [rows[number] for number in first[start : start + _OPEN]]
        images += _embed_images(part, vectors, options, finder, counts)
    labels = [
        images[number].label(row, options.overlap) for row, number in zip(rows, pair_image, strict=True)
    ]
    for row, label in zip(rows, labels, strict=True):
        if label is None and row.mentioned is not None:
            counts["n_without_found_region"] += 1
    captions = _Captions(rows, pair_image, options, embedder)
    arrays = _store_pieces(captions, embedder, options, folder, counts, word_context)
    text_vector = np.array(vectors.texts(captions.texts), dtype=np.int64)
    np.save(folder / VECTORS, vectors.stored.finish())
    keys, photo = np.unique(np.array(photos), return_inverse=True)
    store_features(
        folder,
        {
            "image_vector": np.array([image.vector for image in images], dtype=np.int64),
            "regions": Lists.of((image.regions for image in images), np.int64),
            "boxes": Lists.of((image.boxes for image in images), np.float32, 4),
            "text_vector": text_vector,
            "pair_image": np.array(pair_image, dtype=np.int64),
            "pair_text": np.array(captions.pair_text, dtype=np.int64),
            "pair_language": np.array([row.language for row in rows]),
            "labels": Lists.of(([] if label is None else label for label in labels), np.uint8),
            "image": photo.astype(np.int64),
            "keys": keys,
            **arrays,
        },
        texts=captions.texts,
        names=[row.names for row in rows],
        about={"digest": digest, "counts": counts},
    )


class _Vectors:
    """Embeddings of images, regions and texts in one matrix, each distinct text once."""

    def __init__(self, embedder: Embedder, folder: Path):
        self.embedder, self.stored = embedder, StoredRows(embedder.backbone.dim, folder)
        self._row_of: dict[str, int] = {}

    def texts(self, texts: Sequence[str]) -> list[int]:
        """The row of each text; those that have none are embedded."""
        new = [text for text in dict.fromkeys(texts) if text not in self._row_of]
        for start in range(0, len(new), _TEXTS_AT_ONCE):
            part = new[start : start + _TEXTS_AT_ONCE]
            self._row_of |= zip(part, self.stored.append(_embedded(self.embedder, part)), strict=True)
        return [self._row_of[text] for text in texts]


def _embedded(embedder: Embedder, texts: Sequence[str]) -> np.ndarray:
    rows = embedder.texts(texts, prefix=embedder.backbone.prefix)
    return rows.matrix[rows.index]


# -------------------------------------------------------------------- images


def _distinct_images(rows: Sequence[Row], options: FeatureOptions) -> tuple[list[int], list[int], list[str]]:
    """A row with each distinct image, the number of each row's image, and the key of each row's photo."""
    numbers: dict[Any, int] = {}
    first: list[int] = []
    of_row, photos = [], []
    known: dict[Any, str] = {}
    for index, row in enumerate(rows):
        state = _image_state(row.image, known)
        key = (state, row.stand_in, row.region_texts, row.boxes if options.regions == GIVEN else None)
        if key not in numbers:
            numbers[key] = len(first)
            first.append(index)
        of_row.append(numbers[key])
        photo = row.photo or state or "\n".join(row.stand_in)
        photos.append(xxhash.xxh3_128_hexdigest(photo.encode("utf-8", "surrogatepass")))
    return first, of_row, photos


@dataclass
class _Image:
    """An image and its regions.

    Attributes:
        vector, regions: Rows of the matrix.
        boxes: Boxes of the regions, in shares of the image.
        given: Which of the boxes or texts that the row gives are regions; None where regions were found.
        size: Width and height in pixels; (0, 0) where texts stand in.
    """

    vector: int
    regions: Sequence[int]
    boxes: Sequence[tuple[float, ...]]
    given: np.ndarray | None
    size: tuple[int, int]

    def label(self, row: Row, overlap: float) -> np.ndarray | None:
        """Labels of the regions that a row mentions; None where that is unknown, or no region shows it."""
        if row.mentioned is None:
            return None
        shows: np.ndarray
        if self.given is not None:
            shows = np.isin(self.given, row.mentioned)
        elif not row.mentioned:
            shows = np.zeros(len(self.boxes), bool)
        else:
            named = normalised(_pixel_boxes(row, self.size)[list(row.mentioned)], self.size)
            found = np.array(self.boxes, dtype=np.float64).reshape(-1, 4)
            shows = np.any(overlaps(found, named) >= overlap, axis=1)
        # the null region stands for a caption that mentions none
        label = np.array([*shows, not row.mentioned], dtype=np.uint8)
        return label if label.any() else None


def _embed_images(
    rows: Sequence[Row],
    vectors: _Vectors,
    options: FeatureOptions,
    finder: RegionFinder | None,
    counts: Counter[str],
) -> list[_Image]:
    """Embed a few images and their regions."""
    embedder, images = vectors.embedder, []
    photos = [None if row.image is None else _opened(row) for row in rows]
    found = _find_regions(rows, photos, finder)
    # in one batch; below they come from the embedder's memory
    embedder.texts([text for row in rows for text in row.stand_in], prefix=embedder.backbone.prefix)
    for row, photo, regions in zip(rows, photos, found, strict=True):
        if photo is None:
            shown = None
            if len(row.stand_in) == 1:
                (vector,) = vectors.texts(row.stand_in)
            else:
                mean = _embedded(embedder, row.stand_in).mean(axis=0, keepdims=True)
                (vector,) = vectors.stored.append(mean / max(float(np.linalg.norm(mean)), 1e-12))
        else:
            boxes = np.zeros((0, 4)) if regions is None else regions.boxes
            # the box of the whole photo gives the photo's own embedding, from the same pass
            (shown,) = embedder.regions([photo], [np.vstack([(0, 0, *photo.size), boxes])])
            (vector,) = vectors.stored.append(shown[:1])
        size = (0, 0) if photo is None else photo.size
        if regions is None or shown is None:
            chosen = row.region_texts[: options.n_regions]
            counts["n_regions_cut"] += len(row.region_texts) - len(chosen)
            rows_of = vectors.texts([region.text for region in chosen])
            places = [region.box or (0.0, 0.0, 0.0, 0.0) for region in chosen]
            images.append(_Image(vector, rows_of, places, np.arange(len(chosen)), size))
            continue
        picked = choose(regions, shown[1:], n=options.n_regions, seed=options.seed)
        counts["n_images_without_region"] += len(picked) == 0
        places = [tuple(box) for box in normalised(regions.boxes[picked], size).tolist()]
        own = vectors.stored.append(shown[1:][picked])
        images.append(_Image(vector, own, places, picked if finder is None else None, size))
    return images


def _opened(row: Row) -> Image:
    try:
        return load_image(row.image)
    except ImageError as error:
        raise ImageError(f"{row.where}, image: {error.message}") from error


def _find_regions(
    rows: Sequence[Row], photos: Sequence[Image | None], finder: RegionFinder | None
) -> list[Regions | None]:
    """Regions of each row's image; None where texts, or nothing, stand for them."""
    found: list[Regions | None] = [None] * len(rows)
    needed = {
        index: photo
        for index, (row, photo) in enumerate(zip(rows, photos, strict=True))
        if photo is not None and not row.region_texts
    }
    if finder is not None and needed:
        for index, regions in zip(needed, finder.find(list(needed.values())), strict=True):
            found[index] = regions
        return found
    for index, photo in needed.items():
        if rows[index].boxes is None:
            raise InputError(
                f"{rows[index].where} has no boxes, which ",
                Setting("regions", GIVEN),
                " needs: give the row boxes, or choose a finder, such as ",
                Setting("regions", "windows"),
            )
        boxes = _pixel_boxes(rows[index], photo.size)
        found[index] = Regions(boxes, np.ones(len(boxes)), ("",) * len(boxes))
    return found


def _pixel_boxes(row: Row, size: tuple[int, int]) -> np.ndarray:
    try:
        return check_boxes(row.boxes or (), size)
    except InputError as error:
        raise InputError(f"{row.where}, {error.message}") from None


# --------------------------------------------------------------------- texts


class _Captions:
    """Distinct captions, polluted ones behind them, and their words.

    Attributes:
        texts: Texts of both.
        words, labels: Words of each text, and the label of each word.
        pair_text: Number of each row's caption.
        polluted: Numbers of each row's polluted captions.
    """

    def __init__(
        self, rows: Sequence[Row], images: Sequence[int], options: FeatureOptions, embedder: Embedder
    ):
        known: dict[tuple[str, str], int] = {}
        self.pair_text = [known.setdefault((row.caption, row.language), len(known)) for row in rows]
        self.texts = [caption for caption, _ in known]
        self.words = _words_of(list(known))
        self.labels = [word_labels(words) for words in self.words]
        self.polluted: list[range] = []
        for several in self._pollutions(rows, images, options, embedder):
            self.polluted.append(range(len(self.texts), len(self.texts) + len(several)))
            self.texts += [item.caption for item in several]
            self.words += [list(item.words) for item in several]
            self.labels += [item.labels for item in several]

    def _pollutions(
        self, rows: Sequence[Row], images: Sequence[int], options: FeatureOptions, embedder: Embedder
    ) -> list[list[Polluted]]:
        """Polluted captions of each row, without words that another caption of the image has."""
        if not options.pollutions:
            return [[]] * len(rows)
        frequent, like = {}, {}
        right: dict[tuple[int, str], set[str]] = {}
        by_language: dict[str, list[list[CaptionWord]]] = {}
        for row, image, text in zip(rows, images, self.pair_text, strict=True):
            by_language.setdefault(row.language, []).append(self.words[text])
            right.setdefault((image, row.language), set()).update(
                word.text.casefold() for word in self.words[text]
            )
        for language, words in sorted(by_language.items()):
            frequent[language] = frequent_words(
                [""] * len(words), language, most=options.frequent, words=words
            )
            if options.alike:
                like[language] = like_words(frequent[language], partial(_embedded, embedder))
        found = []
        for row, image, text in zip(rows, images, self.pair_text, strict=True):
            content = repr((row.caption, row.stand_in, row.region_texts, row.names))
            seed = xxhash.xxh3_64_intdigest(content.encode("utf-8", "surrogatepass"))
            drawn = {}
            for number in range(options.pollutions):
                rng = np.random.default_rng([options.seed, seed, number])
                alike = options.alike and rng.random() < options.alike
                item = pollute(
                    row.caption,
                    row.language,
                    frequent[row.language],
                    rng,
                    avoid=right[image, row.language],
                    words=self.words[text],
                    like=like[row.language] if alike else None,
                )
                if item is not None:
                    drawn[item.caption] = item
            found.append(list(drawn.values()))
        return found


def _words_of(captions: Sequence[tuple[str, str]]) -> list[list[CaptionWord]]:
    """(caption, language) → its words; each language's tagger has all its captions at once."""
    found: list[list[CaptionWord]] = [[]] * len(captions)
    for language in sorted({language for _, language in captions}):
        numbers = [number for number, (_, own) in enumerate(captions) if own == language]
        listed = caption_words([captions[number][0] for number in numbers], language)
        for number, words in zip(numbers, listed, strict=True):
            found[number] = list(words)
    return found


def _store_pieces(
    captions: _Captions,
    embedder: Embedder,
    options: FeatureOptions,
    folder: Path,
    counts: Counter[str],
    word_context: bool,
) -> dict[str, np.ndarray | Lists]:
    """Write the embeddings of the captions' pieces; returns what is known of words and pieces."""
    backbone = embedder.backbone
    numbers: dict[int, int] = {}
    pieces: list[list[int]] = []
    words: list[list[int]] = []
    shares: list[list[tuple[int, int, float]]] = []
    # not cached: there are many, and nothing else needs them
    alone = Embedder(backbone, progress=embedder.progress)
    added = StoredRows(backbone.dim, folder, np.float16)
    for start in range(0, len(captions.texts), _TEXTS_AT_ONCE):
        part = captions.texts[start : start + _TEXTS_AT_ONCE]
        seen = []
        for text, split in enumerate(split_pieces(backbone, part, options.max_tokens), start):
            counts["n_texts_cut"] += split.n_cut > 0
            pieces.append([numbers.setdefault(piece, len(numbers)) for piece in split.ids])
            entries, kept = labelled_shares(split, captions.words[text], captions.labels[text])
            shares.append(entries)
            words.append([captions.labels[text][index] for index in kept])
            seen.append([captions.words[text][index] for index in kept])
        if word_context:
            added.append(np.concatenate(added_by_words(part, seen, partial(_embedded, alone))))
    if word_context:
        np.save(folder / ADDED, added.finish())
    stored, ids = StoredRows(backbone.dim, folder), list(numbers)
    for start in range(0, len(ids), _TEXTS_AT_ONCE):
        stored.append(encode_pieces(backbone, ids[start : start + _TEXTS_AT_ONCE]))
    np.save(folder / PIECES, stored.finish())
    # a wrong word that was cut off cannot be learned from
    polluted = [[text for text in texts if WRONG in words[text]] for texts in captions.polluted]
    counts["n_not_polluted"] = sum(not texts for texts in polluted) if options.pollutions else 0
    return {
        "pieces": Lists.of(pieces, np.int64),
        "words": Lists.of(words, np.uint8),
        "shares": Lists.of(shares, np.float32, 3),
        "n_semantic": np.array([sum(word.semantic for word in listed) for listed in captions.words]),
        "polluted": Lists.of(polluted, np.int64),
    }


def labelled_shares(
    pieces: Pieces, words: Sequence[CaptionWord], labels: Sequence[int]
) -> tuple[list[tuple[int, int, float]], list[int]]:
    """The pieces that make up each labelled word.

    Args:
        pieces: Pieces of the text that the network sees.
        words: Words of the text, in order.
        labels: Label of each word; words with `EXCLUDED`, and words that the network does not see to their
            end, are left out.

    Returns:
        (number of the piece, number of the word among the kept words, share of the piece that lies in it),
        and the numbers of the kept words.
    """
    shares = word_shares(pieces, words)
    kept = [
        number
        for number, (word, label) in enumerate(zip(words, labels, strict=True))
        if label != EXCLUDED and word.end <= pieces.read_to and shares[:, number].any()
    ]
    entries = [
        (int(piece), word, float(shares[piece, number]))
        for word, number in enumerate(kept)
        for piece in np.flatnonzero(shares[:, number])
    ]
    return entries, kept
