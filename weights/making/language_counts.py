"""Settings such as ja:8000, a number per language → the numbers by language."""

from __future__ import annotations

from collections.abc import Sequence

from capscore.errors import InputError


def language_counts(entries: Sequence[str], name: str) -> dict[str, int]:
    """Entries of a setting, of the form language:number → language → number, in the same order.

    Raises:
        InputError: an entry of another form, or a language that is named twice; names the setting.

    >>> language_counts(["ja:8000", "en:2000"], "most")
    {'ja': 8000, 'en': 2000}
    """
    counts: dict[str, int] = {}
    for entry in entries:
        language, _, number = entry.partition(":")
        if not language or not number.isdecimal():
            raise InputError(f"{entry!r}: expected language:number, such as ja:8000", field=name)
        if language in counts:
            raise InputError(f"{language} is named twice", field=name)
        counts[language] = int(number)
    return counts
