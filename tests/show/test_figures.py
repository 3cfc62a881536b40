"""Figures: benchmarks, and scores of one benchmark in several languages, item by item."""

from __future__ import annotations

import dataclasses
import errno
import os
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from scipy.stats import pearsonr

from capscore import CapscoreError, MissingExtraError, ResultWriteError
from capscore.benchmarks.run import BenchmarkRun, MetricResult
from capscore.benchmarks.tasks import Outcome, Statistic, TaskOptions
from capscore.show.figures import (
    between_languages,
    readable_ink,
    write_benchmark_figure,
    write_language_heatmap,
)


def run(config, **scores):
    rows = [(str(n), {"image_id": f"{n}.jpg"}) for n in range(5)]
    results = [
        MetricResult(
            metric=name,
            backbone="",
            signature="",
            outcome=Outcome((), {}),
            published={},
            n_rows=5,
            n_queries=5,
            seconds=0.0,
            rows=rows,
            scores=np.array(values, dtype=float),
        )
        for name, values in scores.items()
    ]
    return BenchmarkRun("m_capeval1k", config, "test", "1.0.0", {}, 5, TaskOptions(), results)


def test_correlations():
    runs = [run("en", mcs=[1, 2, 3, 4, 5]), run("de", mcs=[2, 4, 6, 8, 10]), run("fr", mcs=[5, 4, 3, 2, 1])]
    ((name, found),) = between_languages(runs).items()
    assert name == "mcs"
    assert [(label, round(value, 6)) for label, value, _ in found.table()][:3] == [
        ("pearson en de", 1.0),
        ("pearson en fr", -1.0),
        ("pearson de fr", -1.0),
    ]


def test_what_cannot_be_compared_is_told():
    one = run("en", mcs=[1, 2, 3, 4, 5])
    with pytest.raises(CapscoreError, match="in at least two languages"):
        between_languages([one])
    with pytest.raises(CapscoreError, match="no metric has scores in all of these languages"):
        between_languages([one, run("de", cider=[1, 2, 3, 4, 5])])
    other = run("de", mcs=[1, 2, 3, 4, 5])
    turned = dataclasses.replace(other.results[0], rows=other.results[0].rows[::-1])
    with pytest.raises(CapscoreError, match="the same photos in the same order"):
        between_languages([one, dataclasses.replace(other, results=[turned])])


def test_figure(tmp_path):
    runs = [
        run("en", mcs=[1, 2, 3, 4, 5], cider=[1, 2, 3, 5, 4]),
        run("de", mcs=[1, 2, 3, 5, 4], cider=[5, 2, 3, 1, 4]),
    ]
    path = write_language_heatmap(runs, tmp_path / "languages.png")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_two_backbones_below_and_above_the_diagonal(tmp_path, monkeypatch):
    figures, plain = [], Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda self, *given, **more: (figures.append(self), plain(self, *given, **more))[1]
    )
    scores = {
        "en": {"mcs@a": [1, 2, 3, 4, 5], "mcs@b": [1, 2, 3, 5, 4]},
        "de": {"mcs@a": [1, 2, 3, 5, 4], "mcs@b": [5, 2, 3, 1, 4]},
        "fr": {"mcs@a": [2, 1, 3, 4, 9], "mcs@b": [3, 1, 2, 5, 4]},
    }
    write_language_heatmap([run(config, **of) for config, of in scores.items()], tmp_path / "languages.png")
    (figure,) = figures
    panel = figure.axes[0]
    for axis in (panel.get_xticklabels(), panel.get_yticklabels()):
        assert [label.get_text() for label in axis] == ["en", "de", "fr"]
    words = " ".join(text.get_text() for text in figure.findobj(Text))
    assert "mcs@a" in words and "mcs@b" in words
    cells = {tuple(map(int, text.get_position())): text.get_text() for text in panel.texts}
    for column, one in enumerate(scores):
        for row, other in enumerate(scores):
            if row != column:
                name = "mcs@a" if row > column else "mcs@b"
                expected = pearsonr(scores[one][name], scores[other][name]).statistic
                assert float(cells[column, row].replace("−", "-")) == pytest.approx(expected, abs=0.005001)


@pytest.fixture
def measured():
    outcome = Outcome(
        (Statistic("tau_c", 0.43887, (0.421, 0.4567), 16992), Statistic("tau_b", None, None, 9)), {}
    )
    empty = run("de", mcs=[1, 2, 3, 4, 5])
    return dataclasses.replace(empty, results=[dataclasses.replace(empty.results[0], outcome=outcome)])


@pytest.mark.parametrize("suffix", [".png", ".SVG", ".pdf"])
def test_equal_numbers_give_equal_files(measured, tmp_path, suffix):
    path = write_benchmark_figure([measured], tmp_path / f"out{suffix}")
    start = path.read_bytes()[:8]
    assert start.startswith({".png": b"\x89PNG", ".SVG": b"<?xml", ".pdf": b"%PDF"}[suffix])
    other = write_benchmark_figure([measured], tmp_path / f"other{suffix}")
    assert path.read_bytes() == other.read_bytes()


def test_figure_says_what_it_needs(measured, tmp_path, monkeypatch):
    with pytest.raises(CapscoreError, match=r"a figure is one of \.png, \.svg, \.pdf"):
        write_benchmark_figure([measured], tmp_path / "out.gif")
    with pytest.raises(CapscoreError, match="no measured number"):
        write_benchmark_figure([], tmp_path / "out.png")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"capscore\[figures\]"):
        write_benchmark_figure([measured], tmp_path / "out.png")


def test_a_figure_that_cannot_be_written_leaves_what_was_there(measured, tmp_path, monkeypatch):
    path = tmp_path / "map.png"
    path.write_bytes(b"before")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ResultWriteError, match=r"map\.png' could not be written: No space left on device"):
        write_benchmark_figure([measured], path)
    assert path.read_bytes() == b"before"
    assert os.listdir(tmp_path) == ["map.png"]


def test_numbers_stand_out_from_their_cells():
    import matplotlib

    def luminance(colour):
        linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in colour[:3]]
        return float(np.dot((0.2126, 0.7152, 0.0722), linear))

    for place in np.linspace(0, 1, 101):
        colour = matplotlib.colormaps["cividis"](place)
        ink = {"black": 0.0, "white": 1.0}[readable_ink(colour)]
        dark, bright = sorted((luminance(colour), ink))
        assert (bright + 0.05) / (dark + 0.05) >= 4.5
