"""Critical objects of captions: where they are, and captions in which they change places."""

from __future__ import annotations

import json
import random
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from numbers import Integral
from typing import TypeAlias

import numpy as np

from ..errors import InputError
from ..files.columns import is_missing
from ..text.letters import folded
from ..text.segmentation import has_spaces
from ..text.word_classes import tag, tagger_name
from .words import Span, is_one_sign, overlaps, with_texts

# A critical object: its text, or its place in the caption.
Object: TypeAlias = str | Span
# Orders of exchanged objects: any other one, as published; or one in which every object moves
ORDERS = ("published", "every")
# Columns of files that hold critical objects
OBJECT_COLUMNS = ("critical_objects", "objects")


def objects_of_cell(cell: object, is_text: bool) -> list[Object] | None:
    """The critical objects in a cell of a file, which is JSON where cells are text; None in an empty one."""
    if is_missing(cell):
        return None
    listed = cell
    if is_text:
        try:
            listed = json.loads(str(cell))
        except (json.JSONDecodeError, RecursionError):
            listed = None
    if not isinstance(listed, list):
        raise InputError(f'{cell!r:.60}: expected a list such as ["a dog", "beach"]', field="objects")
    return listed


def find_nouns(captions: Sequence[str], language: str | None = None) -> list[list[Span]]:
    """The places of nouns, which a substitution exchanges if no objects are given.

    In Japanese, Chinese and Thai adjacent nouns are one, since compounds are written without spaces.
    """
    compounds = not has_spaces(language)
    found = []
    for tagged in tag(captions, language):
        places: list[Span] = []
        for word in tagged:
            if word.word_class != "noun":
                continue
            start = word.start
            if compounds and places and places[-1][1] == start:
                start, _ = places.pop()
            places.append((start, word.end))
        found.append(places)
    return found


def find_objects(
    captions: Sequence[str], objects: Sequence[Sequence[Object]]
) -> tuple[list[list[Span]], np.ndarray]:
    """The places of given objects in captions, without overlaps.

    Places are used as they are. Longer texts are searched first, so that "dog" does not match in "dog house".
    Case is ignored; whole words are preferred to parts of words, then equal spelling, then the leftmost
    place. An object that is given twice is searched twice.

    >>> find_objects(["A dog at a dog house"], [["dog", "dog house", "cat"]])
    ([[(2, 5), (11, 20)]], array([1]))
    """
    if isinstance(objects, str) or len(objects) != len(captions):
        given = "one string" if isinstance(objects, str) else f"{len(objects)} lists of objects"
        raise InputError(f"{given} for {len(captions)} captions; expected a list for each", field="objects")
    found = [_spans(caption, objects[row], row) for row, caption in enumerate(captions)]
    return [spans for spans, _ in found], np.array([missing for _, missing in found], dtype=np.int64)


def noun_finder(language: str | None = None) -> str:
    """Name, for signatures, of what finds the nouns of a language, with versions."""
    return tagger_name(language)


def _spans(caption: str, objects: Sequence[Object], row: int) -> tuple[list[Span], int]:
    if isinstance(objects, (str, bytes)) or not isinstance(objects, Iterable):
        raise InputError(f"{objects!r:.60} is not a list of objects", row=row, field="objects")
    taken: list[Span] = []
    texts = []
    for item in objects:
        if isinstance(item, str):
            texts.append(" ".join(item.split()))
            continue
        span = _as_span(item, len(caption))
        if span is None or overlaps(span, taken):
            raise InputError(
                f"{item!r:.60}: expected a text, or a (start, end) span in the caption, which has "
                f"{len(caption)} characters; spans must not overlap",
                row=row,
                field="objects",
            )
        taken.append(span)
    missing = 0
    for text in sorted(texts, key=lambda text: (-len(text), text)):
        found = _find(caption, text, taken)
        if found is None:
            missing += 1
        else:
            taken.append(found)
    return sorted(taken), missing


def _as_span(item: object, length: int) -> Span | None:
    """An object that is a (start, end) span of a caption of so many characters."""
    if isinstance(item, bytes) or not isinstance(item, Iterable):
        return None
    numbers = tuple(item)
    if len(numbers) != 2 or not all(isinstance(number, Integral) for number in numbers):
        return None
    start, end = map(int, numbers)
    return (start, end) if 0 <= start < end <= length else None


def _find(caption: str, text: str, taken: list[Span]) -> Span | None:
    """The best free span of a text, which does not end inside a grapheme cluster."""
    if not text:
        return None
    free = []
    for match in _pattern(text).finditer(caption):
        start, end = match.span(1)
        is_cut = end < len(caption) and is_one_sign(caption[end - 1], caption[end])
        if not is_cut and not overlaps((start, end), taken):
            free.append((start, end))

    def badness(span: Span) -> tuple[bool, bool, Span]:
        start, end = span
        in_a_word = caption[start - 1 : start].isalnum() or caption[end : end + 1].isalnum()
        return in_a_word, caption[start:end] != text, span

    return min(free, key=badness, default=None)


@lru_cache(maxsize=4096)
def _pattern(text: str) -> re.Pattern[str]:
    """A text at any place, whatever its case, white space and composition."""
    forms = dict.fromkeys([text, *(unicodedata.normalize(form, text) for form in ("NFC", "NFD"))])
    spelt = "|".join(r"\s+".join(map(re.escape, form.split(" "))) for form in forms)
    return re.compile(f"(?=({spelt}))", re.IGNORECASE)


def exchange_objects(
    caption: str, spans: Sequence[Span], rng: random.Random, order: str = "published"
) -> tuple[str, list[Span]]:
    """The caption with the texts of its spans in another order, and the spans that got another text.

    >>> exchange_objects("a cat and a dog", [(2, 5), (12, 15)], random.Random(0))
    ('a dog and a cat', [(2, 5), (12, 15)])
    """
    texts = [caption[start:end] for start, end in spans]
    names = list(map(folded, texts))
    if len(set(names)) < 2:
        return caption, []
    new = [texts[source] for source in _ORDERS[order](names, rng)]
    moved = [span for span, text, old in zip(spans, new, texts, strict=True) if text != old]
    return with_texts(caption, spans, new), moved


def _shuffled(names: list[str], rng: random.Random) -> list[int]:
    """For each place, where its new text comes from: shuffled until the texts differ (Algorithm 1)."""
    sources = list(range(len(names)))
    while [names[source] for source in sources] == names:
        rng.shuffle(sources)
    return sources


def _all_moved(names: list[str], rng: random.Random) -> list[int]:
    """The same with another text at every place, as far as there are enough other texts."""
    # equal texts stand side by side in a random line, and move on by as many places as the most frequent has
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for number, name in enumerate(names):
        groups[name].append(number)
    line = []
    for name in rng.sample(list(groups), len(groups)):
        line += rng.sample(groups[name], len(groups[name]))
    step = max(map(len, groups.values()))
    sources = [0] * len(names)
    for position, number in enumerate(line):
        sources[number] = line[position - step]
    return sources


_ORDERS = {"published": _shuffled, "every": _all_moved}
