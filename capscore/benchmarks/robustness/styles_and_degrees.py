"""Captions in other styles → false alarms; captions with more and more noise → how their score falls.

A right caption raises a false alarm if a metric gives it less than half of what a plain metric gives the same
text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ...perturbations import KINDS
from ...perturbations.by_degree import DEGREES, by_degree
from ...perturbations.by_degree import RULES as DEGREE_RULES
from ...perturbations.styles import RULES as STYLE_RULES
from ...perturbations.styles import STYLES, restyle
from ...statistics.columns import plain
from ...statistics.correlation import spearman
from .captions import CaptionSet
from .run import made_or_skipped, score_versions

if TYPE_CHECKING:
    from ...embedding.embedder import Embedder
    from ...metrics.with_backbone import BackboneScorer

Row = dict[str, Any]


@dataclass(frozen=True)
class VersionsRun:
    """What several metrics make of captions of one language in other versions.

    Attributes:
        captions: Captions that were restyled or perturbed.
        versions: "styles" or "kinds".
        rows: Metric → style or kind → numbers, as `alarms` or `curve` gives them.
        skipped: Style or kind → why the captions have no such version.
        settings: What the versions depend on.
        against: Metric → name of the plain metric, for styles.
    """

    captions: CaptionSet
    versions: str
    rows: dict[str, dict[str, Row]]
    skipped: dict[str, str]
    settings: dict[str, Any]
    against: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        results = [
            {
                "metric": metric,
                **({"against": self.against[metric]} if self.against else {}),
                self.versions: plain(rows),
            }
            for metric, rows in self.rows.items()
        ]
        return {**self.captions.names(), **self.settings, "results": results, "skipped": self.skipped}


def alarms(scores: np.ndarray, plain_scores: np.ndarray) -> Row:
    """Scores of a metric and of the plain metric for the same captions → its false alarms.

    Returns:
        "n", the number of captions; "below_half", the share of them that scores below half of the plain
        metric; "kept", the mean score as a share of the plain metric's; both None if there are no captions;
        "not_scored", the number of captions left out because the plain metric gives them 0.

    >>> alarms(np.array([0.2, 0.9, 0.0]), np.array([1.0, 1.0, 0.0]))
    {'n': 2, 'below_half': 0.5, 'kept': 0.55, 'not_scored': 1}
    """
    scored = plain_scores > 0
    own, other = scores[scored], plain_scores[scored]
    return {
        "n": len(own),
        "below_half": float((own < 0.5 * other).mean()) if len(own) else None,
        "kept": float(own.mean() / other.mean()) if len(own) else None,
        "not_scored": len(scored) - len(own),
    }


def run_alarms(
    captions: CaptionSet,
    metrics: Mapping[str, tuple[BackboneScorer, BackboneScorer, str]],
    *,
    plain_embedders: Mapping[str, Embedder] | None = None,
) -> VersionsRun:
    """Score right captions in each style with metrics and with their plain metrics.

    Args:
        captions: n captions of one language.
        metrics: Name → the metric, the plain metric it is held against, and the name of this.
        plain_embedders: As in `run_robustness`.
    """
    restyled, skipped = made_or_skipped(
        STYLES, lambda style: restyle(captions.captions, style, captions.language, photos=captions.image_ids)
    )
    versions = {style: (part.captions, part.rows) for style, part in restyled.items()}
    rows = {}
    for name, (scorer, other, _) in metrics.items():
        embedder = None if plain_embedders is None else plain_embedders[name]
        own, plain_scores = (
            score_versions(each, captions, versions, embedder)[0] for each in (scorer, other)
        )
        rows[name] = {style: alarms(own[style], plain_scores[style]) for style in versions}
    against = {name: text for name, (_, _, text) in metrics.items()}
    return VersionsRun(captions, "styles", rows, skipped, {"rules": STYLE_RULES}, against)


def curve(
    original: np.ndarray,
    perturbed: Sequence[np.ndarray],
    touched: Sequence[np.ndarray],
    degrees: Sequence[float] = DEGREES,
) -> Row:
    """Scores (n,), at each degree scores (n,) and shares of words touched (n,) → how the score falls.

    Captions that are touched at no degree are left out; so are, of ρ over captions, those that score 0.

    Returns:
        "degrees"; "touched", the mean share of the words that was touched at each degree; "drops", the change
        of the mean score at each degree, −0.25 for a quarter, None where it is undefined; "n", the number of
        captions that the kind can change; "of_means", Spearman's ρ of the mean fall and the mean share over
        the degrees, where values that are equal to a tenth of a percent count as equal; "of_captions",
        Spearman's ρ of the fall and the share over all captions at all degrees.

    >>> scores, shares = [np.array([0.9, 0.8]), np.array([0.5, 0.4])], np.array([[0.1, 0.2], [0.5, 0.6]])
    >>> found = curve(np.ones(2), scores, shares, (0.2, 0.6))
    >>> [round(drop, 2) for drop in found["drops"]], round(found["of_captions"], 6)
    ([-0.15, -0.55], 1.0)
    """
    shares = np.stack([np.asarray(row, dtype=float) for row in touched])
    changed = shares.max(axis=0) > 0
    before, after, shares = original[changed], np.stack(perturbed)[:, changed], shares[:, changed]
    found: Row = {"degrees": list(degrees), "touched": [0.0] * len(degrees), "drops": [None] * len(degrees)}
    found |= {"n": len(before), "of_means": None, "of_captions": None}
    if not len(before):
        return found
    means, scored = shares.mean(axis=1), before > 0
    found["touched"] = means.tolist()
    if scored.any():
        drops = after.mean(axis=1) / float(before.mean()) - 1
        found["drops"] = drops.tolist()
        falls = 1 - after[:, scored] / before[scored]
        # a score that is lost as a whole cannot fall further: what is left of it is rounding
        found["of_means"] = spearman(-np.round(drops, 3), np.round(means, 3))
        found["of_captions"] = spearman(falls.ravel(), shares[:, scored].ravel())
    return found


def run_degrees(
    captions: CaptionSet,
    scorers: Mapping[str, BackboneScorer],
    *,
    plain_embedders: Mapping[str, Embedder] | None = None,
    kinds: Sequence[str] = KINDS,
    seed: int = 0,
) -> VersionsRun:
    """Score captions as they are and perturbed to each degree.

    Args:
        captions, scorers, plain_embedders: As in `run_robustness`.
        kinds: Names of published perturbations.
        seed: Seed for all random draws.
    """

    def perturbed(kind: str) -> list[Any]:
        how: dict[str, Any] = {"seed": seed, "objects": captions.objects if kind == "substitution" else None}
        return [
            by_degree(captions.captions, kind, captions.language, degree=degree, **how) for degree in DEGREES
        ]

    by_kind, skipped = made_or_skipped(kinds, perturbed)
    every = range(len(captions))
    versions = {"": (captions.captions, every)}
    for kind, parts in by_kind.items():
        versions |= {f"{kind} {index}": (part.captions, every) for index, part in enumerate(parts)}
    rows = {}
    for name, scorer in scorers.items():
        embedder = None if plain_embedders is None else plain_embedders[name]
        scores, _ = score_versions(scorer, captions, versions, embedder)
        rows[name] = {
            kind: curve(
                scores[""],
                [scores[f"{kind} {index}"] for index in range(len(parts))],
                [part.touched for part in parts],
            )
            for kind, parts in by_kind.items()
        }
    return VersionsRun(captions, "kinds", rows, skipped, {"rules": DEGREE_RULES, "seed": seed})
