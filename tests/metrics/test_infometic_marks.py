"""Marks that InfoMetIC's judge decides, with the weights that ship, on photos that scikit-image has."""

from __future__ import annotations

import numpy as np
import pytest
from skimage import data

import capscore
from capscore.embedding.embedder import Embedder
from capscore.errors import BackboneUnavailable, CapscoreError, InputError
from capscore.metrics.infometic import InfoMetIC

CAPTIONS = (
    ("chelsea", "A tabby cat looks to the side.", "en"),
    ("coffee", "A cup of coffee stands on a wooden table.", "en"),
    ("chelsea", "Two men play football on a green field.", "en"),
    ("coffee", "Un tren rojo en la nieve.", "es"),
    ("chelsea", "Eine Katze blickt zur Seite.", "de"),
)


@pytest.fixture(scope="module")
def photos():
    return {name: getattr(data, name)() for name in ("chelsea", "coffee")}


@pytest.fixture(scope="module")
def scorer(embedded):
    return InfoMetIC(Embedder(embedded, progress=False))


@pytest.fixture(scope="module")
def scored(scorer, photos):
    return scorer.score(
        [caption for _, caption, _ in CAPTIONS],
        [photos[photo] for photo, _, _ in CAPTIONS],
        language=[language for *_, language in CAPTIONS],
    )


def probabilities(detail):
    return [word["p_correct"] for word in detail["words"]]


def same(first, second):
    for one, other in zip(first, second, strict=True):
        assert (one is None) == (other is None)
        assert one is None or one == pytest.approx(other, abs=1e-5)


def test_what_fits_and_what_does_not(scored):
    assert [detail["fits"] for detail in scored.details] == [True, True, False, False, True]
    for detail in scored.details:
        assert 0 <= detail["p_fits"] <= 1
        if not detail["fits"]:
            assert {word["correct"] for word in detail["words"]} == {None}
            assert not any(region["mentioned"] for region in detail["regions"])


def test_no_right_word_is_marked(scored):
    for place in (0, 1, 4):
        assert [w["text"] for w in scored.details[place]["words"] if w["correct"] is False] == []


def test_a_planted_noun_is_marked(scorer, photos):
    scores = scorer.score(["A tabby cat sits on a train."], [photos["chelsea"]], language="en")
    marked = [word["text"] for word in scores.details[0]["words"] if word["correct"] is False]
    assert marked == ["train"]


def test_only_semantic_words_have_probabilities(scored):
    for detail in scored.details:
        for word in detail["words"]:
            assert word["semantic"] or word["p_correct"] is word["correct"] is None
            assert word["p_correct"] is None or 0 <= word["p_correct"] <= 1
            assert word["region"] is None or 0 <= word["region"] < len(detail["regions"])


def test_regions_have_names_in_the_caption_s_language(scored, scorer):
    english = [region["name"] for region in scored.details[0]["regions"]]
    german = [region["name"] for region in scored.details[4]["regions"]]
    assert any(name in scorer.mark_calibration.nouns["en"] for name in english)
    named = [name for name in german if name]
    assert named and all(
        name[0].isupper() and name.lower() in scorer.mark_calibration.nouns["de"] for name in named
    )
    assert "cat" in english or "kitten" in english


def test_order_and_company_do_not_matter(scorer, scored, photos):
    for place in (4, 0, 2):
        photo, caption, language = CAPTIONS[place]
        alone = scorer.score([caption], [photos[photo]], language=language).details[0]
        together = scored.details[place]
        same(probabilities(alone), probabilities(together))
        assert alone["p_fits"] == pytest.approx(together["p_fits"], abs=1e-5)
        assert [word["correct"] for word in alone["words"]] == [word["correct"] for word in together["words"]]
        same(
            [region["p_mentioned"] for region in alone["regions"]],
            [region["p_mentioned"] for region in together["regions"]],
        )


def test_given_boxes_change_no_word(scorer, scored, photos):
    detail = scorer.score(
        [CAPTIONS[0][1]], [photos["chelsea"]], language="en", boxes=[[(0, 0, 200, 200)]]
    ).details[0]
    same(probabilities(detail), probabilities(scored.details[0]))
    assert len(detail["regions"]) == 1 and detail["boxes_given"]


def test_marks_as_published(scorer, photos):
    published = InfoMetIC(scorer.embedder, marks="published", regions="windows")
    found = published.score([CAPTIONS[0][1]], [photos["chelsea"]], language="en").details[0]
    assert found["fits"] is None and found["p_fits"] is None
    for word in found["words"]:
        assert word["p_correct"] is None
        assert word["correct"] == (word["score"] > published.beta if word["semantic"] else None)
    assert {region["p_mentioned"] for region in found["regions"]} == {None}


def test_the_signature_names_what_decides_the_marks(scored, scorer, photos):
    assert f"|marks:learned@{scorer.mark_calibration.name}|false_alarms:0.05|" in scored.signature
    published = InfoMetIC(scorer.embedder, marks="published")
    signature = published.score(["A cat."], [photos["chelsea"]]).signature
    assert "|marks:published|beta:0.1|" in signature and "false_alarms" not in signature


def test_a_higher_rate_marks_no_fewer_words(scorer, photos):
    captions = [caption for photo, caption, _ in CAPTIONS if photo == "chelsea"]
    marked = []
    for rate in (0.01, 0.05, 0.5):
        own = InfoMetIC(scorer.embedder, false_alarms=rate)
        details = own.score(captions[:1], [photos["chelsea"]]).details
        marked.append(sum(word["correct"] is False for d in details for word in d["words"]))
    assert marked == sorted(marked)


@pytest.mark.parametrize("rate", [0, -0.1, 0.6, True, "5 %", float("nan")])
def test_a_rate_out_of_range(scorer, rate):
    with pytest.raises(InputError, match=r"above 0, at most 0\.5"):
        InfoMetIC(scorer.embedder, false_alarms=rate)


def test_a_backbone_without_a_mark_calibration(embedded_free):
    embedder = Embedder(embedded_free, progress=False)
    assert InfoMetIC(embedder).mark_calibration is None
    with pytest.raises(CapscoreError, match="no mark calibration for the backbone 'embedded-free'"):
        InfoMetIC(embedder, marks="learned")
    with pytest.raises(InputError, match="needs a mark calibration"):
        InfoMetIC(embedder, regions="things")


def test_a_folder_without_a_mark_calibration(scorer, tmp_path):
    with pytest.raises(BackboneUnavailable):
        InfoMetIC(scorer.embedder, marks=tmp_path)


def test_boxes_lie_within_the_photo(scored, photos):
    for (photo, *_), detail in zip(CAPTIONS, scored.details, strict=True):
        height, width = photos[photo].shape[:2]
        for region in detail["regions"]:
            left, top, right, bottom = region["box"]
            assert 0 <= left < right <= width and 0 <= top < bottom <= height


@pytest.mark.parametrize("size", [(1, 1), (1, 300), (700, 2)])
def test_narrow_photos(scorer, size):
    photo = np.full((*size, 3), 90, np.uint8)
    detail = scorer.score(["A grey wall."], [photo]).details[0]
    assert np.isfinite(detail["p_fits"]) and detail["regions"]


def test_a_caption_without_semantic_words(scorer, photos):
    detail = scorer.score(["of the"], [photos["chelsea"]]).details[0]
    assert all(word["p_correct"] is None for word in detail["words"])
    assert np.isfinite(detail["p_fits"])


def test_the_option_reaches_the_scorer():
    scorer = capscore.load(
        "infometic", backbone="embedded", marks="published", false_alarms=0.1, device="cpu"
    )
    assert scorer.mark_calibration is None and scorer.false_alarms == 0.1
