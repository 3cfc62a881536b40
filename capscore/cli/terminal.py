"""What the commands share: how they are made, exit codes, errors as lines, and the spelling of options."""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from ..errors import (
    BackboneUnavailable,
    CapscoreError,
    CapscoreWarning,
    InputError,
    MissingExtraError,
    OptionError,
    ResultWriteError,
    Setting,
    UnknownBackbone,
    file_errors_named,
    in_one_line,
    json_visible,
    visible,
    without_secrets,
)
from ..files.console import make_console, notes_at_end
from ..files.write import files_noted, write_text

if TYPE_CHECKING:
    from rich.console import Console

    from ..files.description import Description
    from ..tables import Result

Function = Callable[..., int | None]
FAILED, USAGE, SKIPPED, TOO_MANY_WRONG, INTERRUPTED = 1, 2, 3, 4, 130
READER_LEFT = 141  # as of every program that SIGPIPE ends

# options of the library that the command line calls something else
_FLAGS = {"cache": "--cache-dir"}
# arguments without an option's name: the value says which is meant
_POSITIONAL = ("folder", "path", "photo", "repo_id")
# what `--help` calls a value; the first type that fits
_METAVARS = ((bool, " "), (Path, "FILE"), (int, "N"), (float, "X"), (object, "NAME"))
# command and option of 0.9 that is gone → what does its work
_FORMER = {
    "benchmark systems": "`capscore compare FILES --data SET --data-dir FOLDER` compares systems",
    "robustness captions": "`capscore robustness FILE` reads captions of your own",
    "robustness stand-in": "a drop needs photos; --partial takes the rows of a benchmark that have theirs",
}


class UsageError(CapscoreError):
    """A command was called wrongly; nothing has been done yet."""


class Command(TyperCommand):
    """A command that gets the options of metrics when it is called: other commands need not import them."""

    is_complete = False

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for option in (word.partition("=")[0] for word in args if word.startswith("--")):
            if instead := _FORMER.get(f"{self.name} {option[2:]}"):
                ctx.fail(f"No such option: {option}; {instead}")
        return super().parse_args(ctx, args)

    def get_params(self, ctx: Any) -> list[Any]:
        self.add_metric_options()
        return _without_types(super().get_params(ctx))

    def add_metric_options(self) -> None:
        """Add the options that `options.with_metric_options` chose."""
        function: Any = self.callback
        if not self.is_complete and hasattr(function, "metric_options"):
            app = typer.Typer(add_completion=False)
            app.command()(as_command(inspect.unwrap(function), function.metric_options()))
            whole: Any = typer.main.get_command(app)
            self.params, self.callback = whole.params, whole.callback
        self.is_complete = True

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.name_metrics()
        super().format_help(ctx, formatter)

    def name_metrics(self) -> None:
        """Write the names of all metrics, by what they need, where the help has `{metrics}`."""
        if self.help and "{metrics}" in self.help:
            function: Any = inspect.unwrap(self.callback or as_command)
            self.help = self.help.replace("{metrics}", function.metric_names())


class CommandGroup(TyperGroup):
    """A command with commands of its own, such as `capscore data`."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


def _without_types(parameters: list[Any]) -> list[Any]:
    """The parameters, so that `--help` shows no type of a flag."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = " "
    return parameters


def group(help: str) -> typer.Typer:
    """A typer application that commands are added to."""
    return typer.Typer(
        help=help,
        cls=CommandGroup,
        no_args_is_help=True,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def add_command(app: typer.Typer, name: str, function: Function, help: str | None = None) -> None:
    """Make a command of a function that returns the exit code or None; its docstring is the help."""
    # rich keeps single line breaks: paragraphs are to fill the terminal, whatever its width
    flowing = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(help or function.__doc__ or ""))
    needs_arguments = name not in ("app", "backbones", "list", "info", "clear")
    app.command(name, cls=Command, help=flowing, no_args_is_help=needs_arguments)(as_command(function))


_OUTPUTS = ("output", "keep", "drop", "markdown", "report", "table", "write_queries")


@contextmanager
def _files_told(values: Mapping[str, object]) -> Iterator[None]:
    """Where a command is cut off, say which of its files are new, and which are as they were."""
    with files_noted() as named:
        try:
            yield
        except (Exception, KeyboardInterrupt, SystemExit) as error:
            asked = [value for name in _OUTPUTS if isinstance(value := values.get(name), Path)]
            old = [str(path) for path in asked if Path(os.path.realpath(path.expanduser())) not in named]
            is_cut_off = isinstance(error, KeyboardInterrupt | SystemExit)
            if old and (named or is_cut_off):
                new = ", ".join(map(str, named)) or "none"
                say(f"note: written: {new}; not written, and as before if there: {', '.join(old)}")
            raise


Debug = Annotated[
    bool, typer.Option("--debug", help="Show tracebacks (also: CAPSCORE_DEBUG=1).", show_default=False)
]


def as_command(function: Function, metric_options: Iterable[inspect.Parameter] = ()) -> Callable[..., None]:
    """A function whose errors are one line on stderr and an exit code; it gets the option --debug."""
    own = dict(inspect.signature(function, eval_str=True).parameters)
    takes_more = own.pop("metric_options", None) is not None

    @functools.wraps(function)
    def command(debug: bool = False, **values: object) -> None:
        more = {name: values.pop(name) for name in values.keys() - own.keys()}
        try:
            with short_warnings(), file_errors_named(), _files_told(values):
                if takes_more:
                    values["metric_options"] = _stated(more)
                try:
                    code = function(**values)
                finally:
                    for line in notes_at_end() if not values.get("quiet") else ():
                        say(f"note: {line}")
        except CapscoreError as error:
            if debug or os.environ.get("CAPSCORE_DEBUG", "") not in ("", "0"):
                import traceback

                trace = without_secrets("".join(traceback.format_exception(error)))
                print(visible(trace, keep="\n"), file=sys.stderr)
            say(f"error: {error.spelled(spell)}")
            raise typer.Exit(USAGE if is_usage_error(error) else FAILED) from error
        except BrokenPipeError:
            raise typer.Exit(READER_LEFT) from None
        except KeyboardInterrupt:
            say("interrupted")
            raise typer.Exit(INTERRUPTED) from None
        if code:
            raise typer.Exit(code)

    debug = inspect.Parameter("debug", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Debug)
    parameters = [*own.values(), *metric_options, debug]
    for parameter in parameters:
        kind, info = parameter.annotation.__origin__, parameter.annotation.__metadata__[0]
        kinds = (*_kinds_in(kind), object)
        if Path in kinds:
            info.parser = _path
        if isinstance(info, typer.models.OptionInfo) and info.metavar is None:
            info.metavar = next(name for of, name in _METAVARS if of in kinds)
    # what typer makes options of
    command.__annotations__ = {}
    vars(command)["__signature__"] = inspect.Signature(parameters)
    return command


def _kinds_in(kind: Any) -> list[Any]:
    """A type, and those that it is made of: of `list[Path] | None`, also list[Path], Path and None."""
    kinds = [kind]
    for part in get_args(kind):
        kinds += _kinds_in(part)
    return kinds


def _path(text: str) -> Path:
    """A path; an empty text, as of a shell's variable that is not set, would be the current folder."""
    if not text:
        raise typer.BadParameter("expected a path, and got an empty text")
    return Path(text)


def _stated(metric_options: Mapping[str, object]) -> dict[str, object]:
    """The options of metrics that were given."""
    stated = {
        name: value
        for name, value in metric_options.items()
        if value is not None and value is not False and value != []
    }
    if stated.pop("no_cache", False):
        check_only_one(Setting("no_cache"), Setting("cache", stated.get("cache")))
        stated["cache"] = False
    return stated


def spell(setting: Setting) -> str:
    """An option of the library as a person types it.

    >>> spell(Setting("n_regions", 5)), spell(Setting("force", True)), spell(Setting("cache", False))
    ('--n-regions 5', '--force', '--no-cache')
    """
    name, value = setting.name, setting.value
    if value is ... or value is True:
        return _flag(name)
    if value is False:
        return _flag(f"no_{name}")
    if name in _POSITIONAL:
        return str(value)
    if isinstance(value, list | tuple):
        return " ".join(f"{_flag(name)} {_quoted(str(item))}" for item in value)
    return f"{_flag(name)} {_quoted(str(value))}"


def _flag(name: str) -> str:
    return _FLAGS.get(name, f"--{name.replace('_', '-')}")


def _quoted(text: str) -> str:
    if text and not any(sign.isspace() for sign in text):
        return text
    return shlex.quote(text)


def is_usage_error(error: CapscoreError) -> bool:
    """Whether an error is one of the command's options, rather than of files, weights or packages."""
    if isinstance(error, UsageError | OptionError | UnknownBackbone):
        return True
    if isinstance(error, BackboneUnavailable | MissingExtraError | ResultWriteError):
        return False
    return error.option is not None and getattr(error, "row", None) is None


@contextmanager
def as_usage(kind: type[CapscoreError] = CapscoreError) -> Iterator[None]:
    """Make an error of an option's value one of usage; missing weights and packages are none."""
    try:
        yield
    except (BackboneUnavailable, MissingExtraError, UsageError):
        raise
    except kind as error:
        raise UsageError(*error.parts) from error


def say(message: str) -> None:
    """Print one line on standard error."""
    print(f"capscore: {in_one_line(message)}", file=sys.stderr, flush=True)


@contextmanager
def short_warnings() -> Iterator[None]:
    """Print each warning once, as one line."""
    seen = set()

    def show(message: Warning | str, category: type[Warning], *where: object, **more: object) -> None:
        words = str(message)
        if isinstance(message, CapscoreWarning):
            words = message.spelled(spell)
        text = in_one_line(" ".join(words.split()))
        if text not in seen:
            seen.add(text)
            say(f"warning: {text}")

    with warnings.catch_warnings():
        for category in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
            warnings.simplefilter("ignore", category)  # they are for programmers
        warnings.showwarning = show
        yield


def check_result_file(option: str, path: Path | None, kinds: Sequence[str], force: bool) -> None:
    """Raise InputError if a file of one of the kinds (suffixes) cannot be written; None asks for no file."""
    if path is None:
        return
    setting = Setting(option, path)
    if path.suffix.lower() not in kinds:
        raise InputError(setting, f": expected a name that ends in {' or '.join(kinds)}")
    if path.exists() and not path.is_file():
        raise InputError(setting, " exists and is not a regular file")
    if path.exists() and not force:
        raise InputError(setting, " exists; ", Setting("force", True), " overwrites it")
    above = next(folder for folder in path.absolute().parents if folder.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise InputError(setting, f": {above} is not a folder that can be written to")


def check_result_files(force: bool, **paths: Path | None) -> None:
    """Check before the work that files can be written: option → path; errors as in `check_result_file`."""
    kinds = {"output": (".json",), "markdown": (".md",), "report": (".html", ".htm")}
    kinds["table"] = (".tex", ".md", ".csv")
    for name, path in paths.items():
        check_result_file(name, path, kinds[name], force)


def check_only_one(first: Setting, second: Setting) -> None:
    """Raise UsageError if two options that exclude each other were both given."""
    if all(setting.value not in (None, False, (), []) for setting in (first, second)):
        raise UsageError(_flag(first.name), " and ", _flag(second.name), ": give only one of them")


def code_of(missed: Sequence[str], *, told: bool) -> int | None:
    """The exit code of a command that could not do everything; lines say what, unless tables `told` it."""
    if not told:
        for line in missed:
            say(line)
    return SKIPPED if missed else None


def check_alone(name: str, others: Mapping[str, object]) -> None:
    """Raise UsageError for the first of the other options that was given beside one."""
    for other, value in others.items():
        check_only_one(Setting(other, value), Setting(name))


def check_not_standard_output(output: Path | None, instead: str) -> None:
    """Raise UsageError if `--output` is `-`."""
    if output == Path("-"):
        raise UsageError(Setting("output", "-"), instead)


def print_line(console: Console, line: str) -> None:
    """Print a line that a person may want to copy, unbroken whatever the width."""
    console.print(visible(line), soft_wrap=True, markup=False)


def print_json(value: object, *, stderr: bool = False) -> None:
    text = json_visible(json.dumps(value, indent=2, ensure_ascii=not speaks_unicode()))
    print(text, file=sys.stderr if stderr else sys.stdout)


def print_descriptions(descriptions: Iterable[Description], as_json: bool) -> int | None:
    """Print how files are understood, each as soon as it is; returns the exit code."""
    shown = []
    for description in descriptions:
        if not as_json:
            make_console().print(f"{description}\n", soft_wrap=True, markup=False)
        shown.append(description)
    if as_json:
        print_json([description.to_dict() for description in shown])
    return SKIPPED if shown[-1].problems else None


def show_results(
    result: Result, output: Path | None, markdown: Path | None, *more: Path | None, as_json: bool, quiet: bool
) -> None:
    """Write a result, and print it as tables, which name these files and more, as JSON, or not at all."""
    if output is not None:
        write_text(output, f"{json.dumps(result.to_dict(), ensure_ascii=False, indent=2)}\n")
    if markdown is not None:
        write_text(markdown, result.report().markdown())
    if as_json:
        print_json(result.to_dict())
    elif not quiet:
        console = make_console()
        result.report().print(console)
        print_written(console, output, markdown, *more)


def print_failures(
    failures: dict[int, tuple[int | None, str]], what: str, place: Callable[[int, int | None], str]
) -> None:
    """Print which rows failed, and why: row → line (or None) and reason; `place` names a row by both."""
    say(f"{len(failures):,} {what}:")
    for row, (line, error) in sorted(failures.items())[:5]:
        print(f"  {in_one_line(f'{place(row, line)}: {error}')}", file=sys.stderr)
    if len(failures) > 5:
        print(f"  and {len(failures) - 5:,} more, which the summary lists", file=sys.stderr)


def speaks_unicode() -> bool:
    """Whether standard output can show more than ASCII."""
    return (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "").startswith("utf")


def print_written(console: Console, *paths: Path | None) -> None:
    """Name the files that were written; None is an option that was not given."""
    names = []
    for path in filter(None, paths):
        with suppress(ValueError):  # it is elsewhere
            path = path.relative_to(Path.cwd())
        names.append(str(path))
    if names:
        print_line(console, f"Written to {', '.join(names)}")
