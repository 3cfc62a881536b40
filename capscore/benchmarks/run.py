"""Runs metrics on a benchmark: its files in, measured numbers beside the published ones out."""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import __version__
from ..errors import CapscoreError, InputError, Setting
from ..metrics.signature import parse_signature
from ..registry import METRICS
from ..statistics.columns import plain
from .protocols import ProtocolResult, Statistic
from .published import Published, find
from .score_table import read_scores
from .tasks import KeyedRows, Queries, Task, TaskOptions, task_of

if TYPE_CHECKING:
    from ..metrics.base import Scorer

# the split to measure on where none is named: the first of these that exists
USUAL_SPLITS = ("test", "test_2016_flickr", "validation", "val")
# all splits of a benchmark, as `datasets` calls them
EVERY_SPLIT = "all"
# name that people use → the metric that computes it, and its component
COMPONENTS = {
    **{f"bleu_{n}": ("bleu", f"bleu_{n}") for n in (1, 2, 3, 4)},
    "infometic_plus": ("infometic", "infometic_plus"),
    "infometic_recall": ("infometic", "recall"),
    "infometic_precision": ("infometic", "precision"),
}


class MetricRefusal(CapscoreError):
    """A metric and a benchmark do not go together, whatever the backbone."""


@dataclass(frozen=True)
class MetricResult:
    """What a benchmark says about one metric.

    Attributes:
        metric: Name of the metric, or the name given to scores from a file.
        backbone: Name of the backbone; "" if the metric has none.
        signature: Everything the scores depend on; for a file, its name and how its rows were matched.
        outcome: Measured numbers.
        published: Statistic → published values, with the one to compare with first.
        n_rows: Number of the benchmark's rows that were scored.
        n_queries: Number of captions that were scored.
        seconds: Time that measuring took, encoding included; further rows of a metric share it.
        warnings: Warnings given while scoring.
        rows: Rows that were scored.
        scores: (q,) scores of the queries; None for retrieval and for words and regions.
    """

    metric: str
    backbone: str
    signature: str
    outcome: ProtocolResult
    n_rows: int
    n_queries: int
    seconds: float
    warnings: tuple[str, ...] = ()
    published: dict[str, list[Published]] = field(default_factory=dict)
    rows: KeyedRows = field(default=(), repr=False)
    scores: np.ndarray | None = field(default=None, repr=False)

    @property
    def statistics(self) -> dict[str, Statistic]:
        """The measured numbers by name."""
        return {statistic.name: statistic for statistic in self.outcome.statistics}

    def value(self, name: str) -> float | None:
        """The value of a statistic; None if it is undefined or was not measured."""
        return self.statistics[name].value if name in self.statistics else None

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        statistics = []
        for name, value, interval, n in self.outcome.statistics:
            published = [entry.to_dict() for entry in self.published.get(name, [])]
            for entry, figure in zip(published, self.published.get(name, []), strict=True):
                entry["difference"] = None if value is None else value - entry["value"]
                entry["standing"] = figure.standing(value)
            ends = None if interval is None else list(interval)
            statistics.append(
                {"name": name, "measured": value, "interval": ends, "n": n, "published": published}
            )
        return {
            "metric": self.metric,
            "backbone": self.backbone or None,
            "signature": self.signature,
            "statistics": statistics,
            "counts": self.outcome.counts,
            "notes": list(self.outcome.notes),
            "warnings": list(self.warnings),
            "n_rows": self.n_rows,
            "n_queries": self.n_queries,
            "seconds": round(self.seconds, 3),
            "details": plain(self.outcome.details),
        }


@dataclass(frozen=True)
class BenchmarkRun:
    """What a benchmark's configuration says about every metric.

    Attributes:
        benchmark, config, split, version: Names of what was read.
        files: Name of every annotation file that was read → its SHA-256.
        n_rows: Number of rows.
        options: How scores become numbers.
        results: One result per metric, and one for each of its components that has a row of its own.
        skipped: Metric → why it was not run; a `MetricRefusal` if the benchmark and the kind of metric do not
            go together, whatever the backbone.
        comparisons: Paired tests of the first metric against the others.
        notes: Remarks made while the files were read.
        unlike: Difference between its rows and those that published figures are of; "" for none.
    """

    benchmark: str
    config: str
    split: str
    version: str
    files: dict[str, str]
    n_rows: int
    options: TaskOptions
    results: list[MetricResult] = field(default_factory=list)
    skipped: dict[str, CapscoreError] = field(default_factory=dict)
    comparisons: list[dict[str, Any]] = field(default_factory=list)
    notes: tuple[str, ...] = ()
    unlike: str = ""

    @property
    def name(self) -> str:
        """Benchmark and configuration in words: "xvnli · fr"."""
        return config_title(self.benchmark, self.config)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "benchmark": self.benchmark,
            "config": self.config,
            "split": self.split,
            "script_version": self.version,
            "capscore_version": __version__,
            "files": self.files,
            "n_rows": self.n_rows,
            "options": self.options.to_dict(),
            "results": [result.to_dict() for result in self.results],
            "comparisons": self.comparisons,
            "skipped": {metric: str(why) for metric, why in self.skipped.items()},
            "notes": list(self.notes),
        }


def config_title(slug: str, config: str | None) -> str:
    """Benchmark and configuration in words.

    >>> config_title("xvnli", "fr"), config_title("thumb", "default")
    ('xvnli · fr', 'thumb')
    """
    return slug if config in ("default", "", None) else f"{slug} · {config}"


# ---- what is read ----


def read_benchmark(
    slug: str,
    config: str | None = None,
    *,
    data_dir: str | Path | None = None,
    split: str | None = None,
    image_dir: str | Path | None = None,
    images: bool | None = None,
    options: TaskOptions | None = None,
    readings: dict[tuple[str, str], Any] | None = None,
) -> tuple[BenchmarkRun, KeyedRows]:
    """Read the rows of a benchmark: an empty run, with the warnings of reading, and the rows.

    Args:
        slug, config, data_dir, split, image_dir, images: As in `load_benchmark`. The default split is the
            test split, or else the validation split; "all" takes the rows of every split together.
        options: How scores will become numbers.
        readings: What was read of the same files for other configurations; None reads them anew.

    Raises:
        CapscoreError: no such benchmark, configuration or split; a file is missing or damaged; two splits
            have rows of one key.
    """
    from .data.load import benchmark_builder

    builder = benchmark_builder(slug, config, data_dir=data_dir, image_dir=image_dir, images=images)
    builder.readings = readings
    where, names = f"{slug} ({builder.config.name})", builder.splits()
    usual = (*USUAL_SPLITS, *(names if len(names) == 1 else ()))
    chosen = split or next((name for name in usual if name in names), None)
    if chosen is None or chosen not in (*names, EVERY_SPLIT):
        given = "name a split" if split is None else f"there is no split {split!r}"
        known = f"one of {', '.join(names)}, or {EVERY_SPLIT}"
        raise InputError(f"{where}: {given}: {known}", field="split")
    with heard() as said:
        rows = [
            row for name in (names if chosen == EVERY_SPLIT else [chosen]) for row in builder.examples(name)
        ]
    key, n = Counter(key for key, _ in rows).most_common(1)[0]
    if n > 1:
        several = f"{where}: the row {key!r} is in more than one split; name one of {', '.join(names)}"
        raise InputError(several, field="split")
    tested = next((name for name in usual if name in builder.SPLITS), chosen)
    n_published = builder.published(chosen).get("rows", len(rows))
    unlike = "" if n_published == len(rows) else f"{len(rows):,} rows, not {n_published:,}"
    run = BenchmarkRun(
        benchmark=slug,
        config=builder.config.name,
        split=chosen,
        version=str(builder.config.version),
        files={path.name: source.sha256() for path, source in builder.files_read.items()},
        n_rows=len(rows),
        options=options or TaskOptions(),
        notes=tuple(said),
        unlike=unlike if chosen == tested else f"the split {chosen}, not {tested}",
    )
    return run, rows


def benchmark_queries(slug: str, config: str | None = None, **where: Any) -> Queries:
    """What a metric has to score on a benchmark: captions, photos and references, each with an id.

    Args:
        slug, config: Benchmark and configuration.
        where: `data_dir`, `split` and `image_dir`, as in `run_benchmark`.

    Raises:
        CapscoreError: as `run_benchmark`; one score per query is not enough for the benchmark.
    """
    run, rows = read_benchmark(slug, config, **where)
    task = task_of(slug, run.config)
    task.check_takes_scores(slug)
    return task.queries(rows)


# ---- what is measured ----


def run_benchmark(
    slug: str,
    config: str | None = None,
    *,
    data_dir: str | Path | None = None,
    split: str | None = None,
    image_dir: str | Path | None = None,
    metrics: Mapping[str, Callable[[], Scorer]] | None = None,
    scores: Mapping[str, str | Path] | None = None,
    options: TaskOptions | None = None,
    partial: bool = False,
    compare: bool = False,
    keep_going: bool = False,
    say: Callable[[str], None] | None = None,
) -> BenchmarkRun:
    """Measure metrics on a benchmark.

    Args:
        slug, config, data_dir, split, image_dir: As in `read_benchmark`.
        metrics: Name → function that makes its scorer. `bleu_1` to `bleu_4` name components of `bleu`, and
            "infometic_plus", "infometic_recall" and "infometic_precision" those of `infometic`.
        scores: Name → file of scores that others computed (see `score_table.read_scores`). A name such as
            `mcs@BACKBONE` picks the published figures to compare with.
        options: How scores become numbers; None takes the published way, with 1,000 bootstrap draws.
        partial: Whether to score only the rows whose photos (and references) are available, and say how many.
        compare: Whether to test every metric against the first, paired by photo, on the rows that both
            scored, where the benchmark has ratings.
        keep_going: Whether a metric that cannot be run goes into `skipped`; otherwise it is an error.
        say: Function that takes one line about what is being done.

    Raises:
        CapscoreError: loading or scoring failed; photos or references that a metric needs are missing.
        InputError: there is nothing to measure; a file of scores does not fit.

    >>> run = run_benchmark("flickr8k_human", "expert", data_dir="flickr8k",        # doctest: +SKIP
    ...                     metrics={"cider": lambda: capscore.load("cider")})
    >>> run.results[0].outcome.statistics[0]                                          # doctest: +SKIP
    Statistic(name='tau_c', value=0.4389…, …)
    """
    if not metrics and not scores:
        raise InputError("nothing to measure: name a metric, or a file of scores", field="metrics")
    metrics, scores, say = metrics or {}, scores or {}, say or (lambda line: None)
    where: dict[str, Any] = {"data_dir": data_dir, "split": split, "image_dir": image_dir}
    run, rows = read_benchmark(slug, config, images=images_for(metrics), options=options, **where)
    task = task_of(slug, run.config)
    if scores:
        task.check_takes_scores(slug)
    # what cannot be read or run is reported before the long work starts
    theirs = [_take(run, task, rows, name, Path(path)) for name, path in scores.items()]
    ready = {}
    for name in metrics:
        with _skipping(run, name, keep_going):
            ready[name] = _usable(run, task, rows, name, partial=partial)
    for name, part in ready.items():
        say(f"{run.name}: {name}")
        with _skipping(run, name, keep_going):
            run.results.append(_measure(run, task, part, name, metrics[name]))
    run.results.extend(theirs)
    return _compare(run, task) if compare else run


def scored_by(name: str) -> tuple[str, str]:
    """A name in the table ("bleu_4", "mcs@embedded") → the metric, and its component or ""."""
    plain = name.partition("@")[0]
    return COMPONENTS.get(plain, (plain, ""))


def images_for(metrics: Iterable[str]) -> bool | None:
    """`images` of `read_benchmark` for these metrics: False where none looks at photos."""
    return None if any(METRICS.get(scored_by(name)[0]).needs_images for name in metrics) else False


@contextmanager
def _skipping(run: BenchmarkRun, name: str, keep_going: bool) -> Iterator[None]:
    """Note in `skipped` what stops a metric, or raise it unless the others are to go on."""
    try:
        yield
    except (CapscoreError, RuntimeError, MemoryError) as error:  # such as a full device
        if not keep_going:
            raise
        wrapped = CapscoreError(f"{type(error).__name__}: {error}")
        run.skipped[name] = error if isinstance(error, CapscoreError) else wrapped


def _usable(run: BenchmarkRun, task: Task, rows: KeyedRows, name: str, *, partial: bool) -> KeyedRows:
    """The rows that a metric can be run on: all, or with `partial` those that have what it needs."""
    metric, component = scored_by(name)
    kind = METRICS.get(metric)
    if reason := task.refusal(run.benchmark, kind, component):
        raise MetricRefusal(f"{name} {reason}")
    queries = task.queries(rows)
    usable = np.ones(len(queries), dtype=bool)
    left_out: set[int] = set()
    if kind.needs_images:
        usable &= np.array([path is not None for path in queries.images])
        missing = {image for image, path in zip(queries.image_ids, queries.images, strict=True) if not path}
        # a photo without captions is no query, and is looked at among others
        left_out |= {index for index, (_, row) in enumerate(rows) if row.get("image", "") is None}
        missing |= {rows[index][1]["image_id"] for index in left_out}
        if missing and (not partial or not usable.any()):
            raise MetricRefusal(
                f"{name} looks at photos, and {len(missing):,} of the {len(set(queries.image_ids)):,} photos "
                f"of {run.name} are missing, such as {min(missing)}: `capscore data check {run.benchmark}` "
                "lists them; ",
                Setting("partial", True),
                " scores the other rows",
            )
    if kind.needs_references:
        usable &= np.array([bool(texts) for texts in queries.references])
        if not usable.all() and (not partial or not usable.any()):
            n, total = sum(not texts for texts in queries.references), len(queries)
            which = "no caption has any" if n == total else f"{n:,} of {total:,} captions have none"
            raise MetricRefusal(f"{name} compares captions with references, and in {run.benchmark} {which}")
    left_out |= {owner for owner, fits in zip(queries.owners, usable, strict=True) if not fits}
    return [row for index, row in enumerate(rows) if index not in left_out] if left_out else rows


def _measure(
    run: BenchmarkRun, task: Task, rows: KeyedRows, name: str, make: Callable[[], Scorer]
) -> MetricResult:
    """What the benchmark says about a metric, or a component of it."""
    metric, component = scored_by(name)
    with heard() as said:
        scorer, start = make(), time.perf_counter()
        measured = task.measure(rows, scorer, component, run.options)
        seconds = time.perf_counter() - start
    backbone = getattr(getattr(scorer, "backbone", None), "name", "")
    plain_name = name.partition("@")[0]
    known_as = plain_name.replace(metric, scorer.known_as, 1)
    result = MetricResult(
        metric=name,
        backbone=backbone,
        signature=f"{measured.signature}|component:{component}" if component else measured.signature,
        outcome=measured.outcome,
        n_rows=len(rows),
        n_queries=len(task.queries(rows)),
        seconds=seconds,
        warnings=tuple(said),
        rows=rows,
        scores=measured.scores,
    )
    notes = [] if known_as == plain_name else [f"with these settings it is {known_as}"]
    if scorer.ranked_by and task.ranks and not component:
        notes.append(f"rows are ranked by the {scorer.ranked_by} of their score")
    reading = _unusual_reading(scorer, measured.signature)
    return _beside_published(run, task, result, known_as, backbone, notes, reading)


def _unusual_reading(scorer: Scorer, signature: str) -> str:
    """The settings of a signature with which no figure was published; "" for none."""
    stated = parse_signature(signature)[1]
    usual = {"variant": "coco", "df": "rows", "long": "cut"}
    names = [name for name, start in usual.items() if not stated.get(name, start).startswith(start)]
    prefix = getattr(getattr(scorer, "backbone", None), "prefix", None)
    names += ["prefix"] if getattr(scorer, "prefix", prefix) != prefix else []
    return ", ".join(f"{name}={stated[name]!r}" for name in names)


def _take(run: BenchmarkRun, task: Task, rows: KeyedRows, name: str, path: Path) -> MetricResult:
    """The benchmark's numbers for scores from a file; "mcs@BACKBONE" names their backbone."""
    queries = task.queries(rows)
    start = time.perf_counter()
    table = read_scores(path, queries, missing=run.options.missing)
    try:
        with heard() as said:
            outcome = task.outcome(rows, table.scores, run.options)
    except InputError as error:
        # the error's row is the benchmark's, whatever the order of the file
        of = "" if error.row is None else f", {rows[error.row][0]}"
        raise InputError(f"{path}{of}: {error.message_with_field()}") from error
    result = MetricResult(
        metric=name,
        backbone="",
        signature=f"{path.name}, column score, rows matched by id",
        outcome=outcome,
        n_rows=len(rows),
        n_queries=len(queries),
        seconds=time.perf_counter() - start,
        warnings=tuple(said),
        rows=rows,
        scores=table.scores,
    )
    metric, _, backbone = name.partition("@")
    return _beside_published(run, task, result, metric, backbone, table.notes)


def _beside_published(
    run: BenchmarkRun,
    task: Task,
    result: MetricResult,
    metric: str,
    backbone: str,
    notes: Iterable[str],
    unlike: str = "",
) -> MetricResult:
    """A result with the published figures of a metric, best match first, and further notes.

    Figures are compared with scores of the same backbone; those whose source names none also with scores of
    an unknown one, which is "". If there are none, the first of another backbone is there, not comparable.
    `unlike` names a reading of captions that is not the published one.
    """
    if not task.measured_as_published(result.rows, run.options):
        unlike = f"raters={run.options.raters!r}, not single ratings"
    elif result.n_rows < run.n_rows:
        unlike = f"{result.n_rows:,} of {run.n_rows:,} rows"
    unlike = run.unlike or unlike
    languages = {row["language"] for _, row in result.rows}
    found: dict[str, list[Published]] = {}
    for statistic in result.outcome.statistics:
        config, name, settings = task.published_as(statistic.name, run.config)
        same, every = (
            [
                figure
                for figure in find(run.benchmark, config, metric, backbone=named)
                if figure.statistic == name
                and figure.setting in settings
                and figure.unit != "score"
                and (figure.language is None or languages == {figure.language})
            ]
            for named in (backbone or None, None)
        )
        same = [figure for figure in same if backbone or figure.backbone is None]
        found[statistic.name] = [
            dataclasses.replace(figure, unlike=figure.unlike or unlike) for figure in same
        ] or [dataclasses.replace(figure, unlike=_other(figure, metric, backbone)) for figure in every[:1]]
    outcome = dataclasses.replace(result.outcome, notes=(*result.outcome.notes, *notes))
    return dataclasses.replace(result, outcome=outcome, published=found)


def _other(figure: Published, metric: str, backbone: str) -> str:
    told = "" if backbone else f"; scores named {metric}@BACKBONE are compared"
    return f"with the backbone {figure.backbone}{told}" if figure.backbone else "its backbone is not named"


@contextmanager
def heard() -> Iterator[list[str]]:
    """Collect the warnings given inside, each once, as lines."""
    said: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for category in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
            warnings.simplefilter("ignore", category)  # meant for programmers
        yield said
    said.extend(dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught))


def _compare(run: BenchmarkRun, task: Task) -> BenchmarkRun:
    """A run with paired tests of its first result against the others, on the rows that both scored."""
    notes = [] if len(run.results) > 1 else ["nothing is compared: a comparison needs two metrics"]
    by_row = [_scores_by_row(task, result) for result in run.results]
    for result, scores in zip(run.results[1:], by_row[1:], strict=True):
        first, pair = run.results[0], f"{run.results[0].metric} and {result.metric}"
        common = by_row[0].keys() & scores.keys()
        rows = [row for row in first.rows if row[0] in common]
        tests: list[dict[str, Any]] = []
        if rows and first.scores is not None and result.scores is not None:
            before, after = (np.concatenate([part[key] for key, _ in rows]) for part in (by_row[0], scores))
            tests = task.compare(rows, before, after, run.options)
        if not tests:
            why = f"there is no paired test for {run.benchmark}" if rows else "no row was scored by both"
            notes.append(f"{pair} are not compared: {why}")
        elif len(rows) < run.n_rows:
            notes.append(f"{pair} are compared on {len(rows):,} of {run.n_rows:,} rows")
        run.comparisons.extend({"metrics": [first.metric, result.metric], **test} for test in tests)
    return dataclasses.replace(run, notes=(*run.notes, *notes))


def _scores_by_row(task: Task, result: MetricResult) -> dict[str, np.ndarray]:
    """Name of each row that has a score for each of its queries → these scores; none where rows have none."""
    names = [name for name, _ in result.rows]
    if result.scores is None:
        return dict.fromkeys(names, np.zeros(0))
    owners = np.array(task.queries(result.rows).owners, dtype=np.int64)
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    parts = zip(owners[starts].tolist(), np.split(result.scores, starts[1:]), strict=True)
    return {names[owner]: part for owner, part in parts if not np.isnan(part).any()}
