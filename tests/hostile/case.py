"""A hostile input, what is expected of it, and the check that what happened is that.

Whatever the input is, there is no traceback and no hang, an error is one line without control characters, and
no score changes silently.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

LONGEST_ERROR = 2_000
# they turn the text after them round, also that of the shell's next line
_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@dataclass(frozen=True)
class Refused:
    """One clear error.

    Args:
        words: Pieces of the error, each of which it must have.
        code: Exit code of a command; 1 in Python, where an error of capscore is raised.
    """

    words: tuple[str, ...]
    code: int = 1


@dataclass(frozen=True)
class Scored:
    """Scores.

    Args:
        scores: Expected score of each row, None for a row without one.
        words: Pieces of what is printed beside the scores, each of which there must be.
        code: Exit code of a command.
    """

    scores: tuple[float | None, ...]
    words: tuple[str, ...] = ()
    code: int = 0


@dataclass(frozen=True)
class AsTwin:
    """The score of a harmless input.

    Args:
        twin: What is given in place of the hostile input.
        words: Pieces of what is printed, each of which there must be.
    """

    twin: Any
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Accepted:
    """No error; what is printed has these words."""

    words: tuple[str, ...] = ()


Expected = Refused | Scored | AsTwin | Accepted


def refused(*words: str, code: int = 1) -> Refused:
    """One error with these words."""
    return Refused(words, code)


def usage(*words: str) -> Refused:
    """One error of a command that was called wrongly, with these words."""
    return Refused(words, 2)


def scored(*scores: float | None, words: Sequence[str] = (), code: int = 0) -> Scored:
    """These scores, one per row."""
    return Scored(scores, tuple(words), code)


def twin(given: Any, *words: str) -> AsTwin:
    """The score of this harmless input."""
    return AsTwin(given, words)


def accepted(*words: str) -> Accepted:
    """No error."""
    return Accepted(words)


@dataclass(frozen=True)
class Case:
    """A hostile input.

    Args:
        family: Kind of input.
        name: Name within the family.
        surface: Name of the function of `surfaces` that the input goes to.
        given: The input: data, or a function that makes it in the folder that it is called with.
        expected: What happens.
        finding: Number of the fault, where it is known and not mended yet.
    """

    family: str
    name: str
    surface: str
    given: Any
    expected: Expected
    finding: str = ""

    @property
    def id(self) -> str:
        return f"{self.family}/{self.name}"


def cases(family: str, surface: str, rows: Iterable[Sequence[Any]]) -> list[Case]:
    """Cases from rows of name, input, expectation and, where it fails today, the number of the fault."""
    return [Case(family, row[0], surface, *row[1:]) for row in rows]


@dataclass
class Outcome:
    """What happened.

    Attributes:
        code: Exit code; of a call in Python 1 where it raised an error of capscore, else 0.
        error: The error, or "".
        printed: All other lines that were printed, and warnings.
        scores: One per row, or None where nothing is scored.
    """

    code: int = 0
    error: str = ""
    printed: str = ""
    scores: list[float | None] | None = None
    more: Mapping[str, Any] = field(default_factory=dict)


def check(case: Case, outcome: Outcome, of_twin: Outcome | None = None) -> None:
    """Assert that what happened is what was expected."""
    expected = case.expected
    text = f"{outcome.error}\n{outcome.printed}"
    assert "Traceback (most recent call last)" not in text, text
    assert not strange_characters(text), (strange_characters(text), text)
    assert "secret" not in text, "a password is shown"
    assert "\n" not in outcome.error, f"more than one line: {outcome.error}"
    assert len(outcome.error) <= LONGEST_ERROR, f"an error of {len(outcome.error):,} characters"
    if isinstance(expected, Refused):
        assert outcome.code == expected.code, (outcome.code, text)
        assert outcome.error, "no error was given"
        _has_words(outcome.error, expected.words)
        return
    code = expected.code if isinstance(expected, Scored) else 0
    assert outcome.code == code, (outcome.code, text)
    assert not outcome.error, outcome.error
    _has_words(outcome.printed, expected.words)
    if isinstance(expected, Accepted):
        return
    assert outcome.scores is not None
    if isinstance(expected, AsTwin):
        assert of_twin is not None and of_twin.code == 0, of_twin
        assert outcome.scores == pytest.approx(of_twin.scores, abs=1e-6)
    else:
        assert len(outcome.scores) == len(expected.scores)
        for got, wanted in zip(outcome.scores, expected.scores, strict=True):
            assert got == (None if wanted is None else pytest.approx(wanted, abs=1e-6)), outcome.scores


def _has_words(text: str, words: Sequence[str]) -> None:
    plain = " ".join(text.split())
    for word in words:
        assert word in plain, f"{word!r} is not in {plain!r}"


def strange_characters(text: str) -> list[str]:
    """Characters that a terminal obeys, or that no terminal can show."""
    return sorted(
        {
            f"U+{ord(sign):04X}"
            for sign in text
            if (sign != "\n" and unicodedata.category(sign) in ("Cc", "Cs")) or sign in _TURNING
        }
    )


def sample(all_cases: Sequence[Case], share: float = 0.1) -> list[Case]:
    """A part of every family, always the same: the names with the least digests."""
    families: dict[str, list[Case]] = {}
    for case in all_cases:
        families.setdefault(case.family, []).append(case)
    chosen = []
    for members in families.values():
        ranked = sorted(members, key=lambda case: hashlib.sha256(case.id.encode()).digest())
        chosen += ranked[: max(1, round(share * len(members)))]
    return chosen
