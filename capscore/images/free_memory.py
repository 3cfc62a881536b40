"""Gives memory that is free back to the system.

The C library of GNU keeps what was freed, for each thread, hundreds of megabytes. Arrays that stay, between
many that come and go, let a long run grow although it holds no more than before.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable


def return_free_memory() -> None:
    """Let the C library return what is free, which takes milliseconds; elsewhere nothing happens."""
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@functools.cache
def _malloc_trim() -> Callable[[int], int] | None:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):  # not the C library of GNU
        return None
