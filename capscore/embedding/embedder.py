"""Images and texts → embeddings: each distinct one once, in full batches, from the cache if it is there.

In: sequences with one item per row, in which the same image or text may occur many times. Out: a matrix of
the distinct embeddings and, for each row, the place of its embedding.
"""

from __future__ import annotations

import copy
import os
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
import xxhash

from ..backbones.base import Backbone, fingerprint_of
from ..errors import CapscoreError, ImageError, InputError, Setting
from ..files.console import progress_bar
from ..files.interrupts import before_the_end
from ..images.boxes import crops, normalised
from ..images.decoding import DECODING
from ..images.downloads import Downloads
from ..images.in_flight import IN_FLIGHT, Ticket
from ..images.load import content_key, load_counted_image, load_with_ticket, pixels_to_decode
from ..images.sequence import check_images
from .known_files import KnownFiles, Signature

if TYPE_CHECKING:
    import torch
    from PIL import Image

    from .cache import EmbeddingCache

Item = TypeVar("Item")
Result = TypeVar("Result")

# records (embedding and flag) that stay in memory between calls: 32 MB at 512 dimensions
MEMORY_ENTRIES = 16_384
# fresh records that are written to disk in one transaction
WRITE_EVERY = 512
# batches of texts that are tokenised and sorted together
TEXT_BATCHES_A_SLAB = 256
# files whose contents are looked up together
FILES_AT_ONCE = 4096
# to be raised whenever this library computes other embeddings from the same weights
ENCODING = 1
# decoded images that are shown to an `ImageReader` together, or fewer if they are large
SHOWN_AT_ONCE = 16
# pixels of crops that are in memory at once, but for one larger crop: 48 MB
CROPPED_PIXELS = 2**24


@dataclass(frozen=True, eq=False)
class EmbeddedRows:
    """Embeddings of n rows, of which u differ.

    Attributes:
        matrix: float32 (u, d), the distinct embeddings, rows of unit length (as long as the backbone's rows).
        index: int64 (n,), place of each row in `matrix`; −1 where the row failed.
        keys: Content key of each row; "" where it failed.
        truncated: bool (u,), True where a text was cut to the context length.
        failures: Row → what was wrong with it.
        verdicts: float32 (u, 1 + k), what the backbone's gate says of each distinct text, as
            `Backbone.encode_judged` gives it; (u, 0) for images, and for a backbone without a gate.
    """

    matrix: np.ndarray
    index: np.ndarray
    keys: list[str]
    truncated: np.ndarray
    failures: dict[int, ImageError]
    verdicts: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.float32))


@dataclass
class EncodingTimes:
    """What the towers have encoded, and how long it took; what a cache had is not counted.

    Attributes:
        images, texts: Numbers of distinct images and texts that went through the towers.
        image_seconds, text_seconds: Time for them, with decoding and tokenizing.
    """

    images: int = 0
    texts: int = 0
    image_seconds: float = 0.0
    text_seconds: float = 0.0

    @property
    def images_per_second(self) -> float | None:
        """Images per second; None if none were encoded."""
        return self.images / self.image_seconds if self.images and self.image_seconds else None

    @property
    def texts_per_second(self) -> float | None:
        """Texts per second; None if none were encoded."""
        return self.texts / self.text_seconds if self.texts and self.text_seconds else None


class ImageReader(Protocol):
    """A reader of the decoded images themselves, besides their embeddings."""

    def wanted(self, keys: Sequence[str]) -> Collection[str]:
        """The keys of the images it wants to see; `keys` has one per row, "" for a row that failed."""

    def look(self, images: Mapping[str, Image.Image]) -> None:
        """Called with up to `SHOWN_AT_ONCE` decoded images, by key; each wanted image comes once."""


@dataclass(frozen=True, eq=False)
class _Shown:
    """An image that an `ImageReader` is looking at, its key, and its feature map (c, h, w) if it has one."""

    image: Image.Image
    key: str
    backbone: Backbone
    feature_map: torch.Tensor | None


class _Unread(NamedTuple):
    """The first row with an image, and for a file its path and what `KnownFiles` saw of it."""

    row: int
    image: Any
    path: str = ""
    signature: Signature | None = None


class _Distinct:
    """The distinct items of one call: one place each, filled from memory, from disk, or by the towers."""

    def __init__(self, keys: Iterable[str], dim: int, verdict: int = 0):
        self.place = {key: position for position, key in enumerate(dict.fromkeys(keys))}
        self.matrix = np.zeros((len(self.place), dim), np.float32)
        self.truncated = np.zeros(len(self.place), dtype=bool)
        self.verdicts = np.zeros((len(self.place), verdict), np.float32)
        self.missing = set(self.place)

    @property
    def width(self) -> int:
        """Length of a record."""
        return self.matrix.shape[1] + 1 + self.verdicts.shape[1]

    def take(self, places: Any, records: np.ndarray) -> None:
        """A record is an embedding; after it, its `truncated` flag; and after that, the verdict on a text."""
        dim = self.matrix.shape[1]
        self.matrix[places] = records[..., :dim]
        self.truncated[places] = records[..., dim] > 0.5
        self.verdicts[places] = records[..., dim + 1 :]

    def fill(self, key: str, record: np.ndarray) -> None:
        """Take the record of one key, which is no longer missing."""
        self.take(self.place[key], record)
        self.missing.discard(key)

    def rows(self, keys: list[str], failures: dict[int, ImageError]) -> EmbeddedRows:
        place, matrix, truncated, verdicts = self.place, self.matrix, self.truncated, self.verdicts
        if self.missing:  # images that could not be decoded lose their places
            filled = [position for key, position in place.items() if key not in self.missing]
            matrix, truncated, verdicts = matrix[filled], truncated[filled], verdicts[filled]
            place = {key: new for new, key in enumerate(key for key in place if key not in self.missing)}
        if len(place) == len(keys):  # each key is there once, in the order of the rows
            index = np.arange(len(keys))
        else:
            index = np.fromiter((place.get(key, -1) for key in keys), np.int64, len(keys))
        return EmbeddedRows(matrix, index, keys, truncated, failures, verdicts)


class Embedder:
    """Embeds rows with one backbone. Several threads may share it; they take turns.

    Args:
        backbone: Backbone whose towers embed.
        batch_size: Number of images or texts per batch; None takes 4 images per core (8 to 32) and
            `Backbone.text_batch` texts on a CPU, 256 and 512 on a GPU.
        cache: Embeddings on disk, or None to keep none.
        allow_urls: Permission to fetch images from http(s) addresses.
        allow_private_urls: Permission to fetch them from hosts that are not public, such as localhost.
        progress: Progress bar on or off; None shows one on long work if stderr is a terminal.

    Attributes:
        encoded: What the towers have encoded so far, and how long it took.

    Raises:
        InputError: `batch_size` is not a whole number of at least 1.
    """

    def __init__(
        self,
        backbone: Backbone,
        *,
        batch_size: int | None = None,
        cache: EmbeddingCache | None = None,
        allow_urls: bool = False,
        allow_private_urls: bool = False,
        progress: bool | None = None,
    ):
        if batch_size is not None and (
            isinstance(batch_size, bool) or not isinstance(batch_size, Integral) or batch_size < 1
        ):
            raise InputError(
                Setting("batch_size", batch_size), ": expected a whole number of at least 1, or None"
            )
        on_gpu = not backbone.device.startswith("cpu")
        self.backbone = backbone
        self.workers = min(8, os.cpu_count() or 1)
        # a CPU is faster with few images at a time: large results of convolutions need new memory pages
        self.image_batch = batch_size or (256 if on_gpu else 4 * max(2, self.workers))
        self.text_batch = batch_size or (512 if on_gpu else backbone.text_batch)
        self.cache = cache
        self.allow_urls = allow_urls
        self.allow_private_urls = allow_private_urls
        self.progress = progress
        # embeddings depend on how images are decoded and towers are run as much as on the weights
        self.fingerprint = fingerprint_of(backbone.fingerprint, DECODING, ENCODING)
        self.encoded = EncodingTimes()
        self._turn = threading.RLock()
        self._memory: OrderedDict[str, np.ndarray] = OrderedDict()
        self._files = KnownFiles(cache)
        # by identity, while a reader looks at them
        self._shown: dict[int, _Shown] = {}

    def of(self, backbone: Backbone) -> Embedder:
        """An embedder of another backbone with the same settings and the same cache on disk."""
        if backbone is self.backbone:
            return self
        other = copy.copy(self)
        other.backbone = backbone
        other.fingerprint = fingerprint_of(backbone.fingerprint, DECODING, ENCODING)
        other._memory = OrderedDict()
        other.encoded = EncodingTimes()
        return other

    def __getstate__(self) -> dict[str, Any]:
        """State for a copy in another process: without the lock, and without what memory holds."""
        empty: dict[str, Any] = {
            "_memory": OrderedDict(),
            "_files": KnownFiles(self.cache),
            "_shown": {},
        }
        return {**self.__dict__, "_turn": None, **empty}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._turn = threading.RLock()

    def images(
        self,
        images: Any,
        *,
        on_error: str = "raise",
        skip: Collection[int] = frozenset(),
        reader: ImageReader | None = None,
    ) -> EmbeddedRows:
        """Embed one image per row.

        Args:
            images: n images that `capscore.images.sequence.check_images` accepts.
            on_error: "raise" (default), or "skip" to list bad images in `failures`.
            skip: Rows to leave out; their index is −1.
            reader: Reader of the decoded images, or None.

        Raises:
            ImageError: an image cannot be read; names the first row with it.
        """
        if on_error not in ("raise", "skip"):
            raise InputError(Setting("on_error", on_error), ": expected 'raise' or 'skip'")
        rows = check_images(images)
        failures: dict[int, ImageError] = {}

        def fail(row: int, error: ImageError) -> None:
            if on_error == "raise":
                raise error.at(row, "image") from error
            failures[row] = error.at(row, "image")

        with (
            self._turn,
            Downloads(self.allow_urls, self.allow_private_urls) as downloads,
            _pool(self.workers, downloads) as pool,
        ):
            keys = self._image_keys(rows, skip, downloads, pool, fail)
            first: dict[str, int] = {}
            for row, key in enumerate(keys):
                if key:
                    first.setdefault(key, row)
            distinct = self._look_up(first)
            missing, start = len(distinct.missing), time.perf_counter()
            broken = self._embed_images(rows, keys, first, distinct, reader, downloads, pool, fail)
            self.encoded.images += missing - len(distinct.missing)
            self.encoded.image_seconds += time.perf_counter() - start if missing else 0.0
        for row, key in enumerate(keys if broken else ()):
            if key in broken and row not in failures:
                failures[row] = broken[key].at(row, "image")
        for row in failures:
            keys[row] = ""
        return distinct.rows(keys, failures)

    def regions(self, images: Sequence[Image.Image], boxes: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Embed regions of decoded images, each distinct one once, from the cache if it is there.

        A backbone with a feature map gives all regions of an image from one pass over it, and from the same
        pass as the image's own embedding while an `ImageReader` looks at the image. Other backbones embed
        crops, which are cached by their pixels.

        Args:
            images: n upright RGB images.
            boxes: n float arrays (k_i, 4), left, top, right, bottom in pixels within the image, with an area,
                as `capscore.images.boxes.check_boxes` returns them.

        Returns:
            n float32 (k_i, d), rows of unit length (as long as the backbone's rows).
        """
        if not images:
            return []
        with self._turn:
            if self.backbone.has_feature_map:
                rows = self._regions_of_maps(images, boxes)
            else:
                rows = self._regions_of_crops(images, boxes)
        return np.split(rows, np.cumsum([len(own) for own in boxes])[:-1])

    def maps(self, images: Sequence[Image.Image]) -> torch.Tensor:
        """Feature maps (n, channels, h, w) of decoded images, from a backbone that has them.

        While an `ImageReader` looks at an image, its map is that of the image's own embedding.

        Raises:
            CapscoreError: the backbone has no feature map.
        """
        with self._turn:
            return self._maps_of(images)

    def texts(self, texts: Sequence[str], *, prefix: str = "", quiet: bool = False) -> EmbeddedRows:
        """Embed one text per row, each with `prefix` before it; with `quiet`, no progress bar is shown."""
        digest = xxhash.xxh3_128_hexdigest
        keys = {
            text: "text:" + digest((prefix + text).encode("utf-8", "surrogatepass"))
            for text in dict.fromkeys(texts)
        }
        with self._turn:
            distinct = self._look_up(keys.values(), self.backbone.verdict_width)
            if distinct.missing:
                start = time.perf_counter()
                missing = [text for text, key in keys.items() if key in distinct.missing]
                asked = [prefix + text for text in missing]
                self._embed_texts(asked, [keys[text] for text in missing], distinct, quiet)
                self.encoded.texts += len(missing)
                self.encoded.text_seconds += time.perf_counter() - start
        all_differ = len(keys) == len(texts)
        return distinct.rows(list(keys.values()) if all_differ else [keys[text] for text in texts], {})

    # ------------------------------------------------------------------ images

    def _image_keys(
        self,
        rows: Sequence[Any],
        skip: Collection[int],
        downloads: Downloads,
        pool: ThreadPoolExecutor,
        fail: Callable[[int, ImageError], None],
    ) -> list[str]:
        """The content key of each row; reads each path and each object once."""
        keys = [""] * len(rows)
        # identity tells objects apart only while they are alive
        held = isinstance(rows, (list, tuple))
        leaders: dict[str | int, int] = {}  # path or identity → its first row
        repeated: list[tuple[int, int]] = []
        errors: dict[int, ImageError] = {}

        def key_of(item: _Unread) -> tuple[_Unread, str | ImageError]:
            try:
                return item, content_key(downloads.local(item.image))
            except ImageError as error:
                return item, error

        with self._bar("Reading images", len(rows)) as advance:

            def unread() -> Iterator[_Unread]:
                waiting: dict[int, str] = {}  # files, about which many questions are asked at once
                for row in range(len(rows)):
                    if row in skip:
                        continue
                    image = rows[row]
                    if type(image) is str:
                        path: str | None = image
                    else:
                        path = os.fsdecode(image) if isinstance(image, (str, os.PathLike)) else None
                    identity = id(image) if held else row
                    leader = leaders.setdefault(identity if path is None else path, row)
                    if leader != row:
                        repeated.append((row, leader))
                    elif path is not None:
                        waiting[row] = path
                        if len(waiting) == FILES_AT_ONCE:
                            yield from unknown(waiting)
                            waiting = {}
                    else:
                        yield from unknown(waiting)
                        waiting = {}
                        yield _Unread(row, image)
                yield from unknown(waiting)

            def unknown(files: dict[int, str]) -> Iterator[_Unread]:
                if not files:
                    return
                paths = list(files.values())
                found, signatures = self._files.look_up(paths, pool.map)
                for place, row in enumerate(files):
                    keys[row] = found[place]
                    if not found[place]:
                        yield _Unread(row, rows[row], paths[place], signatures[place])
                advance(sum(map(bool, found)))

            for item, key in _bounded_map(pool, key_of, unread(), 8 * self.workers):
                advance(1)
                if isinstance(key, ImageError):
                    errors[item.row] = key
                    fail(item.row, key)
                else:
                    keys[item.row] = key
                    if item.signature is not None:
                        self._files.remember(item.path, item.signature, key)
            self._files.store()
        for row, leader in repeated:
            keys[row] = keys[leader]
            if leader in errors:
                fail(row, errors[leader])
        return keys

    def _embed_images(
        self,
        rows: Sequence[Any],
        keys: list[str],
        first: dict[str, int],
        distinct: _Distinct,
        reader: ImageReader | None,
        downloads: Downloads,
        pool: ThreadPoolExecutor,
        fail: Callable[[int, ImageError], None],
    ) -> dict[str, ImageError]:
        """Embed images that no cache had and show the reader those it wants; returns the undecodable ones."""
        broken: dict[str, ImageError] = {}
        missing = frozenset(distinct.missing)
        wanted = frozenset(() if reader is None else reader.wanted(keys))
        todo = [(key, row) for key, row in first.items() if key in missing or key in wanted]

        def decode(item: tuple[str, int]) -> tuple[str, int, Any]:
            key, row = item
            try:
                image, ticket = load_with_ticket(downloads.local(rows[row]), expected_key=key)
            except ImageError as error:
                return key, row, error
            try:
                return key, row, (self.backbone.preprocess(image), None, ticket)
            finally:
                del image  # whoever waits for these pixels needs the memory
                ticket.give_back()

        def measure(item: tuple[str, int]) -> tuple[tuple[str, int], int]:
            try:
                return item, pixels_to_decode(downloads.local(rows[item[1]]))
            except ImageError:  # the download failed, and says so again when it is decoded
                return item, 0

        def decode_and_keep(item: tuple[str, int], ticket: Ticket) -> tuple[str, int, Any]:
            key, row = item
            keep = False
            image: Image.Image | None
            try:
                image = load_counted_image(downloads.local(rows[row]), expected_key=key)
                pixels = self.backbone.preprocess(image) if key in missing else None
                keep = key in wanted
                return key, row, (pixels, image if keep else None, ticket)
            except ImageError as error:
                return key, row, error
            finally:
                if not keep:
                    image = None
                    ticket.give_back()

        batch: dict[str, Any] = {}
        shown: dict[str, tuple[Image.Image, Ticket]] = {}
        maps: dict[str, torch.Tensor] = {}

        def embed() -> None:
            pixels = list(batch.values())
            if wanted and self.backbone.has_feature_map:
                fresh = self.backbone.feature_maps(pixels)
                maps.update({key: own for key, own in zip(batch, fresh, strict=True) if key in wanted})
                write(list(batch), self.backbone.encode_maps(fresh), None)
            else:
                write(list(batch), self.backbone.encode_pixels(pixels), None)
            batch.clear()

        def show() -> None:
            if reader is not None and shown:
                if batch and self.backbone.has_feature_map:
                    embed()  # the reader may ask for regions, which come from the same maps
                self._shown.update(
                    (id(image), _Shown(image, key, self.backbone, maps.get(key)))
                    for key, (image, _) in shown.items()
                )
                try:
                    reader.look({key: image for key, (image, _) in shown.items()})
                finally:
                    self._shown.clear()
                    maps.clear()
            tickets = [ticket for _, ticket in shown.values()]
            shown.clear()
            for ticket in tickets:
                ticket.give_back()

        # Two batches are decoded ahead while the tower works on one, so memory holds three batches of pixels;
        # whole images are larger, and `IN_FLIGHT` counts them until the reader has seen them.
        ahead = 2 * self.image_batch
        results: AbstractContextManager[Iterator[tuple[str, int, Any]]]
        if wanted:
            measured = _bounded_map(pool, measure, todo, 4 * self.workers)
            results = _counted_map(pool, decode_and_keep, measured, min(ahead, SHOWN_AT_ONCE), show)
        else:
            results = closing(_bounded_map(pool, decode, todo, ahead))
        with (
            self._bar("Embedding images", len(todo)) as advance,
            self._writer(distinct) as write,
            results as decoded,
        ):
            for key, row, result in decoded:
                if isinstance(result, ImageError):
                    broken[key] = result
                    fail(row, result)
                else:
                    pixels, image, ticket = result
                    if pixels is not None:
                        batch[key] = pixels
                    if image is not None:
                        shown[key] = image, ticket
                    del image
                del result  # only `shown` keeps whole images
                if len(batch) == self.image_batch:
                    embed()
                if len(shown) == SHOWN_AT_ONCE:
                    show()
                advance(1)
            if batch:
                embed()
            show()
        return broken

    # ----------------------------------------------------------------- regions

    def _regions_of_crops(self, images: Sequence[Image.Image], boxes: Sequence[np.ndarray]) -> np.ndarray:
        rows: list[np.ndarray] = [np.zeros((0, self.backbone.dim), np.float32)]
        waiting: list[Image.Image] = []

        def embed() -> None:
            if waiting:
                embedded = self.images(waiting)
                rows.append(embedded.matrix[embedded.index])
                waiting.clear()

        pixels = 0
        for image, own in zip(images, boxes, strict=True):
            for box in own:
                (crop,) = crops(image, box)
                pixels += crop.width * crop.height
                if pixels > CROPPED_PIXELS:
                    embed()
                    pixels = crop.width * crop.height
                waiting.append(crop)
        embed()
        return np.concatenate(rows)

    def _regions_of_maps(self, images: Sequence[Image.Image], boxes: Sequence[np.ndarray]) -> np.ndarray:
        keys = [
            [_region_key(key, box) for box in np.asarray(own, np.float64)]
            for key, own in zip([self._key_of(image) for image in images], boxes, strict=True)
        ]
        distinct = self._look_up(key for own in keys for key in own)
        # image → its regions that no cache had, each once
        missing = []
        seen: set[str] = set()
        for place, own in enumerate(keys):
            fresh = {key: row for row, key in enumerate(own) if key in distinct.missing and key not in seen}
            seen.update(fresh)
            if fresh:
                missing.append((place, fresh))
        with self._writer(distinct) as write:
            for start in range(0, len(missing), self.image_batch):
                part = missing[start : start + self.image_batch]
                maps = self._maps_of([images[place] for place, _ in part])
                shares = [
                    normalised(boxes[place][list(fresh.values())], images[place].size)
                    for place, fresh in part
                ]
                rows = self.backbone.encode_map_regions(maps, shares)
                write([key for _, fresh in part for key in fresh], rows, None)
        found = distinct.rows([key for own in keys for key in own], {})
        return found.matrix[found.index]

    def _key_of(self, image: Image.Image) -> str:
        shown = self._shown.get(id(image))
        return content_key(image) if shown is None else shown.key

    def _maps_of(self, images: Sequence[Image.Image]) -> torch.Tensor:
        """Feature maps of a batch; those that the image's own embedding came from are not made again."""
        import torch

        maps: list[torch.Tensor | None] = []
        for image in images:
            shown = self._shown.get(id(image))
            maps.append(shown.feature_map if shown and shown.backbone is self.backbone else None)
        without = [place for place, own in enumerate(maps) if own is None]
        if without:
            fresh = self.backbone.feature_maps([self.backbone.preprocess(images[row]) for row in without])
            for place, own in zip(without, fresh, strict=True):
                maps[place] = own
        return torch.stack([own for own in maps if own is not None])

    # ------------------------------------------------------------------- texts

    def _embed_texts(self, texts: list[str], keys: list[str], distinct: _Distinct, quiet: bool) -> None:
        total = 0 if quiet else len(texts)
        with self._bar("Embedding texts", total) as advance, self._writer(distinct) as write:
            # token ids of all texts at once would take more memory than their embeddings
            for slab in range(0, len(texts), TEXT_BATCHES_A_SLAB * self.text_batch):
                here = slice(slab, slab + TEXT_BATCHES_A_SLAB * self.text_batch)
                tokens, names = self.backbone.tokenize(texts[here]), keys[here]
                # texts of like length share a batch, so that there is little padding
                order = sorted(range(len(names)), key=lambda row: len(tokens.ids[row]))
                for start in range(0, len(order), self.text_batch):
                    batch = order[start : start + self.text_batch]
                    rows, verdicts = self.backbone.encode_judged([tokens.ids[row] for row in batch])
                    write([names[row] for row in batch], rows, tokens.truncated[batch], verdicts)
                    advance(len(batch))

    # ------------------------------------------------------------ memory, disk

    def _look_up(self, keys: Iterable[str], verdict: int = 0) -> _Distinct:
        """One place for each key, filled if memory or disk has its embedding and verdict of that length."""
        distinct = _Distinct(keys, self.backbone.dim, verdict)
        for key in [key for key in distinct.place if key in self._memory]:
            self._memory.move_to_end(key)
            distinct.fill(key, self._memory[key])
        if self.cache is not None and distinct.missing:
            self._look_up_on_disk(self.cache, distinct)
        return distinct

    def _look_up_on_disk(self, cache: EmbeddingCache, distinct: _Distinct) -> None:
        asked, places = list(distinct.place), np.arange(len(distinct.place))
        if len(asked) > len(distinct.missing):
            places = np.array([place for key, place in distinct.place.items() if key in distinct.missing])
            asked = [asked[place] for place in places.tolist()]
        remembers = len(asked) <= MEMORY_ENTRIES
        kept: dict[str, np.ndarray] = {}

        def take(found: np.ndarray, records: np.ndarray) -> None:
            distinct.take(places[found], records)
            if remembers:  # copies, because a view would keep its whole group in memory
                kept.update(
                    (asked[row], record.copy()) for row, record in zip(found.tolist(), records, strict=True)
                )

        found = cache.visit(self.fingerprint, distinct.width, asked, take)
        if found.all():
            distinct.missing.clear()
        else:
            distinct.missing.difference_update(asked[row] for row in np.flatnonzero(found).tolist())
        self._remember({key: record for key, record in kept.items() if key not in distinct.missing})

    def _remember(self, records: dict[str, np.ndarray]) -> None:
        for key, record in records.items():
            self._memory[key] = record
        while len(self._memory) > MEMORY_ENTRIES:
            self._memory.popitem(last=False)

    @contextmanager
    def _writer(self, distinct: _Distinct) -> Iterator[Callable[..., None]]:
        """Takes fresh embeddings batch by batch. They reach the disk even if the work is interrupted."""
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

        def write(
            keys: list[str],
            rows: np.ndarray,
            truncated: np.ndarray | None,
            verdicts: np.ndarray | None = None,
        ) -> None:
            flags = np.zeros(len(keys)) if truncated is None else truncated
            told = () if verdicts is None else (verdicts,)
            fresh = np.column_stack([rows, flags, *told]).astype(np.float32)
            bad = ~np.isfinite(fresh).all(axis=1)
            if bad.any():
                half = self.backbone.dtype != "float32"
                advice = ("try ", Setting("dtype", "float32")) if half else ("its weights are damaged",)
                raise CapscoreError(
                    f"{self.backbone.name} gave NaN or infinite embeddings for {int(bad.sum())} of "
                    f"{len(keys)} items in {self.backbone.dtype}; ",
                    *advice,
                )
            # copies, because a view would keep its whole batch in memory
            batch = {key: record.copy() for key, record in zip(keys, fresh, strict=True)}
            for key, record in batch.items():
                distinct.fill(key, record)
            waiting.update(batch)
            self._remember(batch)
            if len(waiting) >= WRITE_EVERY:
                flush()

        try:
            with before_the_end(flush):
                yield write
        finally:
            flush()

    def _bar(self, label: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
        quick = not total or (self.progress is None and total <= 2 * self.text_batch)
        return progress_bar(label, total, shown=False if quick else self.progress)


def _region_key(image_key: str, box: np.ndarray) -> str:
    """The content key of a region: of its image, and of its box in pixels."""
    digest = xxhash.xxh3_128(f"{image_key}|".encode())
    digest.update(np.ascontiguousarray(box, "<f8").tobytes())
    return f"region:{digest.hexdigest()}"


@contextmanager
def _pool(workers: int, downloads: Downloads) -> Iterator[ThreadPoolExecutor]:
    """Threads that read images. After an error nobody waits for a download, or for anything after Ctrl-C."""
    pool = ThreadPoolExecutor(workers, thread_name_prefix="capscore")
    try:
        yield pool
    except BaseException as error:
        downloads.stop()
        pool.shutdown(wait=isinstance(error, Exception), cancel_futures=True)
        raise
    pool.shutdown()


def _bounded_map(
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


@contextmanager
def _counted_map(
    pool: ThreadPoolExecutor,
    work: Callable[[Item, Ticket], Result],
    items: Iterable[tuple[Item, int]],
    ahead: int,
    give_back: Callable[[], None],
) -> Iterator[Iterator[Result]]:
    """`_bounded_map` of work on images, which begins only when their pixels could be taken from `IN_FLIGHT`.

    Args:
        pool: Threads that work.
        work: Function of an item and its ticket.
        items: Items and their numbers of pixels.
        ahead: Largest number of results waiting.
        give_back: Function that gives back the pixels of results that the caller still holds.
    """
    waiting: deque[Future[Result]] = deque()
    tickets: deque[Ticket] = deque()

    def results() -> Iterator[Result]:
        for item, pixels in items:
            # Before this thread waits, it gives back what it holds itself: nobody waits for one who waits.
            while (ticket := IN_FLIGHT.try_take(pixels)) is None and waiting:
                yield waiting.popleft().result()
            if ticket is None:
                give_back()
                ticket = IN_FLIGHT.take(pixels)
            while tickets and tickets[0].given_back:
                tickets.popleft()
            tickets.append(ticket)
            waiting.append(pool.submit(work, item, ticket))
            if len(waiting) >= ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    try:
        yield results()
    finally:
        for future in waiting:
            future.cancel()
        for ticket in tickets:
            ticket.give_back()
