"""The moving average of weights, and that a run that is killed ends with the same one."""

from __future__ import annotations

import doctest
from dataclasses import replace

import pytest
import torch
from torch import nn

from capscore.errors import CapscoreError
from training.data.batches import ShuffledBatches
from training.engine import weight_average
from training.engine.loop import run
from training.engine.loop_settings import LoopSettings
from training.engine.weight_average import WeightAverage

ROWS = [[float(n), float(n % 3)] for n in range(12)]


class Killed(Exception):
    pass


def model():
    torch.manual_seed(3)
    network = nn.Sequential(nn.Linear(2, 4), nn.Dropout(0.3), nn.Linear(4, 1))
    network[0].bias.requires_grad_(False)
    return WeightAverage(network, decay=0.8).train()


def loss(average, rows, gather):
    x = torch.tensor(rows)
    noise = torch.randn(len(rows), 1)  # random draws are part of a run
    return {"loss": gather(average(x) - x.sum(dim=1, keepdim=True) + noise).square().mean()}


def go(average, out, loss=loss, **changes):
    settings = LoopSettings(
        str(out),
        epochs=5,
        batch_size=4,
        learning_rate=0.05,
        schedule="cosine",
        checkpoint_every=2,
        log_every=5,
    )
    batches = ShuffledBatches(ROWS, 4, seed=1)
    return run(average, batches, loss, replace(settings, **changes), after_step=WeightAverage.update)


def state(average):
    return {name: tensor.clone() for name, tensor in average.state_dict().items()}


def test_the_average_is_that_of_the_weights_after_each_step(tmp_path):
    average, seen = model(), []
    first = average.model[0].weight.detach().clone()

    def remember(wrapped):
        wrapped.update()
        seen.append(wrapped.model[0].weight.detach().clone())

    settings = LoopSettings(str(tmp_path), max_steps=6, batch_size=4, learning_rate=0.05)
    run(average, ShuffledBatches(ROWS, 4, seed=1), loss, settings, after_step=remember)
    expected = first.double()
    for n, weight in enumerate(seen):
        decay = min(0.8, (1 + n) / (10 + n))
        expected = decay * expected + (1 - decay) * weight.double()
    trained = average.model[0].weight.detach().clone()
    torch.testing.assert_close(trained, seen[-1])
    with average.in_use():
        torch.testing.assert_close(average.model[0].weight.double(), expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(average.model[0].weight, trained, atol=0, rtol=0)
    torch.testing.assert_close(average.keep()[0].weight.double(), expected, atol=1e-6, rtol=0)
    assert len(seen) == 6 and int(average.steps) == 6


@pytest.mark.parametrize("killed_at", [1, 2, 7, 14])
def test_a_killed_run_ends_with_the_same_weights_average_and_optimizer(tmp_path, killed_at):
    whole = model()
    result = go(whole, tmp_path / "whole")
    assert result.step == 15

    calls = 0

    def kill(average, rows, gather):
        nonlocal calls
        calls += 1
        if calls > killed_at:
            raise Killed
        return loss(average, rows, gather)

    with pytest.raises(Killed):
        go(model(), tmp_path / "part", kill)
    part = model()
    again = go(part, tmp_path / "part")
    assert again.resumed_from == killed_at - killed_at % 2 and again.step == 15
    expected = state(whole)
    assert state(part).keys() == expected.keys() and int(expected["steps"]) == 15
    for name, tensor in state(part).items():
        torch.testing.assert_close(tensor, expected[name], atol=1e-6, rtol=0)
    # the average is not the weights
    assert (whole.model[2].weight - dict(whole.named_buffers())["average_2"]).abs().max() > 1e-4
    finals = [
        torch.load(tmp_path / which / "checkpoints" / "step-000015" / "optimizer.pt", weights_only=True)
        for which in ("whole", "part")
    ]
    for one, other in zip(*(final["state"].values() for final in finals), strict=True):
        torch.testing.assert_close(one["exp_avg_sq"], other["exp_avg_sq"], atol=1e-6, rtol=0)


def test_what_is_frozen_is_not_averaged():
    average = model()
    assert len([name for name, _ in average.named_buffers() if name.startswith("average_")]) == 3


def test_an_error_inside_the_block_gives_the_weights_back():
    average = model()
    with torch.no_grad():
        average.model[2].weight.add_(1.0)
    trained = average.model[2].weight.detach().clone()
    with pytest.raises(Killed), average.in_use():
        raise Killed
    torch.testing.assert_close(average.model[2].weight, trained)


@pytest.mark.parametrize("decay", [-0.1, 1.0, float("nan")])
def test_a_decay_that_cannot_be(decay):
    with pytest.raises(CapscoreError, match=r"average_decay=.*: expected a number from 0 to below 1"):
        WeightAverage(nn.Linear(1, 1), decay)


def test_examples():
    found = doctest.testmod(weight_average)
    assert found.attempted and not found.failed
