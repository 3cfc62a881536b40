"""The module of InfoMetIC: details of each row, boxes that come with rows, captions that are cut."""

from __future__ import annotations

import json
import math

import evaluate
import numpy as np
import pytest
from PIL import Image

import capscore
from capscore.errors import CapscoreError, InputError, RegionWarning, TruncationWarning
from capscore.infometic.regions import RegionFinder, Regions

from ..toy import BLUE, GREEN, RED, ColourBackbone

DETAILS = ("words", "regions", "null", "image_size", "n_words_cut", "boxes_given")
LEFT, RIGHT = [0, 0, 40, 40], [40, 0, 60, 40]
# the photo is red to two thirds, and blue: its mean colour is (2, 0, 1) / √5, that of its parts pure
PHOTO_COSINE_RED = 2 / math.sqrt(5)


@pytest.fixture
def photo() -> np.ndarray:
    """60 × 40 pixels, red in the left two thirds, blue in the right one."""
    pixels = np.zeros((40, 60, 3), np.uint8)
    pixels[:, :40, 0] = pixels[:, 40:, 2] = 255
    return pixels


def softmax(*products: float) -> np.ndarray:
    exponents = np.exp(np.array(products) - max(products))
    return exponents / exponents.sum()


def test_words_regions_and_scores_by_hand(load, photo):
    """InfoCLIP: 100 · the cosines, and a softmax over a caption's pieces, or over regions and null token."""
    result = load("infometic").compute(
        predictions=["red green kite"], images=[photo], boxes=[[LEFT, RIGHT]], language="en"
    )
    # cosines with the photo: of red 2/√5, of green 0, of a word without colour 3/√15
    words = softmax(100 * PHOTO_COSINE_RED, 0, 100 * 3 / math.sqrt(15))
    (found,) = result["words"]
    assert [(word["text"], word["start"], word["end"]) for word in found] == [
        ("red", 0, 3),
        ("green", 4, 9),
        ("kite", 10, 14),
    ]
    np.testing.assert_allclose([word["score"] for word in found], words, rtol=1e-4, atol=1e-12)
    assert all(word["semantic"] for word in found)
    assert [word["correct"] for word in found] == [True, False, False]
    # the caption is (1, 1, 0) / √2: its cosine with the red part is 1/√2, with the blue one 0, with null 0
    regions = softmax(100 / math.sqrt(2), 0, 0)
    (parts,) = result["regions"]
    assert [part["box"] for part in parts] == [LEFT, RIGHT]
    np.testing.assert_allclose([part["score"] for part in parts], regions[:2], rtol=1e-4, atol=1e-12)
    assert [part["mentioned"] for part in parts] == [True, False]
    assert [(part["confidence"], part["label"]) for part in parts] == [(1.0, "")] * 2
    assert result["null"] == pytest.approx([regions[2]], abs=1e-12)
    assert (result["image_size"], result["n_words_cut"]) == ([[60, 40]], [0])
    # what is mentioned of the photo is red, what is right of the caption "red"
    assert result["recall"] == pytest.approx([100 * PHOTO_COSINE_RED], rel=1e-5)
    assert result["precision"] == pytest.approx([100 / math.sqrt(2)], rel=1e-4)
    assert result["scores"] == pytest.approx([result["recall"][0] + result["precision"][0]])
    assert result["infometic"] == result["scores"][0]
    cosine = 2 / math.sqrt(10)
    assert result["clip_cosine"] == pytest.approx([cosine], abs=1e-6)
    assert result["infometic_plus"] == pytest.approx([result["scores"][0] + 100 * cosine], rel=1e-6)


def test_the_threshold_moves_marks_and_no_score(load):
    """Three regions alike and a caption that fits all of them: a third of the score each."""
    stripes = [[0, 0, 3, 1], [0, 1, 3, 2], [0, 2, 3, 3]]
    marks = {}
    for beta in (0.1, 0.3, 0.5):
        result = load("infometic", beta=beta).compute(predictions=["red"], images=[RED], boxes=[stripes])
        assert [region["score"] for region in result["regions"][0]] == pytest.approx([1 / 3] * 3)
        assert result["scores"] == pytest.approx([200])
        assert f"|beta:{beta}|" in result["signature"]
        marks[beta] = [region["mentioned"] for region in result["regions"][0]]
    assert marks == {0.1: [True] * 3, 0.3: [True] * 3, 0.5: [False] * 3}


def test_a_caption_of_many_words_has_words_below_the_threshold(load):
    """Eleven equal words share 1, so none is above 0.1 although all are right; the card says so."""
    with pytest.warns(TruncationWarning):
        result = load("infometic").compute(predictions=[" ".join(["red"] * 11)], images=[RED])
    assert [word["score"] for word in result["words"][0]] == pytest.approx([1 / 11] * 11)
    assert not any(word["correct"] for word in result["words"][0])


def test_boxes_come_by_every_way(load, photo):
    boxes = [[LEFT], None, np.array([RIGHT, LEFT])]
    captions = ["red", "blue", "red blue"]
    whole = load("infometic").compute(predictions=captions, images=[photo] * 3, boxes=boxes)
    assert [region["box"] for region in whole["regions"][0]] == [LEFT]
    assert [region["box"] for region in whole["regions"][2]] == [RIGHT, LEFT]
    assert len(whole["regions"][1]) > 2 and LEFT not in [region["box"] for region in whole["regions"][1]]
    module = load("infometic")
    module.add(prediction=captions[0], image=photo, boxes=boxes[0])
    module.add_batch(predictions=captions[1:], images=[photo] * 2, boxes=boxes[1:])
    assert module.compute() == whole
    scorer = capscore.load("infometic", backbone=ColourBackbone(), cache=False)
    assert scorer.score(captions, [photo] * 3, boxes=boxes).to_dict() == whole


@pytest.mark.parametrize(
    ("boxes", "message"),
    [
        ([[LEFT], [[50, 0, 30, 40]]], r"^row 3, boxes: box 0 is \[50, 0, 30, 40\]"),
        ([[LEFT], [LEFT, [70, 0, 90, 40]]], "^row 3, boxes: box 1 is .* outside the photo of 60 × 40"),
        ([[LEFT], [[0, 0, math.nan, 40]]], "^row 3, boxes: box 0"),
        ([[LEFT], [[0, 0, 40]]], "^row 3, boxes: box 0"),
        ([[LEFT]], "boxes: got 1; expected 2, one per candidate"),
        ("left", "'left' is one string"),
    ],
)
def test_bad_boxes_are_named_and_the_rows_before_them_stay(load, photo, boxes, message):
    module = load("infometic")
    module.add_batch(predictions=["red", "blue"], images=[photo] * 2, boxes=[[LEFT], [RIGHT]])
    for call in (module.add_batch, module.compute):
        with pytest.raises(InputError, match=message):
            call(predictions=["red", "blue"], images=[photo] * 2, boxes=boxes)
    assert [len(regions) for regions in module.compute()["regions"]] == [1, 1]


def test_a_row_with_bad_boxes_can_be_skipped(load, photo):
    result = load("infometic").compute(
        predictions=["red", "red", "red"],
        images=[photo] * 3,
        boxes=[[LEFT], [[9, 9, 1, 1]], [RIGHT]],
        on_error="skip",
    )
    assert (result["n_failed"], result["scores"][1]) == (1, None)
    assert result["failures"][0]["row"] == 1
    assert result["failures"][0]["error"].startswith("boxes: box 0 is [9, 9, 1, 1]")
    for name in DETAILS:
        assert result[name][1] is None and None not in (result[name][0], result[name][2])
    assert json.loads(json.dumps(result, allow_nan=False)) == result


def test_boxes_without_rows(load):
    module = load("infometic")
    module.add(prediction="red", image=RED)
    with pytest.raises(InputError, match="belong to the rows"):
        module.compute(boxes=[[LEFT]])
    assert module.compute()["n_items"] == 1


@pytest.mark.parametrize("slug", ["mcs", "cider"])
def test_other_metrics_take_no_boxes(load, slug):
    module = load(slug)
    rows = {"predictions": ["red"], "images": [RED], "boxes": [[[0, 0, 2, 2]]]}
    for call in (module.add_batch, module.compute):
        with pytest.raises(InputError, match=f"{slug} takes no boxes"):
            call(**rows)
    with pytest.raises(InputError, match=f"{slug} takes no boxes"):
        module.add(prediction="red", image=RED, boxes=[[0, 0, 2, 2]])


def test_options_reach_the_scorer(load, photo):
    result = load("infometic", n_regions=2, beta=0.25).compute(predictions=["red"], images=[photo])
    assert len(result["regions"][0]) == 2
    assert "|weights:info_clip|regions:windows|n_regions:2|marks:published|beta:0.25|" in result["signature"]
    # more than are found: all of them are scored
    module = load("infometic", n_regions=90)
    (found,) = module.scorer.finder.find([Image.fromarray(photo)])
    (regions,) = module.compute(predictions=["red"], images=[photo])["regions"]
    assert 20 < len(found) == len(regions)
    assert sorted(region["box"] for region in regions) == sorted(found.boxes.tolist())


class Finder(RegionFinder):
    """Finds what it is told to in every photo."""

    name, fingerprint, most = "told", "told-1", 100

    def __init__(self, *boxes: list[int]):
        self.boxes = np.array(boxes, np.float64).reshape(-1, 4)
        self.seen = 0

    def find(self, images):
        self.seen += len(images)
        return [Regions(self.boxes, np.ones(len(self.boxes)), ("thing",) * len(self.boxes)) for _ in images]


def test_a_finder_of_ones_own_looks_at_each_photo_once(load, photo):
    finder = Finder([0, 0, 3, 3])
    module = load("infometic", regions=finder)
    module.add_batch(predictions=["red", "blue", "red"], images=[photo, photo, RED])
    module.add(prediction="green", image=photo)
    result = module.compute()
    assert finder.seen == 2
    assert "|regions:told@told-1|" in result["signature"]
    assert {region["label"] for regions in result["regions"] for region in regions} == {"thing"}


def test_a_photo_without_regions_is_said(load):
    module = load("infometic", regions=Finder())
    with pytest.warns(RegionWarning, match="2 of 2 rows .* no region was found"):
        result = module.compute(predictions=["red", "blue"], images=[RED, BLUE])
    assert (result["regions"], result["null"], result["recall"]) == ([[], []], [1.0, 1.0], [0.0, 0.0])


def test_a_photo_of_one_pixel_and_a_caption_without_content_words(load):
    pixel = np.array([[[255, 0, 0]]], np.uint8)
    result = load("infometic").compute(predictions=["of the", "red"], images=[pixel, pixel], language="en")
    assert [region["box"] for region in result["regions"][0]] == [[0, 0, 1, 1]]
    assert [word["correct"] for word in result["words"][0]] == [None, None]
    assert [word["correct"] for word in result["words"][1]] == [True]
    assert all(math.isfinite(score) for score in result["scores"])


def test_words_that_are_cut_are_said_and_counted(load):
    """A network reads 32 pieces of a caption."""
    caption = " ".join(["red"] * 31 + ["kite", "flies", "high"])
    with pytest.warns(TruncationWarning, match="1 of 2 rows"):
        result = load("infometic").compute(predictions=["red", caption], images=[RED, RED], language="en")
    assert (result["n_words_cut"], result["n_truncated"]) == ([0, 2], 1)
    cut = [(word["score"], word["correct"]) for word in result["words"][1][32:]]
    assert cut == [(None, None)] * 2
    assert None not in [word["score"] for word in result["words"][1][:32]]


def test_languages_of_rows(load):
    """Content words are found by a row's language; without a tagger for it there is an error."""
    result = load("infometic").compute(
        predictions=["a red dog", "ein roter Hund"], images=[RED, RED], language=["en", "de"]
    )
    assert [[word["text"] for word in words if word["semantic"]] for words in result["words"]] == [
        ["red", "dog"],
        ["roter", "Hund"],
    ]
    with pytest.raises(InputError, match="language"):
        load("infometic", language="mi")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beta": 1.0}, "beta=1.0: expected a number from 0 to below 1"),
        ({"n_regions": 0}, "n_regions=0: expected a whole number of at least 1"),
        ({"regions": "window"}, "expected 'things', 'windows'"),
        ({"weights": "./nowhere"}, "nowhere"),
        ({"variant": "paper"}, "an option of cider, not of infometic"),
    ],
)
def test_a_wrong_option_is_said_at_load(load, options, message):
    with pytest.raises(CapscoreError, match=message):
        load("infometic", **options)


def test_its_name_in_combine_is_its_slug(load):
    """`evaluate` makes a name of the class's."""
    both = evaluate.combine([load("mcs"), load("infometic")])
    result = both.compute(predictions=["red", "blue"], images=[RED, GREEN], language="en")
    assert result["infometic_scores"] == pytest.approx([200, 200])
    assert result["mcs_scores"] == [2.5, 0.0]
    assert len(result["words"]) == 2
    assert not any("info_met" in key for key in result)
