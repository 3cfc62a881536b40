"""Right captions in other styles → how many a metric turns away: false alarms, beside its drops.

A caption raises a false alarm if the metric gives it less than half of what a plain metric gives the same
text. What is kept is the mean score as a share of the plain metric's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import InputError, MissingExtraError
from ...perturbations.styles import RULES, STYLES, Restyled, restyle
from ...statistics.plain_values import plain
from .captions import CaptionSet
from .run import against_stand_ins

if TYPE_CHECKING:
    from ...embedding.embedder import Embedder
    from ...metrics.backbone_scorer import BackboneScorer

HALF = 0.5


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
class MetricAlarms:
    """False alarms of a metric.

    Attributes:
        metric: Its name, as given.
        against: Name of the plain metric.
        styles: Style → what it does to captions in it.
    """

    metric: str
    against: str
    styles: dict[str, StyleAlarms]


@dataclass(frozen=True)
class AlarmsRun:
    """False alarms of several metrics on captions of one language.

    Attributes:
        captions: Captions that were restyled.
        results: One per metric.
        skipped: Style → why the captions could not be written in it.
    """

    captions: CaptionSet
    results: list[MetricAlarms]
    skipped: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "data": self.captions.data,
            "config": self.captions.config,
            "language": self.captions.language,
            "n_captions": len(self.captions),
            "rules": RULES,
            "results": [plain(asdict(result)) for result in self.results],
            "skipped": self.skipped,
        }


def alarms(scores: np.ndarray, plain_scores: np.ndarray) -> StyleAlarms:
    """Scores of a metric and of the plain metric for the same n captions → its false alarms.

    >>> alarms(np.array([0.2, 0.9, 0.0]), np.array([1.0, 1.0, 0.0]))
    StyleAlarms(n=2, below_half=0.5, kept=0.55, not_scored=1)
    """
    there = plain_scores > 0
    n = int(there.sum())
    if not n:
        return StyleAlarms(0, None, None, len(there))
    own, other = scores[there], plain_scores[there]
    return StyleAlarms(
        n, float((own < HALF * other).mean()), float(own.mean() / other.mean()), int((~there).sum())
    )


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
        plain_embedders: Name → embedder of the texts that stand for photos, for captions that have such.
        styles: Names of styles.

    Raises:
        CapscoreError: as in `run_robustness`.
    """
    written, skipped = restyled(captions, styles)
    results = []
    for name, (scorer, other, against) in metrics.items():
        embedder = None if plain_embedders is None else plain_embedders[name]
        found = {}
        for style, part in written.items():
            columns = [
                text_scores(each, captions, part.captions, part.rows, embedder) for each in (scorer, other)
            ]
            found[style] = alarms(*columns)
        results.append(MetricAlarms(name, against, found))
    return AlarmsRun(captions, results, skipped)


def restyled(captions: CaptionSet, styles: Sequence[str]) -> tuple[dict[str, Restyled], dict[str, str]]:
    """The captions in each style; and style → why their language does not allow it."""
    found: dict[str, Restyled] = {}
    skipped: dict[str, str] = {}
    for style in styles:
        try:
            found[style] = restyle(captions.captions, style, captions.language, photos=captions.image_ids)
        except MissingExtraError as error:
            skipped[style] = str(error)
        except InputError as error:
            if error.row is not None:  # the fault is in a caption, not in the language
                raise
            skipped[style] = error.message
    return found, skipped


def text_scores(
    scorer: BackboneScorer,
    captions: CaptionSet,
    texts: Sequence[str],
    rows: Sequence[int],
    embedder: Embedder | None,
) -> np.ndarray:
    """Scores (m,) of m texts against the photos of the given rows, or the texts that stand for these."""
    if not texts:
        return np.zeros(0)
    if captions.stand_ins is None:
        images = [captions.images[row] for row in rows]
        return scorer.score(list(texts), images, language=captions.language).scores
    assert embedder is not None
    stand_ins = [captions.stand_ins[row] for row in rows]
    return against_stand_ins(scorer, texts, stand_ins, captions.language, embedder)[0]
