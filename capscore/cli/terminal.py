"""What the commands share: errors as one line and an exit code, warnings as lines, how things are spelt."""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import typer

from ..errors import BackboneUnavailable, CapscoreError, MissingExtraError

FAILED, USAGE, SKIPPED, INTERRUPTED = 1, 2, 3, 130
DEBUG: ContextVar[bool] = ContextVar("debug", default=False)

# How the library's errors put it → how it is put on the command line.
SPELLINGS = {
    'backbone="embedded"': "--backbone embedded",
    "backbone='embedded'": "--backbone embedded",
    "on_error='skip'": "--on-error skip",
    "cache=False": "--no-cache",
    "or cache; no cache": "or --cache-dir; no cache",
    "trust_remote_code=True": "--trust-remote-code",
    "dtype='float32'": "--dtype float32",
    "image_tower=": "--image-tower ",
    "force=True": "--force",
    "missing='skip'": "--missing skip",
}


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Errors of a command become one message on stderr and an exit code; warnings become lines there."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        from ..files.rows import UsageError

        try:
            with short_warnings():
                function(*args, **kwargs)
        except UsageError as error:
            raise failed(error, USAGE) from error
        except CapscoreError as error:
            raise failed(error, FAILED) from error
        except KeyboardInterrupt as error:
            say("interrupted")
            raise typer.Exit(exit_code(error)) from None

    return wrapped


def failed(error: Exception, code: int) -> typer.Exit:
    """Say what went wrong; the exit to raise."""
    if DEBUG.get() or os.environ.get("CAPSCORE_DEBUG", "") not in ("", "0"):
        import traceback

        traceback.print_exception(error)
    say(f"error: {error}")
    return typer.Exit(code)


def exit_code(interrupt: KeyboardInterrupt) -> int:
    """128 and the signal's number, that of Ctrl-C unless the interrupt names another."""
    return 128 + getattr(interrupt, "number", INTERRUPTED - 128)


def say(message: str) -> None:
    """One line on standard error, with the library's options spelt as the command's."""
    for library, command in SPELLINGS.items():
        message = message.replace(library, command)
    print(f"capscore: {message}", file=sys.stderr, flush=True)


@contextmanager
def short_warnings() -> Iterator[None]:
    """Warnings as one line each, and each once."""
    seen = set()

    def show(message: Any, category: type[Warning], *_: object) -> None:
        text = " ".join(str(message).split())
        if text not in seen:
            seen.add(text)
            say(f"warning: {text}")

    with warnings.catch_warnings():
        for category in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
            warnings.simplefilter("ignore", category)  # meant for those who write programs
        warnings.showwarning = show
        yield


@contextmanager
def as_usage() -> Iterator[None]:
    """An error of an option's value is one of usage; weights that cannot be had are none."""
    from ..files.rows import UsageError

    try:
        yield
    except (BackboneUnavailable, MissingExtraError):
        raise
    except CapscoreError as error:
        raise UsageError(str(error)) from error


def make_console() -> Any:
    """Standard output, without guesses at what is a number."""
    from rich.console import Console

    return Console(highlight=False)


def box_style() -> Any:
    """The lines of every table."""
    from rich import box

    return box.SIMPLE_HEAD


def print_line(console: Any, line: str) -> None:
    """A line that a person may want to copy: never broken, whatever the width."""
    console.print(line, soft_wrap=True, markup=False)


def speaks_unicode() -> bool:
    """Whether standard output can show more than ASCII."""
    return (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "").startswith("utf")
