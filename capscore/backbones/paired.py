"""Joins the text tower of one checkpoint with the image tower of another backbone.

In: a `TextTower` and a backbone or its name. Out: a `Backbone`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from ..errors import CapscoreError, Setting
from .base import (
    Backbone,
    LoadOptions,
    Tokens,
    TrainableBackbone,
    architecture_digest,
    fingerprint_of,
    pad_batch,
    unit_rows,
    weights_digest,
)
from .registry import find
from .transformers_tokenizer import pad_id_of, piece_spans, tokenize_texts

if TYPE_CHECKING:
    from PIL import Image


class TextTower(nn.Module):
    """A text tower that reads masked batches, so that padding does not change an embedding.

    Attributes:
        tokenizer: Tokenizer of transformers.
        dim: Length of an embedding.
        max_tokens: Context length, special tokens included.
    """

    tokenizer: Any
    dim: int
    max_tokens: int

    @abstractmethod
    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """int64 (n, L) ids and mask (1 token, 0 padding) → (n, dim), not normalised."""

    @property
    @abstractmethod
    def config(self) -> Any:
        """Config of the tower's transformers encoder."""

    def tokenize(self, texts: Sequence[str]) -> Tokens:
        """Texts → ids without padding, at most `max_tokens` each, and whether each text was cut."""
        return tokenize_texts(self.tokenizer, texts, self.max_tokens)

    def piece_spans(self, texts: Sequence[str]) -> list[list[tuple[int, int, int]]]:
        """Texts → id, start and end of each piece; see `Backbone.piece_spans`."""
        return piece_spans(self.tokenizer, texts)


class PairedBackbone(TrainableBackbone):
    """A `TextTower` with the image tower of another backbone.

    Its `revision` names the weights of both towers, "text+image", since a score depends on both. If the image
    tower is not the one that the text tower was made for, its name is also part of `name`.

    Attributes:
        image_name: Name of the image tower's backbone.
        image_tower: Spec of the image tower for `load_backbone`; "" for the one that the text tower was made
            for, and if a backbone was given.
        as_made: Whether the image tower is the one that the text tower was made for.

    Args:
        text: Text tower, in float32.
        options: Options of the backbone; the languages are the text tower's.
        settings: Digest of the files that say how the text tower is used.
        made_for: Image tower that the text tower was made for, used if the options name none; "" if not
            known.
        logit_scale: Factor on cosines; None for the image tower's.

    Raises:
        CapscoreError: there is no image tower, or the two towers do not share one space.
        BackboneUnavailable: the image tower is not available.
    """

    def __init__(
        self,
        text: TextTower,
        options: LoadOptions,
        *,
        settings: str,
        made_for: str = "",
        logit_scale: float | None = None,
    ):
        name, device, dtype = options.name, options.device, options.dtype
        image_tower = options.image_tower or made_for
        if not image_tower:
            raise CapscoreError(
                f"{name} is a text tower only; name an image tower for it (its embeddings have {text.dim} "
                "numbers), such as ",
                Setting("image_tower", "ViT-B-32-quickgelu/openai"),
            )
        # Trusting the text tower's code does not mean trusting that of an image tower that it names.
        image = (
            image_tower
            if isinstance(image_tower, Backbone)
            else options.load_backbone(image_tower, device=device, dtype=dtype, trust_remote_code=False)
        )
        if text.dim != image.dim:
            raise CapscoreError(
                f"the towers do not share one space: {name} has {text.dim} numbers per text, "
                f"{image.name} has {image.dim} per image"
            )
        spec = image_tower if isinstance(image_tower, str) else ""
        self.as_made = bool(spec) and _official(spec) == _official(made_for)
        self.image_name, self.image_tower = image.name, "" if self.as_made else spec
        self.name = name if self.as_made else f"{name}+{image.name}"
        self.dim, self.prefix, self.languages = text.dim, options.prefix, options.languages
        self.max_tokens = text.max_tokens
        self.logit_scale = image.logit_scale if logit_scale is None else logit_scale
        self.w, self.has_feature_map = image.w, image.has_feature_map
        self.device, self.dtype = device, dtype
        self._image, self._text, self._settings = image, text, settings
        self._identify(options.revision)
        self._pad_id = pad_id_of(text.tokenizer)
        self._text = text.to(device=device, dtype=getattr(torch, dtype)).eval().requires_grad_(False)

    def _identify(self, revision: str) -> None:
        digest = fingerprint_of(weights_digest(self._text), self._settings)
        self.revision = f"{revision or 'w' + digest[:8]}+{self._image.revision}"
        self.fingerprint = fingerprint_of(
            "paired",
            digest,
            architecture_digest(self._text),
            self.dtype,
            self.max_tokens,
            self._image.fingerprint,
        )

    def preprocess(self, image: Image.Image) -> torch.Tensor:
        return self._image.preprocess(image)

    def encode_pixels(self, pixels: Sequence[torch.Tensor]) -> np.ndarray:
        return self._image.encode_pixels(pixels)

    def feature_maps(self, pixels: Sequence[torch.Tensor]) -> torch.Tensor:
        return self._image.feature_maps(pixels)

    def encode_maps(self, maps: torch.Tensor) -> np.ndarray:
        return self._image.encode_maps(maps)

    def encode_map_regions(self, maps: torch.Tensor, boxes: Sequence[np.ndarray]) -> np.ndarray:
        return self._image.encode_map_regions(maps, boxes)

    def tokenize(self, texts: Sequence[str]) -> Tokens:
        return self._text.tokenize(texts)

    def piece_spans(self, texts: Sequence[str]) -> list[list[tuple[int, int, int]]]:
        return self._text.piece_spans(texts)

    def network(self) -> nn.Module:
        raise CapscoreError(
            f"the image tower of {self.name!r} is that of another backbone, {self.image_name!r}: "
            f"fine-tune the "
            "text tower alone"
        )

    def text_network(self) -> TextTower:
        return self._text

    def text_settings(self) -> tuple[Any, ...]:
        return self._text.config, self._text.tokenizer

    def embed_tokens(self, ids: Sequence[Sequence[int]]) -> torch.Tensor:
        if not len(ids):
            return torch.zeros(0, self.dim, device=self.device)
        tokens, mask = pad_batch(ids, self._pad_id)
        return unit_rows(self._text(tokens.to(self.device), mask.to(self.device)))


def registered_image_tower(name: str) -> str:
    """The image tower that the registry names for a text tower; "" if it names none."""
    known = find(name)
    return known.image_tower if known else ""


def _official(spec: str) -> str:
    known = find(spec)
    return known.name if known else spec
