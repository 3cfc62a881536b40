"""Settings such as ja:8000, a number per language or data set → the numbers by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from capscore.errors import InputError

Number = TypeVar("Number", int, float)


def named_numbers(entries: Sequence[str], setting: str, kind: Callable[[str], Number]) -> dict[str, Number]:
    """Entries of a setting, of the form name:number → name → number of a kind (int, float), in order.

    InputError for an entry of another form, or a name that stands there twice; it names the setting.
    """
    numbers: dict[str, Number] = {}
    for entry in entries:
        name, _, text = entry.partition(":")
        try:
            number = kind(text)
        except ValueError:
            number = kind("-1")
        if not name or not 0 <= number < math.inf:
            raise InputError(f"{entry!r}: expected name:number, such as ja:8000", field=setting)
        if name in numbers:
            raise InputError(f"{name} is named twice", field=setting)
        numbers[name] = number
    return numbers
