"""`capscore calibrate`, and what `capscore score` says with its file."""

import json
import math
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import capscore

from .conftest import flat, read_jsonl, rows_of, run, write_jsonl


@pytest.fixture
def captions(photos, toys, monkeypatch):
    monkeypatch.setattr("capscore.scoring.calibrating.MIN_PHOTOS", 2)
    monkeypatch.setenv("CAPSCORE_BACKBONE", "toy")
    monkeypatch.chdir(photos)
    texts = [(name, text) for name in ("red", "green", "blue") for text in (name, f"{name} {name}")]
    rows = [{"image": f"{name}.png", "caption": text, "language": "en"} for name, text in texts]
    return write_jsonl(photos / "captions.jsonl", rows)


def preds_of(captions, rows):
    given = [{"image": "red.png", "caption": text, "language": language} for text, language in rows]
    return write_jsonl(captions.with_name("preds.jsonl"), given)


def test_scores_are_ranked_by_the_file_that_is_written(captions, tmp_path):
    out = tmp_path / "mine.json"
    done = run("calibrate", captions, "-m", "mcs,text_score", "-o", out, "--set-name", "colours")
    found = json.loads(out.read_text())
    assert [entry["metric"] for entry in found["metrics"]] == ["mcs", "text_score"]
    assert found["set"] == {"name": "colours", "photos": 3, "captions": 6, "languages": {"en": 6}}
    assert found["metrics"][0]["languages"]["en"]["right"]["values"][0] == 2.5
    assert str(tmp_path) not in out.read_text() and "blue" not in out.read_text()
    assert "colours: 6 captions of 3 photos" in flat(done.output)

    preds = write_jsonl(captions.with_name("preds.jsonl"), [{"image": "red.png", "caption": "red green"}])
    done = run("score", preds, "--calibration", out, "--json")
    found = json.loads(done.stdout)["metrics"]["mcs"]
    assert found["mean"] == pytest.approx(2.5 / math.sqrt(2))
    counts = {"rows": 1, "rows_without": 0, "rows_with_fewer_references": 0, "among_all_languages": {"": 1}}
    ranks = {"better_than_right": 0.0, "better_than_shuffled": 100.0}
    assert found["calibration"] == {**ranks, **counts, "set": "colours"}
    said = "mcs: better than 0 % of right captions of all languages and over 99.9 % of shuffled ones"
    assert said in flat(run("score", preds, "--calibration", out).output)
    done = run("score", preds, "--calibration", out, "--prefix", "a ")
    assert "made with prefix:none, scored with prefix:a" in done.output
    assert "better than" not in run("score", preds).output  # nothing ships for the toy


def test_ranks_are_columns_of_the_result_where_the_metric_is_calibrated(captions, tmp_path):
    out = calibrated_with(captions, tmp_path)
    rows = [("red green", "en", 1), ("red", "fr", 2), ("red", "de", 3)]
    rows = [{"image": "red.png", "caption": text, "language": code, "rank": n} for text, code, n in rows]
    preds, scored = write_jsonl(captions.with_name("preds.jsonl"), rows), tmp_path / "o.csv"
    run("score", preds, "--calibration", out, "-m", "clip_score,mcs", "-o", scored)
    lines = scored.read_text().splitlines()
    assert lines[0] == "image,caption,language,rank,clip_score,mcs,mcs_rank,rank_shuffled"  # rank is taken
    # the toy does not know French, but German; 1.7677669 in 6 digits; no right caption is below the lowest
    expected = ["red.png,red green,en,1,1.76777,1.76777,0.0,100.0", "red.png,red,fr,2,2.5,2.5,,"]
    assert lines[1:] == [*expected, "red.png,red,de,3,2.5,2.5,0.0,100.0"]
    run("score", preds, "--calibration", out, "--prefix", "a ", "-o", tmp_path / "other.jsonl")
    assert [row["mcs_rank"] for row in read_jsonl(tmp_path / "other.jsonl")] == [None] * 3


def test_the_lowest_rows_are_printed_and_marked_as_likely_wrong(captions, tmp_path):
    out, page = calibrated_with(captions, tmp_path), tmp_path / "page.html"
    rows = [("red", "en"), ("red blue", "de"), ("green", "fr"), ("blue", "en"), ("red", "en")]
    preds = preds_of(captions, rows)

    def shown(*options):
        return re.findall(r"^ *line (\d)", run("score", preds, "--calibration", out, *options).stdout, re.M)

    # the toy does not know French: where a row has no rank, scores decide
    assert shown("--worst", 2) == ["3", "4"] and shown("--worst", 9) == shown("--sort", "mcs")
    assert shown("--sort", "mcs") == ["3", "4", "2", "1", "5"]
    said = run("score", preds, "--calibration", out, "--worst", 2, "-o", tmp_path / "o.jsonl").stdout
    assert "1 row has no rank, so all are sorted by mcs" in said
    shares = [("en", "3", "0 %", "3"), ("de", "1", "0 %", "1"), ("fr", "1", "–", "–")]
    assert re.findall(r"^(de|en|fr) +(\d) +\S+ +(0 %|–) +(.)$", said, re.M) == shares
    assert "de ranked among right captions of all languages; 1 row has no rank" in flat(said)
    summary = json.loads((tmp_path / "o.summary.json").read_text())["languages"]
    assert summary["fr"] == {"rows": 1, "mcs": 0.0, "rank": None, "likely_wrong": None}
    assert summary["de"]["rank"] == 0.0
    run("score", preds, "--calibration", out, "--report", page)
    assert re.findall(r'data-wrong="(.)"', page.read_text()) == ["0", "1", "1", "1", "1"]


def test_a_dropped_row_says_why_it_has_no_rank(captions, tmp_path):
    rows = [{**row, "references": [row["caption"]] * 5} for row in read_jsonl(captions)]
    calibrated = write_jsonl(captions.with_name("with_references.jsonl"), rows)
    run("calibrate", calibrated, "-m", "ref_clip_score", "-o", tmp_path / "mine.json")
    for row, n, code in zip(rows, (5, 8, 5, 4, 7, 8), ("en", "en", "fr", "en", "de", "fr"), strict=False):
        row |= {"references": [row["caption"]] * n, "language": code}
    files = {name: tmp_path / f"{name}.jsonl" for name in ("keep", "drop")}
    options = {"calibration": tmp_path / "mine.json", "min_rank": 0.1, "cache": False}
    capscore.score_file(rows, "ref_clip_score", **options, **files)
    reasons = [row["capscore_reason"] for row in read_jsonl(files["drop"])]
    few = "no rank: made with refs:5, scored with refs:{}".format
    other = "no rank: there are ranks in de, en, not in fr"
    assert reasons == ["rank 0.0 is below 0.1", few(8), other, few(4), "rank 0.0 is below 0.1", few(8)]


def calibrated_with(captions, folder, lowest=()):
    """A calibration of MCS whose right captions in English begin with these scores."""
    out = folder / "mine.json"
    run("calibrate", captions, "-m", "mcs", "-o", out)
    document = json.loads(out.read_text())
    document["metrics"][0]["languages"]["en"]["right"]["values"][: len(lowest)] = lowest
    out.write_text(json.dumps(document))
    return out


@pytest.mark.parametrize("size", [2, 1024])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_files_are_sorted_and_rows_of_a_low_rank_are_dropped(captions, tmp_path, monkeypatch, suffix, size):
    monkeypatch.setattr("capscore.scoring.files.CHUNK_ROWS", size)
    out = calibrated_with(captions, tmp_path, np.linspace(0, 2.5, 105).tolist())  # so that ranks differ
    texts = [("red", "en"), ("blue", "en"), ("red green", "en"), ("red", "fr"), ("red", "en")]
    rows = []
    for number, (text, code) in enumerate(texts):
        photo = "gone.png" if number == 4 else "red.png"
        rows.append({"id": number, "image": photo, "caption": text, "language": code})
    preds = captions.with_name(f"preds.{suffix}")
    table = pd.DataFrame(rows)
    table.to_csv(preds, index=False) if suffix == "csv" else table.to_parquet(preds)
    files = {option: tmp_path / f"{option}.{suffix}" for option in ("output", "keep", "drop")}
    given = ("--calibration", out, "--on-error", "skip", "--min-rank", 50, "--sort", "rank")
    done = run("score", preds, *given, *(word for name in files for word in (f"--{name}", files[name])))
    assert done.exit_code == 3, done.output
    # the worst first, then rows without a rank, then those without a score
    assert [int(row["id"]) for row in rows_of(files["output"])] == [1, 2, 0, 3, 4]
    assert [int(row["id"]) for row in rows_of(files["keep"])] == [2, 0]
    reasons = {int(row["id"]): row["capscore_reason"] for row in rows_of(files["drop"])}
    assert [*reasons] == [1, 3, 4] and "gone.png" in reasons[4]
    assert reasons[1] == "rank 0.0 is below 50"
    assert reasons[3] == "no rank: there are ranks in de, en, not in fr"
    assert "Kept 2 of 4 scored rows, with a rank in mcs of at least 50; the lowest" in flat(done.stdout)
    assert "1 without a rank" in flat(done.stdout)
    mcs = capscore.load("mcs", backbone="toy")
    options = {"calibration": out, "on_error": "skip"}
    scored = capscore.score_file(preds, mcs, sort="mcs", output=tmp_path / f"py.{suffix}", **options)
    assert scored.rising() == [1, 2, 0, 3]
    streamed = capscore.score_stream(rows, mcs, images=captions.parent, batch_rows=size, **options)
    ranks = [row["rank"] for row in streamed]
    standing = streamed.summary()["metrics"]["mcs"]["calibration"]
    for name, value in scored.to_dict()["metrics"]["mcs"]["calibration"].items():
        assert standing[name] == (pytest.approx(value) if isinstance(value, float) else value), name
    assert (standing["rows"], standing["rows_without"]) == (3, 1)
    np.testing.assert_allclose(ranks[:3], scored.ranks["mcs"]["rank"][:3], atol=1e-9)
    assert ranks[3:] == [None, None]


@pytest.mark.parametrize("limit, code", [("75 %", 0), ("0.75", 0), ("0.74999", 4), ("74.9%", 4), ("0", 4)])
def test_too_many_captions_that_are_likely_wrong_end_with_4(captions, tmp_path, monkeypatch, limit, code):
    monkeypatch.setattr("capscore.scoring.files.MAX_SHOWN_ROWS", 2)
    # so that a right caption has a rank
    out, scored = calibrated_with(captions, tmp_path, [0.0] * 50), tmp_path / "o.jsonl"
    rows = [("red", "en"), ("blue", "en"), ("green", "en"), ("blue", "en"), ("red", "fr")]
    done = run("score", preds_of(captions, rows), "--calibration", out, "--fail-under", limit, "-o", scored)
    said = f"3 of 4 captions are likely wrong (75.0 %); 1 of 5 rows has no rank; --fail-under allows {limit}"
    assert done.exit_code == code and said in flat(done.stderr), done.output
    assert re.findall(r"^line (\d)", done.stdout, re.M) == ["2", "3"] and len(read_jsonl(scored)) == 5
    found = json.loads(scored.with_name("o.summary.json").read_text())
    assert found["likely_wrong"] == {"metric": "mcs", "rows": 3, "ranked": 4}


def test_references_in_several_numbers(captions, tmp_path):
    rows = read_jsonl(captions)
    rows += [{**row, "caption": f"{row['caption']} {row['caption']} x"} for row in rows]
    write_jsonl(captions, rows)
    options = ("--n-references", 1, "--n-references", 3, "--shuffled", 1, "-o", tmp_path / "refs.json")
    assert run("calibrate", captions, "-m", "ref_clip_score@anything", *options).exit_code == 0
    first, second = json.loads((tmp_path / "refs.json").read_text())["metrics"]
    assert [first["languages"]["all"][kind]["n"] for kind in ("right", "shuffled")] == [12, 12]
    assert "refs:1" in first["signature"] and "refs:3" in second["signature"]


def test_photos_inside_a_file_are_distinguished(captions):
    rows = read_jsonl(captions)
    for row in rows:
        row["image"] = {"bytes": captions.with_name(row["image"]).read_bytes(), "path": None}
    pq.write_table(pa.Table.from_pylist(rows), captions.with_name("rows.parquet"))
    done = run("calibrate", captions.with_name("rows.parquet"), "--json")
    assert json.loads(done.stdout)["set"]["photos"] == 3
