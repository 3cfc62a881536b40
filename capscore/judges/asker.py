"""Asks a judge about the photos of rows: each distinct question once, from the cache if it is there."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import xxhash

from ..embedding.cache import EmbeddingCache, stored_in_groups
from ..embedding.photos import PhotoPipeline, Photos, in_batches, in_turn
from ..errors import CapscoreError, ImageError, InputError, Setting
from .base import PhotoModel, TooLong
from .prompts import Prompt
from .readings import Reading

if TYPE_CHECKING:
    from PIL import Image

Result = TypeVar("Result")
WRITE_EVERY = 64  # answers that are written to disk together: each takes long
_TEXTS = "texts"  # questions without a photo: keys of photos are hexadecimal
_TEXT_DIM = 2048  # numbers of a text in the cache, three bytes each
MAX_RATIO = 150  # of a photo's sides: processors of Qwen refuse 200
_LOCK = threading.RLock()  # models keep what they counted of a photo until the next pass


class Answers(NamedTuple):
    """What a judge answered.

    Attributes:
        numbers: float32 (questions, d), by the model's `value_names`: what the reading made of each answer,
            the probability of an answer in the asked way, …; NaN for a question that failed.
        keys: Content key of each row's photo; "" where it failed or was not asked about.
        failures: Row → what was wrong with its photo, or with the length of photo and question together.
    """

    numbers: np.ndarray
    keys: list[str]
    failures: dict[int, InputError]


class Asker(PhotoPipeline):
    """Asks one model about photos."""

    def __init__(
        self,
        model: PhotoModel[Any],
        *,
        cache: EmbeddingCache | None = None,
        allow_urls: bool = False,
        allow_private_urls: bool = False,
        progress: bool | None = None,
    ):
        super().__init__(
            cache=cache, allow_urls=allow_urls, allow_private_urls=allow_private_urls, progress=progress
        )
        self.model = model
        if model.waits:
            self.workers = model.batch_size

    def ask(
        self,
        images: Sequence[object],
        questions: Sequence[tuple[int, Prompt]],
        reading: Reading,
        *,
        fingerprint: str,
        max_pixels: int = 0,
        on_error: str = "raise",
    ) -> Answers:
        """Ask questions about the photos of n rows."""
        skip = {*range(len(images))} - {row for row, _ in questions}
        d = len(self.model.value_names)
        with _LOCK, self.photos(images, on_error=on_error, skip=skip) as photos:
            names = [answer_key(photos.keys[row], prompt) for row, prompt in questions]
            answers: dict[str, np.ndarray] = {}
            if self.cache is not None:
                answers.update(self.cache.get(fingerprint, d, names))
            # photo → its distinct questions that were not answered yet, by name; those about text alone
            todo: dict[str, dict[str, Prompt]] = {}
            texts: dict[str, Prompt] = {}
            for name, (row, prompt) in zip(names, questions, strict=True):
                if not photos.keys[row] or name in answers:
                    continue
                if prompt.has_photo:
                    todo.setdefault(photos.keys[row], {})[name] = prompt
                else:
                    texts[name] = prompt
            for number, some in enumerate(in_batches(texts.items(), self.model.batch_size)):
                todo[f"{_TEXTS} {number}"] = dict(some)
            too_long = self._answer(photos, todo, reading, answers, fingerprint, max_pixels)
            self.find_blank(photos)
            failures: dict[int, InputError] = {}
            for name, (row, _) in zip(names, questions, strict=True):
                if name in too_long:
                    failures[row] = too_long[name].at(row)
                    if on_error == "raise":
                        raise failures[row]
        unknown = np.full(d, np.nan, np.float32)
        numbers = np.array([answers.get(name, unknown) for name in names], np.float32)
        return Answers(numbers.reshape(-1, d), photos.keys, failures | photos.failures)

    def _answer(
        self,
        photos: Photos,
        todo: Mapping[str, dict[str, Prompt]],
        reading: Reading,
        answers: dict[str, np.ndarray],
        fingerprint: str,
        max_pixels: int,
    ) -> dict[str, InputError]:
        """Ask all that is left to do, in batches, and add the answers to those that are known.

        Returns the names of questions that are too long with their photo, and the error of each.
        """
        too_long: dict[str, InputError] = {}

        def prepare(key: str, image: Image.Image | None = None) -> Any:
            if image is not None:
                image = _sized(image, max_pixels)
            try:
                photo = self.model.prepare(image, [*todo[key].values()])
            except TooLong as error:
                names = [*todo[key]]
                for index, problem in error.problems.items():
                    too_long[names[index]] = problem
                    del todo[key][names[index]]
                if not todo[key]:
                    return None
                photo = self.model.prepare(image, [*todo[key].values()])
            if self.model.waits:
                self.model.read([photo], reading)
            return photo

        model, size = self.model, self.model.batch_size
        ahead = 4 * size if model.waits else max(self.workers, size)  # the next batch is ready in time
        of_texts = [key for key in todo if key.startswith(_TEXTS)]
        of_photos = [key for key in todo if not key.startswith(_TEXTS)]
        prepared = chain(photos.each(prepare, of_photos, ahead), self._each(prepare, of_texts))
        name = f"{model.name}@{model.revision}"
        with (
            model.asking(),
            self.bar("Asking the judge", sum(map(len, todo.values()))) as advance,
            stored_in_groups(self.cache, fingerprint, WRITE_EVERY, name=name) as store,
        ):
            for batch in in_batches(prepared, size, lambda item: len(todo[item[0]])):
                fitting = [(key, photo) for key, photo in batch if photo is not None]
                read = model.read([photo for _, photo in fitting], reading)
                for (key, photo), numbers in zip(fitting, read, strict=True):
                    problems, fresh = model.problems(photo), dict[str, np.ndarray]()
                    for index, (question, row) in enumerate(zip(todo[key], numbers, strict=True)):
                        if index in problems:
                            too_long[question] = problems[index]
                        else:
                            fresh[question] = row
                    if not np.isfinite([*fresh.values()]).all():
                        answered = f"{model.name} answered with NaN in {model.dtype}: "
                        if model.dtype == "float32":
                            raise CapscoreError(f"{answered}its weights are damaged")
                        raise CapscoreError(answered, "try ", Setting("dtype", "float32"))
                    answers.update(fresh)
                    store(fresh)
                    advance(len(numbers))
        return too_long

    def _each(self, work: Callable[[str], Result], keys: Iterable[str]) -> Iterator[tuple[str, Result]]:
        """Keys in order with what is made of each, by several threads where the model waits."""
        size = 1
        if self.model.waits:
            size = self.workers
        with ThreadPoolExecutor(size, thread_name_prefix="capscore") as pool:
            yield from in_turn(pool, lambda key: (key, work(key)), keys, size)

    def written(self, prompts: Mapping[str, Prompt], fingerprint: str, max_new_tokens: int) -> dict[str, str]:
        """What the model writes in answer to prompts without a photo, by their names; "" where it refuses.

        Args:
            prompts: Name → prompt.
            fingerprint: Digest of everything that an answer depends on besides the prompt.
            max_new_tokens: Number of tokens after which an answer is cut off.
        """
        names = {answer_key("", prompt): name for name, prompt in prompts.items()}
        stored: dict[str, np.ndarray] = {}
        if self.cache is not None:
            stored = self.cache.get(fingerprint, _TEXT_DIM, [*names])
        found = {names[key]: unpacked_text(vector) for key, vector in stored.items()}
        todo = [key for key in names if key not in stored]

        def said(key: str) -> str | None:
            try:
                return self.model.generate(None, prompts[names[key]], max_new_tokens)
            except (InputError, TooLong):  # a server refuses this question, and may answer others
                return None

        label = f"{self.model.name}@{self.model.revision}"
        with (
            _LOCK,
            self.model.asking(),
            self.bar("Listing claims", len(todo)) as advance,
            stored_in_groups(self.cache, fingerprint, WRITE_EVERY, name=label) as store,
        ):
            for key, text in self._each(said, todo):
                found[names[key]] = text or ""
                if text is not None:
                    store({key: packed_text(text)})
                advance(1)
        return found

    def texts(
        self, images: Sequence[object], prompts: Mapping[int, Prompt], max_pixels: int = 0
    ) -> dict[int, str]:
        """What the model says to a prompt about each photo, by row; the images were read before.

        For a prompt that is too long with its photo, or that a server refuses, that is said instead.
        """
        found: dict[int, str] = {}

        def said(key: str, image: Image.Image) -> None:
            for row in rows_of[key]:
                try:
                    found[row] = self.model.generate(image, prompts[row])
                except TooLong as error:
                    found[row] = str(error.problems[0])
                except InputError as error:  # a server refuses this question, and may answer others
                    found[row] = error.message
                advance(1)

        def sized(key: str, image: Image.Image) -> Image.Image:
            image = _sized(image, max_pixels)
            if self.model.waits:
                said(key, image)
            return image

        with _LOCK, self.photos(images, skip={*range(len(images))} - {*prompts}) as photos:
            rows_of = photos.rows_by_key()
            with self.model.asking(), self.bar("Asking for reasons", len(prompts)) as advance:
                for key, image in photos.each(sized, ahead=self.workers):
                    if not self.model.waits:
                        said(key, image)
        return found


def answer_key(image_key: str, prompt: Prompt) -> str:
    """The key of an answer: of the photo, if there is one, and of all text."""
    if not prompt.has_photo:
        image_key = ""
    return f"{image_key}:{xxhash.xxh3_128_hexdigest(json.dumps([prompt.turns, prompt.data]).encode())}"


def packed_text(text: str) -> np.ndarray:
    """A text as a row of the cache, float32 (d,): three bytes of UTF-8 per number; its end is cut off."""
    data = text.encode("utf-8", "replace")[: 3 * _TEXT_DIM].ljust(3 * _TEXT_DIM, b"\0")
    return np.frombuffer(data, np.uint8).reshape(-1, 3) @ np.array([65536, 256, 1], np.float32)


def unpacked_text(vector: np.ndarray) -> str:
    numbers = vector.astype(np.int64)
    data = np.stack([numbers >> 16, numbers >> 8 & 255, numbers & 255], axis=1).astype(np.uint8)
    return data.tobytes().rstrip(b"\0").decode("utf-8", "ignore")


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
