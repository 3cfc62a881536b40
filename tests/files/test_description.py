"""How files are understood, before anything is scored: `--dry-run` and `read_rows(…).describe()`."""

import json

import pytest

from ..cli.conftest import run
from ..photos import encode, noise

CAPTIONS = [(1, "a cat"), (1, "a small cat"), (2, "a dog")]
ANNOTATIONS = {"images": [{"id": 1, "file_name": "cat.png"}, {"id": 2, "file_name": "dog.png"}]}
ANNOTATIONS["annotations"] = [{"image_id": photo, "caption": text} for photo, text in CAPTIONS]
RESULTS = [{"image_id": 1, "caption": "a cat sits"}, {"image_id": 2, "caption": ""}]


@pytest.fixture
def files(tmp_path):
    (tmp_path / "cat.png").write_bytes(encode(noise()))
    results, annotations = tmp_path / "results.json", tmp_path / "annotations.json"
    results.write_text(json.dumps(RESULTS), encoding="utf-8")
    annotations.write_text(json.dumps(ANNOTATIONS), encoding="utf-8")
    return results, annotations


def test_a_dry_run_says_how_both_files_and_the_two_together_are_read(files, monkeypatch):
    results, annotations = files
    monkeypatch.setattr("capscore.scoring.files.FileScoring", None)  # nothing may be loaded
    done = run("score", str(results), "--references", str(annotations), "--dry-run", "--json")
    first, references, together = json.loads(done.stdout)
    assert done.exit_code == 3 and first["columns"] == {"caption": ["caption"], "photo": ["image_id"]}
    assert (references["rows"], references["photos"], references["problems"]) == (3, 2, {})
    assert together["columns"]["references"] == ["references"] and together["columns"]["photo"] == ["image"]
    shown = ("cat.png", "a cat sits", ["a cat", "a small cat"])
    assert together["first"][0] == dict(zip(("photo", "caption", "references"), shown, strict=True))
    (count, message) = together["problems"]["image"]
    assert count == 1 and "dog.png" in message and "--images" in message
    shown = run("score", str(results), "--references", str(annotations), "--dry-run").stdout
    assert "rows        2" in shown and "photo       'image', 2 distinct" in shown
    assert "1 row without a photo that is found; the first: " in shown


def test_what_is_understood_is_printed_before_the_error_of_files_that_do_not_match(files, tmp_path):
    other = tmp_path / "other.json"
    other.write_text(json.dumps([{"image_id": 9, "caption": "a bird"}]), encoding="utf-8")
    done = run("score", str(files[0]), "--references", str(other), "--dry-run")
    assert done.exit_code == 2 and "a cat sits" in done.stdout and "a bird" in done.stdout
    assert "cannot be matched" in done.stderr


def test_a_dry_run_counts_what_no_metric_scores(tmp_path):
    path, row = tmp_path / "rows.json", {"caption": "a cat", "references": ["a"], "language": "en"}
    odd = [{"caption": 3}, {"language": "xx"}, {"references": 3}]
    path.write_text(json.dumps([row, *({**row, **cells} for cells in odd)]))
    problems = json.loads(run("score", str(path), "--dry-run", "--json").stdout)[0]["problems"]
    counts = {kind: count for kind, (count, _) in problems.items()}
    assert counts == {"candidate": 1, "language": 1, "references": 1}


def test_columns_that_cannot_be_told_are_shown_with_the_error(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("photo,said\ncat.png,a cat\n", encoding="utf-8")
    done = run("score", str(path), "--dry-run")
    assert done.exit_code == 3 and "not read    'photo', 'said'" in done.stdout
    assert "row 0       photo: 'cat.png'; said: 'a cat'" in done.stdout
    assert "--candidate-column" in done.stdout
