"""The commands `capscore data list|check|statistics|export`: what benchmarks there are and what they hold."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..files.console import make_console
from .options import AsJson, DataDir, Force, ImageDir, Markdown, Output, TestSplit
from .plain_help import PlainCommand, PlainGroup
from .request import argument, make_command, option
from .terminal import (
    FAILED,
    as_usage,
    bad_input_as_usage,
    check_result_file,
    make_table,
    print_json,
    print_written,
    say,
)

if TYPE_CHECKING:
    from ..benchmarks.caption_statistics import CaptionTable
    from ..benchmarks.data.check import CheckedBenchmark

data_app = typer.Typer(help="List, check, count and export benchmarks.", cls=PlainGroup, no_args_is_help=True)

Slug = Annotated[str, argument("BENCHMARK")]
Configs = Annotated[list[str] | None, option("Configuration; repeatable. Default: all.", "--config", "-c")]
OnlyTables = Annotated[bool, option("Print no table.", "--quiet", "-q")]
OnlyProblems = Annotated[bool, option("Print only problems.", "--quiet", "-q")]

_CHECK_HELP = """Check a benchmark's files: published counts, checksums, missing photos.

BENCHMARK is a name of `capscore data list`, such as xvnli.

Exit codes: 0 as published; 1 something is missing or differs; 2 wrong usage."""
_STATISTICS_HELP = """Count a benchmark's captions: per language, per photo, words, characters.

BENCHMARK is a set of captioned photos, such as xm3600. Published numbers stand beside those of the files.
Words are what stands between spaces.

Exit codes: 0 counted; 1 a file is missing or damaged; 2 wrong usage."""
_EXPORT_HELP = """Write a benchmark as Parquet, for load_dataset(folder, config) of every datasets version.

BENCHMARK is a name of `capscore data list`, such as xvnli.

Exit codes: 0 done; 1 a file is missing, damaged or cannot be written; 2 wrong usage."""


@contextmanager
def _usage(benchmark: str) -> Iterator[None]:
    """Make it an error of usage if a benchmark, configuration or folder does not exist."""
    from ..benchmarks.data.load import builder_class

    with as_usage():
        builder_class(benchmark)
    with bad_input_as_usage():
        yield


@dataclass(frozen=True)
class DataListRequest:
    """What `capscore data list` is asked for."""

    as_json: AsJson = False


def run_list(request: DataListRequest) -> list[dict[str, Any]]:
    """Descriptions of the benchmarks, ready for JSON."""
    from ..benchmarks.data.load import builder_class
    from ..files.shipped import benchmark_slugs

    entries = []
    for slug in benchmark_slugs():
        kind = builder_class(slug)
        rows = {
            config: {split: counts["rows"] for split, counts in splits.items() if "rows" in counts}
            for config, splits in kind.COUNTS.items()
        }
        configs = [config.name for config in kind.BUILDER_CONFIGS]
        entries.append({"benchmark": slug, "configs": configs, "rows": rows, "licence": kind.LICENSE})
    return entries


def show_list(request: DataListRequest, entries: Sequence[dict[str, Any]]) -> None:
    """Print the benchmarks as a table or JSON."""
    if request.as_json:
        print_json(entries)
        return
    table = make_table("benchmark", "configurations", numbers=("rows",))
    table.columns[0].no_wrap, table.show_edge = True, False
    for entry in entries:
        counted = [entry["rows"]["all"]] if "all" in entry["rows"] else entry["rows"].values()
        total = sum(number for splits in counted for number in splits.values())
        table.add_row(entry["benchmark"], " ".join(entry["configs"]), f"{total:,}" if total else "")
    make_console().print(table)


@dataclass(frozen=True)
class DataCheckRequest:
    """What `capscore data check` is asked for."""

    benchmark: Slug
    data_dir: DataDir = None
    config: Configs = None
    image_dir: ImageDir = None
    open_images: Annotated[bool, option("Decode all photos to find damaged ones.", "--open-images")] = False
    list_missing: Annotated[Path | None, option("File for names of missing photos.")] = None
    as_json: AsJson = False
    quiet: OnlyProblems = False


def run_check(request: DataCheckRequest) -> Sequence[CheckedBenchmark]:
    """Check the files, and write the names of missing photos if a path is given."""
    from ..benchmarks.data.check import check_benchmark
    from ..files.whole_file import write_text

    with _usage(request.benchmark):
        checked = check_benchmark(
            request.benchmark,
            request.config,
            data_dir=request.data_dir,
            image_dir=request.image_dir,
            open_images=request.open_images,
            say=say if sys.stderr.isatty() and not request.quiet else None,
        )
    if request.list_missing is not None:
        names = dict.fromkeys(name for part in checked for name in part.missing_images)
        write_text(request.list_missing, "".join(f"{name}\n" for name in names))
    return checked


def show_check(request: DataCheckRequest, checked: Sequence[CheckedBenchmark]) -> int | None:
    """Print the findings, or all of them as JSON."""
    from rich.text import Text

    from ..benchmarks.data.check import NOTE, OK

    if request.as_json:
        print_json([part.to_dict() for part in checked])
    else:
        console = make_console()
        marks = {OK: ("✓", "green"), NOTE: ("·", "dim")}
        for part in checked:
            shown = [found for found in part.findings if not request.quiet or found.level not in marks]
            if shown:
                console.print(Text(f"{part.benchmark} · {part.config}", style="bold"))
            for finding in shown:
                mark, style = marks.get(finding.level, ("✗", "red"))
                line = Text(f"  {mark} ", style=style)
                line.append(f"{finding.what}: {finding.message}", style="")
                console.print(line, soft_wrap=True)  # paths and addresses stay whole
    return FAILED if any(part.problems for part in checked) else None


@dataclass(frozen=True)
class DataStatisticsRequest:
    """What `capscore data statistics` is asked for."""

    benchmark: Slug
    data_dir: DataDir = None
    config: Configs = None
    split: TestSplit = None
    output: Output = None
    markdown: Markdown = None
    force: Force = False
    as_json: AsJson = False
    quiet: OnlyTables = False

    def __post_init__(self) -> None:
        check_result_file("output", self.output, (".json",), self.force)
        check_result_file("markdown", self.markdown, (".md",), self.force)


def run_statistics(request: DataStatisticsRequest) -> CaptionTable:
    """Count the captions, and write the results."""
    from ..benchmarks.caption_statistics import caption_statistics
    from ..files.whole_file import write_text
    from ..show.benchmark_tables import captions_report

    with _usage(request.benchmark):
        found = caption_statistics(
            request.benchmark,
            None if "all" in (request.config or ()) else request.config,
            data_dir=request.data_dir,
            split=request.split,
            say=say if sys.stderr.isatty() and not request.quiet else None,
        )
    if request.output is not None:
        write_text(request.output, f"{json.dumps(found.to_dict(), ensure_ascii=False, indent=2)}\n")
    if request.markdown is not None:
        write_text(request.markdown, captions_report(found).markdown())
    return found


def show_statistics(request: DataStatisticsRequest, found: CaptionTable) -> None:
    """Print the table, or everything as JSON."""
    from ..show.benchmark_tables import captions_report

    if request.as_json:
        print_json(found.to_dict())
    elif not request.quiet:
        console = make_console()
        captions_report(found).print(console)
        print_written(console, request.output, request.markdown)


@dataclass(frozen=True)
class DataExportRequest:
    """What `capscore data export` is asked for."""

    benchmark: Slug
    out: Annotated[Path, option("Folder to make.", "--out", "-o", metavar="FOLDER")]
    data_dir: DataDir = None
    config: Configs = None
    image_dir: ImageDir = None
    no_images: Annotated[bool, option("Leave the photos out.", "--no-images")] = False
    force: Force = False
    quiet: OnlyProblems = False


def run_export(request: DataExportRequest) -> Path:
    """Write the folder; returns its path."""
    from datasets import disable_progress_bars

    from ..benchmarks.data.export import export_benchmark

    if request.quiet or not sys.stderr.isatty():
        disable_progress_bars()
    with _usage(request.benchmark):
        return export_benchmark(
            request.benchmark,
            request.out,
            request.config,
            data_dir=request.data_dir,
            image_dir=request.image_dir,
            images=False if request.no_images else None,
            force=request.force,
            say=None if request.quiet else say,
        )


def show_export(request: DataExportRequest, made: Path) -> None:
    """Say where the folder is."""
    if not request.quiet:
        say(f"{made} is whole")


def _add(name: str, help: str, request: type[Any], run: Callable[..., Any], show: Callable[..., Any]) -> None:
    data_app.command(name, cls=PlainCommand, help=help)(make_command(request, run, show))


_add("list", "List the benchmarks, with configurations and rows.", DataListRequest, run_list, show_list)
_add("check", _CHECK_HELP, DataCheckRequest, run_check, show_check)
_add(
    "statistics",
    _STATISTICS_HELP,
    DataStatisticsRequest,
    run_statistics,
    show_statistics,
)
_add("export", _EXPORT_HELP, DataExportRequest, run_export, show_export)
