"""A mark calibration of eight dimensions with weights that nothing was trained for, for tests."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional as F

from capscore.infometic.mark_calibration import (
    MARKED_CLASSES,
    SHARED,
    MarkCalibration,
    MarkCurve,
    MarkNetwork,
    MarkNetworkConfig,
    PhotoBatch,
)

SIZES = MarkNetworkConfig(
    dim=8, features=6, reduced=4, hidden=4, inner=6, small=4, things=4, named=3, background=5
)
EVEN = tuple(np.linspace(0.0, 1.0, 101).tolist())


def tiny_marks(found: float = 0.9) -> MarkCalibration:
    """A mark calibration whose words, captions and regions all have p = sigmoid(logit)."""
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = MarkNetwork(SIZES).eval()
    network.background.copy_(F.normalize(torch.randn(5, 8, generator=generator), dim=1))
    curve = MarkCurve(1.0, 0.0, EVEN, found)
    words = {SHARED: {name: curve for name in MARKED_CLASSES[:4]}}  # numbers are never judged
    alone = words[SHARED]
    return MarkCalibration(
        network.requires_grad_(False),
        alone,
        words,
        {SHARED: curve},
        curve,
        {"en": ("dog", "grass"), "de": ("Hund",)},
        "tiny",
        "w0",
        name="tiny",
    )


def seen_photos(n: int) -> PhotoBatch:
    """n photos of six cells and five windows."""
    generator = torch.Generator().manual_seed(2)
    return PhotoBatch(
        torch.randn(n, 6, SIZES.reduced, generator=generator),
        F.normalize(torch.randn(n, 8, generator=generator), dim=1),
        F.normalize(torch.randn(n, 5, 8, generator=generator), dim=2),
        torch.ones(n, 5, dtype=torch.bool),
    )
