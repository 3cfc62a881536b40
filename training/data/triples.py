"""Captions → batches of triples (image, caption, perturbed caption), as a pure function of epoch and step."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import xxhash

from capscore.errors import CapscoreError, InputError, LanguageWarning, Setting
from capscore.perturbations import KINDS, P, noun_finder, perturb
from training.data.batches import ShuffledBatches
from training.data.captions import Captions


@dataclass(frozen=True)
class Noise:
    """How captions are perturbed: by each of these kinds as often.

    A CapscoreError names an unknown perturbation or setting, or a p outside 0 to 1.
    """

    kinds: tuple[str, ...] = KINDS
    p: float = P
    order: str = "published"

    def __post_init__(self) -> None:
        if not self.kinds or len(set(self.kinds)) != len(self.kinds):
            expected = f": expected one or more of {', '.join(KINDS)}, each once"
            raise CapscoreError(Setting("kinds", list(self.kinds)), expected)
        for kind in self.kinds:
            # nothing is perturbed, nor loaded that finds objects, but the settings are checked
            objects: list[str] | None = [] if kind == "substitution" else None
            perturb([], kind, p=self.p, order=self.order, objects=objects)


@dataclass(frozen=True)
class Triple:
    """A row of a batch: caption and image (a row of `Captions.embeddings`), and the perturbed caption.

    Where nothing could change the caption, `perturbed` is None and the kind "".
    """

    row: int
    image: int
    caption: str
    perturbed: str | None
    kind: str


class TripleBatches:
    """Batches of triples, `ShuffledBatches` of the captions numbered `rows`, perturbed anew each epoch.

    A caption that the drawn perturbation cannot change gets another kind, drawn in the same way; a caption
    that no kind can change stays without a perturbed one.
    """

    def __init__(
        self,
        captions: Captions,
        rows: Iterable[int],
        *,
        batch_size: int,
        noise: Noise,
        seed: int = 0,
        compared: bool = False,
    ):
        self.captions, self.noise, self.seed = captions, noise, seed
        self.rows = [int(row) for row in rows]
        images = captions.image[self.rows].tolist() if compared else ()
        self._shuffled = ShuffledBatches(self.rows, batch_size, seed, compared=images)
        self.steps_per_epoch = self._shuffled.steps_per_epoch
        self.noun_finders: dict[str, str] = {}
        if "substitution" in noise.kinds:
            self.noun_finders = noun_finders(captions, self.rows)

    def batch(self, epoch: int, step: int) -> list[Triple]:
        rows, captions = self._shuffled.batch(epoch, step), self.captions
        return [
            Triple(row, int(captions.image[row]), captions.rows[row].caption, text, kind)
            for row, (text, kind) in zip(rows, self._perturbed(rows, epoch), strict=True)
        ]

    def _perturbed(self, rows: Sequence[int], epoch: int) -> list[tuple[str | None, str]]:
        """Perturbed caption of each row with its kind; each row tries the kinds in an order of its own."""
        made: list[tuple[str | None, str]] = [(None, "")] * len(rows)
        kinds, how = self.noise.kinds, (self.noise, self.noun_finders, epoch_seed(self.seed, epoch))
        orders = [np.random.default_rng((self.seed, epoch, 1, row)).permutation(len(kinds)) for row in rows]
        for attempt in range(len(kinds)):
            by_kind: dict[str, list[int]] = {}
            for index, order in enumerate(orders):
                if made[index][0] is None:
                    by_kind.setdefault(kinds[order[attempt]], []).append(index)
            for kind, group in by_kind.items():
                texts, unchanged = perturb_rows(self.captions, [rows[index] for index in group], kind, *how)
                for index, text, same in zip(group, texts, unchanged, strict=True):
                    if not same:
                        made[index] = text, kind
        return made


def epoch_seed(seed: int, epoch: int) -> int:
    """The seed of an epoch's perturbations."""
    return xxhash.xxh3_64_intdigest(f"{seed}|{epoch}".encode())


def perturb_rows(
    captions: Captions, rows: Iterable[int], kind: str, noise: Noise, finders: Mapping[str, str], seed: int
) -> tuple[list[str], np.ndarray]:
    """Perturb captions of any languages, given by their numbers (n), in one way.

    Returns n texts, and bool (n,), True where the caption is unchanged.
    """
    chosen = [captions.rows[row] for row in rows]
    texts = [row.caption for row in chosen]
    unchanged = np.ones(len(chosen), dtype=bool)
    groups: dict[tuple[str, bool], list[int]] = {}
    for index, row in enumerate(chosen):
        annotated = kind == "substitution" and row.objects is not None
        if kind != "substitution" or annotated or finders.get(row.language):
            groups.setdefault((row.language, annotated), []).append(index)
    for (language, annotated), group in groups.items():
        objects = [chosen[index].objects or () for index in group] if annotated else None
        plain, p, order = [texts[index] for index in group], noise.p, noise.order
        result = perturb(plain, kind, language, p=p, seed=seed, objects=objects, order=order)
        for index, text, same in zip(group, result.captions, result.unchanged, strict=True):
            texts[index], unchanged[index] = text, same
    return texts, unchanged


def noun_finders(captions: Captions, rows: Iterable[int]) -> dict[str, str]:
    """Noun finders for captions without annotated objects: language → name of the finder, "" without any.

    A finder that is not installed is a MissingExtraError, a language without one a LanguageWarning.
    """
    finders: dict[str, str] = {}
    chosen = [captions.rows[row] for row in rows]
    for language in sorted({row.language for row in chosen if row.objects is None}):
        try:
            finders[language] = noun_finder(language)
        except InputError:
            finders[language] = ""
    if blind := [language for language, finder in finders.items() if not finder]:
        what = "captions without annotated objects get the other perturbations only"
        said = f"there is no noun finder for {', '.join(blind)}: {what}"
        warnings.warn(said, LanguageWarning, stacklevel=3)
    return finders
