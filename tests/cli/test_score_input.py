"""What `capscore score` takes besides a file of rows: photos, a folder, COCO's files; and what it refuses."""

from __future__ import annotations

import json
import math

import pytest
from PIL import Image

from capscore.cli import app
from capscore.metrics import PRESETS
from capscore.registry import METRICS

from .test_score import HALF, MCS, REF, ROOT, ROWS, capscore_, colours, photos, read_jsonl, write_jsonl

__all__ = ["app", "colours", "photos"]

ANNOTATIONS = {
    "images": [{"id": number, "file_name": row["image"]} for number, row in enumerate(ROWS)],
    "annotations": [
        {"image_id": number, "caption": text} for number, row in enumerate(ROWS) for text in row["references"]
    ],
}


@pytest.fixture
def coco(tmp_path, photos):
    """COCO's results and annotations for the three photos."""
    rows = [{"image_id": number, "caption": row["caption"]} for number, row in enumerate(ROWS)]
    (tmp_path / "captions.json").write_text(json.dumps(rows))
    (tmp_path / "annotations.json").write_text(json.dumps(ANNOTATIONS))
    return tmp_path


def write_texts(folder, **texts):
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")


# ------------------------------------------------------------------- typed in


def test_a_photo_and_a_caption_are_scored_at_once(photos, colours):
    result = capscore_("score", "--photo", photos / "red.png", "--caption", "red green", "--no-cache")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = [line.strip() for line in result.stdout.splitlines() if line.strip()]
    assert lines[0].split() == ["photo", "caption", "mcs"]
    assert lines[2].split() == ["red.png", "red", "green", f"{HALF:.4f}"]
    assert lines[3].startswith("mcs|backbone:colours@")
    assert lines[4:] == [
        "Scored 1 of 1 row.",
        "The score of each row is in no file; --output scores.jsonl keeps it.",
    ]


def test_photos_pair_up_with_captions_and_names_start_from_images(photos, colours, tmp_path):
    pairs = [word for row in ROWS for word in ("--photo", row["image"], "--caption", row["caption"])]
    result = capscore_("score", *pairs, "--images", photos, "-o", tmp_path / "o.jsonl")
    assert result.exit_code == 0, result.output
    rows = read_jsonl(tmp_path / "o.jsonl")
    assert [(row["image"], row["caption"]) for row in rows] == [(r["image"], r["caption"]) for r in ROWS]
    assert [row["mcs"] for row in rows] == pytest.approx(MCS, abs=1e-6)
    summary = json.loads((tmp_path / "o.summary.json").read_text())
    assert summary["input"] is None and summary["rows"] == 3


def test_one_photo_with_captions_and_references(photos, colours, monkeypatch, tmp_path):
    monkeypatch.chdir(photos)
    result = capscore_(
        "score", "--photo", "red.png", "--caption", "red", "--caption", "blue", "--reference", "red green",
        "--reference", "blue", "-m", "mcs,ref_clip_score", "-o", tmp_path / "o.jsonl",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    rows = read_jsonl(tmp_path / "o.jsonl")
    assert rows[0]["references"] == ["red green", "blue"]
    assert [row["mcs"] for row in rows] == pytest.approx([2.5, 0.0], abs=1e-6)
    assert rows[0]["ref_clip_score"] == pytest.approx(REF[0], abs=1e-6)


def test_references_alone_need_no_photo():
    result = capscore_("score", "--caption", "a red kite", "--reference", "a red kite flies", "-m", "rouge_l")
    assert result.exit_code == 0
    # beta 1.2, precision 1, recall 3/4
    assert f"{(1 + 1.44) * 0.75 / (0.75 + 1.44):.4f}" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected one thing to score: a file or a folder of photos, or --photo dog.jpg"),
        (["--photo", "red.png"], "--caption: at least one is needed"),
        (["--caption", "red"], "--image-column: no column seems to hold"),
        (["--photo", "zzz.jpg", "--caption", "red"], "no such file: zzz.jpg; --images names the folder"),
        (["--photo", "rde.png", "--caption", "red"], "no such file: rde.png"),
        (
            ["--photo", "https://x.org/a.jpg", "--caption", "red"],
            "is a URL, which is fetched only with --allow-urls",
        ),
        (
            ["--photo", "red.png", "--photo", "blue.png", "--caption", "red"],
            "--photo: 2 photos; expected one caption per photo",
        ),
        (
            ["--photo", "red.png", "--caption", "red", "-m", "cider"],
            "--references-column: no column seems to hold",
        ),
        (["p.jsonl", "--photo", "red.png"], "expected one thing to score"),
        (["p.jsonl", "--caption", "x"], "expected one thing to score"),
        (
            ["--photo", "red.png", "--caption", "x", "--image-column", "y"],
            "--image-column y: there is no such column",
        ),
        (["red.png"], "red.png is a file of an unknown kind"),
        (["notes.txt"], "notes.txt is a file of an unknown kind; expected JSONL"),
        (["https://x.org/a.jpg"], "no such file"),
        (["empty"], "empty is a folder with 0 photos and no saved data set; expected JSONL"),
        (["."], "is a folder with 3 photos and no saved data set"),
    ],
)  # fmt: skip
def test_what_cannot_be_scored_is_one_error_that_says_what_to_type(
    photos, colours, monkeypatch, arguments, message
):
    monkeypatch.chdir(photos)
    (photos / "empty").mkdir()
    (photos / "notes.txt").write_text("a dog")
    (photos / "p.jsonl").write_text('{"image": "red", "caption": "red"}\n')
    result = capscore_("score", "--quiet", *arguments)
    assert result.exit_code in (1, 2) and result.stdout == ""
    assert result.stderr.count("\n") == 1 and message in result.stderr
    assert colours == [] or result.exit_code == 1


# ------------------------------------------------------------------- a folder


def test_a_folder_of_photos_with_texts_beside_them(photos, colours, tmp_path):
    write_texts(photos, red="red\n\nred green\n", green="red green", blue="red", other="x")
    result = capscore_("score", photos, "-o", tmp_path / "o.csv")
    assert result.exit_code == 0
    assert "note: other.txt in" in result.stderr
    assert "Scored 4 of 4 rows of" in result.stdout
    summary = json.loads((tmp_path / "o.summary.json").read_text())
    assert summary["input"] == str(photos)
    assert summary["metrics"]["mcs"]["mean"] == pytest.approx((2.5 + HALF + HALF + 0) / 4, abs=1e-6)
    assert summary["metrics"]["mcs"]["n_unique_images"] == 3


def test_a_photo_without_a_text_is_named_or_skipped(photos, colours, tmp_path):
    write_texts(photos, red="red", blue="red")
    result = capscore_("score", photos)
    assert result.exit_code == 1
    assert result.stderr == (
        f"capscore: error: {photos}/green.png: candidate: there is no green.txt beside it, which holds its "
        "captions\n"
    )
    (photos / "x\x1b[31m.txt").write_text("no photo")
    result = capscore_("score", photos, "--on-error", "skip", "-o", tmp_path / "o.jsonl")
    assert "x\\x1b[31m.txt" in result.stderr
    assert result.exit_code == 3
    assert [row["mcs"] for row in read_jsonl(tmp_path / "o.jsonl")] == [
        pytest.approx(0.0, abs=1e-6),
        None,
        pytest.approx(2.5, abs=1e-6),
    ]
    assert f"  {photos}/green.png: candidate: there is no green.txt" in result.stderr
    assert "Scored 2 of 3 rows of" in result.stdout


def test_an_empty_text_is_an_empty_caption(photos, colours):
    write_texts(photos, red="red", blue="red", green="\n\n")
    result = capscore_("score", photos)
    assert result.exit_code == 1
    assert f"{photos}/green.txt, line 1: candidate: expected a caption, got an empty string" in result.stderr


# ----------------------------------------------------------------------- COCO


def test_coco_results_find_photos_and_references(coco, colours):
    result = capscore_(
        "score", coco / "captions.json", "--references", coco / "annotations.json",
        "--images", coco / "photos", "-m", "mcs,ref_clip_score,rouge_l", "-o", coco / "o.jsonl",
    )  # fmt: skip
    assert (result.exit_code, result.stderr) == (0, "")
    rows = read_jsonl(coco / "o.jsonl")
    assert [row["image"] for row in rows] == [row["image"] for row in ROWS]
    assert [row["references"] for row in rows] == [row["references"] for row in ROWS]
    assert [row["mcs"] for row in rows] == pytest.approx(MCS, abs=1e-6)
    assert [row["ref_clip_score"] for row in rows] == pytest.approx(REF, abs=1e-6)


def test_coco_results_need_no_photos_for_metrics_of_texts(coco):
    results, about = coco / "captions.json", coco / "annotations.json"
    result = capscore_("score", results, "--references", about, "-m", "cider", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["metrics"]["cider"]["n_items"] == 3


def test_ids_are_names_of_photos_where_there_are_no_annotations(photos, colours, tmp_path):
    Image.open(photos / "red.png").save(photos / "COCO_val2014_000000000007.png")
    rows = [{"image_id": 7, "caption": "red"}, {"image_id": "blue", "caption": "red"}]
    (tmp_path / "captions.json").write_text(json.dumps(rows))
    result = capscore_("score", tmp_path / "captions.json", "--images", photos, "-o", tmp_path / "o.jsonl")
    assert result.exit_code == 0, result.output
    assert [row["mcs"] for row in read_jsonl(tmp_path / "o.jsonl")] == pytest.approx([2.5, 0.0], abs=1e-6)


def test_an_id_without_references_stops_or_is_skipped(coco, colours):
    source = write_jsonl(
        coco / "p.jsonl", [{"image_id": 0, "caption": "red"}, {"image_id": 5, "caption": "red"}]
    )
    given = ("--references", coco / "annotations.json", "--images", coco / "photos", "-m", "ref_clip_score")
    result = capscore_("score", source, *given)
    assert result.exit_code == 1
    assert "line 2 (row 1 counted from 0): references: image_id 5" in result.stderr
    result = capscore_("score", source, *given, "--on-error", "skip")
    assert result.exit_code == 3 and "note: 2 images of" in result.stderr
    assert "Scored 1 of 2 rows" in result.stdout


def test_annotations_are_no_captions_to_score(coco, colours):
    result = capscore_("score", coco / "annotations.json")
    assert result.exit_code == 2
    assert "found 'images', 'annotations'" in result.stderr
    result = capscore_("score", coco / "captions.json", "--references", coco / "captions.json")
    assert result.exit_code == 2
    assert "--references" in result.stderr and "expected COCO's annotation format" in result.stderr


# -------------------------------------------------------------------- presets


def test_presets_are_metrics_and_together_read_all_inputs():
    assert set(PRESETS) == {"coco", "multilingual", "reference-free"}
    for metrics in PRESETS.values():
        assert set(metrics) <= set(METRICS.names()) and len(set(metrics)) == len(metrics)


def test_the_document_shows_the_presets_as_they_are():
    text = (ROOT / "docs/scoring.md").read_text(encoding="utf-8")
    for preset, metrics in PRESETS.items():
        assert f"| `{preset}` | {', '.join(f'`{metric}`' for metric in metrics)} |" in text


def test_a_preset_is_its_metrics_and_others_come_after(photos, colours, tmp_path):
    source = write_jsonl(tmp_path / "p.jsonl", ROWS)
    result = capscore_(
        "score", source, "--images", photos, "--preset", "multilingual", "-m", "bleu,mcs", "--language", "en",
        "--json",
    )  # fmt: skip
    assert list(json.loads(result.stdout)["metrics"]) == ["mcs", "cider", "rouge_l", "bleu"]
    assert result.stderr == ""


def test_a_preset_works_with_what_there_is_and_says_what_is_missing(photos, colours, tmp_path):
    rows = [{name: row[name] for name in ("image", "caption")} for row in ROWS]
    source = write_jsonl(tmp_path / "p.jsonl", rows)
    result = capscore_("score", source, "--images", photos, "--preset", "multilingual", "--json")
    assert list(json.loads(result.stdout)["metrics"]) == ["mcs"]
    assert "note: --preset multilingual: cider left out" in result.stderr
    result = capscore_("score", source, "--images", photos, "--preset", "coco")
    assert result.exit_code == 2 and "the input lacks the photos or references" in result.stderr


# --------------------------------------------------------------- odd but right


@pytest.mark.parametrize(
    "text", ["\ufeffimage;caption\nred;red\nblue;red\n", "\ufeffimage,caption\r\nred,red\r\nblue,red\r\n"]
)
def test_spreadsheets_with_a_mark_or_semicolons_are_read(photos, colours, tmp_path, text):
    (tmp_path / "p.csv").write_text(text, encoding="utf-8")
    result = capscore_("score", tmp_path / "p.csv", "--images", photos, "-o", tmp_path / "o.jsonl")
    assert result.exit_code == 0
    assert [row["mcs"] for row in read_jsonl(tmp_path / "o.jsonl")] == pytest.approx([2.5, 0.0], abs=1e-6)


def test_rows_that_were_skipped_name_options_as_they_are_typed(photos, colours, tmp_path):
    rows = [{"image": "https://x.org/a.png", "caption": "red"}, {"image": "more/a.png", "caption": "red"}]
    source = write_jsonl(tmp_path / "p.jsonl", [*rows, ROWS[0]])
    result = capscore_("score", source, "--images", photos, "--on-error", "skip", "-o", tmp_path / "o.jsonl")
    first, second, _ = (row["capscore_error"] for row in read_jsonl(tmp_path / "o.jsonl"))
    assert first.endswith("is fetched only with --allow-urls") and first in result.stderr
    assert second.endswith("; --images names the folder that names start from")


# ------------------------------------------------------------------ the tables


@pytest.mark.parametrize("count", [1, 2, 10, 11])
def test_few_rows_are_shown_each(photos, colours, tmp_path, count):
    source = write_jsonl(tmp_path / "p.jsonl", [{**ROWS[0], "caption": f"red {n}"} for n in range(count)])
    shown = capscore_("score", source, "--images", photos).stdout
    assert ("red 0" in shown) == (count <= 10)
    assert ("truncated" in shown) == (count > 1)


def test_many_metrics_and_long_captions_fit_80_columns(photos, colours, tmp_path):
    long = {**ROWS[0], "caption": "red " + "and a very long description of nothing at all " * 6}
    source = write_jsonl(tmp_path / "p.jsonl", [long, {**ROWS[1], "image": "gone.png"}, *ROWS[1:]])
    names = "mcs,clip_score,ref_clip_score,clip_cider,text_score,cider,bleu,rouge_l"
    result = capscore_(
        "score", source, "--images", photos, "-m", names, "--language", "en", "--on-error", "skip"
    )
    assert result.exit_code == 3
    tables = result.stdout.split("bleu of all rows")[0]
    assert max(map(len, tables.splitlines())) <= 80
    assert all(name in tables for name in names.split(","))
    assert not math.isnan(float(tables.split("mcs")[1].split()[0]))


def test_control_characters_of_a_caption_do_not_reach_the_terminal(photos, colours, tmp_path):
    source = write_jsonl(tmp_path / "p.jsonl", [{**ROWS[0], "caption": "red \x1b[31m\x07 green"}])
    result = capscore_("score", source, "--images", photos)
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout and "\x07" not in result.stdout
