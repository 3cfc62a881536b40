"""The table, the Markdown and the figure that show what a benchmark said."""

from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console

from capscore import CapscoreError, MissingExtraError
from capscore.benchmark.figure import write_figure
from capscore.benchmark.present import print_run, statistic_name, to_markdown
from capscore.benchmark.run import BenchmarkRun, MetricResult
from capscore.benchmark.tasks import Options, Outcome, Statistic
from capscore.published import find


@pytest.fixture
def run() -> BenchmarkRun:
    figures = find("flickr8k_human", "expert", "cider")
    outcome = Outcome(
        statistics=(
            Statistic("tau_c", 0.43887, (0.421, 0.4567), 16992),
            Statistic("tau_b", None, None, 16992),
        ),
        counts={"items": 5664, "ratings": 16992, "photos": 1000},
        notes=("a note of the protocol",),
    )
    result = MetricResult(
        metric="cider",
        backbone="",
        signature="cider|segmenter:ptb1|refs:5",
        outcome=outcome,
        published={name: [f for f in figures if f.statistic == name] for name in ("tau_c", "tau_b")},
        n_rows=5664,
        n_queries=5664,
        seconds=1.25,
    )
    return BenchmarkRun(
        benchmark="flickr8k_human",
        config="expert",
        split="test",
        version="1.0.0",
        files={},
        n_rows=5664,
        options=Options(),
        results=[result],
        skipped={"mcs": "its photos are not there"},
    )


def shown(run, width=80) -> str:
    out = io.StringIO()
    print_run(run, Console(file=out, width=width, color_system=None))
    return out.getvalue()


def test_table_of_80_columns(run):
    text = shown(run)
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    (line,) = [line for line in lines if "τ_c" in line]
    # measured, interval, published with its source, difference, number of ratings
    assert line.split() == ["cider", "τ_c", "43.89", "42.1", "to", "45.7", "43.9", "[1]", "−0.01", "16,992"]
    assert "undefined" in text
    assert "[1] Hu et al. 2023, Table 1" in lines
    assert "cider|segmenter:ptb1|refs:5" in text
    assert "note: a note of the protocol" in text
    assert "mcs: not run. its photos are not there" in text


def test_recomputed_figures_have_a_line_of_their_own(run):
    lines = shown(run).splitlines()
    row = next(number for number, line in enumerate(lines) if "τ_c" in line)
    assert lines[row + 1].split()[:3] == ["43.89", "[2]", "−0.00"]


def test_markdown(run):
    text = to_markdown([run])
    assert "## flickr8k_human · expert (test, 5,664 rows)" in text
    assert "| cider | τ_c | 43.89 | 42.1 to 45.7 | 43.9 [1] | −0.01 | 16,992 |" in text
    assert "- `cider|segmenter:ptb1|refs:5`" in text


@pytest.mark.parametrize(
    "name, text",
    [
        ("tau_b", "τ_b"),
        ("spearman", "ρ"),
        ("accuracy_hc", "accuracy HC"),
        ("image_to_text_r@10", "image to text R@10"),
    ],
)
def test_statistics_are_named_as_in_papers(name, text):
    assert statistic_name(name) == text


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_figure(run, tmp_path, suffix):
    path = write_figure([run], tmp_path / f"out{suffix}")
    start = path.read_bytes()[:8]
    assert start.startswith({".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}[suffix])
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_figure_says_what_it_needs(run, tmp_path, monkeypatch):
    with pytest.raises(CapscoreError, match=r"a figure is one of \.png, \.svg, \.pdf"):
        write_figure([run], tmp_path / "out.gif")
    with pytest.raises(CapscoreError, match="no measured number"):
        write_figure([], tmp_path / "out.png")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"capscore\[figures\]"):
        write_figure([run], tmp_path / "out.png")
