"""The command that perturbs files: what it writes, what it says, and what it refuses before it writes."""

from __future__ import annotations

import csv
import json
import re
import signal
import sys
from pathlib import Path

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from typer.testing import CliRunner

import capscore
from capscore.cli import app
from capscore.perturbations import KINDS, noun_finder, perturb, perturbed_file, word_finder
from capscore.text import segmentation, word_classes

ROWS = [
    {"id": 1, "caption": "A goat climbs a hill near a lake.", "language": "en"},
    {"id": 2, "caption": "猫が椅子で寝る。", "language": "ja"},
    {"id": 3, "caption": "Zwei Ziegen stehen auf einem Hügel.", "language": "de-AT"},
    {"id": 4, "caption": "แมวนอนบนเก้าอี้", "language": "th"},
    {"id": 5, "caption": "owl", "language": None},
]
CODES = ["en", "ja", "de", "th", None]


def run(*arguments):
    result = CliRunner(env={"COLUMNS": "80"}).invoke(app, ["perturb", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def json_lines(text):
    return [json.loads(line) for line in text.splitlines()]


def read_jsonl(path):
    return json_lines(Path(path).read_text(encoding="utf-8"))


@pytest.fixture
def captions(tmp_path):
    return write_jsonl(tmp_path / "captions.jsonl", ROWS)


def expected(kind, **options):
    texts = [perturb([row["caption"]], kind, code, **options) for row, code in zip(ROWS, CODES, strict=True)]
    return [(result.captions[0], bool(result.unchanged[0])) for result in texts]


# --------------------------------------------------------------- the main path


def test_one_kind_in_the_place_of_the_caption(captions, tmp_path):
    output = tmp_path / "noisy.jsonl"
    result = run(captions, "--kind", "removal", "--p", "0.3", "--seed", "9", "--output", output)
    assert result.exit_code == 0
    rows = read_jsonl(output)
    assert [list(row) for row in rows] == [
        ["id", "caption", "language", "original", "perturbation", "unchanged"]
    ] * 5
    assert [(row["caption"], row["unchanged"]) for row in rows] == expected("removal", p=0.3, seed=9)
    assert [row["original"] for row in rows] == [row["caption"] for row in ROWS]
    assert {row["perturbation"] for row in rows} == {"removal"}
    assert rows[4]["unchanged"] is True
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "captions.jsonl",
        "noisy.jsonl",
        "noisy.summary.json",
    ]
    assert json.loads((tmp_path / "noisy.summary.json").read_text(encoding="utf-8")) == {
        "input": str(captions),
        "output": str(output),
        "captions": 5,
        "rows": 5,
        "perturbations": {
            "removal": {
                "rows": 5,
                "unchanged": 1,
                "failed": 0,
                "settings": {"seed": 9, "p": 0.3, "draws": "shared", "removal": "keep"},
            }
        },
        "languages": {
            "": {"captions": 1, "words": "blanks", "nouns": None},
            "de": {"captions": 1, "words": "blanks", "nouns": None},
            "en": {"captions": 1, "words": "blanks", "nouns": None},
            "ja": {"captions": 1, "words": word_finder("ja"), "nouns": None},
            "th": {"captions": 1, "words": word_finder("th"), "nouns": None},
        },
        "failures": [],
        "versions": {"capscore": capscore.__version__},
    }
    table = result.stdout.split("5 rows written")[0]
    assert max(map(len, table.splitlines())) <= 80
    assert "removal" in table and "not stated" in table


def test_several_kinds_make_a_row_each(captions):
    """Without --output: rows on standard output, everything else on standard error."""
    result = run(captions, "-k", "jumble", "-k", "substitution", "-k", "jumble")
    assert result.exit_code == 0
    rows = json_lines(result.stdout)
    assert [(row["id"], row["perturbation"]) for row in rows] == [
        (number, kind) for number in range(1, 6) for kind in ("jumble", "substitution")
    ]
    for kind in ("jumble", "substitution"):
        found = [(row["caption"], row["unchanged"]) for row in rows if row["perturbation"] == kind]
        assert found == expected(kind)
    assert "10 rows written to standard output" in result.stderr
    assert noun_finder("de") in result.stderr
    assert max(map(len, result.stderr.splitlines())) <= 80


def test_all_kinds_as_columns(captions, tmp_path):
    output = tmp_path / "noisy.csv"
    assert run(captions, "--kind", "paper", "--wide", "-o", output).exit_code == 0
    with open(output, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["id", "caption", "language", *KINDS]
    for kind in KINDS:
        texts = [text for text, _ in expected(kind)]
        assert [row[kind] for row in rows] == texts
    assert [row["caption"] for row in rows] == [row["caption"] for row in ROWS]


def test_quiet_and_json(captions, tmp_path):
    quiet = run(captions, "-k", "masking", "-q")
    assert quiet.stderr == ""
    assert len(json_lines(quiet.stdout)) == 5
    told = run(captions, "-k", "masking", "--json")
    assert told.stdout == quiet.stdout
    summary = json.loads(told.stderr)
    assert summary["output"] is None
    written = run(captions, "-k", "masking", "--json", "-o", tmp_path / "noisy.jsonl")
    assert json.loads(written.stdout)["perturbations"] == summary["perturbations"]
    assert (tmp_path / "noisy.jsonl").read_text(encoding="utf-8") == quiet.stdout


@pytest.mark.parametrize("name", ["in.json", "in.csv", "in.tsv", "in.parquet", "in_folder"])
@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".csv", ".tsv", ".parquet", ""])
def test_every_kind_of_file(tmp_path, name, suffix):
    rows = [
        {"text": 'a goat, on a "hill"', "n": "1"},
        {"text": "two owls\tsit\nin a barn", "n": "2"},
    ]
    source = tmp_path / name
    if name.endswith((".csv", ".tsv")):
        with open(source, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, ["text", "n"], dialect="excel-tab" if "tsv" in name else "excel")
            writer.writeheader()
            writer.writerows(rows)
    elif name == "in.json":
        source.write_text(json.dumps(rows), encoding="utf-8")
    elif name == "in.parquet":
        pq.write_table(pa.Table.from_pylist(rows), source)
    else:
        datasets.Dataset.from_list(rows).save_to_disk(str(source))
    output = tmp_path / f"out{suffix}"
    assert run(source, "--column", "text", "-k", "masking", "-k", "jumble", "-o", output).exit_code == 0
    if suffix in (".jsonl", ".json"):
        text = output.read_text(encoding="utf-8")
        found = json.loads(text) if suffix == ".json" else json_lines(text)
    elif suffix in (".csv", ".tsv"):
        with open(output, encoding="utf-8", newline="") as file:
            found = list(csv.DictReader(file, dialect="excel-tab" if suffix == ".tsv" else "excel"))
    elif suffix == ".parquet":
        found = pq.read_table(output).to_pylist()
    else:
        found = datasets.load_from_disk(str(output)).to_list()
    assert [list(row) for row in found] == [["text", "n", "original", "perturbation", "unchanged"]] * 4
    false = "false" if suffix in (".csv", ".tsv") else False
    made = [(row, kind) for row in rows for kind in ("masking", "jumble")]
    for row, (before, kind) in zip(found, made, strict=True):
        assert row == {
            **before,
            "text": perturb([before["text"]], kind).captions[0],
            "original": before["text"],
            "perturbation": kind,
            "unchanged": false,
        }


def test_images_stay_with_their_captions(tmp_path):
    features = datasets.Features({"image": datasets.Image(), "caption": datasets.Value("large_string")})
    images = [Image.fromarray(np.full((2, 2, 3), 100 * number, np.uint8)) for number in range(2)]
    rows = {"image": images, "caption": ["a goat on a hill", "an owl in a barn"]}
    datasets.Dataset.from_dict(rows, features=features).save_to_disk(str(tmp_path / "in"))
    assert run(tmp_path / "in", "--kind", "paper", "-o", tmp_path / "out").exit_code == 0
    made = datasets.load_from_disk(str(tmp_path / "out"))
    assert made.features == {
        **features,
        "original": datasets.Value("string"),
        "perturbation": datasets.Value("string"),
        "unchanged": datasets.Value("bool"),
    }
    assert [row["image"].getpixel((0, 0))[0] for row in made] == [0] * 5 + [100] * 5
    assert "masking" in made.info.description
    refused = run(tmp_path / "in", "--kind", "paper")
    assert refused.exit_code == 2
    assert "the column 'image'" in refused.stderr and "holds bytes" in refused.stderr
    assert refused.stdout == ""


def test_chunks_do_not_matter(captions, monkeypatch):
    whole = run(captions, "--kind", "paper", "-q").stdout
    monkeypatch.setattr(perturbed_file, "CHUNK_ROWS", 2)
    assert run(captions, "--kind", "paper", "-q").stdout == whole


# ------------------------------------------------------------------- languages


def test_one_language_for_all(captions):
    result = run(captions, "-k", "jumble", "--language", "de")
    assert "--language de is taken for every row; the column 'language' is not read" in result.stderr
    assert json_lines(result.stdout)[1]["unchanged"] is True  # one word where blanks end words
    assert "2 of 5 captions are written without spaces, such as '猫が椅子で寝る。'" in " ".join(
        result.stderr.split()
    )


def test_korean_and_thai_are_split_as_they_are_written(tmp_path):
    rows = [
        {"caption": "소년이 달린다", "lang": "ko"},
        {"caption": "แมวนอน", "lang": "th"},
    ]
    source = write_jsonl(tmp_path / "in.jsonl", rows)
    found = json_lines(run(source, "-k", "jumble", "--language-column", "lang").stdout)
    assert [row["caption"] for row in found] == ["달린다 소년이", "นอนแมว"]


def test_a_missing_finder_of_nouns_is_told_before_anything_is_written(captions, tmp_path, monkeypatch):
    missing = ("no_such_package",), *word_classes._SOURCES["th"][1:]
    monkeypatch.setitem(word_classes._SOURCES, "th", missing)
    word_classes._load.cache_clear()
    try:
        for how in ("raise", "skip"):
            output = tmp_path / "noisy.jsonl"
            result = run(captions, "--kind", "paper", "-o", output, "--on-error", how)
            assert result.exit_code == 1
            assert "pip install 'capscore[th]'" in result.stderr
            assert [path.name for path in tmp_path.iterdir()] == ["captions.jsonl"]
        assert run(captions, "-k", "jumble").exit_code == 0
    finally:
        word_classes._load.cache_clear()


def test_a_missing_segmenter_is_told_before_anything_is_written(captions, monkeypatch):
    monkeypatch.setitem(sys.modules, "fugashi", None)
    segmentation._load.cache_clear()
    try:
        result = run(captions, "-k", "jumble")
    finally:
        segmentation._load.cache_clear()
    assert (result.exit_code, result.stdout) == (1, "")
    assert "pip install 'capscore[ja]'" in result.stderr


# --------------------------------------------------------------------- objects


def test_objects_are_exchanged_and_nouns_where_there_are_none(tmp_path):
    caption = "A goat climbs a hill near a lake."
    rows = [
        {"caption": caption, "critical_objects": ["goat", "lake"]},
        {"caption": caption, "critical_objects": [[2, 6], [16, 20], "moon"]},
        {"caption": caption, "critical_objects": []},
        {"caption": caption, "critical_objects": None},
        {"caption": caption},
    ]
    source = write_jsonl(tmp_path / "in.jsonl", rows)
    result = run(source, "-k", "substitution")
    found = [row["caption"] for row in json_lines(result.stdout)]
    nouns = perturb([caption], "substitution").captions[0]
    swapped = "A lake climbs a hill near a goat.", "A hill climbs a goat near a lake."
    assert found == [*swapped, caption, nouns, nouns]
    assert nouns != caption
    assert "objects that are not in their captions, and were left out: 1" in result.stderr
    assert [row["caption"] for row in json_lines(run(source, "-k", "substitution", "--nouns").stdout)] == [
        nouns
    ] * 5


def test_given_objects_need_no_finder(tmp_path):
    rows = [{"caption": "He kurī me te pōro", "lang": "mi", "objects": ["kurī", "pōro"]}]
    source = write_jsonl(tmp_path / "in.jsonl", rows)
    result = run(source, "-k", "substitution")
    assert json_lines(result.stdout)[0]["caption"] == "He pōro me te kurī"
    assert run(source, "-k", "substitution", "--nouns").exit_code == 1


def test_objects_in_csv(tmp_path):
    source = tmp_path / "in.csv"
    source.write_text(
        'caption,objects\na goat on a hill,"[""goat"", ""hill""]"\nan owl in a barn,owl; barn\n',
        encoding="utf-8",
    )
    result = run(source, "-k", "substitution")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "in.csv, line 3 (row 1 counted from 0): objects: 'owl; barn': expected a list" in result.stderr
    skipped = run(source, "-k", "substitution", "--on-error", "skip")
    assert skipped.exit_code == 3
    assert [row["caption"] for row in json_lines(skipped.stdout)] == ["a hill on a goat", "an owl in a barn"]


# ------------------------------------------------------------------------ bad input


def test_a_bad_row_stops_before_anything_is_written(tmp_path):
    rows = [{"caption": "a goat"}, {"caption": "  "}]
    source = write_jsonl(tmp_path / "in.jsonl", rows)
    for arguments in ((), ("-o", tmp_path / "out.jsonl")):
        result = run(source, "-k", "masking", *arguments)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == (
            f"capscore: error: {source}, line 2 (row 1 counted from 0): caption: the caption is blank: there "
            "is nothing to perturb\n"
        )
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


BAD = [
    ({"caption": "  "}, "caption: the caption is blank: there is nothing to perturb"),
    ({"caption": None}, "caption: None is a NoneType; expected a string"),
    ({}, "caption: None is a NoneType; expected a string"),
    ({"caption": 5}, "caption: 5 is a int; expected a string"),
    ({"caption": "a goat", "lang": "xx-nope"}, "language: unknown language code 'xx-nope'"),
    ({"caption": "a goat", "lang": "km"}, "language: Khmer ('km') is written without spaces"),
    ({"caption": "a goat", "objects": "goat"}, None),  # only substitution minds
]


def test_skipped_rows_stay_as_they_are(tmp_path):
    good = {"caption": "a goat on a hill", "lang": "en", "objects": ["goat", "hill"]}
    rows = [good, *(row for row, _ in BAD)]
    source = write_jsonl(tmp_path / "in.jsonl", rows)
    output = tmp_path / "out.jsonl"
    result = run(source, "-k", "jumble", "-k", "substitution", "--on-error", "skip", "-o", output)
    assert result.exit_code == 3
    found = read_jsonl(output)
    for number, kind in enumerate(("jumble", "substitution")):
        part = found[number::2]
        assert (
            part[0]["caption"]
            == perturb(["a goat on a hill"], kind, objects=[["goat", "hill"]] if number else None).captions[0]
        )
        assert part[0]["capscore_error"] is None
        for row, (before, message) in zip(part[1:], BAD, strict=True):
            if message is None and kind == "jumble":
                assert (row["caption"], row["capscore_error"]) == ("goat a", None)
                continue
            assert {name: row[name] for name in before} == before
            assert row["unchanged"] is True
            if message is None:
                message = "objects: 'goat': expected a list"
            if kind == "substitution" and before.get("lang") == "km":
                message = "language: capscore cannot tell the word classes of captions in 'km'"
            assert row["capscore_error"].startswith(message)
    summary = json.loads((tmp_path / "out.summary.json").read_text(encoding="utf-8"))
    assert [summary["perturbations"][kind]["failed"] for kind in ("jumble", "substitution")] == [6, 7]
    assert [failure["line"] for failure in summary["failures"]] == [2, 3, 4, 5, 6, 7, 8]
    assert "7 of 8 captions could not be perturbed:\n  line 2: caption: the caption is blank" in result.stderr
    assert "and 2 more" in result.stderr

    wide = run(source, "-k", "jumble", "-k", "substitution", "--on-error", "skip", "--wide", "-q")
    assert wide.stderr == ""
    last = json_lines(wide.stdout)[-1]
    assert (last["jumble"], last["substitution"], last["caption"]) == ("goat a", "a goat", "a goat")
    assert last["capscore_error"].startswith("objects: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no perturbation is chosen: give --kind"),
        (["-k", "shuffle"], "--kind shuffle: expected repetition"),
        (["-k", "masking", "--p", "1.5"], "--p"),
        (["-k", "masking", "--p", "nan"], "--p"),
        (["-k", "jumble", "--p", "0.5"], "--p is an option of repetition, removal, masking, not of jumble"),
        (["-k", "jumble", "--nouns"], "--nouns is an option of substitution, not of jumble"),
        (["-k", "jumble", "--language", "de", "--language-column", "language"], "give only one of them"),
        (["-k", "jumble", "--language", "xx-nope"], "unknown language code 'xx-nope'"),
        (["-k", "jumble", "--language", "km"], "--language km: Khmer"),
        (
            ["-k", "substitution", "--language", "mi", "--on-error", "skip"],
            "--language mi: capscore cannot tell",
        ),
        (
            ["-k", "jumble", "--column", "captoin"],
            "--candidate-column captoin: there is no such column",
        ),
        (["-k", "jumble", "--on-error", "ignore"], "'ignore' is not one of 'raise',"),
        (["-k", "jumble", "--split", "test"], "--split test goes with"),
        (["-k", "jumble", "-o", "out.xlsx"], "out.xlsx: .xlsx files cannot be written"),
    ],
)
def test_wrong_usage(captions, arguments, message):
    result = run(captions, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert_says(result, message)


def assert_says(result, message):
    assert re.search(message, " ".join(result.stderr.split())), result.stderr


def test_files_that_do_not_fit(tmp_path, captions):
    assert run(tmp_path / "nope.jsonl", "-k", "jumble").exit_code == 2
    other = write_jsonl(tmp_path / "other.jsonl", [{"id": 1, "sentence": "a goat"}])
    result = run(other, "-k", "jumble")
    assert result.exit_code == 2
    assert_says(result, "--candidate-column: no column seems to hold")
    assert json_lines(run(other, "-k", "jumble", "--column", "sentence").stdout)[0]["sentence"] == "goat a"
    for name in ("original", "perturbation", "unchanged"):
        again = write_jsonl(tmp_path / "again.jsonl", [{"caption": "a goat", name: 1}])
        assert_says(run(again, "-k", "jumble"), f"the column name '{name}', which the input already uses")
        assert run(again, "-k", "jumble", "--wide").exit_code == 0
    again = write_jsonl(tmp_path / "again.jsonl", [{"caption": "a goat", "jumble": 1}])
    assert_says(run(again, "-k", "jumble", "--wide"), "the column name 'jumble', which the input")
    assert_says(run(captions, "-k", "jumble", "-o", captions), "is the input")
    empty = tmp_path / "empty.jsonl"
    empty.write_text("", encoding="utf-8")
    assert run(empty, "-k", "jumble").exit_code == 1


def test_output_is_kept_unless_forced(captions, tmp_path):
    output = tmp_path / "noisy.jsonl"
    output.write_text("mine", encoding="utf-8")
    refused = run(captions, "-k", "jumble", "-o", output)
    assert refused.exit_code == 2
    assert output.read_text(encoding="utf-8") == "mine"
    assert run(captions, "-k", "jumble", "-o", output, "--force").exit_code == 0
    assert len(read_jsonl(output)) == 5


def test_an_interrupt_leaves_no_result(captions, tmp_path, monkeypatch):
    output = tmp_path / "noisy.jsonl"
    monkeypatch.setattr(perturbed_file, "CHUNK_ROWS", 2)
    made = perturbed_file.PerturbedFile._chunk

    def interrupted(self, chunk):
        if chunk.start == 2:
            signal.raise_signal(signal.SIGINT)
        return made(self, chunk)

    monkeypatch.setattr(perturbed_file.PerturbedFile, "_chunk", interrupted)
    result = run(captions, "-k", "jumble", "-o", output)
    assert result.exit_code == 130
    assert not output.exists() and not list(tmp_path.glob(".*.partial"))


def test_help_fits(captions):
    result = run("--help")
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "[MASK]" in result.stdout
