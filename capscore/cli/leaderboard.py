"""The command `capscore leaderboard`: files of results in one table that can be sorted and filtered."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ..errors import CapscoreError, InputError
from ..files.console import make_console
from ..tables import Report, Table, fixed
from .options import Force, Quiet, argument, option
from .terminal import as_usage, check_result_file, print_written


def leaderboard(
    results: Annotated[list[Path], argument("RESULTS")],
    output: Annotated[Path | None, option("File: .html.", "--output", "-o")] = None,
    title: Annotated[str, option("Title. Default: Image caption metrics.", metavar="TEXT")] = (
        "Image caption metrics"
    ),
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Draw a table of many results that can be sorted and filtered.

    RESULTS are files that `capscore benchmark --output` wrote, or folders of them. Each is checked against
    the schema of results first.

    --output NAME.html is a page in one file. Without it, the numbers that papers report are printed.

    Exit codes: 0 done; 1 a file cannot be read or written; 2 wrong usage, or a file that holds no results.

    Example: capscore leaderboard results/ --output leaderboard.html
    """
    from ..benchmarks.result_file import read_results
    from ..benchmarks.results import config_title
    from ..files.write import write_text
    from ..show.pages import leaderboard_page

    check_result_file("output", output, (".html",), force)
    with as_usage(InputError):
        numbers = read_results(results)
    if not numbers:
        raise CapscoreError("the files hold no result")
    if output is not None:
        write_text(output, leaderboard_page(numbers, title), "page")
        return None if quiet else print_written(make_console(), output)
    rows: dict[str, list[tuple[str, ...]]] = {}
    for number in numbers:
        if number.main:
            name = config_title(number.benchmark, number.config)
            value = fixed(number.value and 100 * number.value, 2)
            about = (number.metric, number.backbone or "–", number.statistic)
            rows.setdefault(name, []).append((*about, value, f"{number.n_rows:,}"))
    headings = ("metric", "backbone", "statistic", "value", "rows")
    tables = [Table(headings, lines, name, left=3) for name, lines in rows.items()]
    Report("", tables).print(make_console())
