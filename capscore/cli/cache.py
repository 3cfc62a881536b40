"""The commands `capscore cache info|clear`: shows and removes the embeddings that are kept on disk."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..files.console import make_console
from ..files.sizes import readable_size
from .options import AsJson
from .plain_help import PlainCommand, PlainGroup
from .request import argument, make_command, option
from .terminal import UsageError, make_table, print_json, print_line

if TYPE_CHECKING:
    from ..embedding.cache import CacheInfo, EmbeddingCache

_CLEAR_HELP = """Remove the embeddings of one backbone, or all of them.

FINGERPRINT is the start of a fingerprint that `capscore cache info` shows; without it, all are removed."""

cache_app = typer.Typer(
    help="Inspect or clear the cache of embeddings.", cls=PlainGroup, no_args_is_help=True
)

CacheFolder = Annotated[
    Path | None,
    option("Folder of the cache. Default: CAPSCORE_CACHE, or your own.", "--cache-dir", metavar="FOLDER"),
]


@dataclass(frozen=True)
class CacheInfoRequest:
    """What `capscore cache info` is asked for."""

    cache_dir: CacheFolder = None
    as_json: AsJson = False


def run_info(request: CacheInfoRequest) -> CacheInfo:
    """Entries and sizes by backbone."""
    from ..embedding.cache import EmbeddingCache

    return EmbeddingCache(request.cache_dir).info()


def show_info(request: CacheInfoRequest, held: CacheInfo) -> None:
    """Print the backbones as a table or JSON."""
    if request.as_json:
        print_json(_as_dict(held))
        return
    console = make_console()
    if held.backbones:
        table = make_table("backbone", "fingerprint", numbers=("entries", "size"))
        table.columns[1].no_wrap = True
        for stored in held.backbones:
            entries = f"{stored.entries:,}" if stored.readable else "unreadable"
            table.add_row(stored.name or "–", stored.fingerprint[:12], entries, readable_size(stored.bytes))
        console.print(table)
    print_line(console, f"{held.entries:,} embeddings, {readable_size(held.bytes)}, in {held.folder}")


def _as_dict(held: CacheInfo) -> dict[str, Any]:
    backbones = [
        {
            "name": stored.name,
            "fingerprint": stored.fingerprint,
            "entries": stored.entries,
            "bytes": stored.bytes,
            "last_used": stored.last_used.isoformat(timespec="seconds"),
            "readable": stored.readable,
        }
        for stored in held.backbones
    ]
    return {
        "folder": str(held.folder),
        "entries": held.entries,
        "bytes": held.bytes,
        "backbones": backbones,
    }


@dataclass(frozen=True)
class CacheClearRequest:
    """What `capscore cache clear` is asked for."""

    fingerprint: Annotated[str | None, argument("FINGERPRINT")] = None
    yes: Annotated[bool, option("Do not ask.", "--yes", "-y")] = False
    cache_dir: CacheFolder = None

    def __post_init__(self) -> None:
        if self.fingerprint is not None and not self.fingerprint.strip():
            raise UsageError("the fingerprint is empty; leave it out to clear everything")


@dataclass(frozen=True)
class ClearPlan:
    """What would be removed.

    Attributes:
        cache: The cache.
        fingerprint: Whole fingerprint of one backbone; None for all.
        entries: Number of embeddings.
        size: Bytes on disk; 0 if nothing would be removed.
    """

    cache: EmbeddingCache
    fingerprint: str | None
    entries: int
    size: int


def plan_clear(request: CacheClearRequest) -> ClearPlan:
    """Find what to remove; removes nothing.

    Raises:
        UsageError: Not exactly one backbone has the fingerprint.
    """
    from ..embedding.cache import EmbeddingCache

    cache = EmbeddingCache(request.cache_dir)
    held = cache.info()
    if request.fingerprint is None:
        return ClearPlan(cache, None, sum(stored.entries for stored in held.backbones), held.bytes)
    chosen = [one for one in held.backbones if one.fingerprint.startswith(request.fingerprint)]
    if len(chosen) != 1:
        known = ", ".join(stored.fingerprint[:12] for stored in held.backbones) or "nothing"
        many = "more than one backbone" if chosen else "no backbone"
        raise UsageError(
            f"{many} in {held.folder} has a fingerprint that begins with {request.fingerprint}; "
            f"it holds {known}"
        )
    return ClearPlan(cache, chosen[0].fingerprint, chosen[0].entries, chosen[0].bytes)


def clear(request: CacheClearRequest, plan: ClearPlan) -> None:
    """Ask, remove, and say what was removed."""
    folder = plan.cache.folder
    if not plan.size:
        print_line(make_console(), f"{folder} holds no embeddings")
        return
    what = f"{plan.entries:,} embeddings ({readable_size(plan.size)}) in {folder}"
    if not request.yes:
        if not _asks():
            raise UsageError(f"this would remove {what}; add --yes to remove them")
        if not typer.confirm(f"Remove {what}?"):
            print("nothing was removed")
            return
    print_line(make_console(), f"removed {plan.cache.clear(plan.fingerprint):,} embeddings from {folder}")


def _asks() -> bool:
    """Whether somebody is there to answer."""
    return sys.stdin.isatty()


cache_app.command("info", cls=PlainCommand, help="Show what the cache holds, by backbone.")(
    make_command(CacheInfoRequest, run_info, show_info)
)
cache_app.command("clear", cls=PlainCommand, help=_CLEAR_HELP)(
    make_command(CacheClearRequest, plan_clear, clear)
)
