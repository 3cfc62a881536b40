"""Consoles that print texts from outside literally, and a progress bar on stderr for long work."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..errors import visible

if TYPE_CHECKING:
    from rich.console import Console


@contextmanager
def progress_bar(
    label: str, total: int, *, shown: bool | None = None, done: int = 0
) -> Iterator[Callable[[int], None]]:
    """Gives a function that takes how many more are done; None shows the bar if stderr is a terminal."""
    if not (sys.stderr.isatty() if shown is None else shown):
        yield lambda count: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    title = TextColumn("{task.description}", markup=False)
    columns = (title, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=make_console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total, completed=done)
        yield lambda count: bar.advance(task, count)


def make_console(*, stderr: bool = False) -> Console:
    """A console that takes texts literally, and survives a reader who leaves early.

    Brackets in a caption are no markup, control characters show as their escapes, and numbers have no colour.
    """
    return _console_class()(markup=False, emoji=False, highlight=False, stderr=stderr)


@functools.cache
def _console_class() -> type[Console]:
    from rich.console import Console
    from rich.segment import Segment

    class Terminal(Console):
        def render(self, renderable: Any, options: Any = None) -> Any:
            for segment in super().render(renderable, options):
                # rich's own control codes pass: a progress bar moves the cursor
                yield segment if segment.control else Segment(visible(segment.text, keep="\n"), segment.style)

        def render_str(self, text: str, **options: Any) -> Any:
            return super().render_str(visible(text, keep="\n\t"), **options)  # before a cell is measured

        def on_broken_pipe(self) -> None:
            """Go on without output: files still have to be written."""
            self.quiet = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    return Terminal
