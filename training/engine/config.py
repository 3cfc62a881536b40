"""A recipe's settings: a YAML file, and on the command line what differs from it → a dataclass.

In: `--config file.yaml --learning_rate 1e-4 …` and a dataclass with its defaults. Out: an instance of it, or
an error that names the setting, the file, and the setting that was meant.
"""

from __future__ import annotations

import argparse
import difflib
import inspect
import re
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from capscore.errors import CapscoreError, InputError

Settings = TypeVar("Settings")


def parse(settings: type[Settings], argv: Sequence[str] | None, description: str) -> Settings:
    """Settings from a command line: the dataclass's defaults, over them the file's, over them the line's.

    Args:
        settings: a dataclass; its fields are str, int, float, bool, a Literal, a list of those, or one of
            them or None. "none" on the command line and null in the file are None. What its docstring says
            of them under "Attributes:" is what `--help` says.
        argv: the command line without the program's name; None for that of the process.
        description: what the program does, for `--help`.

    Raises:
        CapscoreError: an unknown setting (names like it are listed), a value of another type, no file, a file
            that is no mapping, or a setting without a default that is nowhere given.
        SystemExit: `--help`, after printing it.

    >>> from training.engine.loop import LoopSettings
    >>> parse(LoopSettings, ["--out", "runs/a", "--learning_rate", "1e-4"], "An example.").learning_rate
    0.0001
    >>> parse(LoopSettings, ["--out", "runs/a", "--lerning_rate", "1e-4"], "An example.")
    Traceback (most recent call last):
    capscore.errors.CapscoreError: unknown setting --lerning_rate; did you mean --learning_rate?
    """
    from transformers import HfArgumentParser

    hints = get_type_hints(settings)
    known = {field.name: hints[field.name] for field in fields(settings)}
    parser = HfArgumentParser(settings, description=description, allow_abbrev=False)
    parser.formatter_class = argparse.HelpFormatter
    parser.add_argument("--config", metavar="FILE", help="a YAML file of settings; the command line wins")
    said = _attributes(settings)
    for action in parser._actions:
        if action.dest in known:
            # Values stay text here: they are checked by the same rules as the file's. Left out is left out.
            action.required, action.type, action.choices = False, None, None
            action.metavar = None if action.nargs == 0 else "…"
            help_text = f"{said.get(action.dest, '')} [{_default(settings, action.dest)}]"
            action.help = help_text.replace("%", "%%")
            action.default = argparse.SUPPRESS
    parser.error = _raise
    given, unknown = parser.parse_known_args(list(sys.argv[1:] if argv is None else argv))
    if unknown:
        flags = [f"--{name}" for name in (*known, "config")]
        raise CapscoreError(_unknown(unknown[0].partition("=")[0], flags))
    line = vars(given)
    config = line.pop("config")
    values = {} if config is None else _read(Path(config), known)
    for name, value in line.items():
        values[name] = _converted(value, known[name], f"--{name}", on_command_line=True)
    missing = [
        field.name
        for field in fields(settings)
        if field.default is MISSING and field.default_factory is MISSING and field.name not in values
    ]
    if missing:
        raise CapscoreError(
            f"no {', no '.join(missing)}: give --{missing[0]}, or a line '{missing[0]}: …' in the file"
        )
    return settings(**values)


def language_counts(entries: Sequence[str], name: str) -> dict[str, int]:
    """A setting of the form language:number → language → number, in its order.

    Raises:
        InputError: an entry of another form, a language twice; names the setting.

    >>> language_counts(["ja:8000", "en:2000"], "most")
    {'ja': 8000, 'en': 2000}
    """
    counts: dict[str, int] = {}
    for entry in entries:
        language, _, number = entry.partition(":")
        if not language or not number.isdecimal():
            raise InputError(f"{entry!r}: expected language:number, such as ja:8000", field=name)
        if language in counts:
            raise InputError(f"{language} is named twice", field=name)
        counts[language] = int(number)
    return counts


def main(recipe: Callable[[], None]) -> None:
    """Run a recipe as a command: an error made on purpose is one message on stderr, and exit code 1."""
    try:
        recipe()
    except CapscoreError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(1) from error
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from the last checkpoint", file=sys.stderr)
        raise SystemExit(130) from None


def _read(path: Path, known: dict[str, Any]) -> dict[str, Any]:
    import yaml

    try:
        content = yaml.safe_load(path.expanduser().read_text(encoding="utf-8"))
    except OSError as error:
        raise CapscoreError(f"the config {path} cannot be read: {error.strerror or error}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise CapscoreError(f"the config {path} is not YAML: {' '.join(str(error).split())}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise CapscoreError(f"the config {path} holds {_kind(content)}; expected lines such as 'epochs: 5'")
    for name in content:
        if name not in known:
            raise CapscoreError(f"{path}: {_unknown(str(name), list(known))}")
    return {name: _converted(value, known[name], f"{path}: {name}") for name, value in content.items()}


def _converted(value: Any, expected: Any, name: str, *, on_command_line: bool = False) -> Any:
    """A value of a file or a command line → one of the field's type."""
    origin = get_origin(expected)
    if origin in (Union, types.UnionType):
        choices = [choice for choice in get_args(expected) if choice is not type(None)]
        if value is None or (on_command_line and str(value).lower() in ("none", "null")):
            return None
        return _converted(value, choices[0], name, on_command_line=on_command_line)
    if origin is list:
        if not isinstance(value, list):
            raise CapscoreError(f"{name} is {_kind(value)}; expected a list, such as [a, b]")
        (inner,) = get_args(expected)
        return [_converted(item, inner, name, on_command_line=on_command_line) for item in value]
    if origin is Literal:
        if value not in get_args(expected):
            # YAML reads a bare no as false
            if value is False and "no" in get_args(expected):
                return "no"
            close = difflib.get_close_matches(str(value), get_args(expected), n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise CapscoreError(f"{name} is {value!r}; expected {', '.join(get_args(expected))}{hint}")
        return value
    if expected is bool:
        said = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
        if on_command_line and str(value).lower() in said:
            return said[str(value).lower()]
        if isinstance(value, bool):
            return value
    elif expected is str and isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return str(value)
    elif expected in (int, float) and not isinstance(value, (bool, list, dict, type(None))):
        # YAML takes 5e-5, which has no point, for text
        try:
            number = float(value)
            if expected is float:
                return number
            if number == int(number):
                return int(value) if isinstance(value, str) and value.lstrip("+-").isdigit() else int(number)
        except (ValueError, OverflowError):
            pass
    kinds = {bool: "true or false", str: "text", int: "a whole number", float: "a number"}
    raise CapscoreError(f"{name} is {value!r}; expected {kinds[expected]}")


def _default(settings: type, name: str) -> str:
    field = next(field for field in fields(settings) if field.name == name)
    value = field.default if field.default_factory is MISSING else field.default_factory()
    return "must be given" if value is MISSING else str(value)


def _attributes(settings: type) -> dict[str, str]:
    """Name → what the docstrings of a dataclass and its parents say of it under "Attributes:"."""
    said: dict[str, str] = {}
    for parent in reversed(settings.__mro__):
        _, _, listed = inspect.cleandoc(parent.__doc__ or "").partition("Attributes:\n")
        for entry in re.findall(r"^    (\w+): (.*(?:\n {5,}.*)*)", listed.partition("\n\n")[0], re.MULTILINE):
            said[entry[0]] = " ".join(entry[1].split())
    return said


def _unknown(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {close[0]}?" if close else f"; known are {', '.join(known)}"
    return f"unknown setting {name}{hint}"


def _kind(value: Any) -> str:
    return {dict: "a mapping", list: "a list", str: f"the text {value!r}"}.get(type(value), repr(value))


def _raise(message: str) -> None:
    raise CapscoreError(message)
