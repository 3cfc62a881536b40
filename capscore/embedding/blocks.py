"""Many rows in one entry of the cache's file, so that a hundred thousand are read without a query for each.

In: keys, and rows of bytes of one length. Out: the same rows, a block at a time. Blocks are only ever added:
of a key that several blocks hold, the last counts. A block whose checksum fails holds nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

import numpy as np
import xxhash

# Rows per block: few enough that one row is read quickly, enough that a query per block costs little.
ROWS = 64
SCHEMA = (
    "CREATE TABLE IF NOT EXISTS blocks (id INTEGER PRIMARY KEY, n INTEGER NOT NULL, hashes BLOB NOT NULL, "
    "checksum BLOB NOT NULL, keys BLOB NOT NULL, vectors BLOB NOT NULL)"
)
_BETWEEN = b"\0"
_HASH = np.dtype("<u8")
_MOST_BLOCKS = 2**48  # a number beyond is damage

Take = Callable[[np.ndarray, np.ndarray], None]


def fits(keys: Sequence[bytes]) -> bool:
    """Whether keys can stand in a block: enough of them, and none holds the sign between them."""
    return len(keys) >= ROWS and not any(_BETWEEN in key for key in keys)


def write(connection: sqlite3.Connection, keys: Sequence[bytes], rows: np.ndarray) -> None:
    """Add n rows, uint8 (n, width), within the caller's transaction; their keys are distinct."""
    connection.execute(SCHEMA)
    for start in range(0, len(keys), ROWS):
        part = keys[start : start + ROWS]
        hashes, names = _hashes(part).tobytes(), _BETWEEN.join(part)
        vectors = rows[start : start + ROWS].tobytes()
        connection.execute(
            "INSERT INTO blocks (n, hashes, checksum, keys, vectors) VALUES (?, ?, ?, ?, ?)",
            (len(part), hashes, _checksum(hashes, names, vectors), names, vectors),
        )


def count(connection: sqlite3.Connection) -> int:
    """Number of rows in the blocks of a file; a key in two blocks counts twice."""
    if not _has_blocks(connection):
        return 0
    (rows,) = connection.execute("SELECT coalesce(sum(n), 0) FROM blocks").fetchone()
    return int(rows)


class BlockIndex:
    """Which block has a key, by the hash of the key; grows with the file."""

    def __init__(self) -> None:
        self._last = 0
        self._hashes = np.empty(0, _HASH)  # ascending
        self._codes = np.empty(0, np.int64)  # id of the block · ROWS + place in it, ascending for one hash

    def read(
        self, connection: sqlite3.Connection, keys: Sequence[bytes], width: int, take: Take
    ) -> np.ndarray:
        """Give the rows of keys to `take`, block by block.

        Args:
            connection: Connection to the file.
            keys: n keys.
            width: Bytes of a row; blocks with rows of another width count as absent.
            take: Called with places in `keys`, int64 (m,), and their rows, uint8 (m, width), read-only.

        Returns:
            bool (n,), True where a row was found.
        """
        found = np.zeros(len(keys), dtype=bool)
        if not _has_blocks(connection):
            return found
        self._refresh(connection)
        codes = self._find(_hashes(keys))
        asked = np.flatnonzero(codes >= 0)
        asked = asked[np.argsort(codes[asked], kind="stable")]
        blocks, places = np.divmod(codes[asked], ROWS)
        ends = np.flatnonzero(np.diff(blocks, append=-1)) + 1
        start = 0
        for end in ends.tolist():
            block = _read(connection, int(blocks[start]), width)
            if block is not None:
                names, rows = block
                here, at = asked[start:end], places[start:end]
                if (same := _same(names, at.tolist(), keys, here.tolist())) is not None:
                    here, at = here[same], at[same]
                take(here, rows if len(at) == len(rows) and _in_order(at) else rows[at])
                found[here] = True
            start = end
        return found

    def _refresh(self, connection: sqlite3.Connection) -> None:
        fresh = [
            (number, hashes)
            for number, n, hashes in connection.execute(
                "SELECT id, n, hashes FROM blocks WHERE id > ? ORDER BY id", (self._last,)
            )
            if isinstance(hashes, bytes) and len(hashes) == 8 * n <= 8 * ROWS
        ]
        if not fresh:
            return
        self._last = fresh[-1][0]
        if self._last > _MOST_BLOCKS:
            raise sqlite3.DatabaseError(f"its last block has the number {self._last}")
        lengths = np.array([len(hashes) // 8 for _, hashes in fresh])
        numbers = np.array([number for number, _ in fresh], np.int64)
        places = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        joined = np.frombuffer(b"".join(hashes for _, hashes in fresh), _HASH)
        hashes = np.concatenate([self._hashes, joined])
        codes = np.concatenate([self._codes, np.repeat(numbers, lengths) * ROWS + places])
        order = np.argsort(hashes, kind="stable")
        self._hashes, self._codes = hashes[order], codes[order]

    def _find(self, hashes: np.ndarray) -> np.ndarray:
        """The code of each hash, the last of several; −1 where there is none."""
        at = np.searchsorted(self._hashes, hashes, side="right") - 1
        codes = np.full(len(hashes), -1, np.int64)
        if len(self._hashes):
            known = (at >= 0) & (self._hashes[at] == hashes)
            codes[known] = self._codes[at[known]]
        return codes


def _has_blocks(connection: sqlite3.Connection) -> bool:
    """Whether a file has blocks; those of older versions do not."""
    named = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'blocks'")
    return named.fetchone() is not None


def _read(connection: sqlite3.Connection, number: int, width: int) -> tuple[list[bytes], np.ndarray] | None:
    """Keys and rows of a block; None if it is gone, damaged or of another width."""
    found = connection.execute(
        "SELECT n, hashes, checksum, keys, vectors FROM blocks WHERE id = ?", (number,)
    ).fetchone()
    if found is None:
        return None
    n, hashes, checksum, keys, vectors = found
    whole = all(isinstance(part, bytes) for part in (hashes, keys, vectors)) and len(vectors) == n * width
    if not whole or checksum != _checksum(hashes, keys, vectors):
        return None
    names = keys.split(_BETWEEN)
    return (names, np.frombuffer(vectors, np.uint8).reshape(n, width)) if len(names) == n else None


def _same(names: list[bytes], at: list[int], keys: Sequence[bytes], here: list[int]) -> np.ndarray | None:
    """Where a block's key is the one that was asked for, not one of the same hash; None for everywhere."""
    same = [names[place] == keys[row] for place, row in zip(at, here, strict=True)]
    return None if all(same) else np.array(same)


def _in_order(at: np.ndarray) -> bool:
    return bool((at == np.arange(len(at))).all())


def _hashes(keys: Sequence[bytes]) -> np.ndarray:
    return np.fromiter(map(xxhash.xxh3_64_intdigest, keys), _HASH, len(keys))


def _checksum(hashes: bytes, keys: bytes, vectors: bytes) -> bytes:
    digest = xxhash.xxh3_64(hashes)
    digest.update(keys)
    digest.update(vectors)
    return digest.digest()
