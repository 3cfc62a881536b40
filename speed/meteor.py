"""METEOR beside the authors' Java program, both from texts and with the Penn Treebank tokeniser.

In: made-up captions in English, each against four that share half of its words. Out: seconds of the first
call in a process and of the second, and how far the two programs' scores differ.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np

import capscore

from .data import captions
from .figures import Figure, repeat

ONE = "import capscore; capscore.load('meteor').score(['a dog'], references=[['one dog']])"


def measure(quick: bool) -> list[Figure]:
    """5,000 rows with four references, each once but for the second call; `quick`: 1,000."""
    count = 1000 if quick else 5000
    candidates, *others = np.array(captions(5 * count, ("en",))).reshape(5, count).tolist()
    references = [
        [_mixed(text, other) for other in of_row] for text, *of_row in zip(candidates, *others, strict=True)
    ]
    subprocess.run([sys.executable, "-c", ONE], check=True)  # sorts the table, if no process did before
    scores: dict[str, np.ndarray] = {}

    def ours() -> None:
        scorer = capscore.load("meteor")
        scores["ours"] = scorer.score(candidates, references=references, language="en").scores

    first = repeat({"first": ours}, 1)["first"]
    second = repeat({"second": ours}, 3)["second"]
    figures = [
        Figure(f"METEOR of {count:,} rows, first in a process", first.best, "{:.2f} s"),
        Figure("  the same again", second.best, "{:.2f} s", **second.spread()),
    ]
    try:
        from pycocoevalcap.meteor.meteor import Meteor
        from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

        program = Meteor()
    except (ImportError, OSError):
        return [*figures, Figure("  the Java program to compare with (extra java)", 0, "not here")]
    program.meteor_p.kill()  # it is started anew below, since its start counts

    def theirs() -> None:
        split = PTBTokenizer().tokenize
        given = {row: [{"caption": text} for text in texts] for row, texts in enumerate(references)}
        results = {row: [{"caption": text}] for row, text in enumerate(candidates)}
        java = Meteor()
        scores["theirs"] = np.array(java.compute_score(split(given), split(results))[1])
        java.meteor_p.kill()

    java = repeat({"theirs": theirs}, 1)["theirs"]
    difference = float(np.abs(scores["ours"] - scores["theirs"]).max())
    return [
        *figures,
        Figure("  the Java program, started anew", java.best, "{:.1f} s", disturbed=java.disturbed),
        Figure("  Java ÷ capscore, first in a process", java.best / first.best, "{:.1f}×", 4),
        Figure("  Java ÷ capscore, again", java.best / second.best, "{:.1f}×", 4),
        Figure("  largest difference between their scores", difference, "{:.0e}", 1e-6, at_most=True),
    ]


def _mixed(text: str, other: str) -> str:
    """The first half of the words of one text, and the second half of those of another."""
    words, more = text.split(), other.split()
    return " ".join(words[: len(words) // 2] + more[len(more) // 2 :])
