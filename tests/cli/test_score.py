"""The command: scores and files that are right, exit codes, and messages that a person can act on."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from typer.testing import CliRunner

import capscore
from capscore.backbones import registry
from capscore.cli import app
from capscore.embedding.cache import EmbeddingCache
from capscore.metrics import load
from capscore.metrics.formulas.cider import DocumentFrequencies
from capscore.registry import METRICS

from .. import processes
from ..processes import Process
from ..toy import BLUE, GREEN, RED, ColourBackbone

ROOT = Path(__file__).parents[2]
HALF = 2.5 / math.sqrt(2)  # one colour against two


@pytest.fixture
def colours(monkeypatch):
    """Every backbone's name loads the toy; the list has one entry a load."""
    loaded = []

    def load_backbone(name, **options):
        loaded.append((name, ColourBackbone()))
        return loaded[-1][1]

    monkeypatch.setattr("capscore.backbones.loading.load_backbone", load_backbone)
    return loaded


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    for name, pixels in (("red", RED), ("green", GREEN), ("blue", BLUE)):
        Image.fromarray(pixels).save(folder / f"{name}.png")
    return folder


ROWS = [
    {"id": 1, "image": "red.png", "caption": "red", "references": ["red green", "blue"]},
    {"id": 2, "image": "green.png", "caption": "red green", "references": ["green"]},
    {"id": 3, "image": "blue.png", "caption": "red", "references": ["red", "blue"]},
]
# 2.5 · cosine with the image; cosine with the best reference; harmonic mean of the two
MCS = [2.5, HALF, 0.0]
TEXT = [1 / math.sqrt(2), 1 / math.sqrt(2), 1.0]
REF = [2 * a * b / (a + b) for a, b in zip(MCS, TEXT, strict=True)]


@pytest.fixture
def preds(tmp_path, photos):
    return write_jsonl(tmp_path / "preds.jsonl", ROWS)


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def read_jsonl(path):
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def capscore_(*arguments, **options):
    result = CliRunner(env={"COLUMNS": "80"}).invoke(
        app, [str(argument) for argument in arguments], **options
    )
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def score(source, *arguments):
    return capscore_("score", source, "--images", Path(source).parent / "photos", *arguments)


# --------------------------------------------------------------- the main path


def test_two_metrics_share_one_backbone_and_its_embeddings(preds, tmp_path, colours):
    output = tmp_path / "scores.jsonl"
    result = score(
        preds, "--metric", "mcs", "--metric", "ref_clip_score", "--backbone", "toy", "--language", "de",
        "--output", output, "--no-cache",
    )  # fmt: skip
    assert result.exit_code == 0
    assert [name for name, _ in colours] == ["toy"]
    assert colours[0][1].encoded_images == 3
    rows = read_jsonl(output)
    assert [{key: row[key] for key in ROWS[0]} for row in rows] == ROWS
    assert list(rows[0]) == [*ROWS[0], "mcs", "ref_clip_score", "clip_score", "text_score"]
    for name, expected in (("mcs", MCS), ("clip_score", MCS), ("text_score", TEXT), ("ref_clip_score", REF)):
        assert [row[name] for row in rows] == pytest.approx(expected, abs=1e-6)

    assert max(map(len, result.stdout.split("mcs|")[0].splitlines())) <= 80
    cells = [line.split() for line in result.stdout.splitlines()]
    assert ["metric", "mean", "scored", "failed", "empty", "images", "truncated"] in cells
    assert ["mcs", "1.4226", "3", "0", "0", "3", "0"] in cells
    assert ["ref_clip_score", "0.7042", "3", "0", "0", "3", "0"] in cells
    signatures = [
        f"mcs|backbone:colours@w00000000|w:2.5|prefix:none|refs:0|lang:de|dtype:fp32|exif:yes|"
        f"version:{capscore.__version__}",
        f"ref_clip_score|backbone:colours@w00000000|w:2.5|prefix:none|refs:var|lang:de|dtype:fp32|exif:yes|"
        f"version:{capscore.__version__}",
    ]
    assert [line for line in result.stdout.splitlines() if "|" in line] == signatures
    summary = json.loads((tmp_path / "scores.summary.json").read_text())
    assert summary["rows"] == 3 and summary["failures"] == []
    assert summary["metrics"]["mcs"] == {
        "mean": pytest.approx(sum(MCS) / 3),
        "n_items": 3,
        "n_scored": 3,
        "n_failed": 0,
        "n_empty": 0,
        "n_unique_images": 3,
        "n_truncated": 0,
        "signature": signatures[0],
    }
    assert summary["metrics"]["ref_clip_score"]["mean_text_score"] == pytest.approx(sum(TEXT) / 3)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "photos",
        "preds.jsonl",
        "scores.jsonl",
        "scores.summary.json",
    ]


def test_chunks_give_what_the_library_gives_at_once(tmp_path, photos, colours, monkeypatch):
    monkeypatch.setattr("capscore.metrics.score_file.CHUNK_ROWS", 2)
    rows = [ROWS[number % 3] for number in range(7)]
    source = write_jsonl(tmp_path / "preds.jsonl", rows)
    output = tmp_path / "o.jsonl"
    assert score(source, "-m", "ref_clip_score", "-o", output, "--json").exit_code == 0
    monkeypatch.undo()
    whole = load("ref_clip_score", backbone=ColourBackbone(), cache=False).score(
        [row["caption"] for row in rows],
        [photos / row["image"] for row in rows],
        [row["references"] for row in rows],
    )
    assert [row["ref_clip_score"] for row in read_jsonl(output)] == pytest.approx(
        whole.scores.tolist(), abs=1e-6
    )
    summary = json.loads((tmp_path / "o.summary.json").read_text())["metrics"]["ref_clip_score"]
    assert summary["mean"] == pytest.approx(whole.mean)
    assert summary["signature"] == whole.signature
    assert (summary["n_items"], summary["n_unique_images"]) == (7, 3)


def test_csv_in_csv_out(tmp_path, photos, colours):
    source = tmp_path / "p.csv"
    source.write_text(
        "img,hyp,reference_1,reference_2,language\nred,red,red green,blue,de\ngreen,red green,green,,en\n"
    )
    result = score(source, "-m", "ref_clip_score", "-o", tmp_path / "o.csv")
    assert result.exit_code == 0
    with open(tmp_path / "o.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["img"] for row in rows] == ["red", "green"]
    assert [float(row["ref_clip_score"]) for row in rows] == pytest.approx(REF[:2], abs=1e-6)
    assert "|lang:de+en|" in result.stdout


@pytest.mark.parametrize("output", ["o.parquet", "o"])
@pytest.mark.parametrize("source", ["in.parquet", "in"])
def test_images_inside_the_file(tmp_path, photos, colours, source, output):
    images = [{"bytes": (photos / row["image"]).read_bytes(), "path": None} for row in ROWS]
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "caption": datasets.Value("string"),
            "references": datasets.List(datasets.Value("string")),
        }
    )
    rows = datasets.Dataset.from_dict(
        {
            "image": images,
            "caption": [row["caption"] for row in ROWS],
            "references": [row["references"] for row in ROWS],
        },
        features=features,
    )
    rows.to_parquet(tmp_path / "in.parquet") if source == "in.parquet" else rows.save_to_disk(tmp_path / "in")
    metrics = ("-m", "mcs", "-m", "clip_score", "-m", "ref_clip_score")
    result = score(tmp_path / source, *metrics, "-o", tmp_path / output)
    assert result.exit_code == 0
    if output == "o":
        saved = datasets.load_from_disk(str(tmp_path / output))
        about = json.loads(saved.info.description)
        assert saved[0]["image"].size == (4, 4) or saved[0]["image"].mode == "RGB"
        table = saved.with_format("arrow")[:]
    else:
        table = pq.read_table(tmp_path / output)
        about = json.loads(pq.ParquetFile(tmp_path / output).metadata.metadata[b"capscore"])
    assert table.column_names == [
        "image", "caption", "references", "mcs", "clip_score", "ref_clip_score",
        "ref_clip_score_clip_score", "text_score",
    ]  # fmt: skip
    assert table.column("image").to_pylist() == images
    assert table.column("clip_score").to_pylist() == pytest.approx(MCS, abs=1e-6)
    assert table.column("ref_clip_score").to_pylist() == pytest.approx(REF, abs=1e-6)
    assert about["signatures"]["mcs"].startswith("mcs|backbone:colours@")
    assert {name for name, _ in colours} == {
        "xlm-roberta-base-ViT-B-32/laion5b_s13b_b90k",
        "ViT-B-32-quickgelu/openai",
    }


def test_options_of_infometic(preds, tmp_path, colours):
    output = tmp_path / "o.jsonl"
    own = ("--weights", "info_clip", "--n-regions", 2, "--beta", 0, "--language", "en", "--no-cache")
    result = score(preds, "-m", "infometic", "-m", "mcs", *own, "--regions", "windows", "-o", output)
    assert result.exit_code == 0, result.output
    signature = json.loads((tmp_path / "o.summary.json").read_text())["metrics"]["infometic"]["signature"]
    assert "|weights:info_clip|regions:windows|" in signature
    assert "|n_regions:2|marks:published|beta:0|" in signature
    rows = read_jsonl(output)
    assert [row["infometic"] for row in rows] == pytest.approx(
        [row["recall"] + row["precision"] for row in rows]
    )
    assert [row["mcs"] for row in rows] == pytest.approx(MCS, abs=1e-6)
    alone = load(
        "infometic", backbone=ColourBackbone(), cache=False, weights="info_clip", n_regions=2, beta=0.0
    )
    photos = [tmp_path / "photos" / row["image"] for row in ROWS]
    plain = score(preds, "-m", "infometic", *own, "-o", output, "--force")
    assert plain.exit_code == 0
    expected = alone.score([row["caption"] for row in ROWS], photos, language="en")
    assert [row["infometic"] for row in read_jsonl(output)] == pytest.approx(
        expected.scores.tolist(), abs=1e-6
    )
    assert expected.signature in plain.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--weights", "info_clip"], "--weights info_clip: an option of infometic, not of mcs"),
        (["--regions", "windows"], "--regions windows: an option of infometic, not of mcs"),
        (["--n-regions", "5"], "--n-regions 5: an option of infometic, not of mcs"),
        (["--beta", "0"], "--beta 0.0: an option of infometic, not of mcs"),
        (["-m", "infometic", "--beta", "1"], "--beta 1.0: expected a number from 0 to below 1"),
        (["-m", "infometic", "--regions", "window"], "expected 'things', 'windows'"),
        (["-m", "infometic", "--regions", "owlv2:x"], "expected 'things', 'windows'"),
    ],
)
def test_usage_errors_of_infometic(preds, tmp_path, colours, arguments, message):
    result = score(preds, *(() if "-m" in arguments else ("-m", "mcs")), *arguments)
    assert result.exit_code == 2 and message in " ".join(result.stderr.split())
    assert result.stderr.count("\n") == 1 and result.stdout == ""


def test_without_an_output_there_is_a_table_and_a_hint(preds, tmp_path, colours):
    result = score(preds)
    assert result.exit_code == 0
    assert "1.4226" in result.stdout
    assert "The score of each row is in no file; --output scores.jsonl keeps it." in result.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["photos", "preds.jsonl"]
    assert score(preds, "--quiet").stdout == ""


def test_a_report_is_named_and_is_a_file_that_was_written(preds, tmp_path, colours):
    page = tmp_path / "r.html"
    said = score(preds, "--report", page).stdout
    assert f"{page}" in said.replace("\n", "") and page.is_file()
    assert "The score of each row is in no file; --output scores.jsonl keeps it." in said
    said = score(preds, "--report", page, "--force", "-o", tmp_path / "o.jsonl").stdout
    assert f"{page}" in said and "Written to" in said


@pytest.mark.parametrize("argv", [["score"], ["perturb", "-k", "jumble"]])
def test_an_output_named_minus_is_no_folder_of_that_name(preds, tmp_path, monkeypatch, argv):
    monkeypatch.chdir(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, [*argv, str(preds), "-o", "-"])
    assert result.exit_code == 2 and "--output -: rows " in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == before


EMPTY = [
    {"caption": "a dog", "references": ["a dog runs"]},
    {"caption": " ", "references": ["a cat"]},
    {"caption": "two cats", "references": ["two cats sit"]},
]


def test_an_empty_caption_is_an_error_that_names_its_line_whatever_on_error_says(tmp_path):
    source = write_jsonl(tmp_path / "p.jsonl", EMPTY)
    for more in ((), ("--on-error", "skip")):
        result = capscore_("score", source, "-m", "cider", *more)
        assert result.exit_code == 1
        assert "line 2 (row 1 counted from 0): candidate: expected a caption, got an empty string" in (
            result.stderr
        )
        assert "--empty score scores it as text without words, --empty skip leaves it out" in result.stderr


@pytest.mark.parametrize(("how", "mean", "scored"), [("score", "2.4327", "3"), ("skip", "3.7565", "2")])
def test_empty_captions_are_counted_beside_the_mean(tmp_path, how, mean, scored):
    source = write_jsonl(tmp_path / "p.jsonl", [*EMPTY, {"caption": None, "references": ["x y"]}])
    output = tmp_path / "o.jsonl"
    given = (source, "-m", "cider", "--empty", how, "--on-error", "skip", "--output", output)
    result = capscore_("score", *given)
    assert result.exit_code == 3  # for the caption that is missing
    cells = [line.split() for line in result.stdout.splitlines()]
    assert ["cider", mean, scored, "1", "1", "0", "0"] in cells
    assert ["–"] in cells and (["0.0000"] in cells) == (how == "score")
    assert f"|empty:{how}|" in result.stdout
    row = read_jsonl(output)[1]
    assert row["cider"] == (0 if how == "score" else None)
    assert row["capscore_error"] == (
        None if how == "score" else "candidate: an empty caption, left out as asked"
    )
    summary = json.loads((tmp_path / "o.summary.json").read_text())["metrics"]["cider"]
    assert [summary[key] for key in ("n_items", "n_scored", "n_failed", "n_empty")] == [4, int(scored), 1, 1]
    assert "scores" not in summary


def test_json_is_all_there_is_on_stdout(preds, tmp_path, colours):
    source = write_jsonl(tmp_path / "p.jsonl", [*ROWS, {"image": "red.png", "caption": 3, "language": "sw"}])
    result = score(source, "--json", "--on-error", "skip")
    assert result.exit_code == 3
    summary = json.loads(result.stdout)
    assert summary["output"] is None
    assert summary["metrics"]["mcs"]["n_failed"] == 1
    assert summary["failures"] == [
        {"row": 3, "line": 4, "error": "candidate: expected a caption, got 3 (int)"}
    ]


def test_the_default_backbone_is_that_of_the_metric_or_the_variable(preds, colours, monkeypatch):
    score(preds, "-m", "mcs", "-m", "clip_score")
    monkeypatch.setenv("CAPSCORE_BACKBONE", "embedded")
    score(preds, "-m", "mcs", "-m", "clip_score")
    assert [name for name, _ in colours] == [
        "xlm-roberta-base-ViT-B-32/laion5b_s13b_b90k",
        "ViT-B-32-quickgelu/openai",
        "embedded",
    ]


def test_one_language_for_all_rows_is_not_mixed_with_a_column(tmp_path, photos, colours):
    source = write_jsonl(tmp_path / "p.jsonl", [{**ROWS[0], "language": "sw"}])
    result = score(source, "--language", "de")
    assert "|lang:de|" in result.stdout
    assert result.stderr == (
        "capscore: note: --language de is taken for every row; the column 'language' is not read\n"
    )


def test_the_cache_is_used_unless_it_is_not_wanted(preds, tmp_path, colours):
    folder = tmp_path / "kept"
    for _ in range(2):
        assert score(preds, "--cache-dir", folder).exit_code == 0
    assert [backbone.encoded_images for _, backbone in colours] == [3, 0]
    assert EmbeddingCache(folder).info()["entries"] == 5
    assert score(preds, "--no-cache").exit_code == 0
    assert colours[2][1].encoded_images == 3
    assert EmbeddingCache().info()["entries"] == 0
    assert score(preds, "--no-cache", "--cache-dir", folder).exit_code == 2


def test_the_embedded_backbone_scores_photos(tmp_path, embedded, monkeypatch):
    from skimage import data

    monkeypatch.setattr("capscore.backbones.loading.load_backbone", lambda name, **options: embedded)
    (tmp_path / "photos").mkdir()
    Image.fromarray(data.cat()).save(tmp_path / "photos" / "cat.jpg")
    captions = ["Eine Katze.", "Ein Flugzeug am Himmel."]
    source = write_jsonl(tmp_path / "p.jsonl", [{"image": "cat", "caption": caption} for caption in captions])
    output = tmp_path / "o.jsonl"
    assert score(source, "--backbone", "embedded", "--language", "de", "-o", output).exit_code == 0
    right, wrong = [row["mcs"] for row in read_jsonl(output)]
    assert right > wrong + 0.3


# ------------------------------------------------------- metrics that read texts

TEXTS = [
    {"caption": "a red kite", "references": ["a red kite flies", "the kite"], "language": "en"},
    {"caption": "ein Hund", "references": ["ein Hund läuft"], "language": "de"},
    {"caption": "a dog runs", "references": ["a dog", "one dog runs"], "language": "en"},
    {"caption": "zwei Drachen", "references": ["drei Drachen", "zwei Hunde"], "language": "de"},
    {"caption": "two dogs", "references": ["two dogs run"], "language": "en"},
]


def score_texts(tmp_path, *arguments, rows=TEXTS, **options):
    source = write_jsonl(tmp_path / "texts.jsonl", rows)
    return capscore_("score", source, "-o", tmp_path / "o.jsonl", "--force", *arguments, **options)


def text_scores(metric, rows=TEXTS, **options):
    return load(metric, **options).score(
        [row["caption"] for row in rows],
        None,
        [row["references"] for row in rows],
        [r["language"] for r in rows],
    )


def test_a_file_without_images(tmp_path):
    result = score_texts(tmp_path, "-m", "cider", "-m", "bleu")
    assert (result.exit_code, result.stderr) == (0, "")
    rows = read_jsonl(tmp_path / "o.jsonl")
    assert list(rows[0]) == [*TEXTS[0], "cider", "bleu", "bleu_1", "bleu_2", "bleu_3", "bleu_4"]
    cider, bleu = text_scores("cider"), text_scores("bleu")
    assert [row["cider"] for row in rows] == pytest.approx(cider.scores.tolist(), abs=1e-6)
    assert [row["bleu_2"] for row in rows] == pytest.approx(bleu.components["bleu_2"].tolist(), abs=1e-6)
    assert re.search(rf"cider +{cider.mean:.4f} +5 +0 +0 +0 +0 *\n", result.stdout)
    assert f"corpus_bleu_4 {bleu.corpus['corpus_bleu_4']:.4f}" in result.stdout
    assert cider.signature in result.stdout.splitlines()
    summary = json.loads((tmp_path / "o.summary.json").read_text())["metrics"]
    assert summary["bleu"]["corpus_bleu_1"] == bleu.corpus["corpus_bleu_1"]
    assert summary["cider"]["signature"] == cider.signature


@pytest.mark.parametrize("output", ["o.jsonl", "o.csv", "o.parquet", "o"])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 9])
def test_chunks_are_one_corpus(tmp_path, monkeypatch, size, output):
    """However many rows are read at once, CIDEr of each is that of one call."""
    monkeypatch.setattr("capscore.metrics.score_file.CHUNK_ROWS", size)
    source = tmp_path / "in.parquet"
    pq.write_table(pa.Table.from_pylist(TEXTS), source)
    if output == "o.csv":
        source = write_jsonl(tmp_path / "in.jsonl", TEXTS)
    result = capscore_("score", source, "-m", "cider", "-m", "rouge_l", "-o", tmp_path / output)
    assert (result.exit_code, result.stderr) == (0, "")
    if output == "o":
        rows = datasets.load_from_disk(str(tmp_path / output)).to_list()
    elif output == "o.csv":
        with open(tmp_path / output, newline="") as file:
            rows = list(csv.DictReader(file))
    else:
        path = tmp_path / output
        rows = read_jsonl(path) if output == "o.jsonl" else pq.read_table(path).to_pylist()
    for metric in ("cider", "rouge_l"):
        whole = text_scores(metric)
        assert [float(row[metric]) for row in rows] == pytest.approx(whole.scores.tolist(), abs=1e-6)
        assert whole.signature in result.stdout


def test_texts_and_images_together(preds, tmp_path, colours, monkeypatch):
    metrics = ("-m", "cider", "-m", "mcs", "-m", "clip_cider", "-m", "text_score")
    result = score(preds, *metrics, "--backbone", "toy", "--language", "en", "-o", tmp_path / "whole.jsonl")
    assert result.exit_code == 0 and [name for name, _ in colours] == ["toy"]
    monkeypatch.setattr("capscore.metrics.score_file.CHUNK_ROWS", 1)
    pieces = score(preds, *metrics, "--backbone", "toy", "--language", "en", "-o", tmp_path / "pieces.jsonl")
    assert pieces.stdout.replace("pieces.jsonl", "whole.jsonl") == result.stdout
    rows = read_jsonl(tmp_path / "pieces.jsonl")
    assert rows == read_jsonl(tmp_path / "whole.jsonl")
    assert list(rows[0]) == [
        *ROWS[0], "cider", "mcs", "clip_cider", "clip_term", "clip_cider_cider", "text_score",
    ]  # fmt: skip
    captions, references = [row["caption"] for row in ROWS], [row["references"] for row in ROWS]
    cider = load("cider").score(captions, references=references, language="en").scores
    for name in ("cider", "clip_cider_cider"):
        assert [row[name] for row in rows] == pytest.approx(cider.tolist(), abs=1e-6)
    assert [row["mcs"] for row in rows] == pytest.approx(MCS, abs=1e-6)
    assert [row["text_score"] for row in rows] == pytest.approx(TEXT, abs=1e-6)
    assert [row["clip_term"] for row in rows] == pytest.approx(REF, abs=1e-6)
    assert [row["clip_cider"] for row in rows] == pytest.approx((np.array(REF) + cider) / 2, abs=1e-6)


@pytest.mark.parametrize("size", [1, 2, 10])
def test_a_bad_text_is_no_part_of_the_corpus(tmp_path, monkeypatch, size):
    monkeypatch.setattr("capscore.metrics.score_file.CHUNK_ROWS", size)
    rows = [*TEXTS[:3], {**TEXTS[0], "caption": None}, *TEXTS[3:], {**TEXTS[1], "references": "no list"}]
    result = score_texts(tmp_path, "-m", "cider", rows=rows)
    assert result.exit_code == 1
    assert "line 4 (row 3 counted from 0): candidate: expected a caption" in result.stderr
    assert not list(tmp_path.glob("o*"))
    result = score_texts(tmp_path, "-m", "cider", "--on-error", "skip", rows=rows)
    assert result.exit_code == 3
    whole = text_scores("cider")
    found = read_jsonl(tmp_path / "o.jsonl")
    assert [row["cider"] for row in found if row["capscore_error"] is None] == pytest.approx(
        whole.scores.tolist(), abs=1e-6
    )
    assert [row["cider"] for row in found if row["capscore_error"]] == [None, None]
    assert whole.signature in result.stdout


def test_an_image_that_is_missing_is_no_fault_of_the_texts(tmp_path, photos, colours):
    rows = [{**ROWS[0], "image": "gone.png"}, *ROWS[1:]]
    source = write_jsonl(tmp_path / "p.jsonl", rows)
    output = tmp_path / "o.jsonl"
    assert score(source, "-m", "rouge_l", "-o", output).exit_code == 0
    result = score(source, "-m", "rouge_l", "-m", "mcs", "--on-error", "skip", "-o", output, "--force")
    assert result.exit_code == 3
    first = read_jsonl(output)[0]
    assert first["mcs"] is None and first["rouge_l"] == pytest.approx(0.6288659793814433)
    assert first["capscore_error"].startswith("mcs: image: no such file")


def test_options_of_cider(tmp_path):
    frequencies = DocumentFrequencies.from_references([[["a"]], [["dog"]], [["kite"]]])
    frequencies.save(tmp_path / "df.npz")
    result = score_texts(tmp_path, "-m", "cider", "--document-frequencies", tmp_path / "df.npz")
    expected = text_scores("cider", document_frequencies=frequencies)
    assert [row["cider"] for row in read_jsonl(tmp_path / "o.jsonl")] == pytest.approx(
        expected.scores.tolist(), abs=1e-6
    )
    assert f"|df:{frequencies.fingerprint}|" in result.stdout
    result = score_texts(tmp_path, "-m", "cider", "--variant", "paper")
    assert "cider|variant:paper|" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--backbone", "embedded"], "--backbone embedded: an option of mcs"),
        (["--device", "cpu"], "--device cpu: an option of mcs"),
        (["--no-cache"], "--no-cache: an option of mcs"),
        (["--clip", "clip_score"], "--clip clip_score: an option of clip_cider, not of cider"),
        (["--variant", "D"], "--variant D: expected 'coco' or 'paper'"),
        (["-m", "clip_cider", "--clip", "mcs"], "--clip mcs: expected"),
        (["--document-frequencies", "gone.npz"], "--document-frequencies gone.npz cannot be read"),
        (["--language", "km"], "--language km: Khmer ('km') is written without spaces"),
        (["-m", "bleu", "--language", "km", "--on-error", "skip"], "--language km: Khmer"),
        (["--references-column", "referenecs"], "--references-column referenecs: there is no such column"),
        (["-m", "mcs"], "--image-column: no column seems to hold it"),
    ],
)
def test_usage_errors_of_text_metrics(tmp_path, arguments, message):
    result = score_texts(tmp_path, "-m", "cider", *arguments)
    assert result.exit_code == 2 and message in result.stderr and "Traceback" not in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["texts.jsonl"]


def test_one_set_of_references_is_warned_about(tmp_path):
    result = score_texts(tmp_path, "-m", "cider", rows=TEXTS[:1])
    assert result.exit_code == 0
    (line,) = result.stderr.splitlines()
    assert line.startswith("capscore: warning: CIDEr counts how rare") and "0 by definition" in line


def test_java_that_is_not_there_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("capscore.metrics.java_metrics._program", lambda *names: None)
    result = score_texts(tmp_path, "-m", "cider", "-m", "meteor")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("capscore: error: METEOR needs Java") and result.stderr.count("\n") == 1


def test_help_names_every_metric():
    text = capscore_("score", "--help").stdout
    assert all(re.search(rf"\b{metric}\b", text) for metric in METRICS.names())


# ------------------------------------------------------------------ warnings


def test_warnings_come_once_and_short(tmp_path, photos, colours, monkeypatch):
    monkeypatch.setattr("capscore.metrics.score_file.CHUNK_ROWS", 2)
    rows = [
        {"image": "red.png", "caption": "a b c d e f g red", "language": code} for code in ["sw", "ta"] * 3
    ]
    rows[1]["caption"] = "red"
    result = score(write_jsonl(tmp_path / "p.jsonl", rows))
    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        "capscore: warning: backbone 'colours' was not trained on sw, ta (it knows de, en): scores in these "
        "languages mean little",
        "capscore: warning: 5 of 6 rows have a text longer than the 6 tokens of 'colours'; the rest "
        "of it was not seen (first such row: 0, counted from 0)",
    ]


def test_a_cache_that_cannot_be_written_is_said_once(preds, tmp_path, colours):
    (tmp_path / "file").write_text("not a folder")
    result = score(preds, "--cache-dir", tmp_path / "file")
    assert result.exit_code == 0
    (line,) = result.stderr.splitlines()
    assert line.startswith("capscore: warning: the embedding cache in ")
    assert "--cache-dir" in line and "--no-cache" in line


# ----------------------------------------------------------- rows that are bad


def test_a_bad_row_is_named_with_its_line_and_nothing_is_written(tmp_path, photos, colours, monkeypatch):
    monkeypatch.setattr("capscore.metrics.score_file.CHUNK_ROWS", 2)
    source = tmp_path / "p.jsonl"
    lines = [json.dumps(row) for row in (ROWS[0], ROWS[1], ROWS[2], {**ROWS[0], "caption": None})]
    source.write_text("\n\n".join(lines))
    result = score(source, "-o", tmp_path / "o.jsonl")
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        f"capscore: error: {source}, line 7 (row 3 counted from 0): candidate: expected a caption, got None"
    ]
    assert result.stdout == "" and not list(tmp_path.glob("*o.*")) and not list(tmp_path.glob(".*"))


AT = "line 3 (row 2 counted from 0): "


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"image": "rde.png"}, AT + "image: no such file: {0}/rde.png"),
        ({"references": "red"}, AT + "references: expected a list of references, got 'red'"),
        ({"references": []}, "references: expected at least one reference, got an empty list"),
        ({"caption": None}, "candidate: expected a caption, got None"),
        ({"caption": float("nan")}, "candidate: expected a caption, got nan"),
        ({"image": "https://x.org/a.jpg"}, "is a URL, which is fetched only with --allow-urls"),
        ({"image": "text.png"}, "text.png' is not an image that can be read"),
        ({"language": "xx-nobody"}, "language: unknown language code 'xx-nobody'"),
    ],
)  # fmt: skip
def test_every_bad_row_stops_or_is_skipped(tmp_path, photos, colours, row, message):
    (photos / "text.png").write_text("no image")
    source = write_jsonl(tmp_path / "p.jsonl", [ROWS[0], ROWS[1], {**ROWS[2], **row}])
    message = message.format(photos)
    result = score(source, "-m", "ref_clip_score", "-o", tmp_path / "o.jsonl")
    assert result.exit_code == 1
    assert message in result.stderr and "Traceback" not in result.stderr
    assert not (tmp_path / "o.jsonl").exists()

    result = score(source, "-m", "ref_clip_score", "-o", tmp_path / "o.jsonl", "--on-error", "skip")
    assert result.exit_code == 3
    rows = read_jsonl(tmp_path / "o.jsonl")
    assert [row["ref_clip_score"] for row in rows] == [*(pytest.approx(x, abs=1e-6) for x in REF[:2]), None]
    assert [row["capscore_error"] for row in rows[:2]] == [None, None]
    assert rows[2]["capscore_error"] in result.stderr
    summary = json.loads((tmp_path / "o.summary.json").read_text())
    assert [(entry["row"], entry["line"]) for entry in summary["failures"]] == [(2, 3)]
    assert summary["metrics"]["ref_clip_score"]["mean"] == pytest.approx(sum(REF[:2]) / 2)
    assert "1 of 3 rows could not be scored:" in result.stderr


def test_a_row_may_fail_for_one_metric_only(tmp_path, photos, colours):
    source = write_jsonl(tmp_path / "p.jsonl", [ROWS[0], {**ROWS[1], "references": None}])
    result = score(
        source, "-m", "mcs", "-m", "ref_clip_score", "-o", tmp_path / "o.csv", "--on-error", "skip"
    )
    assert result.exit_code == 3
    with open(tmp_path / "o.csv", newline="") as file:
        row = list(csv.DictReader(file))[1]
    assert float(row["mcs"]) == pytest.approx(HALF, abs=1e-6)
    assert row["ref_clip_score"] == row["text_score"] == ""
    assert row["capscore_error"] == "ref_clip_score: references: expected a list of references, got None"


def test_an_image_elsewhere_is_not_taken_for_one_that_is_missing(tmp_path, photos, colours, monkeypatch):
    monkeypatch.chdir(photos)
    (tmp_path / "other").mkdir()
    source = write_jsonl(tmp_path / "p.jsonl", [ROWS[0]])
    result = capscore_("score", source, "--images", tmp_path / "other", "--on-error", "skip", "--json")
    assert json.loads(result.stdout)["metrics"]["mcs"]["n_failed"] == 1


# --------------------------------------------------------------------- usage


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["-m", "mccs"],
            "metric 'mccs' is not one of mcs, pr_mcs, clip_score, infometic, ref_clip_score, clip_cider, ",
        ),
        (["-m", "mccs"], "spice; did you mean 'mcs'?"),
        (["-m", "mcs,cidr"], "metric 'cidr' is not one of"),
        (["-m", "mcs,cidr"], "did you mean 'cider'?"),
        (["--language", "german"], "did you mean 'de'?"),
        (["--dtype", "fp17"], "fp17"),
        (["--on-error", "stop"], "'stop' is not one of"),
        (
            ["--language", "de", "--language-column", "id"],
            "--language and --language-column: give only one of them",
        ),
        (["--candidate-column", "captoin"], "--candidate-column captoin: there is no such column"),
        (["--output", "preds.jsonl", "--force"], "preds.jsonl is the input"),
        (["--output", "o.xlsx"], "--output o.xlsx: .xlsx files cannot be written"),
        (["--output", "there.jsonl"], "there.jsonl exists; --force overwrites it"),
        (["--images", "none"], "--images none does not exist"),
        (["--split", "test"], "--split test goes with a saved data set"),
        (["--batch-size", "0"], "--batch-size"),
        (["--imagess", "x"], "No such option: --imagess"),
    ],
)
def test_usage_errors_come_before_any_work(preds, tmp_path, colours, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    Path("there.jsonl").write_text("mine")
    result = score("preds.jsonl", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == "" and colours == []
    assert Path("there.jsonl").read_text() == "mine"


def test_a_result_can_be_overwritten_and_a_taken_column_is_refused(preds, tmp_path, colours):
    output = tmp_path / "o.jsonl"
    output.write_text("mine")
    assert score(preds, "-o", output, "--force").exit_code == 0
    assert len(read_jsonl(output)) == 3
    result = score(output, "-o", tmp_path / "p.jsonl")
    assert result.exit_code == 2
    assert "needs the column name 'mcs', which the input already uses" in result.stderr


def test_a_backbone_that_cannot_be_had_is_a_failure_not_of_usage(preds, tmp_path):
    result = score(preds, "--backbone", tmp_path / "no-such-folder", "-o", tmp_path / "o.jsonl")
    assert result.exit_code == 1
    assert "no-such-folder" in result.stderr and "--backbone embedded" in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["photos", "preds.jsonl"]
    assert score(preds, "--backbone", "embedded", "--device", "cudda").exit_code == 2


@pytest.mark.usefixtures("no_weights_installed")
@pytest.mark.parametrize(
    "asked", [("--metric", "pr_mcs"), ("--metric", "infometic", "--backbone", "embedded")]
)
def test_weights_that_are_not_installed_are_a_failure_that_says_how_to_get_them(preds, tmp_path, asked):
    result = score(preds, *asked, "-o", tmp_path / "o.jsonl")
    assert result.exit_code == 1
    told = " ".join(result.stderr.split())
    assert (
        "capscore-weights (CC BY-NC 4.0, not for commercial use), and it is not installed: pip install"
        in told
    )
    assert "--backbone embedded-free does without" in told
    assert not (tmp_path / "o.jsonl").exists()


def test_debug_shows_the_traceback(preds, monkeypatch):
    monkeypatch.setenv("CAPSCORE_DEBUG", "0")  # monkeypatch puts back what the option sets
    assert "Traceback" not in score(preds, "-m", "x").stderr
    assert "Traceback" in score(preds, "-m", "x", "--debug").stderr


# ------------------------------------------------- what really happens in a process

PROGRAM = """
import os, signal, sys, time
sys.path.insert(0, {root!r})
from tests.toy import ColourBackbone
import capscore.backbones.loading, capscore.metrics.score_file
capscore.metrics.score_file.CHUNK_ROWS = 4
class Toy(ColourBackbone):
    def encode_tokens(self, ids):
        {during}
        return super().encode_tokens(ids)
capscore.backbones.loading.load_backbone = lambda name, **options: Toy()
{before}
from capscore.cli import main
sys.argv = ["capscore", *sys.argv[1:]]
main()
"""


def run_program(*arguments, during="pass", before="", **options):
    program = PROGRAM.format(root=str(ROOT), during=during, before=before)
    return Process(["-c", program, *arguments], **options)


def many_rows(tmp_path, count=40):
    rows = [{**ROWS[n % 3], "id": n, "caption": "red " + "word" * n} for n in range(count)]
    return write_jsonl(tmp_path / "many.jsonl", rows)


def test_a_signal_before_the_first_chunk_leaves_nothing(tmp_path, photos):
    process = run_program(
        "score", many_rows(tmp_path), "--images", photos, "-o", tmp_path / "o.jsonl",
        during="os.kill(os.getpid(), signal.SIGINT)",
    )  # fmt: skip
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stderr == "capscore: interrupted\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["many.jsonl", "photos"]


def test_a_signal_while_rows_wait_for_each_other_leaves_nothing(tmp_path, photos):
    """Not a partial result whose CIDEr would be that of another corpus."""
    process = run_program(
        "score", many_rows(tmp_path), "--images", photos, "-o", tmp_path / "o.jsonl", "-m", "mcs",
        "-m", "cider", during="self.turn = getattr(self, 'turn', 0) + 1\n"
        "        if self.turn == 4: os.kill(os.getpid(), signal.SIGINT)",
    )  # fmt: skip
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stderr == "capscore: interrupted\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["many.jsonl", "photos"]


@pytest.mark.parametrize("output", ["o.json", "o.csv", "o.parquet", "o"])
def test_a_disk_that_fills_leaves_no_half_result(tmp_path, photos, output):
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))"
    process = run_program(
        "score",
        many_rows(tmp_path, 200),
        "--images",
        photos,
        "-o",
        tmp_path / output,
        "--no-cache",
        before=limit,
    )
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 1, stderr
    assert f"error: {tmp_path / output} could not be written: File too large" in stderr
    assert "Nothing half-written has that name" in stderr and "Traceback" not in stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["many.jsonl", "photos"]


@pytest.mark.parametrize("arguments", [["--help"], ["score", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(arguments):
    program = (
        "import sys; from capscore.cli import app\n"
        "try: app(sys.argv[1:])\n"
        "except SystemExit as end: assert not end.code\n"
        "heavy = {'torch', 'datasets', 'pyarrow', 'transformers', 'evaluate'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_help_documents_the_exit_codes():
    text = " ".join(capscore_("score", "--help").stdout.replace("│", " ").split())
    for code in (
        "0 all rows scored",
        "1 failed",
        "2 wrong usage",
        "3 done, but rows were skipped",
        "130 interrupted",
    ):
        assert code in text
    assert capscore_("--version").stdout == f"capscore {capscore.__version__}\n"


def test_the_module_runs_as_the_command():
    done = processes.run(["-m", "capscore", "score", "no-such.jsonl"])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "capscore: error: no-such.jsonl: no such file\n"


# ---------------------------------------------------------------- cache, backbones


def test_cache_info_and_clear(preds, tmp_path, colours):
    folder = tmp_path / "kept"
    arguments = ("--cache-dir", folder)
    assert capscore_("cache", "info", *arguments).stdout == f"0 embeddings, 0 bytes, in {folder}\n"
    assert not folder.exists()
    assert score(preds, *arguments).exit_code == 0
    shown = capscore_("cache", "info", *arguments).stdout
    (stored,) = EmbeddingCache(folder).info()["backbones"]
    assert re.search(rf"colours@w00000000 +{stored['fingerprint'][:12]} +5 ", shown)
    assert json.loads(capscore_("cache", "info", "--json", *arguments).stdout)["entries"] == 5

    result = capscore_("cache", "clear", *arguments)
    assert result.exit_code == 2
    assert "this would remove 5 embeddings" in result.stderr and "--yes" in result.stderr
    assert "0 backbones in" in capscore_("cache", "clear", "zz", "--yes", *arguments).stderr
    assert capscore_("cache", "clear", stored["fingerprint"][:6], "--yes", *arguments).stdout.startswith(
        "removed 5 embeddings"
    )
    assert EmbeddingCache(folder).info()["entries"] == 0
    assert score(preds, *arguments).exit_code == 0
    assert capscore_("cache", "clear", "--yes", *arguments).stdout.startswith("removed 5 embeddings")
    assert "holds no embeddings" in capscore_("cache", "clear", *arguments).stdout


def test_cache_clear_asks_in_a_terminal(preds, tmp_path, colours, monkeypatch):
    folder = tmp_path / "kept"
    score(preds, "--cache-dir", folder)
    terminal = SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("capscore.cli.cache.sys", terminal)
    result = capscore_("cache", "clear", "--cache-dir", folder, input="n\n")
    assert "Remove 5 embeddings" in result.stdout and "nothing was removed" in result.stdout
    assert EmbeddingCache(folder).info()["entries"] == 5
    assert "removed 5" in capscore_("cache", "clear", "--cache-dir", folder, input="y\n").stdout


def test_backbones_fit_the_terminal_and_tell_what_is_known(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    shown = capscore_("backbones").stdout
    assert max(map(len, shown.splitlines())) <= 80

    def here(name):
        return next(
            entry["here"]
            for entry in json.loads(capscore_("backbones", "--json").stdout)
            if entry["name"] == name
        )

    known = {entry["name"]: entry for entry in json.loads(capscore_("backbones", "--json").stdout)}
    assert known["embedded"]["here"] is True
    licences = {known[name]["licence"] for name in ("embedded", "embedded-pr-mcs")}
    assert (known["embedded-free"]["licence"], licences) == ("Apache-2.0", {"CC-BY-NC-4.0"})
    assert known["BAAI/AltCLIP"]["licence"] is None
    laion = known["xlm-roberta-base-ViT-B-32/laion5b_s13b_b90k"]
    assert (laion["flickr8k_expert_tau_c"], laion["here"]) == (52.8, False)
    assert known["BAAI/AltCLIP-m9"]["here"] is False
    commit = registry()["BAAI/AltCLIP-m9"].revision or "0" * 40
    snapshot = tmp_path / "models--BAAI--AltCLIP-m9" / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    assert not here("BAAI/AltCLIP-m9")
    (snapshot / "model.safetensors").write_bytes(b"weights")
    assert here("BAAI/AltCLIP-m9")


def test_nothing_is_said_of_arrow_or_torch(preds, tmp_path, colours):
    """Rows without a language, one metric, Arrow out: no noise on either stream."""
    table = pa.Table.from_pylist(ROWS)
    pq.write_table(table, tmp_path / "in.parquet")
    result = score(tmp_path / "in.parquet", "-o", tmp_path / "o", "--quiet")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    assert os.path.isdir(tmp_path / "o")
