"""`capscore calibrate`, and what `capscore score` says with its file."""

from __future__ import annotations

import json
import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from typer.testing import CliRunner

from capscore.cli import app

from ..toy import BLUE, GREEN, RED, ColourBackbone

COLOURS = {"red": RED, "green": GREEN, "blue": BLUE}


def run(*arguments):
    return CliRunner(env={"COLUMNS": "80"}).invoke(app, [*map(str, arguments)])


@pytest.fixture
def captions(tmp_path, monkeypatch):
    monkeypatch.setattr("capscore.backbones.loading.load_backbone", lambda name, **options: ColourBackbone())
    monkeypatch.setenv("CAPSCORE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("capscore.metrics.calibration.MIN_PHOTOS", 2)
    rows = []
    for name, pixels in COLOURS.items():
        Image.fromarray(pixels).save(tmp_path / f"{name}.png")
        rows += [
            {"image": f"{name}.png", "caption": text, "language": "en"} for text in (name, f"{name} {name}")
        ]
    path = tmp_path / "captions.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_a_file_is_written_and_scores_are_ranked_by_it(captions, tmp_path):
    out = tmp_path / "mine.json"
    done = run("calibrate", captions, "-m", "mcs,text_score", "-o", out, "--set-name", "colours")
    assert done.exit_code == 0, done.output
    found = json.loads(out.read_text())
    assert [entry["metric"] for entry in found["metrics"]] == ["mcs", "text_score"]
    assert found["set"] == {"name": "colours", "photos": 3, "captions": 6, "languages": {"en": 6}}
    assert found["metrics"][0]["languages"]["en"]["right"]["values"][0] == 2.5
    assert str(tmp_path) not in out.read_text() and "blue" not in out.read_text()
    assert "colours: 6 captions of 3 photos" in " ".join(done.output.split())

    preds = tmp_path / "preds.jsonl"
    preds.write_text('{"image": "red.png", "caption": "red green"}\n')
    scored = tmp_path / "scored.jsonl"
    done = run("score", preds, "--calibration", out, "-o", scored)
    assert done.exit_code == 0, done.output
    assert "mcs: better than 0 % of right captions and over 99.9 % of shuffled ones (colours)" in done.output
    summary = json.loads((tmp_path / "scored.summary.json").read_text())
    assert summary["metrics"]["mcs"]["mean"] == pytest.approx(2.5 / math.sqrt(2))
    assert summary["metrics"]["mcs"]["calibration"] == {
        "better_than_right": 0.0,
        "better_than_shuffled": 100.0,
        "right_captions_better_than_right": 0.0,
        "rows": 1,
        "rows_without": 0,
        "set": "colours",
    }
    done = run("score", preds, "--calibration", out, "--prefix", "a ")
    assert "not comparable with a calibration: made with prefix:none, scored with prefix:a" in done.output
    assert "better than" not in run("score", preds).output  # nothing ships for the toy


def test_each_of_a_few_rows_has_its_rank(captions, tmp_path):
    out = tmp_path / "mine.json"
    done = run("calibrate", captions, "-m", "mcs,clip_score", "-o", out)
    assert done.exit_code == 0, done.output
    preds = tmp_path / "preds.jsonl"
    rows = [
        ("red.png", "red", "en"),
        ("red.png", "blue", "en"),
        ("red.png", "red", "de"),
        ("red.png", "red red", "en"),
    ]
    preds.write_text(
        "".join(
            json.dumps({"image": image, "caption": caption, "language": language}) + "\n"
            for image, caption, language in rows
        )
    )
    done = run("score", preds, "--calibration", out)
    lines = [line.split() for line in done.output.splitlines()]
    shown = [line for line in lines if line[:1] == ["red.png"]]
    # every right caption scores 2.5, so none is below it; German was not calibrated
    assert [line[-2:] for line in shown] == [["0", "%"], ["0", "%"], ["2.5000", "–"], ["0", "%"]]
    assert "rank: percent of right captions" in done.output
    assert "rank" not in run("score", preds).output  # nothing ships for the toy
    assert "rank" not in run("score", preds, "--calibration", out, "-m", "mcs,clip_score").output
    assert "rank" not in run("score", preds, "--calibration", out, "--json").output


def test_references_in_several_numbers(captions, tmp_path):
    out = tmp_path / "refs.json"
    more = [json.loads(line) for line in captions.read_text().splitlines()]
    more += [{**row, "caption": f"{row['caption']} {row['caption']} x"} for row in more]
    captions.write_text("".join(f"{json.dumps(row)}\n" for row in more))
    options = ("--n-references", 1, "--n-references", 3, "-o", out, "--quiet")
    done = run("calibrate", captions, "-m", "ref_clip_score@anything", *options)
    assert done.exit_code == 0 and not done.output, done.output
    signatures = [entry["signature"] for entry in json.loads(out.read_text())["metrics"]]
    assert ["refs:1" in one for one in signatures] == [True, False]
    assert "refs:3" in signatures[1]


def test_photos_inside_a_file(captions, tmp_path):
    rows = [json.loads(line) for line in captions.read_text().splitlines()]
    for row in rows:
        row["image"] = {"bytes": (tmp_path / row["image"]).read_bytes(), "path": None}
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    done = run("calibrate", tmp_path / "rows.parquet", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["set"]["photos"] == 3


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "--output: expected a file"),
        (("-o", "x.txt"), 2, "expected a name that ends in .json"),
        (("-m", "mcz", "-o", "x.json"), 2, "did you mean 'mcs'"),
        (("--beta", "0.2", "-o", "x.json"), 2, "an option of infometic"),
        (("-o", "x.json", "--images", "elsewhere"), 2, "--images elsewhere does not exist"),
    ],
)
def test_wrong_use_is_told(captions, arguments, code, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run("calibrate", captions, *arguments)
    assert done.exit_code == code, done.output
    assert message in " ".join(done.output.split())


def test_a_few_photos_are_not_enough(captions, tmp_path, monkeypatch):
    monkeypatch.setattr("capscore.metrics.calibration.MIN_PHOTOS", 20)
    done = run("calibrate", captions, "-o", tmp_path / "x.json")
    assert done.exit_code == 1
    assert "no language that the metric knows has 20 photos" in " ".join(done.output.split())


def test_a_file_that_is_none_is_refused_before_anything_is_scored(captions, tmp_path):
    wrong = tmp_path / "wrong.json"
    wrong.write_text("{}")
    done = run("score", captions, "--calibration", wrong)
    assert done.exit_code == 2 and "is not a file that `capscore calibrate` wrote" in " ".join(
        done.output.split()
    )
