"""Fit: cosines less what is usual, the curve that is learned, and the background that ships."""

import json

import numpy as np
import pytest
from PIL import Image
from scipy.special import expit

import capscore
from capscore.embedding.background import Background, Curve
from capscore.errors import CapscoreError, InputError, RecipeWarning
from capscore.metrics.fit import Fit
from tools.tiny.colours import BLUE, GREEN, RED, ColourBackbone

pytestmark = pytest.mark.filterwarnings("ignore::capscore.errors.CapscoreWarning")
# twelve photos between red and green, so that a text about blue is near none
PHOTOS = np.array([[np.cos(t), np.sin(t), 0.0] for t in np.linspace(0.0, np.pi / 2, 12)], np.float32)
CURVES = {"shared": Curve(3.0, -1.0), "de": Curve(4.0, 0.5)}
BACKGROUND = Background(PHOTOS, "colours@w00000000", CURVES, Curve(2.0, -2.5))
CAPTIONS, IMAGES = ["red", "blue", "red blue", "red"], [RED, BLUE, RED, GREEN]
TEXTS = np.array([[1, 0, 0], [0, 0, 1], [0.5**0.5, 0, 0.5**0.5], [1, 0, 0]])
COSINES = np.array([1.0, 1.0, 0.5**0.5, 0.0])


def loaded(**options):
    given = {"background": BACKGROUND, "backbone": ColourBackbone(), "cache": False}
    return capscore.load("fit", **given | options)


def usual(texts):
    """Mean of the ten largest cosines, by sorting."""
    return np.sort(texts @ PHOTOS.T, axis=1)[:, -10:].mean(axis=1)


@pytest.mark.parametrize(("language", "curve"), [("de", (4.0, 0.5)), ("fr", (3.0, -1.0)), (None, (3, -1))])
def test_scores_are_cosines_less_what_is_usual_through_the_curve_of_the_language(language, curve):
    scores = loaded().score(CAPTIONS, IMAGES, language=language)
    margin = curve[0] * (COSINES - usual(TEXTS)) + curve[1]
    assert scores.components["margin"] == pytest.approx(margin, abs=1e-6)
    assert scores.scores == pytest.approx(expit(margin), abs=1e-6)
    assert scores.components["usual_cosine"] == pytest.approx(usual(TEXTS), abs=1e-6)


def test_the_best_reference_joins_with_a_curve_of_its_own():
    references = [["green", "red"], ["blue"], ["green"], ["red blue"]]
    scores = loaded(with_references=True).score(CAPTIONS, IMAGES, references, language="de")
    margin = 2.0 * (COSINES - usual(TEXTS) + 1.5 * np.array([1.0, 1.0, 0.0, 0.5**0.5])) - 2.5
    assert scores.components["margin"] == pytest.approx(margin, abs=1e-6)
    with pytest.raises(InputError, match="takes no references"):
        loaded().score(CAPTIONS, IMAGES, references)


def test_a_text_of_several_sentences_has_unit_length():
    scores = loaded(long="sentences").score(["red red red red red. blue blue blue blue blue."], [RED])
    expected = 0.5**0.5 - usual(np.array([[0.5**0.5, 0, 0.5**0.5]]))
    assert scores.components["clear_cosine"] == pytest.approx(expected, abs=1e-2)  # the stops split unevenly


def test_the_curve_is_the_likeliest_one():
    rng = np.random.default_rng(0)
    right, wrong = rng.normal(1.0, 1.0, 200), rng.normal(-0.5, 0.8, 600)
    curve = Curve.of(right, wrong)
    # where the likelihood is highest, what is right and what is believed have the same sums
    believed = [expit(curve.scale * numbers + curve.bias) for numbers in (right, wrong)]
    for power in (0, 1):
        missing = np.mean((1 - believed[0]) * right**power)
        assert missing == pytest.approx(np.mean(believed[1] * wrong**power), abs=1e-4)


def test_calibrate_makes_the_background_and_the_curves_of_any_backbone(tmp_path, monkeypatch):
    monkeypatch.setattr("capscore.scoring.calibrating.MIN_PHOTOS", 3)
    folder = tmp_path / "background"
    folder.mkdir()
    for index in range(12):
        Image.new("RGB", (8, 8), (255 - 20 * index, 20 * index, 0)).save(folder / f"{index}.png")
    rows = []
    for name in ("red", "lime", "blue"):
        Image.new("RGB", (8, 8), name).save(tmp_path / f"{name}.png")
        colour = name.replace("lime", "green")
        rows += [{"image": f"{tmp_path}/{name}.png", "caption": text} for text in (colour, f"a {colour} dog")]
    options = {"backbone": ColourBackbone(), "background": folder, "with_references": True}
    found = capscore.calibrate(rows, "fit", shuffled=2, **options)
    found.save(tmp_path / "mine.json")
    mine = loaded(background=tmp_path / "mine.json", with_references=True)
    scores = mine.score(["red", "blue"], [RED, RED], [["a red dog"], ["a red dog"]])
    assert scores.scores[0] > 0.5 > scores.scores[1] and "|curve:none" not in scores.signature
    assert scores.signature.split("|background:12@")[1][:8] in json.dumps(found.to_dict())
    alone = loaded(background=tmp_path / "mine.json").score(["red", "blue"], [RED, RED])
    assert alone.scores[0] > 0.5 > alone.scores[1]
    assert len({part.signature.split("|background:")[1].split("|")[0] for part in (scores, alone)}) == 2


@pytest.mark.filterwarnings("default::capscore.errors.RecipeWarning")
def test_what_is_no_calibrated_background_is_said(tmp_path):
    Image.new("RGB", (8, 8), "red").save(tmp_path / "one.png")
    with pytest.warns(RecipeWarning, match="not calibrated"):
        scores = loaded(background=tmp_path).score(["red"], [RED])
    assert "|curve:none" in scores.signature
    foreign = BACKGROUND.to_dict() | {"backbone": "theirs@w1"}
    for name, content in (("other", {"photos": "????"}), ("foreign", foreign)):
        (tmp_path / f"{name}.json").write_text(json.dumps({"background": content}))
    (tmp_path / "empty").mkdir()
    without = Background(PHOTOS, "colours@w00000000", BACKGROUND.curves)
    for background, message in (
        (tmp_path / "other.json", r"other\.json.*holds no background"),
        (tmp_path / "nothing.json", r"nothing\.json.*cannot be read"),
        (tmp_path / "empty", "a folder of photos"),
        (tmp_path / "foreign.json", "theirs@w1, not for colours@w00000000"),
        *((None, "none ships for the backbone 'colours'"), (without, "without references")),
    ):
        with pytest.raises(CapscoreError, match=message):
            loaded(background=background, with_references=background is without)


def test_photos_are_retrieved_as_pairs_are_ranked():
    scorer, given = loaded(), (["red", "blue", "red blue"], [RED, GREEN, BLUE])
    photos, texts, settings = scorer.embed_to_retrieve(*given)
    matrix, components = scorer.score_matrix(*given)
    assert photos @ texts.T == pytest.approx(components["clear_cosine"], abs=1e-6)
    assert matrix.shape == (3, 3) and settings["background"] == scorer.settings["background"]


def test_it_is_what_infometic_says_of_whole_captions(embedded):
    data = pytest.importorskip("skimage.data")
    captions, photos = ["a cat with green eyes", "ein Hund rennt", "a photo"], [data.cat()] * 3
    fit = Fit(capscore.load("mcs", backbone=embedded, cache=False).embedder)
    marks = capscore.load("infometic", backbone=embedded, cache=False)
    languages = ["en", "de", "en"]
    p_fits = [one["p_fits"] for one in marks.score(captions, photos, language=languages).details]
    assert fit.score(captions, photos, language=languages).scores == pytest.approx(p_fits, abs=1e-6)


def test_two_backbones_do_not_share_a_file_of_calibrations(tmp_path, monkeypatch):
    monkeypatch.setattr("capscore.scoring.calibrating.MIN_PHOTOS", 2)
    towers = {"one": ColourBackbone(), "two": ColourBackbone()}
    towers["two"].name = "two"
    monkeypatch.setattr("capscore.backbones.load_backbone", lambda name, **options: towers[name])
    for name in ("red", "blue"):
        Image.new("RGB", (8, 8), name).save(tmp_path / f"{name}.png")
    rows = [{"image": f"{tmp_path}/{name}.png", "caption": name} for name in ("red", "blue")]
    with pytest.raises(InputError, match="two backbones"):
        capscore.calibrate(rows, ["fit@one", "fit@two"], background=tmp_path, shuffled=1)
