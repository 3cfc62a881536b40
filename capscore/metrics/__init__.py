"""Rows in, `Scores` out: one file per metric. `load` makes a scorer by its metric's name."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..errors import CapscoreError
from .catalogue import KINDS, METRICS
from .options import given_options, own_options, takes_options

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .base import Scorer
    from .options import MetricOptions

__all__ = ["KINDS", "METRICS", "load", "scorer_class"]


def scorer_class(metric: str) -> type[Scorer]:
    """The scorer class of a metric, imported on first use.

    Raises:
        CapscoreError: unknown metric; names the nearest one.
    """
    if metric not in METRICS:
        close = difflib.get_close_matches(
            str(metric)[:60].lower().replace("-", "_"), METRICS, n=1, cutoff=0.4
        )
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise CapscoreError(f"metric {metric!r:.60} is not one of {', '.join(METRICS)}{hint}")
    entry = METRICS[metric]
    return getattr(importlib.import_module(f"{__name__}.{entry.module}"), entry.scorer)


@takes_options()
def load(metric: str, **options: Unpack[MetricOptions]) -> Scorer:
    """Make a scorer. An option that its metric does not take is an error.

    Args:
        metric: Name of the metric. "mcs", "pr_mcs", "clip_score", "infometic", "ref_clip_score" and
            "clip_cider" open images; "text_score", "cider", "cider_d", "bleu", "rouge_l", "meteor" and
            "spice" compare texts only. The first seven take a backbone and the options down to `progress`.
        **options: Options of the metric; see `capscore.metrics.options`.

    Raises:
        CapscoreError: unknown metric, device or dtype, or an option that the metric does not take.
        BackboneUnavailable: the weights are not available here; says why, and what is available.
        MissingExtraError: a package is missing; names the extra that brings it.

    >>> import capscore
    >>> scorer = capscore.load("mcs", backbone="embedded")                    # doctest: +SKIP
    >>> scorer.score(["a cat"], ["cat.jpg"], language="en").mean               # doctest: +SKIP
    >>> bleu = capscore.load("bleu").score(["a cat sits"], references=[["a cat sits there"]], language="en")
    >>> bleu.components["bleu_1"].round(4).tolist()
    [0.7165]
    """
    given = given_options(options)
    scorer_class(metric).check_options(given)
    make: Callable[..., Scorer] = scorer_class(metric)
    own = own_options(metric, given)
    if not METRICS[metric].has_backbone:
        return make(**own)

    from ..backbones.loading import default_backbone
    from .embedders import make_embedder

    backbone = given["backbone"] if "backbone" in given else default_backbone(metric)
    return make(make_embedder(backbone, given, progress=given.get("progress")), **own)
