"""Models with a head for image–text matching: BLIP and BLIP-2."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..errors import BackboneUnavailable, CapscoreError, InputError, Setting

if TYPE_CHECKING:
    from PIL import Image

    from .prompts import Prompt

Photo = TypeVar("Photo")
# Class of transformers → argument that asks for the head, and output that has it: (rows, 2), match last
MATCHERS = {
    "BlipForImageTextRetrieval": ("use_itm_head", "itm_score"),
    "Blip2ForImageTextRetrieval": ("use_image_text_matching_head", "logits_per_image"),
}


class Matcher:
    """A model whose head says whether photo and text belong together.

    Args:
        model: A model of one of the classes in `MATCHERS`, in eval mode.
        processor: Its processor.
        name, revision, batch_size: As in `JudgeModel`.
    """

    def __init__(
        self, model: Any, processor: Any, name: str, revision: str, *, batch_size: int | None = None
    ):
        self.model, self.processor, self.name, self.revision = model, processor, name, revision
        self.batch_size = batch_size or (8 if model.device.type == "cpu" else 64)
        self.head, self.output = MATCHERS[type(model).__name__]
        if getattr(processor, "image_processor", None) is None:
            raise BackboneUnavailable(f"{name} has no image processor: a judge looks at photos")
        special = sorted(processor.tokenizer.all_special_tokens, key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, special)))

    @property
    def dtype(self) -> str:
        """Number format of the weights."""
        return str(self.model.dtype).removeprefix("torch.")

    @property
    def device(self) -> str:
        """Device of the weights."""
        return str(self.model.device)

    @property
    def max_tokens(self) -> int:
        """Number of tokens of a caption that the model reads."""
        config = self.model.config
        return int(getattr(config, "qformer_config", config.text_config).max_position_embeddings)

    def check_lengths(self, prompts: Mapping[int, Prompt]) -> dict[int, InputError]:
        """Rows whose caption is too long to be read → the error."""
        problems = {}
        for row, prompt in prompts.items():
            n = len(self.processor.tokenizer(self._plain(prompt.data["caption"]))["input_ids"])
            if n > self.max_tokens:
                given = f"it has {n:,} tokens; {self.name} reads at most {self.max_tokens:,}"
                problems[row] = InputError(given, field="candidate")
        return problems

    def prepare(self, image: Image.Image, prompts: Sequence[Prompt]) -> tuple[Image.Image, list[str]]:
        """A photo and its captions, for `read`."""
        return image, [prompt.data["caption"] for prompt in prompts]

    def read(
        self, photos: Iterable[tuple[Image.Image, list[str]]], reading: None = None
    ) -> Iterator[list[np.ndarray]]:
        """For each photo, and each of its captions, float32 (2,): the log-odds of a match, and 1."""
        for batch in batched_photos(photos, self.batch_size, lambda photo: len(photo[1])):
            rows = [(number, text) for number, (_, texts) in enumerate(batch) for text in texts]
            found: list[list[np.ndarray]] = [[] for _ in batch]
            for start in range(0, len(rows), self.batch_size):
                owners, texts = zip(*rows[start : start + self.batch_size], strict=True)
                images = [image for image, _ in batch[owners[0] : owners[-1] + 1]]
                logits = self._logits(images, texts, [owner - owners[0] for owner in owners])
                for owner, (other, match) in zip(owners, logits, strict=True):
                    found[owner].append(np.array([match - other, 1.0], np.float32))
            yield from found

    def _logits(self, images: list[Any], texts: Sequence[str], owners: Sequence[int]) -> np.ndarray:
        """float32 logits (rows, 2) of "no match" and "match"; each photo is encoded once."""
        import torch

        def repeat(_: Any, __: Any, output: Any) -> Any:
            output.last_hidden_state = output.last_hidden_state[owners]
            return output

        inputs = self._inputs(images, texts).to(self.model.device)
        inputs["pixel_values"] = inputs["pixel_values"].to(self.model.dtype)
        hook = self.model.vision_model.register_forward_hook(repeat)
        try:
            # BLIP makes a mask on the default device
            with torch.inference_mode(), self.model.device, clear_errors(self):
                return getattr(self.model(**inputs, **{self.head: True}), self.output).float().cpu().numpy()
        finally:
            hook.remove()

    def _inputs(self, images: list[Any], texts: Sequence[str]) -> Any:
        options = {"padding": True, "padding_side": "right", "truncation": False, "return_tensors": "pt"}
        return self.processor(images=images, text=[*map(self._plain, texts)], **options)

    def _plain(self, text: str) -> str:
        """A text in which special tokens are text: a blank inside each keeps it so."""
        return self._special.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)


@contextmanager
def clear_errors(judge: Any) -> Iterator[None]:
    """Make an error about memory one that names the options that need less, and one about tokens clear."""
    import torch

    try:
        yield
    except IndexError as error:
        raise BackboneUnavailable(f"the tokenizer of {judge.name} has tokens that the model lacks") from error
    except RuntimeError as error:
        if not isinstance(error, torch.cuda.OutOfMemoryError) and "can't allocate memory" not in str(error):
            raise
        torch.cuda.empty_cache()
        smaller = Setting("batch_size", max(1, judge.batch_size // 2))
        tried = f"{judge.name} needs more memory than {judge.device} has: try "
        more = (" or ", Setting("dtype", "bfloat16")) if judge.dtype == "float32" else ()
        raise CapscoreError(tried, smaller, ", a lower ", Setting("max_pixels"), *more) from error


def batched_photos(
    photos: Iterable[Photo], batch_size: int, n_rows: Callable[[Photo], int]
) -> Iterator[list[Photo]]:
    """Photos in turn that have `batch_size` rows together, or a few more."""
    waiting: list[Photo] = []
    for photo in photos:
        waiting.append(photo)
        if sum(map(n_rows, waiting)) >= batch_size:
            yield waiting
            waiting = []
    if waiting:
        yield waiting
