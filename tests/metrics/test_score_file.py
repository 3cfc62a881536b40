"""`score_file`, `compare` and `score_stream` in Python: rows in memory, results, options that are wrong."""

import json

import pytest

import capscore
from capscore.errors import CapscoreError, InputError

from ..cli.conftest import read_jsonl, run

ROWS = [
    {"id": "1", "caption": "a cat sits", "references": ["a cat sits there", "one cat"]},
    {"id": "2", "caption": "a dog", "references": ["a dog runs"]},
]


def test_rows_in_memory_score_as_the_scorer_does_and_results_say_so(tmp_path, capsys):
    best = tmp_path / "best.jsonl"
    options = {"language": "en", "output": tmp_path / "all.jsonl", "keep": best, "top": "50%"}
    found = capscore.score_file(ROWS, ["rouge_l", "cider"], **options)
    captions, references = ([row[name] for row in ROWS] for name in ("caption", "references"))
    expected = capscore.load("rouge_l").score(captions, references=references, language="en")
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
    errors = [row["capscore_error"] for row in read_jsonl(tmp_path / "rows.jsonl")]
    assert errors[0] is None and errors[1] == "candidate: an empty caption, left out as asked"
    assert "references" in errors[2] and [*found.failures] == [2]
    assert found.to_pandas()["capscore_error"].fillna("").tolist() == ["", *errors[1:]]
    assert "Scored 1 of 3 rows" in str(found)
    scorer = capscore.load("rouge_l", empty="skip")
    stream = capscore.score_stream(iter(rows), scorer, language="en", on_error="skip")
    assert [row["capscore_error"] for row in stream] == errors


def test_systems_in_memory_are_compared_without_files():
    other = [{**row, "caption": row["references"][0]} for row in ROWS]
    found = capscore.compare({"a": ROWS, "b": other}, "rouge_l", language="en", bootstrap=100)
    (part,) = found.metrics["rouge_l"]
    assert part.figures["b"] == 1.0 and part.figures["a"] < 1
    assert list(found.to_pandas()["system"]) == ["a", "b"] and "rouge_l" in found.markdown()


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (["a cat"], {}, "a cat'?: no such file"),
        (7, {}, "got a int; expected a file, a folder or a list of dicts"),
        ([], {}, "there are no rows"),
        (ROWS, {"metrics": ["rouge_l", "rouge_l"]}, "rouge_l is there twice"),
        (ROWS, {"preset": "coko"}, "expected coco, clipscore"),
        (ROWS, {"top": "30%"}, "keep or drop is missing"),
        (ROWS, {"min_scor": 1}, "rouge_l takes no min_scor=1"),
        (ROWS, {"language": "xx"}, "unknown language code 'xx'"),
        (ROWS, {"on_error": "ignore"}, "expected 'raise' or 'skip'"),
    ],
)
def test_what_cannot_be_scored_is_one_error(rows, options, message):
    with pytest.raises(CapscoreError, match=message):
        capscore.score_file(rows, **{"metrics": "rouge_l", **options})


def test_several_files_are_one_input_in_python_streams_and_the_terminal(tmp_path):
    for number, row in enumerate(ROWS):
        (tmp_path / f"part-{number}.jsonl").write_text(json.dumps(row))
    whole = capscore.score_file(ROWS, "rouge_l", language="en")["rouge_l"].scores.tolist()
    pattern, files = str(tmp_path / "part-*.jsonl"), sorted(tmp_path.glob("part-*"))
    scorer = capscore.load("rouge_l")
    for given in (pattern, files):
        found = capscore.score_file(given, "rouge_l", language="en")
        assert found["rouge_l"].scores.tolist() == pytest.approx(whole, abs=1e-6)
        streamed = [row["rouge_l"] for row in capscore.score_stream(given, scorer, language="en")]
        assert streamed == pytest.approx(whole, abs=1e-6)
        assert len(capscore.read_rows(given).candidates) == len(ROWS)
    done = run("score", *files, "-m", "rouge_l", "--language", "en", "--json")
    assert json.loads(done.stdout)["metrics"]["rouge_l"]["mean"] == pytest.approx(sum(whole) / len(whole))
    files[-1].write_text(json.dumps({**ROWS[-1], "references": 3}))
    for door in (capscore.score_file, lambda rows, scorer: [*capscore.score_stream(rows, scorer)]):
        with pytest.raises(InputError, match=rf"part-{len(ROWS) - 1}.jsonl, line 1: references"):
            door(files, scorer)


def test_ids_without_photos_need_no_backbone(tmp_path):
    """As COCO's results and annotations are; the numbers are those of the same rows with their references."""
    rows = [{"image_id": 1, "caption": "a red bus on a street"}, {"image_id": 2, "caption": "two dogs play"}]
    texts = ["a red bus on a street", "two dogs in snow"]
    known = {"images": [{"id": 1, "file_name": "x.jpg"}, {"id": 2}]}
    known["annotations"] = [{"image_id": n, "caption": text} for n, text in enumerate(texts, start=1)]
    (tmp_path / "refs.json").write_text(json.dumps(known))
    together = [row | {"references": [text]} for row, text in zip(rows, texts, strict=True)]
    whole = capscore.score_file(together, "cider")["cider"].mean
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    for given in (rows, tmp_path / "rows.json"):
        found = capscore.score_file(given, preset="coco", references=tmp_path / "refs.json")
        assert found["cider"].mean == pytest.approx(whole, abs=1e-6) and "clip_score" not in found.scores
        assert any("no photo of image is found" in note for note in found.notes)
