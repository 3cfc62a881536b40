"""Scores of one benchmark in several languages are set against each other, item by item."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from scipy.stats import pearsonr

from capscore import CapscoreError
from capscore.benchmarks.run import BenchmarkRun, MetricResult
from capscore.benchmarks.tasks import Outcome, TaskOptions
from capscore.show.language_heatmap import between_languages, write_heatmap


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
    ((name, found),) = between_languages(runs)
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
    path = write_heatmap(runs, tmp_path / "languages.png")
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
    write_heatmap([run(config, **of) for config, of in scores.items()], tmp_path / "languages.png")
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
