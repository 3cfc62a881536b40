"""Makes a command from its request, which holds the options, what runs it, and what shows the result."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

import typer

from ..errors import Setting
from ..metrics.loading import Option, all_options, check_options, options_of
from ..registry import METRICS
from .terminal import DEBUG, UsageError, as_usage, check_only_one, command

Request = TypeVar("Request")
Result = TypeVar("Result")

# the first type that fits; every other value is a NAME
_METAVARS = ((bool, " "), (Path, "FILE"), (int, "N"), (float, "X"))


def argument(name: str, **more: Any) -> Any:
    """An argument that is known by its place, for the type of a request's field.

    Args:
        name: Word that the usage line and the command's help call it by, in capital letters.
        more: Further arguments of `typer.Argument`.
    """
    # the help explains it under this name; a panel would add types such as list[str]
    return typer.Argument(metavar=name, hidden=True, **more)


def option(help: str, *flags: str, panel: str | None = None, **more: Any) -> Any:
    """An option, for the type of a request's field.

    Args:
        help: What it is, in one line that ends with the default if that is not obvious.
        flags: How it is typed; none for the field's name.
        panel: Heading of `--help` that it stands under.
        more: Further arguments of `typer.Option`.
    """
    return typer.Option(*flags, help=help, rich_help_panel=panel, show_default=False, **more)


def metric_options(*names: str) -> Any:
    """A request's field for options of `capscore.load`; the command has one option for each of the names."""
    return dataclasses.field(default_factory=dict, metadata={"names": names})


def make_command(
    request: type[Request],
    run: Callable[[Request], Result],
    show: Callable[[Request, Result], int | None],
) -> Callable[..., None]:
    """A function that typer can make a command of.

    Args:
        request: Frozen dataclass whose fields are annotated with `argument` and `option`.
        run: Function that does the work.
        show: Function that prints the result, and returns the exit code if it is not 0.
    """
    options = all_options()
    hints = get_type_hints(request, include_extras=True)
    parameters, gathered = [], {}
    for field in dataclasses.fields(request):  # type: ignore[arg-type]
        if "names" in field.metadata:
            gathered[field.name] = field.metadata["names"]
            parameters += [one for name in field.metadata["names"] for one in _parameters(options[name])]
        else:
            default = inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
            parameters.append(_parameter(field.name, hints[field.name], default))
    debug = option("Show tracebacks (also: CAPSCORE_DEBUG=1).", "--debug")
    parameters.append(_parameter("debug", Annotated[bool, debug], False))

    @command
    def function(**values: Any) -> None:
        DEBUG.set(values.pop("debug"))
        for name, taken in gathered.items():
            values[name] = _gathered(taken, values)
        made = request(**values)
        code = show(made, run(made))
        if code:
            raise typer.Exit(code)

    function.__name__ = run.__name__
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {}
    return function


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    value, info = annotation.__origin__, annotation.__metadata__[0]
    if info.metavar is None and isinstance(info, typer.models.OptionInfo):
        parts = get_args(value) or (value,)
        info.metavar = next((sign for kind, sign in _METAVARS if kind in parts), "NAME")
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _parameters(entry: Option) -> list[inspect.Parameter]:
    """What typer needs for an option of `capscore.load`."""
    if entry.name == "cache":
        folder, none = (
            option("Folder that keeps embeddings.", "--cache-dir", panel=_panel(entry), metavar="FOLDER"),
            option("Keep no embeddings on disk.", "--no-cache", panel=_panel(entry)),
        )
        return [
            _parameter("cache_dir", Annotated[Path | None, folder], None),
            _parameter("no_cache", Annotated[bool, none], False),
        ]
    flag = f"--{entry.name.replace('_', '-')}"
    help = entry.summary
    if entry.default not in (None, False) and "default" not in help:
        help += f" Default: {entry.shown_default}."
    if entry.type is bool:
        value = option(help, flag, panel=_panel(entry))
        return [_parameter(entry.name, Annotated[bool, value], False)]
    value = option(help, flag, panel=_panel(entry))
    return [_parameter(entry.name, Annotated[entry.type | None, value], None)]


def _panel(entry: Option) -> str | None:
    """Heading of `--help`: of the backbone, or of the metric that alone takes an option."""
    if not entry.own:
        return "Backbone"
    titles = {METRICS.get(metric).title for metric in entry.metrics}
    return None if len(titles) > 3 else METRICS.get(entry.metrics[0]).title


def _gathered(names: tuple[str, ...], values: dict[str, Any]) -> dict[str, Any]:
    """Takes the options of `capscore.load` that were given out of the values of all options."""
    given = {}
    for name in names:
        if name == "cache":
            folder, none = values.pop("cache_dir"), values.pop("no_cache")
            check_only_one(Setting("no_cache", none), Setting("cache_dir", folder))
            value = False if none else folder
        else:
            value = values.pop(name)
        # a value that says no more than the default is not checked against the metrics
        if value is not None and value != [] and (name == "cache" or value is not False):
            given[name] = value
    return given


def check_metric_options(metrics: list[str], given: Mapping[str, Any]) -> None:
    """Check that each option belongs to one of the metrics, and that its value is allowed.

    Raises:
        UsageError: An option belongs to other metrics.
        InputError: A value is not allowed.
    """
    options = all_options()
    for name, value in given.items():
        if not any(name in options_of(metric) for metric in metrics):
            takes = ", ".join(options[name].metrics) if len(options[name].metrics) <= 3 else "other metrics"
            raise UsageError(Setting(name, value), f": an option of {takes}, not of {', '.join(metrics)}")
    with as_usage():
        for metric in metrics:
            own = options_of(metric)
            taken = {name: given[name] for name in given if name in own}
            check_options(metric, taken)
            METRICS.get(metric).check_options(taken)


def flowing(help: str) -> str:
    """A command's help with paragraphs that fill the terminal, whatever its width."""
    return re.sub(r"(?<!\n)\n(?!\n)", " ", help)  # rich keeps single line breaks
