"""One benchmark, some metrics: files in, measured numbers beside the published ones out."""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import __version__
from ..errors import CapscoreError, InputError
from ..scorers import scorer_class
from ..scorers.signature import format_signature
from .score_table import ScoreTable, read_scores
from .tasks import Options, Outcome, Queries, RetrievalTask, Rows, Task, TokenTask, task_of

if TYPE_CHECKING:
    from ..scorers.base import Scorer
    from .data.builder import CaptionBenchmark
    from .published import Published

# the split that is measured on, where none is named: the first of these that there is
USUAL_SPLITS = ("test", "test_2016_flickr", "validation", "val")
# what a reader asks for → the metric that computes it, and which of its components is meant
COMPONENTS = {
    **{f"bleu_{n}": ("bleu", f"bleu_{n}") for n in (1, 2, 3, 4)},
    "infometic_plus": ("infometic", "infometic_plus"),
    "infometic_recall": ("infometic", "recall"),
    "infometic_precision": ("infometic", "precision"),
}


@dataclass(frozen=True)
class MetricResult:
    """What a benchmark says of one metric.

    Attributes:
        metric: its name; of scores from a file, the name given to them.
        backbone: name of its towers; "" if it has none.
        signature: everything the scores depend on; of a file, its name and how its rows were matched.
        outcome: the measured numbers.
        published: statistic → published values, the one to compare with first.
        n_rows: rows of the benchmark that were scored.
        n_queries: captions scored.
        seconds: what scoring took, encoding included; further rows of a metric share it.
        warnings: what was said on the way.
        rows: what was scored.
        scores: (q,) of its queries; None for retrieval, and of words and regions.
    """

    metric: str
    backbone: str
    signature: str
    outcome: Outcome
    published: dict[str, list[Published]]
    n_rows: int
    n_queries: int
    seconds: float
    warnings: tuple[str, ...] = ()
    rows: Rows = field(default=(), repr=False)
    scores: np.ndarray | None = field(default=None, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "metric": self.metric,
            "backbone": self.backbone or None,
            "signature": self.signature,
            "statistics": [
                {
                    "name": statistic.name,
                    "measured": statistic.value,
                    "interval": None if statistic.interval is None else list(statistic.interval),
                    "n": statistic.n,
                    "published": [
                        {
                            "value": entry.measured_unit,
                            "difference": None
                            if statistic.value is None
                            else statistic.value - entry.measured_unit,
                            "kind": entry.kind,
                            "metric": entry.metric,
                            "backbone": entry.backbone,
                            "setting": entry.setting,
                            "source": entry.citation,
                            "note": entry.note,
                        }
                        for entry in self.published.get(statistic.name, [])
                    ],
                }
                for statistic in self.outcome.statistics
            ],
            "counts": self.outcome.counts,
            "notes": list(self.outcome.notes),
            "warnings": list(self.warnings),
            "n_rows": self.n_rows,
            "n_queries": self.n_queries,
            "seconds": round(self.seconds, 3),
            "details": self.outcome.details,
        }


@dataclass(frozen=True)
class BenchmarkRun:
    """A benchmark's configuration and what it says of every metric.

    Attributes:
        benchmark, config, split, version: what was read.
        files: name of every annotation file that was read → its SHA-256.
        n_rows: its rows.
        options: how numbers are made of scores.
        results: one a metric, and one for each component of it that has a row of its own.
        skipped: metric → why it was not run.
        comparisons: paired tests of the first metric against the others.
        notes: what was said while the files were read.
    """

    benchmark: str
    config: str
    split: str
    version: str
    files: dict[str, str]
    n_rows: int
    options: Options
    results: list[MetricResult] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    comparisons: list[dict[str, Any]] = field(default_factory=list)
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Benchmark and configuration, as a person would say them."""
        return f"{self.benchmark} · {self.config}" if self.config not in ("default", "") else self.benchmark

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
            "options": dataclasses.asdict(self.options),
            "results": [result.to_dict() for result in self.results],
            "comparisons": self.comparisons,
            "skipped": self.skipped,
            "notes": list(self.notes),
        }


def run_benchmark(
    slug: str,
    config: str | None = None,
    *,
    data_dir: str | Path | None = None,
    split: str | None = None,
    image_dir: str | Path | None = None,
    metrics: Mapping[str, Callable[[], Scorer]] | None = None,
    scores: Mapping[str, str | Path] | None = None,
    score_column: str = "score",
    options: Options | None = None,
    partial: bool = False,
    compare: bool = False,
    keep_going: bool = False,
    say: Callable[[str], None] | None = None,
) -> BenchmarkRun:
    """Measure metrics on a benchmark.

    Args:
        slug, config, data_dir, split, image_dir: as in `capscore.load_benchmark`; where no split is named it
            is the test split, or else the validation split.
        metrics: name → what makes its scorer; `bleu_1` to `bleu_4` name components of `bleu`, and the names
            in `Scorer.reported` those of others. A metric that is asked for by its own name has the latter as
            further rows, where the benchmark has ratings to set them beside.
        scores: name → file of scores that others computed (see `score_table.read_scores`); a name such as
            `mcs@BACKBONE` says whose published figures to set beside.
        score_column: the column of those files.
        options: how numbers are made of scores; None takes what is published, with 1,000 bootstrap draws.
        partial: score only the rows whose photos (and references) are there, and say how many.
        compare: test every metric against the first, paired by photo, where the benchmark has ratings.
        keep_going: a metric that cannot be run goes into `skipped`; otherwise it is an error.
        say: takes one line on what is being done.

    Raises:
        CapscoreError: as loading and scoring do; photos or references are missing that a metric needs.
        InputError: nothing to measure; a file of scores that does not fit.

    >>> run = run_benchmark("flickr8k_human", "expert", data_dir="flickr8k",        # doctest: +SKIP
    ...                     metrics={"cider": lambda: capscore.load("cider")})
    >>> run.results[0].outcome.statistics[0]                                          # doctest: +SKIP
    Statistic(name='tau_c', value=0.4389…, …)
    """
    if not metrics and not scores:
        raise InputError("there is nothing to measure: name a metric, or a file of scores", field="metrics")
    options = options or Options()
    say = say or (lambda line: None)
    opens_images = any(scorer_class(_scored_by(name)[0]).needs_images for name in metrics or {})
    builder, split = open_benchmark(
        slug,
        config,
        data_dir=data_dir,
        split=split,
        image_dir=image_dir,
        images=None if opens_images else False,
    )
    task = task_of(slug, builder.config.name)
    _check_any_fits(task, slug, metrics or {}, scores or {})
    with heard() as said:
        rows = list(builder.examples(split))
    run = BenchmarkRun(
        benchmark=slug,
        config=builder.config.name,
        split=split,
        version=str(builder.config.version),
        files={path.name: source.sha256() for path, source in builder.files_read.items()},
        n_rows=len(rows),
        options=options,
        notes=tuple(said),
    )
    # what cannot be read or run is said before the others have worked for long
    theirs = []
    for name, path in (scores or {}).items():
        say(f"{run.name}: {name}")
        theirs.append(_take(run, task, rows, name, Path(path), score_column))
    ready = {}
    for name in metrics or {}:
        with _skipping(run, name, keep_going):
            ready[name] = _usable(run, task, rows, name, partial=partial)
    for name, part in ready.items():
        say(f"{run.name}: {name}")
        with _skipping(run, name, keep_going):
            further = _further_rows(task, name, {*metrics, *(scores or {})})
            run.results.extend(_measure(run, task, part, name, metrics[name], further))
    run.results.extend(theirs)
    return dataclasses.replace(run, notes=(*run.notes, *_compare(run, task))) if compare else run


@contextmanager
def _skipping(run: BenchmarkRun, name: str, keep_going: bool) -> Iterator[None]:
    """What stops a metric is noted in `skipped`, or, unless the others are to go on, raised."""
    try:
        yield
    except CapscoreError as error:
        if not keep_going:
            raise
        run.skipped[name] = str(error)


def _compare(run: BenchmarkRun, task: Task) -> list[str]:
    """Put paired tests of the first metric against the others into the run; in words, what was not tested."""
    if len(run.results) < 2:
        return ["nothing is compared: that takes two metrics"]
    first, *others = run.results
    notes = []
    for other in others:
        pair = f"{first.metric} and {other.metric} are not compared"
        if [key for key, _ in first.rows] != [key for key, _ in other.rows]:
            notes.append(f"{pair}: they were run on different rows")
            continue
        if first.scores is None or other.scores is None:
            tests = []
        else:
            tests = task.compare(first.rows, first.scores, other.scores, run.options)
        if not tests:
            notes.append(f"{pair}: there is no paired test for {run.benchmark}")
        run.comparisons.extend({"metrics": [first.metric, other.metric], **test} for test in tests)
    return notes


def _scored_by(name: str) -> tuple[str, str]:
    """A name in the table, "bleu_4" or "mcs@embedded" → the metric, and its component if one is meant."""
    plain = name.partition("@")[0]
    return COMPONENTS.get(plain, (plain, ""))


def open_benchmark(
    slug: str,
    config: str | None = None,
    *,
    data_dir: str | Path | None = None,
    split: str | None = None,
    image_dir: str | Path | None = None,
    images: bool | None = None,
) -> tuple[CaptionBenchmark, str]:
    """A benchmark's builder and the split that is measured on.

    Raises:
        CapscoreError: no such benchmark, configuration or split.
    """
    from .data.load import benchmark_builder

    builder = benchmark_builder(slug, config, data_dir=data_dir, image_dir=image_dir, images=images)
    names = builder.splits()
    usual = (*USUAL_SPLITS, *(names if len(names) == 1 else ()))
    chosen = split or next((name for name in usual if name in names), None)
    if chosen not in names:
        given = "a split must be named" if split is None else f"there is no split {split!r}"
        raise InputError(f"{slug} ({builder.config.name}): {given}: one of {', '.join(names)}", field="split")
    return builder, chosen


def benchmark_queries(
    slug: str,
    config: str | None = None,
    *,
    data_dir: str | Path | None = None,
    split: str | None = None,
    image_dir: str | Path | None = None,
) -> Queries:
    """What a metric has to score on a benchmark: captions, photos and references, each with an id.

    Raises:
        CapscoreError: as `run_benchmark`; the benchmark is of retrieval, where scores of rows are not enough.
    """
    builder, split = open_benchmark(slug, config, data_dir=data_dir, split=split, image_dir=image_dir)
    task = task_of(slug, builder.config.name)
    _check_takes_scores(task, slug)
    return task.queries(list(builder.examples(split)))


def _check_takes_scores(task: Task, slug: str) -> None:
    if not task.takes_scores:
        raise CapscoreError(f"{slug} {task.asks_for}")


def _check_any_fits(task: Task, slug: str, metrics: Iterable[str], scores: Iterable[str]) -> None:
    """Stop before files are read that nothing could be measured on."""
    if list(scores):
        _check_takes_scores(task, slug)
        return
    reasons = [_refusal(task, slug, name) for name in metrics]
    if all(reasons):
        raise CapscoreError("; ".join(reasons))


def _refusal(task: Task, slug: str, name: str) -> str:
    metric, component = _scored_by(name)
    return task.refusal(slug, name, scorer_class(metric), component)


def _further_rows(task: Task, name: str, asked: Collection[str]) -> dict[str, str]:
    """Rows that a metric has beside its own: name → component; none that is asked for by itself."""
    _, sign, backbone = name.partition("@")
    metric, component = _scored_by(name)
    if component:
        return {}
    rows = {f"{other}{sign}{backbone}": part for other, part in task.reported(scorer_class(metric)).items()}
    return {other: part for other, part in rows.items() if other not in asked}


def _measure(
    run: BenchmarkRun,
    task: Task,
    rows: Rows,
    name: str,
    make: Callable[[], Scorer],
    further: Mapping[str, str],
) -> list[MetricResult]:
    """What the benchmark says of a metric, and of further components of it, from one scoring of the rows."""
    metric, component = _scored_by(name)
    kind = scorer_class(metric)
    queries = task.queries(rows)
    wanted = {name: component, **further}
    values: dict[str, np.ndarray] = {}
    with heard() as said:
        scorer = make()
        start = time.perf_counter()
        if isinstance(task, RetrievalTask):
            outcomes = task.retrieve(rows, scorer, list(wanted.values()), run.options)
            signature = format_signature(metric, {**scorer.settings, "lang": named_languages(queries)})
            seconds = time.perf_counter() - start
        elif isinstance(task, TokenTask):
            found = task.score(rows, scorer)
            seconds = time.perf_counter() - start
            outcomes = {component: task.token_outcome(rows, found.details, scorer.beta, run.options)}
            signature = found.signature
        else:
            found = scorer.score(
                queries.candidates,
                queries.images if kind.needs_images else None,
                references=queries.references if kind.needs_references else None,
                language=queries.languages,
            )
            seconds = time.perf_counter() - start
            values = {part: found.components[part] if part else found.scores for part in wanted.values()}
            outcomes = {part: task.outcome(rows, column, run.options) for part, column in values.items()}
            signature = found.signature
    tower = getattr(scorer, "backbone", None)
    backbone = "" if tower is None else tower.name
    results = []
    for label, part in wanted.items():
        plain = label.partition("@")[0]
        known_as = plain.replace(metric, scorer.known_as, 1)
        figures, notes = _published(run, task, rows, outcomes[part], known_as, backbone, queries)
        if known_as != plain:
            notes = [f"with these settings it is {known_as}", *notes]
        results.append(
            MetricResult(
                metric=label,
                backbone=backbone,
                signature=f"{signature}|component:{part}" if part else signature,
                outcome=dataclasses.replace(outcomes[part], notes=(*outcomes[part].notes, *notes)),
                published=figures,
                n_rows=len(rows),
                n_queries=len(queries),
                seconds=seconds,
                warnings=tuple(said) if label == name else (),
                rows=rows,
                scores=values.get(part),
            )
        )
    return results


def _take(run: BenchmarkRun, task: Task, rows: Rows, name: str, path: Path, column: str) -> MetricResult:
    """Somebody's scores from a file; "mcs@BACKBONE" names the towers that they are of."""
    _check_takes_scores(task, run.benchmark)
    queries = task.queries(rows)
    start = time.perf_counter()
    table: ScoreTable = read_scores(path, queries, column=column, missing=run.options.missing)
    try:
        with heard() as said:
            outcome = task.outcome(rows, table.scores, run.options)
    except InputError as error:
        # its row is one of the benchmark's, whatever the order of the file
        of = "" if error.row is None else f", {rows[error.row][0]}"
        raise InputError(f"{path}{of}: {error.message_with_field()}") from error
    metric, _, backbone = name.partition("@")
    figures, notes = _published(run, task, rows, outcome, metric, backbone, queries)
    return MetricResult(
        metric=name,
        backbone="",
        signature=f"{path.name}, column {column}, rows matched by {table.matched_by}",
        outcome=dataclasses.replace(outcome, notes=(*table.notes, *outcome.notes, *notes)),
        published=figures,
        n_rows=len(rows),
        n_queries=len(queries),
        seconds=time.perf_counter() - start,
        warnings=tuple(said),
        rows=rows,
        scores=table.scores,
    )


def _usable(run: BenchmarkRun, task: Task, rows: Rows, name: str, *, partial: bool) -> Rows:
    """The rows that a metric can be run on: all of them, or with `partial` those that have what it needs."""
    kind = scorer_class(_scored_by(name)[0])
    if reason := _refusal(task, run.benchmark, name):
        raise CapscoreError(reason)
    queries = task.queries(rows)
    there = np.ones(len(queries), dtype=bool)
    if kind.needs_images:
        gone = queries.missing_images
        there &= np.array([path is not None for path in queries.images])
        if gone and (not partial or not there.any()):
            photos = len(set(queries.image_ids))
            raise CapscoreError(
                f"{name} looks at photos, and {len(gone):,} of {photos:,} of {run.name} are not "
                f"there, such as {gone[0]}: `capscore data check {run.benchmark}` lists them; `partial` "
                "scores the other rows"
            )
    if kind.needs_references:
        there &= np.array([bool(texts) for texts in queries.references])
        if not there.all() and (not partial or not there.any()):
            n, total = queries.without_references, len(queries)
            which = "its captions have none" if n == total else f"{n:,} of its {total:,} captions have none"
            raise CapscoreError(f"{name} compares with references of {run.benchmark}, and {which}")
    return rows if there.all() else task.keep(rows, there.tolist())


def _published(
    run: BenchmarkRun,
    task: Task,
    rows: Rows,
    outcome: Outcome,
    metric: str,
    backbone: str,
    queries: Queries,
) -> tuple[dict[str, list[Published]], list[str]]:
    """Statistic → published figures that it can be set beside, those to be preferred first; and notes.

    Figures of a backbone stand beside scores of the same one only; those whose source names none also beside
    scores that nothing is known of.
    """
    from .published import find

    languages = set(queries.languages)
    found: dict[str, list[Published]] = {}
    others = False
    for statistic in outcome.statistics:
        config, name, settings = task.published_as(statistic.name, run.config)
        same = [
            figure
            for figure in find(run.benchmark, config, metric, backbone=backbone or None)
            if figure.statistic == name
            and figure.setting in settings
            and figure.unit != "score"
            and (figure.language is None or languages == {figure.language})
        ]
        found[statistic.name] = [figure for figure in same if backbone or figure.backbone is None]
        others = others or len(found[statistic.name]) < len(same)
    notes = []
    if any(found.values()) and not task.measured_as_published(rows, run.options):
        found = {name: [] for name in found}
        notes.append(
            "published figures are not set beside: they are of single ratings, and here raters="
            f"{run.options.raters!r}"
        )
    if any(found.values()) and len(rows) < run.n_rows:
        notes.append(f"published figures are of all {run.n_rows:,} rows")
    if others:
        notes.append(
            f"published figures of {metric} with a backbone are not set beside: scores that are called "
            f"{metric}@BACKBONE name theirs"
        )
    return found, notes


def named_languages(queries: Queries) -> str:
    return "+".join(sorted(set(queries.languages) - {""})) or "unstated"


@contextmanager
def heard() -> Iterator[list[str]]:
    """Warnings of what runs inside, each once, as lines."""
    said: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for category in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
            warnings.simplefilter("ignore", category)  # meant for those who write programs
        yield said
    said.extend(dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught))
