"""Which task belongs to which benchmark: slug and configuration → `Task`.

A task says what is scored and which numbers the scores give: rows → `Queries` → `Outcome`. The formulas are
in `capscore.benchmarks.protocols` and `capscore.statistics.agreement`. A task, and with it its protocol, is
imported when its benchmark is asked for.
"""

from __future__ import annotations

from importlib import import_module

from ...errors import CapscoreError
from ...files.lazy import lazy_attributes
from ..protocols.results import Statistic
from .base import ASPECTS, MISSING, RATERS, KeyedRows, Measurement, Outcome, Queries, Task, TaskOptions

__all__ = [
    "ASPECTS",
    "MISSING",
    "RATERS",
    "KeyedRows",
    "Measurement",
    "Options",
    "Outcome",
    "Queries",
    "Statistic",
    "Task",
    "TaskOptions",
    "captioned_sets",
    "known_slugs",
    "task_of",
]

Options = TaskOptions  # former name, until the end of 2027
# tasks were classes of this module until 0.1
__getattr__, __dir__ = lazy_attributes(
    __name__,
    {
        "FoilTask": "foils",
        "HallucinationTask": "localisation",
        "LocalisationTask": "localisation",
        "MarvlTask": "marvl",
        "PairTask": "pairs",
        "RatingTask": "ratings",
        "RetrievalTask": "retrieval",
        "ThumbTask": "thumb",
        "TokenTask": "tokens",
        "XvnliTask": "xvnli",
    },
)

# benchmark, or benchmark/configuration → module and class of its task, and what the class takes
_TASKS: dict[str, tuple[str, ...]] = {
    "flickr8k_human": ("ratings.RatingTask", "tau_c", "tau_b", "spearman"),
    "flickr8k_human/crowdflower": ("ratings.RatingTask", "tau_b", "tau_c", "spearman"),
    "composite": ("ratings.RatingTask", "tau_c", "tau_b", "spearman"),
    "pascal50s": ("pairs.PairTask",),
    "thumb": ("thumb.ThumbTask",),
    "captokeneval": ("tokens.TokenTask",),
    "vicr": ("ratings.RatingTask", "tau_c", "tau_b", "spearman"),
    "polaris": ("ratings.RatingTask", "tau_c", "tau_b"),
    "nebula": ("ratings.RatingTask", "tau_c", "tau_b"),
    "capeval1k": ("ratings.RatingTask", "tau_c", "pearson"),
    "m_capeval1k": ("ratings.RatingTask", "tau_c", "pearson"),
    "valse": ("foils.FoilTask",),
    "foil": ("localisation.LocalisationTask",),
    "hat": ("localisation.HallucinationTask",),
    "xvnli": ("xvnli.XvnliTask",),
    "marvl": ("marvl.MarvlTask",),
    "xm3600": ("retrieval.RetrievalTask",),
    "multi30k": ("retrieval.RetrievalTask",),
    "xflickrco": ("retrieval.RetrievalTask",),
    "coco_captions": ("retrieval.RetrievalTask",),
    "nocaps": ("retrieval.RetrievalTask",),
    "nocaps/foil": ("localisation.LocalisationTask",),
    "vizwiz_captions": ("retrieval.RetrievalTask",),
}
# data sets whose numbers need more than one score per caption
_ELSEWHERE = {
    "m_finecap3k": "it compares captions with perturbed ones, which is another protocol",
    "flickr30k_entities": "it holds phrases and boxes for training, and no ratings",
}


def task_of(slug: str, config: str) -> Task:
    """The task of a benchmark's configuration.

    Raises:
        CapscoreError: metrics' scores are not compared on this benchmark; the message says why.

    >>> task_of("flickr8k_human", "crowdflower").statistics
    ('tau_b', 'tau_c', 'spearman')
    """
    if slug in _ELSEWHERE:
        raise CapscoreError(f"{slug} is not a benchmark of caption scores: {_ELSEWHERE[slug]}")
    known = _TASKS.get(f"{slug}/{config}") or _TASKS.get(slug)
    if known is None:
        raise CapscoreError(
            f"{slug!r} is not one of the benchmarks of caption scores: {', '.join(known_slugs())}"
        )
    module, name = known[0].split(".")
    return getattr(import_module(f"{__name__}.{module}"), name)(*known[1:])


def captioned_sets() -> list[str]:
    """Benchmarks that are sets of captioned photos: each of their rows is a photo with its captions.

    >>> "xm3600" in captioned_sets(), "vicr" in captioned_sets()
    (True, False)
    """
    return [slug for slug in known_slugs() if _TASKS[slug][0] == "retrieval.RetrievalTask"]


def known_slugs() -> list[str]:
    """Benchmarks that have a task."""
    return [slug for slug in _TASKS if "/" not in slug]
