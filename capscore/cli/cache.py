"""The commands `capscore cache info|clear`: show and remove what is kept on disk."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ..files.console import make_console
from ..files.text_files import readable_size
from ..tables import Report, Table
from .options import AsJson, argument, option
from .terminal import UsageError, print_json, print_line

CacheDir = Annotated[
    Path | None,
    option("Folder of the cache. Default: CAPSCORE_CACHE, or your own.", "--cache-dir", metavar="FOLDER"),
]


def info(cache_dir: CacheDir = None, as_json: AsJson = False) -> None:
    """Show what the cache holds, by backbone."""
    from ..embedding.cache import EmbeddingCache

    held = EmbeddingCache(cache_dir).info()
    if as_json:
        return print_json(held)
    rows = []
    for entry in held["backbones"]:
        size = readable_size(entry["bytes"])
        rows.append((entry["name"] or "–", entry["fingerprint"][:12], f"{entry['entries']:,}", size))
    parts: list[Table | str] = []
    if rows:
        parts.append(Table(("backbone", "fingerprint", "entries", "size"), rows, left=2, wide=0))
    if not held["readable"]:
        parts.append(f"the cache's file in {held['folder']} cannot be read")
    size = readable_size(held["bytes"])
    parts.append(f"{held['entries']:,} embeddings, {size}, in {held['folder']}")
    if held["table_bytes"]:
        parts.append(f"tables of metrics, {readable_size(held['table_bytes'])}")
    Report("", parts, unbroken=True).print(make_console())


def clear(
    fingerprint: Annotated[str | None, argument("FINGERPRINT")] = None,
    yes: Annotated[bool, option("Do not ask.", "--yes", "-y")] = False,
    cache_dir: CacheDir = None,
) -> None:
    """Remove the embeddings of one backbone, or all of them and the tables of metrics.

    FINGERPRINT is the start of a fingerprint that `capscore cache info` shows; without it, all are removed.
    """
    from ..embedding.cache import EmbeddingCache

    cache = EmbeddingCache(cache_dir)
    held = chosen = cache.info()
    if fingerprint is not None:
        rows = held["backbones"]
        matches = [row for row in rows if fingerprint and row["fingerprint"].startswith(fingerprint)]
        if len(matches) != 1:
            known = ", ".join(row["fingerprint"][:12] for row in rows) or "nothing"
            raise UsageError(
                f"{len(matches)} backbones in {cache.folder} have a fingerprint that begins with "
                f"{fingerprint!r}, expected one; it holds {known}"
            )
        chosen = matches[0]
    tables = chosen.get("table_bytes", 0)
    if not chosen["entries"] and not tables and held["readable"]:
        return print_line(make_console(), f"{cache.folder} holds no embeddings")
    and_tables = f" and tables ({readable_size(tables)})" if tables else ""
    what = (
        f"{chosen['entries']:,} embeddings ({readable_size(chosen['bytes'])}){and_tables} in {cache.folder}"
    )
    if not yes and not sys.stdin.isatty():
        raise UsageError(f"this would remove {what}; add --yes to remove them")
    if not yes and not typer.confirm(f"Remove {what}?"):
        return print("nothing was removed")
    removed = cache.clear(chosen.get("fingerprint"))
    print_line(make_console(), f"removed {removed:,} embeddings{and_tables} from {cache.folder}")
