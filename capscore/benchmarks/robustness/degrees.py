"""Captions perturbed by degree → how the score falls with the amount of noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...perturbations import KINDS
from ...perturbations.by_degree import DEGREES, RULES, by_degree
from ...statistics.columns import plain
from ...statistics.correlation import spearman
from .captions import CaptionSet
from .stand_in import made_or_skipped, score_texts

if TYPE_CHECKING:
    from ...embedding.embedder import Embedder
    from ...metrics.backbone_scorer import BackboneScorer


@dataclass(frozen=True)
class Curve:
    """How the score of captions falls with the amount of noise of one kind.

    Attributes:
        degrees: Degrees, ascending.
        touched: Mean share of the words that was touched, at each degree.
        drops: Change of the mean score, −0.25 for a quarter, at each degree; None where it is undefined.
        n: Number of captions that the kind can change; the others are left out.
        of_means: Spearman's ρ of the mean fall and the mean share over the degrees; values that are equal to
            a tenth of a percent count as equal.
        of_captions: Spearman's ρ of the fall and the share over all captions at all degrees.
    """

    degrees: tuple[float, ...]
    touched: tuple[float, ...]
    drops: tuple[float | None, ...]
    n: int
    of_means: float | None
    of_captions: float | None


@dataclass(frozen=True)
class DegreesRun:
    """Curves of several metrics on captions of one language.

    Attributes:
        captions: Captions that were perturbed.
        seed: Seed of the draws.
        curves: Metric → kind → curve.
        skipped: Kind → why the captions could not be perturbed this way.
    """

    captions: CaptionSet
    seed: int
    curves: dict[str, dict[str, Curve]]
    skipped: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        results = [{"metric": metric, "kinds": plain(kinds)} for metric, kinds in self.curves.items()]
        settings = {"rules": RULES, "seed": self.seed}
        return {**self.captions.names(), **settings, "results": results, "skipped": self.skipped}


def curve(
    original: np.ndarray,
    perturbed: Sequence[np.ndarray],
    touched: Sequence[np.ndarray],
    degrees: Sequence[float] = DEGREES,
) -> Curve:
    """Scores (n,), at each degree scores (n,) and shares of words touched (n,) → the curve.

    Captions that are touched at no degree, or that score 0 as they are, are left out of ρ over captions.

    >>> scores, shares = [np.array([0.9, 0.8]), np.array([0.5, 0.4])], np.array([[0.1, 0.2], [0.5, 0.6]])
    >>> found = curve(np.ones(2), scores, shares, (0.2, 0.6))
    >>> [round(drop, 2) for drop in found.drops], round(found.of_means, 6), round(found.of_captions, 6)
    ([-0.15, -0.55], 1.0, 1.0)
    """
    shares = np.stack([np.asarray(row, dtype=float) for row in touched])
    changed = shares.max(axis=0) > 0
    n = int(changed.sum())
    if not n:
        return Curve(tuple(degrees), (0.0,) * len(degrees), (None,) * len(degrees), 0, None, None)
    before, after, shares = original[changed], np.stack(perturbed)[:, changed], shares[:, changed]
    mean, scored = float(before.mean()), before > 0
    means = shares.mean(axis=1)
    drops: list[float | None] = [None] * len(degrees)
    of_means = of_captions = None
    if scored.any():
        drops = (after.mean(axis=1) / mean - 1).tolist()
        falls = 1 - after[:, scored] / before[scored]
        of_captions = spearman(falls.ravel(), shares[:, scored].ravel())
        # a score that is lost as a whole cannot fall further: what is left of it is rounding
        of_means = spearman(-np.round(after.mean(axis=1) / mean - 1, 3), np.round(means, 3))
    return Curve(tuple(degrees), tuple(means.tolist()), tuple(drops), n, of_means, of_captions)


def run_degrees(
    captions: CaptionSet,
    scorers: Mapping[str, BackboneScorer],
    *,
    plain_embedders: Mapping[str, Embedder] | None = None,
    kinds: Sequence[str] = KINDS,
    degrees: Sequence[float] = DEGREES,
    seed: int = 0,
) -> DegreesRun:
    """Score captions as they are and perturbed to each degree.

    Args:
        captions, scorers, plain_embedders: As in `run_robustness`.
        kinds: Names of published perturbations.
        degrees: Shares of the words, ascending.
        seed: Seed for all random draws.
    """

    def perturbed(kind: str) -> list[Any]:
        objects = captions.objects if kind == "substitution" else None
        how: dict[str, Any] = {"seed": seed, "objects": objects}
        return [
            by_degree(captions.captions, kind, captions.language, degree=degree, **how) for degree in degrees
        ]

    by_kind, skipped = made_or_skipped(kinds, perturbed)
    curves: dict[str, dict[str, Curve]] = {}
    for name, scorer in scorers.items():
        embedder = None if plain_embedders is None else plain_embedders[name]

        def scores(texts: list[str], scorer: Any = scorer, embedder: Any = embedder) -> np.ndarray:
            return score_texts(scorer, captions, texts, range(len(captions)), embedder)[0]

        original = scores(captions.captions)
        curves[name] = {
            kind: curve(
                original, [scores(part.captions) for part in parts], [part.touched for part in parts], degrees
            )
            for kind, parts in by_kind.items()
        }
    return DegreesRun(captions, seed, curves, skipped)
