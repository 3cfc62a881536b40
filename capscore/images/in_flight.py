"""How many pixels are decoded at the same time, counted over all threads of the process.

A photo of the largest allowed size takes 0.3 to 1.5 GB while it is decoded. Eight threads that decode one
each would take eight times as much. Therefore a thread takes the pixels of an image from `IN_FLIGHT` before
it decodes them, and waits while others have them. An image that alone is larger than the limit goes alone.

The C library of GNU keeps what was freed, for each thread, hundreds of megabytes; `return_free_memory`
gives it back to the system.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from PIL import Image


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


USUAL_LIMIT = 89_478_485
"""Limit where a program has lifted Pillow's own limit: 0.25 GB of RGB bytes, the default of Pillow."""

PATIENCE = 60.0
"""Seconds after which a waiting thread goes on: an unforeseen circle of waits costs time, not the run."""

_LARGE = (
    2**24
)  # pixels of an image after which the memory is returned to the system, which takes milliseconds


class Ticket:
    """Pixels that were taken, to be given back once."""

    __slots__ = ("_account", "_pixels")

    def __init__(self, account: PixelsInFlight, pixels: int):
        self._account, self._pixels = account, pixels

    @property
    def given_back(self) -> bool:
        """Whether nothing is left to give back."""
        return not self._pixels

    def give_back(self) -> None:
        """Give the pixels back; a second call does nothing."""
        pixels, self._pixels = self._pixels, 0
        if pixels >= _LARGE:
            return_free_memory()
        self._account._give(pixels)


class PixelsInFlight:
    """The account of the pixels that are being decoded.

    Attributes:
        taken: Number of pixels in flight.
        most: Largest number that were in flight at the same time.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.taken = self.most = 0

    @property
    def limit(self) -> int:
        """Largest number of pixels in flight: as many as the largest image that may be decoded."""
        return Image.MAX_IMAGE_PIXELS or USUAL_LIMIT

    def try_take(self, pixels: int) -> Ticket | None:
        """Take pixels if they are free now, or else None. Never waits."""
        with self._changed:
            return self._take(pixels) if self._fits(pixels) else None

    def take(self, pixels: int) -> Ticket:
        """Take pixels, after a wait if need be. A caller who holds some would wait for itself."""
        with self._changed:
            self._changed.wait_for(lambda: self._fits(pixels), PATIENCE)
            return self._take(pixels)

    @contextmanager
    def hold(self, pixels: int) -> Iterator[None]:
        """Take pixels for the duration of a block."""
        ticket = self.take(pixels)
        try:
            yield
        finally:
            ticket.give_back()

    def _fits(self, pixels: int) -> bool:
        return not self.taken or self.taken + pixels <= self.limit

    def _take(self, pixels: int) -> Ticket:
        self.taken += pixels
        self.most = max(self.most, self.taken)
        return Ticket(self, pixels)

    def _give(self, pixels: int) -> None:
        with self._changed:
            self.taken -= pixels
            self._changed.notify_all()

    def _start_anew(self) -> None:
        self.__init__()  # type: ignore[misc]


IN_FLIGHT = PixelsInFlight()

# threads that hold pixels do not exist in a forked child
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=IN_FLIGHT._start_anew)
