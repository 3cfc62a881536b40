"""The command `capscore leaderboard`: files of results in one table that can be sorted and filtered."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ..errors import CapscoreError, Setting
from ..files.console import make_console
from .options import Force, Quiet
from .request import argument, flowing, option
from .terminal import UsageError, bad_input_as_usage, check_result_file, make_table, print_written

if TYPE_CHECKING:
    from ..benchmarks.result_file import ReportedNumber

_HELP = """Draw a table of many results, which can be sorted and filtered.

RESULTS are files that `capscore benchmark --output` wrote, or folders of them. Each is checked against the
schema of results first.

--output NAME.html is a page in one file; --space FOLDER is the same as a static Space, with its card. Without
either, what papers report is printed.

Exit codes: 0 done; 1 a file cannot be read or written; 2 wrong usage, or a file that is none of results.

Example: capscore leaderboard results/ --output leaderboard.html
"""


def leaderboard_help() -> str:
    """The command's help."""
    return flowing(_HELP)


@dataclass(frozen=True)
class LeaderboardRequest:
    """What `capscore leaderboard` is asked for."""

    results: Annotated[list[str], argument("RESULTS")]
    output: Annotated[Path | None, option("File: .html.", "--output", "-o")] = None
    space: Annotated[Path | None, option("Folder to make of a static Space.", metavar="FOLDER")] = None
    title: Annotated[str, option("Title. Default: Image caption metrics.", metavar="TEXT")] = (
        "Image caption metrics"
    )
    force: Force = False
    quiet: Quiet = False

    def __post_init__(self) -> None:
        check_result_file("output", self.output, (".html",), self.force)
        if self.space is not None and self.space.exists() and not self.force:
            raise UsageError(
                Setting("space", self.space), " exists; ", Setting("force", True), " writes into it"
            )


def run_leaderboard(request: LeaderboardRequest) -> list[ReportedNumber]:
    """Read the files, and write what is asked for."""
    from ..benchmarks.result_file import read_results
    from ..show.leaderboard import write_leaderboard, write_space

    with bad_input_as_usage():
        numbers = read_results(request.results)
    if not numbers:
        raise CapscoreError("the files hold no result")
    if request.output is not None:
        write_leaderboard(numbers, request.output, request.title)
    if request.space is not None:
        write_space(numbers, request.space, request.title)
    return numbers


def show_leaderboard(request: LeaderboardRequest, numbers: list[ReportedNumber]) -> None:
    """Print what papers report, or where the page is."""
    console = make_console()
    if request.output is not None or request.space is not None:
        if not request.quiet:
            print_written(console, request.output, request.space)
        return
    table = make_table("benchmark", "metric", "backbone", "statistic", numbers=("value", "rows"))
    for one in numbers:
        if one.main:
            value = "–" if one.value is None else f"{100 * one.value:.2f}"
            name = one.benchmark if one.config in ("default", "") else f"{one.benchmark} · {one.config}"
            table.add_row(name, one.metric, one.backbone or "–", one.statistic, value, f"{one.n_rows:,}")
    console.print(table)
