"""Benchmarks and suites by name → their configurations, and the rows to measure on."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import InputError, Setting, warnings_taken
from ..files.columns import read_numbers
from ..files.photo_names import KnownNames, id_text
from ..files.read import open_rows
from ..options import RowOptions
from ..tables import counted
from .results import BenchmarkRun
from .tasks import KeyedRows, Queries, TaskOptions, known_slugs, task_of

if TYPE_CHECKING:
    from .data.builder import CaptionBenchmark

SUITES = ("english", "multilingual", "all")
# the split to measure on where none is named: the first of these that exists
USUAL_SPLITS = ("test", "test_2016_flickr", "validation", "val")
# all splits of a benchmark, as `datasets` calls them
EVERY_SPLIT = "all"
# usual names of a benchmark's folder, besides its own
_FOLDERS = {"flickr8k_human": ("flickr8k", "Flickr8k"), "pascal50s": ("pascal",), "coco_captions": ("coco",)}


class Configuration(NamedTuple):
    """A benchmark's configuration (None for the default), and the folder of its files, if one is given."""

    slug: str
    config: str | None = None
    folder: str | Path | None = None


def configurations(
    data: Sequence[str], configs: Sequence[str] = (), data_dir: str | Path | None = None
) -> list[Configuration]:
    from .data.load import config_name, config_names

    found = []
    for slug in dict.fromkeys(data):
        names = config_names(slug, configs) if configs else [config_name(slug, None)]
        home = data_dir
        if data_dir is not None and len(data) > 1:
            home = benchmark_home(data_dir, slug)
            if home is None:
                raise InputError(Setting("data_dir", data_dir), f": there is no folder for {slug} in it")
        found += [Configuration(slug, name, home) for name in names]
    return found


def members(suite: str, data_dir: str | Path) -> Iterator[Configuration]:
    """The configurations of a suite: those of "english" have English captions.

    Their folder is None where `data_dir` has none of the benchmark's name.
    """
    from .data.load import builder_class, check_data_dir

    if suite not in SUITES:
        raise InputError(f"{suite!r} is not a suite: one of {', '.join(SUITES)}", field="suite")
    check_data_dir(data_dir)
    for slug in known_slugs():
        home = benchmark_home(data_dir, slug)
        for config in builder_class(slug).BUILDER_CONFIGS:
            english = config.language in ("en", "")
            if suite == "all" or english == (suite == "english"):
                yield Configuration(slug, config.name, home)


def benchmark_home(root: str | Path, slug: str) -> Path | None:
    """A benchmark's folder in a folder of benchmarks, or None."""
    for name in (slug, *_FOLDERS.get(slug, ())):
        folder = Path(root).expanduser() / name
        if folder.is_dir():
            return folder
    return None


def read_benchmark(
    where: Configuration,
    rows: RowOptions = RowOptions(),
    *,
    images: bool | None = None,
    options: TaskOptions = TaskOptions(),
    readings: dict[tuple[str, str], object] | None = None,
) -> tuple[BenchmarkRun, KeyedRows]:
    """Read the rows of a benchmark: an empty run, with the warnings of reading, and the rows."""
    from .data.load import benchmark_builder

    slug, config, folder = where
    builder = benchmark_builder(slug, config, data_dir=folder, image_dir=rows.images, images=images)
    builder.readings = readings
    split, names = _chosen_split(builder, slug, rows.split), builder.splits()
    found: list[tuple[str, Mapping[str, Any]]] = []
    with collected_warnings() as said:
        for name in names if split == EVERY_SPLIT else [split]:
            found += builder.examples(name)
    key, n = Counter(key for key, _ in found).most_common(1)[0]
    if n > 1:
        several = f"the row {key!r} is in more than one split; name one of {', '.join(names)}"
        raise InputError(f"{slug} ({builder.config.name}): {several}", field="split")
    run = BenchmarkRun(
        benchmark=slug,
        config=builder.config.name,
        split=split,
        version=str(builder.config.version),
        files={path.name: source.sha256() for path, source in builder.files_read.items()},
        n_rows=len(found),
        options=options,
        notes=tuple(said),
        unlike=_unlike_published(builder, split, len(found)),
    )
    return run, found


def _usual_splits(builder: CaptionBenchmark) -> tuple[str, ...]:
    names = builder.splits()
    return (*USUAL_SPLITS, *names) if len(names) == 1 else USUAL_SPLITS


def _chosen_split(builder: CaptionBenchmark, slug: str, split: str | None) -> str:
    names = builder.splits()
    chosen = split or next((name for name in _usual_splits(builder) if name in names), None)
    if chosen is None or chosen not in (*names, EVERY_SPLIT):
        problem = "name a split" if split is None else f"there is no split {split!r}"
        known = f"one of {', '.join(names)}, or {EVERY_SPLIT}"
        raise InputError(f"{slug} ({builder.config.name}): {problem}: {known}", field="split")
    return chosen


def _unlike_published(builder: CaptionBenchmark, split: str, n_rows: int) -> str:
    """Difference between the rows of a split and those that published figures are of; "" for none."""
    tested = next((name for name in _usual_splits(builder) if name in builder.SPLITS), split)
    if split != tested:
        return f"the split {split}, not {tested}"
    n_published = builder.published(split).get("rows", n_rows)
    return "" if n_published == n_rows else f"{n_rows:,} rows, not {n_published:,}"


def benchmark_queries(where: Configuration, rows: RowOptions = RowOptions()) -> Queries:
    """What a metric has to score on a benchmark: captions, photos and references, each with an id."""
    run, found = read_benchmark(where, rows)
    task = task_of(where.slug, run.config)
    task.check_takes_scores(where.slug)
    return task.queries(found)


def read_scores(
    path: str | Path, queries: Queries, *, missing: str = "raise"
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Scores of the queries that others computed, float64 (q,) with NaN for a missing one; remarks.

    The file has the columns `id` (as in `Queries.to_rows`) and `score`. With `missing` of "skip", a query
    without a row has no score, and a remark says how many; otherwise each needs a row.
    """
    path = Path(path)
    source = open_rows(path)
    for column in ("score", "id"):
        if column not in source.columns:
            raise InputError(
                f"{path} has no column {column!r}; it has {', '.join(source.columns)}; ",
                Setting("write_queries"),
                " writes the rows to score, with their ids",
                field="scores",
            )
    scores: dict[str, float] = {}
    (ids,), (values,) = source.cells("id"), read_numbers(source, "score")
    for row, (cell, value) in enumerate(zip(ids, values, strict=True)):
        if cell is None or cell == "":
            raise source.at_row(InputError("the id is missing"), row)
        key = id_text(cell) or str(cell)
        before = scores.setdefault(key, value)
        if before != value and not (math.isnan(before) and math.isnan(value)):
            problem = f"{key!r:.120} has two scores, {before:g} and {value:g}"
            raise source.at_row(InputError(problem), row)
    asked = {id_text(key): key for key in queries.ids}
    matched = KnownNames(asked).match(scores)
    scores = {asked.get(matched.matches.get(key, ""), key): value for key, value in scores.items()}
    notes = matched.notes
    if lacking := [key for key in queries.ids if key not in scores]:
        note = f"no score for {len(lacking):,} of {len(asked):,} queries, such as {lacking[0]!r:.120}"
        if missing != "skip" or len(lacking) == len(asked):
            raise InputError(f"{path} has {note}; write null for a missing score", field="scores")
        notes.append(f"{path.name} has {note}")
    if spare := [key for key in scores if id_text(key) not in asked]:
        notes.append(
            f"{path.name} has {counted(len(spare), 'row')} without a query, such as {spare[0]!r:.120}"
        )
    return np.array([scores.get(key, math.nan) for key in queries.ids]), tuple(notes)


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Collect the warnings given inside, each once, as lines."""
    said: list[str] = []
    with warnings_taken() as taken:
        yield said
    said.extend(dict.fromkeys(" ".join(str(warning).split()) for warning in taken))
