"""How long capscore takes to start, in fresh interpreters.

In: nothing. Out: seconds, the best of several, and whether torch came in unasked.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

from .figures import Figure, noise, seconds

IMPORT = """
import sys, time
start = time.perf_counter()
import capscore
print(time.perf_counter() - start, "torch" in sys.modules)
"""
FIRST_SCORE = """
import numpy, capscore
scorer = capscore.load("mcs", backbone="embedded", device="cpu", cache=False)
scorer.score(["a grey square"], [numpy.full((64, 64, 3), 128, numpy.uint8)])
"""


def measure(quick: bool) -> list[Figure]:
    """Best of 10 fresh interpreters each (`quick`: 3); what the disk cache already holds stays there."""
    repeats = 3 if quick else 10
    times, torch_came = [], False
    for _ in range(repeats):
        took, torch_in = _python("-c", IMPORT).split()
        times.append(float(took))
        torch_came |= torch_in == "True"
    figures = [
        Figure("import capscore", min(times) * 1000, "{:.0f} ms", 300, at_most=True, noise=noise(times)),
        Figure("  torch comes with it (0: no)", float(torch_came), "{:.0f}", 0, at_most=True),
    ]
    if find_spec("capscore.cli"):
        times = [seconds(lambda: _python("-m", "capscore.cli", "--help")) for _ in range(repeats)]
        best = min(times) * 1000
        figures.append(Figure("capscore --help", best, "{:.0f} ms", 600, at_most=True, noise=noise(times)))
    bare = [seconds(lambda: _python("-c", "")) for _ in range(repeats)]
    times = [seconds(lambda: _python("-c", FIRST_SCORE)) for _ in range(2 if quick else 3)]
    return [
        *figures,
        Figure("  an empty Python program", min(bare) * 1000, "{:.0f} ms", noise=noise(bare)),
        Figure("  load embedded, score one image", min(times), "{:.1f} s", noise=noise(times)),
    ]


def _python(*arguments: str) -> str:
    environment = {**os.environ, "COLUMNS": "80"}
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout
