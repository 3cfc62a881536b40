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
    """A largest size: a default number of bytes, which an environment variable overrides."""

    variable: str
    default: int

    @property
    def bytes(self) -> int:
        """The limit in force; a CapscoreError if the variable is not a whole number of at least 1."""
        given = os.environ.get(self.variable, "").strip() or str(self.default)
        if not re.fullmatch(r"0*[1-9][0-9]{0,17}", given):
            raise CapscoreError(
                f"the environment variable {self.variable} is {given!r:.60}; expected a number of bytes, "
                f"such as {self.default}"
            )
        return int(given)

    def __str__(self) -> str:
        return f"the limit is {readable_size(self.bytes)} ({self.variable}={self.bytes} in the environment)"


IMAGE_BYTES = Limit("CAPSCORE_MAX_IMAGE_BYTES", 512 * 2**20)
"""Limit of an encoded image, in a file or in memory. A URL has `images.fetch.MAX_DOWNLOAD_BYTES`."""

ROW_BYTES = Limit("CAPSCORE_MAX_ROW_BYTES", 32 * 2**20)
"""Limit of one row of a text file, after unpacking: a line of JSONL, or a record of CSV or TSV."""

LIST_BYTES = Limit("CAPSCORE_MAX_LIST_BYTES", 2**30)
"""Limit of a .json file with a list, after unpacking: it is parsed in memory, unlike JSONL."""

CONFIG_BYTES = Limit("CAPSCORE_MAX_CONFIG_BYTES", 64 * 2**20)
"""Limit of a JSON file that describes a checkpoint, such as config.json or a shard index."""

UNPACKED_BYTES = Limit("CAPSCORE_MAX_UNPACKED_BYTES", 4 * 2**30)
"""Limit of what a gzipped file of a benchmark, or a file in its archive, unpacks to."""


UNPACKED_TIMES = 200
"""Most times its size that a packed file of rows may unpack to, if that is over `UNPACKED_FLOOR` bytes."""

UNPACKED_FLOOR = 2**28


def unpacked_limit(packed: int) -> int:
    """Bytes that a file of rows of that size may unpack to."""
    return max(UNPACKED_TIMES * packed, UNPACKED_FLOOR)


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
