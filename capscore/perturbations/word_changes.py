"""A caption and a changed one → where their words differ, so that the difference can be marked.

In: two texts of one language. Out: places in each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

from ..text.languages import language_code
from .published import _parted, check_captions

Span = tuple[int, int]


def word_changes(before: str, after: str, language: str | None = None) -> tuple[list[Span], list[Span]]:
    """Where the words stand that only one of two captions has at that point.

    Args:
        before, after: two captions.
        language: of both, as `capscore.text.languages.language_code` takes it; None counts as English.

    Returns:
        (start, end) places in `before`, and in `after`, from left to right; words side by side are one place.

    Raises:
        InputError: a caption that is blank or no string; the language is written without spaces and has no
            segmenter here.
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
    """Where two lists of words differ: (start, end) in the first and (start, end) in the second, in order."""
    matcher = SequenceMatcher(None, first, second, autojunk=False)
    aligned = [change[1:] for change in matcher.get_opcodes() if change[0] != "equal"]
    if len(first) != len(second):
        return aligned
    # where words took the place of others, word by word often says it in fewer marks
    own: list[tuple[int, int, int, int]] = []
    for place, (one, other) in enumerate(zip(first, second, strict=True)):
        if one != other:
            start = own.pop()[0] if own and own[-1][1] == place else place
            own.append((start, place + 1, start, place + 1))
    return min(own, aligned, key=lambda runs: sum(b - a + d - c for a, b, c, d in runs))


def _placed(text: str, code: str | None) -> tuple[list[str], list[Span]]:
    pieces, gaps = _parted(text, code)
    places, last = [], 0
    for piece, gap in zip(pieces, gaps, strict=False):  # the last gap stands after the last piece
        start = last + len(gap)
        last = start + len(piece)
        places.append((start, last))
    return pieces, places


def _joined(places: list[Span]) -> Span:
    return places[0][0], places[-1][1]
