"""One file a metric: rows in, `Scores` out. `load` makes a scorer by its metric's name."""

from __future__ import annotations

import difflib
import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import CapscoreError

if TYPE_CHECKING:
    from ..backbones.base import Backbone
    from ..cache import EmbeddingCache
    from .base import Scorer

# metric → (module, class)
METRICS = {
    "mcs": ("mcs", "MCS"),
    "clip_score": ("clip_score", "CLIPScore"),
    "ref_clip_score": ("ref_clip_score", "RefCLIPScore"),
}


def scorer_class(metric: str) -> type[Scorer]:
    """The class of a metric, imported when asked for.

    Raises:
        CapscoreError: no metric has that name; says which are near.
    """
    if metric not in METRICS:
        close = difflib.get_close_matches(str(metric).lower().replace("-", "_"), METRICS, n=1, cutoff=0.4)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise CapscoreError(f"metric {metric!r} is not one of {', '.join(METRICS)}{hint}")
    module, name = METRICS[metric]
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)


def load(
    metric: str,
    *,
    backbone: str | Backbone | None = None,
    device: str | None = None,
    dtype: str | None = None,
    batch_size: int | None = None,
    cache: bool | str | Path | EmbeddingCache | None = None,
    prefix: str | None = None,
    revision: str | None = None,
    image_tower: str | None = None,
    trust_remote_code: bool = False,
    allow_urls: bool = False,
    progress: bool | None = None,
) -> Scorer:
    """Make a scorer.

    Args:
        metric: "mcs", "clip_score" or "ref_clip_score".
        backbone: "embedded", a known name, a Hub id (`org/name@revision`), a local folder, or a `Backbone`.
            None takes the environment variable CAPSCORE_BACKBONE, else the metric's default.
        device: torch device; None takes a GPU where there is one.
        dtype: "float32" (default), "bfloat16" or "float16".
        batch_size: images or texts a batch; None fits the device.
        cache: None or True keeps embeddings in the default folder, False keeps none, a path in that folder.
        prefix: text before candidates and references; None takes the backbone's own.
        revision: commit, branch or tag on the Hub.
        image_tower: for text towers that were published alone: whose image tower goes with them.
        trust_remote_code: let a Hub repository's own Python run. Off unless asked for.
        allow_urls: let http(s) URLs be fetched as images.
        progress: show a progress bar; None shows one on long work in a terminal.

    Raises:
        CapscoreError: an unknown metric, device or dtype.
        BackboneUnavailable: the weights cannot be had here; says why, and what can be had.
        MissingExtraError: a package is missing; names the extra that brings it.

    >>> import capscore
    >>> scorer = capscore.load("mcs", backbone="embedded")                    # doctest: +SKIP
    >>> scorer.score(["a cat"], ["cat.jpg"], language="en").mean               # doctest: +SKIP
    """
    from ..backbones.loading import default_backbone, load_backbone
    from ..cache import resolve_cache
    from ..embedding import Embedder

    kind = scorer_class(metric)
    tower = load_backbone(
        backbone if backbone is not None else default_backbone(metric),
        device=device,
        dtype=dtype,
        revision=revision,
        image_tower=image_tower,
        trust_remote_code=trust_remote_code,
    )
    embedder = Embedder(
        tower, batch_size=batch_size, cache=resolve_cache(cache), allow_urls=allow_urls, progress=progress
    )
    return kind(embedder, prefix=prefix)
