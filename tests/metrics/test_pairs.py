"""Pairs of photos and pairs of texts: numbers worked out by hand, through every door."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from pyarrow.csv import write_csv

import capscore
from capscore.errors import ImageError, InputError, OptionError
from capscore.integrations.torchmetrics import CaptionMetric
from capscore.metrics import load_together
from tools.tiny.colours import GREEN, RED, ColourBackbone, plain

from ..cli.conftest import run as run_command
from ..cli.conftest import write_jsonl
from ..photos import encode

VIOLET = plain((200, 0, 200))  # red and blue
HALF = 2.5 / np.sqrt(2)
PHOTOS = [RED, VIOLET, GREEN], [RED, RED, RED]
OF_PHOTOS = [2.5, HALF, 0]
TEXTS = ["red", "red blue", "green"], [["red"], ["blue", "green"], ["red"]]
VERSION = f"version:{capscore.__version__}"


def load(pairs, metric="mcs", **options):
    return capscore.load(metric, backbone=ColourBackbone("red "), cache=False, pairs=pairs, **options)


@pytest.mark.parametrize("metric", ["mcs", "clip_score"])
def test_photos_are_compared_with_photos(metric):
    found = load("images", metric).score(*PHOTOS)
    np.testing.assert_allclose(found.scores, OF_PHOTOS, atol=1e-6)
    middle = "pairs:images|prefix:none|refs:0|lang:unstated|dtype:fp32|exif:yes"
    assert found.signature == f"{metric}|backbone:colours@w00000000|w:2.5|{middle}|{VERSION}"
    assert found.n_unique_images == 1


def test_texts_are_compared_with_their_best_reference():
    found = load("texts", prefix="").score(TEXTS[0], references=TEXTS[1])
    np.testing.assert_allclose(found.scores, OF_PHOTOS, atol=1e-6)
    assert "|w:2.5|pairs:texts|prefix:none|refs:var|" in found.signature and "exif" not in found.signature
    prefixed = load("texts").score(["red"], references=[["blue"]])  # a colour more in both
    np.testing.assert_allclose(prefixed.scores, [HALF], atol=1e-6)
    text = ["red red . blue blue ."]
    long = load("texts", prefix="", long="sentences").score(text, references=text)
    np.testing.assert_allclose(long.scores, [2.5], atol=1e-6)


def test_a_bad_photo_names_its_row_and_its_side(tmp_path):
    good = [RED, RED]
    for side, given in (("candidate", ([RED, "gone.png"], good)), ("image", (good, [RED, "gone.png"]))):
        with pytest.raises(ImageError, match=f"^row 1, {side}: no such file"):
            load("images").score(*given)
        found = load("images").score(*given, on_error="skip")
        assert found.failures[1].startswith(f"{side}: ") and found.scores[0] == 2.5
    with pytest.raises(ImageError, match=r"^row 0, candidate: "):
        load("images").score(["a dog"], [RED])
    with pytest.raises(InputError, match="candidate: expected a caption"):
        load("texts").score([RED], references=["red"])


def test_other_metrics_and_values_are_refused():
    for metric in ("pr_mcs", "text_score", "cider", "judge"):
        with pytest.raises(OptionError, match=f"pairs='images': .*mcs, clip_score, not of {metric}"):
            capscore.load(metric, pairs="images")
    with pytest.raises(OptionError, match="pairs='images': cider"):
        load_together(["mcs", "cider"], pairs="images")
    with pytest.raises(InputError, match="pairs='photos': expected 'images' or 'texts'"):
        load("photos")


@pytest.fixture
def command(tmp_path, monkeypatch):
    monkeypatch.setattr("capscore.backbones.load_backbone", lambda name, **options: ColourBackbone())
    for name, pixels in (("red", RED), ("violet", VIOLET), ("green", GREEN)):
        Image.fromarray(pixels).save(tmp_path / f"{name}.png")

    def run(name, rows, *options):
        path, table = tmp_path / name, pa.Table.from_pylist(rows)
        if path.suffix == ".jsonl":
            write_jsonl(path, rows)
        else:
            (write_csv if path.suffix == ".csv" else pq.write_table)(table, path)
        words = ["score", path, "--backbone", "toy", "--no-cache", "-o", tmp_path / "out.parquet", "--force"]
        done = run_command(*words, *options)
        assert done.exit_code == 0, done.output
        return done.output, pq.read_table(tmp_path / "out.parquet").to_pylist()

    return run


@pytest.mark.filterwarnings("error::capscore.errors.RowWarning")  # a photo beside itself is no mistake
def test_the_command_reads_photos_of_both_columns(command, tmp_path):
    rows = [{"image": "red.png", "candidate": drawn} for drawn in ("red.png", "violet", "green")]
    made, real = ([{"bytes": encode(pixels), "path": None} for pixels in side] for side in PHOTOS)
    stored = [{"made": one, "image": other} for one, other in zip(made, real, strict=True)]
    for found in (
        command("rows.jsonl", rows, "--pairs", "images", "--report", tmp_path / "page.html"),
        command("rows.csv", rows, "--pairs", "images"),
        command("rows.parquet", stored, "--pairs", "images", "--candidate-column", "made"),
    ):
        np.testing.assert_allclose([row["mcs"] for row in found[1]], OF_PHOTOS, atol=1e-6)
        assert "|pairs:images|" in found[0] and "rank" not in found[1][0]
    assert "violet" in (tmp_path / "page.html").read_text()


def test_the_command_reads_texts_without_photos(command):
    rows = [{"a": text, "b": texts} for text, texts in zip(*TEXTS, strict=True)]
    columns = ("--candidate-column", "a", "--references-column", "b")
    _, found = command("rows.jsonl", rows, "--pairs", "texts", *columns, "-m", "mcs,text_score")
    np.testing.assert_allclose([row["mcs"] for row in found], OF_PHOTOS, atol=1e-6)
    np.testing.assert_allclose([row["text_score"] for row in found], np.array(OF_PHOTOS) / 2.5, atol=1e-6)


def test_streams_and_torchmetrics_take_pairs():
    rows = [{"image": real, "candidate": drawn} for drawn, real in zip(*PHOTOS, strict=True)]
    found = [row["mcs"] for row in capscore.score_stream(rows, load("images"), batch_rows=2)]
    np.testing.assert_allclose(found, OF_PHOTOS, atol=1e-6)
    tensors = [torch.from_numpy(np.stack(side)).permute(0, 3, 1, 2) for side in PHOTOS]
    for pairs, given in (("images", tensors), ("texts", TEXTS)):
        metric = CaptionMetric("mcs", backbone=ColourBackbone(), cache=False, pairs=pairs)
        metric.update(*given)
        assert float(metric.compute()) == pytest.approx(np.mean(OF_PHOTOS), abs=1e-6)
