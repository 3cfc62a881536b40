"""Where the captions of a file or data set come from: read from a file beside it, and counted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from capscore.errors import InputError

# Ending of the file beside a file of captions that says where they come from.
SOURCES = ".sources.json"

T = TypeVar("T")


@dataclass(frozen=True)
class DataSource:
    """A data set that contributed to the weights.

    Attributes:
        name: Name of the data set.
        license: Licence as its owners state it ("CC BY 4.0", "unknown").
        rows: Number of its rows that were used; None if they were not counted.
        url: Address of the data set.
        hub_id: "org/name" of its page on the Hub, "" without any.
        used_for: Purpose ("training", "choosing the settings").
    """

    name: str
    license: str
    rows: int | None = None
    url: str = ""
    hub_id: str = ""
    used_for: str = "training"


class Origin:
    """Where the captions of a file or data set come from.

    Args:
        path: The file or folder. A file of the same name with `SOURCES` behind it lists the origins of the
            captions and says what was held out.
        name: Name for the card, where there is no such file.
        license: Licence of the captions, where there is no such file.

    Raises:
        InputError: the file with the origins is malformed.

    Attributes:
        n: Number of rows that were read.
        held_out: What the file says was held out, "" without it.
    """

    def __init__(self, path: str, name: str, license: str):
        self.n, self.held_out = 0, ""
        self._alone = (name, license)
        self._parts: list[DataSource] = []
        beside = Path(f"{Path(path).expanduser()}{SOURCES}")
        if beside.is_file():
            try:
                self.held_out, self._parts = _parsed(json.loads(beside.read_text(encoding="utf-8")))
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                raise InputError(
                    f"{beside} does not say where the captions come from ({type(error).__name__}: {error}); "
                    'expected {"held_out": …, "sources": [{"name": …, "license": …, "rows": …}, …]}',
                    field="data",
                ) from None

    def described(self) -> list[DataSource]:
        """The origins of the captions, for the card."""
        return self._parts or [DataSource(*self._alone, rows=self.n)]

    def counted(self, rows: Iterable[T]) -> Iterator[T]:
        """The same rows; afterwards `n` is their number."""
        self.n = 0
        for row in rows:
            self.n += 1
            yield row


def _parsed(said: dict[str, Any]) -> tuple[str, list[DataSource]]:
    """What was held out, and the origins; an exception of any kind for a malformed file."""
    held_out, parts = said.get("held_out", ""), said["sources"]
    if not isinstance(held_out, str) or not isinstance(parts, list) or not parts:
        raise ValueError(f"held_out is {held_out!r:.60}, sources is {parts!r:.60}")
    for part in parts:
        for name, value in part.items():
            if not isinstance(value, (int, type(None)) if name == "rows" else str):
                raise TypeError(f"{name} is {value!r:.60}")
    return held_out, [DataSource(**part) for part in parts]
