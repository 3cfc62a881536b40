"""The base of all scorers: rows are checked, measured one by one, and finished together into `Scores`."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np

from .. import __version__
from ..errors import InputError, OptionError, Setting
from ..files.columns import is_missing
from ..files.image_folder import image_key
from ..statistics.battles import TIE_BAND
from ..statistics.columns import plain
from ..text.suspicious import OddRows, are_tokens
from .rows import (
    ExtraColumn,
    InputRows,
    PreparedRows,
    as_list,
    caption_list,
    check_length,
    find_empty,
    language_codes,
    photo_names,
    reference_lists,
    spread,
)
from .scores import Detail, Scores, WrongWord

if TYPE_CHECKING:
    from ..embedding.embedder import Embedder

T = TypeVar("T")


class Scorer(ABC):
    """Scores rows of candidate, image and references.

    Args:
        empty: Treatment of captions without a visible character. "worst" (default) gives them the worst score
            of the metric, so that no captioning system gains by saying nothing, or, where there is none, the
            score of a text without words; "score" scores the text without words as reference code does;
            "skip" leaves the row out of the mean and counts it; "raise" is an error, even with
            on_error="skip".

    `score` does everything. If rows come in parts, call `prepare` on each part and `finish` on all together
    (`PreparedRows.concatenate`). The numbers are those of one call of `score`, even for CIDEr, where the
    score of a row depends on the references of all others.

    Attributes:
        metric: Name of the metric.
        title: Its name in tables and pages.
        variant_names: Names that signatures give its variants, which `capscore cite` knows.
        kin: Published metrics of the same kind, by name → title; tables show their figures beside it.
        citation: Keys of its papers in citations.bib, or BibTeX entries.
        score_range: Lowest and highest score; None where there is no bound.
        higher_is_better: Whether a higher score is better.
        lower_components: Keys of `Scores.components` of which less is better.
        aggregation: What stands for a set of rows: "mean", or a key of `Scores.corpus`.
        default_backbone: Backbone if the user names none; "" for a metric without a default.
        takes_backbone: Whether its class takes first what `open_backbone` gives, such as an embedder.
        takes_servers: Whether that may be a model behind a server.
        backbone_variable: Variable of the environment that names another default backbone.
        refused_options: Options of `capscore.load` that the metric does not take, though it has a backbone.
        component_names: Keys of `Scores.components`.
        corpus_names: Keys of `Scores.corpus`.
        statistic_names: Keys of `Scores.statistics`.
        in_tables: Components that tables of papers show in place of the score; () for the score.
        printed_times_100: Whether tables of papers print it times 100.
        compares_photos: Whether candidates are photos, such as drawn ones; only with an option that says so.
        needs_images: Whether the metric opens images. Other metrics accept `images` and do not open them, so
            that the same rows can go to every metric.
        needs_references: Whether the metric compares with references.
        takes_references: Whether it uses references if they are given; other metrics refuse them.
        ranked_by: Component on which rows are ranked, "" for the score.
        signed_values: Names of values on which a signature depends.
        splits_texts: Whether the metric splits texts into words, by their language.
        waits: Whether rows of files wait with their texts until all are finished together.
        detail_names: Keys of `Scores.details`; () for a metric without details.
        detail_columns: Details that are also columns of a result, float or str.
        explaining: Options of `load` with which it explains its scores.
        battling: Options of `load` with which it compares two candidates of a photo; {} where it scores them.
        tie_band: Difference of two scores up to which a battle of them is a tie; of a metric that
            `compares_candidates`, distance of its score from 0.5.
        about_scores: What its numbers mean, in sentences for a page; "" for its docstring's first line.
        retrieves_by_cosine: Whether the photo of a caption is found by the cosines of their embeddings.
        extra_columns: Further columns that rows may have.
    """

    metric: ClassVar[str]
    title: ClassVar[str] = ""
    variant_names: ClassVar[tuple[str, ...]] = ()
    kin: ClassVar[Mapping[str, str]] = {}
    citation: ClassVar[tuple[str, ...]] = ()
    score_range: ClassVar[tuple[float | None, float | None]] = (None, None)
    higher_is_better: ClassVar[bool] = True
    lower_components: ClassVar[tuple[str, ...]] = ()
    aggregation: ClassVar[str] = "mean"
    default_backbone: ClassVar[str] = ""
    takes_backbone: ClassVar[bool] = False
    takes_servers: ClassVar[bool] = False
    backbone_variable: ClassVar[str] = "CAPSCORE_BACKBONE"
    refused_options: ClassVar[tuple[str, ...]] = ()
    component_names: ClassVar[tuple[str, ...]] = ()
    corpus_names: ClassVar[tuple[str, ...]] = ()
    statistic_names: ClassVar[tuple[str, ...]] = ()
    in_tables: ClassVar[tuple[str, ...]] = ()
    printed_times_100: ClassVar[bool] = False
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
    explaining: ClassVar[Mapping[str, object]] = {}
    battling: ClassVar[Mapping[str, object]] = {}
    tie_band: ClassVar[float] = TIE_BAND
    about_scores: ClassVar[str] = ""
    retrieves_by_cosine: ClassVar[bool] = False
    embedder: Embedder | None = None

    def __init__(self, *, empty: Literal["worst", "score", "skip", "raise"] = "worst"):
        self.check({"empty": empty})
        self.empty = empty

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        """Check values of the metric's own options; `load` does so before it loads a backbone."""
        empty = options.get("empty", "worst")
        if empty not in ("worst", "score", "skip", "raise"):
            raise InputError(Setting("empty", empty), ": expected 'worst', 'score', 'skip' or 'raise'")

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
        if isinstance(references, Sequence) and are_tokens(references):
            problem = f"the lists hold single words, such as {references[0]!r:.60}, and no texts; "
            raise InputError(f"{problem}join the tokens of a reference to one text", field="references")
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
        prepared = self.prepare_rows(rows, on_error)
        odd = OddRows()
        if not self.compares_photos:
            odd.add(rows.candidates, rows.images, rows.references)
        self.count_odd(prepared, odd).warn()
        return prepared

    def prepare_rows(self, rows: InputRows, on_error: str) -> PreparedRows:
        """The same for rows from `check_rows`, without counting those that look wrong."""
        measured = self.measure(rows, on_error)
        n_rows, kept = len(rows.candidates), rows.kept()
        details: list[dict[str, Any] | None] | None = None
        if rows.details is not None:
            details = [None] * n_rows
            for row, detail in zip(np.flatnonzero(kept).tolist(), rows.details, strict=True):
                details[row] = detail
        errors = [""] * n_rows
        for row, error in rows.failures.items():
            errors[row] = error.message_with_field()

        def of_scored(items: Sequence[T], blank: T) -> list[T]:
            # the text of a failed row may be anything but a string
            return [blank if error else item for item, error in zip(items, errors, strict=True)]

        texts = lists = photos = None
        if self.waits:
            texts = of_scored(rows.candidates, "")
            lists = of_scored(rows.references or [[]] * n_rows, [])
            photos = [""] * n_rows if rows.images is None else photo_names(rows.images)
            for row, image_id in enumerate(rows.extra.get("image_id", ())):
                photos[row] = image_key(plain(image_id)) or photos[row]
        (values,) = spread(kept, {name: measured[name] for name in self.value_names})
        return PreparedRows(
            values=values,
            candidates=texts,
            references=lists,
            photos=photos,
            image_keys=of_scored(rows.image_keys, ""),
            truncated=rows.truncated,
            n_references=rows.n_references,
            languages=rows.languages,
            errors=errors,
            empty=rows.empty & np.array([not error for error in errors]),
            empty_as="score" if self.empty == "worst" and self.worst_score() is None else self.empty,
            details=details,
        )

    def count_odd(self, rows: PreparedRows, odd: OddRows, start: int = 0) -> OddRows:
        """Count rows in which what was measured looks wrong; the first of them is row `start`."""
        found = self.odd_rows(rows)
        if self.empty == "worst":
            found["empty"] = np.flatnonzero(rows.empty).tolist()
        for kind, numbers in found.items():
            for row in numbers:
                odd.count(kind, start + row)
        return odd

    def odd_rows(self, rows: PreparedRows) -> dict[str, list[int]]:
        """Kind of oddity in `capscore.text.suspicious.KINDS` → rows in which what was measured is such."""
        from ..images.load import BLANK

        return {"blank": [row for row, key in enumerate(rows.image_keys) if key in BLANK]}

    def set_own(self, **attributes: object) -> None:
        """Set attributes of the class for this scorer, where its options need others: `needs_images`, …."""
        vars(self).update(attributes)

    @abstractmethod
    def measure(self, rows: InputRows, on_error: str) -> dict[str, np.ndarray]:
        """Measure each row alone: name → (m,) numbers of the m rows that are kept.

        It adds bad rows to `rows.failures`, and sets `rows.image_keys`, `rows.truncated` and `rows.details`
        where the metric has them.
        """

    @abstractmethod
    def finish(self, rows: PreparedRows) -> Scores:
        """Prepared rows → their scores, in the same order."""

    def learn(self, right: Scores, wrong: Scores) -> dict[str, object]:
        """Set what the metric learns from scores of right captions and of captions of other photos.

        Returns:
            What it learned, ready for JSON, for the file of calibrations; {} if it learns nothing.
        """
        return {}

    @classmethod
    def lower_is_better(cls, component: str = "") -> bool:
        """Whether less is better of the score (""), or of a component."""
        if component:
            return component in cls.lower_components
        return not cls.higher_is_better

    @classmethod
    def worst_score(cls) -> float | None:
        """The worst score that there is; None without a bound."""
        return cls.score_range[0 if cls.higher_is_better else 1]

    @classmethod
    def marks_words(cls) -> bool:
        """Whether its details say of each word of a caption, and of each region of a photo, if it fits."""
        return {"words", "regions"} <= {*cls.detail_names}

    @classmethod
    def found(cls, detail: Detail, *, brief: bool = False) -> str:
        """What the details of a row say in a few words, in fewer for a cell of a table; "" for nothing."""
        return ""

    @classmethod
    def reason(cls, detail: Detail) -> str:
        """What the details of a row say is wrong with it, on one line; "" for nothing."""
        return ""

    @classmethod
    def wrong_words(cls, detail: Detail) -> Sequence[WrongWord]:
        """Words of the caption that the details of a row call likely wrong, in order; () for none."""
        return ()

    @classmethod
    def fits(cls, detail: Detail) -> bool | None:
        """Whether the details of a row say that the caption as a whole fits its photo; None for nothing."""
        return None

    @classmethod
    def cells(cls, detail: Detail) -> Mapping[str, Any]:
        """What a result of many rows keeps of the details of a row: at least its `detail_columns`."""
        return detail

    @classmethod
    def doubt(cls, components: Mapping[str, float]) -> str:
        """Why a score with these components means little; "" if nothing speaks against it."""
        return ""

    @property
    def marks_below(self) -> float | None:
        """Score at or below which a word is marked; None where nothing, or a probability, marks words."""
        return None

    @property
    def limits(self) -> tuple[float | None, float | None]:
        """Lowest and highest score with these settings; None where there is no bound."""
        return self.score_range

    @property
    def caution(self) -> str:
        """What a reader of its scores should know, with these settings; "" for nothing."""
        return ""

    @property
    def settings(self) -> dict[str, object]:
        """The settings of the signature that do not depend on rows, in its order."""
        return {"version": __version__}

    def score_matrix(
        self, candidates: Iterable[str], images: Any, language: str | Iterable[str] | None = None
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Score every image with every caption, as retrieval needs it.

        Args:
            candidates: b captions.
            images: a images, as `score` takes them.
            language: Language of the captions, as `score` takes it.

        Returns:
            Scores, float64 (a, b), and the components, each of the same shape.
        """
        captions = list(candidates)
        codes = language if language is None or isinstance(language, str) else list(language)
        rows = [self.score(captions, [image] * len(captions), language=codes) for image in images]
        parts = {name: np.stack([row.components[name] for row in rows]) for name in self.component_names}
        return np.stack([row.scores for row in rows]), parts

    @classmethod
    def corpus_of(cls, sums: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
        """Numbers of all rows together, from sums of `Scores.statistics`; {} where they need more.

        Args:
            sums: Language of rows → name of a statistic → its sum; or an array of sums, of as many sets of
                rows, for an array of each number.
        """
        return {}

    def corpus_of_rows(
        self, scores: np.ndarray, languages: Sequence[str], statistics: Mapping[str, np.ndarray]
    ) -> dict[str, float]:
        """Numbers of all rows together, from what is known of each, (n,); NaN for rows without a score."""
        found = self.corpus_of(sums_by_language(languages, statistics))
        return {name: float(value) for name, value in found.items()}

    @classmethod
    def has_instead(cls, columns: Iterable[str]) -> bool:
        """Whether one of these columns may come in place of references."""
        return not {column.name for column in cls.extra_columns if column.replaces_references}.isdisjoint(
            columns
        )

    @property
    def compares_rows(self) -> bool:
        """Whether the score of a row depends on other rows, so that a stream cannot be scored by batches."""
        return False

    @classmethod
    def battles(cls, options: Mapping[str, Any]) -> bool:
        """Whether it `compares_candidates` with these options of `load`."""
        return False

    @property
    def compares_candidates(self) -> bool:
        """Whether a score is the probability that a candidate is better than its column `rival`.

        A component "first" is then the mean probability that the one which is shown first is better.
        """
        return False

    @property
    def reads_references(self) -> bool:
        """Whether it may be given references; a door with references for several metrics asks here."""
        return self.needs_references or self.takes_references

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

    def warn_about_languages(self, languages: Iterable[str]) -> None:
        """Warn about languages that the metric does not know well; one code per row."""
        return None

    def warn_about_truncation(self, truncated: np.ndarray) -> None:
        """Warn about rows whose text was cut; one bool per row."""
        return None

    def language_problem(self, code: str) -> str:
        """Why no row in a language ("" for not stated) can be scored; "" if it can."""
        return ""

    def varied_settings(self, rows: PreparedRows) -> dict[str, list[str]]:
        """Settings that may differ from row to row, besides language and references → n values.

        Each is that of the signature of the row alone; of a row that failed, it does not matter.
        """
        kept = {rows.languages[row] for row in np.flatnonzero(rows.kept).tolist()}
        of_language = {code: self.language_settings(code) for code in kept}
        names = dict.fromkeys(itertools.chain.from_iterable(of_language.values()))
        return {name: [of_language.get(code, {}).get(name, "") for code in rows.languages] for name in names}

    def language_settings(self, code: str) -> dict[str, str]:
        """Settings of a signature that depend on the language ("": not stated) of a row alone."""
        return {}

    def make_scores(
        self,
        rows: PreparedRows,
        values: np.ndarray,
        components: dict[str, np.ndarray],
        settings: dict[str, object],
        statistics: Mapping[str, np.ndarray] = {},
    ) -> Scores:
        worst = self.worst_score()
        if rows.empty_as == "worst" and worst is not None:
            values = np.where(rows.empty[rows.kept], worst, values)
        parts, sums, whole = spread(
            rows.kept,
            {name: components[name] for name in self.component_names},
            {name: statistics[name] for name in self.statistic_names},
            {"": values},
        )
        scores = whole[""]
        return Scores(
            metric=self.metric,
            scores=scores,
            components=parts,
            settings=settings,
            image_keys=rows.image_keys,
            truncated=rows.truncated,
            n_references=rows.n_references,
            languages=rows.languages,
            failures={row: error for row, error in enumerate(rows.errors) if error},
            empty=rows.empty,
            corpus=self.corpus_of_rows(scores, rows.languages, sums),
            statistics=sums,
            details=rows.details,
            detail_names=self.detail_names,
            ranked_by=self.ranked_by,
            aggregation=self.aggregation,
            lower_is_better=frozenset(filter(self.lower_is_better, ("", *self.component_names))),
            varied=self.varied_settings(rows),
        )


def sums_by_language(
    languages: Sequence[str], statistics: Mapping[str, np.ndarray]
) -> dict[str, dict[str, float]]:
    """Sums of each statistic, (n,), over the rows of each language, without those that are NaN."""
    codes = np.array(languages, dtype=object)
    sums: dict[str, dict[str, float]] = {}
    for name, values in statistics.items():
        scored = ~np.isnan(values)
        for code in sorted({*codes[scored]}):
            total = float(values[scored & (codes == code)].sum())
            sums.setdefault(code, {})[name] = total
    return sums


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
    captions = caption_list(candidates)
    n_rows = len(captions)
    given = [name for name, values in extra.items() if values is not None]
    _check_columns(scorer, images is not None, references is not None, given)
    if images is not None:
        images = check_images(images)
        check_length("images", images, n_rows)
    failures: dict[int, InputError] = {}

    def fail(row: int, error: InputError) -> None:
        if on_error == "raise":
            raise error.at(row)
        failures.setdefault(row, error.at(row))

    are_texts = not scorer.compares_photos
    empty = np.zeros(n_rows, dtype=bool)
    if are_texts:
        empty = find_empty(captions, scorer.empty, fail)
    columns: dict[str, list[Any]] = {}
    may_lack: set[int] = set()  # rows with something in place of references
    for column in scorer.extra_columns:
        if extra.get(column.name) is None:
            continue
        columns[column.name] = as_list(extra[column.name], column.name, column.values, n_rows)
        if column.replaces_references:
            may_lack |= {row for row, cell in enumerate(columns[column.name]) if not is_missing(cell)}
    lists = None
    if references is not None:
        may_be_empty = scorer.empty == "score" and not scorer.takes_backbone  # as coco-caption does
        lists = reference_lists(references, n_rows, may_be_empty, fail, may_lack)
    codes = language_codes(language, n_rows, fail)
    problems = {code: scorer.language_problem(code) for code in dict.fromkeys(codes)}
    if any(problems.values()):
        for row, code in enumerate(codes):
            if problems[code]:
                fail(row, InputError(problems[code], field="language"))
    n_references = np.zeros(n_rows, dtype=np.int64)
    if lists is not None:
        n_references[:] = [len(texts) for texts in lists]
    empty[list(failures)] = False  # each row is counted once
    return InputRows(
        captions,
        images,
        lists,
        codes,
        n_references,
        failures,
        empty,
        image_keys=[""] * n_rows,
        truncated=np.zeros(n_rows, dtype=bool),
        skips_empty=scorer.empty == "skip",
        extra=columns,
    )


def _check_columns(scorer: Scorer, has_images: bool, has_references: bool, given: Sequence[str]) -> None:
    """Raise InputError where a metric lacks a column, or is given references that it does not read."""
    metric = scorer.metric
    if scorer.needs_images and not has_images:
        raise InputError(f"{metric} looks at images, but images=None", field="images")
    if scorer.needs_references and not has_references and not scorer.has_instead(given):
        problem = f"{metric} compares with references, but references=None"
        raise InputError(problem, field="references")
    if has_references and not scorer.reads_references:
        raise InputError(f"{metric} takes no references", field="references")


def check_column_names(scorer: Scorer | type[Scorer], extra: Mapping[str, object]) -> None:
    """Check that a metric has the extra columns that were given; None counts as not given."""
    names = [column.name for column in scorer.extra_columns]
    for name, values in extra.items():
        if name not in names and values is not None:
            known = f"; its rows may have {', '.join(names)}" if names else ""
            raise OptionError(f"{scorer.metric} takes no {name}{known}", field=name)
