"""`score_file`, `compare` and `score_stream` in Python: rows in memory, results, options that are wrong."""

from __future__ import annotations

import json

import pytest

import capscore
from capscore.errors import CapscoreError

ROWS = [
    {"id": "1", "caption": "a cat sits", "references": ["a cat sits there", "one cat"]},
    {"id": "2", "caption": "a dog", "references": ["a dog runs"]},
]


def test_rows_in_memory_score_as_the_scorer_does_and_results_say_so(tmp_path, capsys):
    output, best = tmp_path / "all.jsonl", tmp_path / "best.jsonl"
    found = capscore.score_file(
        ROWS, ["rouge_l", "cider"], language="en", output=output, keep=best, top="50%"
    )
    expected = capscore.load("rouge_l").score(
        [row["caption"] for row in ROWS], references=[row["references"] for row in ROWS], language="en"
    )
    assert found["rouge_l"].scores == pytest.approx(expected.scores, abs=1e-9)
    assert found["rouge_l"].signature == expected.signature
    table = found.to_pandas()
    assert list(table["id"]) == ["1", "2"] and list(table["rouge_l"]) == pytest.approx(expected.scores)
    summary = json.loads((tmp_path / "all.summary.json").read_text(encoding="utf-8"))
    assert summary == json.loads(json.dumps(found.to_dict()))
    assert (summary["rows"], summary["kept"]["n_kept"]) == (2, 1)
    assert json.loads(best.read_text(encoding="utf-8"))["id"] == "1"
    found.print(worst=1)
    shown = capsys.readouterr().out
    assert "a dog" in shown and "a cat sits" not in shown and "Kept 1 of 2 scored rows" in shown


def test_every_door_says_why_a_row_has_no_score(tmp_path):
    rows = [{**ROWS[0]}, {**ROWS[1], "caption": ""}, {**ROWS[1], "references": []}]
    options = {"language": "en", "empty": "skip", "on_error": "skip"}
    found = capscore.score_file(rows, "rouge_l", output=tmp_path / "rows.jsonl", **options)
    written = [
        json.loads(line) for line in (tmp_path / "rows.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    errors = [row["capscore_error"] for row in written]
    assert errors[0] is None and errors[1] == "candidate: an empty caption, left out as asked"
    assert "references" in errors[2] and [*found.failures] == [2]
    assert found.to_pandas()["capscore_error"].fillna("").tolist() == ["", *errors[1:]]
    assert "Scored 1 of 3 rows" in str(found)
    stream = capscore.score_stream(
        iter(rows), capscore.load("rouge_l", empty="skip"), language="en", on_error="skip"
    )
    assert [row["capscore_error"] for row in stream] == errors


def test_a_loaded_scorer_and_a_stream_give_the_same_summary():
    scorer = capscore.load("rouge_l")
    of_file = capscore.score_file(ROWS, scorer, language="en").to_dict()["metrics"]
    stream = capscore.score_stream(iter(ROWS), scorer, language="en")
    assert len(list(stream)) == 2 and stream.summary()["metrics"] == of_file


def test_systems_in_memory_are_compared_without_files():
    other = [{**row, "caption": row["references"][0]} for row in ROWS]
    found = capscore.compare({"a": ROWS, "b": other}, "rouge_l", language="en", bootstrap=100)
    (part,) = found.metrics["rouge_l"]
    assert part.means["b"] == 1.0 and part.means["a"] < 1
    assert list(found.to_pandas()["system"]) == ["a", "b"] and "rouge_l" in found.markdown()


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (["a cat"], {}, "row 0: got a str; expected a dict"),
        (7, {}, "got a int; expected a file, a folder or a list of dicts"),
        ([], {}, "there are no rows"),
        (ROWS, {"metrics": ["rouge_l", "rouge_l"]}, "rouge_l is there twice"),
        (ROWS, {"preset": "coko"}, "expected coco, clipscore"),
        (ROWS, {"top": "30%"}, "keep is missing"),
        (ROWS, {"min_scor": 1}, "rouge_l takes no min_scor=1"),
        (ROWS, {"language": "xx"}, "unknown language code 'xx'"),
        (ROWS, {"on_error": "ignore"}, "expected 'raise' or 'skip'"),
    ],
)
def test_what_cannot_be_scored_is_one_error(rows, options, message):
    with pytest.raises(CapscoreError, match=message):
        capscore.score_file(rows, **{"metrics": "rouge_l", **options})
