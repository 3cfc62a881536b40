"""What every scorer shares: rows are checked, embedded and scored; `Scores` holds what came out."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .. import __version__
from ..backbones.base import DTYPES
from ..errors import InputError, LanguageWarning, TruncationWarning
from ..languages import language_code
from ..signature import format_signature

if TYPE_CHECKING:
    from ..backbones.base import Backbone
    from ..embedding import Embedder


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of n rows, and what they depend on.

    Attributes:
        metric: "mcs", "clip_score" or "ref_clip_score".
        scores: float64 (n,); NaN where a row failed.
        components: what only this metric has, float64 (n,) each, such as "clip_score" and "text_score".
        settings: the signature's settings that do not depend on rows.
        image_keys: content key of each row's image; "" where it failed.
        truncated: bool (n,), True where a text of the row was cut to the context length.
        n_references: int64 (n,), references a row.
        languages: primary subtag a row; "" if none was given.
        failures: row → what was wrong with it; empty unless on_error="skip".
    """

    metric: str
    scores: np.ndarray
    components: dict[str, np.ndarray]
    settings: dict[str, object]
    image_keys: list[str]
    truncated: np.ndarray
    n_references: np.ndarray
    languages: list[str]
    failures: dict[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def mean(self) -> float:
        """Mean of the rows that were scored; NaN if none was."""
        return _mean(self.scores)

    @property
    def n_items(self) -> int:
        """Rows handed over, failed ones included."""
        return len(self.scores)

    @property
    def n_unique_images(self) -> int:
        """Images that differ in content, among rows that did not fail."""
        return len({key for key in self.image_keys if key})

    @property
    def n_truncated(self) -> int:
        """Rows with a text that was cut to the context length."""
        return int(self.truncated.sum())

    @property
    def n_failed(self) -> int:
        """Rows that could not be scored."""
        return len(self.failures)

    @property
    def signature(self) -> str:
        """Everything the numbers depend on, in one line."""
        scored = [row for row in range(len(self)) if row not in self.failures]
        counts = {int(self.n_references[row]) for row in scored}
        named = {self.languages[row] for row in scored} or set(self.languages)
        languages = sorted(named, key=lambda language: (not language, language))
        settings: dict[str, object] = {}
        for key, value in self.settings.items():
            settings[key] = value
            if key == "prefix":
                settings["refs"] = counts.pop() if len(counts) == 1 else "var" if counts else 0
                settings["lang"] = "+".join(language or "unstated" for language in languages)
        return format_signature(self.metric, settings)

    @classmethod
    def concatenate(cls, parts: Sequence[Scores]) -> Scores:
        """Scores of consecutive chunks of rows as one; settings must be the same."""
        if not parts:
            raise ValueError("there are no scores to put together")
        first = parts[0]
        if any((part.metric, part.settings) != (first.metric, first.settings) for part in parts):
            raise ValueError("scores with different settings cannot be put together: see their signatures")
        failures, start = {}, 0
        for part in parts:
            failures.update({start + row: message for row, message in part.failures.items()})
            start += len(part)
        return cls(
            metric=first.metric,
            scores=np.concatenate([part.scores for part in parts]),
            components={
                name: np.concatenate([part.components[name] for part in parts]) for name in first.components
            },
            settings=first.settings,
            image_keys=[key for part in parts for key in part.image_keys],
            truncated=np.concatenate([part.truncated for part in parts]),
            n_references=np.concatenate([part.n_references for part in parts]),
            languages=[language for part in parts for language in part.languages],
            failures=failures,
        )

    def summary(self) -> dict[str, Any]:
        """Means, counts and signature, ready for JSON, without anything that grows with the rows.

        Keys: the metric's name (mean), "mean_<component>", "n_items", "n_unique_images", "n_truncated",
        "n_failed" and "signature"; None stands for a mean of nothing.
        """
        return {
            self.metric: _plain(self.mean),
            **{f"mean_{name}": _plain(_mean(values)) for name, values in self.components.items()},
            "n_items": self.n_items,
            "n_unique_images": self.n_unique_images,
            "n_truncated": self.n_truncated,
            "n_failed": self.n_failed,
            "signature": self.signature,
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain floats, lists and strings, ready for JSON; None stands for the score of a failed row.

        Keys: those of `summary`, "scores", one list per component under its name, and "failures" (a list of
        row and error).
        """
        summary = self.summary()
        signature = summary.pop("signature")
        return {
            **summary,
            "scores": [_plain(score) for score in self.scores],
            **{name: [_plain(value) for value in values] for name, values in self.components.items()},
            "failures": [{"row": row, "error": error} for row, error in sorted(self.failures.items())],
            "signature": signature,
        }

    def __repr__(self) -> str:
        failed = f", {self.n_failed} failed" if self.failures else ""
        return f"Scores({self.metric}: mean {self.mean:.4f} of {self.n_items} rows{failed}; {self.signature})"


def _mean(values: np.ndarray) -> float:
    scored = values[~np.isnan(values)]
    return float(scored.mean()) if len(scored) else math.nan


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


class Scorer(ABC):
    """Scores rows of candidate, image and references with one backbone.

    Args:
        embedder: what turns rows into embeddings; holds the backbone.
        prefix: text before candidates and references; None takes the backbone's own.
    """

    metric: ClassVar[str]
    component_names: ClassVar[tuple[str, ...]] = ()
    needs_references: ClassVar[bool] = False

    def __init__(self, embedder: Embedder, *, prefix: str | None = None):
        self.embedder = embedder
        if prefix is not None and not isinstance(prefix, str):
            raise InputError(f"prefix={prefix!r}: expected a string, or None for the backbone's own")
        self.prefix = embedder.backbone.prefix if prefix is None else prefix

    @property
    def backbone(self) -> Backbone:
        """The towers this scorer uses."""
        return self.embedder.backbone

    @property
    def settings(self) -> dict[str, object]:
        """The signature's settings that do not depend on rows, in its order."""
        return {
            "backbone": f"{self.backbone.name}@{self.backbone.revision}",
            **self.constants(),
            "prefix": self.prefix,
            "dtype": DTYPES[self.backbone.dtype],
            "exif": "yes",
            "version": __version__,
        }

    @abstractmethod
    def constants(self) -> dict[str, object]:
        """The constants of the formula, for the signature."""

    @abstractmethod
    def combine(
        self, image_cosines: np.ndarray, text_cosines: np.ndarray | None
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """The formula: cosines of candidate with image and best reference, (n,) → scores, components."""

    def score(
        self,
        candidates: Iterable[str],
        images: Any = None,
        references: Iterable[Sequence[str]] | None = None,
        language: str | Iterable[str] | None = None,
        *,
        on_error: str = "raise",
    ) -> Scores:
        """Score n rows.

        Args:
            candidates: n captions.
            images: n images: paths, bytes, PIL images, uint8 arrays (height, width, channels),
                `datasets.Image` dicts, or a column of a data set.
            references: n lists of at least one reference, for metrics that use them.
            language: one language code for all rows, or n of them. It is checked against the backbone's
                languages and named in the signature; the numbers do not depend on it.
            on_error: "raise" (default) stops at the first problem found, in the texts of all rows, then in
                the images; "skip" gives bad rows NaN, leaves them out of the mean, and lists them in
                `failures`.

        Raises:
            InputError: lists of different lengths, a bad row, an unknown language code.
            ImageError: an image that cannot be read.
        """
        if on_error not in ("raise", "skip"):
            raise InputError(f"on_error={on_error!r}: expected 'raise' or 'skip'")
        rows = _Rows.check(self, candidates, images, references, language, on_error)
        self._warn_about_languages(rows.languages)

        embedded = self.embedder.images(rows.images, on_error=on_error, skip=rows.failures)
        failures = {**embedded.failures, **rows.failures}
        image_rows = embedded.index.copy()
        kept = np.array([row not in failures for row in range(len(rows))], dtype=bool)

        texts, owners = rows.texts(kept)
        text_rows = self.embedder.texts(texts, prefix=self.prefix)
        n_kept = int(kept.sum())
        candidate_index = text_rows.index[:n_kept]
        image_cosines = _cosines(embedded.matrix, image_rows[kept], text_rows.matrix, candidate_index)
        text_cosines = None
        if self.needs_references:
            position = np.cumsum(kept) - 1  # row → its place among the kept
            owner_places = position[owners]
            pairs = _cosines(
                text_rows.matrix, candidate_index[owner_places], text_rows.matrix, text_rows.index[n_kept:]
            )
            text_cosines = np.full(n_kept, -np.inf)
            np.maximum.at(text_cosines, owner_places, pairs)

        truncated = np.zeros(len(rows), dtype=bool)
        cut = text_rows.truncated[text_rows.index]
        truncated[np.flatnonzero(kept)[cut[:n_kept]]] = True
        truncated[owners[cut[n_kept:]]] = True
        self._warn_about_truncation(truncated)

        values, components = self.combine(image_cosines, text_cosines)
        return Scores(
            metric=self.metric,
            scores=_spread(values, kept),
            components={name: _spread(components[name], kept) for name in self.component_names},
            settings=self.settings,
            image_keys=["" if row in failures else key for row, key in enumerate(embedded.keys)],
            truncated=truncated,
            n_references=rows.n_references,
            languages=rows.languages,
            failures={row: failures[row].at(row).message_with_field() for row in sorted(failures)},
        )

    def _warn_about_languages(self, languages: list[str]) -> None:
        known = self.backbone.languages
        strange = sorted(set(languages) - {""} - known) if known is not None else []
        if strange:
            warnings.warn(
                f"backbone {self.backbone.name!r} was not trained on {', '.join(strange)} (it knows "
                f"{', '.join(sorted(known or ()))}): scores in these languages mean little",
                LanguageWarning,
                stacklevel=3,
            )

    def _warn_about_truncation(self, truncated: np.ndarray) -> None:
        if truncated.any():
            rows = np.flatnonzero(truncated)
            warnings.warn(
                f"{len(rows)} of {len(truncated)} rows have a text longer than the "
                f"{self.backbone.max_tokens} tokens of {self.backbone.name!r}; the rest of it was not seen "
                f"(first such row of these: {rows[0]})",
                TruncationWarning,
                stacklevel=3,
            )


def _cosines(
    left: np.ndarray, left_rows: np.ndarray, right: np.ndarray, right_rows: np.ndarray
) -> np.ndarray:
    """Row by row cosine of two sets of unit rows → float64 (n,); in slices, so that memory stays bounded."""
    out = np.empty(len(left_rows))
    for start in range(0, len(out), 1024):
        part = slice(start, start + 1024)
        out[part] = np.einsum("nd,nd->n", left[left_rows[part]], right[right_rows[part]], optimize=False)
    return out


def _spread(values: np.ndarray, kept: np.ndarray) -> np.ndarray:
    out = np.full(len(kept), np.nan)
    out[kept] = values
    return out


@dataclass
class _Rows:
    """Rows whose texts have been checked; bad ones are in `failures`."""

    candidates: list[str]
    images: Any
    references: list[list[str]] | None
    languages: list[str]
    n_references: np.ndarray
    failures: dict[int, InputError]

    def __len__(self) -> int:
        return len(self.candidates)

    @classmethod
    def check(
        cls,
        scorer: Scorer,
        candidates: Iterable[str],
        images: Any,
        references: Iterable[Sequence[str]] | None,
        language: str | Iterable[str] | None,
        on_error: str,
    ) -> _Rows:
        from ..columns import check_images

        captions = _as_list(candidates, "candidates", "captions")
        if not captions:
            raise InputError("there are no rows: candidates is empty", field="candidates")
        if images is None:
            raise InputError(f"{scorer.metric} looks at images, and images=None", field="images")
        images = check_images(images)
        _same_length("images", len(images), captions)

        if references is None and scorer.needs_references:
            raise InputError(
                f"{scorer.metric} compares with references, and references=None; without references use "
                "'clip_score' or 'mcs'",
                field="references",
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

        for row, caption in enumerate(captions):
            problem = _text_problem(caption)
            if problem:
                fail(row, InputError(f"expected a caption, got {problem}", field="candidate"))
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
        return cls(captions, images, lists, _languages(language, captions, fail), n_references, failures)

    def texts(self, kept: np.ndarray) -> tuple[list[str], np.ndarray]:
        """Candidates of the kept rows, then all their references; and each reference's row."""
        rows = np.flatnonzero(kept)
        texts = [self.candidates[row] for row in rows]
        owners: list[int] = []
        if self.references is not None:
            for row in rows:
                texts.extend(self.references[row])
                owners.extend([row] * len(self.references[row]))
        return texts, np.array(owners, dtype=np.int64)


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


def _languages(language: Any, captions: list[Any], fail: Any) -> list[str]:
    if language is None:
        return [""] * len(captions)
    if isinstance(language, str):
        return [language_code(language)] * len(captions)
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
