"""Consoles that print texts from outside literally, and what stderr shows of long work: a bar, or a line."""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from ..errors import visible

if TYPE_CHECKING:
    from rich.console import Console

BAR_AFTER_S = 2.0
"""Seconds of work after which a progress bar is shown that nobody asked for."""


@contextmanager
def progress_bar(
    label: str, total: int, *, shown: bool | None = None, done: int = 0
) -> Iterator[Callable[[int], None]]:
    """Gives a function that takes how many more are done.

    None shows the bar after `BAR_AFTER_S` if stderr is a terminal, True at once.
    """
    if not (sys.stderr.isatty() if shown is None else shown):
        yield lambda count: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    title = TextColumn("{task.description}", markup=False)
    columns = (title, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=make_console(stderr=True), transient=True)
    task = bar.add_task(label, total=total, completed=done)
    start = threading.Timer(0 if shown else BAR_AFTER_S, bar.start)
    start.daemon = True
    start.start()
    try:
        yield lambda count: bar.advance(task, count)
    finally:
        start.cancel()
        start.join()
        if bar.live.is_started:
            bar.stop()


def say_step(text: str, *, shown: bool | None = None) -> None:
    """Prints a line about what is done next, if stderr is a terminal and `shown` is not False."""
    if shown is not False and sys.stderr.isatty():
        print(f"capscore: {visible(text)}", file=sys.stderr, flush=True)


def status(text: str, *, shown: bool | None = None) -> AbstractContextManager[Any]:
    """Shows a line while something is done, if stderr is a terminal and `shown` is not False."""
    is_shown = shown is not False and sys.stderr.isatty()
    return make_console(stderr=True).status(text) if is_shown else nullcontext()


_NOTES: deque[Callable[[], str]] = deque(maxlen=16)


def note_at_end(note: Callable[[], str]) -> None:
    """Have a command print a line, or "" for none, when all else is done."""
    _NOTES.append(note)


def notes_at_end() -> list[str]:
    """The lines for the end of a command, each once."""
    lines = [line for note in _NOTES if (line := note())]
    _NOTES.clear()
    return lines


def make_console(*, stderr: bool = False) -> Console:
    """A console that takes texts literally, and survives a reader who leaves early."""
    return _console_class()(markup=False, emoji=False, highlight=False, stderr=stderr)


@functools.cache
def _console_class() -> type[Console]:
    from rich.console import Console
    from rich.segment import Segment

    class Terminal(Console):
        def render(self, renderable: Any, options: Any = None) -> Any:
            shown = []
            for segment in super().render(renderable, options):
                # rich's own control codes pass: a progress bar moves the cursor
                if not segment.control:
                    segment = Segment(_shown(segment.text, "\n"), segment.style)
                shown.append(segment)
            return shown

        def render_str(self, text: str, **options: Any) -> Any:
            return super().render_str(_shown(text, "\n\t"), **options)  # before a cell is measured

        def on_broken_pipe(self) -> None:
            """Go on without output: files still have to be written."""
            self.quiet = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    return Terminal


def _shown(text: str, keep: str) -> str:
    """A text in which what could control a terminal, but for signs to keep, is written as its escape."""
    if text.isprintable() or text == "\n":
        return text
    return visible(text, keep=keep)
