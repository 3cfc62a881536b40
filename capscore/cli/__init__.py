"""The command `capscore`, one file a command.

What a command needs is imported when it runs, so that `capscore --help` answers at once.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Annotated

import typer

from .. import __version__
from . import (
    apps,
    backbones,
    benchmark,
    cache,
    calibrate,
    cite,
    compare,
    data,
    explain,
    leaderboard,
    perturb,
    publish,
    robustness,
    score,
    terminal,
)

app = terminal.group("Automatic evaluation of image captions, in every language.")
app.info.name = "capscore"
for _module in (score, benchmark, leaderboard, calibrate, cite, compare, robustness, perturb, explain):
    _name = _module.__name__.rpartition(".")[2]
    _help = None if _module in (leaderboard, cite) else _module.__doc__
    terminal.add_command(app, _name, getattr(_module, _name), _help)
terminal.add_command(app, "app", apps.run_app)
terminal.add_command(app, "backbones", backbones.backbones)

_data = terminal.group("List, check and export benchmarks.")
terminal.add_command(_data, "list", data.list_)
terminal.add_command(_data, "check", data.check)
terminal.add_command(_data, "export", data.export)
_cache = terminal.group("Inspect or clear the cache of embeddings.")
terminal.add_command(_cache, "info", cache.info)
terminal.add_command(_cache, "clear", cache.clear)
_publish = terminal.group("Publish metrics, weights and data sets on the Hub.")
terminal.add_command(_publish, "metric", publish.publish_metric)
terminal.add_command(_publish, "weights", publish.publish_weights)
terminal.add_command(_publish, "dataset", publish.publish_dataset)
for _name, _group in {"data": _data, "cache": _cache, "publish": _publish}.items():
    app.add_typer(_group, name=_name)


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


def main() -> None:
    """Run the command, and exit with its code; SIGTERM ends it with 143, a reader who leaves with 141."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller; another file must not take its number
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that lacks τ shows another sign instead
            stream.reconfigure(errors="replace")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.filename is not None:
            raise
        # the output is full, or its reader left: what it still holds is dropped
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            sys.exit(terminal.READER_LEFT)
        terminal.say(f"error: standard output could not be written: {error.strerror or error}")
        sys.exit(terminal.FAILED)
