"""Embeddings on disk: fingerprint of a backbone and content key → the float32 row that was stored.

One SQLite table in one file, opened anew for each call, so that processes and threads may share it, also on
network drives. Scoring never fails because of the cache: a damaged row counts as absent, a damaged file is
set aside, and a cache that cannot be read or written gives one warning.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import xxhash

from ..errors import CacheWarning, CapscoreError, Setting, warn

# embeddings-0.sqlite, and the next number after damage: SQLite finds journals by name, so a process that has
# the damaged file open would otherwise write into the journal of the new one
_NAME = re.compile(r"embeddings-([0-9]+)\.sqlite(\.corrupt|-journal)?")
_ERRORS = (sqlite3.Error, OSError, UnicodeError)  # UnicodeError: messages of SQLite may quote damage
_KEYS_PER_QUERY = 900  # SQLite before 3.32 takes at most 999 variables
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS embeddings (backbone TEXT NOT NULL, key TEXT NOT NULL,"
    " checksum BLOB NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (backbone, key))",
    "CREATE TABLE IF NOT EXISTS backbones (fingerprint TEXT PRIMARY KEY, name TEXT NOT NULL DEFAULT '',"
    " last_stored REAL NOT NULL)",
)


@dataclass(frozen=True)
class StoredBackbone:
    """The contents of the cache for one backbone.

    Attributes:
        fingerprint: Fingerprint of the backbone.
        name: Name of the backbone; "" if unknown.
        entries: Number of embeddings.
        bytes: Size of its embeddings, about.
        last_stored: Time at which an embedding was last stored, in UTC.
    """

    fingerprint: str
    name: str
    entries: int
    bytes: int
    last_stored: datetime


@dataclass(frozen=True)
class CacheInfo:
    """The contents of the cache.

    Attributes:
        folder: Folder of the cache.
        bytes: Size on disk, including damaged files that were set aside.
        entries: Number of embeddings of all backbones.
        backbones: Contents for each backbone, the one that was stored last first.
        readable: Whether the file is neither damaged nor locked; if not, `backbones` is empty.
    """

    folder: Path
    bytes: int
    entries: int
    backbones: tuple[StoredBackbone, ...]
    readable: bool = True


class EmbeddingCache:
    """Embeddings on disk, shared by metrics, runs, processes and threads.

    Args:
        folder: Folder of the cache; by default the environment variable CAPSCORE_CACHE, else "embeddings" in
            the user's cache folder for capscore. It is created when the first embedding is stored.
        timeout: Seconds to wait for another process that is writing.

    Raises:
        CapscoreError: no folder can have this path.

    If the cache cannot be written, one `CacheWarning` per instance says why and nothing more is written; if
    it cannot be read, it is no longer used. A damaged file is renamed to end in ".corrupt", with a
    `CacheWarning`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cache = EmbeddingCache(folder)
    ...     cache.put("f00d", ["text:a"], np.array([[0.6, 0.8]], np.float32))
    ...     cache.get("f00d", 2, ["text:a", "text:b"])
    {'text:a': array([0.6, 0.8], dtype=float32)}
    """

    def __init__(self, folder: str | Path | None = None, *, timeout: float = 20.0):
        self.folder = _checked_folder(Path(folder if folder is not None else _default_folder()))
        self.timeout = timeout
        self._can_read = self._can_write = True

    @property
    def path(self) -> Path:
        """The file that holds the embeddings; it may not exist yet."""
        numbers = {match[2]: int(match[1]) for _, match in self._files()}  # the largest of each kind
        number = numbers.get(None, numbers.get(".corrupt", -1) + 1)
        return self.folder / f"embeddings-{number}.sqlite"

    def get(self, fingerprint: str, dim: int, keys: Sequence[str]) -> dict[str, np.ndarray]:
        """Look up embeddings.

        Args:
            fingerprint: Fingerprint of the backbone.
            dim: Length of its embeddings; an entry of another length counts as absent.
            keys: Content keys in any order.

        Returns:
            Key → float32 (dim,), read-only; without keys that are absent or whose entry is damaged.
        """
        found: dict[str, np.ndarray] = {}
        path = self.path
        if not len(keys) or not self._can_read or not path.exists():
            return found
        try:
            with self._connect(path) as connection:
                for key, checksum, vector in _select(connection, fingerprint, list(dict.fromkeys(keys))):
                    whole = isinstance(vector, bytes) and len(vector) == 4 * dim
                    if whole and checksum == _checksum(fingerprint, key, vector):
                        found[key] = np.frombuffer(vector, "<f4")
        except _ERRORS as error:
            # a file without the table has no embeddings yet
            if "no such table" not in str(error) and not _set_aside_if_damaged(path, error):
                self._give_up("read", error)
        return found

    def put(
        self, fingerprint: str, keys: Sequence[str], rows: np.ndarray, *, name: str | None = None
    ) -> None:
        """Store embeddings, all or none of them; a known key gets the new row.

        Args:
            fingerprint: Fingerprint of the backbone.
            keys: n content keys; of a repeated key, the last row is kept.
            rows: float32 (n, d), finite.
            name: Name of the backbone, for `info`.

        Raises:
            ValueError: rows are not (n, d) or not finite.
        """
        rows = np.ascontiguousarray(rows, "<f4")
        if rows.ndim != 2 or len(rows) != len(keys):
            raise ValueError(f"rows of shape {rows.shape} for {len(keys)} keys: expected ({len(keys)}, d)")
        if not np.isfinite(rows).all():
            raise ValueError("rows with NaN or infinity are not cached")
        if not len(keys) or not self._can_write:
            return
        vectors = map(np.ndarray.tobytes, rows)
        entries = [
            (fingerprint, key, _checksum(fingerprint, key, vector), vector)
            for key, vector in zip(keys, vectors, strict=True)
        ]
        try:
            path = self.path
            try:
                self._write(path, entries, name)
            except _ERRORS as error:
                if not _set_aside_if_damaged(path, error):
                    raise
                self._write(self.path, entries, name)
        except _ERRORS as error:
            self._give_up("written", error)

    def _write(self, path: Path, entries: Sequence[tuple[str, str, bytes, bytes]], name: str | None) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        fingerprint = entries[0][0]
        with self._connect(path, "rwc") as connection, connection:  # commits, or rolls back
            connection.execute("BEGIN IMMEDIATE")
            for statement in _SCHEMA:
                connection.execute(statement)
            connection.executemany("INSERT OR REPLACE INTO embeddings VALUES (?, ?, ?, ?)", entries)
            connection.execute(
                "INSERT INTO backbones VALUES (?, ?, ?) ON CONFLICT (fingerprint) DO UPDATE SET"
                " last_stored = excluded.last_stored, name = coalesce(nullif(excluded.name, ''), name)",
                (fingerprint, (name or "").encode("utf-8", "backslashreplace").decode(), time.time()),
            )

    def info(self) -> CacheInfo:
        """Count the contents of the cache, without changing it."""
        path, size = self.path, sum(_size(path) for path, _ in self._files())
        backbones = []
        try:
            if path.exists():
                with self._connect(path) as connection:
                    for fingerprint, name, last_stored in connection.execute("SELECT * FROM backbones"):
                        # count and length of the first one do not read the others
                        n_entries, length = connection.execute(
                            "SELECT count(*), (SELECT length(vector) FROM embeddings WHERE backbone = ?1)"
                            " FROM embeddings WHERE backbone = ?1",
                            (fingerprint,),
                        ).fetchone()
                        stored = datetime.fromtimestamp(last_stored, timezone.utc)
                        row = StoredBackbone(fingerprint, name, n_entries, n_entries * (length or 0), stored)
                        backbones.append(row)
        except (*_ERRORS, TypeError, ValueError, OverflowError) as error:
            if "no such table" not in str(error):  # of a file that nothing was stored in yet
                return CacheInfo(self.folder, size, 0, (), readable=False)
        backbones.sort(key=lambda backbone: backbone.last_stored, reverse=True)
        return CacheInfo(self.folder, size, sum(b.entries for b in backbones), tuple(backbones))

    def clear(self, fingerprint: str | None = None) -> int:
        """Remove the embeddings of one fingerprint, or all of them, and free their space on the disk.

        Other files in the folder stay as they are.

        Returns:
            Number of embeddings removed.

        Raises:
            CapscoreError: the cache cannot be cleared.
        """
        # every fingerprint matches GLOB '*'
        operator, value = ("GLOB", "*") if fingerprint is None else ("=", fingerprint)
        removed = 0
        try:
            if self.path.exists():
                with self._connect(self.path) as connection:
                    for statement in _SCHEMA:
                        connection.execute(statement)
                    entries = f"DELETE FROM embeddings WHERE backbone {operator} ?"
                    removed = connection.execute(entries, (value,)).rowcount
                    connection.execute(f"DELETE FROM backbones WHERE fingerprint {operator} ?", (value,))
                    connection.execute("VACUUM")
            for path, match in self._files():
                if fingerprint is None and match[2] == ".corrupt":
                    path.unlink(missing_ok=True)
        except _ERRORS as error:
            if not _is_damage(error):
                raise CapscoreError(
                    f"the embedding cache in {self.folder} cannot be cleared: {error}"
                ) from error
            for path, _ in self._files():
                path.unlink(missing_ok=True)
        return removed

    def __repr__(self) -> str:
        return f"EmbeddingCache({str(self.folder)!r})"

    @contextmanager
    def _connect(self, path: Path, mode: str = "rw") -> Iterator[sqlite3.Connection]:
        uri = f"{path.as_uri()}?mode={mode}"
        with closing(sqlite3.connect(uri, self.timeout, isolation_level=None, uri=True)) as connection:
            connection.execute("PRAGMA page_size=16384")  # rows take 2 to 4 KB, so little space is wasted
            yield connection

    def _files(self) -> list[tuple[Path, re.Match[str]]]:
        """The cache's file, and those that SQLite or damage left beside it, by number."""
        try:
            names = os.listdir(self.folder)
        except OSError:  # no folder, or not readable
            names = []
        matches = sorted(filter(None, map(_NAME.fullmatch, names)), key=lambda match: int(match[1]))
        return [(self.folder / match[0], match) for match in matches]

    def _give_up(self, what: str, error: Exception) -> None:
        self._can_read = self._can_read and what != "read"
        self._can_write = False
        is_file = self.folder.exists() and not self.folder.is_dir()
        reason = "it is a file, not a folder" if is_file else error
        warn(
            CacheWarning(
                f"the embedding cache in {self.folder} cannot be {what} ({reason}): scoring goes on without "
                "it, and the scores are the same. For another folder, set the variable CAPSCORE_CACHE or ",
                Setting("cache"),
                "; for none, ",
                Setting("cache", False),
            )
        )


def resolve_cache(cache: bool | str | Path | EmbeddingCache | None) -> EmbeddingCache | None:
    """None or True → a cache in the default folder; False → None; a path → one there; a cache → itself.

    Raises:
        CapscoreError: anything else, or an empty path.
    """
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
    chosen = os.environ.get("CAPSCORE_CACHE")
    if chosen:
        return chosen
    import platformdirs

    return Path(platformdirs.user_cache_dir("capscore", appauthor=False)) / "embeddings"


def _checked_folder(folder: Path) -> Path:
    """The absolute path of a folder, which need not exist."""
    try:
        folder = folder.expanduser().absolute()
        os.lstat(folder)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        pass  # made later, or reported once when it cannot be
    except (OSError, ValueError, RuntimeError) as error:  # too long; NUL or half a surrogate pair; ~nobody
        reason = getattr(error, "strerror", None) or error
        raise CapscoreError(
            Setting("cache", str(folder)[:60]),
            f": no folder can have this path ({reason}). Name another one here or in CAPSCORE_CACHE",
        ) from None
    return folder


def _checksum(fingerprint: str, key: str, vector: bytes) -> bytes:
    """Digest of an entry with its key, so that no row can stand for another key."""
    return xxhash.xxh3_64_digest(f"{fingerprint} {key} ".encode() + vector)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # removed meanwhile
        return 0


def _select(
    connection: sqlite3.Connection, fingerprint: str, keys: Sequence[str]
) -> Iterator[tuple[str, bytes, bytes]]:
    """Keys, checksums and vectors of the entries that there are."""
    for start in range(0, len(keys), _KEYS_PER_QUERY):
        part = keys[start : start + _KEYS_PER_QUERY]
        marks = ",".join("?" * len(part))
        yield from connection.execute(
            f"SELECT key, checksum, vector FROM embeddings WHERE backbone = ? AND key IN ({marks})",
            (fingerprint, *part),
        )


def _set_aside_if_damaged(path: Path, error: Exception) -> bool:
    """Rename a damaged file, and say so; False if the file is not at fault."""
    if not _is_damage(error):
        return False
    aside = f"{path}.corrupt"
    try:
        os.rename(path, aside)
    except FileNotFoundError:  # another process found the damage first
        return True
    warn(
        CacheWarning(
            f"the embedding cache's file {path} is damaged ({error}): it is now {Path(aside).name}, and its "
            "embeddings are computed again"
        )
    )
    return True


def _is_damage(error: Exception) -> bool:
    """Whether the file is at fault, not the disk, the folder or another process."""
    if isinstance(error, sqlite3.OperationalError):
        signs = ("malformed", "unsupported file format", "no such column", "decode to UTF-8", "syntax error")
        return any(sign in str(error) for sign in signs)
    return isinstance(error, (sqlite3.DatabaseError, UnicodeError))
