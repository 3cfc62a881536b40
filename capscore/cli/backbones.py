"""The command `capscore backbones`: lists the backbones that are known by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..files.console import make_console
from .options import AsJson
from .terminal import make_table, print_json, print_line

if TYPE_CHECKING:
    from ..backbones.registry import Known


@dataclass(frozen=True)
class BackbonesRequest:
    """What `capscore backbones` is asked for."""

    as_json: AsJson = False


def run_backbones(request: BackbonesRequest) -> list[dict[str, Any]]:
    """Descriptions of the backbones, ready for JSON."""
    from ..backbones.registry import registry

    return [_described(entry) for entry in registry().values()]


def _described(known: Known) -> dict[str, Any]:
    from ..backbones.loading import is_downloaded

    return {
        "name": known.name,
        "aliases": list(known.aliases),
        "kind": known.kind,
        "languages": list(known.languages),
        "dim": known.dim,
        "flickr8k_expert_tau_c": known.agreement.get("Flickr8k-Expert", {}).get("tau_c"),
        "here": is_downloaded(known),
        "licence": known.licence or None,
        "note": known.note,
    }


def show_backbones(request: BackbonesRequest, found: list[dict[str, Any]]) -> None:
    """Print the backbones as a table or JSON."""
    if request.as_json:
        print_json(found)
        return
    table = make_table("backbone", numbers=("languages", "dim", "τ_c", "here", "licence"))
    for entry in found:
        agreement = entry["flickr8k_expert_tau_c"]
        table.add_row(
            entry["name"],
            str(len(entry["languages"]) or "?"),
            str(entry["dim"]),
            "–" if agreement is None else f"{agreement:.1f}",
            "yes" if entry["here"] else "no",
            entry["licence"] or "–",
        )
    console = make_console()
    console.print(table)
    print_line(console, "τ_c: published agreement with human ratings on Flickr8k-Expert, in percent.")
    print_line(console, "here: the weights are on this machine; those of the Hub come on first use.")
    print_line(console, "licence: that of the weights; where there is –, see their page on the Hub.")
