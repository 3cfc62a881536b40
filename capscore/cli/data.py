"""The commands `capscore data list|check|export`: benchmarks' files in; what they are, or Parquet, out."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError
from .options import Debug
from .terminal import DEBUG, FAILED, as_usage, command, say

data_app = typer.Typer(help="Benchmarks' files: list, check, export.", no_args_is_help=True)

Slug = Annotated[str, typer.Argument(help="A benchmark, such as xvnli.", show_default=False)]
Configs = Annotated[
    list[str] | None,
    typer.Option(
        "--config", "-c", help="A configuration; may be repeated. Default: all.", show_default=False
    ),
]
DataDir = Annotated[Path | None, typer.Option(help="Folder of the benchmark's files.", show_default=False)]
ImageDir = Annotated[
    Path | None, typer.Option(help="Folder of the photos, if elsewhere.", show_default=False)
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only problems.")]


@contextmanager
def _usage(benchmark: str) -> Iterator[None]:
    """A benchmark, configuration or folder that there is not is an error of usage; a damaged file is none."""
    from ..benchmark.data.load import builder_class
    from ..files.rows import UsageError

    with as_usage():
        builder_class(benchmark)
    try:
        yield
    except InputError as error:
        raise UsageError(str(error)) from error


@data_app.command("list")
@command
def list_benchmarks(
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
    debug: Debug = False,
) -> None:
    """List the benchmarks that can be loaded, with their configurations and published rows.

    Rows are those of all configurations together, or those of the one that is called all.
    """
    DEBUG.set(debug)
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from ..benchmark.data.load import builder_class
    from ..files.shipped import benchmark_slugs

    entries = []
    for slug in benchmark_slugs():
        kind = builder_class(slug)
        configs = [config.name for config in kind.BUILDER_CONFIGS]
        rows = {
            config: {split: counts["rows"] for split, counts in splits.items() if "rows" in counts}
            for config, splits in kind.COUNTS.items()
        }
        entries.append({"benchmark": slug, "configs": configs, "rows": rows, "licence": kind.LICENSE})
    if as_json:
        print(json.dumps(entries, ensure_ascii=False, indent=2))
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("benchmark", no_wrap=True)
    table.add_column("configurations", overflow="fold")
    table.add_column("rows", justify="right", no_wrap=True)
    for entry in entries:
        counted = [entry["rows"]["all"]] if "all" in entry["rows"] else entry["rows"].values()
        total = sum(number for splits in counted for number in splits.values())
        table.add_row(entry["benchmark"], " ".join(entry["configs"]), f"{total:,}" if total else "")
    Console().print(table)


@data_app.command()
@command
def check(
    benchmark: Slug,
    data_dir: DataDir = None,
    config: Configs = None,
    image_dir: ImageDir = None,
    open_images: Annotated[
        bool, typer.Option("--open-images", help="Decode every photo, to find damaged ones.")
    ] = False,
    list_missing: Annotated[
        Path | None, typer.Option(help="Write the names of all missing photos here.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Check a benchmark's files: rows against published counts, checksums, missing photos.

    Exit codes: 0 all as published; 1 something is missing or differs; 2 wrong usage.
    """
    DEBUG.set(debug)
    from rich.console import Console
    from rich.text import Text

    from ..benchmark.data.check import NOTE, OK, check_benchmark
    from ..files.whole_file import write_text

    with _usage(benchmark):
        checked = check_benchmark(
            benchmark,
            config,
            data_dir=data_dir,
            image_dir=image_dir,
            open_images=open_images,
            say=say if sys.stderr.isatty() and not quiet else None,
        )
    if list_missing is not None:
        names = dict.fromkeys(name for part in checked for name in part.missing_images)
        write_text(list_missing, "".join(f"{name}\n" for name in names))
    if as_json:
        print(json.dumps([part.to_dict() for part in checked], ensure_ascii=False, indent=2))
    else:
        console = Console()
        marks = {OK: ("✓", "green"), NOTE: ("·", "dim")}
        for part in checked:
            shown = [finding for finding in part.findings if not quiet or finding.level not in marks]
            if shown:
                console.print(Text(f"{part.benchmark} · {part.config}", style="bold"))
            for finding in shown:
                mark, style = marks.get(finding.level, ("✗", "red"))
                line = Text(f"  {mark} ", style=style)
                line.append(f"{finding.what}: {finding.message}", style="")
                console.print(line, soft_wrap=True)  # paths and addresses stay whole
    if any(part.problems for part in checked):
        raise typer.Exit(FAILED)


@data_app.command()
@command
def export(
    benchmark: Slug,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to make.", show_default=False)],
    data_dir: DataDir = None,
    config: Configs = None,
    image_dir: ImageDir = None,
    no_images: Annotated[bool, typer.Option("--no-images", help="Leave the photos out.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the folder.")] = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write a benchmark as Parquet with a card: load_dataset(folder, config) on every version of datasets.

    Exit codes: 0 the folder is whole; 1 a file is missing, damaged or cannot be written; 2 wrong usage.
    """
    DEBUG.set(debug)
    from datasets import disable_progress_bars

    from ..benchmark.data.export import export_benchmark

    if quiet or not sys.stderr.isatty():
        disable_progress_bars()
    with _usage(benchmark):
        made = export_benchmark(
            benchmark,
            out,
            config,
            data_dir=data_dir,
            image_dir=image_dir,
            images=False if no_images else None,
            force=force,
            say=None if quiet else say,
        )
    if not quiet:
        say(f"{made} is whole")
