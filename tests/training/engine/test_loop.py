"""The loop: exact resume after any kill, several processes, log, checkpoints, errors."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch
from filelock import FileLock
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from safetensors.torch import load_file
from torch import nn

from capscore.errors import CapscoreError
from training import plot
from training.data.batches import ShuffledBatches
from training.engine import loop
from training.engine.loop_settings import LoopSettings
from training.engine.processes import gather_rows
from training.engine.training_log import duration, read_log

from ... import processes
from . import toy_run

ROOT = Path(__file__).parents[3]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true", **more}


def near(numbers):
    return pytest.approx(numbers, abs=1e-6)


def checkpoints(out: Path) -> list[str]:
    return sorted(path.name for path in (out / "checkpoints").iterdir())


# Resuming


def test_killed_at_any_moment_it_ends_with_the_same_weights(tmp_path, request):
    every_nth = 1 if request.config.getoption("--all") else 17
    done = processes.run(
        ["-m", "tests.training.engine.toy_run", "kill", tmp_path, every_nth], cwd=ROOT, env=environment()
    )
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


def final_weights(out: Path) -> np.ndarray:
    tensors = load_file(out / "checkpoints" / "step-000010" / "model.safetensors")
    return np.concatenate([tensors[name].numpy().ravel() for name in sorted(tensors)])


def test_a_finished_run_is_not_done_again_but_loaded(tmp_path):
    model, _ = toy_run.train(tmp_path)
    log = (tmp_path / "log.jsonl").read_bytes()
    again, result = toy_run.train(tmp_path)
    assert toy_run.weights(again) == near(toy_run.weights(model))
    assert (result.step, result.resumed_from, result.finished) == (10, 10, True)
    assert (tmp_path / "log.jsonl").read_bytes() == log
    assert set(result.losses) == {"loss", "scale"}
    assert set(result.evaluation) == {"sum"}


def test_a_run_may_be_made_longer_and_ends_as_if_it_had_been_from_the_start(tmp_path):
    toy_run.train(tmp_path / "a", max_steps=5)
    longer, result = toy_run.train(tmp_path / "a", max_steps=9, log_every=1, keep_checkpoints=1)
    whole, _ = toy_run.train(tmp_path / "b", max_steps=9)
    assert result.resumed_from == 5
    assert toy_run.weights(longer) == near(toy_run.weights(whole))
    assert checkpoints(tmp_path / "a") == ["step-000009"]


def test_out_of_time_it_stops_with_a_checkpoint_and_goes_on(tmp_path):
    _, result = toy_run.train(tmp_path, max_minutes=1e-9)
    assert (result.step, result.finished) == (1, False)
    assert result.checkpoint.name == "step-000001"
    model, result = toy_run.train(tmp_path)
    assert (result.resumed_from, result.finished) == (1, True)
    assert toy_run.weights(model) == near(toy_run.weights(toy_run.train(tmp_path / "whole")[0]))


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"learning_rate": 0.5}, "learning_rate=0.02, but 0.5 was given"),
        ({"seed": 4}, "seed=0, but 4 was given"),
        ({"precision": "bf16"}, 'precision="no", but "bf16" was given'),
        ({"clip_norm": None}, "clip_norm=1.0, but nothing was given"),
        ({"batch_size": 5}, "batch_size=7, but 5 was given"),
        ({"identity": {"λ1": 0.2}}, "λ1=0.1, but 0.2 was given"),
    ],
)
def test_other_settings_are_another_run(tmp_path, changes, said):
    toy_run.train(tmp_path, **{"identity": {"λ1": 0.1}, "max_steps": 2})
    with pytest.raises(CapscoreError) as raised:
        toy_run.train(tmp_path, **({"identity": {"λ1": 0.1}, "max_steps": 2} | changes))
    assert said in str(raised.value)


def test_a_falling_schedule_fixes_the_length(tmp_path):
    toy_run.train(tmp_path, schedule="cosine", max_steps=4)
    with pytest.raises(CapscoreError, match="4 steps in all, over which its cosine schedule falls, but 6"):
        toy_run.train(tmp_path, schedule="cosine", max_steps=6)


def test_other_frozen_weights_are_another_run(tmp_path):
    def start(value: float) -> loop.RunResult:
        model = toy_run.Pair()
        nn.init.constant_(model.unused.weight, value)
        model.unused.requires_grad_(False)
        batches = ShuffledBatches(range(toy_run.ROWS), 7, 0)
        return loop.run(model, batches, toy_run.contrastive, toy_run.settings(tmp_path, max_steps=2))

    start(1.0)
    assert start(1.0).resumed_from == 2
    with pytest.raises(CapscoreError, match="other frozen weights"):
        start(2.0)


def test_a_damaged_checkpoint_says_so(tmp_path):
    _, result = toy_run.train(tmp_path)
    (result.checkpoint / "model.safetensors").write_bytes(b"torn")
    with pytest.raises(CapscoreError, match=r"step-000010 is damaged .*continues from the one before"):
        toy_run.train(tmp_path)
    shutil.rmtree(result.checkpoint)
    assert toy_run.train(tmp_path)[1].resumed_from == 8


def test_two_runs_in_one_folder(tmp_path):
    with FileLock(tmp_path / ".lock"), pytest.raises(CapscoreError, match="another process is training"):
        toy_run.train(tmp_path)


# Several processes


def test_two_processes_give_the_weights_of_one(tmp_path):
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"),
        *("-m", "tests.training.engine.toy_run", "once", str(tmp_path / "two")),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment())
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["processes"] == 2
    model, _ = toy_run.train(tmp_path / "one", dropout=0.0)
    one = np.array(toy_run.weights(model))
    two = np.array(said["weights"])
    start = np.array(toy_run.weights(toy_run.Pair()))
    assert np.abs(one - start).max() > 0.05, "something should have been learnt"
    np.testing.assert_allclose(two, one, rtol=0, atol=1e-6)
    a, b = (toy_run.lines(tmp_path / name) for name in ("one", "two"))
    assert [line["step"] for line in a] == [line["step"] for line in b]
    losses = [[line["losses"]["loss"] for line in run if "losses" in line] for run in (a, b)]
    np.testing.assert_allclose(*losses, atol=2e-5)


def test_processes_that_do_not_see_each_other_do_not_train_side_by_side(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(CapscoreError, match="2 processes were launched, but each sees 1: set ACCELERATE_USE"):
        toy_run.train(tmp_path)


# What a step does


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


@pytest.mark.parametrize("clip", [None, 0.5])
@pytest.mark.parametrize(
    "schedule, rate",
    [
        ("constant", lambda step: 0.1 * min(1, (step + 1) / 2)),
        ("linear", lambda step: 0.1 * (step + 1) / 2 if step < 2 else 0.1 * (1 - (step - 2) / 5)),
        (
            "cosine",
            lambda step: 0.1 * ((step + 1) / 2 if step < 2 else (1 + math.cos(math.pi * (step - 2) / 5)) / 2),
        ),
    ],
)
@pytest.mark.parametrize("accumulation", [1, 3])
def test_steps_are_adamw_with_warm_up_schedule_and_clipping(tmp_path, clip, schedule, rate, accumulation):
    model = Line()
    chosen = LoopSettings(
        str(tmp_path),
        max_steps=7,
        batch_size=3,
        learning_rate=0.1,
        betas=[0.8, 0.9],
        eps=1e-6,
        weight_decay=0.02,
        warmup_steps=2,
        schedule=schedule,
        clip_norm=clip,
        accumulation_steps=accumulation,
        log_every=1,
    )
    loop.run(model, InOrder(), squared, chosen)
    assert (model.slope.item(), model.offset.item()) == pytest.approx(by_hand(7, rate, clip, 0.02), abs=1e-5)
    rates = [line["lr"] for line in read_log(tmp_path)]
    assert rates == pytest.approx([rate(step) for step in range(7)])


def test_groups_have_their_own_rates_and_what_is_in_none_is_frozen(tmp_path):
    model = Line()
    groups = [{"params": [model.slope], "lr": 0.5, "weight_decay": 0.0}]
    chosen = LoopSettings(str(tmp_path), max_steps=1, batch_size=3, learning_rate=0.1)
    loop.run(model, InOrder(), squared, chosen, parameters=groups)
    assert abs(model.slope.item() - 0.5) == pytest.approx(0.5, abs=1e-4)  # Adam's first step is the rate
    assert model.offset.item() == -1.0
    with pytest.raises(CapscoreError, match="no parameter to train"):
        loop.run(model, InOrder(), squared, chosen, parameters=[])
    with pytest.raises(CapscoreError, match="1 of the parameters to train are not in the model"):
        loop.run(model, InOrder(), squared, chosen, parameters=[nn.Parameter(torch.zeros(1))])


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_stops_and_names_the_rows(tmp_path, poison):
    def loss(model, rows, gather):
        made = squared(model, rows, gather)
        bad = (0.5, 0.0) in rows
        return {"loss": made["loss"] * (poison if bad else 1.0), "plain": made["loss"].detach()}

    model = Line()
    chosen = LoopSettings(str(tmp_path), max_steps=6, batch_size=3, checkpoint_every=1)
    with pytest.raises(CapscoreError) as raised:
        loop.run(model, InOrder(), loss, chosen)
    assert str(raised.value).startswith(f"epoch 1, step 2: loss is {poison}. The batch's 3 rows")
    for row in POINTS[3:]:
        assert repr(row) in str(raised.value)
    assert (tmp_path / "stopped-step-000002.txt").read_text() == "".join(f"{row}\n" for row in POINTS[3:])
    assert torch.isfinite(model.slope)
    assert checkpoints(tmp_path) == ["step-000001"]


def test_a_gradient_that_is_not_finite_stops_too(tmp_path):
    def loss(model, rows, gather):
        return {"loss": gather(model.slope * torch.zeros(len(rows))).mean().sqrt()}

    with pytest.raises(CapscoreError, match="the gradient's norm is nan"):
        loop.run(Line(), InOrder(), loss, LoopSettings(str(tmp_path), batch_size=3))


def test_bf16_computes_in_it_and_keeps_float32_weights(tmp_path):
    seen = []

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 1)

    def loss(model, rows, gather):
        out = model.layer(torch.tensor(rows))
        seen.append(out.dtype)
        return {"loss": gather(out.float()).square().mean()}

    model = Layer()
    loop.run(model, InOrder(), loss, LoopSettings(str(tmp_path), batch_size=3, precision="bf16"))
    assert set(seen) == {torch.bfloat16}
    assert model.layer.weight.dtype == torch.float32
    if not torch.cuda.is_available():
        with pytest.raises(CapscoreError, match="fp16' needs a GPU"):
            loop.run(model, InOrder(), loss, LoopSettings(str(tmp_path / "b"), precision="fp16"))


def test_evaluation_leaves_no_trace(tmp_path):
    plain, _ = toy_run.train(tmp_path / "a")
    model = toy_run.Pair().train()
    modes = []

    def evaluate(model, step):
        modes.append((model.training, model.dropout.training, torch.is_grad_enabled()))
        torch.rand(5)
        return {"n": math.nan}

    chosen = toy_run.settings(tmp_path / "b", evaluate_every=1)
    batches = ShuffledBatches(range(toy_run.ROWS), 7, 0)
    loop.run(model, batches, toy_run.contrastive, chosen, evaluate=evaluate)
    assert set(modes) == {(False, False, False)} and len(modes) == 11
    assert model.dropout.training
    assert toy_run.weights(model) == near(toy_run.weights(plain))
    assert [line["evaluation"] for line in read_log(tmp_path / "b") if "evaluation" in line] == [
        {"n": None}
    ] * 11


def test_the_log_has_means_of_the_steps_since_the_last_line(tmp_path):
    toy_run.train(tmp_path / "each", log_every=1)
    toy_run.train(tmp_path / "some", log_every=4)
    each = [line["losses"]["loss"] for line in read_log(tmp_path / "each") if "losses" in line]
    some = [line for line in read_log(tmp_path / "some") if "losses" in line]
    assert [line["step"] for line in some] == [4, 8, 10]
    means = [np.mean(each[:4]), np.mean(each[4:8]), np.mean(each[8:])]
    assert [line["losses"]["loss"] for line in some] == pytest.approx(means)
    assert [line["epoch"] for line in some] == [1.0, 2.0, 2.5]


def test_printed_lines_tell_the_remaining_time(tmp_path, capsys):
    toy_run.train(tmp_path / "a", log_every=4)
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("step ")]
    left = {line.split()[1] for line in lines if re.search(r"  \d+ (s|min \d+ s) left$", line)}
    assert left == {"4/10", "8/10"}  # neither before the first step nor after the last


def test_lengths_of_time_in_words():
    assert [duration(value) for value in (7.4, 59.4, 59.6, 90, 4000, 7200)] == [
        *("7 s", "59 s", "1 min 0 s", "1 min 30 s", "1 h 6 min", "2 h 0 min")
    ]


# The picture


def test_the_log_as_a_picture(tmp_path, monkeypatch, capsys):
    toy_run.train(tmp_path / "a")
    toy_run.train(tmp_path / "b", learning_rate=0.05)
    drawn = {}
    draw = plot._draw
    monkeypatch.setattr(
        plot,
        "_draw",
        lambda axis, title, curves: (drawn.setdefault(title, curves), draw(axis, title, curves)),
    )
    assert plot.plot([tmp_path / "a", tmp_path / "b"]) == tmp_path / "a" / "log.png"
    with Image.open(tmp_path / "a" / "log.png") as picture:
        assert picture.format == "PNG" and min(picture.size) > 300
        assert len(np.unique(np.asarray(picture.convert("RGB")).reshape(-1, 3), axis=0)) > 20
    titles = ["loss", "parts of the loss", "evaluation", "norm of the gradient", "learning rate"]
    assert list(drawn) == titles
    losses = {
        name: [line["losses"]["loss"] for line in read_log(tmp_path / name) if "losses" in line]
        for name in ("a", "b")
    }
    assert drawn["loss"] == {("", name): ([3, 6, 9, 10], values) for name, values in losses.items()}
    assert drawn["evaluation"]["sum", "a"][0] == [0, 4, 8, 10]
    assert drawn["learning rate"]["", "b"][1] == [0.05] * 4

    assert plot.plot([tmp_path / "a"], tmp_path / "new" / "one.svg").read_bytes().startswith(b"<?xml")
    with pytest.raises(CapscoreError, match=r"expected a figure with the suffix \.png, \.svg, \.pdf"):
        plot.plot([tmp_path / "a"], "a.jpg")
    with pytest.raises(CapscoreError, match=r"no log\.jsonl"):
        plot.plot([tmp_path])
    (tmp_path / "log.jsonl").write_text("")
    with pytest.raises(CapscoreError, match="is empty so far"):
        plot.plot([tmp_path])


def test_many_numbers_share_few_panels_with_short_axes(tmp_path):
    names = [f"drop_{kind}" for kind in "abcdefg"] + [f"{side}_r@1" for side in ("text", "image")]
    names += ["original", "agreement_with_base", "de cosine", "fr cosine"]
    lines = [
        {"step": step, "losses": {"loss": 1 / step, "clip": 2 / step}, "lr": 1e-5}
        | {"evaluation": {name: 0.123456789 + 1e-10 * step for name in names}}
        for step in range(1000, 200_000, 1000)
    ]
    panels = {}
    plot._add(panels, lines, "")
    assert list(panels) == [
        *("loss", "parts of the loss", "evaluation: drop", "evaluation: R@1", "evaluation"),
        *("evaluation: cosine", "learning rate"),
    ]
    for title, curves in panels.items():
        figure = plot.figure_class()()
        axis = figure.subplots()
        plot._draw(axis, title, curves)
        figure.canvas.draw()
        for label in (*axis.get_xticklabels(), *axis.get_yticklabels()):
            assert len(label.get_text()) <= 8, (title, label.get_text())


def test_the_running_mean_is_that_of_the_neighbours():
    values = [float(value) for value in range(40)] + [1000.0]
    mean = plot._running_mean(values)  # two at each side
    assert mean[0] == pytest.approx(1.0) and mean[20] == pytest.approx(20.0)
    assert mean[-1] == pytest.approx((38 + 39 + 1000) / 3)


# Parts


def test_gather_takes_one_entry_a_row():
    gather = gather_rows(3, 0, 1)
    assert gather(torch.ones(3, 2)).shape == (3, 2)
    with pytest.raises(CapscoreError, match=r"here 3; its shape is \(6, 2\)"):
        gather(torch.ones(6, 2))


@given(st.integers(1, 60), st.integers(1, 70), st.integers(0, 5))
def test_every_row_comes_once_an_epoch_in_batches_of_like_size(n, size, epoch):
    batches = ShuffledBatches(range(n), size, seed=1)
    epochs = [batches.batch(epoch, step) for step in range(batches.steps_per_epoch)]
    assert sorted(chain(*epochs)) == list(range(n))
    lengths = {len(rows) for rows in epochs}
    assert max(lengths) <= size and max(lengths) - min(lengths) <= 1
    # the same whenever it is asked for
    assert ShuffledBatches(range(n), size, seed=1).batch(epoch, 0) == epochs[0]


@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 4))
def test_parts_of_a_batch_keep_order_and_have_a_row_for_every_process(n, count, world):
    if n < world:
        return
    parts = loop.split_batch(list(range(n)), count, world)
    assert list(chain(*parts)) == list(range(n))
    assert len(parts) <= count and all(len(part) >= world for part in parts)


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"epochs": 0}, "epochs=0: expected a whole number of at least 1"),
        ({"learning_rate": math.nan}, "learning_rate=nan: expected a number above 0"),
        ({"betas": [0.9]}, r"betas=\[0.9\]: expected two numbers"),
        ({"schedule": "step"}, "schedule='step': expected constant, linear or cosine"),
        ({"max_steps": 0}, "max_steps=0: expected at least 1"),
        ({"clip_norm": 0}, "clip_norm=0: expected a number above 0"),
        ({"batch_size": 2, "accumulation_steps": 3}, "accumulation_steps=3: expected at most the batch_size"),
        ({"out": " "}, "expected a folder"),
    ],
)
def test_settings_out_of_range(changes, said):
    with pytest.raises(CapscoreError, match=said):
        LoopSettings(**({"out": "x"} | changes))


def test_a_folder_that_is_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CapscoreError, match="cannot be written"):
        toy_run.train(tmp_path / "file")


def test_reading_a_log(tmp_path):
    with pytest.raises(CapscoreError, match=r"no log\.jsonl"):
        read_log(tmp_path)
    (tmp_path / "log.jsonl").write_text('{"step": 1}\n{"step"')
    assert read_log(tmp_path) == [{"step": 1}]
    (tmp_path / "log.jsonl").write_text('{"step": 1}\nnothing\n{"step": 2}\n')
    with pytest.raises(CapscoreError, match="line 2 is not a line of a log"):
        read_log(tmp_path)
