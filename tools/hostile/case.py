"""A hostile input, what is expected of it, and the check that what happened is that.

Whatever the input is, there is no traceback and no hang, an error is one line without control characters, and
no score changes silently.
"""

from __future__ import annotations

import hashlib
import signal
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

LONGEST_ERROR = 2_000
LIMIT_S = 300  # for one case, against hanging alone; the slowest needs a few seconds
# they turn the text after them round, also that of the shell's next line
_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


class Hang(BaseException):
    """A case did not end; not an `Exception`, so that nothing handles it."""


@contextmanager
def limited() -> Iterator[None]:
    """Raise `Hang` in the main thread if what is within takes too long."""

    def ring(*_: object) -> None:
        raise Hang(f"more than {LIMIT_S} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(LIMIT_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class Expected(NamedTuple):
    """Scores, None for a row without one, or one error; and words that it, or all that is printed, must have.

    `code` is the exit code of a command; in Python 1 where an error of capscore is raised.
    """

    words: tuple[str, ...]
    code: int = 0
    scores: tuple[float | None, ...] | None = None


def refused(*words: str) -> Expected:
    return Expected(words, 1)


def usage(*words: str) -> Expected:
    return Expected(words, 2)


def scored(*scores: float | None, words: Sequence[str] = ()) -> Expected:
    return Expected(tuple(words), scores=scores or None)


@dataclass
class Outcome:
    """What happened: the exit code, the error or "", all else that was printed, and scores."""

    code: int = 0
    error: str = ""
    printed: str = ""
    scores: list[float | None] | None = None


class Case(NamedTuple):
    """A hostile input, its family and name, and the function of `surfaces` that it goes to with a folder."""

    family: str
    id: str
    surface: Callable[[Path, Any], Outcome]
    given: Any
    expected: Expected


def cases(family: str, surface: Callable[[Path, Any], Outcome], rows: Iterable[tuple]) -> list[Case]:
    """Cases from rows of name, input and expectation."""
    return [Case(family, f"{family}/{name}", surface, given, expected) for name, given, expected in rows]


def check(expected: Expected, outcome: Outcome) -> None:
    """Assert that what happened is what was expected."""
    text = f"{outcome.error}\n{outcome.printed}"
    assert "Traceback (most recent call last)" not in text, text
    # characters that a terminal obeys, or that no terminal can show
    strange = {s for s in text if unicodedata.category(s) in ("Cc", "Cs") or s in _TURNING} - {"\n"}
    assert not strange, (sorted(map(ascii, strange)), text)
    assert "secret" not in text, "a password is shown"
    assert "\n" not in outcome.error and len(outcome.error) <= LONGEST_ERROR, outcome.error
    assert outcome.code == expected.code and bool(outcome.error) == bool(expected.code), (outcome.code, text)
    plain = " ".join((outcome.error if expected.code else outcome.printed).split())
    for word in expected.words:
        assert word in plain, f"{word!r} is not in {plain!r}"
    if expected.scores is not None:
        assert outcome.scores == pytest.approx(list(expected.scores), abs=1e-6)


def sample(all_cases: Sequence[Case], share: float = 0.1) -> list[Case]:
    """A part of every family, always the same: the names with the least digests."""
    families: dict[str, list[Case]] = {}
    for case in sorted(all_cases, key=lambda case: hashlib.sha256(case.id.encode()).digest()):
        families.setdefault(case.family, []).append(case)
    return [case for members in families.values() for case in members[: max(1, round(share * len(members)))]]
