"""A YAML file and a command line → a recipe's settings, an instance of its dataclass.

The command line wins over the file, and the file over the dataclass's defaults.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import re
import signal
import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Literal, NoReturn, TypeVar, get_args, get_origin, get_type_hints

import yaml
from docstring_parser import parse as parse_docstring

from capscore.errors import CapscoreError, OptionError, Setting, file_errors_named, message_of

Settings = TypeVar("Settings")

# Options of the library → the settings that recipes have for them.
_NAMES = {
    "path": ("data", "input"),
    "backbone": ("base", "teacher"),
    "images": ("image_dir",),
    "output": ("out",),
    "cache": ("features",),
}
# Types of settings, as messages call them.
_WORDS: dict[object, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}
_SWITCHES = {"true": True, "yes": True, "false": False, "no": False}


def parse(settings: type[Settings], argv: Sequence[str] | None, description: str) -> Settings:
    """Settings from a command line and the YAML file that `--config` names.

    A field of the dataclass is a str, int, float, bool or Literal, a list of one of these, or one of these or
    None, which is written null. `--help` shows what the docstring says under "Attributes:". An OptionError
    names the setting that is unknown, missing, given twice, or has another value than expected.

    >>> from training.engine.loop_settings import LoopSettings
    >>> parse(LoopSettings, ["--out", "runs/a", "--learning_rate", "1e-4"], "An example.").learning_rate
    0.0001
    """
    hints = get_type_hints(settings)
    known = {name: hints[name] for name in _defaults(settings)}
    words = list(sys.argv[1:] if argv is None else argv)
    options = [word.partition("=")[0] for word in words if word.startswith("--")]
    for option in options:
        _require_known(option, [f"--{name}" for name in (*known, "config", "help")])
        if options.count(option) > 1:
            raise OptionError(f"{option} is given twice; write all its values after one")
    given = vars(_parser(settings, known, description).parse_args(words))
    path = given.pop("config", None)
    values = _defaults(settings)
    for where, found in ((f"{path}: ", {} if path is None else read_settings(path)), ("--", given)):
        for key, value in found.items():
            _require_known(key, list(known), where)
            values[str(key)] = _converted(value, known[str(key)], f"{where}{key}")
    if missing := [name for name in known if values[name] is MISSING]:
        hint = f"give --{missing[0]}, or a line '{missing[0]}: …' in the file"
        raise OptionError(f"no {', no '.join(missing)}: {hint}")
    try:
        return settings(**values)
    except CapscoreError as error:
        raise OptionError(*error.parts) from None


def read_settings(path: str | Path) -> dict[object, object]:
    """The mapping in a YAML file; an empty one for an empty file. An OptionError says what else it is."""
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
        raise OptionError(f"the config {path} is not YAML: {message_of(error)}") from None
    if not isinstance(content, dict | None):
        raise OptionError(f"the config {path} holds {content!r:.60}; expected lines such as 'epochs: 5'")
    return content or {}


def main(recipe: Callable[[], None], settings: type | None = None) -> None:
    """Run a recipe as a command: an expected error is one message on stderr, with options of `settings`.

    Exit status 2 where an option is wrong, 1 for other errors, 130 after Ctrl-C.
    """
    spell = as_flag if settings is None else _spelling(settings)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        with file_errors_named():
            recipe()
    except CapscoreError as error:
        print(f"error: {error.spelled(spell)}", file=sys.stderr)
        raise SystemExit(2 if isinstance(error, OptionError) or error.option else 1) from error
    except KeyboardInterrupt:
        print("interrupted; the same command continues the run", file=sys.stderr)
        raise SystemExit(130) from None


def as_flag(setting: Setting) -> str:
    """A setting as the command line of a recipe takes it.

    >>> as_flag(Setting("kinds", ["jumble", "masking"])), as_flag(Setting("dropout", False))
    ('--kinds jumble masking', '--dropout false')
    """
    if setting.value is ...:
        return f"--{setting.name}"
    value = list(setting.value) if isinstance(setting.value, tuple) else setting.value
    return f"--{setting.name} {_shown(value)}"


def _spelling(settings: type) -> Callable[[Setting], str]:
    known = _defaults(settings)

    def spelled(setting: Setting) -> str:
        for name in (setting.name, *_NAMES.get(setting.name, ())):
            if name in known:
                return as_flag(replace(setting, name=name))
        return str(setting)  # of the library in Python alone

    return spelled


def described(settings: type) -> list[tuple[str, str, str]]:
    """Name, default and meaning of each setting of a dataclass, in order."""
    meanings: dict[str, str] = {}
    for parent in reversed(settings.__mro__):
        for entry in parse_docstring(parent.__doc__ or "").params:
            text = " ".join((entry.description or "").split())
            meanings |= dict.fromkeys(entry.arg_name.split(", "), text)
    return [(name, _shown(default), meanings.get(name, "")) for name, default in _defaults(settings).items()]


class _Loader(yaml.SafeLoader):
    """The safe loader without aliases, a few lines of which fill any memory, and without repeated keys."""

    def compose_node(self, parent: object, index: object) -> object:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark
            raise yaml.composer.ComposerError(None, None, "it has an alias", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, object]:
        seen: list[object] = []
        for key, _ in node.value:
            if key.value in seen:
                problem = f"{key.value!s:.60} stands there twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.append(key.value)
        return super().construct_mapping(node, deep)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise OptionError(message.removeprefix("argument "))


def _parser(settings: type, known: dict[str, object], description: str) -> _Parser:
    usage = "%(prog)s [--config FILE] [--setting value …]"
    parser = _Parser(
        usage=usage, description=description, allow_abbrev=False, argument_default=argparse.SUPPRESS
    )
    parser._negative_number_matcher = re.compile(r"-\.?\d")  # -1e-3 too, which argparse takes for an option
    parser.add_argument("--config", metavar="FILE", help="YAML file of settings; the command line wins")
    for name, default, meaning in described(settings):
        nargs = "+" if any(get_origin(part) is list for part in _parts(known[name])) else None
        text = f"{meaning} Must be given."
        if default != _shown(MISSING):
            text = f"{meaning} Expected: {_expected(known[name])}; default: {default}"
        parser.add_argument(f"--{name}", nargs=nargs, metavar="…", help=text.replace("%", "%%"))
    return parser


def _converted(value: object, kind: object, name: str) -> object:
    """A value of YAML, or a word of the command line, as its type; the error begins with `name`."""
    if type(None) in _parts(kind) and value in (None, "null", ["null"]):
        return None
    for part in _parts(kind):
        if get_origin(part) is list and isinstance(value, list):
            return [_converted(entry, get_args(part)[0], name) for entry in value]
        word = "no" if value is False else value  # YAML reads a bare no as false
        if get_origin(part) is Literal and word in get_args(part):
            return word
        if part is bool and isinstance(value, bool | str) and str(value).lower() in _SWITCHES:
            return _SWITCHES[str(value).lower()]
        if part is str and isinstance(value, str):
            return value
        if isinstance(value, bool):
            continue
        with contextlib.suppress(ValueError, OverflowError):
            if part is int and isinstance(value, int | str):
                return int(value)
            if part is float and isinstance(value, int | float | str):
                return float(value)
    raise OptionError(f"{name} is {value!r:.60}; expected {_expected(kind)}")


def _expected(kind: object) -> str:
    """What a value of a type looks like.

    >>> _expected(list[int] | None), _expected(Literal["no", "bf16"])
    ('a list, each a whole number, or null', 'no or bf16')
    """
    words: list[str] = []
    for part in _parts(kind):
        if get_origin(part) is Literal:
            words += map(str, get_args(part))
        elif get_origin(part) is list:
            words.append(f"a list, each {_WORDS[get_args(part)[0]]},")
        else:
            words.append(_WORDS[part])
    return " or ".join(words).removesuffix(",")


def _require_known(name: object, known: Sequence[str], where: str = "") -> None:
    if name not in known:
        hint = f"known are {', '.join(known)}"
        for near in difflib.get_close_matches(f"{name!s:.100}", known, n=1, cutoff=0.7):
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
