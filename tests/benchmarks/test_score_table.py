"""Scores that others computed find their queries, or it is said why not."""

import json

import numpy as np
import pytest

from capscore import InputError
from capscore.benchmarks.reading import read_scores
from capscore.benchmarks.tasks import Queries

QUERIES = Queries(ids=["a|1", "a|2", "b|1"])


def read(path, rows, **options):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read_scores(path, QUERIES, **options)


def test_rows_are_matched_by_id_in_any_order(tmp_path):
    rows = [{"id": name, "score": n} for n, name in enumerate(["b|1", "x", "a|2", "a|1"])]
    scores, notes = read(tmp_path / "s.jsonl", rows)
    assert scores.tolist() == [3, 2, 0]
    assert notes == ("s.jsonl has 1 row without a query, such as 'x'",)


def test_a_query_without_a_row_is_left_to_missing(tmp_path):
    rows = [{"id": "b|1", "score": 3}, {"id": "a|1", "score": None}]
    scores, notes = read(tmp_path / "s.jsonl", rows, missing="skip")
    np.testing.assert_array_equal(scores, [np.nan, np.nan, 3])
    assert notes == ("s.jsonl has no score for 1 of 3 queries, such as 'a|2'",)
    with pytest.raises(InputError, match=r"no score for 3 of 3 queries.*'a\|1'"):
        read(tmp_path / "s.jsonl", [{"id": 0, "score": 3}], missing="skip")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"id": "a|1", "points": 1}], r"no column 'score'; it has id, points"),
        ([{"id": "a|1", "score": "good"}], r"s.jsonl, line 1: the column 'score' holds 'good'; expected"),
        ([{"id": "a|1", "score": True}], r"line 1: the column 'score' holds True; expected a finite"),
        ([{"id": "a|1", "score": 10**400}], r"line 1: the column 'score' holds 1000.*; expected a finite"),
        ([{"id": "a|1", "score": 1}, {"id": None, "score": 2}], r"s.jsonl, line 2: the id is missing"),
        ([{"score": 1}] * 3, "no column 'id'; it has score; write_queries writes the rows to score"),
        ([{"id": "a|1", "score": 1}, {"id": "a|2", "score": 1}], r"no score for 1 of 3 queries.*'b\|1'"),
        ([{"id": "a|1", "score": 2}, {"id": "a|1", "score": 1}], r"line 2: .*has two scores, 2 and 1"),
    ],
)
def test_mismatched_scores_are_named(tmp_path, rows, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path / "s.jsonl", rows)
