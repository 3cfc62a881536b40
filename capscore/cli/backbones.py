"""The command `capscore backbones`: lists the backbones that are known by name."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..files.console import make_console
from .options import AsJson
from .terminal import make_table, print_json, print_line

if TYPE_CHECKING:
    from ..backbones import Known


@dataclass(frozen=True)
class BackbonesRequest:
    """What `capscore backbones` is asked for."""

    as_json: AsJson = False


def run_backbones(request: BackbonesRequest) -> list[dict[str, Any]]:
    """Descriptions of the backbones, ready for JSON."""
    from ..backbones import registry

    return [_described(entry) for entry in registry().values()]


def _described(known: Known) -> dict[str, Any]:
    from ..backbones.loading import is_downloaded

    return {
        "name": known.name,
        "aliases": list(known.aliases),
        "kind": known.kind,
        "languages": list(known.languages),
        "dim": known.dim,
        "parameters": known.parameters or None,
        "context": known.context or None,
        "text_case": known.text_case or None,
        "crossmodal3600": known.retrieval and dataclasses.asdict(known.retrieval),
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
    from ..show.benchmark_tables import size_text

    table = make_table("backbone", numbers=("lang", "size", "τ_c", "T→I", "here", "licence"))
    for entry in found:
        agreement = entry["flickr8k_expert_tau_c"]
        retrieval = (entry["crossmodal3600"] or {}).get("text_to_image")
        table.add_row(
            entry["name"],
            str(len(entry["languages"]) or "?"),
            size_text(entry["parameters"] or 0),
            "–" if agreement is None else f"{agreement:.1f}",
            "–" if retrieval is None else f"{retrieval:.1f}",
            "yes" if entry["here"] else "no",
            entry["licence"] or "–",
        )
    console = make_console()
    console.print(table)
    print_line(console, "τ_c: published agreement with human ratings on Flickr8k-Expert, in percent.")
    print_line(console, "lang: number of languages that its makers list; size: number of weights.")
    print_line(console, "T→I: published text-to-image recall@1 on Crossmodal-3600, in percent.")
    print_line(console, "here: the weights are on this machine; those of the Hub come on first use.")
    print_line(console, "licence: that of the weights; where there is –, see their page on the Hub.")
