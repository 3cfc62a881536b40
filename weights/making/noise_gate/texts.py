"""Captions with the places of their words, the classes of these, and their objects.

    python -m weights.making.noise_gate.texts --captions captions.jsonl --out marked.jsonl

In: files of `weights.making.captions`. Out: JSONL rows that `read_texts` reads, each distinct caption of a
language once: tagging takes minutes, and every run of the recipe reads the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from capscore.perturbations import find_nouns
from capscore.perturbations.words import words_and_gaps
from capscore.text.word_classes import CLASSES, tag
from training.data.origin import Origin
from training.engine.config import main as run_as_command
from training.engine.config import parse
from training.engine.processes import say
from weights.making.jsonl import read_lines, write_lines, write_sources

Span = tuple[int, int]
# One letter for each class of words, in the order of `CLASSES`.
LETTERS = "nvjra"
_LETTER = dict(zip(CLASSES, LETTERS, strict=True))
# Longer captions take too much time, and the noise gate reads sentences.
LONGEST = 400
_CHUNK = 2000


@dataclass(frozen=True, slots=True)
class MarkedText:
    """A caption and what is known of its words."""

    text: str
    language: str
    words: tuple[Span, ...]  # places, as perturbations find them: punctuation belongs to the word before it
    classes: str  # a letter of `LETTERS` for each word
    objects: tuple[Span, ...]  # places, without punctuation
    source: str = ""  # data set and photo, as source/photo


@dataclass
class Settings:
    """Settings of the command.

    Attributes:
        captions: Files of captions.
        out: File to write.
    """

    captions: list[str]
    out: str


def marked(
    captions: Sequence[str], language: str, objects: Sequence[Sequence[Span] | None]
) -> list[MarkedText]:
    """Captions of one language with their words; objects that are None are found.

    >>> text = marked(["Two dogs run."], "en", [None])[0]
    >>> [text.text[start:end] for start, end in text.words], text.classes, text.objects
    (['Two', 'dogs', 'run.'], 'anv', ((4, 8),))
    """
    unknown = [row for row, given in enumerate(objects) if given is None]
    found = dict(zip(unknown, find_nouns([captions[row] for row in unknown], language), strict=True))
    rows = []
    for row, (caption, tagged) in enumerate(zip(captions, tag(captions, language), strict=True)):
        pieces, gaps = words_and_gaps(caption, language)
        words, end = [], 0
        for piece, gap in zip(pieces, gaps[:-1], strict=True):
            start = end + len(gap)
            end = start + len(piece)
            words.append((start, end))
        own = objects[row]
        spans = tuple((start, end) for start, end in (found[row] if own is None else own))
        rows.append(MarkedText(caption, language, tuple(words), _letters(words, tagged), spans))
    return rows


def _letters(words: Sequence[Span], tagged: Sequence) -> str:
    """The class of each word: that of the tagged word that begins first within it, "a" without any."""
    letters, number = [], 0
    for start, end in words:
        while number < len(tagged) and tagged[number].end <= start:
            number += 1
        inside = [word for word in tagged[number : number + 4] if word.start < end and word.end > start]
        classes = [_LETTER[word.word_class] for word in inside]
        # l'homme, 犬が: the word's own class is that of what it says
        letters.append(next((letter for letter in "nvjr" if letter in classes), "a"))
    return "".join(letters)


def write_texts(settings: Settings) -> int:
    """Write the file; returns the number of its rows."""
    groups: dict[str, dict[str, tuple[Sequence[Span] | None, str]]] = {}
    for name in settings.captions:
        for caption, language, objects, source in read_lines(name, _caption, "captions", "row of captions"):
            if len(caption) <= LONGEST:
                groups.setdefault(language, {}).setdefault(caption, (objects, source))

    def rows() -> Iterator[list[Any]]:
        for language, captions in sorted(groups.items()):
            for start in range(0, len(captions), _CHUNK):
                part = list(captions)[start : start + _CHUNK]
                for text in marked(part, language, [captions[caption][0] for caption in part]):
                    words, objects = map(list, map(chain.from_iterable, (text.words, text.objects)))
                    yield [text.text, language, words, text.classes, objects, captions[text.text][1]]
            say(f"{language}: {len(captions):,} captions")

    write_lines(settings.out, rows())
    origins = [Origin(path, Path(path).name, "unknown") for path in settings.captions]
    names = ("name", "license", "rows", "url")
    write_sources(
        settings.out,
        [{name: asdict(part)[name] for name in names} for origin in origins for part in origin.described()],
        "; ".join(dict.fromkeys(origin.held_out for origin in origins if origin.held_out)),
    )
    return sum(map(len, groups.values()))


def _caption(row: dict) -> tuple[str, str, Sequence[Span] | None, str]:
    found = row["caption"], row["language"], row.get("objects"), row["id"]
    _require_texts(found[0], found[1], found[3])
    return found


def read_texts(path: str | Path) -> Iterator[MarkedText]:
    """The rows of a file of this module; raises InputError if it is missing or damaged."""
    return read_lines(path, _marked_text, "texts", "row of noise_gate.texts")


def _marked_text(row: list) -> MarkedText:
    text, language, words, classes, objects, source = row
    _require_texts(text, language, classes, source)
    return MarkedText(text, language, _pairs(words), classes, _pairs(objects), source)


def _require_texts(*values: object) -> None:
    if not all(isinstance(value, str) for value in values):
        raise TypeError("not a text")


def _pairs(numbers: Sequence[int]) -> tuple[Span, ...]:
    return tuple(zip(numbers[::2], numbers[1::2], strict=True))


def main(argv: Sequence[str] | None = None) -> None:
    """The command."""
    settings = parse(Settings, argv, "Find the words of captions and their classes.")
    say(f"{write_texts(settings):,} captions in {settings.out}")


if __name__ == "__main__":
    run_as_command(main)
