"""Ctrl-C and requests to end: they wait while rows are being written, and otherwise end a run at once.

Python tells only the main thread of a signal, and only between two of its own instructions: not while a tower
works on a large batch, and not while a library is loaded that swallows the exception. `PromptEnd` is for
commands: a thread of it ends the process if the main thread has not done so within two seconds.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

PATIENCE = 1.5
"""Seconds that the main thread has to end the process; half a second is left for `before_the_end`."""

_NUMBERS = (signal.SIGINT, signal.SIGTERM)
_MOST_WRITING = 10.0  # seconds that rows being written may take to become whole
_SAME_PRESS = 0.2  # a terminal and a parent process may both send the signal of one Ctrl-C
_pen = threading.RLock()  # held while rows are written; who ends the process takes it for good
_last_actions: list[Callable[[], str | None]] = []


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
            for number in _NUMBERS:
                before = signal.getsignal(number)
                if before not in (signal.SIG_IGN, None):  # a signal that nohup ignores stays ignored
                    self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        self._before.clear()

    def _receive(self, number: int, frame: object) -> None:
        PromptEnd.heard = number
        if self._holding:
            self._waiting = number
        else:
            raise Interrupted(number)

    @contextmanager
    def held(self, *, drop: bool = False) -> Iterator[None]:
        """A signal that arrives inside this block waits until its end; with `drop`, it is forgotten there."""
        self._holding += 1
        try:
            with _pen:
                yield
        finally:
            self._holding -= 1
        if self._waiting is not None and not self._holding:
            number, self._waiting = self._waiting, None
            if not drop:
                raise Interrupted(number)


@contextmanager
def before_the_end(action: Callable[[], str | None]) -> Iterator[None]:
    """Have an action done before `PromptEnd` ends the process in the middle of this block.

    Args:
        action: Function that saves what was done. It is called in another thread, while the main thread is
            inside a long call of a library and holds nothing, and may return what is to be said.
    """
    _last_actions.append(action)
    try:
        yield
    finally:
        _last_actions.remove(action)


class PromptEnd:
    """While entered, SIGINT and SIGTERM end the process within two seconds, and a second one ends it at once.

    The exit code is 128 + the number of the signal. Only one may be entered, in the main thread.

    Attributes:
        number: Number of the signal that came, or None.
        code: Exit code of the process, once it is known.
    """

    heard: int | None = None  # number of the signal that the main thread was told of
    said = False  # whether the person who waits has been told, by whomever

    def __init__(self) -> None:
        self.number: int | None = None
        self.code: int | None = None
        self._since = 0.0

    def __enter__(self) -> PromptEnd:
        PromptEnd.said, PromptEnd.heard = False, None
        self._listening, self._speaking = socket.socketpair()
        self._speaking.setblocking(False)
        self._before = signal.set_wakeup_fd(self._speaking.fileno(), warn_on_full_buffer=False)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)
        threading.Thread(target=self._watch, name="capscore-end", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.number is None:  # else the thread goes on, as what is left to do may hang too
            signal.set_wakeup_fd(self._before)
            self._speaking.close()

    def _forget(self) -> None:
        """Leave signals of a forked process to it: it shares the socket of its parent."""
        with suppress(ValueError):
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _watch(self) -> None:
        while self.number is None:
            received = self._next(None)
            if not received:
                return
            if received[0] in _NUMBERS:
                self._since = time.monotonic()
                self.number = received[0]
        self._watch_for_more(self._since + PATIENCE)
        while not _pen.acquire(timeout=0.1) and time.monotonic() < self._since + _MOST_WRITING:
            self._watch_for_more(time.monotonic())
        words: list[str] = []
        saving = threading.Thread(target=self._save, args=(words,), daemon=True)
        saving.start()
        saving.join(0.4)
        self._end("; ".join(words) or "interrupted")

    def _next(self, seconds: float | None) -> bytes | None:
        """The next signal's number as a byte, b"" at the end, or None if none came in time."""
        self._listening.settimeout(seconds)
        try:
            return self._listening.recv(1)
        except (TimeoutError, BlockingIOError):
            return None

    def _watch_for_more(self, until: float) -> None:
        """Wait until a time, and end the process if the signal is repeated before."""
        while True:
            received = self._next(max(0.001, until - time.monotonic()))
            if received and received[0] in _NUMBERS and time.monotonic() > self._since + _SAME_PRESS:
                self._end("interrupted")
            if time.monotonic() >= until:
                return

    def _save(self, words: list[str]) -> None:
        for action in list(_last_actions):
            with suppress(Exception):
                words.extend(filter(None, [action()]))

    def _end(self, words: str) -> None:
        self.say(words)
        os._exit(128 + (self.number or 0) if self.code is None else self.code)

    def say(self, words: str) -> None:
        """Say how the process ends, unless that was said."""
        if PromptEnd.said:
            return
        PromptEnd.said = True
        # a progress bar hides the cursor
        cursor = "\x1b[?25h" if sys.stderr is not None and sys.stderr.isatty() else ""
        with suppress(OSError):
            os.write(2, f"{cursor}capscore: {words}\n".encode("utf-8", "replace"))
