"""Compares captioning systems on a set of captioned photos, as Thapliyal et al. 2022 compare models.

`captions` reads what systems say of the photos and puts it beside references; `run` scores it per language
with all references, and takes the differences of every two systems; `side_by_side` has people's ratings of
pairs of systems, one's own and the published ones. `capscore.show` prints and draws the results.
"""

from __future__ import annotations

from .captions import SystemCaptions, read_captions
from .run import LanguageScores, PairDifference, SystemsMetric, SystemsRun, run_systems
from .side_by_side import Evaluation, PublishedAgreement, published_agreement, read_evaluations

__all__ = [
    "Evaluation",
    "LanguageScores",
    "PairDifference",
    "PublishedAgreement",
    "SystemCaptions",
    "SystemsMetric",
    "SystemsRun",
    "published_agreement",
    "read_captions",
    "read_evaluations",
    "run_systems",
]
