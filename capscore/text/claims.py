"""A detailed caption of any language → the claims that it makes: sentences, and clauses and lists in them.

In: a text. Out: where its claims stand. Rules alone: conjunctions behind a comma, semicolons, and lists that
a conjunction or an enumeration comma ends. What cannot be told apart stays one claim.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from .sentences import sentence_ends

# Words that join clauses and the last item of a list
_JOINS = (
    "and|or|und|oder|et|ou|y|e|o|i|и|или|ve|veya|dan|atau|lub|nebo|och|eller|og|és|vagy|și|şi|sau|ja|tai|või|"
    "і|й|та|або|και|ή|और|या|و|یا|và|hoặc|eta|edo|ili"
)
# The same, behind a comma alone; and those that other languages have for something else, which are kept
_CLAUSES = (
    "but|while|whereas|aber|während|wobei|mais|tandis que|pero|mientras|mas|enquanto|mentre|maar|terwijl|а|"
    "но|пока|але|поки|докато|ama|tetapi|sedangkan|sementara|ale|zatímco|medan|mens|mutta|aga|kuid|míg|"
    "miközben|dar|iar|ενώ|αλλά|लेकिन|जबकि|اما|لكن|بينما|nhưng|còn|però|baina|dok|vendar|그리고"
)
_KEPT = "men|en|ma|ali"
_SEPARATOR = re.compile(
    rf"(?P<strong>[;；؛]|\s[–—]\s)\s*|"
    rf"(?P<clause>[,،]\s*(?:{_JOINS}|{_CLAUSES})\s+|[,،]\s+(?=(?:{_KEPT})\s))|"
    r"(?P<attached>[,،]\s+(?=[وו]\w))|"
    rf"(?P<join>\s+(?:{_JOINS})\s+|和|と|및)|"
    rf"(?P<wide>，)|(?P<listed>、)|(?P<comma>[,،]\s+)",
    re.IGNORECASE,
)
# A word, or a character of Chinese, Japanese or Korean
_WORD = re.compile(r"[\u2e80-\ud7ff]|[^\W\u2e80-\ud7ff]+")
_ITEM, _CLAUSE = 5, 4  # most words of an item of a list, and fewest of a clause
_ITEM_WIDE = 8  # most characters of an item in Chinese and Japanese
_EDGES = " \t\r\n.,;:!?。！？，、；।॥؟۔،؛"
_NUMBER = re.compile(r"\s*\d{1,2}[.)]\s*")
_BULLET = re.compile(r"\s*(?:[-*•–]|\d{1,2}[.)])\s+")


class Claim(NamedTuple):
    """A claim of a text, and where it stands in it."""

    start: int
    end: int
    text: str


def claims(text: str) -> list[Claim]:
    """The claims of a text, in order; the whole text where there is one alone.

    >>> [claim.text for claim in claims("A dog runs on the beach, and two men watch it. It is brown.")]
    ['A dog runs on the beach', 'two men watch it', 'It is brown']
    >>> [claim.text for claim in claims("a table with a cup, a plate and a fork")]
    ['a table with a cup', 'a plate', 'a fork']
    """
    found = []
    for start, end in pairwise([0, *sentence_ends(text, short=0, shortest=2)]):
        if _NUMBER.fullmatch(text, start, end):  # of the next line
            continue
        bullet = _BULLET.match(text, start, end)
        if bullet:
            start = bullet.end()
        found += [_trimmed(text, first, last) for first, last in _parts(text, start, end)]
    return [claim for claim in found if claim.text] or [Claim(0, len(text), text)]


def _trimmed(text: str, start: int, end: int) -> Claim:
    whole = text[start:end]
    inner = whole.strip(_EDGES)
    start += len(whole) - len(whole.lstrip(_EDGES))
    return Claim(start, start + len(inner), inner)


def _parts(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    marks = list(_SEPARATOR.finditer(text, start, end))
    edges = [(start, start), *(mark.span() for mark in marks), (end, end)]
    pieces = [(before[1], after[0]) for before, after in pairwise(edges)]
    if _is_list(text, marks, pieces):
        yield from pieces
        return
    begun = start
    for mark in marks:
        if _ends_clause(text, mark, (begun, mark.start()), (mark.end(), end)):
            yield begun, mark.start()
            begun = mark.end()
    yield begun, end


def _is_list(text: str, marks: list[re.Match[str]], pieces: list[tuple[int, int]]) -> bool:
    """Whether pieces are items: three or more, all but the first short, the last joined as in a list."""
    if len(pieces) < 3 or any(mark["strong"] or mark["wide"] for mark in marks):
        return False
    if not (marks[-1]["join"] or marks[-1]["clause"] or marks[-1]["listed"]):
        return False
    if any(mark["join"] or mark["clause"] for mark in marks[:-1]):
        return False
    for start, end in pieces[1:]:
        words = _WORD.findall(text, start, end)
        is_wide = any(len(word) == 1 and word >= "\u2e80" for word in words)
        if not words or len(words) > (_ITEM_WIDE if is_wide else _ITEM):
            return False
    return True


def _ends_clause(text: str, mark: re.Match[str], before: tuple[int, int], after: tuple[int, int]) -> bool:
    """Whether a clause ends at a separator: it joins clauses, and both sides are long enough to be one."""
    if not (mark["strong"] or mark["clause"] or mark["attached"] or mark["wide"]):
        return False
    fewest = _CLAUSE
    if mark["strong"] or mark["attached"]:
        fewest = 2
    return all(len(_WORD.findall(text, *side)) >= fewest for side in (before, after))
