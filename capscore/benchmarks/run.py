"""Runs metrics on benchmarks: their files in, measured numbers beside the published ones out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..errors import CapscoreError, InputError, Setting
from ..files.console import say_step
from ..metrics.base import Scorer
from ..metrics.loading import ScorerLoader, check_options, component_of, metric_names
from ..metrics.rows import parse_signature
from ..options import LoadOptions, RowOptions, Sampling, split_options
from ..registry import METRICS
from ..statistics.bootstrap import holm
from . import reading
from .data.annotation_files import AnnotationError, MissingAnnotations
from .published import Published, find
from .reading import Configuration, collected_warnings
from .results import BenchmarkResults, BenchmarkRun, MetricRefusal, MetricResult, config_title
from .tasks import KeyedRows, Measurement, Task, TaskOptions, task_of

# a scorer, a function that makes it, or a file of scores
Measurable: TypeAlias = Scorer | Callable[[], Scorer] | str | Path
# settings of a signature → how their value begins where figures are published
_USUAL_SETTINGS = {"variant": "coco", "df": "rows", "long": "cut"}
# a table of document frequencies is ignored by metrics that count none, so that one call serves all
_SHARED_OPTIONS = ("document_frequencies",)


def benchmark(
    data: str | Sequence[str],
    metrics: str | Sequence[str] | Mapping[str, Measurable | None],
    *,
    config: str | Sequence[str] = (),
    data_dir: str | Path | None = None,
    **options: Any,
) -> BenchmarkResults:
    """Measure metrics on benchmarks, beside published figures.

    A metric that cannot be run, because photos or weights are missing, is named in the result; the others go
    on.

    Args:
        data: Names of benchmarks (`capscore.benchmark_slugs()`); or a suite, "english", "multilingual" or
            "all", for every benchmark that has a folder of its name in `data_dir`.
        metrics: Names of metrics, also METRIC@BACKBONE, and names of components, such as "bleu_4" or
            "infometic_recall". Or name → scorer, function that makes one, None for the metric of that name,
            or file of scores that others computed, with the columns `id` and `score`: `--write-queries`
            gives the rows to score. A name such as `mcs@BACKBONE` picks the published figures beside it.
        config: Configurations, or "all"; () takes each benchmark's default.
        data_dir: Folder of the benchmark's official files; of several benchmarks, or of a suite, a folder
            with one folder for each. None downloads them if their source is public.
        **options: What is read (`split`, by default the test split, and `images`, the folder of the photos,
            of `capscore.options.RowOptions`), how scores become numbers (`benchmarks.TaskOptions`: raters,
            missing, partial, compare), intervals drawn (`Sampling`) and metrics loaded (`capscore.load`).

    Raises:
        InputError: there is nothing to measure; a file of scores does not fit; names file and row.
        CapscoreError: an unknown name; official files are missing or damaged; no metric could be run. Of a
            suite, problems of a benchmark are in the result.

    >>> import capscore
    >>> found = capscore.benchmark("flickr8k_human", ["cider", "mcs@embedded"], config="expert",
    ...                            data_dir="flickr8k")                                 # doctest: +SKIP
    >>> print(found)                                                                    # doctest: +SKIP
    >>> found.to_pandas()[["metric", "statistic", "value"]]                             # doctest: +SKIP
    """
    rows, load, sampling, task_options = split_options(
        options, RowOptions, LoadOptions, Sampling, TaskOptions
    )
    if "sampling" not in options:
        task_options = replace(task_options, sampling=sampling)
    named, files = named_metrics(metrics, load)
    if not named and not files:
        raise InputError("nothing to measure: name a metric, or a file of scores", field="metrics")
    suite = data if isinstance(data, str) and data in reading.SUITES else ""
    found = BenchmarkResults(suite=suite)
    for where in _configurations(data, config, data_dir):
        name = config_title(where.slug, where.config)
        if suite and where.folder is None:
            found.skipped[name] = f"there is no folder {Path(data_dir or '') / where.slug}"
            continue
        try:
            found.runs.append(run_metrics(where, named, files, rows, task_options, load.progress))
        except CapscoreError as error:
            if not suite:
                raise
            if isinstance(error, AnnotationError) and not isinstance(error, MissingAnnotations):
                found.failed[name] = str(error)
            else:
                found.skipped[name] = str(error)
    return found


def _configurations(
    data: str | Sequence[str], config: str | Sequence[str], data_dir: str | Path | None
) -> Iterable[Configuration]:
    """What is measured: the members of a suite, or configurations of benchmarks."""
    configs = [config] if isinstance(config, str) else config
    if not isinstance(data, str):
        return reading.configurations(data, configs, data_dir)
    if data not in reading.SUITES:
        return reading.configurations([data], configs, data_dir)
    if data_dir is None or configs:
        raise InputError(
            f"a suite, {data!r}, takes a folder of benchmarks, and no configuration", field="data_dir"
        )
    return reading.members(data, data_dir)


def reasons(skipped: Mapping[str, CapscoreError]) -> str:
    """Why metrics were not run."""
    parts = []
    for name, why in skipped.items():
        parts.append(f"{why}" if isinstance(why, MetricRefusal) else f"{name}: {why}")
    return "; ".join(parts)


# ---- metrics by name ----


class NamedMetric(NamedTuple):
    """A metric that is to be measured.

    Attributes:
        name: Name in tables, such as "mcs@embedded" or "bleu_4".
    """

    name: str
    kind: Scorer | type[Scorer]
    component: str
    make: Callable[[], Scorer]


def named_metrics(
    metrics: str | Sequence[str] | Mapping[str, Measurable | None],
    load: LoadOptions,
    loader: ScorerLoader | None = None,
) -> tuple[list[NamedMetric], dict[str, Path]]:
    """What the argument `metrics` of `benchmark` names: metrics, and files of scores by name."""
    given: Mapping[str, Measurable | None]
    if isinstance(metrics, Mapping):
        given = metrics
    else:
        given = dict.fromkeys(metric_names(metrics, least=0))
    named: list[NamedMetric] = []
    files: dict[str, Path] = {}
    loader = loader or ScorerLoader(load.arguments())
    for name, source in given.items():
        if isinstance(source, (str, Path)):
            files[name] = Path(source)
        elif isinstance(source, Scorer):
            named.append(NamedMetric(name, source, component_of(name)[1], partial(_itself, source)))
        else:
            metric, component = component_of(name)
            kind = METRICS.get(metric)
            make = source or partial(loader, metric, _backbone_of(name, kind))
            named.append(NamedMetric(name, kind, component, make))
    loaded = [component_of(name)[0] for name, source in given.items() if source is None]
    own = {name: value for name, value in load.metric_options.items() if name not in _SHARED_OPTIONS}
    check_options(loaded, own)
    return named, files


def _itself(scorer: Scorer) -> Scorer:
    return scorer


def _backbone_of(name: str, kind: type[Scorer]) -> str | None:
    """The backbone in METRIC@BACKBONE, or None."""
    metric, sign, backbone = name.partition("@")
    if not sign:
        return None
    if not kind.takes_backbone:
        raise InputError(Setting("metric", name), f": {metric} has no backbone")
    return backbone


# ---- what is measured ----


def run_metrics(
    where: Configuration,
    metrics: Sequence[NamedMetric],
    files: Mapping[str, Path],
    rows: RowOptions,
    options: TaskOptions,
    progress: bool | None,
) -> BenchmarkRun:
    """Measure metrics, and scores from files, on a benchmark's configuration; see `benchmark`."""
    looked_at = any(metric.kind.needs_images for metric in metrics)
    run, found = reading.read_benchmark(where, rows, images=None if looked_at else False, options=options)
    task = task_of(where.slug, run.config)
    if files:
        task.check_takes_scores(where.slug)
    # what cannot be read or run is reported before the long work starts
    theirs = [_take(run, task, found, name, path) for name, path in files.items()]
    usable: dict[str, KeyedRows] = {}
    for metric in metrics:
        with _skipping(run, metric.name):
            usable[metric.name] = _usable(run, task, found, metric)
    for metric in metrics:
        if metric.name in usable:
            say_step(f"{run.name}: {metric.name}", shown=progress)
            with _skipping(run, metric.name):
                run.results.append(_measure(run, task, usable[metric.name], metric))
    run.results.extend(theirs)
    if not run.results:
        raise CapscoreError(reasons(run.skipped))
    return _compare(run, task) if options.compare else run


@contextmanager
def _skipping(run: BenchmarkRun, name: str) -> Iterator[None]:
    """Note in `skipped` what stops a metric."""
    try:
        yield
    except CapscoreError as error:
        run.skipped[name] = error
    except (RuntimeError, MemoryError) as error:  # such as a full device
        run.skipped[name] = CapscoreError(f"{type(error).__name__}: {error}")


def _usable(run: BenchmarkRun, task: Task, rows: KeyedRows, metric: NamedMetric) -> KeyedRows:
    """The rows that a metric can be run on: all, or with `partial` those that have what it needs."""
    name, kind = metric.name, metric.kind
    if reason := task.refusal(run.benchmark, kind, metric.component):
        raise MetricRefusal(f"{name} {reason}")
    queries, with_gaps = task.queries(rows), run.options.partial
    usable = np.ones(len(queries), dtype=bool)
    left_out: set[int] = set()
    if kind.needs_images:
        usable &= np.array([path is not None for path in queries.images])
        missing = {image for image, path in zip(queries.image_ids, queries.images, strict=True) if not path}
        # a photo without captions is no query, and is looked at among others
        left_out |= {index for index, (_, row) in enumerate(rows) if row.get("image", "") is None}
        missing |= {rows[index][1]["image_id"] for index in left_out}
        if missing and not (with_gaps and usable.any()):
            raise MetricRefusal(
                f"{name} looks at photos, and {len(missing):,} of the {len(set(queries.image_ids)):,} photos "
                f"of {run.name} are missing, such as {min(missing)}: `capscore data check {run.benchmark}` "
                "lists them; ",
                Setting("partial", True),
                " scores the other rows",
            )
    if kind.needs_references:
        usable &= np.array([bool(texts) for texts in queries.references])
        if not usable.all() and not (with_gaps and usable.any()):
            n, total = sum(not texts for texts in queries.references), len(queries)
            which = "no caption has any" if n == total else f"{n:,} of {total:,} captions have none"
            raise MetricRefusal(f"{name} compares captions with references, and in {run.benchmark} {which}")
    left_out |= {owner for owner, fits in zip(queries.owners, usable, strict=True) if not fits}
    return [row for index, row in enumerate(rows) if index not in left_out]


def _measure(run: BenchmarkRun, task: Task, rows: KeyedRows, metric: NamedMetric) -> MetricResult:
    """What the benchmark says about a metric, or a component of it."""
    with collected_warnings() as said:
        scorer, start = metric.make(), time.perf_counter()
        measured = task.measure(rows, scorer, metric.component, run.options)
        seconds = time.perf_counter() - start
    unusual = _unusual_reading(scorer, measured.signature)
    if metric.component:
        signature = f"{measured.signature}|component:{metric.component}"
        measured = measured._replace(signature=signature)
    result = _result(task, rows, metric.name, measured, seconds, said)
    name = metric.name.partition("@")[0]
    known_as = name.replace(scorer.metric, scorer.known_as, 1)
    notes = []
    if known_as != name:
        notes.append(f"with these settings it is {known_as}")
    if scorer.ranked_by and task.ranks and not metric.component:
        notes.append(f"rows are ranked by the {scorer.ranked_by} of their score")
    result = replace(result, backbone=backbone_name(scorer))
    return _beside_published(run, task, result, known_as, result.backbone, notes, unusual)


def backbone_name(scorer: Scorer) -> str:
    """Name of the backbone of a metric; "" if it has none."""
    return getattr(getattr(scorer, "backbone", None), "name", "")


def _unusual_reading(scorer: Scorer, signature: str) -> str:
    """The settings of a signature with which no figure was published; "" for none."""
    stated = parse_signature(signature)[1]
    names = []
    for name, start in _USUAL_SETTINGS.items():
        if not stated.get(name, start).startswith(start):
            names.append(name)
    prefix = getattr(getattr(scorer, "backbone", None), "prefix", None)
    if getattr(scorer, "prefix", prefix) != prefix:
        names.append("prefix")
    return ", ".join(f"{name}={stated[name]!r}" for name in names)


def _take(run: BenchmarkRun, task: Task, rows: KeyedRows, name: str, path: Path) -> MetricResult:
    """The benchmark's numbers for scores from a file; "mcs@BACKBONE" names their backbone."""
    start = time.perf_counter()
    scores, notes = reading.read_scores(path, task.queries(rows), missing=run.options.missing)
    try:
        with collected_warnings() as said:
            outcome = task.outcome(rows, scores, run.options)
    except InputError as error:
        # the error's row is the benchmark's, whatever the order of the file
        of = "" if error.row is None else f", {rows[error.row][0]}"
        raise InputError(f"{path}{of}: {error.message_with_field()}") from error
    measured = Measurement(outcome, f"{path.name}, column score, rows matched by id", scores)
    result = _result(task, rows, name, measured, time.perf_counter() - start, said)
    metric, _, backbone = name.partition("@")
    return _beside_published(run, task, result, metric, backbone, notes)


def _result(
    task: Task, rows: KeyedRows, name: str, measured: Measurement, seconds: float, said: Sequence[str]
) -> MetricResult:
    queries = task.queries(rows)
    n_rows, n_queries = len(rows), len(queries)
    if measured.scores is not None:
        without = np.isnan(measured.scores)
        n_rows -= len({*np.array(queries.owners)[without].tolist()})
        n_queries -= int(without.sum())
    return MetricResult(
        metric=name,
        backbone="",
        signature=measured.signature,
        outcome=measured.outcome,
        n_rows=n_rows,
        n_queries=n_queries,
        seconds=seconds,
        warnings=tuple(said),
        rows=rows,
        scores=measured.scores,
    )


# ---- beside published figures ----


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
    found: dict[str, list[Published]] = {}
    for name in result.statistics:
        same = _figures(run, task, result, name, metric, backbone)
        if not backbone:
            same = [figure for figure in same if figure.backbone is None]
        found[name] = [replace(figure, unlike=figure.unlike or unlike) for figure in same]
        if not same:
            for figure in _figures(run, task, result, name, metric, "")[:1]:
                reason = "its backbone is not named"
                if figure.backbone is not None:
                    told = "" if backbone else f"; scores named {metric}@BACKBONE are compared"
                    reason = f"with the backbone {figure.backbone}{told}"
                found[name] = [replace(figure, unlike=reason)]
    outcome = replace(result.outcome, notes=(*result.outcome.notes, *notes))
    return replace(result, outcome=outcome, published=found)


def _figures(
    run: BenchmarkRun, task: Task, result: MetricResult, statistic: str, metric: str, backbone: str
) -> list[Published]:
    """Published figures of a statistic of a metric, of any backbone for "", in the languages of the rows."""
    config, name, settings = task.published_as(statistic, run.config)
    languages = {row["language"] for _, row in result.rows}
    figures = []
    for figure in find(run.benchmark, config, metric, backbone=backbone or None):
        same_number = figure.statistic == name and figure.setting in settings and figure.unit != "score"
        if same_number and (figure.language is None or languages == {figure.language}):
            figures.append(figure)
    return figures


# ---- metrics against each other ----


def _compare(run: BenchmarkRun, task: Task) -> BenchmarkRun:
    """A run with paired tests of its first result against the others, on the rows that both scored."""
    notes = [] if len(run.results) > 1 else ["nothing is compared: a comparison needs two metrics"]
    by_row = [_scores_by_row(task, result) for result in run.results]
    compared: list[dict[str, Any]] = []
    for result, scores in zip(run.results[1:], by_row[1:], strict=True):
        first, pair = run.results[0], f"{run.results[0].metric} and {result.metric}"
        rows = [row for row in first.rows if row[0] in by_row[0] and row[0] in scores]
        tests = []
        if rows and first.scores is not None and result.scores is not None:
            before, after = (np.concatenate([part[key] for key, _ in rows]) for part in (by_row[0], scores))
            tests = task.compare(rows, before, after, run.options)
        if not rows:
            notes.append(f"{pair} are not compared: no row was scored by both")
        elif not tests:
            notes.append(f"{pair} are not compared: there is no paired test for {run.benchmark}")
        elif len(rows) < run.n_rows:
            notes.append(f"{pair} are compared on {len(rows):,} of {run.n_rows:,} rows")
        compared += [
            {"metrics": [first.metric, result.metric], **test, "p_value_holm": None} for test in tests
        ]
    tested = [test for test in compared if test["p_value"] is not None]
    for test, corrected in zip(tested, holm([test["p_value"] for test in tested]), strict=True):
        test["p_value_holm"] = corrected
    return replace(run, comparisons=compared, notes=(*run.notes, *notes))


def _scores_by_row(task: Task, result: MetricResult) -> dict[str, np.ndarray]:
    """Name of each row that has a score for each of its queries → these scores; none where rows have none."""
    names = [name for name, _ in result.rows]
    if result.scores is None:
        return dict.fromkeys(names, np.zeros(0))
    owners = np.array(task.queries(result.rows).owners, dtype=np.int64)
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    parts = zip(owners[starts].tolist(), np.split(result.scores, starts[1:]), strict=True)
    return {names[owner]: part for owner, part in parts if not np.isnan(part).any()}
