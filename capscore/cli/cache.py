"""The commands `capscore cache info|clear`: what is kept on disk, and how it is removed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from .terminal import box_style, command, make_console, print_line, speaks_unicode

cache_app = typer.Typer(help="Embeddings that are kept on disk: look, and clear.", no_args_is_help=True)

CacheFolder = Annotated[
    Path | None,
    typer.Option(
        "--cache-dir",
        help="The cache's folder. Default: the variable CAPSCORE_CACHE, else the user's own.",
        show_default=False,
    ),
]


@cache_app.command("info", help="What the cache holds, by backbone.")
@command
def cache_info(
    cache_dir: CacheFolder = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    from rich.table import Table

    from ..embedding.cache import EmbeddingCache

    held = EmbeddingCache(cache_dir).info()
    if as_json:
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
        whole = {
            "folder": str(held.folder),
            "entries": held.entries,
            "bytes": held.bytes,
            "backbones": backbones,
        }
        print(json.dumps(whole, indent=2, ensure_ascii=not speaks_unicode()))
        return
    console = make_console()
    if held.backbones:
        table = Table(box=box_style(), pad_edge=False)
        table.add_column("backbone", overflow="fold")
        table.add_column("fingerprint", no_wrap=True)
        table.add_column("entries", justify="right", no_wrap=True)
        table.add_column("size", justify="right", no_wrap=True)
        for stored in held.backbones:
            entries = f"{stored.entries:,}" if stored.readable else "unreadable"
            table.add_row(stored.name or "–", stored.fingerprint[:12], entries, readable_size(stored.bytes))
        console.print(table)
    print_line(console, f"{held.entries:,} embeddings, {readable_size(held.bytes)}, in {held.folder}")


@cache_app.command("clear", help="Remove the embeddings of one backbone, or all of them.")
@command
def cache_clear(
    fingerprint: Annotated[
        str | None,
        typer.Argument(
            help="As `capscore cache info` shows it; its first signs will do.", show_default=False
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    cache_dir: CacheFolder = None,
) -> None:
    from ..embedding.cache import EmbeddingCache
    from ..files.rows import UsageError

    if fingerprint is not None and not fingerprint.strip():
        raise UsageError("the fingerprint is empty; leave it out to clear everything")
    cache = EmbeddingCache(cache_dir)
    held = cache.info()
    chosen = held.backbones
    if fingerprint is not None:
        chosen = tuple(stored for stored in held.backbones if stored.fingerprint.startswith(fingerprint))
        if len(chosen) != 1:
            known = ", ".join(stored.fingerprint[:12] for stored in held.backbones) or "nothing"
            many = "more than one backbone" if chosen else "no backbone"
            raise UsageError(
                f"{many} in {held.folder} has a fingerprint that begins with {fingerprint}; it holds {known}"
            )
    size = held.bytes if fingerprint is None else chosen[0].bytes
    if not size:
        print(f"{held.folder} holds no embeddings")
        return
    entries = sum(stored.entries for stored in chosen)
    what = f"{entries:,} embeddings ({readable_size(size)}) in {held.folder}"
    if not yes:
        if not _asks():
            raise UsageError(f"this would remove {what}; --yes says that you mean it")
        if not typer.confirm(f"Remove {what}?"):
            print("nothing was removed")
            return
    removed = cache.clear(None if fingerprint is None else chosen[0].fingerprint)
    print(f"removed {removed:,} embeddings from {held.folder}")


def _asks() -> bool:
    """Whether somebody is there to answer."""
    return sys.stdin.isatty()


def readable_size(count: float) -> str:
    for unit in ("bytes", "KB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
