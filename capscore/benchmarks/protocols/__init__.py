"""Benchmark protocols: arrays of scores and labels → the numbers of a paper's table.

In: arrays with one number or label per row. Out: one frozen result per protocol, with `statistics()`,
`table()` for printing, `counts()`, and `to_dict()` for JSON. Values are shares in [0, 1] or correlations in
[-1, 1], never percentages. None marks a number that the rows cannot give; `notes` says why.

    >>> from capscore.benchmarks.protocols import foils
    >>> foils([0.9, 0.8], [0.2, 0.9]).table()
    [('accuracy all', 0.5, 2), ('accuracy mean', 0.5, 2), ('accuracy pooled', 0.5, 2)]
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...files.lazy import lazy_attributes

if TYPE_CHECKING:
    from .accuracy import Accuracy
    from .captokeneval_accuracy import CapTokenEvalAccuracy, TokenAccuracy, captokeneval
    from .cross_language_correlation import CrossLanguageCorrelation, cross_language, quality_subset
    from .foil_accuracy import VALSE_PHENOMENA, VALSE_PIECES, FoilAccuracy, foils, valse
    from .foil_localisation import Localisation, localisation
    from .marvl_accuracy import IrregularGroup, MarvlAccuracy, marvl
    from .pairwise_accuracy import PASCAL50S_CATEGORIES, PairwiseAccuracy, pairwise_by_category
    from .ratings import rating_correlation
    from .relative_drop import PERTURBATIONS, PerturbationDrop, RobustnessDrop, robustness_drop
    from .results import ProtocolResult, Statistic
    from .retrieval_recall import Recall, RetrievalRecall, retrieval
    from .thumb_correlation import RatingCorrelations, SystemMeans, ThumbCorrelation, thumb
    from .xvnli_accuracy import XVNLI_LABELS, XvnliAccuracy, xvnli

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
    "Localisation",
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
    "localisation",
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

# module → the names that it offers here, imported when somebody asks for them
_OFFERED = {
    "accuracy": "Accuracy",
    "captokeneval_accuracy": "CapTokenEvalAccuracy TokenAccuracy captokeneval",
    "cross_language_correlation": "CrossLanguageCorrelation cross_language quality_subset",
    "foil_accuracy": "VALSE_PHENOMENA VALSE_PIECES FoilAccuracy foils valse",
    "foil_localisation": "Localisation localisation",
    "marvl_accuracy": "IrregularGroup MarvlAccuracy marvl",
    "pairwise_accuracy": "PASCAL50S_CATEGORIES PairwiseAccuracy pairwise_by_category",
    "ratings": "rating_correlation",
    "relative_drop": "PERTURBATIONS PerturbationDrop RobustnessDrop robustness_drop",
    "results": "ProtocolResult Statistic",
    "retrieval_recall": "Recall RetrievalRecall retrieval",
    "thumb_correlation": "RatingCorrelations SystemMeans ThumbCorrelation thumb",
    "xvnli_accuracy": "XVNLI_LABELS XvnliAccuracy xvnli",
}

__getattr__, __dir__ = lazy_attributes(
    __name__, {name: module for module, names in _OFFERED.items() for name in names.split()}
)


class _FunctionsFirst(ModuleType):
    """A package whose functions stay reachable.

    `import capscore.protocols.foils`, a former module name, would otherwise put the module where the function
    `foils` belongs.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in __all__ and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _FunctionsFirst
