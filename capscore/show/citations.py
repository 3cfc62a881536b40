"""A signature → BibTeX for everything behind its numbers: library, metric, backbone, and benchmark."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from .. import __version__
from ..backbones import find
from ..errors import InputError
from ..metrics.rows import parse_signature
from ..registry import METRICS

_EMBEDDED = ("yang-etal-2020-multilingual", "tan-le-2019-efficientnet")
# start of a backbone's name, or part of it → keys of its papers; the first that fits
_BACKBONES = (
    (r"embedded-free", (*_EMBEDDED, "norouzi-etal-2014-zero")),
    (r"embedded", _EMBEDDED),
    (r"M-CLIP/", ("carlsson-etal-2022-cross", "radford-etal-2021-learning")),
    (r"sentence-transformers/", ("reimers-gurevych-2020-making", "radford-etal-2021-learning")),
    (r"BAAI/AltCLIP", ("chen-etal-2023-altclip",)),
    (r"OFA-Sys/", ("yang-etal-2022-chinese",)),
    (r"nllb-clip", ("visheratin-2023-nllb", "zhai-etal-2023-sigmoid")),
    (r"google/siglip2|fancyfeast/so400m-long", ("tschannen-etal-2025-siglip",)),
    (r"zer0int/LongCLIP", ("zhang-etal-2024-long", "radford-etal-2021-learning")),
    (r"google/siglip", ("zhai-etal-2023-sigmoid",)),
    (r".*metaclip.?2", ("chuang-etal-2025-metaclip",)),
    (r".*/dfn", ("fang-etal-2024-data",)),
    (r".*/openai", ("radford-etal-2021-learning",)),
    (r".*/(frozen_)?laion", ("cherti-etal-2023-reproducible",)),
)


@cache
def entries() -> dict[str, str]:
    text = files(__package__).joinpath("citations.bib").read_text(encoding="utf-8")
    return {
        entry[1]: entry[0].strip() for entry in re.finditer(r"^@\w+\{([^,]+),.*?(?=^@|\Z)", text, re.M | re.S)
    }


def keys_of_backbone(name: str) -> tuple[str, ...]:
    """Keys of the papers of a backbone; () for an unknown one."""
    known = find(name)
    if known is not None:
        name = known.name
    return next((keys for pattern, keys in _BACKBONES if re.match(pattern, name)), ())


def _with_variant(name: str) -> Any:
    """The metric with a variant of this name in signatures, or None."""
    for metric in METRICS.names():
        scorer = METRICS.get(metric)
        if name in scorer.variant_names:
            return scorer
    return None


def cite(signature: str, benchmarks: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """BibTeX entries for a result.

    A metric's own are its class attribute `citation`: keys of entries that ship, or whole entries. Those of
    a benchmark are its builder's `citation`.

    Returns:
        The entries, without doubles: library, metric, backbone, benchmarks. And notes on what has none.
    """
    try:
        metric, settings = parse_signature(signature.strip())
    except ValueError as error:
        raise InputError(
            f"{error}; expected a signature, such as mcs|backbone:embedded@w5ffb627b|…"
        ) from None
    scorer = METRICS.find(metric) or _with_variant(metric)
    if scorer is None:
        names = ", ".join(METRICS.names())
        raise InputError(f"{metric!r} is not a metric of capscore: a signature begins with {names}")
    found = [
        "@software{capscore,\n"
        "  title = {capscore: automatic evaluation of image captions in every language},\n"
        f"  version = {{{settings.get('version', __version__)}}}, year = {{2026}}}}"
    ]
    found += [entries().get(key, key) for key in scorer.citation]
    notes = []
    # names of the Hub hold no "@" but before their revision
    backbone = settings.get("backbone", "").partition("@")[0]
    if backbone:
        keys = keys_of_backbone(backbone)
        found += [entries()[key] for key in keys]
        if not keys:
            notes.append(f"no citation is known for the backbone {backbone}: see its own card")
    for slug in benchmarks:
        from ..benchmarks.data.load import builder_class

        citation = builder_class(slug).citation()
        if citation:
            found.append(citation)
        else:
            notes.append(f"no citation is known for the benchmark {slug}: see its own card")
    return list(dict.fromkeys(found)), notes
