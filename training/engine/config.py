"""A YAML file and a command line → a recipe's settings, an instance of its dataclass, by jsonargparse.

The command line wins over the file, and the file over the dataclass's defaults.
"""

from __future__ import annotations

import difflib
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import yaml
from docstring_parser import parse as parse_docstring
from jsonargparse import ArgumentParser

from capscore.errors import CapscoreError, OptionError, Setting, file_errors_named

Settings = TypeVar("Settings")

# Options of the library under another name than the setting of a recipe.
_NAMES = {"path": "data"}


def parse(settings: type[Settings], argv: Sequence[str] | None, description: str) -> Settings:
    """Settings from a command line and the YAML file that `--config` names.

    Args:
        settings: Dataclass of the settings. A field is a str, int, float, bool or Literal, a list of one of
            these, or one of these or None, which is written null. `--help` shows what the docstring says
            under "Attributes:".
        argv: Command line without the program's name; None for the command line of this process.
        description: What the program does, for `--help`.

    Raises:
        OptionError: an unknown setting (names the nearest one), a value of another type, a file that is
            missing or is no mapping, or a missing setting without a default.
        CapscoreError: a value outside the range that the dataclass checks.
        SystemExit: after `--help`.

    >>> from training.engine.loop_settings import LoopSettings
    >>> parse(LoopSettings, ["--out", "runs/a", "--learning_rate", "1e-4"], "An example.").learning_rate
    0.0001
    >>> parse(LoopSettings, ["--out", "runs/a", "--lerning_rate", "1e-4"], "An example.")
    Traceback (most recent call last):
    capscore.errors.OptionError: unknown setting --lerning_rate; did you mean --learning_rate?
    """
    hints = get_type_hints(settings)
    known = {name: hints[name] for name in _defaults(settings)}
    words = list(sys.argv[1:] if argv is None else argv)
    options = [word.partition("=")[0] for word in words if word.startswith("--")]
    for option in options:
        _require_known(option, [f"--{name}" for name in (*known, "config", "help")])
        if options.count(option) > 1:
            raise OptionError(f"{option} is given twice; write all its values after one")
    parser = _parser(settings, known, description)
    found = _attempted(parser.parse_args, words)
    if found.config is not None:
        parser.set_defaults(_of_file(parser, found.config, known))
        found = _attempted(parser.parse_args, words)
    values = {name: getattr(found, name) for name in known}
    missing = [name for name in known if values[name] is None and type(None) not in _parts(known[name])]
    if missing:
        raise OptionError(
            f"no {', no '.join(missing)}: give --{missing[0]}, or a line '{missing[0]}: …' in the file"
        )
    return settings(**values)


def read_settings(path: str | Path) -> dict[object, object]:
    """The mapping in a YAML file; an empty one for an empty file.

    Raises:
        OptionError: the file cannot be read, is not YAML, has a tag that makes an object or an alias, or
            holds something else than a mapping.
    """
    try:
        file = Path(path).expanduser()
        is_file = file.is_file() or not file.exists()
        text = file.read_text(encoding="utf-8-sig") if is_file else ""  # a device never ends
    except (OSError, RuntimeError, ValueError) as error:  # also no such user's folder, and a damaged text
        reason = getattr(error, "strerror", None) or error
        raise OptionError(f"the config {str(path)!r} cannot be read: {reason}") from None
    if not is_file:
        raise OptionError(f"the config {str(path)!r} is not a file")
    try:
        content = yaml.load(text, _Loader)
    except Exception as error:  # PyYAML does not catch what its numbers and dates raise
        raise OptionError(f"the config {path} is not YAML: {_line(error)}") from None
    if not isinstance(content, dict | None):
        raise OptionError(f"the config {path} holds {content!r:.60}; expected lines such as 'epochs: 5'")
    return content or {}


def main(recipe: Callable[[], None]) -> None:
    """Run a recipe as a command: an expected error is one message on stderr.

    Exit status 2 where an option is wrong, 1 for other errors, 130 after Ctrl-C.
    """
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        with file_errors_named():
            recipe()
    except CapscoreError as error:
        print(f"error: {error.spelled(as_flag)}", file=sys.stderr)
        raise SystemExit(2 if isinstance(error, OptionError) or error.option else 1) from error
    except KeyboardInterrupt:
        print("interrupted; the same command continues the run", file=sys.stderr)
        raise SystemExit(130) from None


def as_flag(setting: Setting) -> str:
    """A setting as the command line of a recipe takes it.

    >>> as_flag(Setting("kinds", ["jumble", "masking"])), as_flag(Setting("dropout", False))
    ('--kinds jumble masking', '--dropout false')
    """
    name, value = _NAMES.get(setting.name, setting.name), setting.value
    if value is ...:
        return f"--{name}"
    if isinstance(value, (list, tuple)):
        return " ".join([f"--{name}", *map(str, value)])
    return f"--{name} {_shown(value)}"


def described(settings: type) -> list[tuple[str, str, str]]:
    """Name, default and meaning of each setting of a dataclass, in order.

    >>> from training.engine.loop_settings import LoopSettings
    >>> described(LoopSettings)[2]
    ('max_steps', 'none', 'Total number of steps, which overrides `epochs`; None for whole epochs.')
    """
    meanings: dict[str, str] = {}
    for parent in reversed(settings.__mro__):
        for entry in parse_docstring(parent.__doc__ or "").params:
            text = " ".join((entry.description or "").split())
            meanings |= dict.fromkeys(entry.arg_name.split(", "), text)
    return [(name, _shown(default), meanings.get(name, "")) for name, default in _defaults(settings).items()]


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader without aliases, a few lines of which fill any memory."""

    def compose_node(self, parent: object, index: object) -> object:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()
            raise yaml.composer.ComposerError(None, None, f"*{event.anchor} is an alias", event.start_mark)
        return super().compose_node(parent, index)


def _parser(settings: type, known: dict[str, object], description: str) -> ArgumentParser:
    usage = "%(prog)s [--config FILE] [--setting value …]"
    parser = ArgumentParser(usage=usage, description=description, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--config", metavar="FILE", help="YAML file of settings; the command line wins")
    defaults = _defaults(settings)
    for name, _, meaning in described(settings):
        default = defaults[name]
        if default is MISSING:
            default, meaning = None, f"{meaning} Must be given."
        options: dict[str, Any] = {"type": known[name]}
        for part in _parts(known[name]):
            if get_origin(part) is list:
                options = {"type": get_args(part)[0], "nargs": "+"}
        parser.add_argument(f"--{name}", default=default, help=meaning, **options)
    return parser


def _of_file(parser: ArgumentParser, path: str, known: dict[str, object]) -> dict[str, object]:
    """The settings of a file, converted and checked one by one, so that an error names its setting."""
    found: dict[str, object] = {}
    for key, value in read_settings(path).items():
        _require_known(key, list(known), f"{path}: ")
        name = str(key)
        if value is False and "no" in get_args(known[name]):  # YAML reads a bare no as false
            value = "no"
        try:
            found |= vars(parser.parse_object({name: value}, defaults=False))
        except Exception as error:  # of jsonargparse, or of a converter that it calls
            raise OptionError(f"{path}: {name} is {value!r:.60}: {_line(error)}") from None
    return found


def _attempted(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except Exception as error:  # of jsonargparse, or of a converter that it calls
        raise OptionError(_line(error).replace('Parser key "', '"--')) from None


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def _require_known(name: object, known: Sequence[str], where: str = "") -> None:
    if name not in known:
        hint = f"known are {', '.join(known)}"
        for near in difflib.get_close_matches(f"{name!s:.100}", known, n=1):
            hint = f"did you mean {near}?"
        raise OptionError(f"{where}unknown setting {name!s:.60}; {hint}")


def _parts(kind: object) -> tuple[object, ...]:
    """The types that a value may have."""
    if get_origin(kind) in (list, Literal):
        return (kind,)
    return get_args(kind) or (kind,)


def _defaults(settings: type) -> dict[str, object]:
    return {
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for field in fields(settings)
    }


def _shown(value: object) -> str:
    if value is MISSING:
        return "must be given"
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        value = " ".join(map(str, value))
    return str(value) or "empty"
