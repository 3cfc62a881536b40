"""Limits on what comes in from files, all in one place; and a number of bytes → text for people.

A limit turns a mistake or a trap (a 3 GB file called photo.jpg, a quotation mark that is never closed) into
a clear error instead of a full memory. An environment variable changes each; docs/limits.md lists them.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from ..errors import CapscoreError


@dataclass(frozen=True)
class Limit:
    """A largest size.

    Attributes:
        variable: Environment variable that overrides the default.
        default: Largest number of bytes.
    """

    variable: str
    default: int

    @property
    def bytes(self) -> int:
        """The limit in force: the variable's, or the default.

        Raises:
            CapscoreError: The variable is not a whole number of at least 1.
        """
        given = os.environ.get(self.variable, "").strip()
        if not given:
            return self.default
        if not re.fullmatch(r"[0-9]{1,18}", given) or int(given) < 1:
            raise CapscoreError(
                f"the environment variable {self.variable} is {given!r:.60}; expected a number of bytes, "
                f"such as {self.default}"
            )
        return int(given)

    def __str__(self) -> str:
        return f"the limit is {readable_size(self.bytes)} ({self.variable}={self.bytes} in the environment)"


IMAGE_BYTES = Limit("CAPSCORE_MAX_IMAGE_BYTES", 512 * 2**20)
"""Limit of an encoded image, in a file or in memory. A URL has `images.downloads.MAX_DOWNLOAD_BYTES`."""

ROW_BYTES = Limit("CAPSCORE_MAX_ROW_BYTES", 32 * 2**20)
"""Limit of one row of a text file, after unpacking: a line of JSONL, or a record of CSV or TSV."""

LIST_BYTES = Limit("CAPSCORE_MAX_LIST_BYTES", 2**30)
"""Limit of a .json file with a list, after unpacking: it is parsed in memory, unlike JSONL."""

CONFIG_BYTES = Limit("CAPSCORE_MAX_CONFIG_BYTES", 64 * 2**20)
"""Limit of a JSON file that describes a checkpoint, such as config.json or a shard index."""

UNPACKED_BYTES = Limit("CAPSCORE_MAX_UNPACKED_BYTES", 4 * 2**30)
"""Limit of what a gzipped file, a file in an archive, or a whole tar archive of a benchmark unpacks to."""

NESTED_LEVELS = 64
"""How deep lists and objects of a row, or of a checkpoint's JSON file, may be nested."""


def nesting(text: str) -> int:
    """How deep the brackets of a JSON text are nested, those in its strings left out.

    >>> nesting('{"a": [[1], "[[["]}')
    3
    """
    depth = deepest = 0
    for sign in re.findall(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', text):
        if sign in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif sign in "]}":
            depth -= 1
    return deepest


def nested_too_deeply(text: str) -> bool:
    """Whether a JSON text has more than `NESTED_LEVELS` levels.

    >>> nested_too_deeply("[" * 65), nested_too_deeply('{"a": [1]}')
    (True, False)
    """
    # counted first, because nearly every row has few brackets and counting them is quick
    return text.count("[") + text.count("{") > NESTED_LEVELS and nesting(text) > NESTED_LEVELS


def readable_size(count: float) -> str:
    """A number of bytes for people.

    >>> readable_size(3_100_000)
    '3.1 MB'
    """
    for unit in ("bytes", "KB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
