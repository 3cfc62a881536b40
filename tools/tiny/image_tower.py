"""Eyes with random weights, small enough for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from capscore.backbones.embedded.image_tower import ImageTower, ImageTowerConfig
from training.engine.saved_towers import save_image_tower

SMALL: dict[str, Any] = {
    "side": 32,
    "stem": 8,
    "stages": ((1, 3, 1, 1, 8), (2, 3, 2, 2, 12), (1, 5, 2, 3, 16)),
    "features": 24,
    "width": 16,
    "heads": 2,
    "hidden": 20,
    "classes": 10,
    "grid": 7,
}


def random_image_tower(seed: int = 0, **sizes: Any) -> ImageTower:
    """An eye whose weights are large enough that everything it reads moves its rows."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        eye = ImageTower(ImageTowerConfig(**{**SMALL, **sizes})).eval()
        with torch.no_grad():
            for name, tensor in eye.named_parameters():
                if name.startswith("trunk.") and name.endswith("bias"):
                    tensor.uniform_(0.0, 0.5)
            eye.head.scores.weight.normal_(0, 1.0)
            eye.head.places.normal_(0, 1.0)
            eye.text.centre.normal_(0, 0.02)
            eye.text.adapter.weight.normal_(0, 0.01)
    return eye


def write_image_tower(folder: Path, seed: int = 0, **options: Any) -> Path:
    """A folder with such an eye."""
    save_image_tower(random_image_tower(seed), folder, **options)
    return folder
