"""Right captions in other styles → how many a metric turns away: false alarms, beside its drops.

A caption raises a false alarm if the metric gives it less than half of what a plain metric gives the same
text. What is kept is the mean score as a share of the plain metric's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...perturbations.styles import RULES, STYLES, restyle
from ...statistics.columns import plain
from .captions import CaptionSet
from .stand_in import made_or_skipped, score_texts

if TYPE_CHECKING:
    from ...embedding.embedder import Embedder
    from ...metrics.backbone_scorer import BackboneScorer


@dataclass(frozen=True)
class StyleAlarms:
    """What a metric does to right captions in a style.

    Attributes:
        n: Number of captions that were compared.
        below_half: Share of them that scores below half of the plain metric; None if there are none.
        kept: Mean score as a share of the plain metric's; None if there are none.
        not_scored: Captions left out because the plain metric gives them 0.
    """

    n: int
    below_half: float | None
    kept: float | None
    not_scored: int = 0


@dataclass(frozen=True)
class AlarmsRun:
    """False alarms of several metrics on captions of one language.

    Attributes:
        captions: Captions that were restyled.
        against: Metric → name of the plain metric.
        styles: Metric → style → what it does to captions in it.
        skipped: Style → why the captions could not be written in it.
    """

    captions: CaptionSet
    against: dict[str, str]
    styles: dict[str, dict[str, StyleAlarms]]
    skipped: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        results = [
            {"metric": metric, "against": self.against[metric], "styles": plain(styles)}
            for metric, styles in self.styles.items()
        ]
        return {**self.captions.names(), "rules": RULES, "results": results, "skipped": self.skipped}


def alarms(scores: np.ndarray, plain_scores: np.ndarray) -> StyleAlarms:
    """Scores of a metric and of the plain metric for the same n captions → its false alarms.

    >>> alarms(np.array([0.2, 0.9, 0.0]), np.array([1.0, 1.0, 0.0]))
    StyleAlarms(n=2, below_half=0.5, kept=0.55, not_scored=1)
    """
    scored = plain_scores > 0
    n = int(scored.sum())
    if not n:
        return StyleAlarms(0, None, None, len(scored))
    own, other = scores[scored], plain_scores[scored]
    below_half, kept = float((own < 0.5 * other).mean()), float(own.mean() / other.mean())
    return StyleAlarms(n, below_half, kept, len(scored) - n)


def run_alarms(
    captions: CaptionSet,
    metrics: Mapping[str, tuple[BackboneScorer, BackboneScorer, str]],
    *,
    plain_embedders: Mapping[str, Embedder] | None = None,
    styles: Sequence[str] = STYLES,
) -> AlarmsRun:
    """Score right captions in each style with metrics and with their plain metrics.

    Args:
        captions: n captions of one language.
        metrics: Name → the metric, the plain metric it is held against, and the name of this.
        plain_embedders: As in `run_robustness`.
        styles: Names of styles.
    """
    restyled, skipped = made_or_skipped(
        styles, lambda style: restyle(captions.captions, style, captions.language, photos=captions.image_ids)
    )
    found: dict[str, dict[str, StyleAlarms]] = {}
    for name, (scorer, other, _) in metrics.items():
        embedder = None if plain_embedders is None else plain_embedders[name]
        found[name] = {}
        for style, part in restyled.items():
            texts = (captions, part.captions, part.rows, embedder)
            found[name][style] = alarms(score_texts(scorer, *texts)[0], score_texts(other, *texts)[0])
    return AlarmsRun(captions, {name: against for name, (_, _, against) in metrics.items()}, found, skipped)
