"""Marks that InfoMetIC's mark calibration decides, with the weights that ship, on photos of scikit-image."""

import pytest
from PIL import Image
from skimage import data

import capscore
from capscore.embedding.embedder import Embedder
from capscore.errors import BackboneUnavailable, CapscoreError
from capscore.metrics.infometic import InfoMetIC
from capscore.scoring.to_check import reasons_to_check
from tools.tiny.command import read_jsonl

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
    names, captions, languages = zip(*CAPTIONS, strict=True)
    return scorer.score(captions, [photos[name] for name in names], language=languages)


def marked(scores) -> list[str]:
    return [word["text"] for detail in scores.details for word in detail["words"] if word["correct"] is False]


def test_captions_that_fit_are_recognised_and_no_right_word_is_marked(scored, photos):
    assert [detail["fits"] for detail in scored.details] == [True, True, False, False, True]
    assert marked(scored) == []
    for (photo, *_), detail in zip(CAPTIONS, scored.details, strict=True):
        assert 0 <= detail["p_fits"] <= 1
        for word in detail["words"]:
            assert word["semantic"] or word["p_correct"] is word["correct"] is None
            assert word["p_correct"] is None or 0 <= word["p_correct"] <= 1
            assert word["region"] is None or 0 <= word["region"] < len(detail["regions"])
        for region in detail["regions"]:
            left, top, right, bottom = region["box"]
            height, width = photos[photo].shape[:2]
            assert 0 <= left < right <= width and 0 <= top < bottom <= height
        if not detail["fits"]:
            assert {word["correct"] for word in detail["words"]} == {None}
            assert not any(region["mentioned"] for region in detail["regions"])


def test_a_planted_noun_is_marked_and_more_at_a_higher_rate(scorer, photos):
    caption, found = ["A tabby cat sits on a train."], []
    for rate in (0.01, 0.05, 0.5):
        scores = InfoMetIC(scorer.embedder, false_alarms=rate).score(caption, [photos["chelsea"]], None, "en")
        found.append(marked(scores))
    assert found[1] == ["train"] and len(found[0]) <= 1 <= len(found[2])


def test_files_have_the_words_and_captions_that_do_not_fit_are_likely_wrong(scored, scorer, photos, tmp_path):
    for name, photo in photos.items():
        Image.fromarray(photo).save(tmp_path / f"{name}.png")
    rows = [{"image": f"{name}.png", "caption": text, "language": code} for name, text, code in CAPTIONS]
    rows.append({"image": "chelsea.png", "caption": "A dog looks to the side.", "language": "en"})
    found = capscore.score_file(rows, scorer, images=tmp_path, output=tmp_path / "o.jsonl")
    lines = read_jsonl(tmp_path / "o.jsonl")
    details = [detail["p_fits"] for detail in scored.details]
    assert [line["p_fits"] for line in lines[:5]] == pytest.approx(details, abs=1e-6)
    words = ["", "", "men, play, football, field", "tren, nieve", "", "dog, side"]
    assert [line["likely_wrong"] for line in lines] == words
    assert lines[0]["missed"] == "" and [*found.to_pandas()["missed"]] == [line["missed"] for line in lines]
    assert {2, 3} <= {*found.likely_wrong()} and not {0, 1, 4} & {*found.likely_wrong()}
    reasons = reasons_to_check(found)
    assert reasons[3] | {"rank": ""} == {"rank": "", "fit": "does not fit the photo", "words": "tren, nieve"}
    assert reasons[5]["words"] == "dog, side"
    (streamed, *_) = capscore.score_stream(rows, scorer, images=tmp_path)
    assert streamed["likely_wrong"] == "" and streamed["p_fits"] == pytest.approx(details[0])


def test_regions_have_names_in_the_language_of_the_caption(scored, scorer):
    english = [region["name"] for region in scored.details[0]["regions"]]
    german = [region["name"] for region in scored.details[4]["regions"] if region["name"]]
    nouns = scorer.mark_calibration.nouns
    assert "cat" in english or "kitten" in english
    assert set(english) - {""} <= set(nouns["en"])
    assert german and all(name[0].isupper() and name.lower() in nouns["de"] for name in german)


def test_marks_as_published_and_what_the_signature_names(scored, scorer, photos):
    assert f"|marks:learned@{scorer.mark_calibration.name}|false_alarms:0.05|" in scored.signature
    published = InfoMetIC(scorer.embedder, marks="published", regions="windows")
    scores = published.score([CAPTIONS[0][1]], [photos["chelsea"]], language="en")
    assert "|marks:published|beta:0.1|" in scores.signature and "false_alarms" not in scores.signature
    (detail,) = scores.details
    assert detail["fits"] is None and detail["p_fits"] is None
    for word in detail["words"]:
        assert word["p_correct"] is None
        assert word["correct"] == (word["score"] > published.beta if word["semantic"] else None)
    assert {region["p_mentioned"] for region in detail["regions"]} == {None}


def test_missing_marks_are_named(scorer, embedded_free, tmp_path):
    embedder = Embedder(embedded_free, progress=False)
    assert InfoMetIC(embedder).mark_calibration is None
    for options, named in (({"marks": "learned"}, "'embedded-free'"), ({"regions": "things"}, "'things'")):
        with pytest.raises(CapscoreError, match=f"{named}.*mark calibration|mark calibration.*{named}"):
            InfoMetIC(embedder, **options)
    with pytest.raises(BackboneUnavailable):
        InfoMetIC(scorer.embedder, marks=tmp_path)
    loaded = capscore.load("infometic", backbone=scorer.backbone, marks="published", false_alarms=0.1)
    assert loaded.mark_calibration is None and loaded.false_alarms == 0.1
