"""Captions beside their photos, and the same captions written in other ways → what that does to MCS.

    python -m weights.measuring.ways_of_writing --rows photos.jsonl --languages en,de,fr,es,zh

In: a JSON Lines file with the photo, caption and language of each row, such as that of
`weights.measuring.held_out`. Out: for each way of writing and each language the change of the mean, and the
share of captions that move by more than .02. A way is a line of ways_of_writing.json or a function in `WAYS`.
"""

from __future__ import annotations

import html
import re
import string
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

import capscore
from capscore.errors import RowWarning
from capscore.metrics.base import Scorer
from capscore.tables import Report, Table
from training.engine.config import main as run_as_command
from weights.making.jsonl import beside, read_lines, with_texts

from .figures import percent, study_parser, write_results

# Ways of writing, in which %s stands for the caption, and words that headlines do not capitalise.
_STATED = beside(__file__, "ways_of_writing.json")
FORMS: list[str] = _STATED["forms"]
MOVED = 0.02  # a change of one caption's score that counts
SMALL_WORDS = frozenset(_STATED["small words"].split())


def _in_capitals(text: str, n_words: int = 1) -> str:
    """A text, the longest words in capitals."""
    longest = sorted(set(re.findall(r"[^\W\d_]+", text)), key=lambda word: (-len(word), word))[:n_words]
    for word in longest:
        text = re.sub(rf"\b{word}\b", word.upper(), text)
    return text


def _headline(text: str) -> str:
    """A text as a headline, its small words in lower case."""
    words = [word if word.lower() in SMALL_WORDS else word[:1].upper() + word[1:] for word in text.split()]
    return " ".join([string.capwords(words[0]), *words[1:]]) if words else text


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip(' .。')}."


# Way of writing → what it makes of a caption
WAYS: dict[str, Callable[[str], str]] = {
    "capital, full stop": _sentence,
    "no full stop": lambda text: text.rstrip(" .。"),
    "UPPER CASE": str.upper,
    "lower case": str.lower,
    "Title Case": string.capwords,
    "Headline Case": _headline,
    "a WORD": _in_capitals,
    "two WORDS": lambda text: _in_capitals(text, 2),
    "tokenised": lambda text: re.sub(r"\s*([,;:.!?])", r" \1", re.sub(r"(\w)'s\b", r"\1 's", text)),
    "blanks doubled": lambda text: text.replace(" ", "  "),
    "characters apart": lambda text: re.sub(r"(?<=[\u3400-\u9fff])(?=[\u3400-\u9fff])", " ", text),
    "under_scores": lambda text: text.replace(" ", "_"),
    "tatweel": lambda text: re.sub(r"(?<=[\u0628\u062a\u0633\u0644])(?=[\u0621-\u064a])", "\u0640", text),
    "typographic signs": lambda text: text.replace("'", "’").replace("-", "‑"),
    "w/": lambda text: re.sub(r"\bwith ", "w/ ", text),
    "HTML escapes": lambda text: html.escape(f'"{text}"'),
    **{form.replace("%s", "…"): partial(form.replace, "%s") for form in FORMS},
}


def changes(
    scorer: Scorer, rows: Sequence[Mapping[str, str]], ways: Mapping[str, Callable[[str], str]]
) -> dict[str, dict[str, np.ndarray]]:
    """Way of writing → language → change of the score of each caption that the way writes otherwise."""
    captions = [row["caption"] for row in rows]
    images = [row["image"] for row in rows]
    languages = np.array([row["language"] for row in rows])
    plain = scorer.score(captions, images).scores
    found: dict[str, dict[str, np.ndarray]] = {}
    for name, write in ways.items():
        written = list(map(write, captions))
        is_changed = np.array([one != other for one, other in zip(written, captions, strict=True)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RowWarning)  # captions look odd on purpose
            moved = scorer.score(written, images).scores - plain
        found[name] = {}
        for language in dict.fromkeys(languages.tolist()):
            chosen = is_changed & (languages == language)
            if chosen.any():
                found[name][language] = moved[chosen]
    return found


def table(found: Mapping[str, Mapping[str, np.ndarray]]) -> Table:
    """Mean change, and share of captions that move by more than .02, per way and language."""
    languages = list(dict.fromkeys(language for parts in found.values() for language in parts))
    lines = []
    for name, parts in found.items():
        line = [name.replace("\n", "⏎")]
        for language in languages:
            moved = parts.get(language)
            cell = ""
            if moved is not None:
                cell = f"{moved.mean():+.4f} {percent(float(np.mean(np.abs(moved) > MOVED)))} %"
            line.append(cell)
        lines.append(line)
    return Table(("way of writing", *languages), lines, f"change of the mean, and captions moved > {MOVED}")


def main(argv: Sequence[str] | None = None) -> None:
    parser = study_parser("ways_of_writing", __doc__, data_required=False)
    parser.add_argument("--rows", type=Path, required=True, help="JSON Lines: image, caption, language")
    parser.add_argument("--languages", default="", help="comma-separated; default: all of the file")
    parser.add_argument("--backbone", default="embedded")
    args = parser.parse_args(argv)
    convert = with_texts("image", "caption", "language")
    rows = list(read_lines(args.rows, convert, "rows", "row with image, caption and language"))
    if args.languages:
        rows = [row for row in rows if row["language"] in args.languages.split(",")]
    scorer = capscore.load("mcs", backbone=args.backbone, progress=False, cache=False)
    found = changes(scorer, rows, WAYS)
    numbers = {}
    for name, parts in found.items():
        numbers[name] = {language: moved.tolist() for language, moved in parts.items()}
    write_results(args, numbers, Report("", [table(found)]).markdown())


if __name__ == "__main__":
    run_as_command(main)
