"""What the commands share: exit codes, errors and warnings as lines, and the spelling of options."""

from __future__ import annotations

import difflib
import functools
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..errors import (
    BackboneUnavailable,
    CapscoreError,
    CapscoreWarning,
    InputError,
    MissingExtraError,
    OptionError,
    ResultWriteError,
    Setting,
)
from ..errors.visible import in_one_line, json_visible, visible, without_secrets
from ..files.interrupts import PromptEnd, Signals

if TYPE_CHECKING:
    from rich.console import Console

FAILED, USAGE, SKIPPED, INTERRUPTED = 1, 2, 3, 130
READER_LEFT = 141  # as of every program that SIGPIPE ends
DEBUG: ContextVar[bool] = ContextVar("debug", default=False)

# options of the library that the command line calls something else
_FLAGS = {
    ("cache", False): "--no-cache",
    ("shared_draws", False): "--independent-draws",
}
_NAMES = {"cache": "cache-dir"}
# arguments without an option's name: the value says which is meant
_POSITIONAL = ("folder", "path", "photo", "repo_id")


class UsageError(CapscoreError):
    """A command was called wrongly; nothing has been done yet."""


def spell(setting: Setting) -> str:
    """An option of the library as a person types it.

    >>> spell(Setting("n_regions", 5)), spell(Setting("force", True)), spell(Setting("cache", False))
    ('--n-regions 5', '--force', '--no-cache')
    """
    if not setting.has_value:
        return _flag(setting.name)
    if setting.name in _POSITIONAL:
        return str(setting.value)
    if isinstance(setting.value, bool):
        flag = _FLAGS.get((setting.name, setting.value))
        return flag or _flag(setting.name if setting.value else f"no_{setting.name}")
    values = setting.value if isinstance(setting.value, list | tuple) else [setting.value]
    return " ".join(f"{_flag(setting.name)} {_quoted(value)}" for value in values)


def _flag(name: str) -> str:
    return f"--{_NAMES.get(name, name.replace('_', '-'))}"


def _quoted(value: object) -> str:
    text = str(value)
    return shlex.quote(text) if not text or any(sign.isspace() for sign in text) else text


def is_usage_error(error: CapscoreError) -> bool:
    """Whether an error is one of the command's options, rather than of files, weights or packages."""
    if isinstance(error, UsageError | OptionError):
        return True
    if isinstance(error, BackboneUnavailable | MissingExtraError | ResultWriteError):
        return False
    return error.option is not None and getattr(error, "row", None) is None


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Make errors of a command one message on stderr and an exit code, and warnings lines there."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        try:
            with Signals(), short_warnings():
                function(*args, **kwargs)
        except CapscoreError as error:
            raise failed(error, USAGE if is_usage_error(error) else FAILED) from error
        except BrokenPipeError:
            raise typer.Exit(READER_LEFT) from None
        except KeyboardInterrupt as error:
            say(str(error) if isinstance(error, Stopped) else "interrupted")
            PromptEnd.said = True
            raise typer.Exit(128 + getattr(error, "number", INTERRUPTED - 128)) from None

    return wrapped


class Stopped(KeyboardInterrupt):
    """A command was interrupted; the message says what is left of its work.

    Args:
        message: What was done, and where it is.
        interrupt: The interrupt that came.
    """

    def __init__(self, message: str, interrupt: KeyboardInterrupt):
        super().__init__(message)
        self.number = getattr(interrupt, "number", INTERRUPTED - 128)


def failed(error: CapscoreError, code: int) -> typer.Exit:
    """Say what went wrong, and return the exit to raise."""
    if DEBUG.get() or os.environ.get("CAPSCORE_DEBUG", "") not in ("", "0"):
        import traceback

        trace = without_secrets("".join(traceback.format_exception(error)))
        print(visible(trace, keep="\n"), file=sys.stderr)
    say(f"error: {error.spelled(spell)}")
    return typer.Exit(code)


def say(message: str) -> None:
    """Print one line on standard error."""
    with suppress(BrokenPipeError):  # nobody reads it; what was asked for is done all the same
        print(f"capscore: {in_one_line(message)}", file=sys.stderr, flush=True)


@contextmanager
def short_warnings() -> Iterator[None]:
    """Print each warning once, as one line."""
    seen = set()

    def show(message: Warning | str, category: type[Warning], *_: object) -> None:
        words = message.spelled(spell) if isinstance(message, CapscoreWarning) else str(message)
        text = in_one_line(" ".join(words.split()))
        if text not in seen:
            seen.add(text)
            say(f"warning: {text}")

    with warnings.catch_warnings():
        for category in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
            warnings.simplefilter("ignore", category)  # they are for programmers
        warnings.showwarning = show  # type: ignore[assignment]
        yield


@contextmanager
def as_usage() -> Iterator[None]:
    """Make an error of an option's value one of usage; missing weights and packages are none."""
    try:
        yield
    except (BackboneUnavailable, MissingExtraError, UsageError):
        raise
    except CapscoreError as error:
        raise UsageError(*error.parts) from error


@contextmanager
def bad_input_as_usage() -> Iterator[None]:
    """Make an error of the input alone one of usage."""
    try:
        yield
    except InputError as error:
        raise UsageError(*error.parts) from error


def check_result_file(option: str, path: Path | None, kinds: Sequence[str], force: bool) -> None:
    """Check that a file that an option asks for can be written.

    Args:
        option: Name of the option.
        path: Its value; None asks for no file.
        kinds: Suffixes that the file may have.
        force: Whether a file of that name may be replaced.

    Raises:
        InputError: It cannot be written.
    """
    if path is None:
        return
    given = Setting(option, path)
    if path.suffix.lower() not in kinds:
        raise InputError(given, f": expected a name that ends in {_listed(kinds)}")
    if path.exists() and not force:
        raise InputError(given, " exists; ", Setting("force", True), " overwrites it")
    above = next(folder for folder in path.absolute().parents if folder.exists())
    if not above.is_dir():
        raise InputError(given, f": {above} is not a folder")
    if path.is_dir():
        raise InputError(given, " is a folder")
    if path.exists() and not path.is_file():
        raise InputError(given, " exists and is not a regular file")
    if not os.access(above, os.W_OK):
        raise InputError(given, f" cannot be written: {above} is read-only")


def check_only_one(first: Setting, second: Setting) -> None:
    """Raise UsageError if two options that exclude each other were both given."""
    if all(setting.value not in (None, False, ()) for setting in (first, second)):
        raise UsageError(_flag(first.name), " and ", _flag(second.name), ": give only one of them")


def check_choice(option: str, value: str, choices: Sequence[str]) -> None:
    """Raise UsageError if an option has a value that is not one of its choices."""
    if value not in choices:
        close = difflib.get_close_matches(value.lower(), choices, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise UsageError(Setting(option, value), f": expected {_listed(choices)}{hint}")


def _listed(choices: Sequence[str]) -> str:
    """Choices as a sentence lists them: "a, b or c"."""
    return " or ".join([", ".join(choices[:-1]), choices[-1]] if choices[1:] else choices)


def check_not_standard_output(output: Path | None, instead: str) -> None:
    """Raise UsageError if `--output` is `-`, which would become the name of a saved data set."""
    if output == Path("-"):
        raise UsageError(Setting("output", "-"), instead)


def make_table(*columns: str, numbers: Sequence[str] = ()) -> Any:
    """A table as all commands show them, with folded texts to the left and numbers to the right."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def print_line(console: Console, line: str) -> None:
    """Print a line that a person may want to copy, unbroken whatever the width."""
    console.print(visible(line), soft_wrap=True, markup=False)


def print_json(value: Any, *, stderr: bool = False) -> None:
    """Print a value as JSON."""
    import json

    text = json_visible(json.dumps(value, indent=2, ensure_ascii=not speaks_unicode()))
    print(text, file=sys.stderr if stderr else sys.stdout)


def print_failures(
    failures: dict[int, tuple[int | None, str]],
    what: str,
    most: int = 5,
    place: Callable[[int, int | None], str] | None = None,
) -> None:
    """Print which rows failed, the first few with their reasons.

    Args:
        failures: For each failed row, its line in the file (or None) and what was wrong.
        what: What happened to them, such as "of 10 rows could not be scored".
        most: Number of rows to print.
        place: Function that names a row by its number and line; `RowSource.short_place` is one.
    """
    say(f"{len(failures):,} {what}:")
    for row, (line, error) in sorted(failures.items())[:most]:
        named = f"row {row} counted from 0" if line is None else f"line {line}"
        if place is not None:
            named = place(row, line)
        print(f"  {in_one_line(f'{named}: {error}')}", file=sys.stderr)
    if len(failures) > most:
        print(f"  and {len(failures) - most:,} more, which the summary lists", file=sys.stderr)


def listed_failures(failures: dict[int, tuple[int | None, str]]) -> list[dict[str, Any]]:
    """Failed rows for a summary, ready for JSON."""
    return [{"row": row, "line": line, "error": error} for row, (line, error) in sorted(failures.items())]


def speaks_unicode() -> bool:
    """Whether standard output can show more than ASCII."""
    return (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "").startswith("utf")


def print_written(console: Console, *paths: Path | None) -> None:
    """Name the files that were written; None is an option that was not given."""
    names = [str(path) for path in paths if path is not None]
    if names:
        print_line(console, f"Written to {', '.join(names)}")
