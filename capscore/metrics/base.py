"""The base of all scorers: rows are checked, measured one by one, and finished together into `Scores`."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from ..errors import InputError, Setting
from .calibration import percentiles
from .input_rows import ExtraColumn, InputRows, check_rows
from .signature import format_signature


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of n rows, and what they depend on.

    Attributes:
        metric: Name of the metric, as `capscore.load` takes it.
        scores: float64 (n,); NaN where a row failed.
        components: Further numbers of this metric, float64 (n,) each, such as "clip_score" and "text_score".
        settings: Everything that the numbers depend on, in the signature's order.
        image_keys: Content key of each row's image; "" where it failed, or if the metric opens no images.
        truncated: bool (n,), True where a text of the row was cut to the context length.
        n_references: int64 (n,), number of references per row.
        languages: n primary subtags; "" where the language is not stated.
        failures: Row → what was wrong with it; without entries unless on_error="skip".
        empty: bool (n,), True where the caption is empty; such rows were scored, or left out with NaN
            (empty="skip"). False where the row failed.
        per_row: Whether `to_dict` has the numbers of each row.
        corpus: Numbers of all rows together that are not means of rows, such as "corpus_bleu_4"; NaN if no
            row was scored.
        details: Per row, a dict ready for JSON with the keys `detail_names`, or None where the row failed.
            None for a metric without details, or a backbone that gives none.
        detail_names: Keys of the details.
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
    empty: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))
    per_row: bool = True
    corpus: dict[str, float] = field(default_factory=dict)
    details: list[dict[str, Any] | None] | None = None
    detail_names: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def mean(self) -> float:
        """Mean over the rows that were scored; NaN if there are none."""
        return _mean(self.scores)

    @property
    def n_items(self) -> int:
        """Number of rows, including those without a score."""
        return len(self.scores)

    @property
    def n_scored(self) -> int:
        """Number of rows with a score, over which the mean is taken."""
        return int((~np.isnan(self.scores)).sum())

    def is_left_out(self, row: int) -> bool:
        """Whether a row has no score because its caption is empty."""
        return bool(self.empty[row] and np.isnan(self.scores[row]))

    @property
    def n_empty(self) -> int:
        """Number of rows with an empty caption; whether they were scored or left out is in the signature."""
        return int(self.empty.sum())

    @property
    def n_unique_images(self) -> int:
        """Number of images that differ, in rows that did not fail; 0 for a metric that opens no images."""
        return len({key for key in self.image_keys if key})

    @property
    def n_truncated(self) -> int:
        """Number of rows with a text that was cut to the context length."""
        return int(self.truncated.sum())

    @property
    def first_truncated(self) -> int:
        """The first row with a text that was cut; 0 if there is none."""
        return int(self.truncated.argmax()) if len(self) else 0

    @property
    def n_failed(self) -> int:
        """Number of rows that could not be scored; empty captions are not among them."""
        return len(self.failures)

    @property
    def signature(self) -> str:
        """Everything the numbers depend on, in one line."""
        return format_signature(self.metric, self.settings)

    def percentiles(self, against: str = "right", *, calibration: str | Path | None = None) -> np.ndarray:
        """Percent of right captions of a stated set, or of captions of other photos, that score lower.

        Args:
            against: "right" for captions that people wrote for the photos of the set, "shuffled" for the same
                captions beside photos that they were not written for.
            calibration: File that `capscore calibrate` wrote; None for what ships with the library. It
                applies to scores of the same signature, each row in its own language.

        Returns:
            float64 (n,) in [0, 100]; NaN where a row failed or its language was not calibrated.

        Raises:
            InputError: no calibration applies, and why; or the file is not one of calibrations.

        >>> import capscore
        >>> scores = capscore.load("mcs", backbone="embedded").score(["a dog"], ["dog.jpg"], language="en")
        ... # doctest: +SKIP
        >>> scores.percentiles(), scores.percentiles("shuffled")                  # doctest: +SKIP
        (array([71.3]), array([99.6]))
        """
        return percentiles(self, against, calibration)

    def summary(self) -> dict[str, Any]:
        """Means, counts and signature, ready for JSON; its size does not depend on the number of rows.

        Keys: the metric's name (mean), "mean_<component>", those of `corpus`, "n_items", "n_scored" (rows
        behind the mean), "n_failed", "n_empty", "n_unique_images", "n_truncated" and "signature". A mean over
        no rows is None.
        """
        return {
            self.metric: _plain(self.mean),
            **{f"mean_{name}": _plain(_mean(values)) for name, values in self.components.items()},
            **{name: _plain(value) for name, value in self.corpus.items()},
            "n_items": self.n_items,
            "n_scored": self.n_scored,
            "n_failed": self.n_failed,
            "n_empty": self.n_empty,
            "n_unique_images": self.n_unique_images,
            "n_truncated": self.n_truncated,
            "signature": self.signature,
        }

    def to_dict(self, *, per_row: bool | None = None) -> dict[str, Any]:
        """Plain floats, lists and strings, ready for JSON. The score of a row that was left out is None.

        Keys: those of `summary`; and, unless `per_row` is False, "scores", the name of each component, each
        key of the `details` (None for a row without a score), and "failures" (a list of row and error).

        Args:
            per_row: Whether there are numbers of each row; None takes the attribute.
        """
        summary = self.summary()
        if not (self.per_row if per_row is None else per_row):
            return summary
        signature = summary.pop("signature")
        details = self.details or [None] * len(self)
        return {
            **summary,
            "scores": [_plain(score) for score in self.scores],
            **{name: [_plain(value) for value in values] for name, values in self.components.items()},
            **{
                name: [None if detail is None else detail[name] for detail in details]
                for name in self.detail_names
            },
            "failures": [{"row": row, "error": error} for row, error in sorted(self.failures.items())],
            "signature": signature,
        }

    def __repr__(self) -> str:
        counts = ((self.n_failed, "failed"), (self.n_empty, "empty"))
        noted = "".join(f", {number} {what}" for number, what in counts if number)
        return f"Scores({self.metric}: mean {self.mean:.4f} of {self.n_items} rows{noted}; {self.signature})"


def _mean(values: np.ndarray) -> float:
    scored = values[~np.isnan(values)]
    return float(scored.mean()) if len(scored) else math.nan


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


@dataclass(frozen=True, eq=False)
class PreparedRows:
    """n rows, each measured alone; `Scorer.finish` turns them into `Scores`.

    They hold no images, so they can wait in memory or in a file until all rows are there.

    Attributes:
        values: Name → float64 (n,), what was measured; NaN where a row failed.
        candidates: n captions if the metric `waits` for all rows, else None.
        references: n lists of references if the metric waits, else None.
        image_keys, truncated, n_references, languages, failures, empty, details: As in `Scores`.
        skips_empty: Whether rows with an empty caption are left out.
    """

    values: dict[str, np.ndarray]
    candidates: list[str] | None
    references: list[list[str]] | None
    image_keys: list[str]
    truncated: np.ndarray
    n_references: np.ndarray
    languages: list[str]
    failures: dict[int, str]
    empty: np.ndarray
    skips_empty: bool
    details: list[dict[str, Any] | None] | None = None

    def __len__(self) -> int:
        return len(self.languages)

    @property
    def kept(self) -> np.ndarray:
        """bool (n,), True where a row did not fail and its caption was not left out as empty."""
        kept = ~self.empty if self.skips_empty else np.ones(len(self), dtype=bool)
        kept[list(self.failures)] = False
        return kept

    def part(self, start: int, stop: int) -> PreparedRows:
        """The rows from `start` to before `stop`."""
        here = slice(start, stop)
        return PreparedRows(
            values={name: values[here] for name, values in self.values.items()},
            candidates=None if self.candidates is None else self.candidates[here],
            references=None if self.references is None else self.references[here],
            image_keys=self.image_keys[here],
            truncated=self.truncated[here],
            n_references=self.n_references[here],
            languages=self.languages[here],
            failures={row - start: text for row, text in self.failures.items() if start <= row < stop},
            empty=self.empty[here],
            skips_empty=self.skips_empty,
            details=None if self.details is None else self.details[here],
        )

    @classmethod
    def concatenate(cls, parts: Sequence[PreparedRows]) -> PreparedRows:
        """Consecutive pieces, prepared by scorers with the same settings, as one."""
        if not parts:
            raise ValueError("there are no rows to put together")
        failures, start = {}, 0
        for part in parts:
            failures.update({start + row: message for row, message in part.failures.items()})
            start += len(part)

        def joined(lists: Iterable[list[Any] | None]) -> list[Any] | None:
            present = [one for one in lists if one is not None]
            return [item for part in present for item in part] if present else None

        return cls(
            values={name: np.concatenate([part.values[name] for part in parts]) for name in parts[0].values},
            candidates=joined(part.candidates for part in parts),
            references=joined(part.references for part in parts),
            image_keys=[key for part in parts for key in part.image_keys],
            truncated=np.concatenate([part.truncated for part in parts]),
            n_references=np.concatenate([part.n_references for part in parts]),
            languages=[language for part in parts for language in part.languages],
            failures=failures,
            empty=np.concatenate([part.empty for part in parts]),
            skips_empty=parts[0].skips_empty,
            details=joined(part.details for part in parts),
        )


class Scorer(ABC):
    """Scores rows of candidate, image and references.

    Args:
        empty: Treatment of captions without a visible character. "raise" (default) is an error even with
            on_error="skip", so that no captioning system gains by saying nothing; "score" scores the text
            without words as reference code does; "skip" leaves the row out of the mean and counts it.
        per_row: Whether `Scores.to_dict` has the numbers of each row.

    `score` does everything. If rows come in pieces, `prepare` takes each piece and `finish` takes them
    together (`PreparedRows.concatenate`). The numbers are those of one call of `score`, although the CIDEr of
    a row depends on the references of all others.

    Attributes:
        metric: Name of the metric.
        title: Its name in tables and pages.
        citation: Keys of its papers in citations.bib, or BibTeX entries.
        score_range: Lowest and highest score; None where there is no bound.
        default_backbone: Backbone where the user names none; "" for a metric without a default.
        takes_backbone: Whether its class takes an embedder first.
        component_names: Keys of `Scores.components`.
        corpus_names: Keys of `Scores.corpus`.
        needs_images: Whether the metric opens images. Other metrics accept `images` and do not open them, so
            that the same rows can go to every metric.
        needs_references: Whether the metric compares with references; other metrics refuse them.
        splits_texts: Whether the metric splits texts into words, by their language.
        waits: Whether all rows must be finished together; with other metrics they can be finished in pieces.
        detail_names: Keys of `Scores.details`; () for a metric without details.
        detail_columns: Those of the details that are columns of a result too, float or str.
        extra_columns: Further columns that rows may have.
        reported: Further lines in a benchmark's table: name → component.
    """

    metric: ClassVar[str]
    title: ClassVar[str] = ""
    citation: ClassVar[tuple[str, ...]] = ()
    score_range: ClassVar[tuple[float | None, float | None]] = (None, None)
    default_backbone: ClassVar[str] = ""
    takes_backbone: ClassVar[bool] = False
    component_names: ClassVar[tuple[str, ...]] = ()
    corpus_names: ClassVar[tuple[str, ...]] = ()
    needs_images: ClassVar[bool] = False
    needs_references: ClassVar[bool] = False
    splits_texts: ClassVar[bool] = False
    waits: ClassVar[bool] = False
    detail_names: ClassVar[tuple[str, ...]] = ()
    detail_columns: ClassVar[Mapping[str, type]] = {}
    extra_columns: ClassVar[tuple[ExtraColumn, ...]] = ()
    reported: ClassVar[dict[str, str]] = {}

    def __init__(self, *, empty: Literal["raise", "score", "skip"] = "raise", per_row: bool = True):
        if empty not in ("raise", "score", "skip"):
            raise InputError(Setting("empty", empty), ": expected 'raise', 'score' or 'skip'")
        if not isinstance(per_row, bool):
            raise InputError(Setting("per_row", per_row), ": expected True or False")
        self.empty, self.per_row = empty, per_row

    @classmethod
    def check_options(cls, given: Mapping[str, Any]) -> None:
        """Check values of the metric's own options before anything is loaded; raises InputError."""
        del given  # most metrics check in `__init__`

    def score(
        self,
        candidates: Iterable[str],
        images: Any = None,
        references: Iterable[Sequence[str]] | None = None,
        language: str | Iterable[str] | None = None,
        *,
        on_error: str = "raise",
        **extra: Iterable[Any] | None,
    ) -> Scores:
        """Score n rows.

        Args:
            candidates: n captions.
            images: n images: paths, bytes, PIL images, uint8 arrays (height, width, channels),
                `datasets.Image` dicts, or a column of a data set. A metric that only reads texts accepts them
                and opens none.
            references: n lists of at least one reference, for metrics that use them.
            language: One language code for all rows, or n codes; named in the signature. Metrics that count
                words split a text by its language. With a backbone, the numbers of most metrics do not depend
                on it, but it is checked against the backbone's languages.
            on_error: "raise" (default) stops at the first problem, in the texts of all rows, then in the
                images; "skip" gives bad rows NaN, leaves them out of the mean, and lists them in `failures`.
                An empty caption is no bad row: see `empty`.
            **extra: Further columns that the metric has (see its `extra_columns`), such as n lists of boxes;
                None for a column that is not given.

        Raises:
            InputError: lists of different lengths, a bad row, an unknown language code.
            OptionError: a column that the metric does not have.
            ImageError: an image that cannot be read.
            MissingExtraError: a language needs a package that is not installed.
        """
        rows = self.prepare(candidates, images, references, language, on_error=on_error, **extra)
        return self.finish(rows)

    def prepare(
        self,
        candidates: Iterable[str],
        images: Any = None,
        references: Iterable[Sequence[str]] | None = None,
        language: str | Iterable[str] | None = None,
        *,
        on_error: str = "raise",
        **extra: Iterable[Any] | None,
    ) -> PreparedRows:
        """Check rows and measure each of them alone; arguments and errors as in `score`."""
        rows = check_rows(self, candidates, images, references, language, on_error, extra)
        measured = self.measure(rows, on_error)
        failures = {row: rows.failures[row].at(row).message_with_field() for row in sorted(rows.failures)}
        return PreparedRows(
            values={name: spread(measured.values[name], rows.kept()) for name in self.value_names},
            candidates=_without_failed(rows.candidates, failures, "") if self.waits else None,
            references=_without_failed(rows.references or [], failures, []) if self.waits else None,
            image_keys=_without_failed(measured.image_keys, failures, ""),
            truncated=measured.truncated,
            n_references=rows.n_references,
            languages=rows.languages,
            failures=failures,
            empty=_without(rows.empty, failures),
            skips_empty=rows.skips_empty,
            details=None if measured.details is None else _spread_details(measured.details, rows.kept()),
        )

    @abstractmethod
    def measure(self, rows: InputRows, on_error: str) -> Measured:
        """Measure each row alone; adds bad rows to `rows.failures`."""

    @abstractmethod
    def finish(self, rows: PreparedRows) -> Scores:
        """Prepared rows → their scores, in the same order."""

    @property
    def scores_empty_references(self) -> bool:
        """Whether a reference may be empty."""
        return False

    @property
    def compares_rows(self) -> bool:
        """Whether a result depends on several rows at once, so that a stream cannot be scored as it comes."""
        return self.waits

    @property
    def known_as(self) -> str:
        """The metric's name in papers, with these settings; usually its own name."""
        return self.metric

    @property
    def value_names(self) -> tuple[str, ...]:
        """Names of what `prepare` measures of each row."""
        return ()

    def language_problem(self, code: str) -> str:
        """Why no row in a language ("" for not stated) can be scored; "" if it can."""
        return ""

    def _scores(
        self,
        rows: PreparedRows,
        values: np.ndarray,
        components: dict[str, np.ndarray],
        settings: dict[str, object],
        corpus: dict[str, float] | None = None,
    ) -> Scores:
        """Numbers of the rows that did not fail → `Scores` of all rows."""
        return Scores(
            metric=self.metric,
            scores=spread(values, rows.kept),
            components={name: spread(components[name], rows.kept) for name in self.component_names},
            settings=settings,
            image_keys=rows.image_keys,
            truncated=rows.truncated,
            n_references=rows.n_references,
            languages=rows.languages,
            failures=rows.failures,
            empty=rows.empty,
            per_row=self.per_row,
            corpus=corpus or {},
            details=rows.details,
            detail_names=self.detail_names,
        )


@dataclass(frozen=True, eq=False)
class Measured:
    """Result of `Scorer.measure`: values and details of rows that did not fail, keys and flags of all."""

    values: dict[str, np.ndarray]
    image_keys: list[str]
    truncated: np.ndarray
    details: list[dict[str, Any]] | None = None


def row_settings(rows: PreparedRows) -> dict[str, object]:
    """The settings of a signature that describe the rows: number of references, languages, empty captions.

    What happened to empty captions is named where there are any: only then does it change a number.
    """
    kept = np.flatnonzero(rows.kept)
    counts = set(rows.n_references[kept].tolist())
    named = set(rows.languages)
    if 0 < len(kept) < len(rows):
        named = {rows.languages[row] for row in kept.tolist()}
    languages = sorted(named, key=lambda language: (not language, language))
    return {
        "refs": counts.pop() if len(counts) == 1 else "var" if counts else 0,
        "lang": "+".join(language or "unstated" for language in languages),
        **({"empty": "skip" if rows.skips_empty else "score"} if rows.empty.any() else {}),
    }


def spread(values: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Numbers of the kept rows → float64 (n,), NaN where a row failed."""
    out = np.full(len(kept), np.nan)
    out[kept] = values
    return out


def _spread_details(details: list[dict[str, Any]], kept: np.ndarray) -> list[dict[str, Any] | None]:
    found = iter(details)
    return [next(found) if is_kept else None for is_kept in kept]


def _without(marks: np.ndarray, failures: dict[int, str]) -> np.ndarray:
    """Marks of n rows, bool (n,), False where a row failed."""
    kept = marks.copy()
    kept[list(failures)] = False
    return kept


def _without_failed(items: list[Any], failures: dict[int, str], empty: Any) -> list[Any]:
    if not failures:
        return items
    # the text of a failed row may be anything but a string
    return [empty if row in failures else item for row, item in enumerate(items)]
