"""A moving average of a model's weights: often better than the last ones, and no more to compute."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from training.engine.loop_settings import require


class WeightAverage(nn.Module):
    """A model with the exponential moving average of those of its weights that require gradients.

    Pass it to `training.engine.loop.run` in the model's place, with `after_step=WeightAverage.update`. The
    average is in buffers, which checkpoints hold, and of trained weights alone. `decay` is its share that
    stays in a step; in the first ones less, (1 + n) / (10 + n) after n, so that the start is soon forgotten.
    """

    steps: Tensor

    def __init__(self, model: nn.Module, decay: float):
        super().__init__()
        require(0 <= decay < 1, "average_decay", decay, "a number from 0 to below 1")
        self.model, self.decay = model, decay
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self._averages: list[tuple[str, str]] = []  # names of parameter and buffer, which has no dots
        for number, (name, parameter) in enumerate(model.named_parameters()):
            if parameter.requires_grad:
                self._averages.append((name, f"average_{number}"))
                self.register_buffer(f"average_{number}", parameter.detach().clone())

    def forward(self, *args: Any, **options: Any) -> Any:
        return self.model(*args, **options)

    @torch.no_grad()
    def update(self) -> None:
        n = int(self.steps)
        decay = min(self.decay, (1 + n) / (10 + n))
        for name, buffer in self._averages:
            self.get_buffer(buffer).lerp_(self.model.get_parameter(name), 1 - decay)
        self.steps += 1

    @torch.no_grad()
    def keep(self) -> nn.Module:
        """Give the model its averaged weights for good; returns the model."""
        for name, buffer in self._averages:
            self.model.get_parameter(name).copy_(self.get_buffer(buffer))
        return self.model
