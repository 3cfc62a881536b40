"""A YAML file of settings → its mapping, from safe tags only and within limits.

Settings are short and flat. So a file may have one megabyte and few levels, no alias (nested aliases make a
file of a few lines fill any memory), and no name twice.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from capscore.errors import CapscoreError

MOST_BYTES = 2**20
MOST_LEVELS = 8


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader without aliases, deep nesting and names that appear twice."""

    _level = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()
            raise yaml.composer.ComposerError(
                None, None, f"*{event.anchor} is an alias; write the value itself", event.start_mark
            )
        if self._level >= MOST_LEVELS:
            mark = self.peek_event().start_mark
            raise yaml.composer.ComposerError(None, None, f"more than {MOST_LEVELS} levels", mark)
        self._level += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._level -= 1

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen = set()
        for name, _ in node.value:
            if (name.tag, str(name.value)) in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{str(name.value)!r:.60} appears twice", name.start_mark
                )
            seen.add((name.tag, str(name.value)))
        return super().construct_mapping(node, deep)


def read_settings(path: str | Path) -> dict[Any, Any]:
    """The mapping in a YAML file; an empty one for an empty file.

    Raises:
        CapscoreError: the file cannot be read, is too large, is not YAML, has a tag that makes an object, an
            alias, a name that appears twice or too many levels, or holds something else than a mapping.
    """
    content = _parsed(path, _text(path))
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise CapscoreError(f"the config {path} holds {kind_of(content)}; expected lines such as 'epochs: 5'")
    return content


def kind_of(value: Any) -> str:
    """A value in an error: "a mapping", "a list", or its beginning."""
    words = {dict: "a mapping", list: "a list", str: f"the text {shown(value)}"}
    return words.get(type(value)) or shown(value)


def shown(value: Any) -> str:
    """The beginning of a value in an error."""
    try:
        return f"{value!r:.60}"
    except ValueError:  # Python does not print numbers of thousands of digits
        return f"a {type(value).__name__} with a very large number"


def _text(path: str | Path) -> str:
    try:
        file = Path(path).expanduser()
        if file.exists() and not file.is_file():
            raise CapscoreError(f"the config {path} is not a file")
        with open(file, "rb") as stream:
            content = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise CapscoreError(f"the config {path} cannot be read: {error.strerror or error}") from error
    except (RuntimeError, ValueError) as error:  # no such user's folder; a path that no file can have
        raise CapscoreError(f"the config {str(path)!r} cannot be read: {error}") from error
    if len(content) > MOST_BYTES:
        raise CapscoreError(f"the config {path} has more than {MOST_BYTES:,} bytes; expected a few lines")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CapscoreError(f"the config {path} is not YAML: {error}; expected UTF-8") from error


def _parsed(path: str | Path, text: str) -> Any:
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"
        problem = ", ".join(part for part in (error.context, error.problem) if part)
        raise CapscoreError(f"the config {path}{place} is not YAML: {_line(problem)}") from error
    except yaml.YAMLError as error:
        raise CapscoreError(f"the config {path} is not YAML: {_line(str(error))}") from error
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        # PyYAML lets pass what is raised when it makes numbers and dates
        raise CapscoreError(
            f"the config {path} has a value that cannot be read: {_line(str(error))}"
        ) from error


def _line(text: str) -> str:
    """An error of PyYAML on one line."""
    return " ".join(text.split())[:300]
