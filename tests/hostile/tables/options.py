"""Options of `load`, of wrong types and sizes, and command lines."""

from __future__ import annotations

import math

from ..case import cases, refused

_INFO = {"weights": "info_clip"}


def _of(metric: str, name: str, *values: tuple) -> list:
    """Rows of one option: name, value, words of the error."""
    own = _INFO if metric == "infometic" else {}
    return [(f"{metric}, {name}: {label}", (metric, {**own, name: value}), refused(name, *words), *more)
            for label, value, words, *more in values]  # fmt: skip


_OPTIONS = [
    *_of(
        "mcs",
        "batch_size",
        ("0", 0, ["at least 1"]),
        ("negative", -1, ["at least 1"]),
        ("fraction", 1.5, ["whole number"]),
        ("not a number", math.nan, ["whole number"]),
        ("text", "8", ["whole number"]),
        ("true", True, ["whole number"]),
        ("list", [8], ["whole number"]),
    ),
    *_of(
        "mcs",
        "prefix",
        ("list", ["a"], ["string"]),
        ("surrogate", "a \ud800", ["surrogate"]),
    ),
    *_of(
        "mcs",
        "dtype",
        ("unknown", "float8", ["float32"]),
        ("list", ["float32"], ["float32"]),
        ("attribute of torch", "Tensor", ["float32"]),
    ),
    *_of(
        "cider",
        "variant",
        ("unknown", "fast", ["'coco'"]),
        ("list", ["coco"], ["'coco'"]),
        ("upper case", "COCO", ["'coco'"]),
    ),
    *_of("clip_cider", "clip", ("unknown", "mcs", ["ref_clip_score"]), ("list", [], ["ref_clip_score"])),
    *_of(
        "infometic",
        "n_regions",
        ("0", 0, ["at least 1"]),
        ("fraction", 2.5, ["whole number"]),
        ("text", "20", ["whole number"]),
        ("true", True, ["whole number"]),
    ),
    *_of(
        "infometic",
        "beta",
        ("1", 1, ["from 0 to below 1"]),
        ("negative", -0.1, ["from 0 to below 1"]),
        ("not a number", math.nan, ["from 0 to below 1"]),
        ("text", "0.1", ["number"]),
        ("true", True, ["number"]),
    ),
    *_of(
        "infometic",
        "regions",
        ("unknown", "boxes", ["windows"]),
        ("list", ["windows"], ["windows"]),
        ("detector", "detr:x", ["windows"]),
    ),
    *_of(
        "cider",
        "document_frequencies",
        ("no such file", "no/such/file", ["No such file"]),
        ("list", [], ["[]"]),
        ("nul", "a\0b", ["document_frequencies"]),
    ),
    *_of("cider", "backbone", ("not of this metric", "embedded", ["cider"])),
    *_of("mcs", "batchsize", ("misspelt", 8, ["batch_size"])),
    *_of("mcs", "__class__", ("name of a method", 8, ["takes no"])),
]

CASES = [*cases("option", "option", _OPTIONS)]
