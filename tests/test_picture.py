"""The picture at the top of the README, from captions that the test scores itself."""

import json

import numpy as np
import pytest
from PIL import Image

import picture
from capscore.show.explained import ExplainedCaption

BAR = (27, 29, 33)  # the colour of a score's bar
WRONG = (185, 61, 0)
TEXT = "a cat"
SCORES = {"precision": 1.0, "recall": 1.0, "overall": 2.0}


def caption(mcs, *, right=True):
    words = [
        {"text": "a", "start": 0, "end": 1, "score": 0.0, "semantic": False, "correct": None},
        {"text": "cat", "start": 2, "end": 5, "score": 0.5, "semantic": True, "correct": right},
    ]
    explanation = {"words": words, "regions": [], "null": 0.0, "image_size": [9, 9], "n_words_cut": 0}
    return picture.ScoredCaption("en", ExplainedCaption(TEXT, "en", explanation, SCORES), mcs, 61.4, 2.5)


def drawn(*captions):
    image = Image.new("RGB", (90, 60), (40, 120, 200))
    return np.asarray(picture.draw_scored(image, list(captions), "Photo: nobody"))


def longest_run(pixels):
    """Length of the longest horizontal run of bar-coloured pixels, which is a bar and not a letter."""
    best = 0
    for row in (pixels == BAR).all(axis=2):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], row.astype(int), [0]])))
        best = max([best, *(edges[1::2] - edges[::2])])
    return best


def test_bars_are_as_long_as_the_scores():
    half, quarter = longest_run(drawn(caption(1.25))), longest_run(drawn(caption(0.625)))
    assert half == pytest.approx(2 * quarter, abs=2)
    assert longest_run(drawn(caption(0.0))) < 20


def test_a_wrong_word_is_marked_and_a_right_one_is_not():
    assert (drawn(caption(1.0, right=False)) == WRONG).all(axis=2).any()
    assert not (drawn(caption(1.0)) == WRONG).all(axis=2).any()


def test_each_caption_has_room():
    one, three = drawn(caption(1.0)), drawn(*[caption(1.0)] * 3)
    assert one.shape[1] == three.shape[1]
    assert three.shape[0] > one.shape[0]


def test_captions_of_the_picture_are_in_the_demo():
    entry = json.loads(picture.CAPTIONS_FILE.read_text(encoding="utf-8"))[picture.PHOTO]
    assert list(picture.CAPTIONS) == list(picture.LANGUAGES)
    for language, planted in picture.CAPTIONS.items():
        right = entry["captions"][language]["right"]
        # a planted noun changes the right caption, and little else
        assert planted != right
        if planted:
            assert len(set(planted.split()) - set(right.split())) <= 3
