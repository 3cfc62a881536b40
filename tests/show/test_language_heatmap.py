"""Scores of one benchmark in several languages are set against each other, item by item."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from capscore import CapscoreError
from capscore.benchmark.run import BenchmarkRun, MetricResult
from capscore.benchmark.tasks import Outcome, TaskOptions
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
