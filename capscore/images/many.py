"""The images of many rows: a content key for each row, read by threads, each path and each object once."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from ..errors import ImageError
from .fetch import Downloads
from .load import content_key

Item = TypeVar("Item")
Result = TypeVar("Result")


def image_keys(
    images: Sequence[Any],
    skip: Collection[int],
    downloads: Downloads,
    pool: ThreadPoolExecutor,
    fail: Callable[[int, ImageError], None],
    advance: Callable[[int], None] = lambda count: None,
) -> list[str]:
    """The content key of each row, "" where it failed or is one of `skip`.

    Args:
        images: Images that `capscore.images.load.check_images` returned.
        skip: Rows to leave out.
        downloads, pool: Where images of addresses come from, and the threads that read.
        fail: Called with each row that failed, and its error.
        advance: Called with 1 after each image.
    """
    # identity tells objects apart only while they are alive
    are_alive = isinstance(images, (list, tuple))
    first: dict[str | int, int] = {}  # path or identity → its first row
    same: dict[int, int] = {}  # row → the first with its path or identity

    def unread() -> Iterator[tuple[int, Any]]:
        for row in range(len(images)):
            if row not in skip:
                image = images[row]
                identity: str | int = id(image) if are_alive else row
                if isinstance(image, (str, os.PathLike)):
                    identity = os.fsdecode(image)
                same[row] = first.setdefault(identity, row)
                if same[row] == row:
                    yield row, image

    def key_of(item: tuple[int, Any]) -> tuple[int, str | ImageError]:
        try:
            return item[0], content_key(downloads.local(item[1]))
        except ImageError as error:
            return item[0], error

    found: dict[int, str | ImageError] = {}
    for row, key in bounded_map(pool, key_of, unread(), 64):
        advance(1)
        found[row] = key
        if isinstance(key, ImageError):
            fail(row, key)
    keys = [""] * len(images)
    for row, leader in same.items():
        key = found[leader]
        if isinstance(key, str):
            keys[row] = key
        elif row != leader:
            fail(row, key)
    return keys


@contextmanager
def reading_pool(workers: int, downloads: Downloads) -> Iterator[ThreadPoolExecutor]:
    """Threads that read images. Downloads are not awaited after an error, nothing after Ctrl-C."""
    pool = ThreadPoolExecutor(workers, thread_name_prefix="capscore")
    try:
        yield pool
    except BaseException as error:
        downloads.stop()
        pool.shutdown(wait=isinstance(error, Exception), cancel_futures=True)
        raise
    pool.shutdown()


def bounded_map(
    pool: ThreadPoolExecutor, work: Callable[[Item], Result], items: Iterable[Item], ahead: int
) -> Generator[Result, None, None]:
    """`pool.map` with at most `ahead` results waiting, so that memory stays bounded."""
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) >= ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
