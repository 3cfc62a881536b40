"""Asks a judge about the photos of rows: each distinct question once, from the cache if it is there."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash

from ..embedding.cache import EmbeddingCache, stored_in_groups
from ..errors import CapscoreError, ImageError, Setting
from ..files.console import progress_bar
from ..images.fetch import Downloads
from ..images.load import check_images, load_image
from ..images.many import bounded_map, image_keys, reading_pool
from .prompts import Prompt

if TYPE_CHECKING:
    from PIL import Image

    from .matching import Matcher
    from .model import JudgeModel

# What `prepare` of a model made of photos and their prompts → for each photo, the numbers of its prompts
Ask = Callable[[Iterable[Any]], Iterator[Sequence[np.ndarray]]]
WRITE_EVERY = 64  # answers that are written to disk together: each takes long
WORKERS = min(8, os.cpu_count() or 1)
MAX_RATIO = 150  # of a photo's sides: processors of Qwen refuse 200
_LOCK = threading.RLock()  # models keep what they counted of a photo until the next pass


class Asker:
    """Asks one model about photos.

    Args:
        model: Model to ask.
        cache: Answers on disk, or None to keep none.
        allow_urls, allow_private_urls, progress: As in `capscore.load`.
    """

    def __init__(
        self,
        model: JudgeModel | Matcher,
        *,
        cache: EmbeddingCache | None = None,
        allow_urls: bool = False,
        allow_private_urls: bool = False,
        progress: bool | None = None,
    ):
        self.model, self.cache, self.progress = model, cache, progress
        self.allow_urls, self.allow_private_urls = allow_urls, allow_private_urls

    def ask(
        self,
        images: Any,
        prompts: Mapping[int, Prompt],
        ask: Ask,
        width: int,
        fingerprint: str,
        *,
        max_pixels: int = 0,
        on_error: str = "raise",
    ) -> tuple[np.ndarray, list[str], dict[int, ImageError]]:
        """Numbers of n rows.

        Args:
            images: n images, as `capscore.images.load.check_images` accepts them.
            prompts: Row → what is asked about its photo; other rows are left out.
            ask: What gives the numbers.
            width: How many numbers a prompt has.
            fingerprint: Digest of everything that a number depends on besides photo and prompt.
            max_pixels: Number of pixels to which larger photos are made smaller; 0 for no limit.
            on_error: "raise", or "skip" to give back what is wrong with an image.

        Returns:
            float32 (n, width), NaN for rows that were not asked; the content key of each row's image, ""
            where it failed; and row → error.
        """
        rows = check_images(images)
        numbers = np.full((len(rows), width), np.nan, np.float32)
        failures: dict[int, ImageError] = {}

        def fail(row: int, error: ImageError) -> None:
            failures[row] = error.at(row, "image")
            if on_error == "raise":
                raise failures[row] from error

        skip = {*range(len(rows))} - {*prompts}
        with (
            _LOCK,
            Downloads(self.allow_urls, self.allow_private_urls) as downloads,
            reading_pool(WORKERS, downloads) as pool,
        ):
            keys = image_keys(rows, skip, downloads, pool, fail)
            named = {row: answer_key(keys[row], prompt) for row, prompt in prompts.items() if keys[row]}
            known = dict(self.cache.get(fingerprint, width, [*named.values()])) if self.cache else {}
            photos = _by_photo(keys, named, known)

            def prepare(key: str) -> tuple[str, Any]:
                source = rows[photos[key][0]]
                try:
                    image = _sized(load_image(downloads.local(source), expected_key=key), max_pixels)
                except ImageError as error:
                    return key, error
                return key, self.model.prepare(image, [prompts[row] for row in photos[key]])

            asked: list[str] = []  # photos in the order in which they are asked about

            def readable(prepared: Iterable[tuple[str, Any]]) -> Iterator[Any]:
                for key, photo in prepared:
                    if isinstance(photo, ImageError):
                        for row in named:
                            if keys[row] == key:
                                fail(row, photo)
                        continue
                    asked.append(key)
                    yield photo

            n_asked = sum(map(len, photos.values()))
            ahead = max(WORKERS, self.model.batch_size)  # the next batch is ready when the model is
            shown = self.progress if n_asked else False
            name = f"{self.model.name}@{self.model.revision}"
            with (
                closing(bounded_map(pool, prepare, photos, ahead)) as prepared,
                progress_bar("Asking the judge", n_asked, shown=shown) as advance,
                stored_in_groups(self.cache, fingerprint, WRITE_EVERY, name=name) as store,
            ):
                for number, answers in enumerate(ask(readable(prepared))):
                    owners = photos[asked[number]]
                    fresh = {named[row]: answer for row, answer in zip(owners, answers, strict=True)}
                    if not np.isfinite([*fresh.values()]).all():
                        raise CapscoreError(
                            f"{self.model.name} answered with NaN in {self.model.dtype}: try ",
                            Setting("dtype", "float32"),
                        )
                    known.update(fresh)
                    store(fresh)
                    advance(len(owners))
        for row, name in named.items():
            if name in known:
                numbers[row] = known[name]
        return numbers, ["" if row in failures else key for row, key in enumerate(keys)], failures

    def texts(self, images: Any, prompts: Mapping[int, Prompt], max_pixels: int = 0) -> dict[int, str]:
        """What the model says to a prompt about each photo, by row; the images were read before."""
        rows = check_images(images)
        with _LOCK, Downloads(self.allow_urls, self.allow_private_urls) as downloads:
            photos = (
                (_sized(load_image(downloads.local(rows[row])), max_pixels), prompt)
                for row, prompt in prompts.items()
            )
            with progress_bar("Asking for reasons", len(prompts), shown=self.progress) as advance:
                found = {}
                for row, text in zip(prompts, self.model.generate(photos), strict=True):  # type: ignore[union-attr]
                    found[row] = text
                    advance(1)
        return found


def _by_photo(keys: Sequence[str], named: Mapping[int, str], known: Collection[str]) -> dict[str, list[int]]:
    """Photo → its rows whose answers are not known, one row for each distinct question."""
    photos: dict[str, dict[str, int]] = {}
    for row, name in named.items():
        if name not in known:
            photos.setdefault(keys[row], {}).setdefault(name, row)
    return {key: [*rows.values()] for key, rows in photos.items()}


def answer_key(image_key: str, prompt: Prompt) -> str:
    """The key of an answer: of the photo, and of all text."""
    return f"{image_key}:{xxhash.xxh3_128_hexdigest(json.dumps([prompt.turns, prompt.data]).encode())}"


def _sized(image: Image.Image, max_pixels: int) -> Image.Image:
    """A photo with at most so many pixels, smaller if need be."""
    from PIL import Image as Pillow

    width, height = image.size
    if max(width, height) > MAX_RATIO * min(width, height):
        raise ImageError(f"{width} × {height} pixels; a judge looks at photos of at most {MAX_RATIO} to 1")
    if not max_pixels or width * height <= max_pixels:
        return image
    share = (max_pixels / (width * height)) ** 0.5
    size = (max(1, int(width * share)), max(1, int(height * share)))
    return image.resize(size, Pillow.Resampling.BICUBIC)
