"""VALSE: which rows are valid, and what is odd about its files."""

from __future__ import annotations

import pytest

import capscore
from capscore.benchmarks.data.load import benchmark_builder, builder_class
from capscore.benchmarks.protocols import VALSE_PIECES, foils

from .official import valse as official

pytestmark = pytest.mark.filterwarnings("ignore::capscore.BenchmarkWarning")


@pytest.fixture
def data_dir(tmp_path):
    official.write(tmp_path)
    return tmp_path


def test_two_of_three_votes_make_a_row_valid(data_dir):
    rows = capscore.load_benchmark("valse", "all", data_dir=data_dir, split="test")
    assert rows.filter(lambda row: not row["valid"])["id"] == ["existence_2", "counting_3"]
    builder = benchmark_builder("valse", "all", data_dir=data_dir)
    # v7w_3.jpg is in two pieces
    assert builder.count(list(rows)) == {"rows": 13, "images": 12, "valid": 11}


def test_a_foil_that_is_the_caption_itself_stays(data_dir):
    rows = capscore.load_benchmark("valse", "existence", data_dir=data_dir, split="test")
    assert rows[1]["caption"] == rows[1]["foil"] == "There are 2."


def test_classes_are_lists_of_strings_whatever_the_file_has(data_dir):
    rows = capscore.load_benchmark("valse", "all", data_dir=data_dir, split="test")
    found = {row["image_id"]: (row["classes"], row["classes_foil"]) for row in rows}
    assert found["v7w_1.jpg"] == (["0"], ["3", "1"])
    assert found["v7w_4.jpg"] == (["1"], ["2"])
    assert found["000000000007.jpg"] == (["kite"], ["kites"])
    assert found["000000000008.jpg"] == (["sheep"], [])


def test_names_are_unique_in_a_piece_only(data_dir):
    rows = capscore.load_benchmark("valse", "all", data_dir=data_dir, split="test")
    assert [row["piece"] for row in rows if row["id"] == "actions_test_0"] == [
        "action-replacement",
        "actant-swap",
    ]


def test_pieces_are_those_of_the_protocol(data_dir):
    names = [config.name for config in builder_class("valse").BUILDER_CONFIGS]
    assert names == ["all", *VALSE_PIECES]
    rows = capscore.load_benchmark("valse", data_dir=data_dir, split="test")
    found = foils([1.0] * 13, [0.0] * 13, rows["piece"], rows["valid"], known=VALSE_PIECES)
    assert found.counts["not valid"] == 2
    # the one row of counting-adversarial is not valid
    assert [row.name for row in found.statistics if not row.n] == ["accuracy_counting-adversarial"]


def test_published_pieces_add_up():
    counts = {name: splits["test"] for name, splits in builder_class("valse").COUNTS.items()}
    total = counts.pop("all")
    for name in ("rows", "valid"):
        assert sum(count[name] for count in counts.values()) == total[name]
