"""What is printed of a benchmark, a comparison and any table, in a terminal and as Markdown."""

import dataclasses
import io
import itertools

import pytest
from rich.cells import cell_len
from rich.console import Console

from capscore.benchmarks.protocols import ProtocolResult, Statistic
from capscore.benchmarks.published import find
from capscore.benchmarks.results import BenchmarkRun, MetricResult
from capscore.benchmarks.tasks import TaskOptions
from capscore.errors import CapscoreError
from capscore.options import Sampling
from capscore.tables import MIN_NAME_WIDTH, MIN_WIDE_WIDTH, Report, Table


def of(benchmark, config, *statistics, source="cider", unlike="", **counts):
    """Results of CIDEr beside published figures of a metric."""
    figures = find(benchmark, config, source)
    figures = [dataclasses.replace(figure, unlike=figure.unlike or unlike) for figure in figures]
    published = {part.name: [f for f in figures if f.statistic == part.name] for part in statistics}
    outcome = ProtocolResult(statistics, counts, ("a note of the protocol",))
    what = ("cider", "", "cider|segmenter:ptb2|refs:5")
    return MetricResult(*what, outcome, n_rows=5664, n_queries=5664, seconds=1.25, published=published)


def run_of(*results, **more):
    where = ("flickr8k_human", "expert", "test", "1.0.0", {})
    return BenchmarkRun(*where, 5664, TaskOptions(), [*results], **more)


@pytest.fixture
def run():
    statistics = Statistic("tau_c", 0.43887, (0.421, 0.4567), 16992), Statistic("tau_b", None, None, 16992)
    found = of("flickr8k_human", "expert", *statistics, items=5664, photos=1000)
    return run_of(found, skipped={"mcs": CapscoreError("its photos are not there")})


def report(run, width=80, **changes):
    out = io.StringIO()
    part = dataclasses.replace(run, **changes).report() if isinstance(run, BenchmarkRun) else run
    part.print(Console(file=out, width=width, color_system=None))
    return out.getvalue()


def test_a_terminal_without_greek_letters_still_has_signs(run):
    out = io.BytesIO()
    console = Console(file=io.TextIOWrapper(out, "ascii", errors="replace", write_through=True), width=80)
    run.report().print(console)
    text = out.getvalue().decode()
    assert "tau_c" in text and "(-)" in text and "?" not in text


def test_measured_published_and_recomputed_values_and_remarks(run):
    text = report(run)
    lines = text.splitlines()
    (row,) = [number for number, line in enumerate(lines) if "τ_c" in line]
    # measured, interval, published with its source, whether it is reproduced, number of ratings
    numbers = ["43.89", "42.1", "to", "45.7", "43.9", "[1]", "yes", "16,992"]
    assert lines[row].split() == ["cider", "τ_c", *numbers]
    assert lines[row + 1].split()[:3] == ["43.89", "[2]", "yes"]
    for remark in ("undefined", "[1] Hu et al. 2023, Table 1\n", "cider|segmenter:ptb2|refs:5"):
        assert remark in text
    for remark in ("5,664 items, 1,000 photos; 1.2 s", "a note of the protocol", "mcs: not run. its photos"):
        assert remark in text
    # in a narrow terminal no number is cut
    cells = [cell for line in report(run, 40).splitlines() if "τ_c" in line for cell in line.split()]
    assert [cell for cell in cells if cell not in ("cider", "τ_c")] == numbers


PASCAL = of("pascal50s", "default", Statistic("accuracy_hc", 0.654, None, 1000))
HIGH = of("flickr8k_human", "expert", Statistic("pearson", 0.6, None, 9), source="mcs")
UNLIKE = of("flickr8k_human", "expert", Statistic("tau_b", 0.4, None, 9), unlike="9 rows")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "## flickr8k_human · expert (test, 5,664 rows)"),
        ({}, "| cider | τ_c | 43.89 | 42.1 to 45.7 | 43.9 [1] | yes | 16,992 |"),
        ({}, "- `cider|segmenter:ptb2|refs:5`"),
        ({"options": TaskOptions(sampling=Sampling(confidence=0.999))}, "| 99.9% interval |"),
        ({"results": [HIGH]}, "| 60.00 | 59.9 [1] | no, +0.10 |"),  # published as 0.599
        # another draw has no cell beside a number: it is below, with the reason
        ({"results": [PASCAL]}, "| cider | accuracy HC | 65.40 | 65.4 [1] | yes | 1,000 |"),
        ({"results": [PASCAL]}, "of references and labels): accuracy HC 53.7 [2]\n"),
        ({"results": [UNLIKE]}, "| cider | τ_b | 40.00 | 9 |\n"),
        ({"results": [UNLIKE]}, "- cider: published, but not comparable (9 rows): τ_b 43.6 [1]\n"),
    ],
)
def test_markdown(run, changes, expected):
    assert expected in dataclasses.replace(run, **changes).report().markdown()


@pytest.mark.parametrize(("p_value", "text"), [(0.0002, "p = 0.0002"), (0.04795, "p = 0.048"), (None, "")])
def test_comparisons(run, p_value, text):
    test = {"metrics": ["a", "b"], "method": "bootstrap", "statistic": "tau_c", "p_value": p_value}
    test |= {"difference": 0.1312, "interval": {"low": 0.11, "high": 0.15}}
    found = "τ_c +13.12 (11.0 to 15.0), "
    line = f"a against b (bootstrap): {found + text if p_value else 'undefined'}"
    assert line in report(run, comparisons=[test]).splitlines()
    if p_value:
        several = [test | {"p_value_holm": 0.096}] * 2
        assert line.replace(text, "p = 0.096 (Holm)") in report(run, comparisons=several).splitlines()


@pytest.mark.parametrize(
    ("headings", "row", "width", "blocks"),
    [  # headings are folded between words; further blocks repeat the first column; long names are folded
        (("language", *"abcd"), ["de", *["0.123456"] * 4], 32, "de *0.123456 0.123456 de 0.123456 0.123456"),
        (("clip@" * 8, "randomisation test"), ["a", "0.79"], 80, "test a *0.79"),
        (("", "n"), ["clip_score@xlm-roberta-base/laion5b", "1"], 34, "clip_score@xlm-roberta-base/ *1"),
    ],
)
def test_tables_in_a_terminal(headings, row, width, blocks):
    lines = report(Table(headings, [row], bold=frozenset({(0, 1)})), width).splitlines()
    assert max(map(len, lines)) <= width
    words = [line.split() for line in lines if "─" not in line and "lang" not in line]
    assert blocks in " ".join(map(" ".join, words))


ROW_NAMES = ("line 1234", "part-00017-of-00064.parquet, row 12345678")
PHOTOS = ("1056873310_49c665eb22.jpg", "COCO_val2014_000000000042_a_second_time.jpg", "写真" * 9 + ".png")
CAPTIONS = ("a dog", "two dogs play in the snow " * 9, "犬が雪の中で遊んでいる" * 9, "x" * 90)


@pytest.mark.parametrize("cells", [*itertools.product(ROW_NAMES, PHOTOS, CAPTIONS, (1, 3, 8))])
@pytest.mark.parametrize("width", [40, 80, 200])
def test_names_stay_on_one_line_and_captions_take_what_is_left(cells, width):
    row, photo, caption, n = cells
    headings = ("row", "photo", "caption", *(f"metric {number}" for number in range(n)))
    line = [row, photo, caption, *["−12.3456"] * n]
    text = report(Table(headings, [line], left=3, wide=2, names=(0, 1)), width)
    lines = text.splitlines()
    assert max(map(cell_len, lines)) <= max(width, 2 * MIN_NAME_WIDTH + MIN_WIDE_WIDTH + 3 * 2 + 8)
    assert text.count("−12.3456") == n
    blocks = [at + 1 for at, part in enumerate(lines) if part.startswith("──")]
    for at in blocks:  # both names are on the first line under the headings, whole or with their end
        assert row[-6:] in lines[at] and photo[-6:] in lines[at]
        rest = [part.split()[0] for part in lines[at + 1 :] if part.strip()]
        assert width < 200 or n == 8 or (row in lines[at] and photo in lines[at])
        assert not any(part in (row, photo) for part in rest if len(blocks) == 1)


def test_empty_columns_are_left_out_and_cells_are_escaped():
    table = Table(("system", "x", "y", "n"), [["a|b", "", "–", "1"]], title="T", bold=frozenset({(0, 3)}))
    assert table.markdown() == "### T\n\n| system | n |\n|---|---:|\n| a\\|b | **1** |\n"


def test_published_judges_stand_below_a_judge_of_any_model():
    result = of("flickr8k_human", "expert", Statistic("tau_c", 0.5, None, 3))

    def printed(metric):
        report = run_of(dataclasses.replace(result, metric=metric)).report()
        return "\n".join(part for part in report.parts if isinstance(part, str))

    line = "published judges (other models), τ_c: FLEUR 53 (Lee et al. 2024, Table 1, quoted); RefFLEUR 51.9"
    assert line in printed("judge") and "published judges" not in printed("mcs")


def test_a_table_stands_apart_from_what_follows_it_but_for_a_title():
    table, titled = Table(("a", "b"), [("x", "1")]), Table(("a", "b"), [("y", "2")], title="T")
    lines = [line.strip() for line in str(Report("", ["One.", "Two.", table, "Three.", titled])).splitlines()]
    assert lines[:3] == ["One.", "Two.", ""] and lines[lines.index("Three.") - 1] == ""
    assert lines[lines.index("T") - 2 : lines.index("T")] == ["Three.", ""]
