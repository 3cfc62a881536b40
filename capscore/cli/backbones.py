"""The command `capscore backbones`: lists the backbones that are known by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..files.console import make_console
from ..tables import fixed
from .options import AsJson
from .terminal import make_table, print_json, print_line

if TYPE_CHECKING:
    from ..backbones import Known

_LEGEND = """
τ_c: published agreement with human ratings on Flickr8k-Expert, in percent.
lang: number of languages that its makers list; size: number of weights.
T→I: published text-to-image recall@1 on Crossmodal-3600, in percent.
licence: that of the weights; where there is –, see their page on the Hub.
"""


def backbones(as_json: AsJson = False) -> None:
    """List the backbones that are known by name, and models for `judge`."""
    from ..backbones import registry
    from ..judges.model import known_models
    from ..registry import BACKBONES

    known_backbones = registry().values()
    entries = [_entry(known) for known in known_backbones]
    judges = known_models()
    if as_json:
        empty = dict.fromkeys(entries[0])
        return print_json(entries + [empty | _judge_entry(name, known) for name, known in judges.items()])
    table = make_table("backbone", numbers=("lang", "size", "τ_c", "T→I", "licence"))
    for known in known_backbones:
        table.add_row(
            known.name,
            str(len(known.languages) or "?"),
            size_text(known.parameters),
            fixed(_agreement(known), 1),
            fixed(known.retrieval.get("text_to_image"), 1),
            known.licence or "–",
        )
    console = make_console()
    console.print(table)
    for line in _LEGEND.strip().splitlines():
        print_line(console, line)
    table = make_table("model for judge", numbers=("lang", "size", "licence"))
    for name, judge in judges.items():
        entry = _judge_entry(name, judge)
        table.add_row(
            name, str(len(entry["languages"]) or "?"), size_text(entry["parameters"]), entry["licence"]
        )
    console.print(table)
    print_line(console, "judge takes any vision–language model; docs/judge.md says more of these.")
    if others := BACKBONES.outside():
        print_line(console, f"from other packages: {', '.join(others)}")


def _agreement(known: Known) -> float | None:
    return known.agreement.get("Flickr8k-Expert", {}).get("tau_c")


def _entry(known: Known) -> dict[str, Any]:
    """A backbone, ready for JSON."""
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


def _judge_entry(name: str, known: dict[str, Any]) -> dict[str, Any]:
    """A model for `judge`, ready for JSON."""
    return {
        "name": name,
        "aliases": [],
        "kind": f"judge ({known['kind']})",
        "languages": list(known["languages"] or ()),
        "parameters": round(known["billions"] * 10**9),
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
