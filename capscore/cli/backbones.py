"""The command `capscore backbones`: lists the backbones that are known by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..files.console import make_console
from ..tables import Report, Table, fixed
from .options import AsJson
from .terminal import print_json

if TYPE_CHECKING:
    from ..backbones import Known

_LEGEND = (
    "τ_c: published agreement with human ratings on Flickr8k-Expert, in percent.",
    "lang: number of languages that its makers list; size: number of weights.",
    "T→I: published text-to-image recall@1 on Crossmodal-3600, in percent.",
    "licence: that of the weights; where there is –, see their page on the Hub.",
)


def backbones(as_json: AsJson = False) -> None:
    """List the backbones that are known by name, and models for `judge`."""
    from ..backbones import registry
    from ..judges.model import known_models
    from ..registry import BACKBONES

    backbones, judges = registry().values(), known_models()
    if as_json:
        entries = [_entry(known) for known in backbones]
        empty = dict.fromkeys(entries[0])
        return print_json(entries + [empty | _judge_entry(*item) for item in judges.items()])
    rows = [
        (
            known.name,
            str(len(known.languages) or "?"),
            size_text(known.parameters),
            fixed(_agreement(known), 1),
            fixed(known.retrieval.get("text_to_image"), 1),
            known.licence or "–",
        )
        for known in backbones
    ]
    judge_rows = [
        (name, str(len(known["languages"] or ()) or "?"), size_text(_weights(known)), known["licence"])
        for name, known in judges.items()
    ]
    parts: list[Table | str] = [
        Table(("backbone", "lang", "size", "τ_c", "T→I", "licence"), rows, wide=0),
        *_LEGEND,
        Table(("model for judge", "lang", "size", "licence"), judge_rows, wide=0),
        "judge takes any vision–language model; docs/judge.md says more of these.",
    ]
    if others := BACKBONES.outside():
        parts.append(f"from other packages: {', '.join(others)}")
    Report("", parts, unbroken=True).print(make_console())


def _agreement(known: Known) -> float | None:
    return known.agreement.get("Flickr8k-Expert", {}).get("tau_c")


def _weights(known: Mapping[str, Any]) -> int:
    return round(known["billions"] * 10**9)


def _entry(known: Known) -> dict[str, object]:
    return {
        "name": known.name,
        "aliases": list(known.aliases),
        "kind": known.kind,
        "languages": list(known.languages),
        "dim": known.dim,
        "parameters": known.parameters or None,
        "context": known.context or None,
        "text_case": known.text_case or None,
        "crossmodal3600": known.retrieval or None,
        "flickr8k_expert_tau_c": _agreement(known),
        "licence": known.licence or None,
        "note": known.note,
    }


def _judge_entry(name: str, known: Mapping[str, Any]) -> dict[str, object]:
    return {
        "name": name,
        "aliases": [],
        "kind": f"judge ({known['kind']})",
        "languages": list(known["languages"] or ()),
        "parameters": _weights(known),
        "licence": known["licence"],
        "note": known.get("note", ""),
    }


def size_text(parameters: int) -> str:
    """A number of weights in words.

    >>> [size_text(n) for n in (0, 78_731_987, 986_109_441, 1_193_014_785)]
    ['–', '78.7M', '986M', '1.19B']
    """
    for unit, letter in ((10**9, "B"), (10**6, "M"), (10**3, "K")):
        if parameters >= unit:
            number = parameters / unit
            return f"{number:.{max(0, 3 - len(str(int(number))))}f}{letter}"
    return str(parameters or "–")
