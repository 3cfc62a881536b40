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
Weights = dict[str, torch.Tensor]


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


def shares_layers(shard: bool) -> bool:
    return is_one_of_several() and (shard or os.environ.get("ACCELERATE_USE_FSDP") == "true")


def train(folder: Path, *, shard: bool, max_steps: int = 10) -> tuple[Weights, loop.RunResult]:
    """A run with evaluations, clipped gradients and a checkpoint at step 4; its weights by name."""
    torch.set_num_threads(1)
    model = Deep().eval()  # processes do not share statistics of batches

    def evaluate(now: nn.Module, step: int) -> dict[str, float]:
        assert not any("FSDP" in type(part).__name__ for part in now.modules())
        return {"sum": float(now(toy_run.DATA).sum())}

    def loss(now: nn.Module, rows, gather):
        parts = [parameter for parameter in now.layers.parameters() if sharded_layers.is_sharded(parameter)]
        if shares_layers(shard):
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


def run_in_two(folder: Path, steps: int, *, shard: bool = True) -> None:
    command = ["-m", "tests.training.engine.test_sharded_layers", folder, int(shard), steps]
    for done in run_distributed(command, cwd=ROOT):
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> tuple[Weights, loop.RunResult]:
    return train(tmp_path_factory.mktemp("alone"), shard=False)


def test_two_processes_with_half_of_each_layer_are_one_also_in_a_resumed_run(tmp_path, alone, monkeypatch):
    with monkeypatch.context() as launched:
        launched.setenv("ACCELERATE_USE_FSDP", "true")  # as accelerate's launcher says it
        run_in_two(tmp_path, 4, shard=False)
    run_in_two(tmp_path, 10)
    weights, result = alone
    found = torch.load(tmp_path / "weights.pt")
    assert list(found) == list(weights)
    assert json.loads((tmp_path / "evaluation.json").read_text()) == pytest.approx(
        result.evaluation, abs=1e-4
    )
    assert all(torch.allclose(found[name], weights[name], rtol=0, atol=1e-6) for name in weights)
    assert [line["step"] for line in toy_run.lines(tmp_path) if "evaluation" in line] == [0, 4, 8, 10]


def test_one_process_has_nothing_to_share(tmp_path, alone):
    weights, _ = train(tmp_path, shard=True)
    assert all(torch.equal(weights[name], alone[0][name]) for name in weights)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"ACCELERATE_USE_DEEPSPEED": "true"}, "set to DeepSpeed, which"),
        ({"ACCELERATE_USE_FSDP": "1", "FSDP_OFFLOAD_PARAMS": "true"}, "parameters on the CPU"),
    ],
)
def test_what_accelerate_may_ask_for_and_this_loop_does_not_do(tmp_path, monkeypatch, variables, said):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(CapscoreError, match=said):
        train(tmp_path, shard=False)


def test_fp16_and_recipes_that_do_not_share_layers_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "is_one_of_several", lambda: True)
    with pytest.raises(CapscoreError, match="precision='fp16' needs whole layers; take 'bf16'"):
        loop._is_sharded(True, "fp16")
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    with pytest.raises(CapscoreError, match="FSDP, which this recipe does not do; take MULTI_GPU"):
        toy_run.train(tmp_path)


def test_which_layers_repeat():
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
        (True, "0"),
        (True, "1"),
        (True, "2"),
    ]
    with pytest.raises(CapscoreError, match="no trained layers of this Linear repeat"):
        sharded_layers.ShardedLayers(nn.Linear(2, 2))


def test_gradients_are_clipped_as_torch_does():
    torch.manual_seed(1)
    ours = [nn.Parameter(torch.randn(3, 4)), nn.Parameter(torch.randn(5)), nn.Parameter(torch.randn(2))]
    theirs = [nn.Parameter(p.detach().clone()) for p in ours]
    for one, other in zip(ours[:2], theirs[:2], strict=True):
        one.grad = torch.randn_like(one)
        other.grad = one.grad.clone()
    norm = torch.nn.utils.clip_grad_norm_(theirs, 0.7)
    assert sharded_layers.clip_gradients(ours, 0.7) == pytest.approx(float(norm), abs=1e-6)
    assert all(torch.allclose(o.grad, t.grad, atol=1e-7) for o, t in zip(ours[:2], theirs[:2], strict=True))


if __name__ == "__main__":
    target = Path(sys.argv[1])
    found, ended = train(target, shard=sys.argv[2] == "1", max_steps=int(sys.argv[3]))
    if is_main_process():
        torch.save(found, target / "weights.pt")
        (target / "evaluation.json").write_text(json.dumps(ended.evaluation))
