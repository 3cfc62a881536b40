"""XVNLI: what its published counts count."""

from __future__ import annotations

from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import capscore
from capscore.benchmarks.data.load import benchmark_builder
from capscore.benchmarks.protocols import xvnli

from .official import xvnli as official

pytestmark = pytest.mark.filterwarnings("ignore::capscore.BenchmarkWarning")


@pytest.fixture
def data_dir(tmp_path):
    official.write(tmp_path)
    return tmp_path


def test_counts(data_dir):
    builder = benchmark_builder("xvnli", "ru", data_dir=data_dir)
    assert builder.count([row for _, row in builder.checked_rows("test")]) == {
        "rows": 6,
        "images": 2,
        "entailment": 1,
        "neutral": 2,
        "contradiction": 2,
        "unlabelled": 1,
        "pairs of experiment 1": 2,
        "pairs of experiment 2": 5,
        "triples of experiment 3": 2,
        "pairs of experiment 1 within a premise": 1,
        "pairs of experiment 2 within a premise": 3,
        "triples of experiment 3 within a premise": 1,
    }


def test_counts_are_the_comparisons_of_the_protocol(data_dir):
    rows = capscore.load_benchmark("xvnli", "es", data_dir=data_dir, split="test")
    counted = benchmark_builder("xvnli", "es", data_dir=data_dir).count(list(rows))
    scores = [0.1 * number for number in range(6)]
    for premises, suffix in ((None, ""), (rows["premise_id"], " within a premise")):
        found = xvnli(scores, rows["label"], rows["image_id"], premise_ids=premises)
        assert [row.n for row in found.statistics] == [
            counted[f"{what}{suffix}"]
            for what in ("pairs of experiment 1", "pairs of experiment 2", "triples of experiment 3")
        ]
        assert found.counts["without label"] == counted["unlabelled"]


_LABELS = ("entailment", "neutral", "contradiction", "-")


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("01"), st.sampled_from(_LABELS)), max_size=9)
)
def test_counts_against_looking_at_every_pair_and_triple(drawn):
    rows = [
        {"image_id": photo, "premise_id": photo + premise, "label": label} for photo, premise, label in drawn
    ]
    counted = benchmark_builder("xvnli", "en").count(rows)
    for unit, suffix in (("image_id", ""), ("premise_id", " within a premise")):
        pairs = [
            {one["label"], other["label"]}
            for one, other in combinations(rows, 2)
            if one[unit] == other[unit] and one["label"] != other["label"]
        ]
        pairs = [pair for pair in pairs if "-" not in pair]
        triples = [
            three
            for three in permutations(rows, 3)
            if len({row[unit] for row in three}) == 1 and [row["label"] for row in three] == [*_LABELS[:3]]
        ]
        assert counted[f"pairs of experiment 1{suffix}"] == pairs.count({"entailment", "contradiction"})
        assert counted[f"pairs of experiment 2{suffix}"] == len(pairs)
        assert counted[f"triples of experiment 3{suffix}"] == len(triples)


def test_rows_without_agreement_stay(data_dir):
    rows = capscore.load_benchmark("xvnli", "ar", data_dir=data_dir, split="test")
    assert rows["label"][-1] == "-"
