"""Texts of several sentences, and pairs of photos or of texts: means and cosines worked out by hand."""

import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from pyarrow.csv import write_csv

import capscore
from capscore.errors import ImageError, InputError, OptionError, TruncationWarning
from capscore.images.load import load_image
from capscore.integrations.torchmetrics import CaptionMetric
from capscore.metrics import load_together
from capscore.scoring.streams import RunningSummary
from tools.tiny.colours import BLUE, GREEN, RED, ColourBackbone, JudgingColours, plain

from ..cli.conftest import run as run_command
from ..cli.conftest import write_jsonl
from ..photos import encode, noise

# 5 and 4 words and signs; 11 tokens with start and end, 7 and 6 by themselves
LONG = "red red red red . green green green ."
RED_PART, GREEN_PART = 5 / 9, 4 / 9


def scorer_of(metric="mcs", backbone=ColourBackbone, context=8, by_sentence=False, **options):
    towers = backbone()
    towers.max_tokens, towers.by_sentence = context, by_sentence
    return capscore.load(metric, backbone=towers, cache=False, **options)


def test_a_text_beyond_the_context_is_cut_or_scored_by_its_sentences():
    rows = [LONG] * 3 + ["blue"], [RED, GREEN, BLUE, BLUE]
    with pytest.warns(TruncationWarning, match="3 of 4 rows .*; long='sentences' reads all of it"):
        cut = scorer_of().score(*rows)
    np.testing.assert_allclose(cut.scores[:2] / 2.5, np.array([4, 1]) / np.sqrt(17), atol=1e-6)
    assert "long" not in cut.settings
    with warnings.catch_warnings():
        warnings.simplefilter("error", TruncationWarning)
        found = scorer_of(long="sentences").score(*rows)
    np.testing.assert_allclose(found.scores / 2.5, [RED_PART, GREEN_PART, 0, 1], atol=1e-6)
    assert found.n_truncated == 0 and "|prefix:none|long:sentences2|refs:0|" in found.signature


def test_texts_within_the_context_score_as_ever_under_the_same_signature():
    for text in ("red green", LONG):
        split, plain = (scorer_of(context=20, long=long).score([text], [RED]) for long in ("sentences", None))
        assert (split.scores, split.signature) == (plain.scores, plain.signature)
    run_on = "red " * 9
    for long in ("sentences", "cut"):
        with pytest.warns(TruncationWarning, match="1 of 1 rows"):  # one sentence, which is cut
            assert scorer_of(long=long).score([run_on], [RED]).scores == [2.5]


def test_some_backbones_read_every_text_of_several_sentences_by_sentence():
    scorer = scorer_of(context=20, by_sentence=True)
    found = scorer.score([LONG, LONG, "green green green . red red red red ."], [RED, GREEN, RED])
    np.testing.assert_allclose(found.scores / 2.5, [RED_PART, GREEN_PART, RED_PART], atol=1e-6)
    assert scorer.backbone.encoded_texts == 2, "each distinct sentence once"
    whole = scorer_of(context=20, by_sentence=True, long="cut").score([LONG], [RED])
    np.testing.assert_allclose(whole.scores / 2.5, [0.8], atol=1e-6)


def test_captions_without_a_long_text_compare_with_paragraphs_read_alike():
    photos = [RED, GREEN]

    def compared(first, second):
        systems = {"a": first.score(["red", "green"], photos), "b": second.score([LONG, LONG], photos)}
        return capscore.compare_systems(systems)

    by_custom, cut = ({"context": 20, "by_sentence": True, "long": long} for long in (None, "cut"))
    assert list(compared(scorer_of(**by_custom), scorer_of(**by_custom))[0].figures) == ["a", "b"]
    assert list(compared(scorer_of(**cut), scorer_of(**cut))[0].figures) == ["a", "b"]
    with pytest.raises(InputError, match="long 'cut' against 'sentences2'"):
        compared(scorer_of(**cut), scorer_of(**by_custom))
    split = scorer_of(long="sentences")
    with pytest.warns(TruncationWarning):
        beginnings = scorer_of().score([LONG, LONG], photos)
    with pytest.raises(InputError, match="long 'not stated' against 'sentences2'"):
        capscore.compare_systems({"a": beginnings, "b": split.score([LONG, LONG], photos)})


def test_long_references_are_the_directions_of_their_means():
    lists = [[LONG], ["red"], [LONG, "blue"], ["blue"]]
    found = scorer_of("text_score", long="sentences").score([LONG, LONG, "red", "red"], references=lists)
    to_red = 5 / np.sqrt(41)
    np.testing.assert_allclose(found.scores, [1, to_red, to_red, 0], atol=1e-6)
    both = scorer_of("ref_clip_score", long="sentences").score([LONG], [RED], [[LONG]])
    np.testing.assert_allclose(both.components["clip_score"], [2.5 * RED_PART], atol=1e-6)
    np.testing.assert_allclose(both.components["text_score"], [1], atol=1e-6)


def test_a_gate_judges_each_sentence_and_the_text_keeps_their_mean():
    """The share of tokens that differ, with start and end: 4 of 11, and 4 of 12; the first loses less."""
    text = f"{'red ' * 8}. {'green ' * 9}."
    (detail,) = scorer_of("pr_mcs", JudgingColours, 20, True).score([text], [RED]).details
    lost = 9 / 19 * 7 / 11 + 10 / 19 * 8 / 12
    assert detail["kept"] == pytest.approx(1 - lost) and detail["kind"] == "repetition"
    expected = (9 / 19 * (7 / 11) ** 2 + 10 / 19 * (8 / 12) ** 2) / lost
    assert detail["p_kind"] == pytest.approx(expected, abs=1e-5)


def test_rows_that_come_in_batches_have_the_signature_of_all():
    scorer = scorer_of(long="sentences")
    summary = RunningSummary(scorer)
    for text in ("red", LONG, "green"):
        rows = scorer.prepare([text], [RED], language="en")
        summary.add(rows, scorer.finish(rows))
    expected = scorer.score(["red", LONG, "green"], [RED] * 3, language="en").signature
    assert summary.summary()["signature"] == expected and "|long:sentences2|" in expected


def test_other_values_are_refused_and_infometic_does_not_take_it():
    with pytest.raises(InputError, match="long='words': expected 'cut' or 'sentences'"):
        scorer_of(long="words")
    with pytest.raises(OptionError, match=r"long='cut': .*mcs.*, not of infometic"):
        capscore.load("infometic", long="cut")


def test_the_embedded_backbones_read_sentence_by_sentence(backbones):
    towers = backbones("image tower")
    scorer = capscore.load("mcs", backbone=towers, cache=False)
    parts = ["A dog runs on the beach.", "Two cats sleep on a sofa today."]
    texts = [*parts, " ".join(parts)]
    photo = noise(seed=1)
    first, second, _ = towers.encode_texts(texts) @ towers.encode_images([load_image(photo)])[0]
    found = scorer.prepare(texts, [photo] * 3).values["image_cosine"]
    np.testing.assert_allclose(found, [first, second, (first * 7 + second * 7) / 14], atol=1e-6)


VIOLET = plain((200, 0, 200))  # red and blue
HALF = 2.5 / np.sqrt(2)
PHOTOS = [RED, VIOLET, GREEN], [RED, RED, RED]
OF_PHOTOS = [2.5, HALF, 0]
TEXTS = ["red", "red blue", "green"], [["red"], ["blue", "green"], ["red"]]


def load(pairs, metric="mcs", **options):
    return capscore.load(metric, backbone=ColourBackbone("red "), cache=False, pairs=pairs, **options)


@pytest.mark.parametrize("metric", ["mcs", "clip_score"])
def test_photos_are_compared_with_photos(metric):
    found = load("images", metric).score(*PHOTOS)
    np.testing.assert_allclose(found.scores, OF_PHOTOS, atol=1e-6)
    middle = "pairs:images|prefix:none|refs:0|lang:unstated|dtype:fp32|exif:yes"
    assert (
        found.signature
        == f"{metric}|backbone:colours@w00000000|w:2.5|{middle}|version:{capscore.__version__}"
    )
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
