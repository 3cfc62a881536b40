"""Everything that a result depends on, as one short string: same signature, same numbers.

In: an ordered mapping of settings. Out: `mcs|backbone:embedded@w90e71b91|w:2.5|prefix:none|refs:0|…`.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, unquote

# the word "none" as a value, so that it differs from "no value"; it reads back as the word
_LITERAL_NONE = "%6eone"
# characters that stay as they are; "|", ":" and spaces would split the string
_SAFE = "/.@+-_,=()"


def format_signature(metric: str, settings: Mapping[str, object]) -> str:
    """The metric's name, then `key:value` for every setting, in the given order, on one line.

    >>> format_signature("mcs", {"w": 2.5, "prefix": "A photo depicts "})
    'mcs|w:2.5|prefix:A%20photo%20depicts%20'
    """
    return "|".join([metric, *(f"{key}:{_quoted(value)}" for key, value in settings.items())])


def parse_signature(signature: str) -> tuple[str, dict[str, str]]:
    """The metric's name and its settings, as text.

    >>> parse_signature("mcs|w:2.5|prefix:none")
    ('mcs', {'w': '2.5', 'prefix': 'none'})
    """
    metric, *parts = signature.split("|")
    settings = {}
    for part in parts:
        key, separator, value = part.partition(":")
        if not separator:
            raise ValueError(f"{part!r} in signature {signature!r} is not key:value")
        settings[key] = unquote(value)
    return metric, settings


def _quoted(value: object) -> str:
    if value == "none":
        return _LITERAL_NONE
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return quote(f"{value:g}" if isinstance(value, float) else str(value), safe=_SAFE)
