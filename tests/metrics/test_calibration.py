"""Percentiles of right captions and of captions of other photos: what is measured, and when it applies."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from capscore.embedding.embedder import Embedder
from capscore.errors import InputError
from capscore.metrics import calibration, load
from capscore.metrics.backbone_scorer import MCS, TextScore
from capscore.metrics.calibration import (
    PERCENTS,
    Calibration,
    CaptionedPhoto,
    Distribution,
    Standing,
    calibrate,
    document,
    matching,
    other_captions,
    read_calibrations,
    shipped_calibrations,
    standing,
    with_references,
)
from capscore.metrics.cider import CIDEr
from capscore.metrics.reference_scorer import ROUGEL
from capscore.metrics.signature import parse_signature

from ..photos import noise
from ..toy import BLUE, GREEN, RED, ColourBackbone

pytestmark = pytest.mark.usefixtures("embedded_is_read_once")

# what `make calibrate` measures: metric, backbone, number of references
SHIPPED = [
    ("mcs", "embedded", 0),
    ("clip_score", "embedded", 0),
    ("pr_mcs", "embedded-pr-mcs", 0),
    ("ref_clip_score", "embedded", 1),
    ("ref_clip_score", "embedded", 4),
    ("text_score", "embedded", 1),
    ("text_score", "embedded", 4),
    ("infometic", "embedded", 0),
]
HALF = 2.5 / math.sqrt(2)  # one colour against two


def captioned(*columns):
    """Rows of columns: names of photos, images, captions, languages, references."""
    return [CaptionedPhoto(*row) for row in zip(*columns, strict=True)]


@pytest.fixture(autouse=True)
def two_photos_are_enough(monkeypatch):
    monkeypatch.setattr(calibration, "MIN_PHOTOS", 2)


@pytest.fixture
def scorer():
    return MCS(Embedder(ColourBackbone()))


@pytest.fixture
def rows():
    """Three photos, of which one has two captions, in two languages; and a language with one photo."""
    images = {name: Image.fromarray(pixels) for name, pixels in (("r", RED), ("g", GREEN), ("b", BLUE))}
    given = [("r", "red"), ("r", "red green"), ("g", "green"), ("b", "blue")]
    listed = [(*one, language) for language in ("de", "en") for one in given]
    # the toy knows no French
    listed += [("r", "red", "en"), ("r", "rouge", "fr"), ("g", "vert", "fr")]
    photos, captions, languages = map(list, zip(*listed, strict=True))
    return captioned(photos, [images[photo] for photo in photos], captions, languages)


@pytest.fixture
def file(scorer, rows, tmp_path):
    entry = calibrate(scorer, rows, shuffled=9)
    found = document([entry], rows, name="three colours", made="2026-01-31", shuffled=9, seed=0)
    path = tmp_path / "colours.json"
    path.write_text(json.dumps(found))
    return path


def test_percentiles_are_those_of_right_and_of_other_captions(scorer, rows):
    found = calibrate(scorer, rows, shuffled=9)
    assert set(found["languages"]) == {"all", "de", "en"}  # each caption of a photo counts once
    english = found["languages"]["en"]
    assert english["right"]["n"] == 4
    # right: 2.5, 1.7678, 2.5, 2.5
    assert english["right"]["values"] == pytest.approx(
        np.percentile([2.5, HALF, 2.5, 2.5], PERCENTS).round(4).tolist(), abs=1e-4
    )
    # of other photos: red: green, blue (twice); green: red, red green, blue; blue: red, red green, green
    assert english["shuffled"]["n"] == 10
    assert english["shuffled"]["values"] == pytest.approx(
        np.percentile([0.0] * 9 + [HALF], PERCENTS).round(4).tolist(), abs=1e-4
    )
    assert found["languages"]["all"]["right"]["n"] == 8
    assert found["backbone"] == {"name": "colours", "fingerprint": "colours-1"}
    assert "captions" not in json.dumps(found)


def test_other_captions_are_drawn_alike_from_other_photos_in_the_same_language(rows):
    owners, others = other_captions(rows, 2, seed=5)
    assert all(rows[a].photo != rows[b].photo for a, b in zip(owners, others, strict=True))
    assert all(rows[a].language == rows[b].language for a, b in zip(owners, others, strict=True))
    assert len(set(zip(owners, others, strict=True))) == len(owners)
    assert other_captions(rows, 2, seed=5) == (owners, others) != other_captions(rows, 2, seed=6)
    pairs = captioned(list("aabb"), [None] * 4, list("1234"), ["en"] * 4)
    counts = np.zeros((4, 4))
    for seed in range(200):
        np.add.at(counts, other_captions(pairs, 1, seed), 1)
    # 100 of 200 each, with a standard deviation of 7
    assert np.abs(counts - 100 * (np.arange(4)[:, None] // 2 != np.arange(4) // 2)).max() < 40


def test_references_are_the_other_captions_of_the_photo():
    rows = captioned(list("aaab"), [None] * 4, ["one", "two", "three", "four"], ["en"] * 4)
    found = [[row.references for row in with_references(rows, number)] for number in (None, 1, 3)]
    assert found == [[["two", "three"], ["one", "three"], ["one", "two"]], [["two"], ["one"], ["one"]], []]


def test_a_metric_that_compares_texts_is_given_references():
    colours = ["red", "red green", "green", "green blue", "blue", "blue red"]
    rows = captioned(list("rrggbb"), [None] * 6, colours, ["en"] * 6)
    found = calibrate(TextScore(Embedder(ColourBackbone())), rows, shuffled=99)
    assert parse_signature(found["signature"])[1]["refs"] == "1"
    right = found["languages"]["en"]["right"]
    assert right["n"] == 6 and right["values"] == pytest.approx([round(1 / math.sqrt(2), 4)] * len(PERCENTS))
    assert found["languages"]["en"]["shuffled"]["n"] == 6 * 4
    own = captioned(list("rg"), [None] * 2, ["a red car", "a green car"], ["en"] * 2, [["a red car"]] * 2)
    scored = calibrate(ROUGEL(), own)
    assert scored["languages"]["all"]["right"]["values"][-1] == pytest.approx(1.0, abs=1e-3)
    with pytest.raises(InputError, match="have references of their own"):
        calibrate(ROUGEL(), own, n_references=1)


def test_rows_that_depend_on_each_other_and_too_few_photos_are_refused(scorer, rows, monkeypatch):
    captions = ["a red car", "one red car", "a dog", "one dog", "the sea", "a sea"]
    with pytest.raises(InputError, match=r"depend on which rows are scored together.*document_frequencies"):
        calibrate(CIDEr(), captioned(list("aabbcc"), [None] * 6, captions, ["en"] * 6))
    monkeypatch.setattr(calibration, "MIN_PHOTOS", 20)
    with pytest.raises(InputError, match="no language that the metric knows has 20 photos"):
        calibrate(scorer, rows)


@given(st.lists(st.integers(0, 12), min_size=1, max_size=60), st.integers(-2, 14))
@settings(max_examples=20)
def test_percent_below_is_the_share_that_is_lower(values, score):
    many = np.repeat(np.array(values, dtype=float), 200)
    found = Distribution.of(many).percent_below(np.array([float(score)]))[0]
    expected = scipy.stats.percentileofscore(many, score, "strict")
    # between two percentiles the rank is interpolated, so a step of the data is blurred by up to one percent
    assert found == pytest.approx(expected, abs=1.01)


def test_right_captions_are_better_than_half_of_themselves_less_ties():
    tied = np.concatenate([np.zeros(200), np.linspace(1, 2, 800)])
    # of two captions, both are tied with a chance of .2²; otherwise one of them is better
    assert Distribution.of(tied).own_level == pytest.approx(100 * (1 - 0.04) / 2, abs=0.3)


def test_scores_are_placed_in_their_own_language(scorer, file, rows):
    scores = scorer.score(
        ["red green", "blue", "red"],
        [rows[0].image, rows[0].image, rows[0].image],
        language=["de", "en", None],
    )
    (one,) = read_calibrations(file)
    right = one.percentiles(scores.scores, scores.languages, "right")
    assert right.tolist() == pytest.approx(scores.percentiles(calibration=file).tolist())
    # 1.7678 is the lowest of four, 0 is below all; two of eight are lower than 2.5, the others the same
    assert right.tolist() == pytest.approx([0.0, 0.0, 25.0], abs=5)
    shuffled = scores.percentiles("shuffled", calibration=file)
    # 0 is shared by nine of ten, 1.7678 by the other
    assert shuffled.tolist() == pytest.approx([100.0, 0.0, 100.0], abs=1)
    placed = standing(scores, file)
    assert placed.better_than["right"] == pytest.approx(right.mean()) and placed.n_rows == 3
    assert placed.right_level < 50
    assert placed.to_dict()["set"] == "three colours"


def test_a_calibration_applies_to_its_own_signature_only(scorer, file, rows):
    image = rows[0].image
    with_prefix = MCS(Embedder(ColourBackbone()), prefix="a photo of ").score(["red"], [image], language="en")
    placed = standing(with_prefix, file)
    assert placed.to_dict() == {
        "reason": "not comparable with a calibration: made with prefix:none, scored with prefix:a photo of "
    }
    with pytest.raises(InputError, match=r"has no calibration for these scores: made with prefix:none, sc"):
        with_prefix.percentiles(calibration=file)
    spoken = scorer.score(["red"], [image], language="fr")
    assert "no row is in a calibrated language (de, en)" in standing(spoken, file).reason
    assert np.isnan(spoken.percentiles(calibration=file)).all()
    assert standing(spoken) is None  # nothing ships for the toy
    with pytest.raises(InputError, match="no calibration ships for these scores"):
        spoken.percentiles()
    with pytest.raises(InputError, match="expected 'right' or 'shuffled'"):
        spoken.percentiles("wrong", calibration=file)


def test_a_calibration_in_more_languages_applies_too_and_the_nearest_gives_the_reason(file):
    (colours,) = read_calibrations(file)
    assert (
        matching(colours.signature.replace("w:2.5", "w:1"), [colours]) == "made with w:2.5, scored with w:1"
    )
    assert matching("mcs|backbone:other@w1|w:2.5", [colours]) == ""
    assert matching(colours.signature.replace("lang:de+en", "lang:ja"), [colours]) is colours
    whole = {"right": Distribution.of(np.arange(9.0)), "shuffled": Distribution.of(np.arange(9.0))}
    one = Calibration("x", "x|words:a-1,b-2+c|lang:de+en", "s", {"all": whole})
    assert matching("x|words:a-1|lang:en", [one]) is one
    assert matching("x|words:a-2|lang:en", [one]) == "made with words:a-1,b-2+c, scored with words:a-2"
    assert matching("x|lang:en", [one]) == "made with words:a-1,b-2+c, scored with words:none"


def test_rows_that_failed_or_are_not_calibrated_are_counted(scorer, file, rows):
    scores = scorer.score(
        ["red", "red", None], [rows[0].image] * 3, language=["en", "fr", "en"], on_error="skip"
    )
    placed = standing(scores, file)
    assert (placed.n_rows, placed.n_without) == (1, 1)
    assert "better than" in placed.sentence() and "1 rows in other languages" in placed.sentence()


@pytest.mark.parametrize(
    "content",
    [
        *(b"{", b"\xff\xfe", b"[]", b'{"format": "capscore calibration 1"}', b"[" * 100_000),
        b'{"format": "capscore calibration 1", "percents": [1], "set": {"name": "x"}, "metrics": []}',
    ],
)
def test_damaged_files_are_refused_by_name(content, file):
    found = json.loads(file.read_text())
    found["metrics"][0]["languages"]["en"]["right"]["values"][3] = 99
    file.write_text(json.dumps(found))
    with pytest.raises(InputError, match="ascending numbers"):
        read_calibrations(file)
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"colours\.json' is not a file that `capscore calibrate` wrote: "):
        read_calibrations(file)
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_calibrations(file.with_name("none.json"))


@pytest.mark.parametrize("empty", ["score", "skip"])
def test_what_is_done_with_empty_captions_does_not_hide_the_rank_of_the_others(scorer, file, rows, empty):
    plain = scorer.score(["red"], [rows[0].image], language="en")
    other = MCS(Embedder(ColourBackbone()), empty=empty)
    scores = other.score(["red", ""], [rows[0].image] * 2, language="en")
    assert f"empty:{empty}" in scores.signature
    found = scores.percentiles(calibration=file)
    assert found[0] == pytest.approx(plain.percentiles(calibration=file)[0]) and standing(scores, file).n_rows
    assert np.isnan(found[1]) == (empty == "skip")


@pytest.mark.parametrize(
    ("right", "shuffled", "n_rows", "sentence"),
    [
        (100.0, 0.02, 1, "better than over 99.9 % of right captions and under 0.1 % of shuffled ones (x)"),
        (0.0, 0.0, 1, "better than 0 % of right captions and 0 % of shuffled ones (x)"),
        (50.2, 97.0, 2, "on average, a caption is better than 50 % of right captions (right ones: 41 %) and "
                        "97 % of shuffled ones (x)"),
    ],
)  # fmt: skip
def test_a_sentence_has_as_many_digits_as_it_is_worth(right, shuffled, n_rows, sentence):
    placed = Standing({"right": right, "shuffled": shuffled}, 41.0, n_rows, 0, "x")
    assert placed.sentence() == sentence


@pytest.mark.parametrize(("metric", "backbone", "n_references"), SHIPPED)
def test_what_ships_applies_to_what_is_scored(metric, backbone, n_references):
    """Where this fails, a score may have changed since: `make calibrate DATA=…` measures again."""
    references = [["a dog runs"] * n_references] if n_references else None
    scores = load(metric, backbone=backbone, cache=False).score(
        ["a dog"], [Image.fromarray(noise())], references, language="en"
    )
    placed = standing(scores)
    assert placed is not None and not placed.reason, f"run make calibrate DATA=… ({placed})"
    assert 0 <= placed.better_than["right"] <= placed.better_than["shuffled"] <= 100


def test_what_ships_tells_right_captions_from_those_of_other_photos():
    shipped = shipped_calibrations()
    assert {one.metric for one in shipped} == {metric for metric, _, _ in SHIPPED}
    for one in shipped:
        whole = one.languages["all"]
        middle = PERCENTS.index(50)
        assert whole["right"].values[middle] > whole["shuffled"].values[middle]
        assert whole["right"].n > 500 and {"en", "zh"} <= set(one.languages)
