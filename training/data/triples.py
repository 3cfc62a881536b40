"""Captions with what they describe → (image, caption, perturbed caption) triples, batch by batch.

In: `CaptionRow`s. Out: `Captions`, each image embedded once; a split by image; and `TripleBatches`, whose
batches are a pure function of (seed, epoch, step), so that a run that was broken off goes on exactly.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import IO

import numpy as np
import xxhash

from capscore.benchmark.protocols.results import counted
from capscore.embedding.embedder import EmbeddedRows, Embedder
from capscore.errors import CapscoreError, ImageError, InputError, LanguageWarning
from capscore.perturbations.published import KINDS, Object, P, noun_finder, perturb
from training.data.caption_rows import CaptionRow

# Embeddings beyond this many bytes go to a file: 2 million images of 512 numbers are 4 GB.
IN_MEMORY = 2**30
# Rows that are read and embedded at a time.
CHUNK = 1024
# How many perturbed captions a caption gets a step.
DRAWS = ("one", "all")


@dataclass(frozen=True, eq=False)
class Captions:
    """n captions and the embeddings of the u images that they describe.

    Attributes:
        texts: the captions.
        languages: the language of each, a primary subtag.
        objects: the critical objects of each; None where they are not annotated.
        image: int64 (n,), which image each describes.
        names: by which a list may name each.
        embeddings: float32 (u, d), rows of unit length; a memory map where they are many.
        keys: u content keys: equal pixels, or equal texts that stand in, are one image.
        n_stand_ins: how many of the u are texts that stand in for an image.
        n_truncated: how many of those were cut to the context length.
    """

    texts: list[str]
    languages: list[str]
    objects: list[tuple[Object, ...] | None]
    image: np.ndarray
    names: list[tuple[str, ...]]
    embeddings: np.ndarray
    keys: list[str]
    n_stand_ins: int
    n_truncated: int

    def __len__(self) -> int:
        return len(self.texts)


def embed_captions(
    rows: Iterable[CaptionRow],
    embedder: Embedder,
    *,
    folder: str | Path | None = None,
    in_memory: int = IN_MEMORY,
) -> Captions:
    """Take in captions and embed what they describe: each image once, from the cache where it can be.

    Texts that stand in go through the text tower as it is now, before any training.

    Args:
        rows: captions with an image or a `stand_in` each; read as they come, `CHUNK` at a time.
        embedder: holds the base.
        folder: where a file for embeddings is made, if they are more than `in_memory` bytes; None for the
            system's folder for temporary files. It is gone when the process ends.
        in_memory: bytes of embeddings that are kept in memory.

    Raises:
        InputError: there are no rows, or a row is wrong; names its place.
        ImageError: an image cannot be read; names its place.
    """
    texts: list[str] = []
    languages: list[str] = []
    objects: list[tuple[Object, ...] | None] = []
    names: list[tuple[str, ...]] = []
    index: list[int] = []
    places: dict[str, int] = {}
    n_stand_ins = n_truncated = 0
    matrix = StoredRows(embedder.backbone.dim, folder, in_memory)
    source = iter(rows)
    while chunk := list(islice(source, CHUNK)):
        pictured = [row for row in chunk if row.stand_in is None]
        described = [row for row in chunk if row.stand_in is not None]
        shown = embedder.images([row.image for row in pictured], on_error="skip")
        if shown.failures:
            first = min(shown.failures)
            raise ImageError(f"{pictured[first].place}, image: {shown.failures[first].message}")
        told = embedder.texts([row.stand_in for row in described], prefix=embedder.backbone.prefix)
        before = len(places)
        for embedded in (shown, told):
            matrix.append(_fresh(embedded, places))
            if embedded is told:
                n_stand_ins += len(places) - before
            before = len(places)
        n_truncated += int(told.truncated.sum())
        keys = {True: iter(shown.keys), False: iter(told.keys)}
        for row in chunk:
            index.append(places[next(keys[row.stand_in is None])])
            texts.append(row.caption)
            languages.append(row.language)
            objects.append(row.objects)
            names.append(row.names)
    if not texts:
        raise InputError("there are no captions to train on")
    return Captions(
        texts=texts,
        languages=languages,
        objects=objects,
        image=np.array(index, dtype=np.int64),
        names=names,
        embeddings=matrix.finish(),
        keys=list(places),
        n_stand_ins=n_stand_ins,
        n_truncated=n_truncated,
    )


def _fresh(embedded: EmbeddedRows, places: dict[str, int]) -> np.ndarray:
    """The embeddings of what has no place yet; each gets one."""
    new = []
    for key, row in zip(embedded.keys, embedded.index, strict=True):
        if key not in places:
            places[key] = len(places)
            new.append(row)
    return embedded.matrix[new]


class StoredRows:
    """A matrix that grows: in memory, then in a file without a name, which goes with the process."""

    def __init__(self, dim: int, folder: str | Path | None, in_memory: int, dtype: type = np.float32):
        self._dim, self._folder, self._most, self._dtype = dim, folder, in_memory, dtype
        self._parts: list[np.ndarray] = []
        self._bytes = self._n = 0
        self._file: IO[bytes] | None = None

    def append(self, rows: np.ndarray) -> None:
        self._n += len(rows)
        self._bytes += rows.nbytes
        self._parts.append(rows)
        if self._bytes > self._most:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder)
            for part in self._parts:
                self._file.write(np.ascontiguousarray(part, dtype=self._dtype).data)
            self._parts, self._bytes = [], self._most

    def finish(self) -> np.ndarray:
        if self._file is None:
            return np.concatenate(self._parts).astype(self._dtype, copy=False)
        for part in self._parts:
            self._file.write(np.ascontiguousarray(part, dtype=self._dtype).data)
        self._file.flush()
        return np.memmap(self._file, dtype=self._dtype, mode="r", shape=(self._n, self._dim))


# -------------------------------------------------------------------------------- split


@dataclass(frozen=True, eq=False)
class Split:
    """Which captions are trained on and which are measured on; no image has captions in both.

    Attributes:
        training: int64, numbers of captions in the order of the data.
        validation: int64, likewise.
        n_held_out: captions of images that a list holds out, in neither part.
        n_left_out: in few-shot mode, captions that share an image with training and did not fit into it.
    """

    training: np.ndarray
    validation: np.ndarray
    n_held_out: int
    n_left_out: int


def split_by_image(
    captions: Captions,
    *,
    validation_share: float = 0.1,
    few_shot: int | None = None,
    hold_out: Collection[str] = (),
    seed: int = 0,
) -> Split:
    """Split captions so that an image is on one side only (PR-MCS App. B.1: 9:1).

    Which side an image falls on depends on its content and the seed, not on the order of the data.

    Args:
        captions: the data.
        validation_share: share of the images that go to validation; 0 for none.
        few_shot: how many captions to train on, all others being validation (§5.4: 300, a 1:9 split of
            3,000); None for the split above.
        hold_out: ids and names of images; all captions of these images are left out of both parts.
        seed: another one gives another split.

    Raises:
        InputError: nothing would be left to train on, or fewer captions than `few_shot`, or a setting out of
            range.
    """
    if isinstance(validation_share, bool) or not 0 <= validation_share < 1:
        raise InputError(f"validation_share={validation_share!r}: expected a share from 0 to below 1")
    if few_shot is not None and (isinstance(few_shot, bool) or few_shot < 1):
        raise InputError(f"few_shot={few_shot!r}: expected a number of captions, at least 1")
    n_images = len(captions.keys)
    held = np.zeros(n_images, dtype=bool)
    if hold_out:
        wanted = frozenset(hold_out)
        named = np.fromiter((not wanted.isdisjoint(names) for names in captions.names), bool, len(captions))
        held[captions.image[named]] = True
    free = np.flatnonzero(~held)
    if not len(free):
        raise InputError(
            f"all {n_images:,} images are on the list of those to hold out: nothing is left to train on"
        )
    order = free[np.argsort([_place(captions.keys[image], seed) for image in free], kind="stable")]
    rows_of = np.argsort(captions.image, kind="stable")
    starts = np.searchsorted(captions.image[rows_of], np.arange(n_images + 1))
    n_held_out = int(held[captions.image].sum())
    if few_shot is not None:
        return _few_shot(captions, order, rows_of, starts, few_shot, n_held_out)

    n_validation = round(validation_share * len(order))
    if validation_share and not n_validation and len(order) > 1:
        n_validation = 1
    if n_validation == len(order):
        raise InputError(
            f"validation_share={validation_share:g} of {counted(len(order), 'image')} puts all captions in "
            "the validation split: nothing is left to train on"
        )
    in_validation = np.zeros(n_images, dtype=bool)
    in_validation[order[:n_validation]] = True
    is_validation = in_validation[captions.image]
    is_held = held[captions.image]
    return Split(
        training=np.flatnonzero(~is_validation & ~is_held),
        validation=np.flatnonzero(is_validation),
        n_held_out=n_held_out,
        n_left_out=0,
    )


def _few_shot(
    captions: Captions,
    order: np.ndarray,
    rows_of: np.ndarray,
    starts: np.ndarray,
    few_shot: int,
    n_held_out: int,
) -> Split:
    training: list[int] = []
    images = iter(order.tolist())
    n_left_out = 0
    for image in images:
        rows = rows_of[starts[image] : starts[image + 1]].tolist()
        taken = rows[: few_shot - len(training)]
        training += taken
        n_left_out += len(rows) - len(taken)
        if len(training) == few_shot:
            break
    validation = [row for image in images for row in rows_of[starts[image] : starts[image + 1]].tolist()]
    if len(training) < few_shot or not validation:
        n = len(training) + n_left_out + len(validation)
        raise InputError(
            f"few_shot={few_shot}: {counted(n, 'caption')} are not enough to train on that many and to "
            "measure on others"
        )
    return Split(
        training=np.sort(np.array(training, dtype=np.int64)),
        validation=np.sort(np.array(validation, dtype=np.int64)),
        n_held_out=n_held_out,
        n_left_out=n_left_out,
    )


def _place(key: str, seed: int) -> int:
    return xxhash.xxh3_64_intdigest(f"{seed}|{key}".encode())


# ------------------------------------------------------------------------------ batches


@dataclass(frozen=True)
class Noise:
    """How captions are perturbed.

    Attributes:
        kinds: which perturbations, of `capscore.perturbations.published.KINDS`.
        draws: "one" gives each caption one perturbation a step, drawn by `shares`; "all" gives it each.
        shares: how often each of `kinds` is drawn, relative to the others; () draws them alike, as published.
            For "one" only.
        p, shared_draws, removal: as `capscore.perturbations.published.perturb` takes them.

    Raises:
        CapscoreError: an unknown perturbation or setting, p outside 0 to 1, shares that are none.
    """

    kinds: tuple[str, ...] = KINDS
    draws: str = "one"
    p: float = P
    shared_draws: bool = True
    removal: str = "keep"
    shares: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not self.kinds:
            raise CapscoreError(f"no perturbation is chosen; there are {', '.join(KINDS)}")
        if len(set(self.kinds)) != len(self.kinds):
            raise CapscoreError(f"a perturbation is named twice: {', '.join(self.kinds)}")
        if self.draws not in DRAWS:
            raise CapscoreError(f"draws={self.draws!r} is not one of {', '.join(DRAWS)}")
        if self.shares and (
            len(self.shares) != len(self.kinds) or not all(0 < share < np.inf for share in self.shares)
        ):
            raise CapscoreError(
                f"shares={list(self.shares)}: expected a number above 0 for each of {', '.join(self.kinds)}"
            )
        if self.shares and self.draws == "all":
            raise CapscoreError(
                f"shares={list(self.shares)} is for draws='one': with 'all' a caption gets each perturbation"
            )
        for kind in self.kinds:
            # objects are given so that nothing is loaded that would find them
            objects = [] if kind == "substitution" else None
            perturb([], kind, p=self.p, removal=self.removal, objects=objects)

    @property
    def places(self) -> int:
        """Perturbed captions that a caption can have at once."""
        return len(self.kinds) if self.draws == "all" else 1


@dataclass(frozen=True)
class Triple:
    """A row of a batch.

    Attributes:
        row: number of the caption in the data.
        image: which row of `Captions.embeddings` its image is.
        caption: the caption.
        language: its language.
        perturbed: the caption perturbed, `Noise.places` times; None where nothing could change it.
        kinds: what each was perturbed by, "" where it was not.
    """

    row: int
    image: int
    caption: str
    language: str
    perturbed: tuple[str | None, ...] = field(default=())
    kinds: tuple[str, ...] = field(default=())


class TripleBatches:
    """Batches of triples; perturbations are drawn afresh each epoch.

    A batch is a pure function of (seed, epoch, step). All captions come once an epoch, in batches that differ
    by one row at most. A caption that the drawn perturbation cannot change is given another kind, drawn
    likewise; one that none can change counts without.

    Args:
        captions: the data.
        rows: numbers of the captions to take, such as `Split.training`.
        batch_size: most rows a batch, over all processes.
        noise: how they are perturbed.
        seed: of the order and the perturbations.

    Raises:
        InputError: no rows, or a batch size that is none.
        MissingExtraError: what finds words or nouns of a language is not installed.

    Warns:
        LanguageWarning: nothing finds nouns in a language, so that its captions without annotated objects get
            the other perturbations only.

    Attributes:
        steps_per_epoch: batches an epoch.
        noun_finders: what `noun_finders` gives; {} where nothing is substituted.
    """

    def __init__(
        self,
        captions: Captions,
        rows: np.ndarray | Sequence[int],
        *,
        batch_size: int,
        noise: Noise | None = None,
        seed: int = 0,
    ):
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise InputError(f"batch_size={batch_size!r}: expected a whole number of at least 1")
        self.captions = captions
        self.rows = np.asarray(rows, dtype=np.int64)
        if not len(self.rows):
            raise InputError("there are no captions to train on")
        self.noise = noise or Noise()
        self.seed = seed
        self.steps_per_epoch = -(-len(self.rows) // batch_size)
        self.noun_finders = noun_finders(captions, self.rows) if "substitution" in self.noise.kinds else {}
        self._order = lru_cache(maxsize=2)(self._shuffled)

    def batch(self, epoch: int, step: int) -> list[Triple]:
        """The rows of a step, counted from 0 in each epoch.

        Raises:
            InputError: there is no such step.
        """
        if not 0 <= step < self.steps_per_epoch:
            raise InputError(f"step {step} of an epoch of {self.steps_per_epoch}")
        n = len(self.rows)
        start, stop = (n * number // self.steps_per_epoch for number in (step, step + 1))
        return self.triples(self._order(epoch)[start:stop], epoch)

    def triples(self, rows: Sequence[int] | np.ndarray, epoch: int) -> list[Triple]:
        """Captions by their numbers, perturbed as they are in an epoch."""
        rows = [int(row) for row in rows]
        kinds, places = self.noise.kinds, self.noise.places
        # each caption tries the kinds in an order of its own until one changes it
        spots = [(position, place) for position in range(len(rows)) for place in range(places)]
        tries = {spot: self._tries(rows[spot[0]], epoch, spot[1]) for spot in spots}
        made: dict[tuple[int, int], tuple[str, str]] = {}
        for attempt in range(len(tries[spots[0]]) if spots else 0):
            by_kind: dict[str, list[tuple[int, int]]] = {}
            for spot in spots:
                if spot not in made:
                    by_kind.setdefault(kinds[tries[spot][attempt]], []).append(spot)
            for kind, waiting in by_kind.items():
                texts, unchanged = perturb_rows(
                    self.captions,
                    [rows[position] for position, _ in waiting],
                    kind,
                    noise=self.noise,
                    finders=self.noun_finders,
                    seed=_seed(self.seed, epoch),
                )
                for spot, text, same in zip(waiting, texts, unchanged, strict=True):
                    if not same:
                        made[spot] = (text, kind)
        nothing = (None, "")
        return [
            Triple(
                row=row,
                image=int(self.captions.image[row]),
                caption=self.captions.texts[row],
                language=self.captions.languages[row],
                perturbed=tuple(made.get((position, place), nothing)[0] for place in range(places)),
                kinds=tuple(made.get((position, place), nothing)[1] for place in range(places)),
            )
            for position, row in enumerate(rows)
        ]

    def _tries(self, row: int, epoch: int, place: int) -> Sequence[int]:
        if self.noise.draws == "all":
            return (place,)
        chance = np.random.default_rng((self.seed, epoch, 1, row))
        n, shares = len(self.noise.kinds), self.noise.shares
        if not shares:
            return chance.permutation(n).tolist()
        return chance.choice(n, size=n, replace=False, p=np.array(shares) / sum(shares)).tolist()

    def _shuffled(self, epoch: int) -> np.ndarray:
        return np.random.default_rng((self.seed, epoch, 0)).permutation(self.rows)


def _seed(seed: int, epoch: int) -> int:
    return xxhash.xxh3_64_intdigest(f"{seed}|{epoch}".encode())


def perturb_rows(
    captions: Captions,
    rows: Sequence[int],
    kind: str,
    *,
    noise: Noise,
    finders: Mapping[str, str],
    seed: int,
) -> tuple[list[str], np.ndarray]:
    """Perturb captions of any languages, by their numbers.

    Args:
        captions: the data.
        rows: n numbers.
        kind: one of `capscore.perturbations.published.KINDS`.
        noise: how; its kinds and `draws` do not count.
        finders: what `noun_finders` gives.
        seed: as `capscore.perturbations.published.perturb` takes it.

    Returns:
        n texts, and bool (n,), True where the caption stayed as it was.
    """
    texts = [captions.texts[row] for row in rows]
    unchanged = np.ones(len(rows), dtype=bool)
    groups: dict[tuple[str, bool], list[int]] = {}
    for place, row in enumerate(rows):
        language = captions.languages[row]
        given = kind == "substitution" and captions.objects[row] is not None
        if kind != "substitution" or given or finders.get(language):
            groups.setdefault((language, given), []).append(place)
    for (language, given), places in groups.items():
        result = perturb(
            [texts[place] for place in places],
            kind,
            language,
            p=noise.p,
            seed=seed,
            objects=[captions.objects[rows[place]] or () for place in places] if given else None,
            shared_draws=noise.shared_draws,
            removal=noise.removal,
        )
        for place, text, same in zip(places, result.captions, result.unchanged, strict=True):
            texts[place], unchanged[place] = text, same
    return texts, unchanged


def noun_finders(captions: Captions, rows: Sequence[int] | np.ndarray) -> dict[str, str]:
    """What finds the nouns of captions without annotated objects: language → its name, "" for nothing.

    Raises:
        MissingExtraError: there is something for a language, but it is not installed.

    Warns:
        LanguageWarning: there is nothing for a language.
    """
    without = sorted({captions.languages[row] for row in rows if captions.objects[row] is None})
    finders: dict[str, str] = {}
    for language in without:
        try:
            finders[language] = noun_finder(language)
        except InputError:
            finders[language] = ""
    blind = [language for language, finder in finders.items() if not finder]
    if blind:
        warnings.warn(
            f"nothing finds nouns in {', '.join(blind)}: without annotated objects captions in "
            f"{'it' if len(blind) == 1 else 'them'} get the other perturbations only",
            LanguageWarning,
            stacklevel=3,
        )
    return finders
