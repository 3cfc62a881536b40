"""A training step of `training.engine.loop` beside a bare PyTorch loop with the same model and batches.

In: a small transformer and made-up token ids. Out: milliseconds per step, their ratio, and how far the
weights of the two differ at the end.
"""

from __future__ import annotations

import contextlib
import copy
import io
import statistics
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from training.data.batches import ShuffledBatches
from training.engine.loop import run
from training.engine.loop_settings import LoopSettings

from .figures import Figure, Timing, repeat

ROWS, BATCH, TOKENS, WIDTH, VOCABULARY = 512, 64, 24, 256, 1000
RATE, DECAY, CLIP, TEMPERATURE = 1e-4, 0.01, 1.0, 0.05


class Tower(nn.Module):
    """Token ids (n, tokens) → rows of unit length (n, width)."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return F.normalize(self.layers(self.table(ids)).mean(dim=1), dim=-1)


def measure(quick: bool) -> list[Figure]:
    """Median step of each run of 40 steps, best of 5 runs in turn; `quick`: 10 steps, best of 2."""
    steps = 10 if quick else 40
    torch.manual_seed(0)
    start = Tower()
    rows = np.random.default_rng(0).integers(0, VOCABULARY, size=(ROWS, 2, TOKENS)).tolist()
    medians: dict[str, list[float]] = {"loop": [], "bare": []}
    ends: dict[str, nn.Module] = {}

    def note(name: str, model: nn.Module, moments: list[float]) -> None:
        ends[name] = model
        medians[name].append(statistics.median(np.diff(moments).tolist()))

    def loop() -> None:
        note("loop", *_by_the_loop(copy.deepcopy(start), rows, steps))

    def bare() -> None:
        note("bare", *_by_hand(copy.deepcopy(start), rows, steps))

    timed = repeat({"loop": loop, "bare": bare}, 2 if quick else 5)
    best = {name: Timing(sorted(own), timed[name].disturbed) for name, own in medians.items()}
    loop_ms, bare_ms = (best[name].best * 1000 for name in ("loop", "bare"))
    return [
        Figure(f"step of {BATCH} pairs, training loop", loop_ms, "{:.1f} ms", **best["loop"].spread()),
        Figure("  bare PyTorch loop", bare_ms, "{:.1f} ms", **best["bare"].spread()),
        Figure("  training loop ÷ bare loop", loop_ms / bare_ms, "{:.3f}×", 1.1, at_most=True),
        Figure(
            f"  largest difference between weights after {steps} steps",
            _difference(ends["loop"], ends["bare"]),
            "{:.0e}",
            1e-6,
            at_most=True,
        ),
    ]


def contrast(model: nn.Module, rows: Sequence[Any]) -> torch.Tensor:
    """InfoNCE of pairs of texts: each with its partner, against all others of the batch."""
    pairs = torch.tensor(rows)
    left, right = model(pairs[:, 0]), model(pairs[:, 1])
    return F.cross_entropy(left @ right.T / TEMPERATURE, torch.arange(len(rows)))


def _by_the_loop(model: nn.Module, rows: list[Any], steps: int) -> tuple[nn.Module, list[float]]:
    moments: list[float] = []

    def loss(model: nn.Module, own: Sequence[Any], gather: Any) -> dict[str, torch.Tensor]:
        moments.append(time.perf_counter())
        return {"loss": contrast(model, own)}

    model.train()
    with tempfile.TemporaryDirectory() as out, contextlib.redirect_stderr(io.StringIO()):
        settings = LoopSettings(
            out,
            max_steps=steps,
            batch_size=BATCH,
            learning_rate=RATE,
            weight_decay=DECAY,
            clip_norm=CLIP,
            schedule="constant",
        )
        run(model, ShuffledBatches(rows, BATCH, seed=0), loss, settings)
    return model, moments


def _by_hand(model: nn.Module, rows: list[Any], steps: int) -> tuple[nn.Module, list[float]]:
    moments: list[float] = []
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)
    batches = ShuffledBatches(rows, BATCH, seed=0)
    for step in range(steps):
        own = batches.batch(*divmod(step, batches.steps_per_epoch))
        optimizer.zero_grad(set_to_none=True)
        moments.append(time.perf_counter())
        contrast(model, own).backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
    return model, moments


def _difference(left: nn.Module, right: nn.Module) -> float:
    pairs = zip(left.state_dict().values(), right.state_dict().values(), strict=True)
    return max(float((one - other).abs().max()) for one, other in pairs)
