"""Images and texts → embeddings: each distinct thing once, in full batches, from the cache where it can be.

In: sequences with one item a row, in which the same image or text may come many times. Out: a matrix of the
distinct embeddings and, per row, which of them is its own.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import xxhash

from ..backbones.base import Backbone, fingerprint_of
from ..errors import CapscoreError, ImageError, InputError
from ..files.progress import progress_bar
from ..images.load import DECODING, Downloads, content_key, load_image
from ..images.sequence import check_images

if TYPE_CHECKING:
    from .cache import EmbeddingCache

Item = TypeVar("Item")
Result = TypeVar("Result")

# Records (embedding and flag) that stay in memory from one call to the next: 32 MB at 512 dimensions.
MEMORY_ENTRIES = 16_384
# How many fresh records are gathered before they are written to disk in one transaction.
WRITE_EVERY = 512
# Texts are tokenised and sorted this many batches at a time.
TEXT_BATCHES_A_SLAB = 256
# A file older than this is taken for the same as long as its inode, size and times are.
SETTLED_NS = 2_000_000_000
# Raised whenever the same weights would give other embeddings through this library.
ENCODING = 1


@dataclass(frozen=True, eq=False)
class EmbeddedRows:
    """What became of the rows.

    Attributes:
        matrix: float32 (u, d), the distinct embeddings, rows of unit length.
        index: int64 (n,), for each row its place in `matrix`; −1 where the row failed.
        keys: content key per row; "" where the row failed.
        truncated: bool (u,), True where a text was cut to the context length.
        failures: row → what was wrong with it.
    """

    matrix: np.ndarray
    index: np.ndarray
    keys: list[str]
    truncated: np.ndarray
    failures: dict[int, ImageError]


class _Distinct:
    """The distinct things of one call: a place each, filled from memory, from disk, or by the towers."""

    def __init__(self, keys: Iterable[str], dim: int):
        self.place = {key: position for position, key in enumerate(dict.fromkeys(keys))}
        self.matrix = np.zeros((len(self.place), dim), np.float32)
        self.truncated = np.zeros(len(self.place), dtype=bool)
        self.missing = dict(self.place)

    def fill(self, key: str, record: np.ndarray) -> None:
        """A record is an embedding and, after it, its `truncated` flag."""
        position = self.place[key]
        self.matrix[position] = record[:-1]
        self.truncated[position] = record[-1] > 0.5
        self.missing.pop(key, None)

    def rows(self, keys: list[str], failures: dict[int, ImageError]) -> EmbeddedRows:
        place, filled = self.place, slice(None)
        if self.missing:  # images that could not be decoded: their places go
            filled = [position for key, position in place.items() if key not in self.missing]
            place = {key: new for new, key in enumerate(key for key in place if key not in self.missing)}
        index = np.array([place.get(key, -1) for key in keys], dtype=np.int64)
        return EmbeddedRows(self.matrix[filled], index, keys, self.truncated[filled], failures)


class Embedder:
    """Embeds rows with one backbone. Several threads may share it; they take turns.

    Args:
        backbone: the towers.
        batch_size: images or texts a batch; None takes 4 images a core (8 to 32) and 64 texts on a CPU, 256
            and 512 on a GPU.
        cache: embeddings on disk, or None to keep none.
        allow_urls: whether an http(s) URL may be fetched as an image.
        progress: show a progress bar; None shows one on long work if stderr is a terminal.

    Raises:
        InputError: a batch size that is none.
    """

    def __init__(
        self,
        backbone: Backbone,
        *,
        batch_size: int | None = None,
        cache: EmbeddingCache | None = None,
        allow_urls: bool = False,
        progress: bool | None = None,
    ):
        if batch_size is not None and (
            isinstance(batch_size, bool) or not isinstance(batch_size, Integral) or batch_size < 1
        ):
            raise InputError(f"batch_size={batch_size!r}: expected a whole number of at least 1, or None")
        on_gpu = not backbone.device.startswith("cpu")
        self.backbone = backbone
        self.workers = min(8, os.cpu_count() or 1)
        # A CPU is faster on few images at a time: the large results of convolutions cost it new memory pages.
        self.image_batch = batch_size or (256 if on_gpu else 4 * max(2, self.workers))
        self.text_batch = batch_size or (512 if on_gpu else 64)
        self.cache = cache
        self.allow_urls = allow_urls
        self.progress = progress
        # an embedding depends on how images are decoded and towers are run as much as on the weights
        self.fingerprint = fingerprint_of(backbone.fingerprint, DECODING, ENCODING)
        self._turn = threading.RLock()
        self._memory: OrderedDict[str, np.ndarray] = OrderedDict()
        self._path_keys: OrderedDict[str, tuple[tuple[int, ...], str]] = OrderedDict()

    def images(
        self, images: Any, *, on_error: str = "raise", skip: Collection[int] = frozenset()
    ) -> EmbeddedRows:
        """Embed one image a row.

        Args:
            images: what `capscore.images.sequence.check_images` lets pass, n rows.
            on_error: "raise" (default), or "skip" to list bad images in `failures`.
            skip: rows to leave alone; their index is −1.

        Raises:
            ImageError: an image cannot be read; names the first row that has it.
        """
        if on_error not in ("raise", "skip"):
            raise InputError(f"on_error={on_error!r}: expected 'raise' or 'skip'")
        rows = check_images(images)
        failures: dict[int, ImageError] = {}

        def fail(row: int, error: ImageError) -> None:
            if on_error == "raise":
                raise error.at(row, "image") from error
            failures[row] = error.at(row, "image")

        with (
            self._turn,
            Downloads(self.allow_urls) as downloads,
            ThreadPoolExecutor(self.workers, thread_name_prefix="capscore") as pool,
        ):
            keys = self._image_keys(rows, skip, downloads, pool, fail)
            first: dict[str, int] = {}
            for row, key in enumerate(keys):
                if key:
                    first.setdefault(key, row)
            distinct = self._look_up(first)
            broken = self._embed_images(rows, first, distinct, downloads, pool, fail)
        for row, key in enumerate(keys):
            if key in broken and row not in failures:
                failures[row] = broken[key].at(row, "image")
        return distinct.rows(["" if row in failures else key for row, key in enumerate(keys)], failures)

    def texts(self, texts: Sequence[str], *, prefix: str = "") -> EmbeddedRows:
        """Embed one text a row, each with `prefix` before it."""
        keys = {
            text: f"text:{xxhash.xxh3_128_hexdigest((prefix + text).encode('utf-8', 'surrogatepass'))}"
            for text in dict.fromkeys(texts)
        }
        with self._turn:
            distinct = self._look_up(keys.values())
            missing = [text for text, key in keys.items() if key in distinct.missing]
            if missing:
                self._embed_texts(
                    [prefix + text for text in missing], [keys[text] for text in missing], distinct
                )
        return distinct.rows([keys[text] for text in texts], {})

    # ------------------------------------------------------------------ images

    def _image_keys(
        self,
        rows: Sequence[Any],
        skip: Collection[int],
        downloads: Downloads,
        pool: ThreadPoolExecutor,
        fail: Callable[[int, ImageError], None],
    ) -> list[str]:
        """Content key per row, each path and each object read once."""
        keys = [""] * len(rows)
        # Objects can be told apart by identity only while somebody holds on to them.
        held = isinstance(rows, (list, tuple))
        same: dict[Any, list[int]] = {}

        def distinct() -> Iterator[tuple[int, Any]]:
            for row in range(len(rows)):
                if row in skip:
                    continue
                image = rows[row]
                if isinstance(image, (str, os.PathLike)):
                    name = ("path", os.fspath(image))
                else:
                    name = ("object", id(image) if held else row)
                if name in same:
                    same[name].append(row)
                else:
                    same[name] = [row]
                    yield row, image

        def key_of(item: tuple[int, Any]) -> tuple[int, str | ImageError]:
            row, image = item
            try:
                return row, self._content_key(downloads.local(image))
            except ImageError as error:
                return row, error

        errors: dict[int, ImageError] = {}
        with self._bar("Reading images", len(rows)) as advance:
            for row, key in _bounded_map(pool, key_of, distinct(), 8 * self.workers):
                advance(1)
                if isinstance(key, ImageError):
                    errors[row] = key
                    fail(row, key)
                else:
                    keys[row] = key
        for repeated in same.values():
            leader, *others = repeated
            for row in others:
                keys[row] = keys[leader]
                if leader in errors:
                    fail(row, errors[leader])
        return keys

    def _content_key(self, image: Any) -> str:
        """The key of an image; a file that has not been touched since is not read again."""
        if not isinstance(image, (str, os.PathLike)):
            return content_key(image)
        path = os.fspath(image)
        try:
            before = os.stat(path)
        except (OSError, ValueError):
            return content_key(image)  # it may be a URL or "~/…"; content_key says what is wrong
        # Size and time of change alone are shared by copies; the same file under the same name is not.
        seen = (before.st_dev, before.st_ino, before.st_size, before.st_mtime_ns, before.st_ctime_ns)
        known, key = self._path_keys.get(path, (None, ""))
        if known == seen:
            return key
        key = content_key(image)
        # A file written a moment ago may be written again without its times moving.
        if time.time_ns() - max(before.st_mtime_ns, before.st_ctime_ns) > SETTLED_NS:
            self._path_keys[path] = (seen, key)
            while len(self._path_keys) > MEMORY_ENTRIES:
                self._path_keys.popitem(last=False)
        return key

    def _embed_images(
        self,
        rows: Sequence[Any],
        first: dict[str, int],
        distinct: _Distinct,
        downloads: Downloads,
        pool: ThreadPoolExecutor,
        fail: Callable[[int, ImageError], None],
    ) -> dict[str, ImageError]:
        """Decode and embed what no cache had; returns the images that could not be decoded."""
        broken: dict[str, ImageError] = {}
        missing = [(key, first[key]) for key in distinct.missing]

        def decode(item: tuple[str, int]) -> tuple[str, int, Any]:
            key, row = item
            try:
                image = load_image(downloads.local(rows[row]), expected_key=key)
                return key, row, self.backbone.preprocess(image)
            except ImageError as error:
                return key, row, error

        # Two batches are decoded ahead while the tower works on one: memory is that of three batches.
        decoded = _bounded_map(pool, decode, missing, 2 * self.image_batch)
        with self._bar("Embedding images", len(missing)) as advance, self._writer(distinct) as write:
            keys, pixels = [], []
            for key, row, result in decoded:
                if isinstance(result, ImageError):
                    broken[key] = result
                    fail(row, result)
                    advance(1)
                else:
                    keys.append(key)
                    pixels.append(result)
                if len(keys) == self.image_batch:
                    write(keys, self.backbone.encode_pixels(pixels), None)
                    advance(len(keys))
                    keys, pixels = [], []
            if keys:
                write(keys, self.backbone.encode_pixels(pixels), None)
                advance(len(keys))
        return broken

    # ------------------------------------------------------------------- texts

    def _embed_texts(self, texts: list[str], keys: list[str], distinct: _Distinct) -> None:
        with self._bar("Embedding texts", len(texts)) as advance, self._writer(distinct) as write:
            # Token ids of all texts at once would weigh more than their embeddings.
            for slab in range(0, len(texts), TEXT_BATCHES_A_SLAB * self.text_batch):
                here = slice(slab, slab + TEXT_BATCHES_A_SLAB * self.text_batch)
                tokens, names = self.backbone.tokenize(texts[here]), keys[here]
                # Texts of like length share a batch, so that there is next to nothing to pad.
                order = sorted(range(len(names)), key=lambda row: len(tokens.ids[row]))
                for start in range(0, len(order), self.text_batch):
                    batch = order[start : start + self.text_batch]
                    rows = self.backbone.encode_tokens([tokens.ids[row] for row in batch])
                    write([names[row] for row in batch], rows, tokens.truncated[batch])
                    advance(len(batch))

    # ------------------------------------------------------------ memory, disk

    def _look_up(self, keys: Iterable[str]) -> _Distinct:
        """A place for each key, filled where memory or disk has the embedding."""
        distinct = _Distinct(keys, self.backbone.dim)
        for key in distinct.place:
            record = self._memory.get(key)
            if record is not None:
                self._memory.move_to_end(key)
                distinct.fill(key, record)
        if self.cache is not None and distinct.missing:
            found = self.cache.get(self.fingerprint, self.backbone.dim + 1, list(distinct.missing))
            for key, record in found.items():
                distinct.fill(key, record)
            self._remember(found)
        return distinct

    def _remember(self, records: dict[str, np.ndarray]) -> None:
        for key, record in records.items():
            self._memory[key] = record
        while len(self._memory) > MEMORY_ENTRIES:
            self._memory.popitem(last=False)

    @contextmanager
    def _writer(self, distinct: _Distinct) -> Iterator[Callable[..., None]]:
        """Takes fresh embeddings batch by batch; what was made is on disk even if the work breaks off."""
        waiting: dict[str, np.ndarray] = {}

        def flush() -> None:
            if waiting and self.cache is not None:
                self.cache.put(
                    self.fingerprint,
                    list(waiting),
                    np.stack(list(waiting.values())),
                    name=f"{self.backbone.name}@{self.backbone.revision}",
                )
            waiting.clear()

        def write(keys: list[str], rows: np.ndarray, truncated: np.ndarray | None) -> None:
            flags = np.zeros(len(keys)) if truncated is None else truncated
            fresh = np.column_stack([rows, flags]).astype(np.float32)
            bad = ~np.isfinite(fresh).all(axis=1)
            if bad.any():
                half = self.backbone.dtype != "float32"
                raise CapscoreError(
                    f"{self.backbone.name} gave NaN or infinite embeddings for {int(bad.sum())} of "
                    f"{len(keys)} items in {self.backbone.dtype}; "
                    + ("try dtype='float32'" if half else "its weights are damaged, or hold NaN")
                )
            # copies, so that a record does not hold its whole batch in memory
            batch = {key: record.copy() for key, record in zip(keys, fresh, strict=True)}
            for key, record in batch.items():
                distinct.fill(key, record)
            waiting.update(batch)
            self._remember(batch)
            if len(waiting) >= WRITE_EVERY:
                flush()

        try:
            yield write
        finally:
            flush()

    def _bar(self, label: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
        quick = self.progress is None and total <= 2 * self.text_batch
        return progress_bar(label, total, shown=False if quick else self.progress)


def _bounded_map(
    pool: ThreadPoolExecutor, work: Callable[[Item], Result], items: Iterable[Item], ahead: int
) -> Iterator[Result]:
    """Like `pool.map`, in order, but with at most `ahead` results waiting: memory stays bounded."""
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
