"""Checks that captions are strings that every tokenizer can read."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..errors import InputError

_HALF_A_PAIR = re.compile("[\ud800-\udfff]").search


def check_texts(texts: Sequence[str], field: str = "text") -> None:
    """Raise InputError unless these are several texts; the error names the row and the field."""
    if isinstance(texts, str):
        raise InputError(f"{texts!r:.60} is one string; expected a list of captions", field=field)
    for row, text in enumerate(texts):
        problem = text_problem(text)
        if problem:
            raise InputError(problem, row=row, field=field)


def text_problem(text: object) -> str | None:
    """The reason why a value cannot be read as a text, or None."""
    if not isinstance(text, str):
        return f"{text!r:.60} is a {type(text).__name__}; expected a string"
    if not text.isascii() and _HALF_A_PAIR(text):
        return f"{text!r:.60} holds half a surrogate pair (a wrongly decoded text)"
    return None
