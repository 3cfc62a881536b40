"""The command `capscore backbones`: the backbones that are known by name, as a table or JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .terminal import box_style, command, make_console, print_line, speaks_unicode

if TYPE_CHECKING:
    from ..backbones.registry import Known


@command
def backbones(as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON.")] = False) -> None:
    from rich.table import Table

    from ..backbones.registry import registry

    known = list(registry().values())
    if as_json:
        print(json.dumps([_described(entry) for entry in known], indent=2, ensure_ascii=not speaks_unicode()))
        return
    table = Table(box=box_style(), pad_edge=False)
    table.add_column("backbone", overflow="fold")
    for heading in ("languages", "dim", "τ_c", "here"):
        table.add_column(heading, justify="right", no_wrap=True)
    for entry in known:
        about = _described(entry)
        agreement = about["flickr8k_expert_tau_c"]
        table.add_row(
            entry.name,
            str(len(entry.languages) or "?"),
            str(entry.dim),
            "–" if agreement is None else f"{agreement:.1f}",
            "yes" if about["here"] else "no",
        )
    console = make_console()
    console.print(table)
    print_line(console, "τ_c: published agreement with people on Flickr8k-Expert, in percent.")
    print_line(console, "here: the weights are on this machine; others come from the Hub when asked for.")


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
        "note": known.note,
    }
