"""Layers spread over processes: the same numbers as whole ones, from the first step to a resumed run."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from capscore.errors import CapscoreError
from tests.processes import run_distributed
from training.data.batches import ShuffledBatches
from training.engine import loop, sharded_layers
from training.engine.processes import is_main_process, is_one_of_several

from . import toy_run

ROOT = Path(__file__).parents[3]


class Deep(nn.Module):
    """Layers that repeat between two that do not; 5 rows do not go evenly on two processes."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(7)
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 6)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(8, 5), nn.BatchNorm1d(5, momentum=None), nn.Tanh(), nn.Linear(5, 8))
            for _ in range(3)
        )
        self.scale = nn.Parameter(torch.tensor(1.0))
        self.layers[1][0].weight.requires_grad_(False)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        hidden = self.first(rows)
        for layer in self.layers:
            hidden = hidden + layer(hidden)
        return self.last(hidden)


def train(folder: Path, *, shard: bool, max_steps: int = 10) -> tuple[dict, loop.RunResult]:
    """A run with evaluations, clipped gradients and a checkpoint at step 4; its weights by name."""
    torch.set_num_threads(1)
    model = Deep().eval()  # processes do not share statistics of batches

    def evaluate(now: nn.Module, step: int) -> dict[str, float]:
        assert not any("FSDP" in type(part).__name__ for part in now.modules())
        return {"sum": float(now(toy_run.DATA).sum())}

    def loss(now: nn.Module, rows, gather):
        parts = [parameter for parameter in now.layers.parameters() if sharded_layers.is_sharded(parameter)]
        if is_one_of_several() and (shard or os.environ.get("ACCELERATE_USE_FSDP") == "true"):
            assert len(parts) == 18 and parts[0].to_local().shape[0] in (2, 3)
        return toy_run.contrastive(now, rows, gather)

    result = loop.run(
        model,
        ShuffledBatches(list(range(toy_run.ROWS)), 7, seed=0),
        loss,
        toy_run.settings(folder, max_steps=max_steps, clip_norm=0.3),
        shard_layers=shard,
        evaluate=evaluate if is_main_process() else None,
    )
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}, result


def test_two_processes_with_half_of_each_layer_are_one_also_in_a_resumed_run(tmp_path, monkeypatch):
    weights, result = train(tmp_path / "alone", shard=True)  # one process has nothing to share
    for steps, shard in ((4, 0), (10, 1)):
        # as accelerate's launcher says it, and as a setting
        monkeypatch.setenv("ACCELERATE_USE_FSDP", "false" if shard else "true")
        command = ["-m", "tests.training.engine.test_sharded_layers", tmp_path, shard, steps]
        for done in run_distributed(command, cwd=ROOT):
            assert done.returncode == 0, done.stderr
    found = torch.load(tmp_path / "weights.pt")
    assert list(found) == list(weights)
    evaluation = json.loads((tmp_path / "evaluation.json").read_text())
    assert evaluation == pytest.approx(result.evaluation, abs=1e-4)
    assert all(torch.allclose(found[name], weights[name], rtol=0, atol=1e-6) for name in weights)
    assert [line["step"] for line in toy_run.lines(tmp_path) if "evaluation" in line] == [0, 4, 8, 10]


@pytest.mark.parametrize(
    ("variables", "shard", "precision", "said"),
    [
        ({"ACCELERATE_USE_DEEPSPEED": "true"}, False, "no", "set to DeepSpeed, which"),
        ({"ACCELERATE_USE_FSDP": "1", "FSDP_OFFLOAD_PARAMS": "true"}, False, "no", "parameters on the CPU"),
        ({"ACCELERATE_USE_FSDP": "true"}, None, "no", "FSDP, which this recipe does not do; take MULTI_GPU"),
        ({}, True, "fp16", "precision='fp16' needs whole layers; take 'bf16'"),
    ],
)
def test_what_accelerate_may_ask_for_and_this_loop_does_not_do(
    monkeypatch, variables, shard, precision, said
):
    monkeypatch.setattr(loop, "is_one_of_several", lambda: True)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(CapscoreError, match=said):
        loop._is_sharded(shard, precision)


def test_trained_layers_of_one_class_in_a_row_repeat():
    model = nn.ModuleDict(
        {
            "deep": Deep(),
            "frozen": nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)).requires_grad_(False),
            "different": nn.Sequential(nn.Linear(2, 2), nn.Conv1d(2, 2, 1)),
            "empty": nn.Sequential(nn.Tanh(), nn.Tanh()),
        }
    )
    found = sharded_layers.repeated_layers(model)
    assert [(parent is model["deep"].layers, name) for parent, name in found] == [
        *((True, "0"), (True, "1"), (True, "2"))
    ]
    with pytest.raises(CapscoreError, match="no trained layers of this Linear repeat"):
        sharded_layers.ShardedLayers(nn.Linear(2, 2))


def test_gradients_are_clipped_as_torch_does():
    torch.manual_seed(1)
    ours = [nn.Parameter(torch.randn(3, 4)), nn.Parameter(torch.randn(5)), nn.Parameter(torch.randn(2))]
    theirs = [nn.Parameter(p.detach().clone()) for p in ours]
    for mine, other in zip(ours[:2], theirs[:2], strict=True):
        mine.grad = torch.randn_like(mine)
        other.grad = mine.grad.clone()
    norm = torch.nn.utils.clip_grad_norm_(theirs, 0.7)
    assert sharded_layers.clip_gradients(ours, 0.7) == pytest.approx(float(norm), abs=1e-6)
    assert all(torch.allclose(o.grad, t.grad, atol=1e-7) for o, t in zip(ours[:2], theirs[:2], strict=True))


if __name__ == "__main__":
    target = Path(sys.argv[1])
    trained, ended = train(target, shard=sys.argv[2] == "1", max_steps=int(sys.argv[3]))
    if is_main_process():
        torch.save(trained, target / "weights.pt")
        (target / "evaluation.json").write_text(json.dumps(ended.evaluation))
