"""The command `capscore cite`: BibTeX for everything behind a number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from ..errors import CapscoreError, InputError
from .options import Data, argument
from .terminal import as_usage, say


def cite(signature: Annotated[str, argument("SIGNATURE")], data: Data = None) -> None:
    """Print BibTeX for a result: library, metric, backbone and benchmark.

    SIGNATURE is the signature of a score, in quotation marks, or a file that `capscore benchmark`,
    `compare` or `score` wrote, such as scores.summary.json.

    Exit codes: 0 printed; 2 wrong usage.

    Example: capscore cite "mcs|backbone:embedded@w5ffb627b|version:1.0.0rc1" --data flickr8k_human
    """
    from ..show import citations

    is_file = "|" not in signature and Path(signature).is_file()
    signatures = _signatures_of(Path(signature)) if is_file else [(signature, [])]
    with as_usage(InputError):
        cited = [citations.cite(text, [*benchmarks, *(data or ())]) for text, benchmarks in signatures]
    print("\n\n".join(dict.fromkeys(entry for entries, _ in cited for entry in entries)))
    # on the other stream, so that a file of entries stays one
    for note in dict.fromkeys(note for _, notes in cited for note in notes):
        say(f"note: {note}")


def _signatures_of(path: Path) -> list[tuple[str, list[str]]]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if "metrics" in document:  # of score, or of compare
            stated = [metric["signature"] for metric in document["metrics"].values()]
            return [(text, []) for text in stated if text is not None]
        runs = document.get("runs", [document])
        return [(result["signature"], [run["benchmark"]]) for run in runs for result in run["results"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        makers = "`capscore benchmark`, `compare` or `score`"
        raise CapscoreError(f"{path} is not a result file of {makers}") from None
