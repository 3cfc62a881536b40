"""Holds back Ctrl-C and requests to end while rows are being written."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, or a request to end.

    Attributes:
        number: Number of the signal.
    """

    def __init__(self, number: int):
        self.number = number
        super().__init__(signal.Signals(number).name)


class Signals:
    """While entered, SIGINT and SIGTERM raise `Interrupted`, but not inside a `held` block."""

    def __init__(self) -> None:
        self._holding = 0
        self._waiting: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                before = signal.getsignal(number)
                if before not in (signal.SIG_IGN, None):  # a signal that nohup ignores stays ignored
                    self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        self._before.clear()

    def _receive(self, number: int, frame: object) -> None:
        if self._holding:
            self._waiting = number
        else:
            raise Interrupted(number)

    @contextmanager
    def held(self, *, drop: bool = False) -> Iterator[None]:
        """A signal that arrives inside this block waits until its end; with `drop`, it is forgotten there."""
        self._holding += 1
        try:
            yield
        finally:
            self._holding -= 1
        if self._waiting is not None and not self._holding:
            number, self._waiting = self._waiting, None
            if not drop:
                raise Interrupted(number)
