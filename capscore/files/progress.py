"""A progress bar on stderr for long work, and nothing at all where nobody would see it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .console import make_console


@contextmanager
def progress_bar(
    label: str, total: int, *, shown: bool | None = None, done: int = 0
) -> Iterator[Callable[[int], None]]:
    """Gives a function that is told how many more are done.

    Args:
        label: Name of the work.
        total: Number of things to do.
        shown: Whether to show the bar; None shows it if stderr is a terminal.
        done: Number of things that were done before.
    """
    if not (sys.stderr.isatty() if shown is None else shown):
        yield lambda count: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    title = TextColumn("{task.description}", markup=False)
    columns = (title, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=make_console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total, completed=done)
        yield lambda count: bar.advance(task, count)
