"""The command `capscore`: its parts, put together.

What a command needs is imported when it runs, so that `capscore --help` answers at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from .. import __version__
from .app_command import AppRequest, app_help, run_app, show_app
from .backbones import BackbonesRequest, run_backbones, show_backbones
from .benchmark import BenchmarkRequest, benchmark_help, run_and_print_benchmarks, show_benchmarks
from .cache import cache_app
from .calibrate import CalibrateRequest, calibrate_help, run_calibrate, show_calibrate
from .cite import CiteRequest, cite_help, run_cite, show_cite
from .compare import CompareRequest, compare_help, run_compare, show_compare
from .data import data_app
from .explain import ExplainRequest, explain_help, run_explain, show_explain
from .leaderboard import LeaderboardRequest, leaderboard_help, run_leaderboard, show_leaderboard
from .perturb import PerturbRequest, perturb_help, run_perturb, show_perturb
from .plain_help import PlainCommand, PlainGroup
from .publish import publish_app
from .request import make_command
from .robustness import RobustnessRequest, robustness_help, run_robustness_command, show_robustness
from .score import run_score, show_score
from .score_request import ScoreRequest, score_help

app = typer.Typer(
    name="capscore",
    help="Automatic evaluation of image captions, in every language.",
    cls=PlainGroup,
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _add(name: str, help: str, request: type[Any], run: Callable[..., Any], show: Callable[..., Any]) -> None:
    made = make_command(request, run, show)
    app.command(name, cls=PlainCommand, help=help, no_args_is_help=name not in ("app", "backbones"))(made)


_add("score", score_help(), ScoreRequest, run_score, show_score)
_add("benchmark", benchmark_help(), BenchmarkRequest, run_and_print_benchmarks, show_benchmarks)
_add("leaderboard", leaderboard_help(), LeaderboardRequest, run_leaderboard, show_leaderboard)
_add("calibrate", calibrate_help(), CalibrateRequest, run_calibrate, show_calibrate)
_add("cite", cite_help(), CiteRequest, run_cite, show_cite)
_add("compare", compare_help(), CompareRequest, run_compare, show_compare)
_add("robustness", robustness_help(), RobustnessRequest, run_robustness_command, show_robustness)
_add("perturb", perturb_help(), PerturbRequest, run_perturb, show_perturb)
_add("explain", explain_help(), ExplainRequest, run_explain, show_explain)
_add("app", app_help(), AppRequest, run_app, show_app)
_add(
    "backbones", "List the backbones that are known by name.", BackbonesRequest, run_backbones, show_backbones
)
app.add_typer(data_app, name="data")
app.add_typer(cache_app, name="cache")
app.add_typer(publish_app, name="publish")


def _show_version(asked: bool) -> None:
    if asked:
        print(f"capscore {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
