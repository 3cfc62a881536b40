"""A YAML file and a command line → a recipe's settings, an instance of its dataclass, by jsonargparse.

The command line wins over the file, and the file over the dataclass's defaults.
"""

from __future__ import annotations

import argparse
import difflib
import re
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import yaml
from docstring_parser import parse as parse_docstring
from jsonargparse import ActionYesNo, ArgumentParser

from capscore.errors import CapscoreError, InputError, OptionError, Setting

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
    known = {field.name: hints[field.name] for field in fields(settings)}  # type: ignore[arg-type]
    parser = _parser(settings, known, description)
    of_file = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    of_file.add_argument("--config")
    words = [_underscored(word) for word in (sys.argv[1:] if argv is None else argv)]
    for name, kind in known.items():
        if _item(kind) is not None and words.count(f"--{name}") > 1:
            raise OptionError(f"--{name} is given twice; write all its values behind one")
    try:
        config = of_file.parse_known_args(words)[0].config
        if config is not None:
            parser.set_defaults(_of_file(parser, Path(config), known))
        found = vars(parser.parse_args(words))
    except OptionError:
        raise
    except Exception as error:  # of jsonargparse, or of a converter that it calls
        raise OptionError(_said(error, [f"--{name}" for name in (*known, "config")])) from None
    found.pop("config")
    missing = [name for name, kind in known.items() if found[name] is None and not _may_be_none(kind)]
    if missing:
        raise OptionError(
            f"no {', no '.join(missing)}: give --{missing[0]}, or a line '{missing[0]}: …' in the file"
        )
    return settings(**found)


def read_settings(path: str | Path) -> dict[Any, Any]:
    """The mapping in a YAML file; an empty one for an empty file.

    Raises:
        OptionError: the file cannot be read, is not YAML, has a tag that makes an object, an alias or a name
            that appears twice, or holds something else than a mapping.
    """
    try:
        file = Path(path).expanduser()
        if file.exists() and not file.is_file():
            raise OptionError(f"the config {path} is not a file")
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise OptionError(f"the config {path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise OptionError(f"the config {path} is not YAML: {error}; expected UTF-8") from None
    except (RuntimeError, ValueError) as error:  # no such user's folder; a path that no file can have
        raise OptionError(f"the config {str(path)!r} cannot be read: {error}") from None
    try:
        content = yaml.load(text, _Loader)
    except Exception as error:  # PyYAML lets pass what is raised when it makes numbers and dates
        raise OptionError(f"the config {path} is not YAML: {' '.join(str(error).split())[:300]}") from None
    if not isinstance(content, dict | None):
        raise OptionError(f"the config {path} holds {content!r:.60}; expected lines such as 'epochs: 5'")
    return content or {}


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
    """Run a recipe as a command: an expected error is one message on stderr.

    Exit status 2 where an option is wrong, 1 for other errors, 130 after Ctrl-C.
    """
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        recipe()
    except CapscoreError as error:
        print(f"error: {error.spelled(as_flag)}", file=sys.stderr)
        raise SystemExit(2 if isinstance(error, OptionError) or error.option else 1) from error
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
    meanings: dict[str, str] = {}
    for parent in reversed(settings.__mro__):
        for entry in parse_docstring(parent.__doc__ or "").params:
            text = " ".join((entry.description or "").split())
            meanings |= dict.fromkeys(entry.arg_name.split(", "), text)
    return [
        (field.name, _shown_default(_default(field)), meanings.get(field.name, ""))
        for field in fields(settings)  # type: ignore[arg-type]
    ]


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader without aliases, a few lines of which fill any memory, and names given twice."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()
            raise yaml.composer.ComposerError(None, None, f"*{event.anchor} is an alias", event.start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        names = [str(name.value) for name, _ in node.value]
        for index, (name, _) in enumerate(node.value):
            if names[index] in names[:index]:
                said = f"{names[index]!r:.60} appears twice"
                raise yaml.constructor.ConstructorError(None, None, said, name.start_mark)
        return super().construct_mapping(node, deep)


def _parser(settings: type, known: dict[str, Any], description: str) -> ArgumentParser:
    usage = "%(prog)s [--config FILE] [--setting value …]"
    parser = ArgumentParser(usage=usage, description=description, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--config", metavar="FILE", help="YAML file of settings; the command line wins")
    for field, (name, _, meaning) in zip(fields(settings), described(settings), strict=True):
        default = _default(field)
        if default is MISSING:
            default, meaning = None, f"{meaning} Must be given."
        options: dict[str, Any] = {"default": default, "type": known[name]}
        if known[name] is bool:
            options = {"default": default, "action": ActionYesNo(no_prefix="no_"), "nargs": "?"}
        elif (item := _item(known[name])) is not None:
            options |= {"type": item, "nargs": "+"}
        parser.add_argument(f"--{name}", help=meaning, **options)
    return parser


def _of_file(parser: ArgumentParser, path: Path, known: dict[str, Any]) -> dict[str, Any]:
    """The settings of a file, converted and checked one by one, so that an error names its setting."""
    found: dict[str, Any] = {}
    for name, value in read_settings(path).items():
        if value is False and "no" in get_args(known.get(name)):  # YAML reads a bare no as false
            value = "no"
        if name not in known:
            raise OptionError(f"{path}: {_unknown(name, list(known))}")
        try:
            found |= vars(parser.parse_object({name: value}, defaults=False))
        except Exception as error:  # of jsonargparse, or of a converter that it calls
            raise OptionError(f"{path}: {name} is {value!r:.60}: {_said(error, [])}") from None
    return found


def _said(error: Exception, known: Sequence[str]) -> str:
    """What jsonargparse says, in one line."""
    said = re.sub(r"<class '(\w+)'>", r"\1", " ".join(str(error).split()))
    said = re.sub(r'^Parser key "(\w+)"', r"--\1", said)
    unknown = re.match(r"unrecognized arguments: ([^\s=]*)", said)
    return _unknown(unknown[1], known) if unknown else f"{said:.300}"


def _unknown(name: Any, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(f"{name:.100}" if isinstance(name, str) else "", known, n=1)
    hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(known)}"
    return f"unknown setting {name!s:.60}{hint}"


def _underscored(word: str) -> str:
    """An option that is written with dashes, with underscores."""
    name, sign, value = word.partition("=")
    return f"--{name[2:].replace('-', '_')}{sign}{value}" if name.startswith("--") else word


def _parts(kind: Any) -> tuple[Any, ...]:
    """The types that a value may have."""
    return (kind,) if get_origin(kind) in (list, Literal) or not get_args(kind) else get_args(kind)


def _may_be_none(kind: Any) -> bool:
    return type(None) in _parts(kind)


def _item(kind: Any) -> Any:
    """Type of the items of a list; None for what is no list."""
    return next((get_args(part)[0] for part in _parts(kind) if get_origin(part) is list), None)


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _shown_default(default: Any) -> str:
    if default is MISSING:
        return "must be given"
    if isinstance(default, list):
        return " ".join(map(str, default)) or "empty"
    return str(default).lower() if default is None or isinstance(default, bool) else str(default) or "empty"
