"""The logs of runs as a picture."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from capscore.errors import CapscoreError
from training import plot


def write_log(folder, offset=0.0, steps=range(1, 200)):
    """Runs with a loss and its parts, five kinds of evaluation numbers, rates and norms."""
    names = [f"drop_{kind}" for kind in "ab"] + [f"{side}_r@1" for side in ("text", "image")]
    names += ["original", "de cosine", "fr cosine"]
    folder.mkdir()
    with open(folder / "log.jsonl", "w") as file:
        for step in steps:
            losses = {"loss": offset + 100 / step, "clip": 2 / step}
            numbers = {name: 0.123456789 + 1e-10 * step for name in names}
            line = {"step": 1000 * step, "losses": losses, "evaluation": numbers, "lr": 1e-5, "grad_norm": 1}
            file.write(json.dumps(line) + "\n")


def test_logs_of_runs_are_few_panels_with_short_axes(tmp_path, monkeypatch):
    write_log(tmp_path / "a")
    write_log(tmp_path / "b", offset=1.0, steps=range(1, 20))
    drawn, draw = {}, plot._draw

    def watched(axis, title, curves):
        draw(axis, title, curves)
        drawn[title] = axis, curves

    monkeypatch.setattr(plot, "_draw", watched)
    assert plot.plot([tmp_path / "a", tmp_path / "b"]) == tmp_path / "a" / "log.png"
    with Image.open(tmp_path / "a" / "log.png") as picture:
        assert picture.format == "PNG" and min(picture.size) > 300
        assert len(np.unique(np.asarray(picture.convert("RGB")).reshape(-1, 3), axis=0)) > 20
    assert list(drawn) == [
        *("loss", "parts of the loss", "evaluation: drop", "evaluation: R@1", "evaluation"),
        *("evaluation: cosine", "norm of the gradient", "learning rate"),
    ]
    for axis, _ in drawn.values():
        assert all(len(label.get_text()) <= 8 for label in (*axis.get_xticklabels(), *axis.get_yticklabels()))
    axis, curves = drawn["loss"]
    assert axis.get_yscale() == "log" and set(curves) == {("", "a"), ("", "b")}
    assert curves["", "b"] == ([1000 * n for n in range(1, 20)], [1 + 100 / n for n in range(1, 20)])
    assert drawn["evaluation: cosine"][1]["de", "a"][0][:2] == [1000, 2000]


def test_a_picture_has_a_suffix_that_is_known_and_a_log_to_show(tmp_path):
    write_log(tmp_path / "a", steps=[1, 2])
    assert plot.plot([tmp_path / "a"], tmp_path / "new" / "one.svg").read_bytes().startswith(b"<?xml")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "log.jsonl").write_text("")
    for folder, path, said in (
        ("a", "a.jpg", r"expected a figure with the suffix \.png, \.svg, \.pdf"),
        ("nothing", None, r"no log\.jsonl"),
        ("empty", None, "is empty so far"),
    ):
        with pytest.raises(CapscoreError, match=said):
            plot.plot([tmp_path / folder], path)


def test_the_running_mean_is_that_of_the_neighbours():
    mean = plot._running_mean([*(float(value) for value in range(40)), 1000.0])  # two at each side
    assert [mean[0], mean[20], mean[-1]] == pytest.approx([1.0, 20.0, (38 + 39 + 1000) / 3])
