"""How long capscore takes to start, in fresh interpreters.

In: nothing. Out: seconds, the best of several, how much of a first score is the import of torch, and whether
torch came in unasked.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from .data import write_photos
from .figures import Figure, Timing, repeat

IMPORT = """
import sys, time
start = time.perf_counter()
import capscore
print(time.perf_counter() - start, "torch" in sys.modules)
"""
HELP = """
import sys
from capscore.cli import main  # what the command capscore does
sys.argv = ["capscore", "--help"]
main()
"""
FIRST_SCORE = """
import numpy, capscore
scorer = capscore.load("mcs", backbone="embedded", device="cpu", cache=False)
photo = numpy.arange(64 * 64 * 3, dtype=numpy.uint8).reshape(64, 64, 3)
scorer.score(["grey stripes"], [photo], language="en")
"""
SCORE_FILE = """
import sys
from capscore.cli import main
sys.argv = ["capscore", "score", sys.argv[1], "--metric", "mcs", "--backbone", "embedded", "--no-cache"]
main()
"""


def measure(quick: bool) -> list[Figure]:
    """Best of 10 fresh interpreters each (`quick`: 3), with the files in the system's memory already."""
    times, torch_came = [], False
    for _ in range(3 if quick else 10):
        took, torch_in = _python("-c", IMPORT).split()
        times.append(float(took))
        torch_came |= torch_in == "True"
    with tempfile.TemporaryDirectory() as folder:
        rows = _one_row(Path(folder))
        works = {
            "empty": lambda: _python("-c", ""),
            "help": lambda: _python("-c", HELP),
            "torch": lambda: _python("-c", "import torch"),
            "score": lambda: _python("-c", FIRST_SCORE),
            "file": lambda: _python("-c", SCORE_FILE, str(rows)),
        }
        timed = {"import": Timing(sorted(times)), **repeat(works, 2 if quick else 5)}
    best = {name: timing.best * 1000 for name, timing in timed.items()}
    return [
        Figure("import capscore", best["import"], "{:.0f} ms", 300, at_most=True, **timed["import"].spread()),
        Figure("  torch comes with it (0: no)", float(torch_came), "{:.0f}", 0, at_most=True),
        Figure("capscore --help", best["help"], "{:.0f} ms", 600, at_most=True, **timed["help"].spread()),
        Figure("  an empty Python program", best["empty"], "{:.0f} ms", **timed["empty"].spread()),
        Figure(
            "load embedded, score one image",
            best["score"] / 1000,
            "{:.2f} s",
            2.5,
            at_most=True,
            **timed["score"].spread(),
        ),
        Figure("  of these, import torch", best["torch"] / 1000, "{:.2f} s", **timed["torch"].spread()),
        Figure("  first score ÷ import torch", best["score"] / best["torch"], "{:.2f}×", 2.0, at_most=True),
        Figure("capscore score on one row", best["file"] / 1000, "{:.2f} s", **timed["file"].spread()),
    ]


def _one_row(folder: Path) -> Path:
    """A file of rows with one caption and one photo."""
    write_photos(folder / "photos", 1)
    (photo,) = (folder / "photos").iterdir()
    row = {"candidate": "a grey square", "image": str(photo), "language": "en"}
    rows = folder / "rows.jsonl"
    rows.write_text(json.dumps(row) + "\n", encoding="utf-8")
    return rows


def _python(*arguments: str) -> str:
    # an installed package has its byte code beside it, whatever this shell wants for a checkout
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["COLUMNS"] = "80"
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout
