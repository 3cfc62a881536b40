"""`AlignedRow`s → features for InfoMetIC on disk: every image, region, caption and piece embedded once."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

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
from training.data.aligned_rows import AlignedRow
from training.data.alignment_data import (
    ABOUT,
    ADDED,
    FORMAT,
    INDEX,
    PIECES,
    TEXTS,
    VECTORS,
    AlignmentData,
    load_features,
    stored_digest,
)
from training.data.stored_rows import StoredRows
from training.data.word_pollution import EXCLUDED, WRONG, frequent_words, like_words, pollute, word_labels

# Regions are the boxes that the rows give.
GIVEN = "given"
# Images that are open at once.
_OPEN = 32
# Most bytes of rows in memory; more go to a file.
_IN_MEMORY = 2**30
# Texts, or pieces, that are embedded between two writes.
_TEXTS_AT_ONCE = 16_384


@dataclass(frozen=True)
class FeatureOptions:
    """How rows become features.

    Attributes:
        regions: Finder of regions, as `capscore.infometic.regions.load_finder` takes it; "given" for the
            boxes of the rows.
        region_revision: Commit of a detector on the Hub; None for the newest.
        n_regions: Most regions of an image.
        overlap: Overlap (intersection over union) with a mentioned box from which a found region counts as
            mentioned.
        max_tokens: Most pieces of a text.
        pollutions: Number of polluted captions per pair.
        frequent: Number of words of a class from which a replacement is drawn.
        alike: Share of the polluted captions whose wrong word is among the words most like the right one
            (dog → cat, red → blue), according to the backbone; not in the paper.
        word_context: Whether to store what each word adds to its text, for networks that read it.
        seed: Seed for the choice of regions and the pollutions.

    Raises:
        CapscoreError: a value outside its range.
    """

    regions: str = "windows"
    region_revision: str | None = None
    n_regions: int = 20
    overlap: float = 0.5
    max_tokens: int = 32
    pollutions: int = 1
    frequent: int = 300
    alike: float = 0.0
    word_context: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("n_regions", 1), ("max_tokens", 1), ("pollutions", 0), ("frequent", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise CapscoreError(Setting(name, value), f": expected a whole number of at least {least}")
        if not 0 <= self.alike <= 1:
            raise CapscoreError(Setting("alike", self.alike), ": expected a share from 0 to 1")
        if not 0 < self.overlap <= 1:
            raise CapscoreError(Setting("overlap", self.overlap), ": expected a share above 0, at most 1")
        if not self.regions.strip():
            raise CapscoreError("regions is empty: expected 'windows', a detector, or 'given'")


def region_label(regions: np.ndarray, mentioned: np.ndarray, *, overlap: float) -> np.ndarray | None:
    """Labels of the found regions that a caption mentions: uint8 (m + 1,), the null region last.

    Args:
        regions: Boxes that were found (m, 4).
        mentioned: Boxes that the caption mentions (k, 4).
        overlap: Intersection over union from which a found region counts as mentioned.

    Returns:
        The labels; None where the caption mentions something that no found region shows, so that there is
        nothing to learn.

    >>> found = np.array([[0.0, 0, 4, 4], [0, 0, 4, 3], [6, 6, 9, 9]])
    >>> region_label(found, np.array([[0.0, 0, 4, 4]]), overlap=0.5).tolist()
    [1, 1, 0, 0]
    >>> region_label(found, np.zeros((0, 4)), overlap=0.5).tolist()
    [0, 0, 0, 1]
    """
    label = np.zeros(len(regions) + 1, np.uint8)
    if not len(mentioned):
        label[-1] = 1
        return label
    label[:-1] = (overlaps(regions, mentioned) >= overlap).any(axis=1)
    return label if label.any() else None


def prepare(
    rows: Iterable[AlignedRow],
    embedder: Embedder,
    options: FeatureOptions,
    folder: str | Path,
    *,
    say: Callable[[str], None] = lambda message: None,
) -> AlignmentData:
    """Features of rows: read from the folder if they were computed from the same rows, options and backbone,
    else computed and stored there.

    Args:
        rows: At least one row.
        embedder: Embedder of the backbone. With a cache, interrupted work continues.
        options: How rows become features.
        folder: Folder of the features; it is replaced as a whole.
        say: Function that takes a sentence about the progress.

    Raises:
        InputError, ImageError: there are no rows, or a row is malformed; names its place.
        MissingExtraError: the package that finds the words of a language is not installed.
        BackboneUnavailable: a detector is not available.
        ResultWriteError: the folder cannot be written.
    """
    rows, folder = list(rows), Path(folder).expanduser()
    if not rows:
        raise InputError("there are no captions to train on")
    finder = _finder(rows, embedder, options)
    digest = _digest(rows, embedder, options, finder)
    before = stored_digest(folder)
    if before == digest:
        return load_features(folder)
    if before is not None:
        say(f"the features in {folder} are of other data or settings: they are computed again")
    aside = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:12]}.partial")
    try:
        aside.mkdir(parents=True)
        _build(rows, embedder, options, finder, aside, digest, say)
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(aside, folder)
    except OSError as error:
        raise ResultWriteError(
            f"the features could not be written to {folder}: {error.strerror or error}"
        ) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return load_features(folder)


def _finder(rows: Sequence[AlignedRow], embedder: Embedder, options: FeatureOptions) -> RegionFinder | None:
    needs = any(row.image is not None and not row.region_texts for row in rows)
    if options.regions == GIVEN or not needs:
        return None
    revision = f"@{options.region_revision}" if options.region_revision else ""
    return load_finder(f"{options.regions}{revision}", embedder)


def _digest(
    rows: Sequence[AlignedRow], embedder: Embedder, options: FeatureOptions, finder: RegionFinder | None
) -> str:
    digest = xxhash.xxh3_128()
    languages = sorted({row.language for row in rows})
    parts = {
        "format": FORMAT,
        "options": asdict(options),
        "backbone": embedder.fingerprint,
        "prefix": embedder.backbone.prefix,
        "finder": "" if finder is None else finder.fingerprint,
        "taggers": [tagger_name(language) for language in languages],
    }
    digest.update(json.dumps(parts, sort_keys=True).encode())
    states: dict[Any, str] = {}
    for row in rows:
        plain = replace(row, image=None, place="")
        digest.update(f"{plain!r}|{_image_state(row.image, states)}\n".encode("utf-8", "surrogatepass"))
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
            seen = os.stat(path)
        except OSError as error:
            raise ImageError(f"{path}: {error.strerror or error}") from None
        known[path] = f"{path}|{seen.st_size}|{seen.st_mtime_ns}"
    return known[path]


@dataclass
class _Lists:
    """Lists of lists that become flat arrays."""

    starts: list[int] = field(default_factory=lambda: [0])
    flat: list[Any] = field(default_factory=list)

    def add(self, items: Iterable[Any]) -> None:
        self.flat.extend(items)
        self.starts.append(len(self.flat))

    def arrays(self, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
        return np.array(self.starts, dtype=np.int64), np.array(self.flat, dtype=dtype)


class _TextTable:
    """Distinct texts in the order in which they first came."""

    def __init__(self) -> None:
        self.place: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        return self.place.setdefault(text, len(self.place))


def _build(
    rows: list[AlignedRow],
    embedder: Embedder,
    options: FeatureOptions,
    finder: RegionFinder | None,
    folder: Path,
    digest: str,
    say: Callable[[str], None],
) -> None:
    texts = _TextTable()
    counts: dict[str, int] = {}
    images, of_image, photo_keys = _distinct_images(rows, options)
    seen = _see(rows, images, embedder, options, finder, folder, texts, counts)
    told = _tell(rows, of_image, options, embedder, texts, folder, counts)

    labels = _Lists()
    for row, image in zip(rows, of_image.tolist(), strict=True):
        label = seen.label(row, image, options)
        labels.add(() if label is None else label.tolist())
        if label is None and row.mentioned is not None:
            counts["n_without_found_region"] = counts.get("n_without_found_region", 0) + 1
    label_start, region_labels = labels.arrays(np.uint8)

    n_seen, n_texts, dim = len(seen.matrix), len(texts.place), embedder.backbone.dim
    vectors = np.lib.format.open_memmap(folder / VECTORS, "w+", np.float32, (n_seen + n_texts, dim))
    for start in range(0, n_seen, _TEXTS_AT_ONCE):
        part = slice(start, min(start + _TEXTS_AT_ONCE, n_seen))
        vectors[part] = seen.matrix[part]
    say(f"{n_texts:,} texts to embed")
    distinct = iter(texts.place)
    done = n_seen
    while fresh := list(islice(distinct, _TEXTS_AT_ONCE)):
        embedded = embedder.texts(fresh, prefix=embedder.backbone.prefix)
        vectors[done : done + len(fresh)] = embedded.matrix[embedded.index]
        done += len(fresh)
    vectors.flush()

    def place(reference: np.ndarray) -> np.ndarray:
        """Places of seen things are as they are, texts come behind them: −1 is text 0, −2 text 1, …"""
        return np.where(reference < 0, n_seen - 1 - reference, reference)

    region_start, region_vector = seen.regions.arrays(np.int64)
    _, pair_photo = np.unique(np.array(photo_keys), return_inverse=True)
    np.savez(
        folder / INDEX,
        image_vector=place(np.array(seen.whole, dtype=np.int64)),
        region_start=region_start,
        region_vector=place(region_vector),
        region_box=np.array(seen.boxes, dtype=np.float32).reshape(-1, 4),
        text_vector=n_seen + told.vector,
        pair_image=of_image,
        pair_text=told.pair_text,
        pair_language=np.array([row.language for row in rows]),
        label_start=label_start,
        region_label=region_labels,
        photo=pair_photo.astype(np.int64),
        photo_keys=np.unique(np.array(photo_keys)),
        **told.arrays,
    )
    with open(folder / TEXTS, "w", encoding="utf-8") as file:
        for line in (*told.texts, *(row.names for row in rows)):
            file.write(json.dumps(line) + "\n")
    about = {"format": FORMAT, "digest": digest, "counts": counts}
    (folder / ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


def _distinct_images(
    rows: Sequence[AlignedRow], options: FeatureOptions
) -> tuple[list[int], np.ndarray, list[str]]:
    """A row with each distinct image, the number of each row's image, and the key of each row's photo."""
    places: dict[Any, int] = {}
    first: list[int] = []
    of_row, photo_keys = [], []
    keys: dict[Any, str] = {}
    for number, row in enumerate(rows):
        shown = "" if row.image is None else _image_state(row.image, keys)
        own_boxes = row.boxes if options.regions == GIVEN else None
        key = (shown, row.stand_ins, row.region_texts, own_boxes)
        if key not in places:
            places[key] = len(first)
            first.append(number)
        of_row.append(places[key])
        photo = row.photo or shown or "\n".join(row.stand_ins)
        photo_keys.append(xxhash.xxh3_128_hexdigest(photo.encode("utf-8", "surrogatepass")))
    return first, np.array(of_row, dtype=np.int64), photo_keys


@dataclass
class _Seen:
    """Images and regions: rows of a matrix, or texts. A number below 0 stands for text −1 − number."""

    matrix: np.ndarray
    whole: list[int]
    regions: _Lists
    boxes: list[tuple[float, ...]]
    # of each image, which of its given boxes or region texts are regions; None where regions were found
    kept: list[np.ndarray | None]
    sizes: list[tuple[int, int] | None]

    def label(self, row: AlignedRow, image: int, options: FeatureOptions) -> np.ndarray | None:
        if row.mentioned is None:
            return None
        start, stop = self.regions.starts[image], self.regions.starts[image + 1]
        kept, size = self.kept[image], self.sizes[image]
        if kept is None:
            given = _checked(row, size)
            named = normalised(given[list(row.mentioned)], size)
            found = np.array(self.boxes[start:stop], dtype=np.float64).reshape(-1, 4)
            return region_label(found, named, overlap=options.overlap)
        label = np.zeros(stop - start + 1, np.uint8)
        label[:-1] = np.isin(kept, row.mentioned)
        if not row.mentioned:
            label[-1] = 1
        return label if label.any() else None


def _see(
    rows: Sequence[AlignedRow],
    images: Sequence[int],
    embedder: Embedder,
    options: FeatureOptions,
    finder: RegionFinder | None,
    folder: Path,
    texts: _TextTable,
    counts: dict[str, int],
) -> _Seen:
    """Embed images and their regions, a few images at a time."""
    prefix, dim = embedder.backbone.prefix, embedder.backbone.dim
    matrix = StoredRows(dim, folder, _IN_MEMORY)
    seen = _Seen(np.zeros((0, dim), np.float32), [], _Lists(), [], [], [])
    n = 0

    def keep(vectors: np.ndarray) -> list[int]:
        nonlocal n
        if len(vectors):
            matrix.append(np.ascontiguousarray(vectors, dtype=np.float32))
        n += len(vectors)
        return list(range(n - len(vectors), n))

    for start in range(0, len(images), _OPEN):
        here = [rows[number] for number in images[start : start + _OPEN]]
        opened = [None if row.image is None else _opened(row) for row in here]
        found = _found(here, opened, finder)
        # in one batch; below they come from the embedder's memory
        several = [text for row in here if len(row.stand_ins) > 1 for text in row.stand_ins]
        embedder.texts(several, prefix=prefix)
        for row, photo, regions in zip(here, opened, found, strict=True):
            if photo is not None:
                boxes = np.zeros((0, 4)) if regions is None else regions.boxes
                # the box of the whole photo gives the photo's own embedding, from the same pass
                (shown,) = embedder.regions([photo], [np.vstack([(0, 0, *photo.size), boxes])])
                seen.whole += keep(shown[:1])
            elif len(row.stand_ins) == 1:
                seen.whole.append(-1 - texts(row.stand_ins[0]))
            else:
                told = embedder.texts(row.stand_ins, prefix=prefix)
                mean = told.matrix[told.index].mean(axis=0, keepdims=True)
                seen.whole += keep(mean / max(float(np.linalg.norm(mean)), 1e-12))
            seen.sizes.append(None if photo is None else photo.size)
            if regions is None:
                chosen = row.region_texts[: options.n_regions]
                n_left_out = len(row.region_texts) - len(chosen)
                counts["n_regions_cut"] = counts.get("n_regions_cut", 0) + n_left_out
                seen.regions.add(-1 - texts(region.text) for region in chosen)
                seen.boxes += [region.box or (0.0, 0.0, 0.0, 0.0) for region in chosen]
                seen.kept.append(np.arange(len(chosen)))
                continue
            picked = choose(regions, shown[1:], n=options.n_regions, seed=options.seed)
            seen.regions.add(keep(shown[1:][picked]))
            seen.boxes += [tuple(box) for box in normalised(regions.boxes[picked], photo.size).tolist()]
            seen.kept.append(picked if finder is None else None)
            counts["n_images_without_region"] = counts.get("n_images_without_region", 0) + (len(picked) == 0)
    seen.matrix = matrix.finish() if n else seen.matrix
    return seen


def _opened(row: AlignedRow) -> Any:
    try:
        return load_image(row.image)
    except ImageError as error:
        raise ImageError(f"{row.place}, image: {error.message}") from error


def _found(
    rows: Sequence[AlignedRow], opened: Sequence[Any], finder: RegionFinder | None
) -> list[Regions | None]:
    """Regions of each row's image; None where texts, or nothing, stand for them."""
    found: list[Regions | None] = [None] * len(rows)
    open_ = [
        number for number, photo in enumerate(opened) if photo is not None and not rows[number].region_texts
    ]
    if finder is not None and open_:
        listed = finder.find([opened[number] for number in open_])
        for number, regions in zip(open_, listed, strict=True):
            found[number] = regions
        return found
    for number in open_:
        row = rows[number]
        if row.boxes is None:
            raise InputError(
                f"{row.place} has no boxes, which ",
                Setting("regions", GIVEN),
                " needs: give the row boxes, or choose a finder, such as ",
                Setting("regions", "windows"),
            )
        boxes = _checked(row, opened[number].size)
        found[number] = Regions(boxes, np.ones(len(boxes)), ("",) * len(boxes))
    return found


def _checked(row: AlignedRow, size: tuple[int, int]) -> np.ndarray:
    try:
        return check_boxes(row.boxes or (), size)
    except InputError as error:
        raise InputError(f"{row.place}, {error.message}") from None


@dataclass
class _Told:
    """Captions, polluted ones behind them, and their words."""

    texts: list[str]
    vector: np.ndarray
    pair_text: np.ndarray
    arrays: dict[str, np.ndarray]


def _tell(
    rows: Sequence[AlignedRow],
    of_image: np.ndarray,
    options: FeatureOptions,
    embedder: Embedder,
    texts: _TextTable,
    folder: Path,
    counts: dict[str, int],
) -> _Told:
    """Words of captions, polluted captions, and their pieces, which are embedded and written."""
    backbone = embedder.backbone
    known: dict[tuple[str, str], int] = {}
    pair_text = [known.setdefault((row.caption, row.language), len(known)) for row in rows]
    captions = [caption for caption, _ in known]
    words = _words_of(list(known))
    labels = [word_labels(listed) for listed in words]
    polluted = _pollutions(rows, of_image, pair_text, words, options, embedder)
    first = len(captions)
    for item in (item for drawn in polluted for item in drawn):
        captions.append(item.caption)
        words.append(list(item.words))
        labels.append(item.labels)

    table: dict[int, int] = {}
    pieces, word_lists, shares = _Lists(), _Lists(), _Lists()
    n_cut = 0
    # not cached: there are many, and nothing else needs them
    alone = Embedder(backbone, progress=embedder.progress)
    added = StoredRows(backbone.dim, folder, _IN_MEMORY, np.float16)
    for start in range(0, len(captions), _TEXTS_AT_ONCE):
        part = captions[start : start + _TEXTS_AT_ONCE]
        seen_words = []
        for offset, split in enumerate(split_pieces(backbone, part, options.max_tokens)):
            n_cut += split.n_cut > 0
            pieces.add([table.setdefault(piece, len(table)) for piece in split.ids])
            number = start + offset
            entries, kept = labelled_shares(split, words[number], labels[number])
            shares.add(entries)
            word_lists.add(labels[number][place] for place in kept)
            seen_words.append([words[number][place] for place in kept])
        if options.word_context:
            added.append(np.concatenate(added_by_words(part, seen_words, partial(_embedded, alone))))
    if options.word_context:
        np.save(folder / ADDED, added.finish())
    counts["n_texts_cut"] = n_cut
    # a wrong word that was cut off cannot be learned from
    usable = [WRONG in word_lists.flat[a:b] for a, b in pairwise(word_lists.starts)]
    numbers = iter(range(first, len(captions)))
    lists = _Lists()
    for drawn in polluted:
        lists.add([number for number in islice(numbers, len(drawn)) if usable[number]])
    polluted_start, polluted_texts = lists.arrays(np.int64)
    counts["n_not_polluted"] = int((np.diff(polluted_start) == 0).sum()) if options.pollutions else 0
    ids = list(table)
    stored = np.lib.format.open_memmap(folder / PIECES, "w+", np.float32, (len(ids), backbone.dim))
    for start in range(0, len(ids), _TEXTS_AT_ONCE):
        stored[start : start + _TEXTS_AT_ONCE] = encode_pieces(backbone, ids[start : start + _TEXTS_AT_ONCE])
    stored.flush()

    piece_start, piece = pieces.arrays(np.int64)
    word_start, word_label = word_lists.arrays(np.uint8)
    share_start = np.array(shares.starts, dtype=np.int64)
    flat = np.array(shares.flat, dtype=np.float64).reshape(-1, 3)
    return _Told(
        texts=captions,
        vector=np.array([texts(caption) for caption in captions], dtype=np.int64),
        pair_text=np.array(pair_text, dtype=np.int64),
        arrays={
            "piece_start": piece_start,
            "piece": piece,
            "word_start": word_start,
            "word_label": word_label,
            "share_start": share_start,
            "share_piece": flat[:, 0].astype(np.int64),
            "share_word": flat[:, 1].astype(np.int64),
            "share": flat[:, 2].astype(np.float32),
            "n_semantic": np.array([sum(word.semantic for word in listed) for listed in words]),
            "polluted_start": polluted_start,
            "polluted": polluted_texts,
        },
    )


def _words_of(captions: Sequence[tuple[str, str]]) -> list[list[CaptionWord]]:
    """(caption, language) → its words; each language's tagger has all its captions at once."""
    found: list[list[CaptionWord]] = [[]] * len(captions)
    for language in sorted({language for _, language in captions}):
        numbers = [number for number, (_, own) in enumerate(captions) if own == language]
        listed = caption_words([captions[number][0] for number in numbers], language)
        for number, words in zip(numbers, listed, strict=True):
            found[number] = list(words)
    return found


def _pollutions(
    rows: Sequence[AlignedRow],
    of_image: np.ndarray,
    pair_text: Sequence[int],
    words: Sequence[Sequence[CaptionWord]],
    options: FeatureOptions,
    embedder: Embedder,
) -> list[list[Any]]:
    """Polluted captions of each row, without words that another caption of the image has."""
    if not options.pollutions:
        return [[] for _ in rows]
    frequent, like = {}, {}
    for language in sorted({row.language for row in rows}):
        numbers = [text for row, text in zip(rows, pair_text, strict=True) if row.language == language]
        frequent[language] = frequent_words(
            [""] * len(numbers), language, most=options.frequent, words=[words[text] for text in numbers]
        )
        if options.alike:
            like[language] = like_words(frequent[language], partial(_embedded, embedder))
    right: dict[tuple[int, str], set[str]] = {}
    images = of_image.tolist()
    for row, image, text in zip(rows, images, pair_text, strict=True):
        own = right.setdefault((image, row.language), set())
        own.update(word.text.casefold() for word in words[text])
    drawn_of = []
    for row, image, text in zip(rows, images, pair_text, strict=True):
        content = repr((row.caption, row.stand_ins, row.region_texts, row.names)).encode(
            "utf-8", "surrogatepass"
        )
        drawn = {}
        for number in range(options.pollutions):
            rng = np.random.default_rng([options.seed, xxhash.xxh3_64_intdigest(content), number])
            alike = options.alike and rng.random() < options.alike
            item = pollute(
                row.caption,
                row.language,
                frequent[row.language],
                rng,
                avoid=right[image, row.language],
                words=words[text],
                like=like[row.language] if alike else None,
            )
            if item is not None:
                drawn[item.caption] = item
        drawn_of.append(list(drawn.values()))
    return drawn_of


def _embedded(embedder: Embedder, texts: Sequence[str]) -> np.ndarray:
    rows = embedder.texts(texts, prefix=embedder.backbone.prefix)
    return rows.matrix[rows.index]


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
