"""A number of bytes → text for people."""

from __future__ import annotations


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
