"""A caption and a changed caption → the places where their words differ, in each of them."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

from ..text.languages import language_code
from .published import check_captions
from .words_and_gaps import words_and_gaps

Span = tuple[int, int]


def word_changes(before: str, after: str, language: str | None = None) -> tuple[list[Span], list[Span]]:
    """The places of words that only one of two captions has there.

    Args:
        before, after: Two captions.
        language: Language code of both (see `capscore.text.languages.language_code`); None for English.

    Returns:
        (start, end) places in `before`, and in `after`, from left to right; adjacent words are one place.

    Raises:
        InputError: a caption is blank or not a string, or the language is written without spaces and has no
            segmenter.
        MissingExtraError: the segmenter of the language is not installed.

    >>> word_changes("a dog on a beach", "a cat on a a beach", "en")
    ([(2, 5)], [(2, 5), (11, 12)])
    """
    check_captions([before, after])
    code = None if language is None else language_code(language)
    pieces, places = zip(*(_placed(text, code) for text in (before, after)), strict=True)
    runs = _runs(*pieces)
    return (
        [_joined(places[0][start:end]) for start, end, _, _ in runs if end > start],
        [_joined(places[1][start:end]) for _, _, start, end in runs if end > start],
    )


def _runs(first: Sequence[str], second: Sequence[str]) -> list[tuple[int, int, int, int]]:
    """Differences of two lists of words: (start, end) in the first and in the second, in order."""
    matcher = SequenceMatcher(None, first, second, autojunk=False)
    aligned = [change[1:] for change in matcher.get_opcodes() if change[0] != "equal"]
    if len(first) != len(second):
        return aligned
    # if words were replaced, comparing word by word often needs fewer marks
    own: list[tuple[int, int, int, int]] = []
    for place, (one, other) in enumerate(zip(first, second, strict=True)):
        if one != other:
            start = own.pop()[0] if own and own[-1][1] == place else place
            own.append((start, place + 1, start, place + 1))
    return min(own, aligned, key=lambda runs: sum(b - a + d - c for a, b, c, d in runs))


def _placed(text: str, code: str | None) -> tuple[list[str], list[Span]]:
    pieces, gaps = words_and_gaps(text, code)
    places, last = [], 0
    for piece, gap in zip(pieces, gaps, strict=False):  # the last gap follows the last word
        start = last + len(gap)
        last = start + len(piece)
        places.append((start, last))
    return pieces, places


def _joined(places: list[Span]) -> Span:
    return places[0][0], places[-1][1]
