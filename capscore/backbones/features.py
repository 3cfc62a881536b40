"""A backbone as some networks read it: rows as long as its towers give them, captions cut at fewer tokens.

In: a `Backbone`. Out: another one with the same towers, for an `Embedder` of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..errors import CapscoreError, Setting
from .base import Backbone, Tokens, fingerprint_of

if TYPE_CHECKING:
    import torch
    from PIL import Image


def as_read(backbone: Backbone, *, unit: bool = True, caption_tokens: int | None = None) -> Backbone:
    """The backbone whose embeddings a network reads.

    Args:
        backbone: Backbone with the towers.
        unit: Whether rows have unit length; otherwise they are as long as the towers give them.
        caption_tokens: Number of tokens, with the special ones, at which texts are cut; None for the
            backbone's context, which is also the maximum.

    Returns:
        The backbone itself if there is nothing to change.

    Raises:
        CapscoreError: the backbone gives only rows of unit length, or its special tokens leave no room.

    >>> from capscore import load_backbone
    >>> as_read(load_backbone("embedded", device="cpu"), caption_tokens=8).tokenize(["a dog " * 9]).truncated
    array([ True])
    """
    if unit and (caption_tokens is None or caption_tokens >= backbone.max_tokens):
        return backbone
    return _FeatureBackbone(backbone, unit, caption_tokens)


class _FeatureBackbone(Backbone):
    """See `as_read`. Unlike other backbones', its rows may have any length."""

    def __init__(self, backbone: Backbone, unit: bool, caption_tokens: int | None):
        if not unit and type(backbone).token_features is Backbone.token_features:
            backbone.token_features([])  # raises
        self._backbone, self.unit_rows = backbone, unit
        self.name, self.revision, self.recipe = backbone.name, backbone.revision, backbone.recipe
        self.dim, self.prefix, self.logit_scale = backbone.dim, backbone.prefix, backbone.logit_scale
        self.languages, self.dtype, self.device = backbone.languages, backbone.dtype, backbone.device
        self.w, self.has_feature_map = backbone.w, backbone.has_feature_map and unit
        self.text_batch = backbone.text_batch
        self.max_tokens = min(caption_tokens or backbone.max_tokens, backbone.max_tokens)
        self._after: list[int] = []
        if self.max_tokens < backbone.max_tokens:
            before, self._after = backbone.special_tokens()
            if len(before) + len(self._after) >= self.max_tokens:
                raise CapscoreError(
                    Setting("caption_tokens", caption_tokens),
                    f": {backbone.name!r} puts {len(before) + len(self._after)} special tokens around a text",
                )
        self.fingerprint = fingerprint_of(backbone.fingerprint, "unit" if unit else "raw", self.max_tokens)

    def preprocess(self, image: Image.Image) -> torch.Tensor:
        return self._backbone.preprocess(image)

    def encode_pixels(self, pixels: Sequence[torch.Tensor]) -> np.ndarray:
        return (
            self._backbone.encode_pixels(pixels) if self.unit_rows else self._backbone.pixel_features(pixels)
        )

    def feature_maps(self, pixels: Sequence[torch.Tensor]) -> torch.Tensor:
        return self._backbone.feature_maps(pixels)

    def encode_maps(self, maps: torch.Tensor) -> np.ndarray:
        return self._backbone.encode_maps(maps)

    def encode_map_regions(self, maps: torch.Tensor, boxes: Sequence[np.ndarray]) -> np.ndarray:
        return self._backbone.encode_map_regions(maps, boxes)

    def tokenize(self, texts: Sequence[str]) -> Tokens:
        whole, most = self._backbone.tokenize(texts), self.max_tokens
        long = np.array([len(ids) > most for ids in whole.ids], dtype=bool)
        kept = most - len(self._after)
        ids = [
            [*row[:kept], *self._after] if too_long else row
            for row, too_long in zip(whole.ids, long, strict=True)
        ]
        return Tokens(ids, whole.truncated | long)

    def encode_tokens(self, ids: Sequence[Sequence[int]]) -> np.ndarray:
        return self._backbone.encode_tokens(ids) if self.unit_rows else self._backbone.token_features(ids)

    def piece_spans(self, texts: Sequence[str]) -> list[list[tuple[int, int, int]]]:
        return self._backbone.piece_spans(texts)

    def special_tokens(self) -> tuple[list[int], list[int]]:
        return self._backbone.special_tokens()
