"""How long capscore takes to start, in fresh interpreters.

In: nothing. Out: seconds, the best of several, and whether torch came in unasked.
"""

from __future__ import annotations

import os
import subprocess
import sys

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
scorer.score(["a grey square"], [numpy.full((64, 64, 3), 128, numpy.uint8)])
"""


def measure(quick: bool) -> list[Figure]:
    """Best of 10 fresh interpreters each (`quick`: 3), with the files in the system's memory already."""
    times, torch_came = [], False
    for _ in range(3 if quick else 10):
        took, torch_in = _python("-c", IMPORT).split()
        times.append(float(took))
        torch_came |= torch_in == "True"
    works = {
        "empty": lambda: _python("-c", ""),
        "help": lambda: _python("-c", HELP),
        "score": lambda: _python("-c", FIRST_SCORE),
    }
    timed = {"import": Timing(sorted(times)), **repeat(works, 2 if quick else 5)}
    best = {name: timing.best * 1000 for name, timing in timed.items()}
    return [
        Figure("import capscore", best["import"], "{:.0f} ms", 300, at_most=True, **timed["import"].spread()),
        Figure("  torch comes with it (0: no)", float(torch_came), "{:.0f}", 0, at_most=True),
        Figure("capscore --help", best["help"], "{:.0f} ms", 600, at_most=True, **timed["help"].spread()),
        Figure("  an empty Python program", best["empty"], "{:.0f} ms", **timed["empty"].spread()),
        Figure("load embedded, score one image", best["score"] / 1000, "{:.1f} s", **timed["score"].spread()),
    ]


def _python(*arguments: str) -> str:
    environment = {**os.environ, "COLUMNS": "80"}
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout
