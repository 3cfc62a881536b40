"""The base of all scorers: rows are checked, measured one by one, and finished together into `Scores`."""

from __future__ import annotations

import itertools
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from ..errors import InputError, OptionError, Setting
from ..files.columns import is_missing
from ..text.languages import language_code
from ..text.suspicious import OddRows
from .signature import format_signature

_SURROGATE = re.compile("[\ud800-\udfff]")
# Counts of `Scores`, in the order of its summary
COUNTS = ("n_items", "n_scored", "n_failed", "n_empty", "n_unique_images", "n_truncated")


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
        corpus: Numbers of all rows together that are not means of rows, such as "corpus_bleu_4"; NaN if no
            row was scored.
        details: Per row, a dict ready for JSON with the keys `detail_names`, or None where the row failed.
            None for a metric without details, or a backbone that gives none.
        detail_names: Keys of the details.
        ranked_by: Component on which rows are ranked; "" for the score.
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
    corpus: dict[str, float] = field(default_factory=dict)
    details: list[dict[str, Any] | None] | None = None
    detail_names: tuple[str, ...] = ()
    ranked_by: str = ""

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def ranking(self) -> np.ndarray:
        """float64 (n,), what rows are ranked by: the scores, or a component that tells rows apart better."""
        return self.components[self.ranked_by] if self.ranked_by else self.scores

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

    @property
    def n_empty(self) -> int:
        """Number of rows with an empty caption; whether they were scored or left out is in the signature."""
        return int(self.empty.sum())

    @property
    def n_unique_images(self) -> int:
        """Number of distinct images in rows that did not fail; 0 for a metric that opens no images."""
        return len({key for key in self.image_keys if key})

    @property
    def n_truncated(self) -> int:
        """Number of rows with a text that was cut to the context length."""
        return int(self.truncated.sum())

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
                captions with photos that they were not written for.
            calibration: File that `capscore calibrate` wrote; None for the calibrations in the library. It
                applies to scores with the same signature, each row in its own language.

        Returns:
            float64 (n,) in [0, 100]; NaN where a row failed or its language was not calibrated.

        Raises:
            InputError: no calibration applies (says why), or the file holds no calibrations.

        >>> scores.percentiles(), scores.percentiles("shuffled")                  # doctest: +SKIP
        (array([71.3]), array([99.6]))
        """
        from .calibration import percentiles

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
            **{name: getattr(self, name) for name in COUNTS},
            "signature": self.signature,
        }

    def to_dict(self, *, per_row: bool = True) -> dict[str, Any]:
        """Plain floats, lists and strings, ready for JSON. The score of a row that was left out is None.

        Keys: those of `summary`; and, unless `per_row` is False, "scores", the name of each component, each
        key of the `details` (None for a row without a score), and "failures" (a list of row and error).
        """
        summary = self.summary()
        if not per_row:
            return summary
        signature = summary.pop("signature")
        details = self.details or [None] * len(self)
        return {
            **summary,
            "scores": [_plain(score) for score in self.scores],
            **{name: [_plain(value) for value in values] for name, values in self.components.items()},
            **{name: [detail and detail[name] for detail in details] for name in self.detail_names},
            "failures": [{"row": row, "error": error} for row, error in sorted(self.failures.items())],
            "signature": signature,
        }

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame`, one line per row: score, components, details, and "error", None for none."""
        import pyarrow as pa

        columns = self.to_dict()
        names = [*self.components, *self.detail_names]
        errors = [self.failures.get(row) for row in range(len(self))]
        of_rows = {self.metric: columns["scores"], **{name: columns[name] for name in names}, "error": errors}
        return pa.table(of_rows).to_pandas()

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

    They hold no images, so they can wait in memory or in a file until all rows have come.

    Attributes:
        values: Name → float64 (n,), what was measured; NaN where a row failed.
        candidates: n captions if the metric `waits` for all rows, else None.
        references: n lists of references if the metric waits, else None.
        errors: What was wrong with each row; "" for nothing.
        image_keys, truncated, n_references, languages, empty, details: As in `Scores`.
        skips_empty: Whether rows with an empty caption are left out.
    """

    values: dict[str, np.ndarray]
    candidates: list[str] | None
    references: list[list[str]] | None
    image_keys: list[str]
    truncated: np.ndarray
    n_references: np.ndarray
    languages: list[str]
    errors: list[str]
    empty: np.ndarray
    skips_empty: bool
    details: list[dict[str, Any] | None] | None = None

    def __len__(self) -> int:
        return len(self.languages)

    @property
    def kept(self) -> np.ndarray:
        """bool (n,), True where a row did not fail and its caption was not left out as empty."""
        fine = np.array([not error for error in self.errors], dtype=bool)
        return fine & ~self.empty if self.skips_empty else fine

    def row(self, index: int) -> PreparedRows:
        """One row alone."""

        def cut(column: Any) -> Any:
            if isinstance(column, dict):
                return {name: cut(values) for name, values in column.items()}
            return column[index : index + 1] if isinstance(column, list | np.ndarray) else column

        return PreparedRows(**{name: cut(column) for name, column in vars(self).items()})

    @classmethod
    def concatenate(cls, parts: Sequence[PreparedRows]) -> PreparedRows:
        """Consecutive pieces, prepared by scorers with the same settings, as one; at least one piece."""

        def joined(columns: list[Any]) -> Any:
            first = columns[0]
            if isinstance(first, dict):
                return {name: joined([column[name] for column in columns]) for name in first}
            if isinstance(first, np.ndarray):
                return np.concatenate(columns)
            return list(itertools.chain.from_iterable(columns)) if isinstance(first, list) else first

        return cls(**{name: joined([getattr(part, name) for part in parts]) for name in vars(parts[0])})


@dataclass(frozen=True)
class ExtraColumn:
    """A column that only some metrics take. Rows may come without it, or with None in it.

    Attributes:
        name: Name of the argument of `score` that takes it.
        values: Name of its values, in the plural, such as "lists of boxes".
        type: Type of the column, as the modules describe it.
        help: Description for the modules, without a full stop.
        from_files: Whether a column of this name in a file or stream is read.
        replaces_references: Whether rows with this column may come without references.
    """

    name: str
    values: str
    type: str
    help: str
    from_files: bool = False
    replaces_references: bool = False


@dataclass
class InputRows:
    """n rows whose texts have been checked; images are not opened yet.

    Attributes:
        candidates: n captions; "" for one that is empty.
        images: n images; None if none were given.
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


@dataclass(frozen=True, eq=False)
class Measured:
    """Result of `Scorer.measure`: values and details of rows that did not fail, keys and flags of all."""

    values: dict[str, np.ndarray]
    image_keys: list[str]
    truncated: np.ndarray
    details: list[dict[str, Any]] | None = None


class Scorer(ABC):
    """Scores rows of candidate, image and references.

    Args:
        empty: Treatment of captions without a visible character. "raise" (default) is an error even with
            on_error="skip", so that no captioning system gains by saying nothing; "score" scores the text
            without words as reference code does; "skip" leaves the row out of the mean and counts it.

    `score` does everything. If rows come in parts, call `prepare` on each part and `finish` on all together
    (`PreparedRows.concatenate`). The numbers are those of one call of `score`, even for CIDEr, where the
    score of a row depends on the references of all others.

    Attributes:
        metric: Name of the metric.
        title: Its name in tables and pages.
        citation: Keys of its papers in citations.bib, or BibTeX entries.
        score_range: Lowest and highest score; None where there is no bound.
        default_backbone: Backbone if the user names none; "" for a metric without a default.
        takes_backbone: Whether its class takes first what `open_backbone` gives, such as an embedder.
        backbone_variable: Variable of the environment that names another default backbone.
        refused_options: Options of `capscore.load` that the metric does not take, though it has a backbone.
        component_names: Keys of `Scores.components`.
        corpus_names: Keys of `Scores.corpus`.
        compares_photos: Whether candidates are photos, such as drawn ones; only with an option that says so.
        needs_images: Whether the metric opens images. Other metrics accept `images` and do not open them, so
            that the same rows can go to every metric.
        needs_references: Whether the metric compares with references.
        takes_references: Whether it uses references if they are given; other metrics refuse them.
        ranked_by: Component on which rows are ranked, "" for the score.
        signed_values: Names of values on which a signature depends.
        splits_texts: Whether the metric splits texts into words, by their language.
        waits: Whether all rows must be finished together; other metrics can finish them in parts.
        detail_names: Keys of `Scores.details`; () for a metric without details.
        detail_columns: Details that are also columns of a result, float or str.
        extra_columns: Further columns that rows may have.
    """

    metric: ClassVar[str]
    title: ClassVar[str] = ""
    citation: ClassVar[tuple[str, ...]] = ()
    score_range: ClassVar[tuple[float | None, float | None]] = (None, None)
    default_backbone: ClassVar[str] = ""
    takes_backbone: ClassVar[bool] = False
    backbone_variable: ClassVar[str] = "CAPSCORE_BACKBONE"
    refused_options: ClassVar[tuple[str, ...]] = ()
    component_names: ClassVar[tuple[str, ...]] = ()
    corpus_names: ClassVar[tuple[str, ...]] = ()
    compares_photos: ClassVar[bool] = False
    needs_images: ClassVar[bool] = False
    needs_references: ClassVar[bool] = False
    takes_references: ClassVar[bool] = False
    ranked_by: ClassVar[str] = ""
    signed_values: ClassVar[tuple[str, ...]] = ()
    splits_texts: ClassVar[bool] = False
    waits: ClassVar[bool] = False
    detail_names: ClassVar[tuple[str, ...]] = ()
    detail_columns: ClassVar[Mapping[str, type]] = {}
    extra_columns: ClassVar[tuple[ExtraColumn, ...]] = ()

    def __init__(self, *, empty: Literal["raise", "score", "skip"] = "raise"):
        self.check({"empty": empty})
        self.empty = empty

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        """Check values of the metric's own options; `load` does so before it loads a backbone.

        Raises:
            InputError: a value is out of range; names the option.
        """
        empty = options.get("empty", "raise")
        if empty not in ("raise", "score", "skip"):
            raise InputError(Setting("empty", empty), ": expected 'raise', 'score' or 'skip'")

    @classmethod
    def needs(cls, options: Mapping[str, Any]) -> tuple[bool, bool]:
        """Whether rows need images, and whether they need references, with these options of `load`."""
        asked = cls.takes_references and bool(options.get("with_references"))
        return cls.needs_images, cls.needs_references or asked

    @classmethod
    def open_backbone(cls, spec: Any, options: Mapping[str, Any]) -> Any:
        """What the class takes first if it takes a backbone, from the backbone and the options of `load`."""
        raise NotImplementedError(f"{cls.__name__} takes no backbone")

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
            candidates: n captions; photos, as `images` are, where the metric `compares_photos`.
            images: n images: paths, bytes, PIL images, arrays (height, width, channels), tensors (channels,
                height, width), `datasets.Image` dicts, or a column of a data set. A metric that only reads
                texts accepts them and opens none.
            references: n lists of at least one reference, or strings for one each, if the metric uses them.
            language: One language code for all rows, or n codes; named in the signature. Metrics that count
                words split a text by its language. With a backbone, the numbers of most metrics do not depend
                on it, but it is checked against the backbone's languages.
            on_error: "raise" (default) stops at the first problem, in the texts of all rows, then in the
                images; "skip" gives bad rows NaN, leaves them out of the mean, and lists them in `failures`.
                An empty caption is not a bad row: see `empty`.
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

    def __call__(self, *columns: Any, **more: Any) -> Scores:
        """The same as `score`."""
        return self.score(*columns, **more)

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
        kept, found = rows.kept(), iter(measured.details or ())
        details = None if measured.details is None else [next(found) if fine else None for fine in kept]
        errors = [""] * len(rows)
        for row, error in rows.failures.items():
            errors[row] = error.message_with_field()

        def of_scored(items: list[Any], blank: Any) -> list[Any]:
            # the text of a failed row may be anything but a string
            return [blank if error else item for item, error in zip(items, errors, strict=True)]

        prepared = PreparedRows(
            values={name: spread(measured.values[name], kept) for name in self.value_names},
            candidates=of_scored(rows.candidates, "") if self.waits else None,
            references=of_scored(rows.references or [[]] * len(rows), []) if self.waits else None,
            image_keys=of_scored(measured.image_keys, ""),
            truncated=measured.truncated,
            n_references=rows.n_references,
            languages=rows.languages,
            errors=errors,
            empty=rows.empty & np.array([not error for error in errors]),
            skips_empty=rows.skips_empty,
            details=details,
        )
        self.count_odd(prepared, OddRows()).warn()
        return prepared

    def count_odd(self, rows: PreparedRows, odd: OddRows, start: int = 0) -> OddRows:
        """Count rows in which what was measured looks wrong; the first of them is row `start`."""
        return odd

    @abstractmethod
    def measure(self, rows: InputRows, on_error: str) -> Measured:
        """Measure each row alone; adds bad rows to `rows.failures`."""

    @abstractmethod
    def finish(self, rows: PreparedRows) -> Scores:
        """Prepared rows → their scores, in the same order."""

    def corpus_of(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Numbers of all rows together, from the sums of what was measured; {} where they need more."""
        return {}

    @classmethod
    def has_instead(cls, columns: Iterable[str]) -> bool:
        """Whether one of these columns may come in place of references."""
        return not {column.name for column in cls.extra_columns if column.replaces_references}.isdisjoint(
            columns
        )

    @property
    def compares_rows(self) -> bool:
        """Whether a result depends on several rows at once, which rules out scoring a stream by batches."""
        return self.waits

    @property
    def known_as(self) -> str:
        """The metric's name in papers, with these settings; usually its own name."""
        return self.metric

    @property
    def value_names(self) -> tuple[str, ...]:
        """Names of what `prepare` measures of each row."""
        return ()

    @classmethod
    def what_is_missing(cls) -> str:
        """What the metric needs and this machine lacks; "" for nothing that is known without loading it."""
        return ""

    def language_problem(self, code: str) -> str:
        """Why no row in a language ("" for not stated) can be scored; "" if it can."""
        return ""

    def make_scores(
        self,
        rows: PreparedRows,
        values: np.ndarray,
        components: dict[str, np.ndarray],
        settings: dict[str, object],
        corpus: dict[str, float] | None = None,
    ) -> Scores:
        """Numbers of the rows that did not fail → `Scores` of all rows."""
        kept = rows.kept
        return Scores(
            metric=self.metric,
            scores=spread(values, kept),
            components={name: spread(components[name], kept) for name in self.component_names},
            settings=settings,
            image_keys=rows.image_keys,
            truncated=rows.truncated,
            n_references=rows.n_references,
            languages=rows.languages,
            failures={row: error for row, error in enumerate(rows.errors) if error},
            empty=rows.empty,
            corpus=corpus or {},
            details=rows.details,
            detail_names=self.detail_names,
            ranked_by=self.ranked_by,
        )


def row_settings(rows: PreparedRows) -> dict[str, object]:
    """The settings of a signature that describe the rows: number of references, languages, empty captions.

    What happened to empty captions is named where there are any: only then does it change a number.
    """
    kept = np.flatnonzero(rows.kept).tolist()
    counts = {int(rows.n_references[row]) for row in kept}
    languages = {rows.languages[row] for row in kept or range(len(rows))}
    ordered = sorted(languages, key=lambda language: (not language, language))
    return {
        "refs": counts.pop() if len(counts) == 1 else "var" if counts else 0,
        "lang": "+".join(language or "unstated" for language in ordered),
        **({"empty": "skip" if rows.skips_empty else "score"} if rows.empty.any() else {}),
    }


def spread(values: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Numbers of the kept rows → float64 (n,), NaN where a row failed."""
    out = np.full(len(kept), np.nan)
    out[kept] = values
    return out


# ------------------------------------------------------------------------------ input


def check_rows(
    scorer: Scorer,
    candidates: Iterable[str],
    images: Any,
    references: Iterable[Sequence[str]] | None,
    language: str | Iterable[str] | None,
    on_error: str,
    extra: Mapping[str, Iterable[Any] | None],
) -> InputRows:
    """Check what `Scorer.score` was given, and its errors; no image is opened."""
    from ..images.load import check_images

    if on_error not in ("raise", "skip"):
        raise InputError(Setting("on_error", on_error), ": expected 'raise' or 'skip'")
    check_column_names(scorer, extra)
    captions = _caption_list(candidates)
    n_rows, metric = len(captions), scorer.metric
    if images is None and scorer.needs_images:
        raise InputError(f"{metric} looks at images, but images=None", field="images")
    given = [name for name, values in extra.items() if values is not None]
    if references is None and scorer.needs_references and not scorer.has_instead(given):
        problem = f"{metric} compares with references, but references=None"
        raise InputError(problem, field="references")
    if references is not None and not (scorer.needs_references or scorer.takes_references):
        raise InputError(f"{metric} takes no references", field="references")
    if images is not None:
        images = check_images(images)
        _same_length("images", images, n_rows)
    failures: dict[int, InputError] = {}

    def fail(row: int, error: InputError) -> None:
        if on_error == "raise":
            raise error.at(row)
        failures.setdefault(row, error.at(row))

    are_texts = not scorer.compares_photos
    empty = np.zeros(n_rows, dtype=bool)
    if are_texts:
        empty = _check_captions(captions, scorer.empty, fail)
    lists = None
    if references is not None:
        lists = _as_list(references, "references", "lists of references", n_rows)
        may_be_empty = scorer.empty == "score" and not scorer.takes_backbone  # as coco-caption does
        for row, texts in enumerate(lists):
            try:
                lists[row] = _check_references(texts, may_be_empty)
            except InputError as error:
                fail(row, error)
                lists[row] = []
    codes = _languages(language, n_rows, fail)
    problems = {code: scorer.language_problem(code) for code in dict.fromkeys(codes)}
    for row, code in enumerate(codes if any(problems.values()) else ()):
        if problems[code]:
            fail(row, InputError(problems[code], field="language"))
    columns = {
        column.name: _as_list(extra[column.name], column.name, column.values, n_rows)
        for column in scorer.extra_columns
        if extra.get(column.name) is not None
    }
    if are_texts:
        OddRows().add(captions, images, lists).warn()
    n_references = np.array([len(texts) for texts in lists or [[]] * n_rows], dtype=np.int64)
    empty[list(failures)] = False  # each row is counted once
    skips_empty = scorer.empty == "skip"
    return InputRows(captions, images, lists, codes, n_references, failures, empty, skips_empty, columns)


def _check_captions(captions: list[Any], how: str, fail: Callable[[int, InputError], None]) -> np.ndarray:
    """Which captions are empty, bool (n,); they become "" where `how` is not "raise"."""
    empty = np.zeros(len(captions), dtype=bool)
    for row, caption in enumerate(captions):
        problem = text_problem(caption)
        if problem and not is_empty(caption):
            fail(row, InputError(f"expected a caption, got {problem}", field="candidate"))
        elif problem and how == "raise":
            # not left to on_error: a system must not gain by saying nothing
            raise empty_caption(caption).at(row)
        elif problem:
            captions[row], empty[row] = "", True
    return empty


def check_column_names(scorer: Scorer | type[Scorer], extra: Mapping[str, Any]) -> None:
    """Check that a metric has the extra columns that were given; None counts as not given.

    Raises:
        OptionError: the metric does not have one of them.
    """
    names = [column.name for column in scorer.extra_columns]
    for name, values in extra.items():
        if name not in names and values is not None:
            known = f"; its rows may have {', '.join(names)}" if names else ""
            raise OptionError(f"{scorer.metric} takes no {name}{known}", field=name)


def check_captions(
    candidates: Iterable[str], language: str | Iterable[str] | None
) -> tuple[list[str], list[str]]:
    """Captions without images of their own, and their languages ("" if not stated).

    Raises:
        InputError: not a list, an empty list, or the first bad caption or language.
    """
    captions = _caption_list(candidates)

    def fail(row: int, error: InputError) -> None:
        raise error.at(row)

    _check_captions(captions, "raise", fail)
    return captions, _languages(language, len(captions), fail)


def _caption_list(candidates: Iterable[str]) -> list[Any]:
    captions = _as_list(candidates, "candidates", "captions")
    if not captions:
        raise InputError("there are no rows: candidates is empty", field="candidates")
    return captions


def is_empty(text: Any) -> bool:
    """Whether a text has no visible character: "", blanks, or signs such as a zero-width space.

    >>> is_empty(" \\u3000\\u200b"), is_empty("."), is_empty(None)
    (True, False, False)
    """
    return (
        isinstance(text, str)
        and not any(sign.isprintable() and sign != " " for sign in text)
        and not _SURROGATE.search(text)
    )


def empty_caption(text: str) -> InputError:
    """The error about an empty caption where nothing says what to do with it; without its row."""
    return InputError(
        f"expected a caption, got {text_problem(text)}; ",
        Setting("empty", "score"),
        " scores it as text without words, ",
        Setting("empty", "skip"),
        " leaves it out of the mean and counts it",
        field="candidate",
    )


def _as_list(values: Any, name: str, what: str, n_rows: int | None = None) -> list[Any]:
    """Values as a list, of n rows if that is known; a string or a table is not a list of texts."""
    if isinstance(values, (str, bytes)):
        raise InputError(f"{name}={values!r:.60} is one string; expected a list of {what}", field=name)
    is_table = getattr(values, "column_names", None) or getattr(values, "columns", None) is not None
    if isinstance(values, (Mapping, Set)) or is_table or not _is_iterable(values):
        raise InputError(f"{name} is a {type(values).__name__}; expected a list of {what}", field=name)
    listed = values.to_pylist() if hasattr(values, "to_pylist") else list(values)
    if n_rows is not None:
        _same_length(name, listed, n_rows)
    return listed


def _is_iterable(values: Any) -> bool:
    return hasattr(values, "__iter__") and getattr(values, "ndim", 1) > 0


def _same_length(name: str, values: Any, n_rows: int) -> None:
    if len(values) != n_rows:
        raise InputError(f"got {len(values)}; expected {n_rows}, one per candidate", field=name)


def text_problem(text: Any) -> str:
    """What is wrong with a caption; "" for nothing."""
    if not isinstance(text, str):
        return _shown(text)
    if _SURROGATE.search(text):
        return f"{text!r:.60}, which holds half a surrogate pair (text decoded wrongly)"
    return f"an empty string ({text!r:.60} has no visible character)" if is_empty(text) else ""


def _shown(value: Any) -> str:
    try:
        return "None" if value is None else f"{value!r:.60} ({type(value).__name__})"
    except ValueError:  # Python does not print numbers of thousands of digits
        return f"a very large number ({type(value).__name__})"


def _check_references(texts: Any, may_be_empty: bool) -> list[str]:
    if hasattr(texts, "to_pylist"):
        texts = texts.to_pylist()
    if isinstance(texts, str) and not re.fullmatch(r"\s*\[.*\]\s*", texts, re.DOTALL):  # no list in writing
        texts = [texts]
    if isinstance(texts, (str, bytes, Mapping)) or not _is_iterable(texts):
        raise InputError(f"expected a list of references, got {_shown(texts)}", field="references")
    texts = list(texts)
    if not texts:
        raise InputError("expected at least one reference, got an empty list", field="references")
    for position, text in enumerate(texts):
        problem = text_problem(text)
        if problem and may_be_empty and is_empty(text):
            texts[position] = ""
        elif problem:
            raise InputError(f"reference {position} is {problem}, expected a caption", field="references")
    return texts


def _languages(language: Any, n_rows: int, fail: Callable[[int, InputError], None]) -> list[str]:
    """Primary subtags; "" where the language is not stated: None, "" or a missing value."""
    if language is None or isinstance(language, str):
        return ["" if language is None else language_code(language)] * n_rows
    codes = _as_list(language, "language", "language codes", n_rows)
    for row, tag in enumerate(codes):
        try:
            codes[row] = "" if is_missing(tag) else language_code(tag)
        except InputError as error:
            fail(row, error)
            codes[row] = ""
    return codes
