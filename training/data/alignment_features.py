"""`Row`s → features for InfoMetIC on disk: every image, region, caption and piece embedded once."""

from __future__ import annotations

import json
from collections import namedtuple
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import xxhash
from PIL import Image

from capscore.embedding.embedder import Embedder
from capscore.embedding.photos import in_batches
from capscore.errors import CapscoreError, InputError, Setting
from capscore.images.boxes import check_boxes, normalised, overlaps
from capscore.infometic.regions import RegionFinder, Regions, choose, load_finder
from capscore.infometic.words import (
    CaptionWord,
    Pieces,
    encode_pieces,
    split_pieces,
    word_shares,
    words_by_language,
)
from capscore.text.letters import folded
from capscore.text.word_classes import tagger_name
from training.data.alignment_data import PIECES, VECTORS, AlignmentData, Lists, load_features, store_features
from training.data.photos import Photos, photos_of
from training.data.pictures import Pictures, raise_first
from training.data.rows import Row
from training.data.stored import StoredRows, whole_folder
from training.data.word_pollution import DrawnChoices, Polluted, any_frequent, frequent_words, pollute

GIVEN = "given"  # regions are the boxes that the rows give
# How the seed of a row's wrong words has its region texts.
RegionText = namedtuple("RegionText", "text box")
# Texts, or pieces, that are embedded between two writes.
_TEXTS_AT_ONCE = 16_384
_FORMAT = 5  # changes when the same rows and options would give other features
Embed = Callable[[Sequence[str]], np.ndarray]  # texts → their embeddings


@dataclass
class FeatureOptions:
    """How rows become features; most are settings of the recipe (`training.infometic.Settings`).

    `overlap` (intersection over union) with a mentioned box makes a found region count as mentioned, and a
    replacement is drawn from the `frequent` most frequent words of a class.
    """

    regions: str = "windows"
    n_regions: int = 20
    overlap: float = 0.5
    max_tokens: int = 32
    pollutions: int = 1
    frequent: int = 300
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("n_regions", 1), ("max_tokens", 1), ("pollutions", 0), ("frequent", 1)):
            value = getattr(self, name)
            if value < least:
                raise CapscoreError(Setting(name, value), f": expected a whole number of at least {least}")
        if not 0 < self.overlap <= 1:
            raise CapscoreError(Setting("overlap", self.overlap), ": expected a share above 0, at most 1")

    def replacements(self, captions: Sequence[Sequence[CaptionWord]], embed: Embed) -> DrawnChoices:
        """What may replace a word, from the words of all captions of a language, which `embed` embeds."""
        frequent = frequent_words(captions, most=self.frequent)
        return lambda rng: any_frequent(frequent)


def prepare(
    rows: Iterable[Row], embedder: Embedder, options: FeatureOptions, folder: str | Path
) -> AlignmentData:
    """Features of rows: computed once for the same rows, options and backbone, then read.

    They are in a folder of their own in `folder`, named by a digest. An error names the malformed row, or the
    package that finds the words of a language.
    """
    rows = list(rows)
    if not rows:
        raise InputError("there are no captions to train on")
    contents, finder = _contents(rows, embedder), None
    if options.regions != GIVEN and any(row.image is not None and not row.region_texts for row in rows):
        finder = load_finder(options.regions, embedder)
    parts = {
        "format": _FORMAT,
        "options": asdict(options),
        "backbone": embedder.fingerprint,
        "prefix": embedder.backbone.prefix,
        "finder": "" if finder is None else finder.fingerprint,
        "taggers": [tagger_name(language) for language in sorted({row.language for row in rows})],
    }
    digest = xxhash.xxh3_128(json.dumps(parts, sort_keys=True).encode())
    photos = photos_of(rows, contents)
    for row, content, photo in zip(rows, contents, photos.number, strict=True):
        plain = replace(row, image=None, where="", photo=())  # of which one may be a path of this machine
        digest.update(f"{plain!r}|{content}|{photo}\n".encode("utf-8", "surrogatepass"))
    final = Path(folder).expanduser() / digest.hexdigest()
    if not final.exists():
        with whole_folder(final) as aside:
            _Builder(rows, contents, photos, embedder, options, finder, aside).build()
    return load_features(final)


def _contents(rows: Sequence[Row], embedder: Embedder) -> list[str]:
    """The content of what each row describes: a key of its image, or a digest of its stand-ins."""
    pictured = [row for row in rows if row.image is not None]
    with embedder.photos([row.image for row in pictured], on_error="skip") as photos:
        pass
    raise_first(photos.failures, pictured)
    keys = iter(photos.keys)
    contents = []
    for row in rows:
        joined = "\n".join(row.stand_in).encode("utf-8", "surrogatepass")
        contents.append(xxhash.xxh3_128_hexdigest(joined) if row.image is None else next(keys))
    return contents


@dataclass(frozen=True, eq=False)
class _Regions:
    """The regions of a picture: rows of the matrix, and boxes (m, 4) in shares of the image of this size.

    `given` are the numbers of the row's boxes or texts that are regions; None where regions were found.
    """

    rows: Sequence[int]
    boxes: np.ndarray
    given: np.ndarray | None
    size: tuple[int, int]

    def label(self, row: Row, overlap: float) -> np.ndarray:
        """Labels of the regions that a row mentions; empty where that is unknown, or no region shows it."""
        if row.mentioned is None:
            return np.zeros(0, np.uint8)
        if self.given is not None:
            shows = np.isin(self.given, row.mentioned)
        else:
            named = normalised(_pixel_boxes(row, self.size)[list(row.mentioned)], self.size)
            shows = np.any(overlaps(self.boxes, named) >= overlap, axis=1)
        # the null region stands for a caption that mentions none
        label = np.array([*shows, not row.mentioned], dtype=np.uint8)
        return label if label.any() else label[:0]


@dataclass(eq=False)
class _Builder:
    """Embeds the images, regions and texts of rows, each once, and writes them into a folder.

    It is the `ImageReader` that finds, chooses and embeds regions as the embedder decodes images.
    """

    rows: Sequence[Row]
    contents: Sequence[str]
    photos: Photos
    embedder: Embedder
    options: FeatureOptions
    finder: RegionFinder | None
    folder: Path

    def __post_init__(self) -> None:
        self.vectors = StoredRows(self.embedder.backbone.dim, self.folder)
        self._row_of: dict[str, int] = {}  # texts in `vectors`
        # content key of an image → numbers and rows of the pictures whose regions are boxes in it
        self._with_boxes: dict[str, list[tuple[int, Row]]] = {}
        self._regions: dict[int, _Regions] = {}  # number of a picture → its regions

    def build(self) -> None:
        rows = self.rows
        firsts: dict[tuple[object, ...], int] = {}  # pictures with equal regions → their first row
        pictures = []
        for index, row in enumerate(rows):
            boxes = row.boxes if self.options.regions == GIVEN else None
            pictures.append((self.contents[index], row.region_texts, boxes))
            firsts.setdefault(pictures[-1], index)
        numbers = {picture: number for number, picture in enumerate(firsts)}
        pair_image = [numbers[picture] for picture in pictures]
        image_vector, regions = self._embed_pictures([*firsts.values()])
        overlap = self.options.overlap
        labels = [regions[number].label(row, overlap) for number, row in zip(pair_image, rows, strict=True)]
        captions = _Captions(rows, self.photos.number.tolist(), self.options, self.embedder)
        arrays = self._store_pieces(captions)
        arrays |= {
            "image_vector": np.array(image_vector, dtype=np.int64),
            "regions": Lists.of((found.rows for found in regions), np.int64),
            "boxes": Lists.of((found.boxes for found in regions), np.float32, 4),
            "text_vector": np.array(self._texts(captions.texts), dtype=np.int64),
            "pair_image": np.array(pair_image, dtype=np.int64),
            "pair_text": np.array(captions.pair_text, dtype=np.int64),
            "pair_language": np.array([row.language for row in rows]),
            "labels": Lists.of(labels, np.uint8),
        }
        np.save(self.folder / VECTORS, self.vectors.finish())
        store_features(self.folder, arrays, captions.texts, self.photos)

    def _embed_pictures(self, indices: Sequence[int]) -> tuple[list[int], list[_Regions]]:
        """The row of each picture in the matrix, and its regions; `indices` are of a row of each."""
        rows = [self.rows[index] for index in indices]
        for number, row in enumerate(rows):
            if row.image is None or row.region_texts:
                continue
            if self.finder is None and row.boxes is None:
                raise InputError(f"{row.where} has no boxes, which ", Setting("regions", GIVEN), " needs")
            self._with_boxes.setdefault(self.contents[indices[number]], []).append((number, row))
        pictures = Pictures(self.embedder, self.vectors, self)
        _, places = pictures.add(rows)
        most = self.options.n_regions
        self._texts([text for row in rows for text in row.region_texts[:most]])  # all at once
        for number, row in enumerate(rows):
            if number not in self._regions:
                texts = self._texts(row.region_texts[:most])
                nowhere = np.zeros((len(texts), 4))
                self._regions[number] = _Regions(texts, nowhere, np.arange(len(texts)), (0, 0))
        return [pictures.row_of[place] for place in places], [self._regions[n] for n in range(len(rows))]

    def wanted(self, keys: Sequence[str]) -> Collection[str]:
        return self._with_boxes.keys() & set(keys)

    def look(self, images: Mapping[str, Image.Image]) -> None:
        numbers, shown, proposed = [], [], []
        for key, image in images.items():
            for number, row in self._with_boxes[key]:
                numbers.append(number)
                shown.append(image)
                if self.finder is None:
                    boxes = _pixel_boxes(row, image.size)
                    proposed.append(Regions.unlabelled(boxes, np.ones(len(boxes))))
        if self.finder is not None:
            proposed = self.finder.find(shown)
        embedded = self.embedder.regions(shown, [regions.boxes for regions in proposed])
        for number, image, regions, vectors in zip(numbers, shown, proposed, embedded, strict=True):
            chosen = choose(regions, vectors, n=self.options.n_regions, seed=self.options.seed)
            rows, places = self.vectors.append(vectors[chosen]), normalised(regions.boxes[chosen], image.size)
            given = chosen if self.finder is None else None
            self._regions[number] = _Regions(rows, places, given, image.size)

    def _texts(self, texts: Sequence[str]) -> list[int]:
        """The row of each text in the matrix; those that have none are embedded."""
        new = [text for text in dict.fromkeys(texts) if text not in self._row_of]
        for part in in_batches(new, _TEXTS_AT_ONCE):
            self._row_of |= zip(part, self.vectors.append(embedded(self.embedder, part)), strict=True)
        return [self._row_of[text] for text in texts]

    def _store_pieces(self, captions: _Captions) -> dict[str, np.ndarray | Lists]:
        """Write the embeddings of the captions' pieces; returns what is known of words and pieces."""
        backbone, options = self.embedder.backbone, self.options
        numbers: dict[int, int] = {}
        pieces: list[list[int]] = []
        words: list[list[int]] = []
        spans: list[list[tuple[int, int]]] = []
        shares: list[list[tuple[int, int, float]]] = []
        for start in range(0, len(captions.texts), _TEXTS_AT_ONCE):
            part = captions.texts[start : start + _TEXTS_AT_ONCE]
            for text, split in enumerate(split_pieces(backbone, part, options.max_tokens), start):
                pieces.append([numbers.setdefault(piece, len(numbers)) for piece in split.ids])
                entries, seen = seen_words(split, captions.words[text])
                shares.append(entries)
                words.append([int(index != captions.wrong[text]) for index in seen])
                ends = [captions.words[text][index] for index in seen]
                spans.append([(word.start, word.end) for word in ends])
        stored = StoredRows(backbone.dim, self.folder)
        for ids in in_batches(numbers, _TEXTS_AT_ONCE):
            stored.append(encode_pieces(backbone, ids))
        np.save(self.folder / PIECES, stored.finish())
        # a wrong word that was cut off cannot be learned from
        polluted = [[text for text in texts if 0 in words[text]] for texts in captions.polluted]
        return {
            "pieces": Lists.of(pieces, np.int64),
            "words": Lists.of(words, np.uint8),
            "spans": Lists.of(spans, np.int64, 2),
            "shares": Lists.of(shares, np.float32, 3),
            "n_semantic": np.array([sum(word.semantic for word in listed) for listed in captions.words]),
            "polluted": Lists.of(polluted, np.int64),
        }


def embedded(embedder: Embedder, texts: Sequence[str]) -> np.ndarray:
    """Embeddings (n, d) of texts, with the backbone's prefix."""
    rows = embedder.texts(texts, prefix=embedder.backbone.prefix)
    return rows.matrix[rows.index]


def _pixel_boxes(row: Row, size: tuple[int, int]) -> np.ndarray:
    try:
        return check_boxes(row.boxes or (), size)
    except InputError as error:
        raise InputError(f"{row.where}, {error.message}") from None


class _Captions:
    """Distinct captions, polluted ones behind them, their words, and the number of the wrong one, or −1.

    `pair_text` is the number of each row's caption, `polluted` has those of its polluted captions.
    """

    def __init__(
        self, rows: Sequence[Row], photos: Sequence[int], options: FeatureOptions, embedder: Embedder
    ):
        known: dict[tuple[str, str], int] = {}
        self.pair_text = [known.setdefault((row.caption, row.language), len(known)) for row in rows]
        self.texts = [caption for caption, _ in known]
        self.words = words_by_language(self.texts, [language for _, language in known])
        self.wrong = [-1] * len(known)
        self.polluted: list[range] = []
        for several in self._pollutions(rows, photos, options, embedder):
            self.polluted.append(range(len(self.texts), len(self.texts) + len(several)))
            self.texts += [item.caption for item in several]
            self.words += [item.words for item in several]
            self.wrong += [item.replaced for item in several]

    def _pollutions(
        self, rows: Sequence[Row], photos: Sequence[int], options: FeatureOptions, embedder: Embedder
    ) -> list[list[Polluted]]:
        """Polluted captions of each row, without words that another caption of the photo has."""
        if not options.pollutions:
            return [[]] * len(rows)
        right: dict[tuple[int, str], set[str]] = {}
        by_language: dict[str, list[list[CaptionWord]]] = {}
        for row, photo, text in zip(rows, photos, self.pair_text, strict=True):
            by_language.setdefault(row.language, []).append(self.words[text])
            said = right.setdefault((photo, row.language), set())
            said.update(folded(word.text) for word in self.words[text])
        embed = partial(embedded, embedder)
        replacements = {
            language: options.replacements(words, embed) for language, words in sorted(by_language.items())
        }
        found = []
        for row, photo, text in zip(rows, photos, self.pair_text, strict=True):
            regions = tuple(RegionText(text, None) for text in row.region_texts)
            content = repr((row.caption, row.stand_in, regions, row.names))
            seed = xxhash.xxh3_64_intdigest(content.encode("utf-8", "surrogatepass"))
            language, avoid, drawn = row.language, right[photo, row.language], {}
            for number in range(options.pollutions):
                rng = np.random.default_rng([options.seed, seed, number])
                choices = replacements[language](rng)
                item = pollute(row.caption, language, self.words[text], choices, rng, avoid=avoid)
                if item is not None:
                    drawn[item.caption] = item
            found.append(list(drawn.values()))
        return found


def seen_words(
    pieces: Pieces, words: Sequence[CaptionWord]
) -> tuple[list[tuple[int, int, float]], list[int]]:
    """The semantic words that the network sees to their end, and the pieces that make up each.

    Returns (piece, number of the word among the seen ones, share of the piece in it), and the seen words.
    """
    shares = word_shares(pieces, words)
    there = np.any(shares, axis=0)
    wanted = [word.semantic and word.end <= pieces.read_to for word in words]
    seen = [number for number in range(len(words)) if wanted[number] and there[number]]
    words_of, pieces_of = np.nonzero(shares[:, seen].T)
    values = shares[:, seen][pieces_of, words_of]
    return [*zip(pieces_of.tolist(), words_of.tolist(), values.tolist(), strict=True)], seen
