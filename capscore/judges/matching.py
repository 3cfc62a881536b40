"""Models with a head for image–text matching: BLIP and BLIP-2."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..embedding.photos import in_batches
from ..errors import InputError, Part, Setting
from .base import LocalModel, clear_errors
from .prompts import Prompt
from .readings import Reading

if TYPE_CHECKING:
    from PIL import Image

# Class of transformers → argument that asks for the head, and output that has it: (rows, 2), match last
MATCHERS = {
    "BlipForImageTextRetrieval": ("use_itm_head", "itm_score"),
    "Blip2ForImageTextRetrieval": ("use_image_text_matching_head", "logits_per_image"),
}


MatchRows = tuple["Image.Image", list[str]]  # a photo and its captions


class Matcher(LocalModel[MatchRows]):
    """A model whose head says whether photo and text belong together."""

    gpu_batch = 64
    refused_options = ("question", "instruction", "answers", "explain")

    @property
    def max_tokens(self) -> int:
        """Number of tokens of a caption that the model reads."""
        config = self.model.config
        return int(getattr(config, "qformer_config", config.text_config).max_position_embeddings)

    def fits(self, reading: Reading) -> bool:
        return reading.reads_heads

    def limits(self) -> tuple[Part, ...]:
        only = f": {self.name} has only a head for matching, which takes "
        return only, Setting("reading", "match"), " and no words"

    def check_lengths(self, questions: Sequence[tuple[int, Prompt]]) -> dict[int, InputError]:
        problems = {}
        for row, prompt in questions:
            n = len(self.processor.tokenizer(self._plain(prompt.data["caption"]))["input_ids"])
            if n > self.max_tokens:
                given = f"it has {n:,} tokens; {self.name} reads at most {self.max_tokens:,}"
                problems[row] = InputError(given, field="candidate")
        return problems

    def prepare(self, image: Image.Image | None, prompts: Sequence[Prompt]) -> MatchRows:
        assert image is not None, "a head for matching is asked about photos alone"
        return image, [prompt.data["caption"] for prompt in prompts]

    def read(self, photos: Sequence[MatchRows], reading: Reading) -> list[np.ndarray]:
        """The log-odds of a match, and 1, whatever the reading."""
        rows: list[tuple[int, int]] = []  # photo, and the index of one of its captions
        for number, (_, texts) in enumerate(photos):
            rows += [(number, index) for index in range(len(texts))]
        found = [np.ones((len(texts), 2), np.float32) for _, texts in photos]
        for batch in in_batches(rows, self.batch_size):
            first = batch[0][0]
            images = [image for image, _ in photos[first : batch[-1][0] + 1]]
            texts = [photos[number][1][index] for number, index in batch]
            logits = self._logits(images, texts, [number - first for number, _ in batch])
            for (number, index), (other, match) in zip(batch, logits, strict=True):
                found[number][index, 0] = match - other
        return found

    def _logits(
        self, images: Sequence[Image.Image], texts: Sequence[str], owners: Sequence[int]
    ) -> np.ndarray:
        """float32 logits (rows, 2) of "no match" and "match"; each photo is encoded once."""
        import torch

        def repeat(module: object, given: object, output: Any) -> Any:
            output.last_hidden_state = output.last_hidden_state[owners]
            return output

        options = {"padding": True, "padding_side": "right", "truncation": False, "return_tensors": "pt"}
        head, logits = MATCHERS[type(self.model).__name__]
        made = self.processor(images=images, text=[*map(self._plain, texts)], **options)
        inputs = made.to(self.model.device)
        inputs["pixel_values"] = inputs["pixel_values"].to(self.model.dtype)
        hook = self.model.get_submodule("vision_model").register_forward_hook(repeat)
        try:
            # BLIP makes a mask on the default device
            with torch.inference_mode(), self.model.device, clear_errors(self):
                return getattr(self.model(**inputs, **{head: True}), logits).float().cpu().numpy()
        finally:
            hook.remove()

    @cached_property
    def _special(self) -> re.Pattern[str]:
        """Any special token; the longest that fits is found first."""
        tokens = sorted(self.processor.tokenizer.all_special_tokens, key=len, reverse=True)
        return re.compile("|".join(map(re.escape, tokens)))

    def _plain(self, text: str) -> str:
        """A text in which special tokens are text: a blank inside each keeps it so."""
        return self._special.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)
