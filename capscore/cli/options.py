"""Options that several commands take, so that they are spelled and explained the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..metrics.loading import all_options
from .models import complete_metrics, split_metrics
from .request import option

OPTIONS = all_options()


def _bad_rows() -> list[str]:
    return ["raise", "skip"]


def metric_option(help: str) -> Any:
    """The option --metric, for a request's field; a shell completes the names."""
    return option(
        help,
        "--metric",
        "-m",
        metavar="METRIC",
        callback=split_metrics,
        autocompletion=complete_metrics,
    )


Debug = Annotated[
    bool, typer.Option("--debug", help="Show the traceback of an error (or set CAPSCORE_DEBUG=1).")
]
Force = Annotated[bool, option("Overwrite what exists.", "--force")]
AsJson = Annotated[bool, option("Print the result as JSON.", "--json")]
Quiet = Annotated[bool, option("Print no tables and no progress.", "--quiet", "-q")]
Metrics = Annotated[list[str] | None, metric_option("Metrics, such as mcs,cider; repeatable.")]
OnError = Annotated[
    str, option("Bad rows: raise (default) or skip.", metavar="HOW", autocompletion=_bad_rows)
]
Language = Annotated[str | None, option("Language of all captions, such as de.", metavar="CODE")]
Split = Annotated[str | None, option("Split of a saved data set.", panel="Columns")]
Backbones = Annotated[list[str] | None, option("Backbone, as for score; repeatable.", panel="Backbone")]

DATA_DIR = "Folder of the benchmark's files."
Data = Annotated[list[str] | None, option("Benchmark, such as xvnli; repeatable.", "--data", "-d")]
Configs = Annotated[list[str] | None, option("Configuration; repeatable, or all.", "--config", "-c")]
DataDir = Annotated[Path | None, option("Folder of the files, or of such folders.", metavar="FOLDER")]
ImageDir = Annotated[Path | None, option("Folder of the photos, if elsewhere.", metavar="FOLDER")]
TestSplit = Annotated[str | None, option("Split. Default: test.")]
Output = Annotated[Path | None, option("File for the results, as JSON.", "--output", "-o")]
Markdown = Annotated[Path | None, option("File for the tables, as Markdown.")]
Partial = Annotated[bool, option("Score only rows whose photos are available.", "--partial")]
Bootstrap = Annotated[int, option("Bootstrap draws; 0 for none. Default: 1000.", min=0, panel="Statistics")]
Confidence = Annotated[float, option("Level of the intervals. Default: 0.95.", panel="Statistics")]
Seed = Annotated[int, option("Seed for all random draws. Default: 0.", min=0, panel="Statistics")]


def column_option(names: str) -> object:
    """An option that names a column of a file; `names` are taken without it."""
    return option(f"Default: {names}.", panel="Columns")


# options of `capscore.load` that commands offer; `progress` is --quiet, `per_row` is --per-row
OF_SCORE = tuple(name for name in OPTIONS if name not in ("progress", "per_row"))
# commands that load several backbones choose each with its own --backbone
_URLS = ("allow_urls", "allow_private_urls")
OF_SEVERAL = tuple(name for name in OF_SCORE if name not in ("backbone", "revision", "image_tower", *_URLS))
OF_TOWERS = tuple(name for name in OF_SEVERAL if not OPTIONS[name].own)
OF_INFOMETIC = tuple(
    name for name in OF_SCORE if "infometic" in OPTIONS[name].metrics and name not in (*_URLS, "empty")
)
