"""Captions beside their photos, and the same captions changed → what the changes do to MCS.

    python -m weights.measuring.changed_captions --rows held_out/photos.jsonl

In: a JSON Lines file with the photo, caption and language of each row, such as that of
`weights.measuring.held_out`. Out, per change and language: how far the mean moves, the share of captions that
move by more than .02, and of those that score lower. A caption is written in another way, of
ways_of_writing.json and `WAYS`, or gets a dangling end; all captions of a photo, as one paragraph, get
sentences of another photo.
"""

from __future__ import annotations

import html
import re
import string
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

import capscore
from capscore.benchmarks.protocols.recall import COSINE_TIE
from capscore.errors import RowWarning
from capscore.metrics.base import Scorer
from capscore.tables import Table
from weights.making.jsonl import beside
from weights.making.settings import command

from .figures import FILES, MaybePath, in_percent, read_rows, write_results

# Ways of writing, in which %s stands for the caption, and words that headlines do not capitalise.
_STATED = beside(__file__, "ways_of_writing.json")
FORMS: list[str] = _STATED["forms"]
SMALL_WORDS = frozenset(_STATED["small words"].split())
MOVED = 0.02  # a change of one caption's score that counts
ADDED = (1, 3)
ENDS = ("on a", "with a")  # of an English caption that stops in mid-phrase


class Changed(NamedTuple):
    """A text beside a photo, before and after a change."""

    change: str
    language: str
    image: str
    before: str
    after: str


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


def changes_of(
    rows: Sequence[Mapping[str, str]], ways: Mapping[str, Callable[[str], str]] = WAYS
) -> Iterator[Changed]:
    """Every change of captions, of rows with image, caption and language."""
    own: dict[str, dict[str, list[str]]] = {}  # language → photo → captions
    for row in rows:
        image, language, caption = row["image"], row["language"], row["caption"]
        own.setdefault(language, {}).setdefault(image, []).append(caption)
        written = {name: write(caption) for name, write in ways.items()}
        for end in ENDS if language == "en" else ():
            written[f"… {end}"] = f"{caption.rstrip(' .')} {end}"
        for name, text in written.items():
            yield Changed(name, language, image, caption, text)
    # all captions of a photo as one paragraph, with sentences of another photo
    for n in ADDED:
        for language, photos in own.items():
            listed = list(photos.items())
            for at, (image, texts) in enumerate(listed) if len(listed) > 1 else ():
                _, other = listed[(at + len(listed) // 2) % len(listed)]
                before, after = (" ".join(map(_sentence, some)) for some in (texts, [*texts, *other[:n]]))
                yield Changed(f"{n} of another photo", language, image, before, after)


def measure(scorer: Scorer, changes: Iterable[Changed]) -> dict[str, dict[str, dict[str, float]]]:
    """Change → language → number of texts that it changes, change of the mean, shares that move and fall."""
    listed = [row for row in changes if row.before != row.after]
    pairs = dict.fromkeys((row.image, text) for row in listed for text in (row.before, row.after))
    images, texts = zip(*pairs, strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RowWarning)  # texts look odd on purpose
        scores = dict(zip(pairs, scorer.score(texts, images).scores.tolist(), strict=True))
    moved: dict[str, dict[str, list[float]]] = {}
    for row in listed:
        change = scores[row.image, row.after] - scores[row.image, row.before]
        moved.setdefault(row.change, {}).setdefault(row.language, []).append(change)
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name, parts in moved.items():
        found[name] = {language: _counted(np.array(values)) for language, values in parts.items()}
    return found


def _counted(changes: np.ndarray) -> dict[str, float]:
    moved, lower = np.mean(np.abs(changes) > MOVED), np.mean(changes < -COSINE_TIE)
    return {"n": len(changes), "change": float(changes.mean()), "moved": float(moved), "lower": float(lower)}


def table(found: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Table:
    languages = list(dict.fromkeys(language for parts in found.values() for language in parts))
    lines = []
    for name, parts in found.items():
        cells = dict.fromkeys(languages, "")
        for language, own in parts.items():
            cells[language] = f"{own['change']:+.4f} {in_percent(own['moved'])} {in_percent(own['lower'])}"
        lines.append([name.replace("\n", "⏎"), *cells.values()])
    title = f"change of the mean; captions that move by more than {MOVED}, and that score lower, %"
    return Table(("change", *languages), lines, title)


@command(rows="file of photos, captions and languages", backbone="name or folder; default: embedded", **FILES)
def main(rows: Path, backbone: str | None, **files: MaybePath) -> None:
    listed = read_rows(rows, "image", "caption", "language")
    scorer = capscore.load("mcs", backbone=backbone or "embedded", progress=False, cache=False)
    found = measure(scorer, changes_of(listed))
    write_results(files, found, [table(found)])


if __name__ == "__main__":
    main()
