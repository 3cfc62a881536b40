"""Benchmark protocols: arrays of scores and labels → the numbers of a paper's table.

In: arrays, one number or label a row. Out: one frozen result a protocol, with `statistics()`, `table()` for
printing, `counts()`, and `to_dict()` for JSON. Values are shares in [0, 1] or correlations in [-1, 1], never
percent; None stands for what the rows cannot give, and `notes` says why.

    >>> from capscore.benchmark.protocols import foils
    >>> foils([0.9, 0.8], [0.2, 0.9]).table()
    [('accuracy all', 0.5, 2), ('accuracy mean', 0.5, 2), ('accuracy pooled', 0.5, 2)]
"""

from __future__ import annotations

from .accuracy import Accuracy
from .captokeneval import CapTokenEvalAccuracy, TokenAccuracy, captokeneval
from .cross_language import CrossLanguageCorrelation, cross_language, quality_subset
from .foils import VALSE_PHENOMENA, VALSE_PIECES, FoilAccuracy, foils, valse
from .marvl import IrregularGroup, MarvlAccuracy, marvl
from .pairwise import PASCAL50S_CATEGORIES, PairwiseAccuracy, pairwise_by_category
from .rating_correlation import rating_correlation
from .results import ProtocolResult, Statistic
from .retrieval import Recall, RetrievalRecall, retrieval
from .robustness import PERTURBATIONS, PerturbationDrop, RobustnessDrop, robustness_drop
from .thumb import RatingCorrelations, SystemMeans, ThumbCorrelation, thumb
from .xvnli import XVNLI_LABELS, XvnliAccuracy, xvnli

__all__ = [
    "PASCAL50S_CATEGORIES",
    "PERTURBATIONS",
    "VALSE_PHENOMENA",
    "VALSE_PIECES",
    "XVNLI_LABELS",
    "Accuracy",
    "CapTokenEvalAccuracy",
    "CrossLanguageCorrelation",
    "FoilAccuracy",
    "IrregularGroup",
    "MarvlAccuracy",
    "PairwiseAccuracy",
    "PerturbationDrop",
    "ProtocolResult",
    "RatingCorrelations",
    "Recall",
    "RetrievalRecall",
    "RobustnessDrop",
    "Statistic",
    "SystemMeans",
    "ThumbCorrelation",
    "TokenAccuracy",
    "XvnliAccuracy",
    "captokeneval",
    "cross_language",
    "foils",
    "marvl",
    "pairwise_by_category",
    "quality_subset",
    "rating_correlation",
    "retrieval",
    "robustness_drop",
    "thumb",
    "valse",
    "xvnli",
]
