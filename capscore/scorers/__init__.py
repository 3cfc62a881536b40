"""One idea a file: rows in, `Scores` out. `load` makes a scorer by its metric's name."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import CapscoreError

if TYPE_CHECKING:
    from ..backbones.base import Backbone
    from ..embedding.cache import EmbeddingCache
    from ..infometic.regions import RegionFinder
    from .base import Scorer
    from .formulas.cider import DocumentFrequencies

# metric → (module, class)
METRICS = {
    "mcs": ("mcs", "MCS"),
    "pr_mcs": ("pr_mcs", "PRMCS"),
    "clip_score": ("clip_score", "CLIPScore"),
    "infometic": ("infometic", "InfoMetIC"),
    "ref_clip_score": ("ref_clip_score", "RefCLIPScore"),
    "clip_cider": ("clip_cider", "CLIPCIDEr"),
    "text_score": ("text_score", "TextScore"),
    "cider": ("cider", "CIDEr"),
    "cider_d": ("cider", "CIDErD"),
    "bleu": ("bleu", "BLEU"),
    "rouge_l": ("rouge_l", "ROUGEL"),
    "meteor": ("java_metrics", "METEOR"),
    "spice": ("java_metrics", "SPICE"),
}
# what a metric looks at → the metrics; known without importing any
KINDS = {
    "Images": ("mcs", "pr_mcs", "clip_score", "infometic"),
    "Images and references": ("ref_clip_score", "clip_cider"),
    "References": ("text_score", "cider", "cider_d", "bleu", "rouge_l", "meteor", "spice"),
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


def _check_options(metric: str, given: Mapping[str, object]) -> None:
    takes = scorer_class(metric).options
    for name, value in given.items():
        if name not in takes:
            raise CapscoreError(
                f"{metric} takes no {name} (given: {value!r:.60}); its options: {', '.join(takes) or 'none'}"
            )


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
    document_frequencies: str | Path | DocumentFrequencies | None = None,
    variant: str | None = None,
    clip: str | None = None,
    weights: str | Path | None = None,
    regions: str | RegionFinder | None = None,
    region_names: Sequence[str] | None = None,
    n_regions: int | None = None,
    beta: float | None = None,
) -> Scorer:
    """Make a scorer. An option that its metric does not take is an error, not ignored.

    Args:
        metric: "mcs", "pr_mcs", "clip_score", "infometic", "ref_clip_score" or "clip_cider", which open
            images; "text_score", "cider", "cider_d", "bleu", "rouge_l", "meteor" or "spice", which compare
            with references only. The first seven have a backbone, and the options down to `progress`.
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
        document_frequencies: for cider, cider_d and clip_cider: in how many reference sets each n-gram is, or
            the file that says so. None counts in the references of the rows that are scored together.
        variant: for cider: "coco" (None), as papers report it, or "paper", as its own paper defines it first.
        clip: for clip_cider: which score is averaged with CIDEr, "ref_clip_score" (None) or "clip_score".
        weights: for infometic: a folder or a Hub id, "info_clip" for the baseline without weights; None for
            those that ship for the backbone, or the baseline where none do.
        regions: for infometic: what finds regions, "windows" (None) or a detector such as "detr:org/name".
        region_names: for infometic: what an open-vocabulary detector ("owlv2:…", "grounding-dino:…") is to
            look for, such as ["dog", "red ball"].
        n_regions: for infometic: how many regions of an image are scored; None for 20.
        beta: for infometic: words and regions with a score above it are correct and mentioned; None for 0.1.

    Raises:
        CapscoreError: an unknown metric, device or dtype, or an option that the metric does not take.
        BackboneUnavailable: the weights cannot be had here; says why, and what can be had.
        MissingExtraError: a package is missing; names the extra that brings it.

    >>> import capscore
    >>> scorer = capscore.load("mcs", backbone="embedded")                    # doctest: +SKIP
    >>> scorer.score(["a cat"], ["cat.jpg"], language="en").mean               # doctest: +SKIP
    >>> bleu = capscore.load("bleu").score(["a cat sits"], references=[["a cat sits there"]], language="en")
    >>> bleu.components["bleu_1"].round(4).tolist()
    [0.7165]
    """
    kind = scorer_class(metric)
    options = {
        "backbone": backbone,
        "device": device,
        "dtype": dtype,
        "batch_size": batch_size,
        "cache": cache,
        "prefix": prefix,
        "revision": revision,
        "image_tower": image_tower,
        "trust_remote_code": trust_remote_code or None,
        "allow_urls": allow_urls or None,
        "progress": progress,
        "document_frequencies": document_frequencies,
        "variant": variant,
        "clip": clip,
        "weights": weights,
        "regions": regions,
        "region_names": region_names,
        "n_regions": n_regions,
        "beta": beta,
    }
    given = {name: value for name, value in options.items() if value is not None}
    _check_options(metric, given)
    own = {name: given[name] for name in kind.own_options if name in given}
    if "backbone" not in kind.options:
        return kind(**own)

    from ..backbones.loading import default_backbone, load_backbone
    from ..embedding.cache import resolve_cache
    from ..embedding.embedder import Embedder

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
    return kind(embedder, **own)
