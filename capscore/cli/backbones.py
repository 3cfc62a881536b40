"""The command `capscore backbones`: lists the backbones that are known by name."""

from __future__ import annotations

from typing import Any

from ..files.console import make_console
from .options import AsJson
from .terminal import make_table, print_json, print_line

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

    found = [_described(known) for known in registry().values()]
    judges = [_judge(name, known, [*found[0]]) for name, known in known_models().items()]
    if as_json:
        return print_json(found + judges)
    table = make_table("backbone", numbers=("lang", "size", "τ_c", "T→I", "licence"))
    for entry in found:
        agreement = entry["flickr8k_expert_tau_c"]
        retrieval = (entry["crossmodal3600"] or {}).get("text_to_image")
        table.add_row(
            entry["name"],
            str(len(entry["languages"]) or "?"),
            size_text(entry["parameters"] or 0),
            "–" if agreement is None else f"{agreement:.1f}",
            "–" if retrieval is None else f"{retrieval:.1f}",
            entry["licence"] or "–",
        )
    console = make_console()
    console.print(table)
    for line in _LEGEND.strip().splitlines():
        print_line(console, line)
    table = make_table("model for judge", numbers=("lang", "size", "licence"))
    for entry in judges:
        spoken, size = str(len(entry["languages"]) or "?"), size_text(entry["parameters"])
        table.add_row(entry["name"], spoken, size, entry["licence"])
    console.print(table)
    print_line(console, "judge takes any vision–language model; docs/judge.md says more of these.")
    if others := BACKBONES.outside():
        print_line(console, f"from other packages: {', '.join(others)}")


def _described(known: Any) -> dict[str, Any]:
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
        "flickr8k_expert_tau_c": known.agreement.get("Flickr8k-Expert", {}).get("tau_c"),
        "licence": known.licence or None,
        "note": known.note,
    }


def _judge(name: str, known: dict[str, Any], keys: list[str]) -> dict[str, Any]:
    """A model for `judge`, ready for JSON, with the keys of a backbone."""
    return {
        **dict.fromkeys(keys),
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
