"""The photos of many rows: checked, fetched, read, keyed, and decoded by threads beside whatever uses them.

In: one image per row; many may be the same. Out: a content key per row, and each distinct photo once.
Embedders and judges are `PhotoPipeline`s; a metric that looks at photos in its own way opens one.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ..backbones.base import fingerprint_of
from ..errors import ImageError, InputError, Setting
from ..files.console import progress_bar
from ..images.fetch import Downloads
from ..images.load import BLANK, DECODING, address_of, check_images, content_key, load_image, shows_nothing
from .cache import EmbeddingCache

if TYPE_CHECKING:
    from PIL import Image

Item = TypeVar("Item")
Result = TypeVar("Result")
WORKERS = min(8, os.cpu_count() or 1)
READ_AHEAD = 64  # photos that are read while another is waited for
_BLANK = fingerprint_of("shows nothing", DECODING)  # under which the cache keeps whether photos do
READ_AT_ONCE = 8  # photos that a thread reads in turn: handing over takes as long as reading a small file
FILES_KNOWN = 2**17  # files whose keys are remembered: 50 MB
SETTLED_NS = 2 * 10**9  # a file that was written less long ago may be written again in the same instant
_FileState = tuple[int, ...]


class _FileKeys:
    """Content keys of files for all pipelines of the process, as long as the file system says "unchanged"."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[_FileState, str]] = {}

    def get(self, path: str) -> str:
        """The key of a file that was read before and has not changed; "" if it is to be read."""
        state, key = self._known.get(path, ((), ""))
        return key if key and _state(path) == state else ""

    def read(self, image: object, read: Callable[[object], str]) -> str:
        """What `read` gives for an image, kept in mind if that is a file, and not a new one."""
        path = _path_of(image)
        state = _state(path)  # as it was before it was read
        key = read(image)
        if state and time.time_ns() - max(state[-2:]) > SETTLED_NS:
            with self._lock:
                self._known.pop(path, None)
                self._known[path] = state, key
                if len(self._known) > FILES_KNOWN:
                    del self._known[next(iter(self._known))]
        return key


def _path_of(image: object) -> str:
    """The path that an image is, or that its `datasets.Image` dict has instead of bytes; "" for none."""
    if isinstance(image, dict) and image.get("bytes") is None:
        image = image.get("path")
    return os.fsdecode(image) if isinstance(image, (str, os.PathLike)) else ""


def _state(path: str) -> _FileState:
    """What changes with the content of a file; () for what is no file under just this name."""
    if not path or path.startswith("~"):
        return ()
    try:
        about = os.stat(path)
    except (OSError, ValueError):
        return ()
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


_FILE_KEYS = _FileKeys()


class PhotoPipeline:
    """Opens the photos of rows, shows how far the work on them is, and keeps its results on disk.

    >>> import numpy as np
    >>> dark, bright = np.zeros((2, 2, 3), np.uint8), np.full((2, 2, 3), 255, np.uint8)
    >>> with PhotoPipeline().photos([dark, bright, dark]) as photos:
    ...     light = dict(photos.each(lambda key, photo: photo.getpixel((0, 0))[0]))
    >>> [light[key] for key in photos.keys]
    [0, 255, 0]
    """

    def __init__(
        self,
        *,
        cache: EmbeddingCache | None = None,
        allow_urls: bool = False,
        allow_private_urls: bool = False,
        progress: bool | None = None,
    ):
        self.cache, self.progress, self.workers = cache, progress, WORKERS
        self.allow_urls, self.allow_private_urls = allow_urls, allow_private_urls

    def find_blank(self, photos: Photos) -> None:
        """Know of each photo whether it shows nothing: from the cache, or by decoding it."""
        keys = [*photos.rows]
        known = {} if self.cache is None else self.cache.get(_BLANK, 1, keys)
        BLANK.update(key for key, (flag,) in known.items() if flag)
        unknown = [key for key in keys if key not in known]
        unread = [key for key in unknown if key not in photos.decoded and key not in photos._broken]
        for _ in photos.each(lambda key, image: None, unread):
            pass
        found = [key for key in unknown if key in photos.decoded]
        if self.cache is not None and found:
            flags = np.array([[key in BLANK] for key in found], np.float32)
            self.cache.put(_BLANK, found, flags, name="photos that show nothing")

    @contextmanager
    def photos(
        self, images: object, *, on_error: str = "raise", skip: Collection[int] = frozenset()
    ) -> Iterator[Photos]:
        """Read one photo per row. Inside the block they can be decoded; after it, all failures are known.

        Args:
            on_error: "raise" an ImageError with the first bad row, or "skip" to list them in `failures`.
        """
        if on_error not in ("raise", "skip"):
            raise InputError(Setting("on_error", on_error), ": expected 'raise' or 'skip'")
        rows = check_images(images)
        downloads = Downloads(self.allow_private_urls) if self.allow_urls else None
        pool = ThreadPoolExecutor(self.workers, thread_name_prefix="capscore")
        photos = Photos(rows, pool, downloads, raises=on_error == "raise")
        try:
            with self.bar("Reading images", len(rows), READ_AHEAD) as advance:
                photos.read_keys(skip, advance)
            yield photos
            pool.shutdown()
        except BaseException as error:  # nothing that waits is begun; after Ctrl-C, nothing is waited for
            if downloads is not None:
                downloads.stop()
            pool.shutdown(wait=isinstance(error, Exception), cancel_futures=True)
            raise
        finally:
            if downloads is not None:
                downloads.close()
        photos.drop_broken()

    def bar(self, label: str, total: int, at_once: int = 0) -> AbstractContextManager[Callable[[int], None]]:
        """Gives a function that takes how many more are done; work that is done at once has no bar."""
        if total <= at_once:
            return nullcontext(lambda count: None)
        return progress_bar(label, total, shown=self.progress)


class Photos:
    """The photos of n rows, while `PhotoPipeline.photos` has them open.

    Attributes:
        keys: Content key of each row's photo; "" where it failed or was left out.
        rows: Content key of each distinct photo → its first row.
    """

    def __init__(
        self, images: Sequence[object], pool: ThreadPoolExecutor, downloads: Downloads | None, raises: bool
    ):
        self._images, self._pool, self._downloads, self._raises = images, pool, downloads, raises
        self._broken: dict[str, ImageError] = {}
        self.keys = [""] * len(images)
        self.rows: dict[str, int] = {}
        self.failures: dict[int, ImageError] = {}
        self.decoded: set[str] = set()

    def each(
        self,
        work: Callable[[str, Image.Image], Result],
        keys: Iterable[str] | None = None,
        ahead: int = READ_AHEAD,
    ) -> Iterator[tuple[str, Result]]:
        """Decode distinct photos, and yield the key and `work(key, photo)` of each that can be decoded.

        Args:
            ahead: Number of photos whose work is begun before the first is asked for.
        """

        def decoded(key: str) -> Result:
            image = load_image(self._local(self._images[self.rows[key]]), expected_key=key)
            self.decoded.add(key)
            if shows_nothing(image):
                BLANK.add(key)
            return work(key, image)

        for key, result in self._in_turn(decoded, self.rows if keys is None else keys, ahead):
            if isinstance(result, ImageError):
                self._broken[key] = result
                self._fail(self.rows[key], result)
            else:
                yield key, result

    def rows_by_key(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {key: [] for key in self.rows}
        for row, key in enumerate(self.keys):
            if key:
                found[key].append(row)
        return found

    def read_keys(self, skip: Collection[int], advance: Callable[[int], None]) -> None:
        """Find the key of each row; each path, and each object, is read once."""
        # identity tells objects apart only while they are alive
        are_alive = isinstance(self._images, (list, tuple))
        first: dict[str | int, int] = {}  # path or identity → its first row
        same: dict[int, int] = {}  # row → the first with its path or identity
        found: dict[int, str | ImageError] = {}

        def unread() -> Iterator[tuple[int, object]]:
            for row in range(len(self._images)):
                if row in skip:
                    continue
                image = self._images[row]
                path = _path_of(image)
                identity: str | int = path or row
                if not path and are_alive:
                    identity = id(image)
                same[row] = first.setdefault(identity, row)
                if same[row] < row:
                    continue
                if known := _FILE_KEYS.get(path):
                    found[row] = known
                    advance(1)
                else:
                    yield row, image

        def read(item: tuple[int, object]) -> str:
            return _FILE_KEYS.read(self._local(item[1]), content_key)

        at_once = READ_AT_ONCE if self._downloads is None else 1
        for (row, _), key in self._in_turn(read, unread(), READ_AHEAD, at_once):
            found[row] = key
            if isinstance(key, ImageError):
                self._fail(row, key)
            advance(1)
        for row, leader in same.items():
            key = found[leader]
            if isinstance(key, ImageError):
                self._fail(row, key)
            else:
                self.keys[row] = key
                self.rows.setdefault(key, row)

    def drop_broken(self) -> None:
        """List the rows of photos that could not be decoded among the failures."""
        for row, key in enumerate(self.keys if self._broken else ()):
            if key in self._broken:
                self._fail(row, self._broken[key])
                self.keys[row] = ""

    def _fail(self, row: int, error: ImageError) -> None:
        self.failures[row] = error.at(row, "image")
        if self._raises:
            raise self.failures[row] from error

    def _local(self, image: object) -> object:
        """The image itself, or the file that was downloaded from its address."""
        if self._downloads is not None and (address := address_of(image)):
            return self._downloads.file(address)
        return image

    def _in_turn(
        self, work: Callable[[Item], Result], items: Iterable[Item], ahead: int, at_once: int = 1
    ) -> Iterator[tuple[Item, Result | ImageError]]:
        """Items in order, and what threads made of them, each of `at_once` items in turn."""

        def tried(group: list[Item]) -> list[tuple[Item, Result | ImageError]]:
            results: list[tuple[Item, Result | ImageError]] = []
            for item in group:
                try:
                    results.append((item, work(item)))
                except ImageError as error:
                    results.append((item, error))
            return results

        for results in in_turn(self._pool, tried, in_batches(items, at_once), -(-ahead // at_once)):
            yield from results


def in_turn(
    pool: ThreadPoolExecutor, work: Callable[[Item], Result], items: Iterable[Item], ahead: int
) -> Iterator[Result]:
    """What threads made of each item, in order; `ahead` items are begun before the first is given."""
    waiting: deque[Future[Result]] = deque()
    for item in items:
        waiting.append(pool.submit(work, item))
        if len(waiting) >= ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def in_batches(
    items: Iterable[Item], size: int, weight: Callable[[Item], int] = lambda item: 1
) -> Iterator[list[Item]]:
    """Items in turn whose weights are `size` together, or a little more.

    >>> [*in_batches("abcde", 2)]
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    batch: list[Item] = []
    total = 0
    for item in items:
        batch.append(item)
        total += weight(item)
        if total >= size:
            yield batch
            batch, total = [], 0
    if batch:
        yield batch
