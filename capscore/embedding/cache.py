"""Embeddings on disk: fingerprint of a backbone and content key → the float32 row that was stored.

Tables that metrics make once a machine lie in a folder beside them.

One SQLite table in one file, opened anew for each call, so that processes and threads may share it, also on
network drives. Scoring never fails because of the cache: a damaged row counts as absent, and a cache that
cannot be read or written gives one warning.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from ..errors import CacheWarning, CapscoreError, Setting, warn

_ERRORS = (sqlite3.Error, OSError, UnicodeError)  # UnicodeError: messages of SQLite may quote damage
_KEYS_PER_QUERY = 900  # SQLite before 3.32 takes at most 999 variables
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS embeddings (backbone TEXT NOT NULL, key TEXT NOT NULL,"
    " checksum BLOB NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (backbone, key))",
    "CREATE TABLE IF NOT EXISTS backbones (fingerprint TEXT PRIMARY KEY, name TEXT NOT NULL DEFAULT '',"
    " last_stored REAL NOT NULL)",
)
# count and the length of one vector do not read the others
_CONTENTS = (
    "SELECT name, fingerprint, entries, entries * coalesce((SELECT length(vector) FROM embeddings"
    " WHERE backbone = fingerprint LIMIT 1), 0) AS bytes,"
    " strftime('%Y-%m-%dT%H:%M:%S+00:00', last_stored, 'unixepoch') AS last_stored"
    " FROM (SELECT *, (SELECT count(*) FROM embeddings WHERE backbone = fingerprint) AS entries"
    " FROM backbones ORDER BY last_stored DESC)"
)
_STORED = (
    "INSERT INTO backbones VALUES (?, ?, ?) ON CONFLICT (fingerprint) DO UPDATE SET"
    " last_stored = excluded.last_stored, name = coalesce(nullif(excluded.name, ''), name)"
)
# of one fingerprint, or of all for NULL
_CLEARED = (
    "DELETE FROM backbones WHERE fingerprint = coalesce(?, fingerprint)",
    "DELETE FROM embeddings WHERE backbone = coalesce(?, backbone)",
)
_DAMAGE = ("malformed", "unsupported file format", "no such column", "decode to UTF-8", "syntax error")


class EmbeddingCache:
    """Embeddings on disk, shared by metrics, runs, processes and threads.

    Args:
        folder: Folder of the cache; by default the environment variable CAPSCORE_CACHE, else "embeddings" in
            the user's cache folder for capscore. It is created when the first embedding is stored.
        timeout: Seconds to wait for another process that is writing.

    Raises:
        CapscoreError: no folder can have this path.

    A cache that cannot be written is only read, and one that cannot be read is not used; one `CacheWarning`
    per instance says why. `clear` removes a damaged file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cache = EmbeddingCache(folder)
    ...     cache.put("f00d", ["text:a"], np.array([[0.6, 0.8]], np.float32))
    ...     cache.get("f00d", 2, ["text:a", "text:b"])
    {'text:a': array([0.6, 0.8], dtype=float32)}
    """

    def __init__(self, folder: str | Path | None = None, *, timeout: float = 20.0):
        self.folder = _checked_folder(Path(folder if folder is not None else _default_folder()))
        self.path, self.tables = self.folder / "embeddings-0.sqlite", self.folder / "tables"
        self.timeout = timeout
        self._can_read = self._can_write = True

    def get(self, fingerprint: str, dim: int, keys: Sequence[str]) -> dict[str, np.ndarray]:
        """Look up embeddings: key → float32 (dim,), read-only.

        Keys that are absent, or whose entry is damaged or of another length, are left out.
        """
        return dict(zip(*self.get_rows(fingerprint, dim, keys), strict=True))

    def get_rows(self, fingerprint: str, dim: int, keys: Sequence[str]) -> tuple[list[str], np.ndarray]:
        """The same as the keys that were found, m of them, and one float32 (m, dim)."""
        found: dict[str, bytes] = {}
        if len(keys) and self._can_read:
            self._look_up(fingerprint, 4 * dim, list(dict.fromkeys(keys)), found)
        return [*found], np.frombuffer(b"".join(found.values()), "<f4").reshape(-1, dim)

    def _look_up(self, fingerprint: str, n_bytes: int, keys: list[str], found: dict[str, bytes]) -> None:
        """Add the stored vectors of so many bytes to those that are found, until reading fails."""
        # rows that were stored one after the other lie in the same pages of the file, keys do not
        query = "SELECT key, checksum, vector FROM embeddings WHERE rowid IN"
        query += " (SELECT rowid FROM embeddings WHERE backbone = ? AND key IN "
        try:
            if not self.path.exists():
                return
            with self._connect() as connection:
                for start in range(0, len(keys), _KEYS_PER_QUERY):
                    part = keys[start : start + _KEYS_PER_QUERY]
                    marks = ",".join("?" * len(part))
                    for key, checksum, row in connection.execute(f"{query}({marks}))", (fingerprint, *part)):
                        whole = isinstance(row, bytes) and len(row) == n_bytes
                        if whole and checksum == _checksum(fingerprint, key, row):
                            found[key] = row
        except _ERRORS as error:
            if "no such table" not in str(error):  # of a file without embeddings yet
                self._stop("read", error)

    def put(
        self, fingerprint: str, keys: Sequence[str], rows: np.ndarray, *, name: str | None = None
    ) -> None:
        """Store float32 rows (n, d) under n keys, all or none of them; a known key gets the new row.

        Args:
            keys: n content keys; of a repeated key, the last row is kept.
            rows: float32 (n, d), finite; anything else is a ValueError.
        """
        rows = np.ascontiguousarray(rows, "<f4")
        if rows.ndim != 2 or len(rows) != len(keys) or not np.isfinite(rows).all():
            raise ValueError(f"rows of shape {rows.shape}: expected ({len(keys)}, d), all finite")
        if not len(keys) or not self._can_write:
            return
        entries = [
            (fingerprint, key, _checksum(fingerprint, key, vector), vector)
            for key, vector in zip(keys, map(np.ndarray.tobytes, rows), strict=True)
        ]
        backbone = (fingerprint, (name or "").encode("utf-8", "backslashreplace").decode(), time.time())
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with self._connect("rwc") as connection, connection:  # commits, or rolls back
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany("INSERT OR REPLACE INTO embeddings VALUES (?, ?, ?, ?)", entries)
                connection.execute(_STORED, backbone)
        except _ERRORS as error:
            self._stop("written", error)

    def info(self) -> dict[str, Any]:
        """Count the contents of the cache, without changing it.

        Returns:
            "folder", "entries", "bytes" (on disk), "table_bytes" (of the tables of metrics), "readable"
            (False for a file that is damaged or locked), and "backbones", the one that was stored last first,
            each with "name" ("" if unknown), "fingerprint", "entries", "bytes" and "last_stored" (UTC).
        """
        backbones: list[dict[str, Any]] = []
        readable, n_bytes, table_bytes = True, 0, 0
        try:
            table_bytes = sum(path.stat().st_size for path in self.tables.glob("*.*") if path.is_file())
            n_bytes = sum(path.stat().st_size for path in self._files())
            if self.path.exists():
                with self._connect() as connection:
                    connection.row_factory = sqlite3.Row
                    backbones = [dict(row) for row in connection.execute(_CONTENTS)]
        except _ERRORS as error:
            readable = "no such table" in str(error)  # of a file that nothing was stored in yet
        return {
            "folder": str(self.folder),
            "entries": sum(row["entries"] for row in backbones),
            "bytes": n_bytes,
            "table_bytes": table_bytes,
            "readable": readable,
            "backbones": backbones,
        }

    def clear(self, fingerprint: str | None = None) -> int:
        """Remove the embeddings of one fingerprint, or all, and free their space; returns their number.

        With all embeddings go the tables of metrics, which their next use makes anew. A damaged file is
        deleted, others in the folder stay. A cache that cannot be cleared raises `CapscoreError`.
        """
        removed = 0
        if fingerprint is None:
            shutil.rmtree(self.tables, ignore_errors=True)
        try:
            if self.path.exists():
                with self._connect("rwc") as connection:
                    for statement in _CLEARED:
                        removed = connection.execute(statement, (fingerprint,)).rowcount
                    connection.execute("VACUUM")
        except _ERRORS as error:
            if not _is_damage(error):
                message = f"the embedding cache in {self.folder} cannot be cleared: {error}"
                raise CapscoreError(message) from error
            for path in self._files():
                path.unlink(missing_ok=True)
            return 0
        return removed

    def __repr__(self) -> str:
        return f"EmbeddingCache({str(self.folder)!r})"

    @contextmanager
    def _connect(self, mode: str = "rw") -> Iterator[sqlite3.Connection]:
        uri = f"{self.path.as_uri()}?mode={mode}"
        with closing(sqlite3.connect(uri, self.timeout, isolation_level=None, uri=True)) as connection:
            connection.execute("PRAGMA page_size=16384")  # rows take 2 to 4 KB, so little space is wasted
            for statement in _SCHEMA if mode == "rwc" else ():
                connection.execute(statement)
            yield connection

    def _files(self) -> list[Path]:
        """The cache's file, and the journal that SQLite may have left beside it."""
        files = self.path, self.path.with_name(f"{self.path.name}-journal")
        return [path for path in files if path.is_file()]

    def _stop(self, how: str, error: Exception) -> None:
        """Stop using a cache that failed to be read or written, with one warning."""
        if self._can_read and self._can_write:
            message = (
                f"the embedding cache in {self.folder} cannot be {how} ({error}): scoring continues without "
                "it, and the scores are the same. `capscore cache clear` empties it; for another folder, set "
                "CAPSCORE_CACHE or "
            )
            warn(CacheWarning(message, Setting("cache"), "; for none, ", Setting("cache", False)))
        self._can_read = self._can_read and how != "read"
        self._can_write = False


@contextmanager
def stored_in_groups(
    cache: EmbeddingCache | None, fingerprint: str, size: int, *, name: str
) -> Iterator[Callable[[Mapping[str, np.ndarray]], None]]:
    """Gives a function that takes rows (d,) by key, and stores them as soon as there are `size` of them."""
    waiting: dict[str, np.ndarray] = {}

    def flush() -> None:
        if waiting and cache is not None:
            cache.put(fingerprint, [*waiting], np.stack([*waiting.values()]), name=name)
        waiting.clear()

    def store(rows: Mapping[str, np.ndarray]) -> None:
        waiting.update(rows)
        if len(waiting) >= size:
            flush()

    try:
        yield store
    finally:
        flush()


def resolve_cache(cache: bool | str | Path | EmbeddingCache | None) -> EmbeddingCache | None:
    """None or True → a cache in the default folder; False → None; a path → one there; a cache → itself."""
    if cache is False:
        return None
    if cache is None or cache is True:
        return EmbeddingCache()
    if isinstance(cache, EmbeddingCache):
        return cache
    if isinstance(cache, str | os.PathLike) and str(cache):
        return EmbeddingCache(Path(cache))
    raise CapscoreError(Setting("cache", cache), ": expected True, False, a folder, or an EmbeddingCache")


def _default_folder() -> str | Path:
    import platformdirs

    folder = Path(platformdirs.user_cache_dir("capscore", appauthor=False)) / "embeddings"
    return os.environ.get("CAPSCORE_CACHE") or folder


def _checked_folder(folder: Path) -> Path:
    try:
        folder = folder.expanduser().absolute()
        os.lstat(folder)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        pass  # made later, or reported once when it cannot be
    except (OSError, ValueError, RuntimeError) as error:  # too long; NUL or half a surrogate pair; ~nobody
        reason = getattr(error, "strerror", None) or error
        named = Setting("cache", str(folder)[:60])
        raise CapscoreError(named, f": no folder can have this path ({reason})") from None
    return folder


def _checksum(fingerprint: str, key: str, vector: bytes) -> bytes:
    """Digest of an entry with its key, so that no row can pass for another key's."""
    return xxhash.xxh3_64_digest(f"{fingerprint} {key} ".encode() + vector)


def _is_damage(error: Exception) -> bool:
    """Whether the file is at fault, not the disk, the folder or another process."""
    if isinstance(error, sqlite3.OperationalError):
        return any(sign in str(error) for sign in _DAMAGE)
    return isinstance(error, (sqlite3.DatabaseError, UnicodeError))
