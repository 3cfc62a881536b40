"""`capscore compare`: rows that are matched, files that are refused, tables and documents."""

from __future__ import annotations

import json
import math
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import capscore
from capscore.cli import app
from capscore.errors import InputError
from capscore.metrics.systems import read_systems

REFERENCES = [["a dog runs on the grass"], ["two men sit on a bench"], ["a red car in the street"]]
CAPTIONS = {
    "small": ["a dog sits", "two men stand", "a car"],
    "large": ["a dog runs on grass", "two men sit on a bench", "a red car in a street"],
}


def run(*arguments):
    return CliRunner(env={"COLUMNS": "80"}).invoke(app, ["compare", *map(str, arguments)])


def write(path, rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def rows(numbers, languages=("en",), column="mcs", **more):
    return [
        {"image": f"{photo}.jpg", "language": language, "caption": f"{photo}", column: number, **more}
        for photo, number in enumerate(numbers)
        for language in languages
    ]


@pytest.fixture
def scored(tmp_path):
    """Two systems that `capscore score` scored by BLEU."""
    files = []
    for system, captions in CAPTIONS.items():
        given = write(
            tmp_path / f"{system}.in.jsonl",
            [
                {"image": f"{n}.jpg", "caption": c, "references": r, "language": "en"}
                for n, (c, r) in enumerate(zip(captions, REFERENCES, strict=True))
            ],
        )
        out = tmp_path / f"{system}.jsonl"
        done = CliRunner().invoke(app, ["score", str(given), "-m", "bleu", "-o", str(out), "--quiet"])
        assert done.exit_code == 0, done.output
        files.append(out)
    return files


def test_systems_that_the_command_scored(scored, tmp_path):
    done = run(*scored, "--output", tmp_path / "found.json", "--markdown", tmp_path / "found.md")
    assert done.exit_code == 0, done.output
    document = json.loads((tmp_path / "found.json").read_text())
    found = document["metrics"]["bleu"]
    means = {
        name: sum(json.loads(line)["bleu"] for line in path.read_text().splitlines()) / 3
        for name, path in zip(CAPTIONS, scored, strict=True)
    }
    (comparison,) = found["comparisons"]
    assert comparison["means"] == pytest.approx(means)
    (large,) = comparison["differences"]
    assert large["difference"] == pytest.approx(means["large"] - means["small"])
    assert large["p_randomisation"] == 0.25  # 3 photos, all with the same sign: 2 of 8 ways
    assert found["signature"].startswith("bleu|")
    assert "count all 8 swaps" in done.output
    assert document["matched_by"] == "photo and language"
    assert "| large |" in (tmp_path / "found.md").read_text()
    wide = [line for line in done.output.splitlines() if len(line) > 80]
    assert all("|" in line or line.startswith("Written to ") for line in wide), wide


def test_columns_that_capscore_wrote_name_no_row(tmp_path):
    files = []
    for name, kinds in (("a", ["none", "removal"]), ("b", ["jumble", "none"])):
        rows = [
            {"shot": f"{n}.jpg", "pr_mcs": n / 4, "kind": kind, "capscore_error": kind}
            for n, kind in enumerate(kinds)
        ]
        files.append(write(tmp_path / f"{name}.jsonl", rows))
        summary = {"metrics": {"pr_mcs": {"mean": 0.1, "signature": "pr_mcs|version:0.7.0"}}}
        (tmp_path / f"{name}.summary.json").write_text(json.dumps(summary))
    done = run(*files, "-m", "pr_mcs")
    assert done.exit_code == 0, done.output


def test_other_settings_are_refused(scored):
    again = scored[1].with_name("other.jsonl")
    again.write_bytes(scored[1].read_bytes())
    summary = json.loads(scored[1].with_name("large.summary.json").read_text())
    stated = summary["metrics"]["bleu"]
    stated["signature"] = stated["signature"].replace("|refs:1", "|refs:5")
    again.with_name("other.summary.json").write_text(json.dumps(summary))
    done = run(scored[0], again)
    assert done.exit_code == 1
    assert "small and other were scored in different ways" in done.output
    assert "refs '1' against '5'" in done.output


@pytest.mark.parametrize("empty", ["score", "skip"])
def test_a_system_with_an_empty_caption_compares_with_one_without(scored, empty):
    again = scored[1].with_name("other.jsonl")
    lines = [json.loads(line) for line in scored[1].read_text().splitlines()]
    lines[0]["bleu"] = 0.0 if empty == "score" else None
    again.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    summary = json.loads(scored[1].with_name("large.summary.json").read_text())
    stated = summary["metrics"]["bleu"]
    stated["signature"] = stated["signature"].replace("|version", f"|empty:{empty}|version")
    again.with_name("other.summary.json").write_text(json.dumps(summary))
    done = run(scored[0], again, "-m", "bleu")
    assert done.exit_code == (0 if empty == "score" else 1), done.output
    if empty == "skip":  # a row that was left out is missing, whatever the setting is called
        assert "--common-rows" in done.output and "different ways" not in done.output
        assert run(scored[0], again, "-m", "bleu", "--common-rows").exit_code == 0


def test_rows_are_matched_by_photo_and_language_and_time(tmp_path):
    first = rows([0.1, 0.2, 0.3], ("de", "en"))
    second = [{**row, "image": f"elsewhere/{row['image']}", "lang": row["language"]} for row in first]
    for row in second:
        row["mcs"] += 1
        del row["language"]
    random.Random(3).shuffle(second)
    twice = {"image": "0.jpg", "caption": "again"}
    first.append({**twice, "language": "de", "mcs": 7.0})
    second.append({**twice, "image": "elsewhere/0.jpg", "lang": "deu", "mcs": 8.0})
    a, b = write(tmp_path / "a.jsonl", first), write(tmp_path / "b.jsonl", second)
    found = read_systems({"a": a, "b": b})
    assert (found.scores["mcs"]["b"] - found.scores["mcs"]["a"]).tolist() == pytest.approx([1.0] * 7)
    assert found.languages == ["de", "en"] * 3 + ["de"]
    assert found.photos == ["0.jpg", "0.jpg", "1.jpg", "1.jpg", "2.jpg", "2.jpg", "0.jpg"]


def test_photos_of_one_name_in_two_folders_stay_apart(tmp_path):
    given = [{"image": f"{folder}/1.jpg", "mcs": number} for folder, number in (("x", 1.0), ("y", 2.0))]
    a, b = write(tmp_path / "a.jsonl", given), write(tmp_path / "b.jsonl", given[::-1])
    found = read_systems({"a": a, "b": b})
    assert found.photos == ["x/1.jpg", "y/1.jpg"]
    assert found.scores["mcs"]["b"].tolist() == [1.0, 2.0]


def test_ids_come_first_and_photos_must_agree(tmp_path):
    given = [{"id": n, "image": f"{n}.jpg", "mcs": float(n)} for n in range(3)]
    a, b = write(tmp_path / "a.jsonl", given), write(tmp_path / "b.jsonl", given[::-1])
    found = read_systems({"a": a, "b": b})
    assert found.matched_by == "id" and found.scores["mcs"]["b"].tolist() == [0.0, 1.0, 2.0]
    numbered = [{**row, "id": n} for n, row in enumerate(given[::-1])]
    done = run(a, write(tmp_path / "c.jsonl", numbered))
    assert done.exit_code == 1 and "shows '0.jpg'" in done.output and "--match-by photo" in done.output
    assert read_systems({"a": a, "c": tmp_path / "c.jsonl"}, match_by="photo").scores["mcs"][
        "c"
    ].tolist() == [
        0.0,
        1.0,
        2.0,
    ]


@pytest.mark.parametrize("name", ["id", "image_id", "img_id", "cocoid", "key"])
def test_other_rows_are_never_paired_by_their_order(tmp_path, name):
    given = [{name: f"{n}.jpg", "caption": str(n), "score": n / 10} for n in range(6)]
    better = [{**row, "caption": "x", "score": row["score"] + 0.05} for row in given[::-1]]
    files = [write(tmp_path / "a.jsonl", given), write(tmp_path / "b.jsonl", better)]
    if name in ("cocoid", "key"):
        done = run(*files)
        assert done.exit_code == 1, done.output
        assert f"{name!r} differs" in done.output and "--id-column, or choose --match-by order" in " ".join(
            done.output.split()
        )
        by_order = run(*files, "--match-by", "order", "--json")
        assert json.loads(by_order.stdout)["matched_by"] == "their order"
        files += ["--id-column", name]
    (comparison,) = json.loads(run(*files, "--json").stdout)["metrics"]["score"]["comparisons"]
    (difference,) = comparison["differences"]
    ends = [difference["interval"]["low"], difference["interval"]["high"]]
    assert ends == pytest.approx([0.05, 0.05]) and difference["p_randomisation"] == 2 / 64


def test_columns_of_scores_and_captions_may_differ_between_files_without_ids(tmp_path):
    given = [{"caption": str(n), "mcs": n / 10, "length_ratio": n + 0.5, "kind": "x"} for n in range(3)]
    other = [{**row, "caption": "y", "length_ratio": 0.5} for row in given]
    files = write(tmp_path / "a.jsonl", given), write(tmp_path / "b.jsonl", other)
    assert read_systems(dict(zip("ab", files, strict=True))).matched_by == "their order"


def test_without_photos_references_tell_rows_apart_and_stand_for_photos(tmp_path):
    given = [
        {"references": [text, "more"], "cider": number}
        for text, number in (("x", 1.0), ("y", 2.0), ("x", 3.0))
    ]
    a = write(tmp_path / "a.jsonl", given)
    b = write(tmp_path / "b.jsonl", [given[1], given[0], given[2]])
    found = read_systems({"a": a, "b": b})
    assert found.matched_by == "references" and len(set(found.photos)) == 2
    assert found.scores["cider"]["a"].tolist() == found.scores["cider"]["b"].tolist() == [1.0, 2.0, 3.0]


def test_other_rows_are_refused_unless_the_common_ones_are_asked_for(tmp_path):
    a = write(tmp_path / "a.jsonl", rows([0.1, 0.2, 0.3, 0.4, 0.5]))
    b = write(tmp_path / "b.jsonl", rows([0.3, 0.4, None])[:3])
    done = run(a, b)
    assert done.exit_code == 1
    assert "2 of the 5 rows of a are not in every file ('3.jpg en', '4.jpg en')" in done.output
    assert "--common-rows compares only the 3 that all have" in done.output
    assert run(a, write(tmp_path / "c.jsonl", rows([0.3, 0.4, None, 0.1, 0.1]))).exit_code == 1
    done = run(a, b, "--common-rows", "--json", "--samples", 50)
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["rows_left_out"] == {"a": 2, "b": 0}
    (comparison,) = document["metrics"]["mcs"]["comparisons"]
    assert (comparison["n_rows"], comparison["n_left_out"]) == (2, 1)
    assert comparison["differences"][0]["difference"] == pytest.approx(0.2)
    elsewhere = write(tmp_path / "d.jsonl", [{**row, "image": "9.jpg"} for row in rows([1.0])])
    done = run(a, elsewhere, "--common-rows")
    assert done.exit_code == 1 and "no row is in every file" in done.output


def test_photos_inside_a_file_are_matched_by_their_bytes(tmp_path):
    images = [{"bytes": b"one", "path": None}, {"bytes": b"two", "path": None}]
    pq.write_table(pa.table({"image": images, "score": [1.0, 2.0]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"image": images[::-1], "score": [5.0, 3.0]}), tmp_path / "b.parquet")
    found = read_systems({"a": tmp_path / "a.parquet", "b": tmp_path / "b.parquet"})
    assert found.scores["score"]["b"].tolist() == [3.0, 5.0]


def test_cells_of_a_table_are_numbers(tmp_path):
    (tmp_path / "a.csv").write_text("image,score\n1.jpg,0.5\n2.jpg,\n")
    (tmp_path / "b.csv").write_text("image,score\n2.jpg,1\n1.jpg,1e-1\n")
    found = read_systems({"a": tmp_path / "a.csv", "b": tmp_path / "b.csv"}, common_rows=True)
    assert found.scores["score"]["b"].tolist() == [0.1, 1.0]
    assert math.isnan(found.scores["score"]["a"][1])
    (tmp_path / "c.csv").write_text("image,score\n2.jpg,1\n1.jpg,much\n")
    with pytest.raises(InputError, match=r"c\.csv, row 1 counted from 0: the column 'score' holds 'much'"):
        read_systems({"a": tmp_path / "a.csv", "c": tmp_path / "c.csv"})


def test_several_languages_and_systems_are_shown(tmp_path):
    files = [
        write(tmp_path / f"{name}.jsonl", rows([k / 10 + step * (k % 3) for k in range(12)], ("de", "en")))
        for name, step in (("a", 0.0), ("b", 0.01), ("c", 0.02))
    ]
    done = run(*files[:2], f"third={files[2]}", "--baseline", "third", "--samples", 200)
    assert done.exit_code == 0, done.output
    assert "mcs, de (12 rows, 12 photos)" in done.output
    assert "corrected for the 2 comparisons with third (Holm)" in " ".join(done.output.split())


def test_nothing_in_a_file_moves_the_cursor(tmp_path):
    files = [write(tmp_path / f"{name}.jsonl", rows([0.1, 0.2], column="m\x1b[2J")) for name in "ab"]
    done = run(f"x\x1b]0;y={files[0]}", files[1], "--metric", "m\x1b[2J")
    assert done.exit_code == 0, done.output
    assert "\x1b" not in done.output
    (tmp_path / "a.summary.json").write_text('{"metrics": {"m\\u001b[2J": {"signature": "no\\u001b[2J|x"}}}')
    done = run(*files, "--metric", "m\x1b[2J")
    assert done.exit_code == 1 and "\x1b" not in done.output


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["a.jsonl"], 2, "at least 2 systems"),
        (["a.jsonl", "a.jsonl"], 2, "two files would be called"),
        (["a.jsonl", "b.jsonl", "--baseline", "z"], 2, "--baseline z: expected a or b"),
        (["a.jsonl", "b.jsonl", "--metric", "mcz"], 2, "--metric mcz: there is no such column"),
        (["a.jsonl", "b.jsonl", "--match-by", "name"], 2, "is not one of 'id',"),
        (["a.jsonl", "b.jsonl", "--match-by", "references"], 2, "not all files have a column of references"),
        (["a.jsonl", "none.jsonl"], 2, "no such file"),
        (["a.jsonl", "b.jsonl", "--confidence", "2"], 2, "a share between 0 and 1"),
        (["a.jsonl", "b.jsonl", "--output", "x.txt"], 2, "expected a name that ends in .json"),
    ],
)
def test_wrong_use_is_told(arguments, code, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in "ab":
        write(tmp_path / f"{name}.jsonl", rows([0.1, 0.2]))
    done = run(*arguments)
    assert done.exit_code == code, done.output
    assert message in " ".join(done.output.split())


def test_scores_are_compared_in_python():
    scorer = capscore.load("bleu")
    found = {
        name: scorer.score(captions, references=REFERENCES, language=["en", "en", "en"])
        for name, captions in CAPTIONS.items()
    }
    (compared,) = capscore.compare_systems(found, images=["1", "2", "3"])
    assert compared.differences[0].p_randomisation == 0.25
    other = capscore.load("rouge_l").score(CAPTIONS["large"], references=REFERENCES, language="en")
    with pytest.raises(InputError, match="metric 'bleu' against 'rouge_l'"):
        capscore.compare_systems({"small": found["small"], "large": other})
