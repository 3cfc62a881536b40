"""The command `capscore`: its parts, put together.

What a command needs is imported when it runs, so that `capscore --help` answers at once.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from .. import __version__
from .backbones import backbones
from .benchmark import PARAGRAPHS as BENCHMARK_HELP
from .benchmark import benchmark
from .cache import cache_app
from .data import data_app
from .explain import explain, explain_help
from .perturb import perturb, perturb_help
from .robustness import PARAGRAPHS as ROBUSTNESS_HELP
from .robustness import robustness
from .score import score, score_help

app = typer.Typer(
    name="capscore",
    help="Automatic evaluation of image captions, in every language.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(help=score_help(), no_args_is_help=True)(score)
app.command(help=BENCHMARK_HELP, no_args_is_help=True)(benchmark)
app.command(help=ROBUSTNESS_HELP, no_args_is_help=True)(robustness)
app.command(help=perturb_help(), no_args_is_help=True)(perturb)
app.command(help=explain_help(), no_args_is_help=True)(explain)
app.command(help="The backbones that are known by name.")(backbones)
app.add_typer(data_app, name="data")
app.add_typer(cache_app, name="cache")


def main() -> None:
    """The entry point of the command."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal without τ shows another sign, and goes on
            stream.reconfigure(errors="replace")
    app()


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
