"""A YAML file and a command line → a recipe's settings, an instance of its dataclass.

The command line wins over the file, and the file over the dataclass's defaults. An error names the setting,
the file, and the setting that was probably meant.
"""

from __future__ import annotations

import argparse
import difflib
import inspect
import math
import re
import signal
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

from capscore.errors import CapscoreError, InputError, Setting
from training.engine.settings_file import kind_of, read_settings, shown

Settings = TypeVar("Settings")

_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
# Options of the library under another name than the setting of a recipe.
_NAMES = {"path": "data"}
_EXPECTED = {bool: "true or false", str: "text", int: "a whole number", float: "a number"}


def parse(settings: type[Settings], argv: Sequence[str] | None, description: str) -> Settings:
    """Settings from a command line and the YAML file that `--config` names.

    Args:
        settings: Dataclass of the settings. A field is a str, int, float, bool or Literal, a list of one of
            these, or one of these or None. "none" on the command line and null in the file are None.
            `--help` shows what the docstring says under "Attributes:".
        argv: Command line without the program's name; None for the command line of this process.
        description: What the program does, for `--help`.

    Raises:
        CapscoreError: an unknown setting (names the nearest one), a value of another type, a file that is
            missing or is no mapping, or a missing setting without a default.
        SystemExit: after `--help`.

    >>> from training.engine.loop_settings import LoopSettings
    >>> parse(LoopSettings, ["--out", "runs/a", "--learning_rate", "1e-4"], "An example.").learning_rate
    0.0001
    >>> parse(LoopSettings, ["--out", "runs/a", "--lerning_rate", "1e-4"], "An example.")
    Traceback (most recent call last):
    capscore.errors.CapscoreError: unknown setting --lerning_rate; did you mean --learning_rate?
    """
    hints = get_type_hints(settings)
    known = {field.name: hints[field.name] for field in fields(settings)}  # type: ignore[arg-type]
    given, unknown = _parser(settings, known, description).parse_known_args(argv)
    if unknown:
        flags = [f"--{name}" for name in (*known, "config")]
        raise CapscoreError(_unknown(unknown[0].partition("=")[0], flags))
    line = vars(given)
    config = line.pop("config", None)
    values = {} if config is None else _read(Path(config), known)
    for name, value in line.items():
        values[name] = _converted(value, known[name], f"--{name}", on_command_line=True)
    missing = [
        field.name
        for field in fields(settings)  # type: ignore[arg-type]
        if _default(field) is MISSING and field.name not in values
    ]
    if missing:
        raise CapscoreError(
            f"no {', no '.join(missing)}: give --{missing[0]}, or a line '{missing[0]}: …' in the file"
        )
    return settings(**values)


def language_counts(entries: Sequence[str], name: str) -> dict[str, int]:
    """Entries of the form language:number → language → number, in the same order.

    Args:
        entries: Entries of a setting.
        name: Name of the setting, for the error.

    Raises:
        InputError: an entry of another form, or a language that is named twice.

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
    """Run a recipe as a command: an expected error is one message on stderr and exit status 1."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        recipe()
    except CapscoreError as error:
        print(f"error: {error.spelled(as_flag)}", file=sys.stderr)
        raise SystemExit(1) from error
    except KeyboardInterrupt:
        print("interrupted; the same command continues from the last checkpoint", file=sys.stderr)
        raise SystemExit(130) from None


def as_flag(setting: Setting) -> str:
    """A setting as the command line of a recipe takes it.

    >>> as_flag(Setting("kinds", ["jumble", "masking"])), as_flag(Setting("dropout", False))
    ('--kinds jumble masking', '--no_dropout')
    """
    name = _NAMES.get(setting.name, setting.name)
    if setting.value is ... or setting.value is True:
        return f"--{name}"
    if setting.value is False:
        return f"--no_{name}"
    many = isinstance(setting.value, (list, tuple))
    return f"--{name} {' '.join(map(str, setting.value)) if many else setting.value}"


def described(settings: type) -> list[tuple[str, str, str]]:
    """Name, default and meaning of each setting, in order.

    Args:
        settings: Dataclass of the settings.

    >>> from training.engine.loop_settings import LoopSettings
    >>> described(LoopSettings)[2]
    ('max_steps', 'none', 'Total number of steps, which overrides `epochs`; None for whole epochs.')
    """
    said = _attributes(settings)
    return [
        (field.name, _shown(_default(field)), said.get(field.name, ""))
        for field in fields(settings)  # type: ignore[arg-type]
    ]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise CapscoreError(message)


def _parser(settings: type, known: dict[str, Any], description: str) -> _Parser:
    """A flag per setting. Values stay text: they are checked by the same rules as the file's."""
    parser = _Parser(
        usage="%(prog)s [--config FILE] [--setting value …]",
        description=description,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    parser.add_argument("--config", metavar="FILE", help="YAML file of settings; the command line wins")
    defaults = {field.name: _default(field) for field in fields(settings)}
    for name, default, meaning in described(settings):
        kind = known[name]
        options: dict[str, Any] = {"dest": name, "metavar": "…"}
        if kind is bool:
            options |= {"nargs": "?", "const": "true"}
        elif list in {get_origin(part) for part in (kind, *get_args(kind))}:
            # a flag that is given twice adds to its list, instead of losing the first values
            options |= {"nargs": "+", "action": "extend"}
        help_text = f"{meaning} [{default}]".replace("%", "%%")
        _add_flag(parser, name, help_text, **options)
        if kind is bool and defaults[name] is True:
            opposite = f"the opposite of --{name}"
            _add_flag(parser, f"no_{name}", opposite, dest=name, action="store_const", const="false")
    return parser


def _add_flag(parser: argparse.ArgumentParser, name: str, help_text: str, **options: Any) -> None:
    """A flag, which may also be written with dashes."""
    parser.add_argument(f"--{name}", help=help_text, **options)
    if "_" in name:
        parser.add_argument(f"--{name.replace('_', '-')}", help=argparse.SUPPRESS, **options)


def _shown(default: Any) -> str:
    if default is MISSING:
        return "must be given"
    if isinstance(default, list):
        return " ".join(map(str, default)) or "empty"
    return str(default).lower() if default is None or isinstance(default, bool) else str(default) or "empty"


def _read(path: Path, known: dict[str, Any]) -> dict[str, Any]:
    content = read_settings(path)
    for name in content:
        if name not in known:
            raise CapscoreError(f"{path}: {_unknown(name, list(known))}")
    return {name: _converted(value, known[name], f"{path}: {name}") for name, value in content.items()}


def _converted(value: Any, expected: Any, name: str, *, on_command_line: bool = False) -> Any:
    """A value from the file or the command line → a value of the field's type."""
    origin = get_origin(expected)
    if origin in (Union, types.UnionType):
        choices = [choice for choice in get_args(expected) if choice is not type(None)]
        if value is None or (on_command_line and str(value).lower() in ("none", "null")):
            return None
        return _converted(value, choices[0], name, on_command_line=on_command_line)
    if origin is list:
        if not isinstance(value, list):
            raise CapscoreError(f"{name} is {kind_of(value)}; expected a list, such as [a, b]")
        (inner,) = get_args(expected)
        return [_converted(item, inner, name, on_command_line=on_command_line) for item in value]
    if origin is Literal:
        choices = get_args(expected)
        if value is False and "no" in choices:  # YAML reads a bare no as false
            return "no"
        if not isinstance(value, str) or value not in choices:
            near = value[:100] if isinstance(value, str) else ""
            close = difflib.get_close_matches(near, choices, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise CapscoreError(f"{name} is {shown(value)}; expected {', '.join(choices)}{hint}")
        return value
    if expected is bool:
        if on_command_line and str(value).lower() in _BOOLEANS:
            return _BOOLEANS[str(value).lower()]
        if isinstance(value, bool):
            return value
    elif expected is str and isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return str(value)
    elif expected in (int, float) and not isinstance(value, (bool, list, dict, type(None))):
        # YAML reads 5e-5, which has no point, as text
        try:
            number = float(value)
            if expected is float and math.isfinite(number):
                return number
            if number == int(number):
                return int(value) if isinstance(value, str) and value.lstrip("+-").isdigit() else int(number)
        except (TypeError, ValueError, OverflowError):
            pass
    raise CapscoreError(f"{name} is {shown(value)}; expected {_EXPECTED[expected]}")


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _attributes(settings: type) -> dict[str, str]:
    """Name → what the docstrings of a dataclass and its parents say about it under "Attributes:"."""
    said: dict[str, str] = {}
    for parent in reversed(settings.__mro__):
        _, _, listed = inspect.cleandoc(parent.__doc__ or "").partition("Attributes:\n")
        entries = re.findall(
            r"^    (\w+(?:, \w+)*): (.*(?:\n {5,}.*)*)", listed.partition("\n\n")[0], re.MULTILINE
        )
        for names, text in entries:
            said |= dict.fromkeys(names.split(", "), " ".join(text.split()))
    return said


def _unknown(name: Any, known: Sequence[str]) -> str:
    written = str(name) if isinstance(name, str) and name.isprintable() else kind_of(name)
    close = difflib.get_close_matches(written[:100], known, n=1)
    hint = f"; did you mean {close[0]}?" if close else f"; known are {', '.join(known)}"
    return f"unknown setting {written:.60}{hint}"
