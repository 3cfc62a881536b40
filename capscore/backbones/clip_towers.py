"""What models with both towers in one network have in common: those of open_clip and of transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import nn

from .base import Backbone, BackboneOptions, Tokens
from .tokens import Piece


class Tokenizer(Protocol):
    """What splits the texts of a text tower; `max_tokens` is the tower's context length."""

    max_tokens: int

    def tokenize(self, texts: Sequence[str]) -> Tokens: ...

    def piece_spans(self, texts: Sequence[str]) -> list[list[Piece]]: ...


class ClipTowers(Backbone):
    """A network with both towers, and the tokenizer of its texts.

    The network is moved, cast in place, frozen and set to eval mode. A subclass has `preprocess`,
    `pixel_features`, `token_features` and `_identify`.
    """

    _model: Any

    def __init__(self, model: nn.Module, text: nn.Module, tokenizer: Tokenizer, options: BackboneOptions):
        options.give_to(self)
        self._model, self._text, self._tokenizer = model.eval().requires_grad_(False), text, tokenizer
        self.max_tokens = tokenizer.max_tokens
        scale = getattr(model, "logit_scale", None)
        self.logit_scale = 1.0 if scale is None else float(scale.float().exp())
        self._identify(options.revision)
        model.to(device=self.device, dtype=self.torch_dtype)
        with torch.inference_mode():
            self.dim = self.token_features(self.tokenize(["a photo"]).ids).shape[1]

    def text_network(self) -> nn.Module:
        return self._text

    def network(self) -> nn.Module:
        return self._model

    def tokenize(self, texts: Sequence[str]) -> Tokens:
        return self._tokenizer.tokenize(texts)

    def piece_spans(self, texts: Sequence[str]) -> list[list[Piece]]:
        return self._tokenizer.piece_spans(texts)


class TextSide(nn.Module):
    """The parts of a network with both towers that belong to its text tower; None for one that it lacks."""

    def __init__(self, model: nn.Module, parts: Sequence[str]):
        super().__init__()
        for part in parts:
            setattr(self, part, getattr(model, part, None))
