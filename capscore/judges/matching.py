"""Models with a head for image–text matching: BLIP and BLIP-2."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import BackboneUnavailable

if TYPE_CHECKING:
    from PIL import Image

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
        text = getattr(self.model.config, "text_config", None) or self.model.config
        return int(getattr(text, "max_position_embeddings", 512))

    def match(self, photos: Iterable[tuple[Image.Image, str]]) -> Iterator[np.ndarray]:
        """Photos with one text each → the logits of "no match" and "match", float32 (2,)."""
        import torch

        rows = iter(photos)
        while batch := list(islice(rows, self.batch_size)):
            inputs = self._inputs(batch).to(self.model.device)
            inputs["pixel_values"] = inputs["pixel_values"].to(self.model.dtype)
            with torch.inference_mode():
                logits = getattr(self.model(**inputs, **{self.head: True}), self.output)
            yield from logits.float().cpu().numpy()

    def _inputs(self, batch: Sequence[tuple[Image.Image, str]]) -> Any:
        images, texts = zip(*batch, strict=True)
        # a special token in a caption is text: a blank inside it keeps it so
        plain = [self._special.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text) for text in texts]
        options = {
            "padding": True,
            "padding_side": "right",
            "truncation": True,
            "max_length": self.max_tokens,
        }
        return self.processor(images=[*images], text=plain, return_tensors="pt", **options)
