"""Scores that others computed find their queries, or it is said why not."""

from __future__ import annotations

import json

import numpy as np
import pytest

from capscore import InputError
from capscore.benchmarks.score_table import read_scores
from capscore.benchmarks.tasks import Queries

CAFE = ("caf\u00e9 \u00e0 Paris", "\u00e9t\u00e9.jpg")
# names, captions and photos of the queries
QUERIES = [("a|1", "a dog", "1.jpg"), ("a|2", "a cat", "1.jpg"), ("b|1", *CAFE)]


def read(path, rows, **options):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    rows = [
        (name, {"caption": caption, "image_id": photo, "image": None, "language": "en"})
        for name, caption, photo in QUERIES
    ]
    return read_scores(path, Queries.of(rows, lambda row: [("", row["caption"], "")]), **options)


@pytest.mark.parametrize(
    ("rows", "matched_by", "scores", "n_notes"),
    [
        # in any order and with a row to spare
        ([{"id": name, "score": n} for n, name in enumerate(["b|1", "x", "a|2", "a|1"])], "id", [3, 2, 0], 1),
        (
            [
                {
                    "image": "C:\\photos\\e\u0301te\u0301.jpg",
                    "caption": "cafe\u0301  a\u0300 Paris",
                    "score": 3,
                },
                {"image": "photos/1.jpg", "caption": "a cat", "score": 2},
                {"image": "photos/1.jpg", "caption": "a  dog", "score": None},
            ],
            "image and caption",
            [np.nan, 2, 3],
            0,
        ),
        ([{"score": 1}, {"score": None}, {"score": 3}], "order", [1, np.nan, 3], 0),
    ],
)
def test_rows_are_matched(tmp_path, rows, matched_by, scores, n_notes):
    found = read(tmp_path / "s.jsonl", rows)
    np.testing.assert_array_equal(found.scores, scores)
    assert (found.matched_by, len(found.notes)) == (matched_by, n_notes)


def test_a_query_without_a_row_is_left_to_missing(tmp_path):
    rows = [{"id": "b|1", "score": 3}, {"id": "a|1", "score": None}]
    found = read(tmp_path / "s.jsonl", rows, missing="skip")
    np.testing.assert_array_equal(found.scores, [np.nan, np.nan, 3])
    assert found.notes == ("s.jsonl has no score for 1 of 3 queries, such as 'a|2'",)
    with pytest.raises(InputError, match=r"no score for 3 of 3 queries.*'a\|1'"):
        read(tmp_path / "s.jsonl", [{"id": 0, "score": 3}], missing="skip")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"id": "a|1", "points": 1}], r"no column 'score'; it has id, points"),
        ([{"id": "a|1", "score": "good"}], r"row 0, score: .*'good' is not a finite number"),
        ([{"id": "a|1", "score": True}], r"row 0, score: .*True is not a finite number"),
        ([{"id": "a|1", "score": 10**400}], r"row 0, score: .*1000.* is not a finite number"),
        ([{"id": "a|1", "score": 1}, {"id": None, "score": 2}], r"row 1, id: .*the id is missing"),
        ([{"score": 1}, {"score": 2}], "2 scores for 3 queries"),
        ([{"id": "a|1", "score": 1}, {"id": "a|2", "score": 1}], r"no score for 1 of 3 queries.*'b\|1'"),
        ([{"id": "a|1", "score": 1}, {"id": "a|1", "score": 2}], r"row 1: .*'a\|1' has two scores, 1 and 2"),
        ([{"id": "a|1", "score": 2}, {"id": "a|1", "score": 1}], r"row 1: .*has two scores, 2 and 1"),
        ([{"image_id": "1.jpg", "caption": "a dog", "score": 1}], r"no score for 2 of 3.*'1\.jpg, a cat'"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path, rows, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path / "s.jsonl", rows)
