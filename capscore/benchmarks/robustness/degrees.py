"""Captions perturbed by degree → how the score falls with the amount of noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import InputError, MissingExtraError
from ...perturbations import KINDS
from ...perturbations.by_degree import DEGREES, RULES, DegreePerturbed, by_degree
from ...statistics.correlation import spearman
from ...statistics.plain_values import plain
from .alarms import text_scores
from .captions import CaptionSet

if TYPE_CHECKING:
    from ...embedding.embedder import Embedder
    from ...metrics.backbone_scorer import BackboneScorer

# Of drops and shares that are ranked.
_DECIMALS = 3


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
        return {
            "data": self.captions.data,
            "config": self.captions.config,
            "language": self.captions.language,
            "n_captions": len(self.captions),
            "rules": RULES,
            "seed": self.seed,
            "results": [
                {"metric": metric, "kinds": {kind: plain(asdict(curve)) for kind, curve in found.items()}}
                for metric, found in self.curves.items()
            ],
            "skipped": self.skipped,
        }


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
    there = shares.max(axis=0) > 0
    n = int(there.sum())
    if not n:
        return Curve(tuple(degrees), (0.0,) * len(degrees), (None,) * len(degrees), 0, None, None)
    before = original[there]
    after = np.stack(perturbed)[:, there]
    shares = shares[:, there]
    mean = float(before.mean())
    drops = [float(row.mean()) / mean - 1 if mean > 0 else None for row in after]
    means = [float(row.mean()) for row in shares]
    scored = before > 0
    of_captions = None
    if scored.any():
        falls = 1 - after[:, scored] / before[scored]
        of_captions = spearman(falls.ravel(), shares[:, scored].ravel())
    # a score that is lost as a whole cannot fall further: what is left of it is rounding
    known = [-round(drop, _DECIMALS) for drop in drops if drop is not None]
    return Curve(
        tuple(degrees),
        tuple(means),
        tuple(drops),
        n,
        spearman(known, [round(share, _DECIMALS) for share in means]) if len(known) == len(means) else None,
        of_captions,
    )


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
        captions: n captions of one language.
        scorers: Name → metric that looks at photos and needs no references.
        plain_embedders: Name → embedder of the texts that stand for photos, for captions that have such.
        kinds: Names of published perturbations.
        degrees: Shares of the words, ascending.
        seed: Seed of the draws.

    Raises:
        CapscoreError: as in `run_robustness`.
    """
    found, skipped = degraded(captions, kinds, degrees, seed)
    curves: dict[str, dict[str, Curve]] = {}
    rows = list(range(len(captions)))
    for name, scorer in scorers.items():
        embedder = None if plain_embedders is None else plain_embedders[name]
        original = text_scores(scorer, captions, captions.captions, rows, embedder)
        curves[name] = {
            kind: curve(
                original,
                [text_scores(scorer, captions, part.captions, rows, embedder) for part in parts],
                [part.touched for part in parts],
                degrees,
            )
            for kind, parts in found.items()
        }
    return DegreesRun(captions, seed, curves, skipped)


def degraded(
    captions: CaptionSet, kinds: Sequence[str], degrees: Sequence[float], seed: int
) -> tuple[dict[str, list[DegreePerturbed]], dict[str, str]]:
    """The captions under each kind at each degree; and kind → why their language does not allow it."""
    found: dict[str, list[DegreePerturbed]] = {}
    skipped: dict[str, str] = {}
    for kind in kinds:
        try:
            found[kind] = [
                by_degree(
                    captions.captions,
                    kind,
                    captions.language,
                    degree=degree,
                    seed=seed,
                    objects=captions.objects if kind == "substitution" else None,
                )
                for degree in degrees
            ]
        except MissingExtraError as error:
            skipped[kind] = str(error)
        except InputError as error:
            if error.row is not None:  # the fault is in a caption, not in the language
                raise
            skipped[kind] = error.message
    return found, skipped
