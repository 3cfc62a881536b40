"""InfoCLIP, which is InfoMetIC without its network: embeddings → token scores, recall, precision."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from ..errors import CapscoreError, Setting
from .alignment import (
    Aligner,
    Alignment,
    ImageStates,
    TextStates,
    WordContext,
    blank,
    check_images,
    check_texts,
    cosine,
    mean_by,
    products,
    softmax_over,
)


class InfoCLIP(Aligner):
    """The parameter-free baseline of InfoMetIC (Hu et al. 2023, appendix D).

    Scores are computed like InfoMetIC's, directly from the embeddings, without transformers or projections.
    Boxes are checked but not used. The null token is a zero vector, so its product is 0.

    Args:
        sharpness: Factor on the products of query and tokens before the softmax. CLIP's embeddings have a
            length of about 10; those of backbones have unit length, for which a factor of 100 is the same.
        scale: Factor on cosines in recall and precision, CLIP's `logit_scale`.

    Raises:
        CapscoreError: a factor is not a number above 0.

    >>> global_, parts = torch.tensor([[1.0, 0.0]]), torch.tensor([[[0.6, 0.8], [0.0, 1.0]]])
    >>> model, both = InfoCLIP(sharpness=5.0, scale=1.0), torch.ones(1, 2).bool()
    >>> images = model.encode_images(global_, parts, torch.rand(1, 2, 4), both)
    >>> found = model.pairs(images, model.encode_texts(global_, parts, both), [0], [0])
    >>> found.token_scores                                              # e³ : 1
    tensor([[0.9526, 0.0474]])
    >>> found.region_scores                                             # e³ : 1 : 1, the null token last
    tensor([[0.9094, 0.0453, 0.0453]])
    """

    def __init__(self, sharpness: float = 100.0, scale: float = 100.0) -> None:
        super().__init__()
        for name, value in (("sharpness", sharpness), ("scale", scale)):
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not is_number or not 0 < value < math.inf:
                raise CapscoreError(Setting(name, value), ": expected a number above 0")
        self.sharpness, self.scale = float(sharpness), float(scale)

    def encode_images(self, global_: Tensor, regions: Tensor, boxes: Tensor, mask: Tensor) -> ImageStates:
        check_images(global_, regions, boxes, mask, None)
        global_, mask = global_.float(), mask.bool()
        regions = blank(regions.float(), mask)
        null = torch.zeros_like(global_[:, None])
        there = functional.pad(mask, (0, 1), value=True)
        return ImageStates(
            global_=global_,
            query=global_ * self.sharpness,
            tokens=torch.cat([global_[:, None], regions, null], dim=1),
            attended=functional.pad(there, (1, 0), value=True),
            scored=there,
        )

    def encode_texts(
        self,
        global_: Tensor,
        tokens: Tensor,
        mask: Tensor,
        scored: Tensor | None = None,
        context: WordContext | None = None,
    ) -> TextStates:
        check_texts(global_, tokens, mask, scored, None)
        global_, mask = global_.float(), mask.bool()
        return TextStates(
            global_=global_,
            query=global_ * self.sharpness,
            tokens=blank(tokens.float(), mask),
            attended=mask,
            scored=mask if scored is None else mask & scored.bool(),
        )

    def _align(
        self, images: ImageStates, texts: TextStates, image_index: Tensor, text_index: Tensor
    ) -> Alignment:
        regions, tokens = images.tokens[image_index, 1:], texts.tokens[text_index]
        region_scores = softmax_over(products(texts.query[text_index], regions), images.scored[image_index])
        token_scores = softmax_over(products(images.query[image_index], tokens), texts.scored[text_index])
        return Alignment(
            region_scores,
            token_scores,
            recall=self.scale * cosine(mean_by(region_scores, regions), images.global_[image_index]),
            precision=self.scale * cosine(mean_by(token_scores, tokens), texts.global_[text_index]),
        )
