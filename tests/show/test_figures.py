"""Figures of benchmarks."""

from __future__ import annotations

import dataclasses
import sys

import numpy as np
import pytest

from capscore import CapscoreError, MissingExtraError
from capscore.benchmarks.protocols import ProtocolResult, Statistic
from capscore.benchmarks.run import BenchmarkRun, MetricResult
from capscore.benchmarks.tasks import TaskOptions
from capscore.show.figures import write_benchmark_figure


def run(config, **scores):
    rows = [(str(n), {"image_id": f"{n}.jpg"}) for n in range(5)]
    results = [
        MetricResult(
            metric=name,
            backbone="",
            signature="",
            outcome=ProtocolResult((), {}),
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


@pytest.fixture
def measured():
    outcome = ProtocolResult(
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
