"""Images and texts → embeddings: each distinct one once, in full batches, from the cache if it is there."""

from __future__ import annotations

import copy
import itertools
import logging
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import xxhash

from ..backbones.base import Backbone, fingerprint_of
from ..errors import CapscoreError, ImageError, Setting
from ..files.row_source import LazySequence
from ..images.boxes import crops, normalised
from ..images.load import BLANK, DECODING, content_key
from ..options import check_whole_number
from .cache import EmbeddingCache, stored_in_groups
from .photos import PhotoPipeline, Photos, in_batches

if TYPE_CHECKING:
    import torch
    from numpy.typing import ArrayLike
    from PIL import Image

_LOG = logging.getLogger(__name__)

# records (embedding and flag) that stay in memory between calls: 32 MB at 512 dimensions
MEMORY_ENTRIES = 16_384
# records that are written to disk in one transaction, and read from it together
WRITE_EVERY = 512
READ_AT_ONCE = 8192
# batches of texts that are tokenised and sorted together
TEXT_BATCHES_A_SLAB = 256
# to be raised whenever this library computes other embeddings from the same weights
ENCODING = 1
# decoded images that are shown to an `ImageReader` together
SHOWN_AT_ONCE = 16


@dataclass(frozen=True, eq=False)
class EmbeddedRows:
    """Embeddings of n rows, of which u differ.

    Attributes:
        matrix: float32 (u, d), the distinct embeddings, rows of unit length (as long as the backbone's rows).
        index: int64 (n,), row of `matrix` of each row; −1 where it failed.
        truncated: bool (u,), True where a text was cut to the context length, or an image shows nothing.
        verdicts: float32 (u, 1 + k), what the backbone's gate says of each distinct text, as
            `Backbone.encode_judged` gives it; (u, 0) for images, and for a backbone without a gate.
    """

    matrix: np.ndarray
    index: np.ndarray
    keys: list[str]
    truncated: np.ndarray
    failures: dict[int, ImageError]
    verdicts: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.float32))


class ImageReader(Protocol):
    """What is shown the decoded images themselves, besides their embeddings."""

    def wanted(self, keys: Sequence[str]) -> Collection[str]:
        """The keys of the images it wants to see; `keys` has one per row, "" for a row that failed."""

    def look(self, images: Mapping[str, Image.Image]) -> None:
        """Called with up to `SHOWN_AT_ONCE` decoded images, by key; each wanted image comes once."""


class _Records:
    """Records of the distinct items of one call: an embedding, whether a text was cut, and a verdict."""

    def __init__(self, keys: Iterable[str], dim: int, verdict_width: int = 0):
        self.index = {key: position for position, key in enumerate(dict.fromkeys(keys))}
        self.dim, self.width = dim, dim + 1 + verdict_width
        self.matrix = np.zeros((len(self.index), dim), np.float32)
        self.others = np.zeros((len(self.index), self.width - dim), np.float32)
        self.missing = dict.fromkeys(self.index)

    def fill(self, keys: Sequence[str], records: np.ndarray) -> None:
        """Take the records (m, …) of m distinct keys, which are no longer missing."""
        places = list(map(self.index.__getitem__, keys))
        self.matrix[places], self.others[places] = records[:, : self.dim], records[:, self.dim :]
        if len(keys) == len(self.missing):
            self.missing.clear()
        for key in keys if self.missing else ():
            self.missing.pop(key, None)

    def embedded(self, keys: list[str], failures: dict[int, ImageError]) -> EmbeddedRows:
        matrix, others, index = self.matrix, self.others, self.index
        if self.missing:  # images that could not be decoded have no row
            present = [key for key in self.index if key not in self.missing]
            places = [self.index[key] for key in present]
            matrix, others = matrix[places], others[places]
            index = {key: position for position, key in enumerate(present)}
        positions = np.array([index.get(key, -1) for key in keys], np.int64)
        return EmbeddedRows(matrix, positions, keys, others[:, 0] > 0.5, failures, others[:, 1:])


class Embedder(PhotoPipeline):
    """Embeds rows with one backbone. Several threads may share it; they take turns.

    Args:
        batch_size: Number of images or texts per batch; None takes 4 images per core (8 to 32) and
            `Backbone.text_batch` texts on a CPU, 256 and 512 on a GPU.
    """

    def __init__(self, backbone: Backbone, *, batch_size: int | None = None, **of_pipeline: Any):
        super().__init__(**of_pipeline)
        self.backbone = backbone
        # a CPU is faster with few images at a time: large results of convolutions need new memory pages
        self.image_batch, self.text_batch = 4 * max(2, self.workers), backbone.text_batch
        if not backbone.device.startswith("cpu"):
            self.image_batch, self.text_batch = 256, 512
        if batch_size is not None:
            check_whole_number("batch_size", batch_size, 1, sys.maxsize)
            self.image_batch = self.text_batch = batch_size
        # embeddings depend on how images are decoded and towers are run as much as on the weights
        self.fingerprint = fingerprint_of(backbone.fingerprint, DECODING, ENCODING)
        self._lock = threading.RLock()
        self._memory: OrderedDict[str, np.ndarray] = OrderedDict()
        # identity of an image that a reader looks at → its key, and the backbone and feature map of it if any
        self._shown: dict[int, tuple[str, Backbone, torch.Tensor | None]] = {}

    def of(self, backbone: Backbone) -> Embedder:
        """An embedder of another backbone with the same settings and the same cache on disk."""
        if backbone is self.backbone:
            return self
        other = copy.copy(self)
        other.backbone = backbone
        other.fingerprint = fingerprint_of(backbone.fingerprint, DECODING, ENCODING)
        other._memory = OrderedDict()
        return other

    def __getstate__(self) -> dict[str, object]:
        """State for a copy in another process: without the lock, and without what memory holds."""
        return {**self.__dict__, "_lock": None, "_memory": OrderedDict(), "_shown": {}}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._lock = threading.RLock()

    def images(
        self,
        images: object,
        *,
        on_error: str = "raise",
        skip: Collection[int] = frozenset(),
        reader: ImageReader | None = None,
    ) -> EmbeddedRows:
        """Embed one image per row.

        Args:
            on_error: "raise" an ImageError with the first bad row, or "skip" to list them in `failures`.
            skip: Rows to leave out; their index is −1.
        """
        with self._lock, self.photos(images, on_error=on_error, skip=skip) as photos:
            records = self._look_up(photos.rows)
            self._embed_images(photos, records, reader)
        BLANK.update(itertools.compress(records.index, records.others[:, 0] > 0.5))
        return records.embedded(photos.keys, photos.failures)

    def regions(self, images: Sequence[Image.Image], boxes: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Embed regions of decoded images, each distinct one once, from the cache if it is there.

        A feature map gives all regions of an image from one pass over it, the same as the image's own
        embedding while an `ImageReader` looks at it. Other backbones embed crops.

        Args:
            boxes: n float arrays (k_i, 4) in pixels, as `capscore.images.boxes.check_boxes` returns them.

        Returns:
            n float32 (k_i, d), rows of unit length (as long as the backbone's rows).
        """
        if not images:
            return []
        with self._lock:
            embed = self._regions_of_maps if self.backbone.has_feature_map else self._regions_of_crops
            found = embed(images, boxes)
        return np.split(found.matrix[found.index], np.cumsum([len(listed) for listed in boxes])[:-1])

    def maps(self, images: Sequence[Image.Image]) -> torch.Tensor:
        """Feature maps (n, channels, h, w) of decoded images, from a backbone that has them."""
        import torch

        with self._lock:
            maps: dict[int, torch.Tensor] = {}
            for index, image in enumerate(images):
                _, backbone, known = self._shown.get(id(image), ("", None, None))
                if known is not None and backbone is self.backbone:
                    maps[index] = known
            missing = [index for index in range(len(images)) if index not in maps]
            if missing:
                pixels = [self.backbone.preprocess(images[index]) for index in missing]
                maps.update(zip(missing, self.backbone.feature_maps(pixels), strict=True))
        return torch.stack([maps[index] for index in range(len(images))])

    def texts(self, texts: Sequence[str], *, prefix: str = "", quiet: bool = False) -> EmbeddedRows:
        """Embed one text per row, each with `prefix` before it; with `quiet`, no progress bar is shown."""
        digest = xxhash.xxh3_128_hexdigest
        distinct = dict.fromkeys(texts)
        keys = {text: f"text:{digest((prefix + text).encode('utf-8', 'surrogatepass'))}" for text in distinct}
        with self._lock:
            records = self._look_up(keys.values(), self.backbone.verdict_width)
            missing = [text for text, key in keys.items() if key in records.missing]
            if missing:
                prefixed = [prefix + text for text in missing]
                self._embed_texts(prefixed, [keys[text] for text in missing], records, quiet)
        return records.embedded([keys[text] for text in texts], {})

    def _embed_images(self, photos: Photos, records: _Records, reader: ImageReader | None) -> None:
        """Embed the photos whose records are missing, and show the reader those that it wants."""
        missing, wanted = frozenset(records.missing), frozenset[str]()
        size = self.image_batch
        if reader is not None and (wanted := frozenset(reader.wanted(photos.keys))):
            size = min(SHOWN_AT_ONCE, size)  # whole images take more memory than their pixels for the tower
        keeps_maps = bool(wanted) and self.backbone.has_feature_map

        def prepare(key: str, image: Image.Image) -> tuple[torch.Tensor | None, Image.Image | None]:
            pixels = self.backbone.preprocess(image) if key in missing else None
            return pixels, image if key in wanted else None

        todo = [key for key in photos.rows if key in missing or key in wanted]
        with self.bar("Embedding images", len(todo), size) as advance, self._writer(records) as write:
            # two batches are decoded ahead while the tower works on one
            for batch in in_batches(photos.each(prepare, todo, 2 * size), size):
                fresh = {key: pixels for key, (pixels, _) in batch if pixels is not None}
                maps = self._embed_pixels(fresh, keeps_maps, write)
                shown = {key: image for key, (_, image) in batch if image is not None}
                if reader is not None and shown:
                    self._show(shown, maps, reader)
                advance(len(batch))

    def _embed_pixels(
        self, fresh: Mapping[str, torch.Tensor], keeps_maps: bool, write: Callable[..., object]
    ) -> dict[str, torch.Tensor]:
        """Embed the pixels of photos, by key; gives their feature maps where those are kept."""
        if not fresh:
            return {}
        keys, pixels = [*fresh], [*fresh.values()]
        is_blank = [key in BLANK for key in keys]
        if not keeps_maps:
            write(keys, self.backbone.encode_pixels(pixels), is_blank)
            return {}
        maps = self.backbone.feature_maps(pixels)
        write(keys, self.backbone.encode_maps(maps), is_blank)
        return dict(zip(keys, maps, strict=True))

    def _show(
        self, images: Mapping[str, Image.Image], maps: Mapping[str, torch.Tensor], reader: ImageReader
    ) -> None:
        """Let a reader look at images, whose keys and feature maps are known meanwhile."""
        for key, image in images.items():
            self._shown[id(image)] = key, self.backbone, maps.get(key)
        try:
            reader.look(images)
        finally:
            self._shown.clear()

    def _regions_of_crops(self, images: Sequence[Image.Image], boxes: Sequence[np.ndarray]) -> EmbeddedRows:
        pairs: list[tuple[Image.Image, np.ndarray]] = []
        for image, listed in zip(images, boxes, strict=True):
            pairs += [(image, box) for box in listed]
        # cut out when they are read: all at once could take more memory than the photos
        return self.images(LazySequence(len(pairs), lambda row: crops(*pairs[row])[0]))

    def _regions_of_maps(self, images: Sequence[Image.Image], boxes: Sequence[np.ndarray]) -> EmbeddedRows:
        keys: list[str] = []
        of_image: list[dict[str, np.ndarray]] = []  # each image's regions, by key
        for image, listed in zip(images, boxes, strict=True):
            image_key = self._shown[id(image)][0] if id(image) in self._shown else content_key(image)
            regions = [_region_key(image_key, box) for box in np.asarray(listed, np.float64)]
            keys += regions
            of_image.append(dict(zip(regions, listed, strict=True)))
        records = self._look_up(keys)
        unseen = set(records.missing)
        missing: list[tuple[Image.Image, dict[str, np.ndarray]]] = []  # each region once
        for image, regions_of_it in zip(images, of_image, strict=True):
            fresh = {key: box for key, box in regions_of_it.items() if key in unseen}
            unseen -= fresh.keys()
            if fresh:
                missing.append((image, fresh))
        with self._writer(records) as write:
            for part in in_batches(missing, self.image_batch):
                maps = self.maps([image for image, _ in part])
                shares = [normalised(np.stack([*fresh.values()]), image.size) for image, fresh in part]
                rows = self.backbone.encode_map_regions(maps, shares)
                write([key for _, fresh in part for key in fresh], rows)
        return records.embedded(keys, {})

    def _embed_texts(self, texts: list[str], keys: list[str], records: _Records, quiet: bool) -> None:
        total = 0 if quiet else len(texts)
        with self.bar("Embedding texts", total, self.text_batch) as advance, self._writer(records) as write:
            # token ids of all texts at once would take more memory than their embeddings
            for slab in range(0, len(texts), TEXT_BATCHES_A_SLAB * self.text_batch):
                part = slice(slab, slab + TEXT_BATCHES_A_SLAB * self.text_batch)
                tokens, names = self.backbone.tokenize(texts[part]), keys[part]
                # texts of like length share a batch, so that there is little padding
                order = sorted(range(len(names)), key=lambda row: len(tokens.ids[row]))
                for start in range(0, len(order), self.text_batch):
                    batch = order[start : start + self.text_batch]
                    rows, verdicts = self.backbone.encode_judged([tokens.ids[row] for row in batch])
                    write([names[row] for row in batch], rows, tokens.truncated[batch], verdicts)
                    advance(len(batch))

    def _look_up(self, keys: Iterable[str], verdict_width: int = 0) -> _Records:
        """One record for each distinct key, filled if memory or disk has it."""
        records = _Records(keys, self.backbone.dim, verdict_width)
        known = [key for key in records.missing if key in self._memory]
        for key in known:
            self._memory.move_to_end(key)
        if known:
            records.fill(known, np.stack([self._memory[key] for key in known]))
        if self.cache is not None:
            self._read_from_disk(self.cache, records)
        n_known = len(records.index) - len(records.missing)
        where = self.cache and self.cache.path
        name, total = self.backbone.name, len(records.index)
        _LOG.info("%s: %d of %d embeddings are known; cache: %s", name, n_known, total, where)
        return records

    def _read_from_disk(self, cache: EmbeddingCache, records: _Records) -> None:
        unknown = [*records.missing]
        for part in in_batches(unknown, READ_AT_ONCE):
            keys, rows = cache.get_rows(self.fingerprint, records.width, part)
            if keys and (problem := self._problem(rows)):
                raise CapscoreError(f"{cache.path} has {problem}: `capscore cache clear` empties it")
            records.fill(keys, rows)
            if len(unknown) <= MEMORY_ENTRIES:
                self._remember(keys, rows)

    def _problem(self, rows: np.ndarray) -> str:
        """What is wrong with records of the backbone; "" for nothing."""
        embeddings = rows[:, : self.backbone.dim]
        lengths = np.sqrt(np.einsum("nd,nd->n", embeddings, embeddings))  # not finite where a number is not
        if not (np.isfinite(lengths).all() and np.isfinite(rows[:, self.backbone.dim :]).all()):
            return "NaN or infinite embeddings"
        if not self.backbone.unit_rows:
            return ""
        return "embeddings that are not of unit length" if np.abs(lengths - 1.0).max() > 0.01 else ""

    def _remember(self, keys: Sequence[str], records: np.ndarray) -> dict[str, np.ndarray]:
        """Keep records in memory; gives them by key."""
        # copies, because a view would keep its whole batch in memory
        fresh = dict(zip(keys, map(np.copy, records), strict=True))
        self._memory.update(fresh)
        while len(self._memory) > MEMORY_ENTRIES:
            self._memory.popitem(last=False)
        return fresh

    @contextmanager
    def _writer(self, records: _Records) -> Iterator[Callable[..., object]]:
        """Takes fresh embeddings batch by batch, as `_keep` does; also on disk, even after an interrupt."""
        if self.cache is None:
            yield partial(self._keep, records)
            return
        name = f"{self.backbone.name}@{self.backbone.revision}"
        with stored_in_groups(self.cache, self.fingerprint, WRITE_EVERY, name=name) as store:
            yield lambda *embedded: store(self._keep(records, *embedded))

    def _keep(
        self,
        records: _Records,
        keys: Sequence[str],
        rows: np.ndarray,
        truncated: ArrayLike = 0,
        verdicts: ArrayLike = 0,
    ) -> dict[str, np.ndarray]:
        """Put fresh embeddings into records and memory; gives their records by key."""
        fresh = np.zeros((len(keys), records.width), np.float32)
        fresh[:, : records.dim], fresh[:, records.dim] = rows, truncated
        fresh[:, records.dim + 1 :] = verdicts
        if problem := self._problem(fresh):
            found = f"{self.backbone.name} gave {problem} in {self.backbone.dtype}: try "
            raise CapscoreError(found, Setting("dtype", "float32"), ", or its weights are damaged")
        records.fill(keys, fresh)
        return self._remember(keys, fresh)


def _region_key(image_key: str, box: np.ndarray) -> str:
    digest = xxhash.xxh3_128(f"{image_key}|".encode())
    digest.update(np.ascontiguousarray(box, "<f8").tobytes())
    return f"region:{digest.hexdigest()}"
