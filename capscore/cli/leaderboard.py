"""The command `capscore leaderboard`: files of results in one table that can be sorted and filtered."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ..errors import CapscoreError, InputError
from ..files.console import make_console
from .options import Force, Quiet, argument, option
from .terminal import as_usage, check_result_file, make_table, print_written


def leaderboard(
    results: Annotated[list[str], argument("RESULTS")],
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
    table = make_table("benchmark", "metric", "backbone", "statistic", numbers=("value", "rows"))
    for number in filter(lambda number: number.main, numbers):
        name = config_title(number.benchmark, number.config)
        value = "–" if number.value is None else f"{100 * number.value:.2f}"
        table.add_row(
            name, number.metric, number.backbone or "–", number.statistic, value, f"{number.n_rows:,}"
        )
    make_console().print(table)
