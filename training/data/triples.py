"""Captions → batches of triples (image, caption, perturbed caption), as a pure function of epoch and step."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import xxhash

from capscore.errors import CapscoreError, InputError, LanguageWarning, Setting
from capscore.perturbations import KINDS, P, noun_finder, perturb
from training.data.captions import Captions

# Whether a caption gets one perturbation per step or all of them.
DRAWS = ("one", "all")


@dataclass(frozen=True)
class Noise:
    """How captions are perturbed.

    Attributes:
        kinds: Perturbations to draw from, among `capscore.perturbations.KINDS`.
        draws: "one" for one perturbation per caption and step, drawn by `shares`; "all" for each of them.
        p, shared_draws, removal, order: Arguments of `capscore.perturbations.perturb`.
        shares: Relative frequency of each of `kinds`; () for equal frequencies, as published. For "one" only.

    Raises:
        CapscoreError: an unknown perturbation or setting, p outside 0 to 1, or malformed shares.
    """

    kinds: tuple[str, ...] = KINDS
    draws: str = "one"
    p: float = P
    shared_draws: bool = True
    removal: str = "keep"
    shares: tuple[float, ...] = ()
    order: str = "published"

    def __post_init__(self) -> None:
        if not self.kinds:
            raise CapscoreError(f"no perturbation is chosen; there are {', '.join(KINDS)}")
        if len(set(self.kinds)) != len(self.kinds):
            raise CapscoreError(f"a perturbation is named twice: {', '.join(self.kinds)}")
        if self.draws not in DRAWS:
            raise CapscoreError(Setting("draws", self.draws), f" is not one of {', '.join(DRAWS)}")
        if self.shares and (
            len(self.shares) != len(self.kinds) or not all(0 < share < np.inf for share in self.shares)
        ):
            raise CapscoreError(
                Setting("kind_shares", list(self.shares)),
                f": expected a number above 0 for each of {', '.join(self.kinds)}",
            )
        if self.shares and self.draws == "all":
            raise CapscoreError(
                Setting("kind_shares", list(self.shares)),
                " is for ",
                Setting("draws", "one"),
                ": with 'all' a caption gets each perturbation",
            )
        for kind in self.kinds:
            # objects are given so that nothing is loaded that would find them
            objects = [] if kind == "substitution" else None
            perturb([], kind, p=self.p, removal=self.removal, order=self.order, objects=objects)

    @property
    def places(self) -> int:
        """Most perturbed captions of a caption at once."""
        return len(self.kinds) if self.draws == "all" else 1


@dataclass(frozen=True)
class Triple:
    """A row of a batch.

    Attributes:
        row: Number of the caption in the data.
        image: Number of its image, a row of `Captions.embeddings`.
        caption: The caption.
        language: Its language.
        perturbed: `Noise.places` perturbed captions; None where nothing could change the caption.
        kinds: Perturbation of each, "" where nothing changed the caption.
    """

    row: int
    image: int
    caption: str
    language: str
    perturbed: tuple[str | None, ...] = field(default=())
    kinds: tuple[str, ...] = field(default=())


class TripleBatches:
    """Batches of triples; perturbations are drawn anew each epoch.

    A batch is a pure function of (seed, epoch, step). Every caption appears once per epoch, in batches that
    differ by at most one row. A caption that the drawn perturbation cannot change gets another kind, drawn
    in the same way; a caption that no kind can change stays without a perturbed one.

    Args:
        captions: The data.
        rows: Numbers of the captions to use, such as `Split.training`.
        batch_size: Most rows per batch, over all processes.
        noise: How captions are perturbed.
        seed: Seed for the order and the perturbations.

    Raises:
        InputError: there are no rows, or the batch size is not a whole number above 0.
        MissingExtraError: the package that finds words or nouns of a language is not installed.

    Warns:
        LanguageWarning: no noun finder for a language, so that its captions without annotated objects get
            the other perturbations only.

    Attributes:
        steps_per_epoch: Number of batches per epoch.
        noun_finders: Result of `noun_finders`; {} without substitution.
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
            raise InputError(Setting("batch_size", batch_size), ": expected a whole number of at least 1")
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
        # Each caption tries the kinds in its own order until one changes it.
        spots = [(position, index) for position in range(len(rows)) for index in range(places)]
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
                    seed=epoch_seed(self.seed, epoch),
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
                perturbed=tuple(made.get((position, index), nothing)[0] for index in range(places)),
                kinds=tuple(made.get((position, index), nothing)[1] for index in range(places)),
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


def epoch_seed(seed: int, epoch: int) -> int:
    """The seed of an epoch's perturbations."""
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
    """Perturb captions of any languages, given by their numbers.

    Args:
        captions: The data.
        rows: Numbers of the captions (n).
        kind: One of `capscore.perturbations.KINDS`.
        noise: How captions are perturbed; its `kinds` and `draws` are ignored.
        finders: Result of `noun_finders`.
        seed: Seed, as `capscore.perturbations.perturb` takes it.

    Returns:
        n texts, and bool (n,), True where the caption is unchanged.
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
            order=noise.order,
        )
        for place, text, same in zip(places, result.captions, result.unchanged, strict=True):
            texts[place], unchanged[place] = text, same
    return texts, unchanged


def noun_finders(captions: Captions, rows: Sequence[int] | np.ndarray) -> dict[str, str]:
    """Noun finders for captions without annotated objects: language → name of the finder, "" without any.

    Raises:
        MissingExtraError: there is a finder for a language, but it is not installed.

    Warns:
        LanguageWarning: there is no finder for a language.
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
            f"there is no noun finder for {', '.join(blind)}: captions without annotated objects get the "
            "other perturbations only",
            LanguageWarning,
            stacklevel=3,
        )
    return finders
