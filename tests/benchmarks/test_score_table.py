"""Scores that others computed find their queries, or it is said why not."""

from __future__ import annotations

import json

import numpy as np
import pytest

from capscore import InputError
from capscore.benchmarks.score_table import read_scores
from capscore.benchmarks.tasks import Queries


def queries_of(*captions: tuple[str, str, str]) -> Queries:
    """Queries of (name, caption, photo)."""
    rows = [
        (name, {"caption": caption, "image_id": photo, "image": None, "language": "en"})
        for name, caption, photo in captions
    ]
    return Queries.of(rows, lambda row: [("", row["caption"], "")])


@pytest.fixture
def queries() -> Queries:
    return queries_of(("a|1", "a dog", "1.jpg"), ("a|2", "a cat", "1.jpg"), ("b|1", "a dog", "2.jpg"))


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_by_id_in_any_order_and_with_rows_to_spare(tmp_path, queries):
    rows = [{"id": name, "score": score} for name, score in (("b|1", 3), ("x", 9), ("a|2", 2), ("a|1", 1.5))]
    found = read_scores(write(tmp_path / "s.jsonl", rows), queries)
    assert (found.scores.tolist(), found.matched_by) == ([1.5, 2.0, 3.0], "id")
    assert len(found.notes) == 1


def test_by_photo_and_caption(tmp_path, queries):
    path = tmp_path / "s.csv"
    path.write_text(
        "image,caption,score\nphotos/2.jpg,a  dog,3\nphotos/1.jpg,a cat,2\nphotos/1.jpg,a dog,1\n"
    )
    found = read_scores(path, queries)
    assert (found.scores.tolist(), found.matched_by) == ([1.0, 2.0, 3.0], "image and caption")
    assert found.notes == ()


def test_photo_and_caption_as_other_systems_write_them(tmp_path):
    queries = queries_of(("a", "caf\u00e9 \u00e0 Paris", "\u00e9t\u00e9.jpg"))
    row = {"image": "C:\\photos\\e\u0301te\u0301.jpg", "caption": "cafe\u0301  a\u0300 Paris", "score": 2}
    found = read_scores(write(tmp_path / "s.jsonl", [row]), queries)
    assert found.scores.tolist() == [2.0]


def test_a_query_without_a_row_is_left_to_missing(tmp_path, queries):
    path = write(tmp_path / "s.jsonl", [{"id": "b|1", "score": 3}, {"id": "a|1", "score": None}])
    found = read_scores(path, queries, missing="skip")
    assert np.array_equal(found.scores, [np.nan, np.nan, 3], equal_nan=True)
    assert found.notes == ("s.jsonl has no score for 1 of 3 queries, such as 'a|2'",)
    with pytest.raises(InputError, match=r"no score for 3 of 3 queries.*'a\|1'"):
        read_scores(write(path, [{"id": 0, "score": 3}]), queries, missing="skip")


def test_by_order(tmp_path, queries):
    path = write(tmp_path / "s.jsonl", [{"score": 1}, {"score": None}, {"score": 3}])
    found = read_scores(path, queries)
    assert found.matched_by == "order"
    assert np.array_equal(found.scores, [1, np.nan, 3], equal_nan=True)


@pytest.mark.parametrize(
    "rows, message",
    [
        ([{"id": "a|1", "points": 1}], r"no column 'score'; it has id, points"),
        ([{"id": "a|1", "score": "good"}], r"row 0, score: .*'good' is not a finite number"),
        ([{"id": "a|1", "score": True}], r"row 0, score: .*True is not a finite number"),
        ([{"id": "a|1", "score": 10**400}], r"row 0, score: .*1000.* is not a finite number"),
        ([{"id": "a|1", "score": 1}, {"id": None, "score": 2}], r"row 1, id: .*the id is missing"),
        ([{"score": 1}, {"score": 2}], "2 scores for 3 queries"),
        ([{"id": "a|1", "score": 1}, {"id": "a|2", "score": 1}], r"no score for 1 of 3 queries.*'b\|1'"),
        ([{"id": "a|1", "score": 1}, {"id": "a|1", "score": 2}], r"row 1: .*'a\|1' has two scores, 1 and 2"),
        ([{"image_id": "1.jpg", "caption": "a dog", "score": 1}], r"no score for 2 of 3.*'1\.jpg, a cat'"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path, queries, rows, message):
    with pytest.raises(InputError, match=message):
        read_scores(write(tmp_path / "s.jsonl", rows), queries)
