"""The errors and warnings of capscore: each error says what was given, what was expected, and in which row.

A message may mention options. They are `Setting`s in it, not text, so that each interface spells them in its
own way: Python `n_regions=0`, the command line `--n-regions 0`.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

# C0, C1, separators of lines, overrides of writing direction, halves of surrogate pairs
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
_BREAK = re.compile("\\s*[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\\s*")
# up to the sign that closes it in a message
_ADDRESS = re.compile(r"(?:\b[a-z][a-z0-9+.-]+:[/\\]{2}|\bhttps?:[/\\])[^\s'\"<>`]+", re.IGNORECASE)
_PARTS = re.compile(r"(\s*[a-z][a-z0-9+.-]+:[/\\]+)([^?#]*)([?#]?)(.*)", re.IGNORECASE | re.DOTALL)


def visible(text: str, *, keep: str = "") -> str:
    r"""A text in which every character that could control a terminal is written as its escape.

    >>> print(visible("a\x1b[31mb\nc\u202ed"))
    a\x1b[31mb\nc\u202ed
    """

    def escape(found: re.Match[str]) -> str:
        if found[0] in keep:
            return found[0]
        return found[0].encode("unicode_escape", "surrogatepass").decode("ascii")

    return _CONTROLS.sub(escape, text)


_LONG = re.compile(r"(\S{300})\S{700,}")


def in_one_line(text: str) -> str:
    r"""A message as it may be shown: in one line, without control characters and secrets of addresses.

    Of a word of more than 1,000 signs, as a value that was given, the first 300 are shown.

    >>> print(in_one_line("no file 'a\nb', \x1b[31mand http://x.org/?key=1"))
    no file 'a b', \x1b[31mand http://x.org/?…
    """
    return visible(_LONG.sub(r"\1…", _BREAK.sub(" ", without_secrets(text))))


def message_of(error: BaseException) -> str:
    """An error's message, or its type if it has none, as the end of another message; cut if very long."""
    message = " ".join(str(error).split()) or type(error).__name__
    return message if len(message) <= 600 else f"{message[:600]}…"


def json_visible(text: str) -> str:
    r"""The same JSON, in which no character controls a terminal; line breaks between values stay."""
    lines = text.split("\n")
    return "\n".join(_CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", line) for line in lines)


def address_name(address: str) -> str:
    """An address without user name, password, query and fragment; any other text as it is.

    >>> address_name("https://me:secret@x.org/a.jpg?token=1"), address_name("a photo.jpg")
    ('https://…@x.org/a.jpg?…', 'a photo.jpg')
    """
    parts = _PARTS.fullmatch(address)
    if parts is None:
        return address
    scheme, place, sign, rest = parts.groups()
    user, at, after = place.rpartition("@")
    # a password may hold a slash or question mark, which end the host for every reader of addresses
    if "@" in rest and (at or ":" in place):
        place = "…"
    elif at and (":" in user or not re.search(r"[/\\]", user)):
        place = f"…@{after}"
    if rest:
        rest = "…"
    return f"{scheme}{place}{sign}{rest}"


def without_secrets(text: str) -> str:
    """A message in which every address is without user name, password, query and fragment.

    >>> without_secrets("no answer from 'ftp://me:secret@x.org/a?b=c'")
    "no answer from 'ftp://…@x.org/a?…'"
    >>> without_secrets("the Hub (http://127.0.0.1:80) is down")
    'the Hub (http://127.0.0.1:80) is down'
    """

    def name(found: re.Match[str]) -> str:
        address = found[0].rstrip(").,;")  # the sentence's own punctuation follows the address
        return address_name(address) + found[0][len(address) :]

    return _ADDRESS.sub(name, text)


@dataclass(frozen=True)
class Setting:
    """An option in a message, with the value that it has or should have.

    >>> str(Setting("n_regions", 0)), str(Setting("force", True)), str(Setting("cache"))
    ('n_regions=0', 'force=True', 'cache')
    """

    name: str
    value: object = ...  # no value

    def __str__(self) -> str:
        if self.value is ...:
            return self.name
        if isinstance(self.value, Path):
            return f"{self.name}={str(self.value)!r}"  # whole: a path is there to be copied
        return f"{self.name}={self.value!r:.60}"


Part = str | Setting
Placed = TypeVar("Placed", bound="InputError")
Spelling = Callable[[Setting], str]


def join_parts(parts: tuple[Part, ...], spell: Spelling = str) -> str:
    """A message's parts as one line that is safe to show, its options spelled by `spell`."""
    return in_one_line("".join(spell(part) if isinstance(part, Setting) else part for part in parts))


class _Message(BaseException):
    """A message of text and of each `Setting` that it mentions."""

    parts: tuple[Part, ...]

    def __init__(self, *parts: Part):
        self.parts = parts
        super().__init__(join_parts(parts))

    def spelled(self, spell: Spelling = str) -> str:
        return join_parts(self.parts, spell)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self.parts


class CapscoreError(_Message, Exception):
    """The base class of every error that capscore raises on purpose."""

    @property
    def option(self) -> str | None:
        """The option at fault: the one that the message begins with, or None."""
        for part in self.parts[:1]:
            if isinstance(part, Setting):
                return part.name
        return None

    def __str__(self) -> str:
        return self.spelled()


class InputError(CapscoreError, ValueError):
    """Input that cannot be scored.

    Args:
        row: 0-based row at fault, or None if no single row is.
        field: Argument at fault, in the words of the field ("image", "candidate", "references").
    """

    def __init__(self, *parts: Part, row: int | None = None, field: str | None = None):
        super().__init__(*parts)
        self.row = row
        self.field = field

    @property
    def message(self) -> str:
        return join_parts(self.parts)

    def spelled(self, spell: Spelling = str) -> str:
        message = join_parts(self.parts, spell)
        has_field = self.field and self.field != self.option  # which the message begins with
        if has_field:
            message = f"{self.field}: {message}"
        if self.row is None:
            return message
        return f"row {self.row}{', ' if has_field else ': '}{message}"

    def message_with_field(self, spell: Spelling = str) -> str:
        """The message with the field before it, for lists that name the row themselves."""
        return type(self)(*self.parts, field=self.field).spelled(spell)

    def at(self: Placed, row: int, field: str | None = None) -> Placed:
        """The same error, placed at a row."""
        return type(self)(*self.parts, row=row, field=field or self.field)

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), row=self.row, field=self.field), self.parts


class OptionError(InputError, TypeError):
    """An option, or a column of rows, that a metric does not take."""


class ImageError(InputError):
    """An image that cannot be read or used."""


def install_command(extra: str) -> str:
    """What a user types to install an extra: from the checkout that this is, or from an index."""
    root = Path(__file__).parents[1]
    if extra == "weights" and (root / "weights" / "pyproject.toml").is_file():
        return "pip install ./weights"
    package = "." if (root / "pyproject.toml").is_file() else "capscore"
    return f"pip install '{package}[{extra}]'"


class MissingExtraError(CapscoreError, ImportError):
    """An optional dependency is not installed; the message names the extra that installs it."""

    def __init__(self, package: str, extra: str, *purpose: Part):
        self.package, self.extra, self.purpose = package, extra, join_parts(purpose)
        super().__init__(
            *purpose, f" needs the package {package!r}, which is not installed: {install_command(extra)}"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.package, self.extra, *self.parts[:-1])


class BackboneUnavailable(CapscoreError, OSError):
    """A backbone's weights are not available; the message says why, and what is available."""


class UnknownBackbone(BackboneUnavailable):
    """A backbone's name can be no name, folder or Hub id."""


class MissingWeightsError(BackboneUnavailable):
    """Weights of a separate distribution are not installed, damaged or of another version."""


class ResultWriteError(CapscoreError, OSError):
    """A result could not be written; no partial file has the result's name."""


@contextmanager
def file_errors_named() -> Iterator[None]:
    """Make an error of the system about a file, such as a name that is too long, one of capscore."""
    try:
        yield
    except OSError as error:
        if isinstance(error, CapscoreError) or error.filename is None:
            raise
        raise CapscoreError(f"{error.filename!s:.200}: {error.strerror}") from error


class CapscoreWarning(_Message, UserWarning):
    """The base class of every warning that capscore gives; `parts` are those of `CapscoreError`."""


class CacheWarning(CapscoreWarning):
    """The embedding cache could not be used; scores are right, only slower."""


class TruncationWarning(CapscoreWarning):
    """Texts were longer than the backbone's context and were cut."""


class CorpusWarning(CapscoreWarning):
    """A metric says little about these rows: they are too few, or too short."""


class LanguageWarning(CapscoreWarning):
    """The backbone was not trained on a language of the rows, or texts are not in the stated language."""


class RecipeWarning(CapscoreWarning):
    """A metric that needs a specially trained text tower was given another one."""


class RegionWarning(CapscoreWarning):
    """No region was found in an image, so nothing in it can be mentioned."""


class RowWarning(CapscoreWarning):
    """Captions, references or photos look wrong; they were scored as they are."""


_TAKES: ContextVar[Callable[[Warning], object] | None] = ContextVar("_TAKES", default=None)


def warn(warning: Warning) -> None:
    """Give a warning at the line of the caller: the nearest one outside capscore.

    `evaluate` and `datasets` count as inside, because they call what capscore defines for them.
    """
    (_TAKES.get() or _give)(warning)


def _give(warning: Warning) -> None:
    frame, inside = sys._getframe(1), ("capscore", "evaluate", "datasets")
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in inside:
        frame = frame.f_back
    warnings.warn_explicit(
        warning,
        type(warning),
        frame.f_code.co_filename,
        frame.f_lineno,
        module=frame.f_globals.get("__name__", "<string>"),
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )


@contextmanager
def warnings_taken() -> Iterator[list[Warning]]:
    """Collect the library's warnings within the block; other threads give theirs, unlike those of the module
    `warnings`, whose filters belong to the process.
    """
    taken: list[Warning] = []
    with _taking(taken.append):
        yield taken


@contextmanager
def without_warnings(*kinds: type[Warning]) -> Iterator[None]:
    """Drop the library's warnings of these kinds within the block, in this thread.

    >>> with warnings_taken() as taken, without_warnings(RowWarning):
    ...     warn(RowWarning("odd"))
    ...     warn(LanguageWarning("unknown"))
    >>> taken
    [LanguageWarning('unknown')]
    """
    others = _TAKES.get() or _give
    with _taking(lambda warning: isinstance(warning, kinds) or others(warning)):
        yield


@contextmanager
def _taking(take: Callable[[Warning], object]) -> Iterator[None]:
    token = _TAKES.set(take)
    try:
        yield
    finally:
        _TAKES.reset(token)
