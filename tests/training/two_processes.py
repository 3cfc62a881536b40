"""One run of a recipe in a process, and the same in two that torch.distributed connects."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file

from training.engine.training_log import read_log

from ..processes import run_distributed

ROOT = Path(__file__).parents[2]
# attention does not depend on the bias of its keys: its gradient is rounding, which Adam makes large
NO_GRADIENT = ("k_proj.bias", "attn.in_proj_bias", "attention_in.bias")


def assert_same_weights(ours: Path, theirs: Path, atol: float) -> None:
    one, two = (load_file(Path(folder) / "model.safetensors") for folder in (ours, theirs))
    assert one.keys() == two.keys()
    for name in one:
        if not name.endswith(NO_GRADIENT):
            assert torch.allclose(one[name], two[name], rtol=0, atol=atol), name


def assert_two_processes_are_one(recipe: Any, settings: Any, folder: Path, *, atol: float = 2e-5) -> None:
    """Train with a recipe's module here and in two processes: weights and losses are the same."""
    alone = recipe.train(settings)
    file, out = folder / "two.yaml", folder / "two"
    file.write_text(yaml.safe_dump({**asdict(settings), "out": str(out)}))
    for done in run_distributed(["-m", recipe.__name__, "--config", file], cwd=ROOT):
        assert done.returncode == 0, done.stderr
    assert_same_weights(alone.folder, out, atol)
    losses = [line["losses"] for line in read_log(out) if "losses" in line]
    assert losses[0] == pytest.approx(alone.run.losses, abs=5 * atol)
