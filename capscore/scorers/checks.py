"""What a person hands a scorer → rows of text that have been checked, and what is wrong with the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..text.languages import language_code

if TYPE_CHECKING:
    from .base import Scorer

Fail = Callable[[int, InputError], None]


@dataclass
class CheckedRows:
    """Rows whose texts have been checked.

    Attributes:
        candidates: n captions.
        images: n images, not opened yet; None where none were given.
        references: n lists of references, or None for a metric that uses none.
        languages: primary subtag a row; "" if none was given.
        n_references: int64 (n,).
        failures: row → what is wrong with it; empty with on_error="raise".
        boxes: n lists of boxes, not checked yet; None where none were given.
    """

    candidates: list[str]
    images: Any
    references: list[list[str]] | None
    languages: list[str]
    n_references: np.ndarray
    failures: dict[int, InputError]
    boxes: list[Any] | None = None

    def __len__(self) -> int:
        return len(self.candidates)

    def kept(self) -> np.ndarray:
        """bool (n,), True where nothing is wrong so far."""
        kept = np.ones(len(self), dtype=bool)
        kept[list(self.failures)] = False
        return kept

    def texts(self, kept: np.ndarray, *, with_references: bool) -> tuple[list[str], np.ndarray]:
        """Candidates of the kept rows, then all their references; and each reference's row."""
        rows = np.flatnonzero(kept)
        texts = [self.candidates[row] for row in rows]
        owners: list[int] = []
        if with_references and self.references is not None:
            for row in rows:
                texts.extend(self.references[row])
                owners.extend([row] * len(self.references[row]))
        return texts, np.array(owners, dtype=np.int64)


def check_rows(
    scorer: Scorer,
    candidates: Iterable[str],
    images: Any,
    references: Iterable[Sequence[str]] | None,
    language: str | Iterable[str] | None,
    on_error: str,
) -> CheckedRows:
    """Check what `Scorer.score` was given; no image is opened.

    Raises:
        InputError: lists of different lengths, an unknown `on_error`, or, with "raise", the first bad row.
    """
    from ..images.sequence import check_images

    if on_error not in ("raise", "skip"):
        raise InputError(f"on_error={on_error!r}: expected 'raise' or 'skip'")
    captions = _as_list(candidates, "candidates", "captions")
    if not captions:
        raise InputError("there are no rows: candidates is empty", field="candidates")
    if images is None and scorer.needs_images:
        raise InputError(f"{scorer.metric} looks at images, and images=None", field="images")
    if images is not None:
        images = check_images(images)
        _same_length("images", len(images), captions)

    if references is None and scorer.needs_references:
        instead = "; without references use 'clip_score' or 'mcs'" if scorer.needs_images else ""
        raise InputError(
            f"{scorer.metric} compares with references, and references=None{instead}", field="references"
        )
    if references is not None and not scorer.needs_references:
        raise InputError(
            f"{scorer.metric} takes no references; leave them out, or use 'ref_clip_score'",
            field="references",
        )
    failures: dict[int, InputError] = {}

    def fail(row: int, error: InputError) -> None:
        if on_error == "raise":
            raise error.at(row)
        failures.setdefault(row, error.at(row))

    _check_each(captions, fail)
    lists: list[list[str]] | None = None
    n_references = np.zeros(len(captions), dtype=np.int64)
    if references is not None:
        given = _as_list(references, "references", "lists of references")
        _same_length("references", len(given), captions)
        lists = []
        for row, texts in enumerate(given):
            checked = _check_references(texts)
            if isinstance(checked, InputError):
                fail(row, checked)
                checked = []
            lists.append(checked)
            n_references[row] = len(checked)
    codes = _languages(language, captions, fail)
    problems = {code: scorer.language_problem(code) for code in dict.fromkeys(codes)}
    if any(problems.values()):
        for row, code in enumerate(codes):
            if problems[code]:
                fail(row, InputError(problems[code], field="language"))
    return CheckedRows(captions, images, lists, codes, n_references, failures)


def check_captions(
    candidates: Iterable[str], language: str | Iterable[str] | None
) -> tuple[list[str], list[str]]:
    """Captions without an image of their own, and their languages ("" where none was given).

    Raises:
        InputError: no list, an empty one, or the first bad caption or language.
    """
    captions = _as_list(candidates, "candidates", "captions")
    if not captions:
        raise InputError("there are no captions: candidates is empty", field="candidates")

    def fail(row: int, error: InputError) -> None:
        raise error.at(row)

    _check_each(captions, fail)
    return captions, _languages(language, captions, fail)


def _check_each(captions: Iterable[Any], fail: Fail) -> None:
    for row, caption in enumerate(captions):
        problem = _text_problem(caption)
        if problem:
            fail(row, InputError(f"expected a caption, got {problem}", field="candidate"))


def check_boxes_column(boxes: Iterable[Any] | None, n_rows: int) -> list[Any] | None:
    """One list of boxes a row, or None for it; the boxes themselves are looked at with their image.

    Raises:
        InputError: it is not a list, or of another length.
    """
    if boxes is None:
        return None
    listed = _as_list(boxes, "boxes", "lists of boxes, one a row")
    if len(listed) != n_rows:
        raise InputError(f"{len(listed)} lists of boxes for {n_rows} candidates", field="boxes")
    return listed


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
    # by its type's name, as pandas need not be there; this is asked of every row
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
        if not text.strip():
            return f"an empty string ({text!r})" if text else "an empty string"
        if not any(map(str.isprintable, text)):
            return f"{text!r:.60}, which has nothing to see in it"
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            return f"{text!r:.60}, which holds half a surrogate pair (a text decoded wrongly)"
        return None
    if _is_missing(text):
        return f"{'NaN' if isinstance(text, float) else text} (a missing value)"
    return f"{text!r:.60} ({type(text).__name__})"


def _check_references(texts: Any) -> list[str] | InputError:
    if isinstance(texts, str):
        return InputError(
            f"expected a list of references, got the bare string {texts!r:.60}; write [{texts!r:.40}]",
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
            f"language is {language!r:.60} ({type(language).__name__}); pass a language code, or one a row",
            field="language",
        )
    given = _as_list(language, "language", "language codes")
    if len(given) != len(captions):
        raise InputError(
            f"{len(captions)} candidates but {len(given)} language codes: pass one for all, or one a row",
            field="language",
        )
    codes = []
    for row, tag in enumerate(given):
        try:
            codes.append("" if _is_missing(tag) or tag == "" else language_code(tag))
        except InputError as error:
            fail(row, error)
            codes.append("")
    return codes
