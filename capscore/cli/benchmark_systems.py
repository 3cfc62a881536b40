"""`capscore benchmark --systems`: compares captioning systems on a set of captioned photos."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import Setting
from ..files.console import make_console
from ..files.whole_file import write_text
from .targets import system_files
from .terminal import UsageError, as_usage, print_json, print_written, say

if TYPE_CHECKING:
    from ..benchmarks.systems import PublishedAgreement, SystemsRun
    from ..benchmarks.tasks import TaskOptions
    from ..metrics.base import Scorer

    Scorers = Callable[[list[str]], Mapping[str, Callable[[], Scorer]]]

DEFAULT_METRIC = "cider"  # that of Thapliyal et al. 2022
_OTHERS = ("suite", "scores", "write_queries", "figure", "compare")


class SystemsRequest(Protocol):
    """What `capscore benchmark` is asked for, as far as it concerns systems."""

    @property
    def metric(self) -> list[str] | None: ...
    @property
    def data(self) -> list[str] | None: ...
    @property
    def config(self) -> list[str] | None: ...
    @property
    def data_dir(self) -> Path | None: ...
    @property
    def image_dir(self) -> Path | None: ...
    @property
    def split(self) -> str | None: ...
    @property
    def systems(self) -> list[str] | None: ...
    @property
    def more(self) -> list[str] | None: ...
    @property
    def side_by_side(self) -> str | None: ...
    @property
    def output(self) -> Path | None: ...
    @property
    def markdown(self) -> Path | None: ...
    @property
    def heatmap(self) -> Path | None: ...
    @property
    def common_rows(self) -> bool: ...
    @property
    def partial(self) -> bool: ...
    @property
    def as_json(self) -> bool: ...
    @property
    def quiet(self) -> bool: ...
    @property
    def options(self) -> Mapping[str, Any]: ...
    def task_options(self) -> TaskOptions: ...
    def check_files(self) -> None: ...


@dataclass(frozen=True)
class SystemsResult:
    """Systems that were compared, or published ratings that were correlated again.

    Attributes:
        run: What was measured; None without systems.
        published: Table 6 of Thapliyal et al. 2022, computed again; () with systems.
        document: All results, ready for JSON.
    """

    run: SystemsRun | None
    published: Sequence[PublishedAgreement]
    document: dict[str, Any]


def check_systems(request: SystemsRequest) -> None:
    """Check the options of systems.

    Raises:
        UsageError: A file without --systems, or an option that belongs to other runs.
    """
    if not request.systems:
        if request.more:
            raise UsageError(
                f"{request.more[0]!r}: unexpected; files of captions go with ", Setting("systems")
            )
        if not _wants_published(request):
            raise UsageError(Setting("side_by_side", request.side_by_side), " goes with ", Setting("systems"))
        if request.heatmap is not None:
            raise UsageError(Setting("heatmap", request.heatmap), " goes with ", Setting("systems"))
    for name in _OTHERS:
        if getattr(request, name):
            raise UsageError(Setting(name), " and ", Setting("systems"), ": give only one of them")
    if len(request.data or ()) != 1:
        raise UsageError(Setting("systems"), " takes one benchmark: give one --data")
    needed = [name for name in ("side_by_side", "heatmap") if getattr(request, name) is not None]
    if request.systems and needed and len(_files(request)) < 2:
        raise UsageError(
            Setting(needed[0]), f" compares systems, and there is 1 ({request.systems[0]}): give at least 2"
        )


def run_systems_of(request: SystemsRequest, scorers: Scorers) -> SystemsResult:
    """Compare the systems, and write the results.

    Args:
        request: What is asked for.
        scorers: Function from names of metrics to name in the table → maker of its scorer.

    Raises:
        UsageError, CapscoreError: An option or a file is wrong, or nothing could be measured.
    """
    from ..benchmarks.systems import published_agreement

    request.check_files()
    if not request.systems:
        lines = published_agreement()
        result = SystemsResult(None, lines, {"published": [one.to_dict() for one in lines]})
    else:
        run = _measured(request, scorers)
        result = SystemsResult(run, (), run.to_dict())
    _write(request, result)
    return result


def show_systems(request: SystemsRequest, result: SystemsResult) -> None:
    """Print the tables, or all results as JSON."""
    from ..show.system_tables import published_report, systems_report

    if request.as_json:
        print_json(result.document)
    elif not request.quiet:
        console = make_console()
        report = published_report(result.published) if result.run is None else systems_report(result.run)
        report.print(console)
        print_written(console, request.output, request.markdown, request.heatmap)


def _measured(request: SystemsRequest, scorers: Scorers) -> SystemsRun:
    from ..benchmarks.systems import read_evaluations, run_systems
    from ..benchmarks.systems.side_by_side import published_evaluations

    configs = None if "all" in (request.config or ()) else request.config
    with as_usage():
        options = request.task_options()
    evaluations = (
        published_evaluations()
        if _wants_published(request)
        else read_evaluations(request.side_by_side)
        if request.side_by_side is not None
        else []
    )
    return run_systems(
        (request.data or [""])[0],
        _files(request),
        scorers(request.metric or [DEFAULT_METRIC]),
        configs=configs,
        data_dir=request.data_dir,
        split=request.split,
        image_dir=request.image_dir,
        options=options,
        evaluations=evaluations,
        common_rows=request.common_rows,
        partial=request.partial,
        may_be_empty=request.options.get("empty", "raise") != "raise",
        say=say if not request.quiet and sys.stderr.isatty() else None,
    )


def _files(request: SystemsRequest) -> dict[str, Path]:
    return system_files([*(request.systems or ()), *(request.more or ())])


def _wants_published(request: SystemsRequest) -> bool:
    """Whether the published ratings are meant, and not a file of that name."""
    from ..benchmarks.systems.side_by_side import PUBLISHED

    return request.side_by_side == PUBLISHED and not Path(PUBLISHED).exists()


def _write(request: SystemsRequest, result: SystemsResult) -> None:
    if request.output is not None:
        write_text(request.output, f"{json.dumps(result.document, ensure_ascii=False, indent=2)}\n")
    if request.markdown is not None:
        from ..show.system_tables import published_report, systems_report

        report = published_report(result.published) if result.run is None else systems_report(result.run)
        write_text(request.markdown, report.markdown())
    if request.heatmap is not None and result.run is not None:
        from ..show.figures import write_systems_heatmap

        write_systems_heatmap(result.run, request.heatmap)
