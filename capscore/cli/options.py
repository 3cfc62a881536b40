"""Options that several commands take, so that they are spelt and explained the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

_MODEL = "Model"

Debug = Annotated[
    bool, typer.Option("--debug", help="Show the traceback of an error (or set CAPSCORE_DEBUG=1).")
]
Device = Annotated[
    str | None, typer.Option(help="cpu, cuda, cuda:1, …. Default: a GPU if any.", rich_help_panel=_MODEL)
]
Dtype = Annotated[str, typer.Option(help="float32, bfloat16 or float16.", rich_help_panel=_MODEL)]
BatchSize = Annotated[
    int | None,
    typer.Option(min=1, help="Images or texts at once. Default: what suits.", rich_help_panel=_MODEL),
]
TrustRemoteCode = Annotated[
    bool,
    typer.Option(
        "--trust-remote-code", help="Run Python code that comes with weights.", rich_help_panel=_MODEL
    ),
]
CacheDir = Annotated[
    Path | None, typer.Option(help="Folder for embeddings.", rich_help_panel=_MODEL, show_default=False)
]
NoCache = Annotated[
    bool, typer.Option("--no-cache", help="Keep no embeddings on disk.", rich_help_panel=_MODEL)
]
REGIONS = "Regions"
Weights = Annotated[
    str | None,
    typer.Option(
        help="For infometic: folder or Hub id of trained weights, or info_clip for the baseline without any. "
        "Default: those that come for the backbone, else info_clip.",
        rich_help_panel=_MODEL,
        show_default=False,
    ),
]
RegionsFrom = Annotated[
    str | None,
    typer.Option(
        "--regions",
        help="What finds them: windows (always there), detr:ID, owlv2:ID, grounding-dino:ID with a Hub id or "
        "a folder, or torchvision:NAME. Default: windows.",
        rich_help_panel=REGIONS,
        show_default=False,
    ),
]
RegionNames = Annotated[
    list[str] | None,
    typer.Option(
        "--region-names",
        help="What owlv2 and grounding-dino are to look for, such as dog or 'red ball'; may be repeated.",
        rich_help_panel=REGIONS,
        show_default=False,
    ),
]
NRegions = Annotated[
    int | None,
    typer.Option(min=1, help="Regions a photo. Default: 20.", rich_help_panel=REGIONS, show_default=False),
]
Beta = Annotated[
    float | None,
    typer.Option(
        help="What the score of a right word, or of a mentioned region, is above. Default: 0.1.",
        rich_help_panel=REGIONS,
        show_default=False,
    ),
]


def infometic_options(
    *,
    weights: str | None = None,
    regions: str | None = None,
    region_names: list[str] | None = None,
    n_regions: int | None = None,
    beta: float | None = None,
) -> dict[str, Any]:
    """Those of InfoMetIC's options that were given, checked, by the names that its scorer takes.

    Raises:
        UsageError: one that is not what it should be, or that does not go with the others.
    """
    options = {
        "weights": weights,
        "regions": regions,
        "region_names": region_names or None,
        "n_regions": n_regions,
        "beta": beta,
    }
    given = {name: value for name, value in options.items() if value is not None}
    checked = {name: value for name, value in given.items() if name != "weights"}
    if checked:
        from ..scorers.infometic import InfoMetIC
        from .terminal import as_usage

        with as_usage():
            InfoMetIC.check_options(checked)
    return given


def chosen_cache(cache_dir: Path | None, no_cache: bool) -> bool | Path | None:
    """--cache-dir and --no-cache as `capscore.embedding.cache.resolve_cache` takes them.

    Raises:
        UsageError: both were given.
    """
    from ..files.rows import UsageError

    if no_cache and cache_dir is not None:
        raise UsageError("--no-cache and --cache-dir: give one of them")
    return False if no_cache else cache_dir
