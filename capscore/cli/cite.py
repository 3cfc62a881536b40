"""The command `capscore cite`: BibTeX of what stands behind a number."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from ..errors import CapscoreError
from .options import AsJson, Data
from .request import argument, flowing
from .terminal import bad_input_as_usage, print_json, say

_HELP = """Print BibTeX for a result: library, metric, backbone and benchmark.

SIGNATURE is what stands beside a number, in quotation marks, or a result file of `capscore benchmark`.

Exit codes: 0 printed; 2 wrong usage.

Example: capscore cite "mcs|backbone:embedded@w4e728dcc|version:0.6.0" --data flickr8k_human
"""


def cite_help() -> str:
    """The command's help."""
    return flowing(_HELP)


@dataclass(frozen=True)
class CiteRequest:
    """What `capscore cite` is asked for."""

    signature: Annotated[str, argument("SIGNATURE")]
    data: Data = None
    as_json: AsJson = False


def run_cite(request: CiteRequest) -> tuple[list[str], list[str]]:
    """The entries, and notes on what has none."""
    from ..show.citations import cite

    asked: list[tuple[str, list[str]]] = [(request.signature, [])]
    path = Path(request.signature)
    if "|" not in request.signature and path.is_file():
        asked = list(_in_file(path))
    found: list[str] = []
    notes: list[str] = []
    with bad_input_as_usage():
        for signature, benchmarks in asked:
            own, told = cite(signature, [*benchmarks, *(request.data or ())])
            found += own
            notes += told
    return list(dict.fromkeys(found)), list(dict.fromkeys(notes))


def _in_file(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Signatures of a result file, each with its benchmark."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        runs: list[Any] = document.get("runs", [document])
        found = [(result["signature"], [run["benchmark"]]) for run in runs for result in run["results"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CapscoreError(f"{path} is no result file of `capscore benchmark`: {error}") from None
    yield from found


def show_cite(request: CiteRequest, found: tuple[list[str], list[str]]) -> None:
    """Print the entries; notes go to the other stream, so that a file of entries stays one."""
    entries, notes = found
    if request.as_json:
        print_json({"bibtex": entries, "notes": notes})
        return
    print("\n\n".join(entries))
    for note in notes:
        say(f"note: {note}")
