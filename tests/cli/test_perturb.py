"""`capscore perturb`: what it writes, what it says, and what it refuses before it writes."""

import itertools
import json
import sys

import datasets
import numpy as np
import pytest
from PIL import Image

import capscore
from capscore.perturbations import noun_finder, perturb, perturbed_file, word_finder
from capscore.text import segmentation, word_classes

from .conftest import assert_refused, flat, json_lines, read_jsonl, run, write_jsonl

ROWS = [
    {"id": 1, "caption": "A goat climbs a hill near a lake.", "language": "en"},
    {"id": 2, "caption": "猫が椅子で寝る。", "language": "ja"},
    {"id": 3, "caption": "Zwei Ziegen stehen auf einem Hügel.", "language": "de-AT"},
    {"id": 4, "caption": "แมวนอนบนเก้าอี้", "language": "th"},
    {"id": 5, "caption": "owl", "language": None},
]
CODES = ["en", "ja", "de", "th", None]


@pytest.fixture
def captions(tmp_path):
    return write_jsonl(tmp_path / "captions.jsonl", ROWS)


def expected(kind, **options):
    texts = [perturb([row["caption"]], kind, code, **options) for row, code in zip(ROWS, CODES, strict=True)]
    return [(result.captions[0], bool(result.unchanged[0])) for result in texts]


def test_one_kind_in_the_place_of_the_caption(captions, tmp_path):
    output = tmp_path / "noisy.jsonl"
    done = run("perturb", captions, "--kind", "removal", "--p", "0.3", "--seed", "9", "--output", output)
    rows = read_jsonl(output)
    assert list(rows[0]) == ["id", "caption", "language", "original", "perturbation", "unchanged"]
    assert [(row["caption"], row["unchanged"]) for row in rows] == expected("removal", p=0.3, seed=9)
    assert [row["original"] for row in rows] == [row["caption"] for row in ROWS]
    assert {row["perturbation"] for row in rows} == {"removal"} and rows[4]["unchanged"] is True
    finders = {"": "blanks", "de": "blanks", "en": "blanks", "ja": word_finder("ja"), "th": word_finder("th")}
    settings = {"seed": 9, "p": 0.3, "draws": "shared", "removal": "keep"}
    languages = {code: {"captions": 1, "words": finder, "nouns": None} for code, finder in finders.items()}
    assert json.loads((tmp_path / "noisy.summary.json").read_text(encoding="utf-8")) == {
        **{"input": str(captions), "output": str(output), "captions": 5, "rows": 5, "failures": []},
        "perturbations": {"removal": {"rows": 5, "unchanged": 1, "failed": 0, "settings": settings}},
        "languages": languages,
        "versions": {"capscore": capscore.__version__},
    }
    assert "removal" in done.stdout and "not stated" in done.stdout


def test_several_kinds_make_a_row_each_on_standard_output(captions, monkeypatch, tmp_path):
    given = ("perturb", captions, "-k", "jumble", "-k", "substitution", "-k", "jumble")
    done = run(*given)
    rows, kinds = json_lines(done.stdout), ("jumble", "substitution")
    assert [(row["id"], row["perturbation"]) for row in rows] == [*itertools.product(range(1, 6), kinds)]
    for kind in kinds:
        found = [(row["caption"], row["unchanged"]) for row in rows if row["perturbation"] == kind]
        assert found == expected(kind)
    assert "10 rows written to standard output" in done.stderr and noun_finder("de") in done.stderr
    monkeypatch.setattr(perturbed_file, "CHUNK_ROWS", 2)
    told = run(*given, "--json")
    written = run(*given, "--json", "-o", tmp_path / "noisy.jsonl")
    assert told.stdout == done.stdout == (tmp_path / "noisy.jsonl").read_text(encoding="utf-8")
    assert json.loads(written.stdout)["perturbations"] == json.loads(told.stderr)["perturbations"]


def test_images_stay_with_their_captions(tmp_path):
    features = datasets.Features({"image": datasets.Image(), "caption": datasets.Value("large_string")})
    images = [Image.fromarray(np.full((2, 2, 3), 100 * number, np.uint8)) for number in range(2)]
    rows = {"image": images, "caption": ["a goat on a hill", "an owl in a barn"]}
    datasets.Dataset.from_dict(rows, features=features).save_to_disk(str(tmp_path / "in"))
    output = tmp_path / "out.parquet"
    assert run("perturb", tmp_path / "in", "--kind", "paper", "-o", output).exit_code == 0
    made = datasets.Dataset.from_parquet(str(output), cache_dir=str(tmp_path / "cache"))
    text = datasets.Value("string")
    new = {"original": text, "perturbation": text, "unchanged": datasets.Value("bool")}
    assert made.features == {**features, **new}
    assert [row["image"].getpixel((0, 0))[0] for row in made] == [0] * 5 + [100] * 5
    assert_refused(run("perturb", tmp_path / "in", "--kind", "paper"), "the column 'image' of")


def test_languages_are_split_as_they_are_written(captions, tmp_path):
    done = run("perturb", captions, "-k", "jumble", "--language", "de")
    assert "the language de is taken for every row" in done.stderr
    assert json_lines(done.stdout)[1]["unchanged"] is True  # one word where blanks end words
    assert "2 of 5 captions are written without spaces" in flat(done.stderr)
    rows = [{"caption": "소년이 달린다", "lang": "ko"}, {"caption": "แมวนอน", "lang": "th"}]
    source = write_jsonl(tmp_path / "in.jsonl", rows)
    found = json_lines(run("perturb", source, "-k", "jumble", "--language-column", "lang").stdout)
    assert [row["caption"] for row in found] == ["달린다 소년이", "นอนแมว"]


def test_a_missing_package_is_an_error_before_anything_is_written(captions, tmp_path, monkeypatch):
    monkeypatch.setitem(word_classes._SOURCES, "th", ("no_such_package", *word_classes._SOURCES["th"][1:]))
    monkeypatch.setitem(sys.modules, "fugashi", None)
    for module in (word_classes, segmentation):
        module._load.cache_clear()
    thai = write_jsonl(tmp_path / "thai.jsonl", ROWS[3:])
    for how in ("raise", "skip"):
        given = ("--kind", "paper", "-o", tmp_path / "noisy.jsonl", "--on-error", how)
        assert_refused(run("perturb", thai, *given), "[th]'", 1)
    assert_refused(run("perturb", captions, "-k", "jumble"), "[ja]'", 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["captions.jsonl", "thai.jsonl"]


def test_objects_are_swapped_or_else_nouns(tmp_path):
    caption = "A goat climbs a hill near a lake."
    objects = [["goat", "lake"], [[2, 6], [16, 20], "moon"], [], None]
    rows = [*({"caption": caption, "critical_objects": each} for each in objects), {"caption": caption}]
    source = write_jsonl(tmp_path / "in.jsonl", rows)
    done = run("perturb", source, "-k", "substitution")
    nouns = perturb([caption], "substitution").captions[0]
    swapped = "A lake climbs a hill near a goat.", "A hill climbs a goat near a lake."
    assert [row["caption"] for row in json_lines(done.stdout)] == [*swapped, caption, nouns, nouns]
    assert nouns != caption and "objects that are not in their captions, and were left out: 1" in done.stderr
    # given objects need no finder
    rows = [{"caption": "He kurī me te pōro", "lang": "mi", "objects": ["kurī", "pōro"]}]
    done = run("perturb", write_jsonl(source, rows), "-k", "substitution")
    assert json_lines(done.stdout)[0]["caption"] == "He pōro me te kurī"
    source = tmp_path / "in.csv"  # whose cells are JSON lists
    cells = 'caption,objects\na goat on a hill,"[""goat"", ""hill""]"\nan owl in a barn,owl; barn\n'
    source.write_text(cells)
    told = "in.csv, line 3: objects: 'owl; barn': expected a list"
    assert_refused(run("perturb", source, "-k", "substitution"), told, 1)
    skipped = run("perturb", source, "-k", "substitution", "--on-error", "skip")
    assert [row["caption"] for row in json_lines(skipped.stdout)] == ["a hill on a goat", "an owl in a barn"]


BAD = [
    ({"caption": "  "}, "caption: the caption is blank"),
    ({"caption": 5}, "caption: 5 is a int; expected a string"),
    ({"caption": "a goat", "lang": "xx-nope"}, "language: unknown language code 'xx-nope'"),
    ({"caption": "a goat", "lang": "km"}, "language: "),
    ({"caption": None}, "caption: None is a NoneType; expected a string"),
    ({"caption": "a goat", "objects": "goat"}, None),  # only substitution minds
]


def test_a_result_that_cannot_be_finished_leaves_nothing(captions, tmp_path, monkeypatch):
    def finish(*_):
        assert list(tmp_path.glob("out/.*.partial"))
        raise capscore.CapscoreError("no space")

    monkeypatch.setattr("capscore.perturbations.perturbed_file.Writer.finish", finish)
    (tmp_path / "out").mkdir()
    done = run("perturb", captions, "--kind", "jumble", "-o", tmp_path / "out/o.jsonl")
    assert_refused(done, "no space", 1)
    assert not list((tmp_path / "out").iterdir())


def test_a_bad_row_stops_or_is_left_unchanged(tmp_path):
    good = {"caption": "a goat on a hill", "lang": "en", "objects": ["goat", "hill"]}
    source = write_jsonl(tmp_path / "in.jsonl", [good, *(row for row, _ in BAD)])
    output = tmp_path / "out.jsonl"
    given = ("perturb", source, "-k", "jumble", "-k", "substitution")
    assert_refused(run(*given), f"{source}, line 2: caption: the caption is blank", 1)
    done = run(*given, "--on-error", "skip", "-o", output)
    found = read_jsonl(output)
    assert done.exit_code == 3
    assert found[1]["caption"] == "a hill on a goat" and not found[1]["capscore_error"]
    for number, kind in enumerate(("jumble", "substitution")):
        for row, (before, message) in zip(found[number::2][1:], BAD, strict=True):
            if message is None and kind == "jumble":
                assert (row["caption"], row["capscore_error"]) == ("goat a", None)
                continue
            assert {name: row[name] for name in before} == before and row["unchanged"] is True
            assert row["capscore_error"].startswith(message or "objects: 'goat': expected a list")
    summary = json.loads((tmp_path / "out.summary.json").read_text(encoding="utf-8"))
    for kind, count in (("jumble", 5), ("substitution", 6)):
        assert [summary["perturbations"][kind][name] for name in ("failed", "unchanged")] == [count] * 2
    assert [failure["line"] for failure in summary["failures"]] == [2, 3, 4, 5, 6, 7]
    assert "6 of 7 captions could not be perturbed:\n  line 2: caption: " in done.stderr
    assert "and 1 more" in done.stderr


def test_columns_that_do_not_fit_are_named(tmp_path):
    source = write_jsonl(tmp_path / "rows.jsonl", [{"sentence": "a goat", "unchanged": 1}])
    assert_refused(run("perturb", source, "-k", "jumble"), "--candidate-column: no column seems to hold")
    named = ("--candidate-column", "sentence")
    assert_refused(run("perturb", source, "-k", "jumble", *named), "the column name 'unchanged'")
    write_jsonl(source, [{"sentence": "a goat"}])
    assert json_lines(run("perturb", source, "-k", "jumble", *named).stdout)[0]["sentence"] == "goat a"
