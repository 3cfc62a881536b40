"""The rows that a scorer is given: texts are checked here, images are not opened yet."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ..errors import InputError, OptionError, Setting
from ..text.languages import language_code

Fail = Callable[[int, InputError], None]

# arguments of `score`, and of a module's `compute`, that a name may be a misspelling of
_ARGUMENTS = ("predictions", "candidates", "images", "references", "language", "on_error", "per_row")


@dataclass(frozen=True)
class ExtraColumn:
    """A column that only some metrics take. Rows may come without it, or with None in it.

    Attributes:
        name: Name of the argument of `score` that takes it.
        values: Name of its values, in the plural, such as "lists of boxes".
        type: Type of the column, as the modules describe it.
        help: Description for the modules, without a full stop.
    """

    name: str
    values: str
    type: str
    help: str


class Reader(Protocol):
    """What `check_rows` needs to know about a scorer."""

    @property
    def metric(self) -> str: ...
    @property
    def needs_images(self) -> bool: ...
    @property
    def needs_references(self) -> bool: ...
    @property
    def extra_columns(self) -> tuple[ExtraColumn, ...]: ...
    @property
    def empty(self) -> str: ...
    @property
    def scores_empty_references(self) -> bool: ...

    def language_problem(self, code: str) -> str:
        """Why no row in a language can be scored; "" if it can."""


@dataclass
class InputRows:
    """n rows whose texts have been checked.

    Attributes:
        candidates: n captions; "" for one that is empty.
        images: n images, not opened yet; None if none were given.
        references: n lists of references, or None for a metric that uses none.
        languages: n primary subtags; "" for a language that is not stated.
        n_references: int64 (n,), number of references per row.
        failures: Row → what is wrong with it; without entries with on_error="raise".
        empty: bool (n,), True where the caption is empty.
        skips_empty: Whether rows with an empty caption are left out.
        extra: Name of an extra column → its n values, not checked yet; without columns that were not given.
    """

    candidates: list[str]
    images: Any
    references: list[list[str]] | None
    languages: list[str]
    n_references: np.ndarray
    failures: dict[int, InputError]
    empty: np.ndarray
    skips_empty: bool = False
    extra: dict[str, list[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.candidates)

    def kept(self) -> np.ndarray:
        """bool (n,), True where nothing is wrong so far, and the caption is not left out as empty."""
        kept = ~self.empty if self.skips_empty else np.ones(len(self), dtype=bool)
        kept[list(self.failures)] = False
        return kept

    def left_out(self) -> set[int]:
        """The rows that are not scored, so far."""
        return set(np.flatnonzero(~self.kept()).tolist())

    def texts(self, kept: np.ndarray, *, with_references: bool) -> tuple[list[str], np.ndarray]:
        """Candidates of the kept rows, then all their references; and the row of each reference."""
        rows = np.flatnonzero(kept).tolist()
        texts = [self.candidates[row] for row in rows]
        owners: list[int] = []
        if with_references and self.references is not None:
            for row in rows:
                texts.extend(self.references[row])
                owners.extend([row] * len(self.references[row]))
        return texts, np.array(owners, dtype=np.int64)


def check_rows(
    reader: Reader,
    candidates: Iterable[str],
    images: Any,
    references: Iterable[Sequence[str]] | None,
    language: str | Iterable[str] | None,
    on_error: str,
    extra: Mapping[str, Iterable[Any] | None] | None = None,
) -> InputRows:
    """Check what `Scorer.score` was given; no image is opened.

    Args:
        reader: Scorer that will read the rows.
        candidates, images, references, language, on_error: As in `Scorer.score`.
        extra: Further columns by name; None for one that was not given.

    Raises:
        InputError: lists of different lengths, an unknown `on_error`; with "raise", the first bad row; an
            empty caption, unless the reader scores or skips them.
        OptionError: an extra column that the metric does not have.
    """
    from ..images.sequence import check_images

    if on_error not in ("raise", "skip"):
        raise InputError(Setting("on_error", on_error), ": expected 'raise' or 'skip'")
    check_column_names(reader.metric, reader.extra_columns, extra or {})
    captions = _as_list(candidates, "candidates", "captions")
    if not captions:
        raise InputError("there are no rows: candidates is empty", field="candidates")
    if images is not None:
        images = check_images(images)
        _same_length("images", len(images), captions)
    _check_inputs(reader, images, references)
    failures: dict[int, InputError] = {}

    def fail(row: int, error: InputError) -> None:
        if on_error == "raise":
            raise error.at(row)
        failures.setdefault(row, error.at(row))

    empty = _take_out_empty(captions, reader.empty, fail)
    lists = None
    if references is not None:
        lists = _reference_lists(references, captions, reader.scores_empty_references, fail)
    n_references = np.array([len(texts) for texts in lists or [[]] * len(captions)], dtype=np.int64)
    codes = _languages(language, captions, fail)
    problems = {code: reader.language_problem(code) for code in dict.fromkeys(codes)}
    if any(problems.values()):
        for row, code in enumerate(codes):
            if problems[code]:
                fail(row, InputError(problems[code], field="language"))
    columns = _extra_lists(reader.extra_columns, extra or {}, len(captions))
    empty[list(failures)] = False  # each row is counted once
    return InputRows(
        captions, images, lists, codes, n_references, failures, empty, reader.empty == "skip", columns
    )


def _check_inputs(reader: Reader, images: Any, references: Any) -> None:
    """Check that a metric gets the images and references that it reads."""
    if images is None and reader.needs_images:
        raise InputError(f"{reader.metric} looks at images, but images=None", field="images")
    if references is None and reader.needs_references:
        instead = "; without references use 'clip_score' or 'mcs'" if reader.needs_images else ""
        raise InputError(
            f"{reader.metric} compares with references, but references=None{instead}", field="references"
        )
    if references is not None and not reader.needs_references:
        raise InputError(
            f"{reader.metric} takes no references; leave them out, or use 'ref_clip_score'",
            field="references",
        )


def _reference_lists(references: Any, captions: list[Any], may_be_empty: bool, fail: Fail) -> list[list[str]]:
    """The references of each row; [] for a row whose references are bad."""
    given = _as_list(references, "references", "lists of references")
    _same_length("references", len(given), captions)
    lists = []
    for row, texts in enumerate(given):
        checked = _check_references(texts, may_be_empty=may_be_empty)
        if isinstance(checked, InputError):
            fail(row, checked)
            checked = []
        lists.append(checked)
    return lists


def _extra_lists(
    columns: Sequence[ExtraColumn], extra: Mapping[str, Iterable[Any] | None], n_rows: int
) -> dict[str, list[Any]]:
    """The extra columns that were given, as lists."""
    found = {}
    for column in columns:
        values = extra.get(column.name)
        if values is not None:
            found[column.name] = _as_list(values, column.name, f"{column.values}, one per row")
            if len(found[column.name]) != n_rows:
                raise InputError(
                    f"{len(found[column.name])} {column.values} for {n_rows} candidates", field=column.name
                )
    return found


def check_column_names(metric: str, columns: Sequence[ExtraColumn], extra: Mapping[str, Any]) -> None:
    """Check that a metric has the extra columns that were given.

    Args:
        metric: Name of the metric.
        columns: Extra columns that it has.
        extra: What was given, by name; None counts as not given.

    Raises:
        OptionError: the metric does not have one of them.
    """
    names = [column.name for column in columns]
    for name, values in extra.items():
        if name not in names and values is not None:
            close = difflib.get_close_matches(name, [*names, *_ARGUMENTS], n=1)
            known = f"; did you mean {close[0]}?" if close else ""
            if names and not close:
                known = f"; its rows may have {', '.join(names)}"
            raise OptionError(f"{metric} takes no {name}{known}", field=name)


def check_captions(
    candidates: Iterable[str], language: str | Iterable[str] | None
) -> tuple[list[str], list[str]]:
    """Captions without images of their own, and their languages ("" if not stated).

    Raises:
        InputError: not a list, an empty list, or the first bad caption or language.
    """
    captions = _as_list(candidates, "candidates", "captions")
    if not captions:
        raise InputError("there are no captions: candidates is empty", field="candidates")

    def fail(row: int, error: InputError) -> None:
        raise error.at(row)

    _check_each(captions, fail)
    return captions, _languages(language, captions, fail)


def is_empty(text: Any) -> bool:
    """Whether a text has no visible character: "", blanks, or signs such as a zero-width space.

    >>> is_empty(" \\u3000\\u200b"), is_empty("."), is_empty(None)
    (True, False, False)
    """
    return isinstance(text, str) and not any(sign.isprintable() and sign != " " for sign in text)


def empty_caption(text: str) -> InputError:
    """The error about an empty caption where nothing says what to do with it; without its row."""
    return InputError(
        f"expected a caption, got {_text_problem(text)}; ",
        Setting("empty", "score"),
        " scores it as text without words, ",
        Setting("empty", "skip"),
        " leaves it out of the mean and counts it",
        field="candidate",
    )


def _take_out_empty(captions: list[Any], empty: str, fail: Fail) -> np.ndarray:
    """Check captions, write "" for empty ones, and mark those: bool (n,)."""
    marks = np.zeros(len(captions), dtype=bool)
    # nearly all captions are plain, and one look at each is quick
    for row in [row for row, caption in enumerate(captions) if not _is_plain(caption)]:
        caption = captions[row]
        if is_empty(caption) and not _is_broken(caption):
            if empty == "raise":
                # not left to on_error: a system must not gain by saying nothing
                raise empty_caption(caption).at(row)
            captions[row] = ""
            marks[row] = True
            continue
        problem = _text_problem(caption)
        if problem:
            fail(row, InputError(f"expected a caption, got {problem}", field="candidate"))
    return marks


def _is_plain(text: Any) -> bool:
    """Whether a text is certainly a caption: it begins with a letter or digit, and can be encoded."""
    return type(text) is str and text[:1].isalnum() and (text.isascii() or not _is_broken(text))


def _check_each(captions: Iterable[Any], fail: Fail) -> None:
    for row, caption in enumerate(captions):
        problem = _text_problem(caption)
        if problem:
            fail(row, InputError(f"expected a caption, got {problem}", field="candidate"))


def _as_list(values: Any, name: str, what: str) -> list[Any]:
    if isinstance(values, (str, bytes)):
        raise InputError(f"{name}={values!r:.60} is one string; pass a list of {what}", field=name)
    columns = getattr(values, "column_names", None) or getattr(values, "columns", None)
    if columns is not None and not isinstance(values, Mapping):
        raise InputError(
            f"{name} is a table ({type(values).__name__}); pass one of its columns: "
            f"{', '.join(map(str, columns))}",
            field=name,
        )
    if hasattr(values, "to_pylist"):  # a column of Arrow
        return values.to_pylist()
    if isinstance(values, (Mapping, Set)) or not hasattr(values, "__iter__") or _is_scalar_array(values):
        order = ", which has no order" if isinstance(values, Set) else ""
        raise InputError(f"{name} is a {type(values).__name__}{order}; pass a list of {what}", field=name)
    return list(values)


def _is_scalar_array(values: Any) -> bool:
    return getattr(values, "ndim", None) == 0


def _is_missing(value: Any) -> bool:
    # pandas may not be installed, so its NA is known by the name of its type
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or type(value).__name__ == "NAType"


def _same_length(name: str, length: int, captions: list[Any]) -> None:
    if length != len(captions):
        raise InputError(
            f"{len(captions)} candidates but {length} {name}: every candidate needs its own "
            f"{name.removesuffix('s')}{' list' if name == 'references' else ''}",
            field=name,
        )


def _text_problem(text: Any) -> str | None:
    """What is wrong with a caption, or None."""
    if text is None:
        return "None"
    if isinstance(text, str):
        if _is_broken(text):
            return f"{text!r:.60}, which holds half a surrogate pair (text decoded wrongly)"
        if not text.strip():
            return f"an empty string ({text!r:.60})" if text else "an empty string"
        if is_empty(text):
            return f"{text!r:.60}, which has no visible character"
        return None
    if _is_missing(text):
        return f"{'NaN' if isinstance(text, float) else text} (a missing value)"
    try:
        return f"{text!r:.60} ({type(text).__name__})"
    except ValueError:  # Python does not print numbers of thousands of digits
        return f"a very large number ({type(text).__name__})"


def _is_broken(text: str) -> bool:
    """Whether a text holds half a surrogate pair."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _check_references(texts: Any, *, may_be_empty: bool = False) -> list[str] | InputError:
    if isinstance(texts, (str, bytes)):
        kind = "string" if isinstance(texts, str) else "bytes"
        return InputError(
            f"expected a list of references, got the bare {kind} {texts!r:.60}; write [{texts!r:.40}]",
            field="references",
        )
    if _is_missing(texts):
        return InputError("expected a list of references, got none", field="references")
    if hasattr(texts, "to_pylist"):
        texts = texts.to_pylist()
    if isinstance(texts, Mapping) or not hasattr(texts, "__iter__") or _is_scalar_array(texts):
        return InputError(
            f"expected a list of references, got {texts!r:.60} ({type(texts).__name__})", field="references"
        )
    texts = list(texts)
    if not texts:
        return InputError("expected at least one reference, got an empty list", field="references")
    for position, text in enumerate(texts):
        if may_be_empty and is_empty(text) and not _is_broken(text):
            texts[position] = ""
            continue
        problem = _text_problem(text)
        if problem:
            return InputError(f"reference {position} is {problem}, expected a caption", field="references")
    return texts


def _languages(language: Any, captions: list[Any], fail: Fail) -> list[str]:
    if language is None:
        return [""] * len(captions)
    if isinstance(language, str):
        return [language_code(language)] * len(captions)
    if not hasattr(language, "__iter__"):
        raise InputError(
            f"language is {language!r:.60} ({type(language).__name__}); pass a language code, or one per row",
            field="language",
        )
    given = _as_list(language, "language", "language codes")
    if len(given) != len(captions):
        raise InputError(
            f"{len(captions)} candidates but {len(given)} language codes: pass one for all, or one per row",
            field="language",
        )
    codes = []
    known: dict[str, str] = {}
    for row, tag in enumerate(given):
        if type(tag) is str and tag in known:
            codes.append(known[tag])
            continue
        try:
            code = "" if _is_missing(tag) or tag == "" else language_code(tag)
            if type(tag) is str:
                known[tag] = code
            codes.append(code)
        except InputError as error:
            fail(row, error)
            codes.append("")
    return codes
