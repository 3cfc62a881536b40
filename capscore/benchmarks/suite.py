"""Runs a suite of benchmarks: a folder of benchmarks in, their results and reasons for skipping out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CapscoreError, InputError
from .data.annotation_files import AnnotationError, MissingAnnotations
from .run import BenchmarkRun, MetricRefusal, config_title, run_benchmark
from .tasks import known_slugs

if TYPE_CHECKING:
    from ..metrics.base import Scorer

SUITES = ("english", "multilingual", "all")
# usual names of a benchmark's folder, besides its slug
_FOLDERS = {"flickr8k_human": ("flickr8k", "Flickr8k"), "pascal50s": ("pascal",), "coco_captions": ("coco",)}


@dataclass
class SuiteRun:
    """Results of several benchmarks.

    Attributes:
        suite: Name of the suite; "" if data sets were named.
        runs: Runs of its benchmarks.
        skipped: Benchmark and configuration → why it was not run.
        failed: Benchmark and configuration → what is wrong with its files.
    """

    suite: str = ""
    runs: list[BenchmarkRun] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "suite": self.suite,
            "runs": [run.to_dict() for run in self.runs],
            "skipped": self.skipped,
            "failed": self.failed,
        }


def members(suite: str) -> Iterator[tuple[str, str]]:
    """(benchmark, configuration) of a suite; those of "english" have English captions.

    Raises:
        InputError: no suite has this name.
    """
    from .data.load import builder_class

    if suite not in SUITES:
        raise InputError(f"{suite!r} is not a suite: one of {', '.join(SUITES)}", field="suite")
    for slug in known_slugs():
        for config in builder_class(slug).BUILDER_CONFIGS:
            english = config.language in ("en", "")
            if suite == "all" or english == (suite == "english"):
                yield slug, config.name


def benchmark_home(root: str | Path, slug: str) -> Path | None:
    """A benchmark's folder in a folder of benchmarks, or None."""
    for name in (slug, *_FOLDERS.get(slug, ())):
        if (Path(root).expanduser() / name).is_dir():
            return Path(root).expanduser() / name
    return None


def run_suite(
    suite: str,
    data_dir: str | Path,
    metrics: Mapping[str, Callable[[], Scorer]],
    **settings: Any,
) -> SuiteRun:
    """Measure metrics on every benchmark of a suite whose files are available.

    Args:
        suite: "english", "multilingual" or "all".
        data_dir: Folder with one folder per benchmark, named like the benchmark.
        metrics: Name → function that makes its scorer.
        settings: Further arguments of `run_benchmark`.

    Raises:
        InputError: no such suite or folder. Problems of one benchmark are in `skipped` and `failed`.
    """
    root = Path(data_dir).expanduser()
    if not root.is_dir():
        raise InputError(f"{root} is not a folder", field="data_dir")
    found = SuiteRun(suite)
    for slug, config in members(suite):
        name, home = config_title(slug, config), benchmark_home(root, slug)
        if home is None:
            found.skipped[name] = f"there is no folder {root / slug}"
            continue
        try:
            run = run_benchmark(slug, config, data_dir=home, metrics=metrics, keep_going=True, **settings)
        except CapscoreError as error:  # what stops a single metric is in the run
            damaged = isinstance(error, AnnotationError) and not isinstance(error, MissingAnnotations)
            (found.failed if damaged else found.skipped)[name] = str(error)
            continue
        if not run.results:
            found.skipped[name] = reasons(run.skipped)
            continue
        found.runs.append(run)
    return found


def reasons(skipped: Mapping[str, CapscoreError]) -> str:
    """Why metrics were not run.

    >>> refused, failed = MetricRefusal("cider compares captions with references"), CapscoreError("no photos")
    >>> reasons({"cider": refused, "mcs": failed})
    'cider compares captions with references; mcs: no photos'
    """
    parts = (
        f"{why}" if isinstance(why, MetricRefusal) else f"{name}: {why}" for name, why in skipped.items()
    )
    return "; ".join(parts)
