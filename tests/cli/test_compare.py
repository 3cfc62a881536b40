"""`capscore compare`: rows matched, files refused, tables."""

import json
import math
import random
import re
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import capscore
from capscore.comparing.systems import read_systems
from capscore.embedding import photos
from capscore.options import RowOptions
from tools.tiny.colours import JudgingColours

from ..toy_command import write_photos
from .conftest import assert_refused, flat, read_jsonl, run, write_jsonl

REFERENCES = [["a dog runs on the grass"], ["two men sit on a bench"], ["a red car in the street"]]
CAPTIONS = {"small": ["a dog sits", "two men stand", "a car"]}
CAPTIONS["large"] = ["a dog runs on grass", "two men sit on a bench", "a red car in a street"]


def rows(numbers, languages=("en",)):
    rows = [{"image": f"{photo}.jpg", "caption": f"{photo}", "mcs": n} for photo, n in enumerate(numbers)]
    return [row | {"language": language} for row in rows for language in languages]


def systems_of(folder, *files):
    """Rows written as a.jsonl, b.jsonl, …, and read as systems a, b, …."""
    named = zip("abc"[: len(files)], files, strict=True)
    return {name: write_jsonl(folder / f"{name}.jsonl", given) for name, given in named}


@pytest.fixture
def scored(tmp_path):
    files = [tmp_path / f"{system}.jsonl" for system in CAPTIONS]
    for path in files:
        texts = zip(CAPTIONS[path.stem], REFERENCES, strict=True)
        given = [{"image": f"{n}.jpg", "caption": c, "references": r} for n, (c, r) in enumerate(texts)]
        capscore.score_file([row | {"language": "en"} for row in given], "bleu", output=path)
    return files


def stated(path):
    return json.loads(path.with_suffix(".summary.json").read_text())["metrics"]["bleu"]


def test_systems_that_were_scored(scored, tmp_path):
    made = [tmp_path / "found.json", tmp_path / "found.md"]
    done = run("compare", *scored, "--output", made[0], "--markdown", made[1])
    document = json.loads(made[0].read_text())
    found = document["metrics"]["bleu"]
    corpus = {path.stem: stated(path)["corpus_bleu_4"] for path in scored}
    (comparison,) = found["comparisons"]
    (large,) = comparison["differences"]
    assert comparison["figures"] == pytest.approx(corpus)
    assert large["difference"] == pytest.approx(corpus["large"] - corpus["small"])
    assert large["p_value"] == large["p_value_holm"] == 0.25  # 3 photos, all with the same sign: 2 of 8 ways
    assert found["signature"].startswith("bleu|") and document["matched_by"] == "photo and language"
    assert "3 images are few for a bootstrap" in done.output and "| large |" in made[1].read_text()


def test_files_without_scores_are_scored_and_the_last_line_says_who_wins(tmp_path):
    """Six of six photos higher: 2 of 64 ways are as extreme."""
    files = [tmp_path / "small.jsonl", tmp_path / "large.jsonl"]
    for path, text in zip(files, ("a", "a dog"), strict=True):
        write_jsonl(path, [{"id": n, "caption": text, "references": ["a dog"]} for n in range(6)])
    done = run("compare", *files, "--metric", "rouge_l", "--language", "en")
    assert re.search(r"rouge_l: large scores higher than small by 0\..*p 0\.031\.$", flat(done.stdout))
    assert re.search(r"\nlarge +\*1.0000 ", done.stdout)  # the better one is marked
    assert not [path for path in tmp_path.iterdir() if path not in files]
    assert_refused(run("compare", *files), "--metric mcs", 2)
    done = run("compare", files[1], f"same={files[1]}", "-m", "rouge_l", "--language", "en")
    assert done.stdout.strip().endswith("no difference between same and large is shown, p 1.")


def test_columns_are_the_ones_that_are_named(tmp_path):
    row = {"photo": "1.jpg", "said": "ein Hund", "right": ["ein Hund"], "code": "de"}
    rows = [{**row, "key": key} for key in "12"]
    files = systems_of(tmp_path, rows, rows).values()
    named = ("--candidate-column", "said", "--references-column", "right", "--language-column", "code")
    done = run("compare", *files, "-m", "rouge_l", *named, "--id-column", "key", "--json")
    assert done.exit_code == 0 and "|lang:de|" in done.stdout, done.output
    rows = [{"id": key, "response": "ein Hund", "references": ["ein Hund"]} for key in "12"]
    read_as = "the column 'response' is read as the candidate, by its name"
    assert capscore.compare({"x": rows, "y": rows}, "rouge_l").notes[:2] == [f"x: {read_as}", f"y: {read_as}"]


def with_signature(path, old, new):
    bleu = {**stated(path), "signature": stated(path)["signature"].replace(old, new)}
    path.with_suffix(".summary.json").write_text(json.dumps({"metrics": {"bleu": bleu}}))
    return path


def test_other_settings_are_refused(scored):
    done = run("compare", scored[0], with_signature(scored[1], "|refs:1", "|refs:5"))
    assert_refused(done, "small and large were scored in different ways", 1)
    assert "refs '1' against '5'" in flat(done.stderr)


@pytest.mark.parametrize(("empty", "number", "code"), [("score", 0.0, 0), ("skip", None, 1)])
def test_a_system_with_an_empty_caption_compares_with_one_without(scored, empty, number, code):
    other = with_signature(scored[1], "|version", f"|empty:{empty}|version")
    first, *more = read_jsonl(other)
    write_jsonl(other, [{**first, "bleu": number}, *more])
    done = run("compare", scored[0], other, "-m", "bleu")
    assert done.exit_code == code, done.output
    if code:  # a row that was left out is missing, whatever the setting is called
        assert "--common-rows" in done.output and "different ways" not in done.output
        assert run("compare", scored[0], other, "-m", "bleu", "--common-rows").exit_code == 0


def test_ids_may_be_numbers_or_texts_and_names_decomposed(tmp_path):
    ids = [0.0, 1, "cafe\u0301"], ["caf\u00e9", "1", 0]
    files = [[{"id": value, "mcs": float(n)} for n, value in enumerate(own)] for own in ids]
    found = read_systems(systems_of(tmp_path, *files)).scores["mcs"]
    assert (found["a"].tolist(), found["b"].tolist()) == ([0, 1, 2], [2, 1, 0])


def test_rows_are_matched_by_photo_and_language_and_time(tmp_path):
    first, second = rows([0.1, 0.2, 0.3], ("de", "en")), []
    for row in first:
        second.append({"image": f"else/{row['image']}", "lang": row["language"], "mcs": row["mcs"] + 1})
    random.Random(3).shuffle(second)
    first.append({"image": "0.jpg", "caption": "again", "language": "de", "mcs": 7.0})
    second.append({"image": "else/0.jpg", "caption": "again", "lang": "deu", "mcs": 8.0})
    found = read_systems(systems_of(tmp_path, first, second))
    assert (found.scores["mcs"]["b"] - found.scores["mcs"]["a"]).tolist() == pytest.approx([1.0] * 7)
    assert found.rows.languages == ["de", "en"] * 3 + ["de"]
    assert found.rows.photos == ["0.jpg", "0.jpg", "1.jpg", "1.jpg", "2.jpg", "2.jpg", "0.jpg"]


def test_ids_come_first_and_photos_must_agree(tmp_path):
    given = [{"id": n, "image": f"{n}.jpg", "mcs": float(n)} for n in range(3)]
    found = read_systems(systems_of(tmp_path, given, given[::-1]))
    assert found.rows.matched_by == "id" and found.scores["mcs"]["b"].tolist() == [0.0, 1.0, 2.0]
    files = systems_of(tmp_path, given, [{**row, "id": n} for n, row in enumerate(given[::-1])])
    done = run("compare", *files.values())
    assert done.exit_code == 1 and "shows '0.jpg'" in done.output and "--match-by photo" in done.output
    compared = capscore.compare(files, "mcs", match_by="photo")
    assert compared.matched_by == "photo"
    noted, plain = (replace(compared, notes=notes).report().parts for notes in (["n"], []))
    assert len(noted) == len(plain) + 1 and "note: n" in noted
    assert read_systems(files, match_by="photo").scores["mcs"]["b"].tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("name", ["image_id", "img_id", "key"])
def test_rows_are_paired_by_order_only_on_request(tmp_path, name):
    given = [{name: f"{n}.jpg", "caption": str(n), "score": n / 10} for n in range(6)]
    better = [{**row, "caption": "x", "score": row["score"] + 0.05} for row in given[::-1]]
    files = [*systems_of(tmp_path, given, better).values()]
    if name == "key":
        done = run("compare", *files)
        assert_refused(done, "name the rows with --id-column, or choose --match-by order", 1)
        by_order = run("compare", *files, "--match-by", "order", "--json")
        assert json.loads(by_order.stdout)["matched_by"] == "their order"
        files += ["--id-column", name]
    (comparison,) = json.loads(run("compare", *files, "--json").stdout)["metrics"]["score"]["comparisons"]
    (difference,) = comparison["differences"]
    assert difference["interval"]["low"] == pytest.approx(0.05) == difference["interval"]["high"]


def of_references(column="references", order=(0, 1, 2), photo=""):
    texts = zip("xyx", (1.0, 2.0, 3.0), strict=True)
    rows = [{column: [text, "more"], "cider": number} for text, number in texts]
    named = [row | ({"image": f"{photo}{n // 2}.jpg"} if photo else {}) for n, row in enumerate(rows)]
    return [named[n] for n in order]


@pytest.mark.parametrize("column", ["references", "gold"])
def test_rows_that_references_match_are_rows_and_no_photos(tmp_path, column):
    files = systems_of(tmp_path, of_references(column), of_references(column, (1, 0, 2)))
    found = read_systems(files, rows=RowOptions(references_column=column), match_by="references")
    assert found.rows.matched_by == "references" and found.rows.photos is None
    assert found.scores["cider"]["a"].tolist() == found.scores["cider"]["b"].tolist() == [1.0, 2.0, 3.0]
    shown = run("compare", *files.values(), "--references-column", column).stdout
    assert "cider (3 rows)" in shown and "draws of rows" in shown and "photos (" not in shown


@pytest.mark.parametrize(("other", "photos"), [("a", ["a0.jpg", "a0.jpg", "a1.jpg"]), ("b", None)])
def test_rows_that_references_match_have_photos_that_are_named_alike(tmp_path, other, photos):
    files = systems_of(tmp_path, of_references(photo="a"), of_references(photo=other))
    assert read_systems(files, match_by="references").rows.photos == photos


def test_different_rows_are_refused_unless_common_rows_are_requested(tmp_path):
    files = systems_of(tmp_path, rows([0.1, 0.2, 0.3, 0.4, 0.5]), rows([0.3, 0.4, None]))
    done = run("compare", *files.values())
    assert_refused(done, "2 of the 5 rows of a are not in every file ('3.jpg en', '4.jpg en')", 1)
    assert "--common-rows compares only the 3 that all files have" in done.stderr
    done = run("compare", *files.values(), "--common-rows", "--json", "--samples", 50)
    document = json.loads(done.stdout)
    (comparison,) = document["metrics"]["mcs"]["comparisons"]
    assert document["rows_left_out"] == {"a": 2, "b": 0}
    assert (comparison["n_rows"], comparison["n_left_out"]) == (2, 1)
    assert comparison["differences"][0]["difference"] == pytest.approx(0.2)
    elsewhere = write_jsonl(tmp_path / "d.jsonl", [{**row, "image": "9.jpg"} for row in rows([1.0])])
    assert_refused(run("compare", files["a"], elsewhere, "--common-rows"), "no row is in every file", 1)


def test_broken_rows_of_references_end_it_or_are_left_out(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.json").write_text('{"1.jpg": "a dog runs", "2.jpg": "a cat sits"}')
    lines = ("image_name| comment_number| comment", "1.jpg| 0| a dog", "1.jpg| 1   a", "2.jpg| 0| a cat")
    (tmp_path / "results.csv").write_text("\n".join(lines))
    given = [tmp_path / "a.json", tmp_path / "b.json", "-m", "rouge_l"]
    given += ["--references", tmp_path / "results.csv"]
    assert_refused(run("compare", *given), "results.csv, line 3: 2 cells", 1)
    done = run("compare", *given, "--on-error", "skip", "--json")
    assert json.loads(done.stdout)["metrics"]["rouge_l"]["comparisons"][0]["n_rows"] == 2


def test_photos_inside_a_file_are_matched_by_their_bytes(tmp_path):
    images = [{"bytes": b"one", "path": None}, {"bytes": b"two", "path": None}]
    pq.write_table(pa.table({"image": images, "score": [1.0, 2.0]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"image": images[::-1], "score": [5.0, 3.0]}), tmp_path / "b.parquet")
    found = read_systems({"a": tmp_path / "a.parquet", "b": tmp_path / "b.parquet"})
    assert found.scores["score"]["b"].tolist() == [3.0, 5.0]


def test_cells_of_a_table_are_numbers(tmp_path):
    texts = {"a": "1.jpg,0.5\n2.jpg,\n", "b": "2.jpg,1\n1.jpg,1e-1\n", "c": "2.jpg,1\n1.jpg,much\n"}
    for name, text in texts.items():
        (tmp_path / f"{name}.csv").write_text(f"image,score\n{text}")
    found = read_systems({name: tmp_path / f"{name}.csv" for name in "ab"}, common_rows=True)
    assert found.scores["score"]["b"].tolist() == [0.1, 1.0] and math.isnan(found.scores["score"]["a"][1])
    with pytest.raises(capscore.InputError, match=r"c\.csv, line 3: the column 'score' holds 'much'"):
        read_systems({name: tmp_path / f"{name}.csv" for name in "ac"})


@pytest.mark.parametrize("backbone, n_notes", [("embedded", 1), ("embedded-pr-mcs", 1), ("ViT", 0)])
def test_a_caution_stands_under_every_comparison_on_an_embedded_backbone(tmp_path, backbone, n_notes):
    files = systems_of(tmp_path, rows([0.1, 0.2]), rows([0.3, 0.1]))
    summary = {"metrics": {"mcs": {"signature": f"mcs|backbone:{backbone}@w1"}}}
    for path in files.values():
        path.with_suffix(".summary.json").write_text(json.dumps(summary))
    found = read_systems(files).compare()
    assert len(found.notes) == n_notes
    texts = str(found), found.markdown(), json.dumps(found.to_dict())
    assert [" ".join(text.split()).count("too small to rank") for text in texts] == [n_notes] * 3
    write_jsonl(files["b"], [{**row, "caption": "A long caption.", "said": "1"} for row in rows([0.3, 0.1])])
    write_jsonl(files["a"], [{**row, "said": "0"} for row in rows([0.1, 0.2])])
    notes = read_systems(files).notes
    assert len(notes) == 2 * n_notes
    assert all("(a: 1 character; b: 15 characters)" in note for note in notes[1:])
    named = RowOptions(candidate_column="said")
    assert len(read_systems(files, rows=named).notes) == n_notes, "of the captions that are named"


def test_a_caution_stands_under_scores_of_an_embedded_backbone_that_are_compared(embedded_free):
    scorer = capscore.load("text_score", backbone=embedded_free, cache=False)
    scored = {name: scorer.score([name, "a"], references=[["a dog"], ["a cat"]]) for name in ("dog", "cat")}
    assert all("too small to rank" in part.notes[-1] for part in capscore.compare_systems(scored))


def test_photos_are_decoded_and_texts_read_once_for_all_files_and_metrics(tmp_path, monkeypatch):
    decoded, load = [], photos.load_image
    monkeypatch.setattr(photos, "load_image", lambda *a, **k: decoded.append(a) or load(*a, **k))
    write_photos(tmp_path)
    files = {}
    for name, texts in {"a": ["red", "green dog"], "b": ["red", "green"], "c": ["red fox", "green"]}.items():
        shown = zip(("red.png", "green.png"), texts, strict=True)
        given = [{"image": photo, "caption": text, "references": ["a wall"]} for photo, text in shown]
        files[name] = write_jsonl(tmp_path / f"{name}.jsonl", given)
    backbone = JudgingColours()
    metrics = ["mcs", "pr_mcs", "ref_clip_score", "text_score", "clip_score"]
    compared = capscore.compare(files, metrics, backbone=backbone, cache=False)
    assert [column for column in metrics if column not in str(compared.to_dict())] == []
    assert (len(decoded), backbone.encoded_images, backbone.encoded_texts) == (2, 2, 5)


def test_stated_columns_win_over_familiar_ones():
    rows = [{"image": f"{n}.jpg", "id": n, "file": n // 2, "key": 9 - n, "mcs": n / 10} for n in range(6)]
    other = [{**row, "id": 5 - row["id"], "mcs": row["mcs"] + 0.1 + row["id"] / 100} for row in rows[::-1]]
    found = capscore.compare({"a": rows, "b": other}, image_column="file", id_column="key", bootstrap=20)
    (compared,) = found.to_dict()["metrics"]["mcs"]["comparisons"]
    # by the column `id` the rows would be paired the other way round, which gives another p-value
    assert compared["n_images"] == 3 and compared["differences"][0]["p_value"] == 0.25
