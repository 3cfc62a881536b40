"""Captions with the places of their words, the classes of these, and their objects.

    python -m weights.making.noise_gate.texts --captions captions.jsonl --out texts.jsonl

In: files of `weights.making.captions`. Out: JSONL rows that `read_texts` reads, each distinct caption of a
language once: tagging takes minutes, and every run of the recipe reads the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from capscore.errors import InputError
from capscore.files.whole_file import whole_file, write_text
from capscore.perturbations import find_nouns
from capscore.perturbations.words import words_and_gaps
from capscore.text.word_classes import CLASSES, tag
from training.data.origin import SOURCES, Origin
from training.engine.config import main as run_as_command
from training.engine.config import parse
from training.engine.processes import say

Span = tuple[int, int]
# One letter for each class of words, in the order of `CLASSES`.
LETTERS = "nvjra"
_LETTER = dict(zip(CLASSES, LETTERS, strict=True))
# Longer captions take too much time, and a gate reads sentences.
LONGEST = 400
_CHUNK = 2000


@dataclass(frozen=True, slots=True)
class MarkedText:
    """A caption and what is known of its words.

    Attributes:
        text: The caption.
        language: Its language.
        words: Place of each word, as perturbations find them: punctuation belongs to the word before it.
        classes: A letter of `LETTERS` for each word.
        objects: Places of its objects, without punctuation.
        source: Data set and photo, as source/photo.
    """

    text: str
    language: str
    words: tuple[Span, ...]
    classes: str
    objects: tuple[Span, ...]
    source: str = ""


@dataclass
class Settings:
    """Settings of the command.

    Attributes:
        captions: Files of captions.
        out: File to write.
    """

    captions: list[str] = field(default_factory=list)
    out: str = ""

    def __post_init__(self) -> None:
        for name in ("captions", "out"):
            if not getattr(self, name):
                raise InputError(f"--{name} is missing; see --help", field=name)


def marked(
    captions: Sequence[str], language: str, objects: Sequence[Sequence[Span] | None]
) -> list[MarkedText]:
    """Captions of one language with their words; objects that are None are found.

    Raises:
        InputError, MissingExtraError: see `capscore.text.word_classes.tag`.

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
        places = objects[row] if objects[row] is not None else found[row]
        rows.append(
            MarkedText(
                caption,
                language,
                tuple(words),
                _letters(words, tagged),
                tuple((start, end) for start, end in places),
            )
        )
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
    """Write the file; returns the number of its rows.

    Raises:
        InputError: a file is missing, or a row is no caption of `weights.making.captions`.
    """
    groups: dict[str, dict[str, tuple[Sequence[Span] | None, str]]] = {}
    for name in settings.captions:
        for caption, language, objects, source in _captions(name):
            if len(caption) <= LONGEST:
                groups.setdefault(language, {}).setdefault(caption, (objects, source))
    n = 0
    with whole_file(Path(settings.out), "the captions", make_folders=True) as file:
        for language, captions in sorted(groups.items()):
            every = list(captions)
            for start in range(0, len(every), _CHUNK):
                part = every[start : start + _CHUNK]
                for text in marked(part, language, [captions[caption][0] for caption in part]):
                    row = [
                        text.text,
                        language,
                        [number for span in text.words for number in span],
                        text.classes,
                        [number for span in text.objects for number in span],
                        captions[text.text][1],
                    ]
                    file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
                    n += 1
            say(f"{language}: {len(every):,} captions")
    _write_sources(settings)
    return n


def _captions(path: str) -> Iterator[tuple[str, str, Sequence[Span] | None, str]]:
    """Caption, language, objects and source of each row of a file of `weights.making.captions`."""
    for number, line in _lines(path, "captions"):
        try:
            row = json.loads(line)
            found = row["caption"], row["language"], row.get("objects"), row["id"]
            if not all(isinstance(value, str) for value in (found[0], found[1], found[3])):
                raise TypeError
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError(
                f"{path}, line {number}: {line!r:.60} is no row of weights.making.captions",
                field="captions",
            ) from None
        yield found


def _lines(path: str | Path, field: str) -> Iterator[tuple[int, str]]:
    """The lines of a file with their numbers, from 1."""
    try:
        with open(path, encoding="utf-8") as lines:
            yield from enumerate(lines, 1)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}", field=field) from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8", field=field) from None


def _write_sources(settings: Settings) -> None:
    """Where the captions come from, as the files beside theirs say, beside the new file."""
    origins = [Origin(path, Path(path).name, "unknown") for path in settings.captions]
    said = {
        "held_out": "; ".join(dict.fromkeys(origin.held_out for origin in origins if origin.held_out)),
        "sources": [
            {
                name: value
                for name, value in asdict(part).items()
                if name in ("name", "license", "rows", "url")
            }
            for origin in origins
            for part in origin.described()
        ],
    }
    write_text(
        Path(f"{settings.out}{SOURCES}"), json.dumps(said, indent=2, ensure_ascii=False) + "\n", "origins"
    )


def read_texts(path: str | Path) -> Iterator[MarkedText]:
    """The rows of a file of this module.

    Raises:
        InputError: the file is missing, or a row is of another form; names its line.
    """
    for number, line in _lines(path, "texts"):
        try:
            text, language, words, classes, objects, source = json.loads(line)
            if not all(isinstance(value, str) for value in (text, language, classes, source)):
                raise TypeError
            row = MarkedText(text, language, _pairs(words), classes, _pairs(objects), source)
        except (ValueError, TypeError):
            raise InputError(
                f"{path}, line {number}: {line!r:.60} is no row of weights.making.noise_gate.texts",
                field="texts",
            ) from None
        yield row


def _pairs(numbers: Sequence[int]) -> tuple[Span, ...]:
    return tuple(zip(numbers[::2], numbers[1::2], strict=True))


def main(argv: Sequence[str] | None = None) -> None:
    """The command."""
    settings = parse(Settings, argv, "Find the words of captions and their classes.")
    say(f"{write_texts(settings):,} captions in {settings.out}")


if __name__ == "__main__":
    run_as_command(main)
