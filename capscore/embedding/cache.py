"""Embeddings on disk: (fingerprint of a backbone, content key) → the float32 row that was stored.

One SQLite file per fingerprint. Several processes and threads may read and write at once. Scoring never fails
because of the cache: damaged entries count as absent, and a cache that cannot be written gives one warning.
"""

from __future__ import annotations

import os
import re
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from ..errors import CacheWarning, CapscoreError, Setting, warn
from . import blocks

_CHUNK = 900  # keys per query; SQLite before 3.32 takes at most 999 variables
_FLOAT = np.dtype("<f4")
# Name of the records of image files, which belong to no backbone.
FILES = "image-files"
_TAILS = (
    "",
    "-wal",
    "-shm",
    "-journal",
)  # the suffixes of a database (its own first) and of the files that SQLite adds
_TRIES = 5

# "<fingerprint>.<random>.v1.sqlite": a new file never gets the name of an old one. SQLite finds "-wal" and
# "-journal" by name, so a process with the old file open would otherwise write into those of the new one.
_OURS = re.compile(
    r"(?P<stem>[0-9a-z_-]{1,64})\.[0-9a-f]{16}\.v1\.(?P<kind>sqlite|corrupt|new)(?P<tail>-wal|-shm|-journal)?"
)
_STEM = re.compile(r"[0-9a-z_-]{1,64}")
_LOCK = "capscore.lock"

# write-ahead logs need memory that all writers share, which these file systems lack between machines
_NETWORK = frozenset("9p afs beegfs ceph cifs gpfs lustre nfs nfs4 smb3 smbfs virtiofs".split())

_SCHEMA = (
    "CREATE TABLE about (fingerprint TEXT NOT NULL, name TEXT, created REAL NOT NULL)",
    "CREATE TABLE entries (key TEXT PRIMARY KEY, checksum BLOB NOT NULL, vector BLOB NOT NULL)",
)


_guard = threading.RLock()  # one thread at a time, over all caches of the process
_living: weakref.WeakSet[EmbeddingCache] = weakref.WeakSet()
_inherited: list[object] = []


@dataclass(frozen=True)
class StoredBackbone:
    """The contents of the cache for one fingerprint.

    Attributes:
        fingerprint: Fingerprint of the backbone.
        name: Name of the backbone; "" if unknown.
        entries: Number of embeddings.
        bytes: Size on disk, with the files that SQLite adds.
        created: Time at which its file was created, in UTC; None if the file cannot be read.
        last_used: Time at which an embedding was last looked up or stored, in UTC.
        readable: Whether the file is neither damaged nor locked; if not, `entries` is 0.
    """

    fingerprint: str
    name: str
    entries: int
    bytes: int
    created: datetime | None
    last_used: datetime
    readable: bool = True


@dataclass(frozen=True)
class CacheInfo:
    """The contents of the cache.

    Attributes:
        folder: Folder of the cache.
        bytes: Size on disk, including damaged files that were set aside.
        entries: Number of embeddings of all backbones.
        backbones: Contents for each backbone, the most recently used first.
    """

    folder: Path
    bytes: int
    entries: int
    backbones: tuple[StoredBackbone, ...]


class EmbeddingCache:
    """Embeddings on disk, shared by metrics, runs, processes and threads.

    Args:
        folder: Folder of the files; by default the environment variable CAPSCORE_CACHE, else "embeddings" in
            the user's cache folder for capscore. It is created when the first embedding is stored.
        timeout: Seconds to wait for another process that is writing.

    Raises:
        CapscoreError: no folder can have this path.

    It can be pickled (a copy opens its own connections) and used after a fork. If the cache cannot be
    written, one `CacheWarning` per instance says why and nothing more is written; if it cannot be read, it is
    no longer used. A damaged entry counts as absent. A damaged file is renamed to end in ".corrupt", with a
    `CacheWarning`, and replaced by a new one.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, EmbeddingCache(folder) as cache:
    ...     cache.put("f00d", ["text:a"], np.array([[0.6, 0.8]], np.float32))
    ...     cache.get("f00d", 2, ["text:a", "text:b"])
    {'text:a': array([0.6, 0.8], dtype=float32)}
    """

    def __init__(self, folder: str | Path | None = None, *, timeout: float = 20.0):
        self.folder = _possible(Path(folder if folder is not None else _default_folder()))
        self.timeout = timeout
        self._reads = self._writes = True
        self._warned = False
        self._open: dict[str, tuple[Path, sqlite3.Connection]] = {}
        self._indexes: dict[str, blocks.BlockIndex] = {}
        weakref.finalize(self, _close_all, self._open)
        _living.add(self)

    def get(self, fingerprint: str, dim: int, keys: Sequence[str]) -> dict[str, np.ndarray]:
        """Look up embeddings.

        Args:
            fingerprint: Fingerprint of the backbone.
            dim: Length of its embeddings; an entry of another length counts as absent.
            keys: Content keys in any order; repeated keys are looked up once.

        Returns:
            Key → float32 (dim,), read-only; without keys that are absent or whose entry is damaged.
        """
        wanted = list(dict.fromkeys(keys))
        found: dict[str, np.ndarray] = {}

        def take(places: np.ndarray, rows: np.ndarray) -> None:
            found.update(zip([wanted[place] for place in places.tolist()], rows, strict=True))

        self.visit(fingerprint, dim, wanted, take)
        return found

    def visit(self, fingerprint: str, dim: int, keys: Sequence[str], take: blocks.Take) -> np.ndarray:
        """Look up many embeddings, which come in groups and in any order.

        Args:
            fingerprint: Fingerprint of the backbone.
            dim: Length of its embeddings; an entry of another length counts as absent.
            keys: n distinct content keys.
            take: Called with places in `keys`, int64 (m,), and their rows, float32 (m, dim), read-only. If
                the file turns out to be damaged on the way, it may be called again for the same place.

        Returns:
            bool (n,), True where an embedding was found and given to `take`.
        """

        def take_floats(places: np.ndarray, rows: np.ndarray) -> None:
            take(places, rows.view(_FLOAT))

        return self.visit_records(fingerprint, dim * _FLOAT.itemsize, keys, take_floats)

    def visit_records(
        self, fingerprint: str, width: int, keys: Sequence[str], take: blocks.Take
    ) -> np.ndarray:
        """`visit` for records of any kind: uint8 (m, width)."""
        nothing = np.zeros(len(keys), dtype=bool)
        if not self._reads or not len(keys):
            return nothing
        names = [key.encode() for key in keys]

        def job(connection: sqlite3.Connection) -> np.ndarray:
            index = self._indexes.setdefault(fingerprint, blocks.BlockIndex())
            found = _read(connection, width, names, take)
            rest = np.flatnonzero(~found)
            if len(rest):
                found[rest] = index.read(
                    connection,
                    [names[place] for place in rest.tolist()],
                    width,
                    lambda places, rows: take(rest[places], rows),
                )
            return found

        try:
            found = self._use(fingerprint, job, create=False)
        except (sqlite3.Error, OSError) as error:
            self._reads = self._writes = False
            self._give_up("read", error)
            return nothing
        return nothing if found is None else found

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
        rows = np.ascontiguousarray(rows, dtype=_FLOAT)
        if rows.ndim != 2 or len(rows) != len(keys):
            raise ValueError(f"rows of shape {rows.shape} for {len(keys)} keys: expected ({len(keys)}, d)")
        finite = np.isfinite(rows).all(axis=1)
        if not finite.all():
            bad = int(np.flatnonzero(~finite)[0])
            raise ValueError(f"row {bad} ({keys[bad]!r}) holds NaN or infinity and is not cached")
        self.put_records(fingerprint, keys, rows.view(np.uint8), name=name)

    def put_records(
        self, fingerprint: str, keys: Sequence[str], rows: np.ndarray, *, name: str | None = None
    ) -> None:
        """`put` for records of any kind: uint8 (n, width)."""
        if not self._writes or not len(keys):
            return
        try:
            self._use(fingerprint, lambda connection: _write(connection, keys, rows, name), create=True)
        except (sqlite3.Error, OSError) as error:
            self._writes = False
            self._give_up("written", error)

    def info(self) -> CacheInfo:
        """Count the contents of the cache, without changing it."""
        with _guard:
            try:
                files = self._files()
            except OSError:  # not a folder, or not readable
                files = []
            size = sum(_size(path) for path, _ in files)
            backbones = []
            for path, match in files:
                if match["kind"] == "sqlite" and not match["tail"] and match["stem"] != FILES:
                    with suppress(FileNotFoundError):  # cleared meanwhile
                        backbones.append(self._describe(path, match["stem"]))
        backbones.sort(key=lambda backbone: backbone.last_used, reverse=True)
        entries = sum(backbone.entries for backbone in backbones)
        return CacheInfo(self.folder, size, entries, tuple(backbones))

    def clear(self, fingerprint: str | None = None) -> int:
        """Remove the embeddings of one fingerprint, or all of them, and free their space on the disk.

        Other files in the folder stay as they are.

        Returns:
            Number of embeddings removed.

        Raises:
            CapscoreError: the files cannot be removed.
        """
        stem = None if fingerprint is None else _stem(fingerprint)
        removed = 0
        try:
            if not self._files():
                return 0
            with _guard, self._alone():
                for held in [held for held in self._open if stem in (None, _stem(held))]:
                    self._drop(held)
                files = [(path, match) for path, match in self._files() if stem in (None, match["stem"])]
                for path, match in files:
                    if match["kind"] == "sqlite" and not match["tail"] and match["stem"] != FILES:
                        removed += self._describe(path, match["stem"]).entries
                for path, _ in files:
                    path.unlink(missing_ok=True)
        except (sqlite3.Error, OSError) as error:
            raise CapscoreError(f"the embedding cache in {self.folder} cannot be cleared: {error}") from error
        return removed

    def close(self) -> None:
        """Close the files; the next use opens them again."""
        with _guard:
            _close_all(self._open)

    def __enter__(self) -> EmbeddingCache:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"EmbeddingCache({str(self.folder)!r})"

    def __reduce__(self):
        return _rebuild, (str(self.folder), self.timeout)

    # Files

    def _files(self) -> list[tuple[Path, re.Match[str]]]:
        """The cache's own files in the folder, by name."""
        try:
            names = sorted(os.listdir(self.folder))
        except FileNotFoundError:
            return []
        return [(self.folder / name, match) for name in names if (match := _OURS.fullmatch(name))]

    def _find(self, fingerprint: str) -> Path | None:
        stem = _stem(fingerprint)
        for path, match in self._files():
            if match["stem"] == stem and match["kind"] == "sqlite" and not match["tail"]:
                return path
        return None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Lets only one process at a time create, set aside or remove files.

        The lock is SQLite's own, on an empty database that is never written. It works wherever the cache
        works, and ends with the process that holds it.
        """
        lock = sqlite3.connect(self.folder / _LOCK, timeout=self.timeout, isolation_level=None)
        with closing(lock):
            lock.execute("BEGIN EXCLUSIVE")
            yield

    def _create(self, fingerprint: str) -> Path:
        """Create an empty file, which other processes see only when it is complete."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._alone():
            found = self._find(fingerprint)
            if found:  # another process was first
                return found
            for left, match in self._files():
                if match["kind"] == "new":  # a process died here
                    left.unlink(missing_ok=True)
            path = self.folder / f"{_stem(fingerprint)}.{os.urandom(8).hex()}.v1.sqlite"
            new = path.with_suffix(".new")
            try:
                _make(new, fingerprint, wal=not _on_network(self.folder))
                os.replace(new, path)
            finally:
                _remove(new)
            return path

    def _set_aside(self, path: Path, error: sqlite3.Error) -> None:
        aside = path.with_suffix(".corrupt")
        with self._alone():
            if not path.exists():  # another process found the damage first
                return
            for tail in _TAILS:
                with suppress(FileNotFoundError):
                    os.replace(f"{path}{tail}", f"{aside}{tail}")
        warn(
            CacheWarning(
                f"the embedding cache's file {path} is damaged ({error}): it is now {aside.name}, and its "
                "embeddings are computed again"
            )
        )

    # Connections

    def _connect(self, path: Path) -> sqlite3.Connection:
        # mode=rw, because a file that was removed meanwhile must not come back empty
        connection = sqlite3.connect(
            f"{path.as_uri()}?mode=rw",
            uri=True,
            timeout=self.timeout,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.text_factory = bytes  # a damaged text must not raise before its checksum is compared
        return connection

    def _connection(self, fingerprint: str, path: Path) -> sqlite3.Connection:
        held = self._open.get(fingerprint)
        if held and held[0] == path:
            return held[1]
        self._drop(fingerprint)
        connection = self._connect(path)
        try:
            connection.execute("PRAGMA synchronous=NORMAL")
            _check_owner(connection, fingerprint)
        except BaseException:
            connection.close()
            raise
        self._open[fingerprint] = (path, connection)
        return connection

    def _drop(self, fingerprint: str) -> None:
        self._indexes.pop(fingerprint, None)
        held = self._open.pop(fingerprint, None)
        if held:
            held[1].close()

    def _use(self, fingerprint: str, job: Callable[[sqlite3.Connection], Any], *, create: bool) -> Any:
        """Result of `job` on the fingerprint's database; None if there is none and `create` is False.

        If the file is damaged, it is set aside; if another process removed it, it is looked for again. Then
        the job is repeated.
        """
        with _guard:
            for _ in range(_TRIES):
                path = self._find(fingerprint)
                if path is None:
                    if not create:
                        return None
                    path = self._create(fingerprint)
                try:
                    result = job(self._connection(fingerprint, path))
                except BaseException as caught:
                    self._drop(fingerprint)  # undoes an unfinished transaction and closes a damaged file
                    error = caught
                    if isinstance(caught, UnicodeDecodeError):  # SQLite's own messages quote what is damaged
                        error = sqlite3.DatabaseError(f"text in it is not UTF-8: {caught.reason}")
                    if not isinstance(error, sqlite3.Error):
                        raise
                    if path.exists():
                        if not _is_damage(error):
                            raise
                        self._set_aside(path, error)
                    continue
                with suppress(OSError):
                    os.utime(path)  # when it was last used
                return result
            raise sqlite3.OperationalError(f"its file was damaged or removed {_TRIES} times in a row")

    def _describe(self, path: Path, stem: str) -> StoredBackbone:
        last_used = datetime.fromtimestamp(path.stat().st_mtime, timezone.utc)
        size = sum(_size(f"{path}{tail}") for tail in _TAILS)
        try:
            with closing(self._connect(path)) as connection:
                fingerprint, name, created = connection.execute(
                    "SELECT fingerprint, name, created FROM about"
                ).fetchone()
                (entries,) = connection.execute("SELECT count(*) FROM entries").fetchone()
                entries += blocks.count(connection)
            return StoredBackbone(
                fingerprint.decode(),
                (name or b"").decode(),
                entries,
                size,
                datetime.fromtimestamp(created, timezone.utc),
                last_used,
            )
        except (sqlite3.Error, TypeError, ValueError, AttributeError, OverflowError, OSError):
            return StoredBackbone(stem, "", 0, size, None, last_used, readable=False)

    def _give_up(self, what: str, error: Exception) -> None:
        if self._warned:
            return
        self._warned = True
        if self.folder.exists() and not self.folder.is_dir():
            reason = "it is a file, not a folder"
        else:
            reason = str(error)
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


def _possible(folder: Path) -> Path:
    """The absolute path of a folder, which need not exist.

    Raises:
        CapscoreError: no folder can have this path: it is too long, holds what no name can, or begins with
            the home of somebody who does not exist.
    """
    try:
        folder = folder.expanduser().absolute()
        os.lstat(folder)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        pass  # made later, or reported once when it cannot be
    except (OSError, ValueError, RuntimeError) as error:  # too long; NUL, or half a surrogate pair; ~nobody
        reason = getattr(error, "strerror", None) or error
        if isinstance(error, RuntimeError):
            reason = "there is no such user; a folder whose name begins with ~ needs its absolute path"
        raise CapscoreError(
            Setting("cache", str(folder)[:60]),
            f": no folder can have this path ({reason}). Name another one here or in CAPSCORE_CACHE",
        ) from None
    return folder


def _default_folder() -> str | Path:
    chosen = os.environ.get("CAPSCORE_CACHE")
    if chosen:
        return chosen
    import platformdirs

    return Path(platformdirs.user_cache_dir("capscore", appauthor=False)) / "embeddings"


def _stem(fingerprint: str) -> str:
    """Start of a file's name: the fingerprint, or its digest if some file systems would refuse it."""
    return fingerprint if _STEM.fullmatch(fingerprint) else xxhash.xxh3_128_hexdigest(fingerprint.encode())


def _make(path: Path, fingerprint: str, *, wal: bool) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA page_size=16384")  # rows take 2 to 4 KB, so little space is wasted
        if wal:
            with suppress(
                sqlite3.OperationalError
            ):  # impossible on this file system, which then uses a rollback journal
                connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("BEGIN IMMEDIATE")
        for statement in _SCHEMA:
            connection.execute(statement)
        connection.execute("INSERT INTO about VALUES (?, NULL, ?)", (fingerprint, time.time()))
        connection.execute("COMMIT")


def _check_owner(connection: sqlite3.Connection, fingerprint: str) -> None:
    owner = connection.execute("SELECT fingerprint FROM about").fetchone()
    if owner != (fingerprint.encode(),):
        raise sqlite3.DatabaseError(f"it does not say that it belongs to {fingerprint}")


def _read(connection: sqlite3.Connection, width: int, keys: Sequence[bytes], take: blocks.Take) -> np.ndarray:
    """Give the rows that stand alone to `take`; bool (n,), True where there was one."""
    found = np.zeros(len(keys), dtype=bool)
    place_of: dict[bytes, int] = {}
    for chunk in _chunks(connection, keys):
        place_of = place_of or {key: place for place, key in enumerate(keys)}
        places, vectors = [], []
        for key, checksum, vector in chunk:
            if isinstance(vector, bytes) and len(vector) == width and isinstance(key, bytes):
                place = place_of.get(key)
                if place is not None and checksum == _checksum(key, vector):
                    places.append(place)
                    vectors.append(vector)
        if places:
            here = np.array(places, np.int64)
            take(here, np.frombuffer(b"".join(vectors), np.uint8).reshape(len(here), width))
            found[here] = True
    return found


def _chunks(connection: sqlite3.Connection, keys: Sequence[bytes]) -> Iterator[list[tuple[Any, ...]]]:
    """Entries that stand alone, at least those of the keys, in lists of bounded length."""
    few = "SELECT count(*) FROM (SELECT 1 FROM entries LIMIT ?)"
    (stored,) = connection.execute(few, (len(keys) + 1,)).fetchone()
    if stored <= len(keys):  # then reading all of them is quicker than looking for each
        rows = connection.execute("SELECT key, checksum, vector FROM entries")
        while chunk := rows.fetchmany(_CHUNK):
            yield chunk
        return
    for start in range(0, len(keys), _CHUNK):
        part = [key.decode() for key in keys[start : start + _CHUNK]]
        marks = ",".join("?" * len(part))
        yield connection.execute(
            f"SELECT key, checksum, vector FROM entries WHERE key IN ({marks})", part
        ).fetchall()


def _write(connection: sqlite3.Connection, keys: Sequence[str], rows: np.ndarray, name: str | None) -> None:
    last = {key: place for place, key in enumerate(keys)}
    names = [key.encode() for key in last]
    rows = rows[list(last.values())]
    with connection:  # commits, or rolls back on any exception, Ctrl-C included
        connection.execute("BEGIN IMMEDIATE")
        if blocks.fits(names):
            # an entry that stands alone would count instead of the new row
            if connection.execute("SELECT 1 FROM entries LIMIT 1").fetchone():
                connection.executemany("DELETE FROM entries WHERE key = ?", ((key,) for key in last))
            blocks.write(connection, names, rows)
        else:
            connection.executemany(
                "INSERT OR REPLACE INTO entries VALUES (?, ?, ?)",
                (
                    (key, _checksum(own, vector), vector)
                    for key, own, vector in zip(last, names, map(np.ndarray.tobytes, rows), strict=True)
                ),
            )
        if name is not None:
            shown = name.encode("utf-8", "backslashreplace").decode()  # a folder's name may be any bytes
            connection.execute("UPDATE about SET name = ? WHERE name IS NOT ?", (shown, shown))


def _checksum(key: bytes, vector: bytes) -> bytes:
    """xxh3_64 of an entry with its key, so that no row can stand for another key."""
    return xxhash.xxh3_64_digest(key + vector)


def _is_damage(error: sqlite3.Error) -> bool:
    """Whether the file is at fault, not the disk, the folder or another process."""
    if isinstance(error, sqlite3.OperationalError):
        return _says(error, "no such table", "no such column", "malformed", "unsupported file format")
    return type(error) in (sqlite3.DatabaseError, sqlite3.IntegrityError)  # corrupt, or not a database


def _says(error: sqlite3.Error, *words: str) -> bool:
    return any(word in str(error) for word in words)


def _on_network(folder: Path) -> bool:
    """Whether the folder's file system may be shared with other machines; False if unknown."""
    try:
        lines = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    real = os.path.realpath(folder)
    best, kind = "", ""
    for line in lines:
        _, mount, this, *_ = line.split(" ")
        mount = mount.replace("\\040", " ")
        inside = real == mount or real.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):  # of two mounts at the same place, the later one counts
            best, kind = mount, this
    return kind in _NETWORK or kind.startswith("fuse")


def _size(path: str | Path) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def _remove(path: Path) -> None:
    for tail in _TAILS:
        Path(f"{path}{tail}").unlink(missing_ok=True)


def _rebuild(folder: str, timeout: float) -> EmbeddingCache:
    return EmbeddingCache(folder, timeout=timeout)


def _close_all(connections: dict[str, tuple[Path, sqlite3.Connection]]) -> None:
    while connections:
        connections.popitem()[1][1].close()


def _after_fork_in_child() -> None:
    for cache in list(_living):
        _inherited.append(dict(cache._open))
        cache._open.clear()
    _guard.release()


# SQLite's connections do not survive a fork. A fork waits until no thread uses a cache. The child keeps the
# inherited connections without using or closing them, and opens its own.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_guard.acquire,
        after_in_parent=_guard.release,
        after_in_child=_after_fork_in_child,
    )
