"""The table type, and what it shows of a benchmark."""

from __future__ import annotations

import dataclasses
import io

import pytest
from rich.console import Console

from capscore.benchmarks.protocols import ProtocolResult, Statistic
from capscore.benchmarks.published import find
from capscore.benchmarks.run import BenchmarkRun, MetricResult
from capscore.benchmarks.tasks import TaskOptions
from capscore.errors import CapscoreError
from capscore.show.benchmark_tables import benchmark_report, metric_name
from capscore.show.system_tables import comparison_report
from capscore.show.tables import Table
from capscore.statistics.system_means import compare_means


@pytest.fixture
def run() -> BenchmarkRun:
    figures = find("flickr8k_human", "expert", "cider")
    statistics = Statistic("tau_c", 0.43887, (0.421, 0.4567), 16992), Statistic("tau_b", None, None, 16992)
    outcome = ProtocolResult(
        statistics=statistics,
        counts={"items": 5664, "ratings": 16992, "photos": 1000},
        notes=("a note of the protocol",),
    )
    result = MetricResult(
        metric="cider",
        backbone="",
        signature="cider|segmenter:ptb2|refs:5",
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
        options=TaskOptions(),
        results=[result],
        skipped={"mcs": CapscoreError("its photos are not there")},
    )


def shown(run, width=80) -> str:
    out = io.StringIO()
    benchmark_report(run).print(Console(file=out, width=width, color_system=None))
    return out.getvalue()


def test_a_terminal_without_greek_letters_still_has_signs(run):
    out = io.BytesIO()
    console = Console(file=io.TextIOWrapper(out, "ascii", errors="replace", write_through=True), width=80)
    benchmark_report(run).print(console)
    (line,) = [line for line in out.getvalue().decode().splitlines() if "tau_c" in line]
    assert "-0.01" in line and "?" not in line


def test_table_of_80_columns(run):
    text = shown(run)
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    (line,) = [line for line in lines if "τ_c" in line]
    # measured, interval, published with its source, difference, number of ratings
    assert line.split() == ["cider", "τ_c", "43.89", "42.1", "to", "45.7", "43.9", "[1]", "−0.01", "16,992"]
    assert "undefined" in text
    assert "[1] Hu et al. 2023, Table 1" in lines
    assert "cider|segmenter:ptb2|refs:5" in text
    assert "note: a note of the protocol" in text
    assert "mcs: not run. its photos are not there" in text


def test_recomputed_figures_have_a_line_of_their_own(run):
    lines = shown(run).splitlines()
    row = next(number for number, line in enumerate(lines) if "τ_c" in line)
    assert lines[row + 1].split()[:3] == ["43.89", "[2]", "0.00"]


def test_names_are_folded_and_no_number_is_cut_where_a_terminal_is_narrow(run):
    named = dataclasses.replace(run.results[0], metric="clip_score@xlm-roberta-large-ViT-H-14/frozen_laion")
    assert max(map(len, shown(dataclasses.replace(run, results=[named])).splitlines())) <= 80
    console = Console(file=io.StringIO(), width=80)
    Table(("system", "p randomisation"), [("a", "0.79")]).print(console)
    assert "randomisation" in console.file.getvalue()  # headings are folded between words
    text = shown(run, width=40)
    cells = [cell for line in text.splitlines() if "τ_c" in line for cell in line.split()]
    shown_cells = ["43.89", "42.1", "to", "45.7", "43.9", "[1]", "−0.01", "16,992"]
    assert [cell for cell in cells if cell not in ("cider", "τ_c")] == shown_cells


@pytest.mark.parametrize(
    "metric, backbone, name",
    [
        ("cider", "", "cider"),
        ("mcs", "embedded", "mcs (embedded)"),
        ("mcs@embedded", "embedded", "mcs@embedded"),
    ],
)
def test_towers_are_named_once(run, metric, backbone, name):
    assert metric_name(dataclasses.replace(run.results[0], metric=metric, backbone=backbone)) == name


def test_the_remark_is_about_languages_with_several_systems():
    photos = ["x", "y"]
    alone = compare_means({"a": [1.0, 2.0]}, images=photos, n=8)
    both = compare_means({"a": [1.0, 2.0], "b": [3.0, 4.0]}, images=photos, n=8)
    parts = comparison_report({"cider": [alone, both]}, {}).parts
    assert any("Differences are system minus a" in str(part) for part in parts)


def test_confidence_is_not_rounded(run):
    run = dataclasses.replace(run, options=TaskOptions(confidence=0.999))
    assert "| 99.9% interval |" in benchmark_report(run).markdown()


def test_what_to_know_of_a_figure_stands_with_its_source(run):
    figures = find("pascal50s", "default", "cider")
    outcome = ProtocolResult((Statistic("accuracy_hc", 0.654, None, 1000),), {})
    found = {"accuracy_hc": [figure for figure in figures if figure.statistic == "accuracy_hc"]}
    result = dataclasses.replace(run.results[0], outcome=outcome, published=found)
    text = " ".join(shown(dataclasses.replace(run, results=[result])).split())
    assert "[1] Hu et al. 2023, Table 1: References and labels are one random draw of the authors" in text


@pytest.mark.parametrize("p_value, text", [(0.0002, "p = 0.0002"), (0.04795, "p = 0.048"), (1.0, "p = 1")])
def test_comparisons(run, p_value, text):
    test = {
        "metrics": ["a", "b"],
        "method": "bootstrap",
        "statistic": "tau_c",
        "difference": 0.1312,
        "interval": {"low": 0.11, "high": 0.15},
        "p_value": p_value,
    }
    line = f"a against b (bootstrap): τ_c +13.12 (11.0 to 15.0), {text}"
    assert line in shown(dataclasses.replace(run, comparisons=[test])).splitlines()


def test_markdown(run):
    text = benchmark_report(run).markdown()
    assert "## flickr8k_human · expert (test, 5,664 rows)" in text
    assert "| cider | τ_c | 43.89 | 42.1 to 45.7 | 43.9 [1] | −0.01 | 16,992 |" in text
    assert "- `cider|segmenter:ptb2|refs:5`" in text


def test_blocks_of_a_narrow_terminal_repeat_the_first_column():
    out = io.StringIO()
    table = Table(("language", *"abcd"), [["de", *["0.123456"] * 4]], bold=frozenset({(0, 1)}))
    table.print(Console(file=out, width=32, color_system=None))
    lines = [line.split() for line in out.getvalue().splitlines() if "de" in line]
    assert lines == [["de", "*0.123456", "0.123456"], ["de", "0.123456", "0.123456"]]


def test_empty_columns_are_left_out_and_cells_are_escaped():
    table = Table(("system", "x", "n"), [["a|b", "", "1"]], title="T")
    assert table.markdown() == "### T\n\n| system | n |\n|---|---:|\n| a\\|b | 1 |\n"
