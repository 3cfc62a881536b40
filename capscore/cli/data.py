"""The commands `capscore data list|check|export`: what benchmarks there are and what they hold."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from ..errors import InputError
from ..files.console import make_console
from ..tables import Table
from . import terminal
from .options import AllConfigs, AsJson, DataDir, Force, ImageDir, argument, option

Slug = Annotated[str, argument("BENCHMARK")]


@contextmanager
def _usage(benchmark: str) -> Iterator[None]:
    """Make it an error of usage if a benchmark, configuration or folder does not exist."""
    from ..benchmarks.data.load import builder_class

    with terminal.as_usage():
        builder_class(benchmark)
    with terminal.as_usage(InputError):
        yield


def list_(as_json: AsJson = False) -> None:
    """List the benchmarks, with configurations and rows."""
    from ..benchmarks.data.load import builder_class
    from ..files.shipped import benchmark_slugs

    entries, lines = [], []
    for slug in benchmark_slugs():
        kind = builder_class(slug)
        rows: dict[str, dict[str, int]] = {}
        for config, splits in kind.COUNTS.items():
            rows[config] = {split: counts["rows"] for split, counts in splits.items() if "rows" in counts}
        configs = [config.name for config in kind.BUILDER_CONFIGS]
        entries.append({"benchmark": slug, "configs": configs, "rows": rows, "licence": kind.LICENSE})
        if "all" in rows:
            rows = {"all": rows["all"]}
        total = sum(sum(splits.values()) for splits in rows.values())
        lines.append((slug, " ".join(configs), f"{total:,}" if total else ""))
    if as_json:
        return terminal.print_json(entries)
    Table(("benchmark", "configurations", "rows"), lines, left=2, wide=1).print(make_console())


def check(
    benchmark: Slug,
    data_dir: DataDir = None,
    config: AllConfigs = None,
    image_dir: ImageDir = None,
    as_json: AsJson = False,
) -> int:
    """Check a benchmark's files: published counts, checksums, missing photos.

    BENCHMARK is a name of `capscore data list`, such as xvnli. --json names every photo that is missing.

    Exit codes: 0 as published; 1 something is missing or differs; 2 wrong usage.
    """
    from rich.text import Text

    from ..benchmarks.data.check import NOTE, OK, check_benchmark

    with _usage(benchmark):
        checked = check_benchmark(benchmark, config, data_dir=data_dir, image_dir=image_dir)
    marks = {OK: ("✓", "green"), NOTE: ("·", "dim")}
    console, entries = make_console(), []
    for part in checked:
        entries.append({**vars(part), "findings": [item._asdict() for item in part.findings]})
        if as_json:
            continue
        console.print(Text(f"{part.benchmark} · {part.config}", style="bold"))
        for finding in part.findings:
            mark, style = marks.get(finding.level, ("✗", "red"))
            line = Text(f"  {mark} ", style=style).append(f"{finding.what}: {finding.message}", style="")
            console.print(line, soft_wrap=True)  # paths and addresses stay whole
    if as_json:
        terminal.print_json(entries)
    return terminal.FAILED if any(part.problems for part in checked) else 0


def export(
    benchmark: Slug,
    output: Annotated[Path, option("Folder to create.", "--output", "-o", metavar="FOLDER")],
    data_dir: DataDir = None,
    config: AllConfigs = None,
    image_dir: ImageDir = None,
    no_images: Annotated[bool, option("Leave the photos out.", "--no-images")] = False,
    force: Force = False,
) -> None:
    """Write a benchmark as Parquet, for load_dataset(folder, config) with any version of datasets.

    BENCHMARK is a name of `capscore data list`, such as xvnli.

    Exit codes: 0 done; 1 a file is missing, damaged or cannot be written; 2 wrong usage.
    """
    from datasets import disable_progress_bars

    from ..benchmarks.data.export import export_benchmark

    if not sys.stderr.isatty():
        disable_progress_bars()
    with _usage(benchmark):
        made = export_benchmark(
            benchmark,
            output,
            config,
            data_dir=data_dir,
            image_dir=image_dir,
            images=False if no_images else None,
            force=force,
            say=terminal.say,
        )
    terminal.say(f"exported to {made}")
