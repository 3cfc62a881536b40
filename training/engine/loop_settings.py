"""The settings of the training loop, checked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from capscore.errors import CapscoreError, Setting

ABOVE_ZERO = 1e-300  # the smallest number that a setting may have
Schedule = Literal["constant", "linear", "cosine"]
Precision = Literal["no", "bf16", "fp16"]


@dataclass
class LoopSettings:
    """Settings of the loop. A recipe adds its own in a subclass.

    Attributes:
        out: Folder of the run.
        epochs: Number of passes through the data.
        max_steps: Total number of steps, which overrides `epochs`; None for whole epochs.
        batch_size: Rows per step, over all processes and parts of the step.
        learning_rate: Highest learning rate of AdamW, at the end of the warm-up.
        betas, eps, weight_decay: AdamW's, for every parameter.
        warmup_steps: Steps over which the learning rate rises to its highest value.
        schedule: Learning rate after the warm-up: "constant", or falling to 0 at the end of the run,
            "linear" or as a "cosine".
        clip_norm: Largest norm of the gradient; larger gradients are scaled down to it. None for no limit.
        precision: "no" for float32; "bf16" or "fp16" to compute in these and keep the weights in float32.
        seed: Seed for all random draws.
        log_every: Steps between two lines of the log, each with the means since the last.
        evaluate_every: Steps between two evaluations; None for one at the start and one at the end.
        checkpoint_every: Steps between two checkpoints; None for one at the end.
        keep_checkpoints: Number of newest checkpoints to keep.
        max_minutes: Minutes after which to stop, with a checkpoint to go on from; None for no limit.
    """

    out: str
    epochs: int = 1
    max_steps: int | None = None
    batch_size: int = 64
    learning_rate: float = 5e-5
    betas: list[float] = field(default_factory=lambda: [0.9, 0.999])
    eps: float = 1e-8
    weight_decay: float = 0.01
    warmup_steps: int = 0
    schedule: Schedule = "constant"
    clip_norm: float | None = 1.0
    precision: Precision = "no"
    seed: int = 0
    log_every: int = 50
    evaluate_every: int | None = None
    checkpoint_every: int | None = 1000
    keep_checkpoints: int = 2
    max_minutes: float | None = None

    def __post_init__(self) -> None:
        self.betas = [float(beta) for beta in self.betas]
        if not self.out.strip():
            raise CapscoreError("no out: give the folder of the run, as ", Setting("out", "runs/own"))
        for name in ("warmup_steps", "seed"):
            require_whole(self, name, 0)
        for name in ("epochs", "batch_size", "log_every", "keep_checkpoints"):
            require_whole(self, name, 1)
        for name in ("max_steps", "evaluate_every", "checkpoint_every"):
            if getattr(self, name) is not None:
                require_whole(self, name, 1)
        for name in ("learning_rate", "eps", "clip_norm", "max_minutes"):
            value = getattr(self, name)
            right = 0 < value < math.inf if value is not None else name in ("clip_norm", "max_minutes")
            require(right, name, value, "a number above 0")
        require_range(self, ["weight_decay"], 0, math.inf, "at least 0")
        right = len(self.betas) == 2 and all(0 <= beta < 1 for beta in self.betas)
        require(right, "betas", self.betas, "two numbers from 0 to below 1")
        for name, choices in (("schedule", Schedule), ("precision", Precision)):
            value = getattr(self, name)
            require(value in get_args(choices), name, value, " or ".join(get_args(choices)))


def require_whole(settings: object, name: str, least: int) -> None:
    """Raise where a setting is not a whole number of at least `least`."""
    value = getattr(settings, name)
    right = isinstance(value, int) and not isinstance(value, bool) and value >= least
    require(right, name, value, f"a whole number of at least {least}")


def require_range(settings: object, names: Sequence[str], least: float, below: float, expected: str) -> None:
    """Raise where a setting is neither None nor a number from `least` to below another."""
    for name in names:
        value = getattr(settings, name)
        require(value is None or least <= value < below, name, value, expected)


def require(good: bool, name: str, value: object, expected: str) -> None:
    if not good:
        raise CapscoreError(Setting(name, value), f": expected {expected}")
