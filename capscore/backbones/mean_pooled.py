"""The text tower of multilingual CLIP students: encoder → mean over the tokens → Linear.

In: ids and mask. Out: embeddings in a teacher's space, not normalised. M-CLIP's checkpoints and capscore's
own students have this architecture.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from .checkpoint import load_strictly, refuse_misfit
from .paired import TextTower


class MeanPooledTower(TextTower):
    """A transformers encoder, the attention-masked mean of all its tokens, a Linear with bias.

    Args:
        encoder: Model from `transformers.AutoModel`; its pooler, which is not used, is removed.
        projection: Linear layer from the encoder's width to the embedding's length.
        tokenizer: Tokenizer of the encoder.
        max_tokens: Context length, special tokens included.
    """

    def __init__(self, encoder: Any, projection: nn.Linear, tokenizer: Any, max_tokens: int):
        super().__init__()
        if getattr(encoder, "pooler", None) is not None:
            encoder.pooler = None
        self.encoder, self.projection = encoder, projection
        self.tokenizer, self.max_tokens = tokenizer, max_tokens
        self.dim = projection.out_features

    @property
    def config(self) -> Any:
        return self.encoder.config

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """int64 (n, L) ids and mask (1 token, 0 padding) → (n, dim), not normalised."""
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        weights = attention_mask.unsqueeze(-1).float()
        mean = (hidden.float() * weights).sum(dim=1) / weights.sum(dim=1)
        return self.projection(mean.to(self.projection.weight.dtype))


def load_encoder_and_projection(
    folder: Path, config: Any, state: dict[str, torch.Tensor], *, encoder_prefix: str, projection_prefix: str
) -> tuple[Any, nn.Linear]:
    """Encoder and projection from one state dict that holds both.

    Args:
        folder: Folder that the state dict was read from; named in errors.
        config: Config of the encoder.
        state: Tensors of both.
        encoder_prefix: Beginning of the names of the encoder's tensors, such as "transformer.".
        projection_prefix: Beginning of the names of the projection's weight and bias.

    Raises:
        BackboneUnavailable: tensors are missing, too many, or of another shape than the config says.
    """
    import transformers

    encoder_state = {
        key.removeprefix(encoder_prefix): t for key, t in state.items() if key.startswith(encoder_prefix)
    }
    names = {f"{projection_prefix}weight", f"{projection_prefix}bias"}
    others = [key for key in state if not key.startswith(encoder_prefix) and key not in names]
    refuse_misfit(folder, names - state.keys(), others)
    weight, bias = (state[f"{projection_prefix}{part}"] for part in ("weight", "bias"))
    if weight.ndim != 2 or weight.shape[1] != config.hidden_size or bias.shape != weight.shape[:1]:
        shapes = (
            f"weight {tuple(weight.shape)}, bias {tuple(bias.shape)}, encoder of width {config.hidden_size}"
        )
        refuse_misfit(folder, (), (), [f"{projection_prefix}* ({shapes})"])
    encoder = load_strictly(
        transformers.MODEL_MAPPING[type(config)], config, folder, encoder_state, without_pooler=True
    )
    projection = nn.Linear(weight.shape[1], weight.shape[0])
    with torch.no_grad():
        projection.weight.copy_(weight)
        projection.bias.copy_(bias)
    return encoder, projection
