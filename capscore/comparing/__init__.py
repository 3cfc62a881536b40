"""Compares captioning systems on the same photos: does one score higher than another?

`systems` compares files of captions or of scores, `languages` captions of a benchmark in each language, and
`battles` ranks systems by which of two captions of a photo is better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..benchmarks.reading import Configuration
from ..errors import InputError, OptionError, Setting
from ..metrics.loading import metric_names
from ..options import LoadOptions, RowOptions, Sampling, split_options
from ..scoring.files import Scorable
from ..statistics.columns import check_systems
from .comparison import Comparison
from .languages import compare_on_benchmark
from .published_order import Published, published_orders
from .systems import compare_systems, read_systems

__all__ = ["Comparison", "compare", "compare_on_benchmark", "compare_systems", "read_systems"]


def compare(
    systems: Mapping[str, Scorable],
    metrics: str | Sequence[str] = (),
    *,
    preset: str | None = None,
    baseline: str | None = None,
    match_by: str | None = None,
    common_rows: bool = False,
    data: str | None = None,
    config: str | Sequence[str] = (),
    data_dir: str | Path | None = None,
    published: Published | None = None,
    **options: object,
) -> Comparison:
    """Compare captioning systems: files of captions or of scores, row by row.

    Rows are matched by their id; without one by photo, or by references (see `files.matching.match_rows`).
    Metrics that a file has no column of are computed first.

    Args:
        systems: System → file of its rows, of any kind that `capscore score` reads, or a list of dicts.
        metrics: Metrics (METRIC or METRIC@BACKBONE), their components, such as "bleu_4", or columns of
            scores; () takes those of the preset, or all that the files have in common.
        preset: Set of metrics, as in `score_file`; BLEU is shown as BLEU-1 to BLEU-4.
        baseline: System that the others are compared with; None for the first.
        match_by: "id", "photo", "references" or "order"; None takes the first of the others that all have.
        common_rows: Whether rows that not all systems have a score for are left out; otherwise they are an
            error.
        data: Set of captioned photos, such as "xm3600"; each file then has a caption per photo and language,
            and each language is compared alone, with all references of the set.
        config: Configurations of it, each in another language, or "all"; () for all that the systems have
            captions in.
        data_dir: Folder of its files.
        published: Published numbers of these systems, to count the pairs that each metric puts in the same
            order: a set such as "coco_captions", a file, or numbers (see `published_orders`); None for those
            of `data`, if it has systems of these names.
        **options: How rows are read (`capscore.options.RowOptions`), metrics loaded (`capscore.load`) and
            intervals drawn (`Sampling`; 10,000 draws unless `bootstrap` says otherwise).

    Raises:
        InputError: a file or column that does not exist, a score that is not a number, nothing that names
            rows, different rows, or different signatures.
        CapscoreError: an unknown metric or option, a metric that cannot be loaded.

    >>> import capscore
    >>> found = capscore.compare({"small": "small.jsonl", "large": "large.jsonl"}, "cider")   # doctest: +SKIP
    >>> found.metrics["cider"][0].differences[0].p_value                                      # doctest: +SKIP
    0.0312…
    """
    check_systems(systems)
    rows, load, sampling = split_options({"bootstrap": 10_000, **options}, RowOptions, LoadOptions, Sampling)
    named = metric_names(metrics, least=0)
    if data is not None and preset is not None:
        raise OptionError(Setting("preset", preset), ": with a benchmark, name the metrics")
    if data is not None:
        configs = [config] if isinstance(config, str) else config
        where = Configuration(data, None, data_dir)
        files: dict[str, str | Path] = {}
        for name, system in systems.items():
            if not isinstance(system, str | Path):
                problem = f"{name}: beside a benchmark, expected a file, got {type(system).__name__}"
                raise InputError(problem, field="systems")
            files[name] = system
        return compare_on_benchmark(
            where,
            files,
            named or ["cider"],
            configs,
            rows=rows,
            load=load,
            sampling=sampling,
            published=published,
        )
    orders = [] if published is None else published_orders(published, [*systems])
    read = read_systems(systems, named, rows, load, preset=preset, match_by=match_by, common_rows=common_rows)
    return read.compare(baseline, sampling, orders)
