"""Where the captions of a file or data set come from: read from a file beside it, and counted."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capscore.errors import InputError

# Ending of the file beside a file of captions that says where they come from.
SOURCES = ".sources.json"


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
                content = json.loads(beside.read_text(encoding="utf-8"))
                self.held_out, self._parts = content.get("held_out", ""), _parts(content)
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                raise InputError(
                    f"{beside} does not say where the captions come from ({type(error).__name__}: {error}); "
                    'expected {"held_out": …, "sources": [{"name": …, "license": …, "rows": …}, …]}',
                    field="data",
                ) from None

    def described(self) -> list[DataSource]:
        """The origins of the captions, for the card."""
        return self._parts or [DataSource(*self._alone, rows=self.n)]


def _parts(content: dict[str, Any]) -> list[DataSource]:
    """The origins of a file; an exception of any kind for a malformed one."""
    parts = [DataSource(**part) for part in content["sources"]]
    texts = [
        content.get("held_out", ""),
        *(text for part in parts for text in (part.name, part.license, part.url)),
    ]
    counts = [part.rows for part in parts]
    if not parts or not all(isinstance(text, str) for text in texts):
        raise TypeError("a name, licence or address is not a text, or there is no source")
    if not all(isinstance(count, int | None) for count in counts):
        raise TypeError(f"rows are {counts!r:.60}")
    return parts
