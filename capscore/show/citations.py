"""A signature → BibTeX of what stands behind its numbers: library, metric, backbone, and benchmark."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from .. import __version__
from ..backbones import Known, find
from ..errors import InputError
from ..metrics.signature import parse_signature

# metric, as signatures begin → keys of its papers
METRICS = {
    "mcs": ("kim-etal-2023-pr-mcs", "hessel-etal-2021-clipscore"),
    "pr_mcs": ("kim-etal-2023-pr-mcs",),
    "clip_score": ("hessel-etal-2021-clipscore",),
    "ref_clip_score": ("hessel-etal-2021-clipscore",),
    "text_score": ("hessel-etal-2021-clipscore",),
    "clip_cider": ("hessel-etal-2021-clipscore", "vedantam-etal-2015-cider"),
    "infometic": ("hu-etal-2023-infometic",),
    "infoclip": ("hu-etal-2023-infometic",),
    "cider": ("vedantam-etal-2015-cider",),
    "cider_d": ("vedantam-etal-2015-cider",),
    "bleu": ("papineni-etal-2002-bleu",),
    "rouge_l": ("lin-2004-rouge",),
    "meteor": ("denkowski-lavie-2014-meteor",),
    "spice": ("anderson-etal-2016-spice",),
}
_OURS = ("yang-etal-2020-multilingual", "tan-le-2019-efficientnet")
_FREE = (*_OURS, "norouzi-etal-2014-zero")
# start of a backbone's name, or part of it → keys of its papers; the first that fits
_BACKBONES = (
    (r"embedded-free", _FREE),
    (r"embedded", _OURS),
    (r"M-CLIP/", ("carlsson-etal-2022-cross", "radford-etal-2021-learning")),
    (r"sentence-transformers/", ("reimers-gurevych-2020-making", "radford-etal-2021-learning")),
    (r"BAAI/AltCLIP", ("chen-etal-2023-altclip",)),
    (r"OFA-Sys/", ("yang-etal-2022-chinese",)),
    (r"nllb-clip", ("visheratin-2023-nllb", "zhai-etal-2023-sigmoid")),
    (r"google/siglip2", ("tschannen-etal-2025-siglip",)),
    (r"google/siglip", ("zhai-etal-2023-sigmoid",)),
    (r".*metaclip.?2", ("chuang-etal-2025-metaclip",)),
    (r".*/dfn", ("fang-etal-2024-data",)),
    (r".*/openai", ("radford-etal-2021-learning",)),
    (r".*/(frozen_)?laion", ("cherti-etal-2023-reproducible",)),
)


@cache
def entries() -> dict[str, str]:
    """Every BibTeX entry that ships, by its key.

    >>> entries()["lin-2004-rouge"].splitlines()[0]
    '@inproceedings{lin-2004-rouge,'
    """
    text = files(__package__).joinpath("citations.bib").read_text(encoding="utf-8")
    found = (part.strip() for part in re.split(r"(?m)^(?=@)", text))
    return {part[part.index("{") + 1 : part.index(",")]: part for part in found if part}


def keys_of_backbone(name: str) -> tuple[str, ...]:
    """Keys of the papers of a backbone; () for one that nobody here knows.

    >>> keys_of_backbone("google/siglip2-base-patch16-224")
    ('tschannen-etal-2025-siglip',)
    """
    known: Known | None = find(name)
    asked = known.name if known is not None else name
    return next((keys for pattern, keys in _BACKBONES if re.match(pattern, asked)), ())


def cite(signature: str, benchmarks: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """BibTeX entries for a result.

    Args:
        signature: As `Scores.signature` has it.
        benchmarks: Names of benchmarks that it was measured on.

    Returns:
        The entries, without doubles: library, metric, backbone, benchmarks. And notes on what has none.

    Raises:
        InputError: it is no signature, or of a metric that is not known.
        CapscoreError: there is no such benchmark.

    >>> cite("rouge_l|segmenter:ptb2|version:0.6.0")[0][1].splitlines()[0]
    '@inproceedings{lin-2004-rouge,'
    """
    try:
        metric, settings = parse_signature(signature.strip())
    except ValueError as error:
        raise InputError(
            f"{error}; expected a signature, such as mcs|backbone:embedded@w4e728dcc|…"
        ) from None
    if metric not in METRICS:
        raise InputError(f"{metric!r} is no metric of capscore: a signature begins with {', '.join(METRICS)}")
    found = [_software(settings.get("version", __version__))]
    found += [entries()[key] for key in METRICS[metric]]
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

        own = builder_class(slug).CITATION.strip()
        if own:
            found.append(own)
        else:
            notes.append(f"no citation is known for the benchmark {slug}: see its own card")
    return list(dict.fromkeys(found)), notes


def _software(version: str) -> str:
    return f"""@software{{capscore,
  title = {{capscore: automatic evaluation of image captions in every language}},
  version = {{{version}}}, year = {{2026}}}}"""
