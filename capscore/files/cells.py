"""What cells of rows hold: a caption, a list of references, or something that is neither."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any

from ..errors import InputError
from .columns import is_missing

_SURROGATE = re.compile("[\ud800-\udfff]")


def text_problem(text: object) -> str:
    """What is wrong with a caption; "" for nothing."""
    if not isinstance(text, str):
        return shown_value(text)
    if text.isprintable() and text.strip(" "):
        return ""  # nearly every text
    if _SURROGATE.search(text):
        return f"{text!r:.60}, which holds half a surrogate pair (text decoded wrongly)"
    if is_empty(text):
        return f"an empty string ({text!r:.60} has no visible character)"
    return ""


def shown_value(value: object) -> str:
    if value is None:
        return "None"
    try:
        return f"{value!r:.60} ({type(value).__name__})"
    except ValueError:  # Python does not print numbers of thousands of digits
        return f"a very large number ({type(value).__name__})"


def is_empty(text: object) -> bool:
    """Whether a text has no visible character: "", blanks, or signs such as a zero-width space.

    >>> is_empty(" \\u3000\\u200b"), is_empty("."), is_empty(None)
    (True, False, False)
    """
    return (
        isinstance(text, str)
        and not any(sign.isprintable() and sign != " " for sign in text)
        and not _SURROGATE.search(text)
    )


def reference_list(texts: Any, may_be_empty: bool = False, may_lack: bool = False) -> list[str]:
    """The references of a row as a list."""
    if hasattr(texts, "to_pylist"):
        texts = texts.to_pylist()
    if may_lack and is_missing(texts):
        return []
    if isinstance(texts, str) and not re.fullmatch(r"\s*\[.*\]\s*", texts, re.DOTALL):  # no list in writing
        texts = [texts]
    if isinstance(texts, (str, bytes, Mapping)) or not is_iterable(texts):
        raise InputError(f"expected a list of references, got {shown_value(texts)}", field="references")
    texts = list(texts)
    if not texts and not may_lack:
        raise InputError("expected at least one reference, got an empty list", field="references")
    for position, text in enumerate(texts):
        problem = text_problem(text)
        if problem and may_be_empty and is_empty(text):
            texts[position] = ""
        elif problem:
            raise InputError(f"reference {position} is {problem}, expected a caption", field="references")
    return texts


def all_references(
    lists: Iterable[Any],
    fail: Callable[[int, InputError], None],
    may_be_empty: bool = False,
    may_lack: Set[int] = frozenset(),
) -> list[list[str]]:
    """The `reference_list` of each row; `fail` gets row and error of a bad one, whose list is []."""
    found: list[list[str]] = []
    for row, texts in enumerate(lists):
        try:
            found.append(reference_list(texts, may_be_empty, row in may_lack))
        except InputError as error:
            fail(row, error)
            found.append([])
    return found


def is_iterable(values: object) -> bool:
    return hasattr(values, "__iter__") and getattr(values, "ndim", 1) > 0
