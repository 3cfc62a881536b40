"""The commands `capscore cache info|clear`: show and remove the embeddings that are kept on disk."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ..files.console import make_console
from ..files.sizes import readable_size
from .options import AsJson, argument, option
from .terminal import UsageError, make_table, print_json, print_line

CacheDir = Annotated[
    Path | None,
    option("Folder of the cache. Default: CAPSCORE_CACHE, or your own.", "--cache-dir", metavar="FOLDER"),
]


def info(cache_dir: CacheDir = None, as_json: AsJson = False) -> None:
    """Show what the cache holds, by backbone."""
    from ..embedding.cache import EmbeddingCache

    held = EmbeddingCache(cache_dir).info()
    if as_json:
        backbones = [
            {
                "name": stored.name,
                "fingerprint": stored.fingerprint,
                "entries": stored.entries,
                "bytes": stored.bytes,
                "last_stored": stored.last_stored.isoformat(timespec="seconds"),
            }
            for stored in held.backbones
        ]
        counts = {"folder": str(held.folder), "entries": held.entries, "bytes": held.bytes}
        return print_json({**counts, "readable": held.readable, "backbones": backbones})
    console = make_console()
    if held.backbones:
        table = make_table("backbone", "fingerprint", numbers=("entries", "size"))
        table.columns[1].no_wrap = True
        for stored in held.backbones:
            row = (stored.name or "–", stored.fingerprint[:12], f"{stored.entries:,}")
            table.add_row(*row, readable_size(stored.bytes))
        console.print(table)
    if not held.readable:
        print_line(console, f"the cache's file in {held.folder} cannot be read")
    print_line(console, f"{held.entries:,} embeddings, {readable_size(held.bytes)}, in {held.folder}")


def clear(
    fingerprint: Annotated[str | None, argument("FINGERPRINT")] = None,
    yes: Annotated[bool, option("Do not ask.", "--yes", "-y")] = False,
    cache_dir: CacheDir = None,
) -> None:
    """Remove the embeddings of one backbone, or all of them.

    FINGERPRINT is the start of a fingerprint that `capscore cache info` shows; without it, all are removed.
    """
    from ..embedding.cache import EmbeddingCache

    cache = EmbeddingCache(cache_dir)
    held = cache.info()
    chosen = list(held.backbones)
    if fingerprint is not None:
        chosen = [stored for stored in chosen if fingerprint and stored.fingerprint.startswith(fingerprint)]
        if len(chosen) != 1:
            known = ", ".join(stored.fingerprint[:12] for stored in held.backbones) or "nothing"
            raise UsageError(
                f"{len(chosen)} backbones in {held.folder} have a fingerprint that begins with "
                f"{fingerprint!r}, expected one; it holds {known}"
            )
    size = held.bytes if fingerprint is None else chosen[0].bytes
    n_entries = sum(stored.entries for stored in chosen)
    if not n_entries and held.readable:
        return print_line(make_console(), f"{held.folder} holds no embeddings")
    what = f"{n_entries:,} embeddings ({readable_size(size)}) in {held.folder}"
    if not yes and not sys.stdin.isatty():
        raise UsageError(f"this would remove {what}; add --yes to remove them")
    if not yes and not typer.confirm(f"Remove {what}?"):
        return print("nothing was removed")
    removed = cache.clear(None if fingerprint is None else chosen[0].fingerprint)
    print_line(make_console(), f"removed {removed:,} embeddings from {held.folder}")
