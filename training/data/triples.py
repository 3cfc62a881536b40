"""Captions → batches of triples (image, caption, perturbed caption), as a pure function of epoch and step."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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
        if not self.kinds or len(set(self.kinds)) != len(self.kinds):
            raise CapscoreError(
                Setting("kinds", list(self.kinds)), f": expected one or more of {', '.join(KINDS)}, each once"
            )
        if self.draws not in DRAWS:
            raise CapscoreError(Setting("draws", self.draws), f" is not one of {', '.join(DRAWS)}")
        shares = Setting("kind_shares", list(self.shares))
        right = len(self.shares) == len(self.kinds) and all(0 < share < np.inf for share in self.shares)
        if self.shares and not right:
            raise CapscoreError(shares, f": expected a number above 0 for each of {', '.join(self.kinds)}")
        if self.shares and self.draws == "all":
            raise CapscoreError(
                shares, " is for ", Setting("draws", "one"), ": with 'all' a caption gets each perturbation"
            )
        for kind in self.kinds:
            # objects are given so that nothing is loaded that would find them
            objects: list[str] | None = [] if kind == "substitution" else None
            perturb([], kind, p=self.p, removal=self.removal, order=self.order, objects=objects)

    @property
    def n_at_once(self) -> int:
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
        perturbed: `Noise.n_at_once` perturbed captions; None where nothing could change the caption.
        kinds: Perturbation of each, "" where nothing changed the caption.
    """

    row: int
    image: int
    caption: str
    language: str
    perturbed: tuple[str | None, ...] = ()
    kinds: tuple[str, ...] = ()


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
        InputError: there are no rows.
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
        rows: Iterable[int],
        *,
        batch_size: int,
        noise: Noise | None = None,
        seed: int = 0,
    ):
        self.captions, self.noise, self.seed = captions, noise or Noise(), seed
        self.rows = np.array(list(rows), dtype=np.int64)
        if not len(self.rows):
            raise InputError("there are no captions to train on")
        self.steps_per_epoch = -(-len(self.rows) // batch_size)
        self.noun_finders = noun_finders(captions, self.rows) if "substitution" in self.noise.kinds else {}
        self._order = lru_cache(maxsize=2)(self._shuffled)

    def batch(self, epoch: int, step: int) -> list[Triple]:
        """The rows of a step, counted from 0 in each epoch."""
        start, stop = (len(self.rows) * edge // self.steps_per_epoch for edge in (step, step + 1))
        return self.triples(self._order(epoch)[start:stop], epoch)

    def triples(self, rows: Iterable[int], epoch: int) -> list[Triple]:
        """Captions by their numbers, perturbed as they are in an epoch."""
        rows = [int(row) for row in rows]
        made = self._perturbed(rows, epoch)
        return [
            Triple(
                row=row,
                image=int(self.captions.image[row]),
                caption=self.captions.texts[row],
                language=self.captions.languages[row],
                perturbed=tuple(text for text, _ in made[position]),
                kinds=tuple(kind for _, kind in made[position]),
            )
            for position, row in enumerate(rows)
        ]

    def _perturbed(self, rows: Sequence[int], epoch: int) -> list[list[tuple[str | None, str]]]:
        """Perturbed captions of each row with their kinds; each tries the kinds in its own order."""
        made: list[list[tuple[str | None, str]]] = [[(None, "")] * self.noise.n_at_once for _ in rows]
        waiting = {
            (position, slot): self._kinds_to_try(row, epoch, slot)
            for position, row in enumerate(rows)
            for slot in range(self.noise.n_at_once)
        }
        while waiting:
            by_kind: dict[str, list[tuple[int, int]]] = {}
            for slot, kinds in waiting.items():
                by_kind.setdefault(kinds[0], []).append(slot)
            waiting = {slot: kinds[1:] for slot, kinds in waiting.items()}
            for kind, slots in by_kind.items():
                chosen, seed = [rows[position] for position, _ in slots], epoch_seed(self.seed, epoch)
                texts, unchanged = perturb_rows(
                    self.captions, chosen, kind, noise=self.noise, finders=self.noun_finders, seed=seed
                )
                for (position, index), text, same in zip(slots, texts, unchanged, strict=True):
                    if not same:
                        made[position][index] = text, kind
                        del waiting[position, index]
            waiting = {slot: kinds for slot, kinds in waiting.items() if kinds}
        return made

    def _kinds_to_try(self, row: int, epoch: int, slot: int) -> list[str]:
        kinds, shares = self.noise.kinds, self.noise.shares
        if self.noise.draws == "all":
            return [kinds[slot]]
        chance, n = np.random.default_rng((self.seed, epoch, 1, row)), len(kinds)
        if not shares:
            return [kinds[index] for index in chance.permutation(n)]
        drawn = chance.choice(n, size=n, replace=False, p=np.array(shares) / sum(shares))
        return [kinds[index] for index in drawn]

    def _shuffled(self, epoch: int) -> np.ndarray:
        return np.random.default_rng((self.seed, epoch, 0)).permutation(self.rows)


def epoch_seed(seed: int, epoch: int) -> int:
    """The seed of an epoch's perturbations."""
    return xxhash.xxh3_64_intdigest(f"{seed}|{epoch}".encode())


def perturb_rows(
    captions: Captions,
    rows: Iterable[int],
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
    rows = list(rows)
    texts = [captions.texts[row] for row in rows]
    unchanged = np.ones(len(rows), dtype=bool)
    groups: dict[tuple[str, bool], list[int]] = {}
    for index, row in enumerate(rows):
        language = captions.languages[row]
        annotated = kind == "substitution" and captions.objects[row] is not None
        if kind != "substitution" or annotated or finders.get(language):
            groups.setdefault((language, annotated), []).append(index)
    for (language, annotated), group in groups.items():
        result = perturb(
            [texts[index] for index in group],
            kind,
            language,
            p=noise.p,
            seed=seed,
            objects=[captions.objects[rows[index]] or () for index in group] if annotated else None,
            shared_draws=noise.shared_draws,
            removal=noise.removal,
            order=noise.order,
        )
        for index, text, same in zip(group, result.captions, result.unchanged, strict=True):
            texts[index], unchanged[index] = text, same
    return texts, unchanged


def noun_finders(captions: Captions, rows: Iterable[int]) -> dict[str, str]:
    """Noun finders for captions without annotated objects: language → name of the finder, "" without any.

    Raises:
        MissingExtraError: there is a finder for a language, but it is not installed.

    Warns:
        LanguageWarning: there is no finder for a language.
    """
    finders: dict[str, str] = {}
    for language in sorted({captions.languages[row] for row in rows if captions.objects[row] is None}):
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
