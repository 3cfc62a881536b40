"""The loop: exact resume after any kill, several processes, log, checkpoints, errors."""

import json
import math
import re
import shutil
import signal
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch
from filelock import FileLock
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import nn

from capscore.errors import CapscoreError
from tools.tiny import training_run as toy_run
from training.data.batches import ShuffledBatches
from training.engine import loop
from training.engine.loop_settings import LoopSettings
from training.engine.training_log import duration, read_log
from weights.making.image_tower.contrast import WeightAverage

from ... import processes

ROOT = Path(__file__).parents[3]
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}


def near(numbers):
    return pytest.approx(numbers, abs=1e-6)


def checkpoints(out: Path) -> list[str]:
    return sorted(path.name for path in (out / "checkpoints").iterdir())


def final_weights(out: Path) -> np.ndarray:
    tensors = load_file(out / "checkpoints" / "step-000010" / "model.safetensors")
    return np.concatenate([tensors[name].numpy().ravel() for name in sorted(tensors)])


def test_a_run_killed_at_any_moment_ends_with_the_same_weights(tmp_path, request, monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    every_nth = 1 if request.config.getoption("--all") else 61
    done = processes.run(["-m", "tools.tiny.training_run", "kill", tmp_path, every_nth], cwd=ROOT)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    whole = Path(report["whole"])
    assert report["moments"] > 60, "kills should fall into steps, log lines, and every part of a checkpoint"
    expected = final_weights(whole)
    for signalled, ended, out in report["outcomes"]:
        assert (signalled, ended) == (9, 0), out
        assert final_weights(Path(out)) == near(expected), out
        assert toy_run.lines(Path(out)) == toy_run.lines(whole), out
        assert checkpoints(Path(out)) == ["step-000008", "step-000010"], out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_interrupted_keeps_its_last_step(tmp_path, monkeypatch, number):
    def interrupted(model, rows, gather):
        signal.raise_signal(number)
        return contrastive(model, rows, gather)

    contrastive = toy_run.contrastive
    given = dict(accumulation_steps=1, checkpoint_every=1000)
    with monkeypatch.context() as patch, pytest.raises((KeyboardInterrupt, SystemExit)):
        patch.setattr(toy_run, "contrastive", interrupted)
        toy_run.train(tmp_path, **given)
    assert checkpoints(tmp_path) == ["step-000001"]
    _, result = toy_run.train(tmp_path, **given)
    assert (result.resumed_from, result.finished) == (1, True)


def test_a_finished_run_is_loaded_and_a_longer_one_ends_as_if_it_had_been_from_the_start(tmp_path):
    short, long = tmp_path / "short", tmp_path / "long"
    toy_run.train(short, max_steps=5)
    longer, result = toy_run.train(short, max_steps=9, log_every=1, keep_checkpoints=1)
    whole, _ = toy_run.train(long, max_steps=9)
    assert result.resumed_from == 5 and toy_run.weights(longer) == near(toy_run.weights(whole))
    assert checkpoints(short) == ["step-000009"]
    log = (long / "log.jsonl").read_bytes()
    again, result = toy_run.train(long, max_steps=9)
    assert toy_run.weights(again) == toy_run.weights(whole) and (long / "log.jsonl").read_bytes() == log
    assert (result.step, result.resumed_from, result.finished) == (9, 9, True)
    assert set(result.losses) == {"loss", "scale"} and set(result.evaluation) == {"sum"}


def test_a_run_with_other_settings_does_not_go_on_in_its_folder(tmp_path):
    begun = {"identity": {"λ1": 0.1}, "max_steps": 4, "schedule": "cosine"}
    toy_run.train(tmp_path, **begun)
    for changes, said in [
        ({"learning_rate": 0.5}, "learning_rate=0.02, but 0.5 was given"),
        ({"clip_norm": None}, "clip_norm=1.0, but nothing was given"),
        ({"batch_size": 5}, "batch_size=7, but 5 was given"),
        ({"identity": {"λ1": 0.2}}, "λ1=0.1, but 0.2 was given"),
        ({"max_steps": 6}, "total steps=4, but 6 was given"),
    ]:
        with pytest.raises(CapscoreError, match=said):
            toy_run.train(tmp_path, **(begun | changes))


def test_other_frozen_weights_or_another_number_of_processes_are_another_run(tmp_path):
    def start(value: float) -> loop.RunResult:
        model = toy_run.Pair()
        nn.init.constant_(model.unused.weight, value)
        model.unused.requires_grad_(False)
        batches = ShuffledBatches(range(toy_run.ROWS), 7, 0)
        return loop.run(model, batches, toy_run.contrastive, toy_run.settings(tmp_path, max_steps=2))

    start(1.0)
    assert start(1.0).resumed_from == 2
    with pytest.raises(CapscoreError, match="digest of the frozen weights="):
        start(2.0)
    path = tmp_path / "checkpoints" / "step-000002" / "described.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "processes": 2}))
    with pytest.raises(CapscoreError, match="processes=2, but 1 was given"):
        start(1.0)


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.bin", "state.json", "described.json"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_serves(tmp_path, name):
    toy_run.train(tmp_path)
    checkpoint = tmp_path / "checkpoints" / "step-000010"
    (checkpoint / name).write_bytes(b"torn")
    with pytest.raises(CapscoreError, match=r"step-000010 is damaged .*continues from the one before"):
        toy_run.train(tmp_path)
    shutil.rmtree(checkpoint)
    assert toy_run.train(tmp_path)[1].resumed_from == 8


def test_runs_that_would_spoil_each_other_or_have_no_folder_are_refused(tmp_path, monkeypatch):
    with FileLock(tmp_path / ".lock"), pytest.raises(CapscoreError, match="another process is training"):
        toy_run.train(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(CapscoreError, match="cannot be written"):
        toy_run.train(tmp_path / "file")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(CapscoreError, match="2 processes were launched, but each sees 1: set ACCELERATE_USE"):
        toy_run.train(tmp_path)


def test_two_processes_give_the_weights_of_one(tmp_path):
    command = ["-m", "tools.tiny.training_run", "once", tmp_path / "two"]
    first, second = processes.run_distributed(command, cwd=ROOT)
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    said = json.loads(first.stdout)
    assert said["processes"] == 2
    model, _ = toy_run.train(tmp_path / "one", dropout=0.0)
    one, start = (np.array(toy_run.weights(which)) for which in (model, toy_run.Pair()))
    assert np.abs(one - start).max() > 0.05, "something should have been learnt"
    np.testing.assert_allclose(said["weights"], one, rtol=0, atol=1e-6)
    lines = [[line for line in toy_run.lines(tmp_path / name) if "losses" in line] for name in ("one", "two")]
    for ours, theirs in zip(*lines, strict=True):
        assert ours["step"] == theirs["step"]
        assert ours["losses"] == pytest.approx(theirs["losses"], abs=2e-5)
        assert ours["grad_norm"] == pytest.approx(theirs["grad_norm"], abs=2e-5)


class Line(nn.Module):
    def __init__(self):
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(0.5))
        self.offset = nn.Parameter(torch.tensor(-1.0))


POINTS = [(1.0, 2.0), (2.0, -1.0), (3.0, 4.0), (0.5, 0.0), (-1.0, 3.0), (2.5, 2.5)]


def squared(model, rows, gather):
    x, y = torch.tensor(rows).T
    return {"loss": gather(model.slope * x + model.offset - y).square().mean()}


class InOrder:
    steps_per_epoch = 2

    def batch(self, epoch, step):
        return POINTS[3 * step : 3 * step + 3]


def by_hand(steps: int, rate, clip: float | None, decay: float) -> tuple[float, float]:
    """AdamW written out in float64, with the gradients of a line written out."""
    theta, m, v = np.array([0.5, -1.0]), np.zeros(2), np.zeros(2)
    for step in range(steps):
        x, y = np.array(InOrder().batch(0, step % 2)).T
        error = theta[0] * x + theta[1] - y
        gradient = np.array([(2 * error * x).mean(), (2 * error).mean()])
        if clip is not None:
            gradient *= min(1.0, clip / np.linalg.norm(gradient))
        m = 0.8 * m + 0.2 * gradient
        v = 0.9 * v + 0.1 * gradient**2
        theta = theta * (1 - rate(step) * decay)
        moved = (m / (1 - 0.8 ** (step + 1))) / (np.sqrt(v / (1 - 0.9 ** (step + 1))) + 1e-6)
        theta = theta - rate(step) * moved
    return tuple(theta)


@pytest.mark.parametrize(
    ("schedule", "clip", "accumulation", "falling"),
    [
        ("constant", None, 3, lambda done: 1),
        ("linear", 0.5, 1, lambda done: 1 - done),
        ("cosine", 0.5, 2, lambda done: (1 + math.cos(math.pi * done)) / 2),
    ],
)
def test_steps_are_adamw_with_warm_up_schedule_and_clipping(tmp_path, schedule, clip, accumulation, falling):
    def rate(step: int) -> float:
        return 0.1 * ((step + 1) / 2 if step < 2 else falling((step - 2) / 5))

    model = Line()
    given = dict(max_steps=7, batch_size=3, betas=[0.8, 0.9], eps=1e-6, weight_decay=0.02, warmup_steps=2)
    given |= dict(learning_rate=0.1, schedule=schedule, clip_norm=clip, log_every=1)
    chosen = LoopSettings(str(tmp_path), **given)
    loop.run(model, InOrder(), squared, chosen, accumulation_steps=accumulation)
    assert (model.slope.item(), model.offset.item()) == pytest.approx(by_hand(7, rate, clip, 0.02), abs=1e-5)
    # the errors of the first three points are −2.5, 1 and −3.5
    assert read_log(tmp_path)[0]["losses"]["loss"] == pytest.approx((6.25 + 1 + 12.25) / 3)
    rates = [line["lr"] for line in read_log(tmp_path)]
    assert rates == pytest.approx([rate(step) for step in range(7)])


def test_groups_have_their_own_rates_and_other_parameters_are_frozen(tmp_path):
    model = Line()
    groups = [{"params": [model.slope], "lr": 0.5, "weight_decay": 0.0}]
    chosen = LoopSettings(str(tmp_path), max_steps=1, batch_size=3)
    loop.run(model, InOrder(), squared, chosen, parameters=groups)
    assert abs(model.slope.item() - 0.5) == pytest.approx(0.5, abs=1e-4)  # Adam's first step is the rate
    assert model.offset.item() == -1.0
    with pytest.raises(CapscoreError, match="no parameter to train"):
        loop.run(model, InOrder(), squared, chosen, parameters=[])


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_stops_and_names_the_rows(tmp_path, poison):
    def loss(model, rows, gather):
        bad = (0.5, 0.0) in rows
        return {"loss": squared(model, rows, gather)["loss"] * (poison if bad else 1.0)}

    model = Line()
    chosen = LoopSettings(str(tmp_path), max_steps=6, batch_size=3, checkpoint_every=1)
    with pytest.raises(CapscoreError) as raised:
        loop.run(model, InOrder(), loss, chosen)
    assert str(raised.value).startswith(f"epoch 1, step 2: loss is {poison}. The batch's 3 rows")
    assert repr(POINTS[3]) in str(raised.value)
    assert (tmp_path / "stopped-step-000002.txt").read_text() == "".join(f"{row}\n" for row in POINTS[3:])
    assert torch.isfinite(model.slope) and checkpoints(tmp_path) == ["step-000001"]


@pytest.mark.parametrize(
    ("of", "message"),
    [
        (torch.sqrt, "the gradient's norm is nan"),
        (torch.abs, "nothing was learned: the gradient was 0 in all 2 steps"),
    ],
)
def test_a_gradient_that_is_not_finite_or_always_0_is_an_error(tmp_path, of, message):
    def loss(model, rows, gather):
        return {"loss": of(gather(model.slope * torch.zeros(len(rows))).mean())}

    for _ in range(2):  # also where the run is finished already
        with pytest.raises(CapscoreError, match=message):
            loop.run(Line(), InOrder(), loss, LoopSettings(str(tmp_path), batch_size=3))


def test_bf16_computes_in_it_measures_in_float32_and_keeps_float32_weights(tmp_path):
    seen, measured, model = [], [], nn.Sequential(nn.Linear(2, 1))

    def evaluate(model, step):
        measured.append(model[0](torch.ones(1, 2)).dtype)
        return {}

    def loss(model, rows, gather):
        out = model[0](torch.tensor(rows))
        seen.append(out.dtype)
        with pytest.raises(CapscoreError, match=r"here 3; its shape is \(6, 1\)"):
            gather(torch.cat([out, out]))  # an entry per row
        return {"loss": gather(out.float()).square().mean()}

    chosen = LoopSettings(str(tmp_path), batch_size=3, precision="bf16")
    loop.run(model, InOrder(), loss, chosen, evaluate=evaluate)
    assert set(measured) == {torch.float32}
    assert set(seen) == {torch.bfloat16} and model[0].weight.dtype == torch.float32
    if not torch.cuda.is_available():
        with pytest.raises(CapscoreError, match="fp16' needs a GPU"):
            loop.run(model, InOrder(), loss, LoopSettings(str(tmp_path / "b"), precision="fp16"))


def test_evaluation_leaves_no_trace(tmp_path):
    plain, _ = toy_run.train(tmp_path / "a")
    model, modes = toy_run.Pair().train(), []

    def evaluate(model, step):
        modes.append((model.training, model.dropout.training, torch.is_grad_enabled()))
        torch.rand(5)
        return {"n": math.nan}

    chosen = toy_run.settings(tmp_path / "b", evaluate_every=1)
    batches = ShuffledBatches(range(toy_run.ROWS), 7, 0)
    loop.run(model, batches, toy_run.contrastive, chosen, evaluate=evaluate, accumulation_steps=2)
    assert set(modes) == {(False, False, False)} and len(modes) == 11 and model.dropout.training
    assert toy_run.weights(model) == near(toy_run.weights(plain))
    measured = [line["evaluation"] for line in read_log(tmp_path / "b") if "evaluation" in line]
    assert measured == [{"n": None}] * 11


def test_the_log_has_means_since_its_last_line_and_is_printed_with_the_remaining_time(tmp_path, capsys):
    toy_run.train(tmp_path / "each", log_every=1)
    capsys.readouterr()
    toy_run.train(tmp_path / "some", log_every=4)
    said = capsys.readouterr().err
    printed = [line for line in said.splitlines() if line.startswith("step ")]
    toy_run.train(tmp_path / "short", max_steps=1)  # of a warm-up of two
    assert "reaches 50% of its top" in capsys.readouterr().err and "warm-up" not in said
    each = [line["losses"]["loss"] for line in read_log(tmp_path / "each") if "losses" in line]
    some = [line for line in read_log(tmp_path / "some") if "losses" in line]
    assert [(line["step"], line["epoch"]) for line in some] == [(4, 1.0), (8, 2.0), (10, 2.5)]
    means = [np.mean(each[:4]), np.mean(each[4:8]), np.mean(each[8:])]
    assert [line["losses"]["loss"] for line in some] == pytest.approx(means)
    left = {line.split()[1] for line in printed if re.search(r"  \d+ (s|min \d+ s) left$", line)}
    assert left == {"4/10", "8/10"}  # neither before the first step nor after the last
    assert re.fullmatch(r"step 1/10: about \d+ s left", printed[1])
    assert [duration(value) for value in (7.4, 59.6, 4000)] == ["7 s", "1 min 0 s", "1 h 6 min"]


def test_a_log_is_read_without_a_line_that_a_kill_cut_short(tmp_path):
    with pytest.raises(CapscoreError, match=r"no log\.jsonl"):
        read_log(tmp_path)
    (tmp_path / "log.jsonl").write_text('{"step": 1}\n{"step"')
    assert read_log(tmp_path) == [{"step": 1}]
    (tmp_path / "log.jsonl").write_text('{"step": 1}\nnothing\n{"step": 2}\n')
    with pytest.raises(CapscoreError, match="line 2 is not a line of a log"):
        read_log(tmp_path)


@given(st.integers(1, 60), st.integers(1, 70), st.integers(0, 5), st.integers(1, 12), st.integers(1, 4))
def test_every_row_comes_once_an_epoch_and_each_part_of_a_batch_has_one_for_every_process(
    n, size, epoch, count, world
):
    batches = ShuffledBatches(range(n), size, seed=1)
    rows = [batches.batch(epoch, step) for step in range(batches.steps_per_epoch)]
    lengths = {len(batch) for batch in rows}
    assert sorted(chain(*rows)) == list(range(n))
    assert max(lengths) <= size and max(lengths) - min(lengths) <= 1
    assert ShuffledBatches(range(n), size, seed=1).batch(epoch, 0) == rows[0]
    parts = loop.split_batch(list(rows[0]), count, world)
    assert list(chain(*parts)) == list(rows[0])
    assert len(rows[0]) < world or (len(parts) <= count and all(len(part) >= world for part in parts))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("epochs", 0), ("learning_rate", math.nan), ("betas", [0.9]), ("schedule", "step")),
        *(("max_steps", 0), ("clip_norm", 0), ("batch_size", 0), ("seed", -1)),
        *(("weight_decay", -0.1), ("betas", [0.9, 1.0]), ("precision", "fp8"), ("seed", True)),
    ],
)
def test_a_setting_out_of_range_is_named_with_its_value(name, value):
    with pytest.raises(CapscoreError, match=re.escape(f"{name}={value!r}: expected")):
        LoopSettings(**({"out": "x"} | {name: value}))


def test_the_moving_average_is_that_of_the_weights_after_each_step_also_in_a_resumed_run(tmp_path):
    def start(out: Path, steps: int) -> WeightAverage:
        network = toy_run.Pair().train()
        network.first.bias.requires_grad_(False)
        average, first = WeightAverage(network, decay=0.25), network.first.weight.detach().double().clone()

        def remember(wrapped):
            n = int(wrapped.steps)
            wrapped.update()
            decay, now = min(0.25, (1 + n) / (10 + n)), wrapped.model.first.weight.double()
            means[n + 1] = decay * means.setdefault(n, first) + (1 - decay) * now
            (mean,) = (buffer for buffer in wrapped.buffers() if buffer.shape == first.shape)
            torch.testing.assert_close(mean.double(), means[n + 1], atol=1e-6, rtol=0)

        def loss(wrapped, rows, gather):
            return toy_run.contrastive(wrapped.model, rows, gather)

        batches = ShuffledBatches(range(toy_run.ROWS), 7, 0)
        loop.run(average, batches, loss, toy_run.settings(out, max_steps=steps), after_step=remember)
        return average

    means: dict[int, torch.Tensor] = {}
    start(tmp_path / "part", 3)
    resumed = start(tmp_path / "part", 6)
    whole = start(tmp_path / "whole", 6)
    assert int(resumed.steps) == 6
    assert len([name for name, _ in whole.named_buffers() if name.startswith("average_")]) == 6
    for mine, other in zip(resumed.keep().parameters(), whole.keep().parameters(), strict=True):
        torch.testing.assert_close(mine, other, atol=1e-6, rtol=0)
    with pytest.raises(CapscoreError, match=r"average_decay=1\.0: expected"):
        WeightAverage(nn.Linear(1, 1), 1.0)
