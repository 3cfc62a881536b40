"""Image files whose content is known: by their path, inode, size and times, without being read again.

In: paths. Out: content keys. What is known is in memory and, with a cache, on disk for later processes.

A file counts as unchanged if device, inode, size, and the times of the last changes of its content and of its
inode, in nanoseconds, are all what they were. No program can set the last of these, so a file that is
replaced, restored or edited with its old times is read again.
"""

from __future__ import annotations

import os
import struct
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import xxhash

from .cache import FILES, EmbeddingCache

# device, inode, size, times of the last changes of content and inode
Signature = tuple[int, int, int, int, int]
Each = Callable[[Callable[[str], "Signature | None"], Iterable[str]], Iterator["Signature | None"]]

# files that stay in memory between calls
MEMORY_FILES = 16_384
# a file older than this counts as unchanged while its inode, size and times stay the same
SETTLED_NS = 2_000_000_000
# elsewhere the last time is that of the file's creation, which a later change of its content leaves
_ON_DISK = os.name == "posix"
# times may lie before 1970
_pack = struct.Struct("<QQQqq").pack
_PREFIX = "file:"
_WIDTH = 16
# the first files of a call show whether the file system is on another machine, which answers slowly
_TRIED = 16
_SLOW_SECONDS = 1e-4


class KnownFiles:
    """Content keys of files, by what the file system says about them.

    Args:
        cache: Cache that keeps them for later processes, or None.
    """

    def __init__(self, cache: EmbeddingCache | None = None):
        self._cache = cache
        self._memory: OrderedDict[str, tuple[Signature, str]] = OrderedDict()
        self._fresh: dict[str, bytes] = {}

    def look_up(self, paths: Sequence[str], each: Each = map) -> tuple[list[str], list[Signature | None]]:
        """What is known about files.

        Args:
            paths: n distinct paths.
            each: `map`, or one that works on several items at once, for a slow file system.

        Returns:
            n content keys, "" for a file that must be read; and n signatures for `remember`, taken now, None
            for what is no plain path of a file.
        """
        signatures, waited = [], []
        for path in paths[:_TRIED]:
            began = time.perf_counter()
            signatures.append(signature(path))
            waited.append(time.perf_counter() - began)
        slow = bool(waited) and sorted(waited)[len(waited) // 2] > _SLOW_SECONDS
        signatures += (each if slow else map)(signature, paths[_TRIED:])
        keys = [""] * len(paths)
        if self._memory:
            for place, path in enumerate(paths):
                known = self._memory.get(path)
                if known is not None and known[0] == signatures[place]:
                    keys[place] = known[1]
        if self._cache is not None and _ON_DISK:
            self._look_up_on_disk(self._cache, paths, signatures, keys)
        return keys, signatures

    def remember(self, path: str, seen: Signature, key: str) -> None:
        """Remember the content key of a file, whose signature was taken before it was read."""
        # a file that was written a moment ago may be written again without a change of its times
        if time.time_ns() - max(seen[3], seen[4]) <= SETTLED_NS or not key.startswith(_PREFIX):
            return
        self._memory[path] = (seen, key)
        while len(self._memory) > MEMORY_FILES:
            self._memory.popitem(last=False)
        if self._cache is not None and _ON_DISK and seen[1]:
            self._fresh[_name(path, seen)] = bytes.fromhex(key.removeprefix(_PREFIX))

    def store(self) -> None:
        """Write what is new to the cache."""
        fresh, self._fresh = self._fresh, {}
        if self._cache is not None and fresh:
            records = np.frombuffer(b"".join(fresh.values()), np.uint8).reshape(len(fresh), _WIDTH)
            self._cache.put_records(FILES, list(fresh), records)

    def _look_up_on_disk(
        self,
        cache: EmbeddingCache,
        paths: Sequence[str],
        signatures: Sequence[Signature | None],
        keys: list[str],
    ) -> None:
        asked: dict[str, int] = {}
        for place, seen in enumerate(signatures):
            if seen is not None and not keys[place]:
                asked[_name(paths[place], seen)] = place
        places = list(asked.values())

        def take(found: np.ndarray, records: np.ndarray) -> None:
            digests = records.tobytes().hex()
            for number, row in enumerate(found.tolist()):
                keys[places[row]] = _PREFIX + digests[2 * _WIDTH * number : 2 * _WIDTH * (number + 1)]

        cache.visit_records(FILES, _WIDTH, list(asked), take)


def signature(path: str) -> Signature | None:
    """What the file system says about a file; None if it says nothing, or the text may be no plain path."""
    if path[:1] == "~" or ":" in path[2:]:  # a home folder or an address; the second sign may follow a drive
        return None
    try:
        about = os.stat(path)
    except (OSError, ValueError):
        return None
    # copies of a file may share its size and times, but not its inode
    return (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)


def _name(path: str, seen: Signature) -> str:
    """Name of the record of a file: none of its parts can change without another name."""
    whole = path if path[:1] == "/" else os.path.abspath(path)
    return xxhash.xxh3_128_hexdigest(whole.encode("utf-8", "surrogatepass") + _pack(*seen))
