"""Captions with the places of their words, the classes of these, and their objects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from capscore.perturbations import find_nouns
from capscore.perturbations.words import Span, core, spans_of, words_and_gaps
from capscore.text.word_classes import CLASSES, tag
from weights.making.jsonl import read_lines

# One letter for each class of words, in the order of `CLASSES`.
LETTERS = "nvjra"
_LETTER = dict(zip(CLASSES, LETTERS, strict=True))
# Longer captions take too much time, and the noise gate reads sentences.
LONGEST = 400


@dataclass(frozen=True, slots=True)
class PlacedText:
    """A text with the places of its words and objects."""

    text: str
    language: str
    words: tuple[Span, ...]  # as perturbations find them: punctuation belongs to the word before it
    objects: tuple[Span, ...]  # without punctuation

    def cut(self, places: Iterable[Span]) -> list[str]:
        return [self.text[start:end] for start, end in places]

    def cores(self) -> list[str]:
        """The words without the punctuation around them."""
        return self.cut(core(self.text, word) for word in self.words)


@dataclass(frozen=True, slots=True)
class MarkedText(PlacedText):
    """A caption as it was written."""

    classes: str  # a letter of `LETTERS` for each word
    source: str = ""  # data set and photo, as source/photo


def marked(captions: Sequence[str], language: str) -> list[MarkedText]:
    """Captions of one language with their words and objects."""
    texts = []
    found = zip(captions, find_nouns(captions, language), tag(captions, language), strict=True)
    for caption, objects, tagged in found:
        words = tuple(spans_of(*words_and_gaps(caption, language)))
        spans = tuple((start, end) for start, end in objects)
        texts.append(MarkedText(caption, language, words, spans, _letters(words, tagged)))
    return texts


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


def read_texts(paths: Iterable[str]) -> list[MarkedText]:
    """Captions of files of `weights.making.captions`, each of a language once, none too long, by language."""
    found: dict[tuple[str, str], MarkedText] = {}
    for path in paths:
        for text in read_lines(path, "texts", ("caption", "language", "classes", "id"), _marked_text):
            if len(text.text) <= LONGEST:
                found.setdefault((text.language, text.text), text)
    return sorted(found.values(), key=lambda text: text.language)


def _marked_text(row: dict[str, Any]) -> MarkedText:
    words, objects = (tuple((start, end) for start, end in row[name]) for name in ("words", "objects"))
    return MarkedText(row["caption"], row["language"], words, objects, row["classes"], row["id"])
