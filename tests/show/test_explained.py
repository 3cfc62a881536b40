"""What is shown of an explanation: pieces of the caption, regions, bars, notes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capscore.metrics.base import Scores
from capscore.show.explained import (
    ExplainedCaption,
    bars_end,
    explained_captions,
    notes,
    score_bars,
    segments,
    shown_regions,
    verdict,
)

from ..infometic.invented import REGIONS, SCORES, caption, explanation


def test_a_caption_in_pieces():
    pieces = segments(caption("A red cat, asleep on.", right="red", wrong="cat", cut="asleep"))
    assert [(piece.text, piece.kind, piece.score) for piece in pieces] == [
        ("A ", "plain", None),
        ("red", "right", 0.31),
        (" ", "plain", None),
        ("cat", "wrong", 0.02),
        (", ", "plain", None),
        ("asleep", "unseen", None),
        (" on.", "plain", None),
    ]


@given(st.text(max_size=40), st.permutations(["right", "wrong", "cut"]))
def test_the_pieces_together_are_the_caption(text, kinds):
    words = explanation(text)["words"]
    named = {kind: " ".join(word["text"] for word in words[place::3]) for place, kind in enumerate(kinds)}
    assert "".join(piece.text for piece in segments(caption(text, **named))) == text


def test_verdicts():
    assert verdict(caption("red cat", right="red cat")) == "No word looks wrong."
    assert verdict(caption("a cat", wrong="cat")) == "Likely wrong: cat (score 0.02)."
    assert verdict(caption("of the")) == "There is no content word, so none can be wrong."


def judged(text, *, fits=True, **p):
    """A caption as a mark calibration sees it: word → (p_correct, correct)."""
    told = explanation(text, right=" ".join(p))
    for word in told["words"]:
        if word["text"] in p:
            word["p_correct"], word["correct"] = p[word["text"]]
    return ExplainedCaption(text, "en", {**told, "fits": fits, "p_fits": 0.9 if fits else 0.1}, SCORES)


def test_three_states():
    found = judged("red cat sits", red=(0.4, None), cat=(0.05, False), sits=(0.94, True))
    kinds = {piece.text: (piece.kind, piece.p) for piece in segments(found) if piece.kind != "plain"}
    assert kinds == {"red": ("unsure", 0.4), "cat": ("wrong", 0.05), "sits": ("right", 0.94)}
    assert verdict(found) == "Likely wrong: cat (right with probability 5 %)."
    assert "Cannot tell: red" in notes(found)


def test_words_of_a_caption_that_does_not_fit_have_no_marks():
    found = judged("red cat", fits=False, red=(0.4, None), cat=(0.05, None))
    assert {piece.kind for piece in segments(found)} == {"plain"}
    assert verdict(found) == "This caption does not fit the photo; words are not judged one by one."


def test_nothing_can_be_judged():
    assert verdict(judged("red", red=(0.4, None))) == "No word can be judged with this photo."


def test_the_name_of_a_region_is_shown():
    told = explanation("", regions=REGIONS)
    told["regions"] = [{**told["regions"][0], "name": "grass", "p_mentioned": 0.8}]
    assert shown_regions(told)[0].label == "grass"


def test_of_regions_that_show_the_same_the_most_confident_is_shown():
    def region(left, name, mentioned=True, confidence=0.2, p=0.8):
        box = [left, 0, left + 10, 10]
        own = {"score": 0.0, "label": "", "name": name, "p_mentioned": p, "mentioned": mentioned}
        return {**own, "box": box, "confidence": confidence}

    told = explanation("")
    told["regions"] = [
        region(0, "bus", p=0.9),
        region(3, "bus", confidence=0.9, p=0.7),  # 7 of 10 columns are shared
        region(9, "bus"),  # 4 of 10 columns are shared with the one before
        region(3, "car"),
        region(3, "bus", mentioned=False, p=0.1),
        region(3, ""),
        region(3, ""),
    ]
    shown = shown_regions(told)
    assert sorted(one.index for one in shown) == [1, 2, 3, 4, 5, 6]
    assert [one.note for one in shown if one.index in (1, 4)] == ["70 %", "10 %"]
    found = notes(ExplainedCaption("", "", told, SCORES))
    assert "Regions that show the same as one of these: 1" in found
    assert "Behind a region stands how likely the caption mentions it" in found


def test_mentioned_regions_come_first_and_few_missed_ones_are_shown():
    told = explanation("", regions=REGIONS)
    shown = shown_regions(told)
    assert [region.tag for region in shown] == ["✓ 1 dog", "✗ 2 sky", "✗ 3 tree", "✗ 4 sign"]
    assert shown[1].box == (0, 0, 40, 8)


def test_notes():
    null = "Score of the null token, what no region accounts for: 0.25"
    assert notes(caption("a cat", regions=REGIONS)) == ["Missed regions that are not drawn: 1", null]
    assert notes(caption("a cat", cut="a cat")) == [
        "Words past the limit, not scored: 2",
        "No region was found in the photo",
        null,
    ]
    assert notes(caption("a cat", cut="a", regions=REGIONS[:1])) == [
        "Words past the limit, not scored: 1",
        "The caption mentions none of the regions",
        null,
    ]


@pytest.mark.parametrize(
    ("highest", "end"), [(0.3, 1), (1, 1), (1.01, 2), (4, 5), (14.3, 20), (60, 100), (-2, 1), (math.nan, 1)]
)
def test_where_bars_end(highest, end):
    item = caption("", scores={"precision": highest, "recall": -1.0, "overall": 500.0})
    assert bars_end([item, item]) == pytest.approx(end)


def test_bars():
    item = caption("", scores={"precision": 5.0, "recall": math.nan, "overall": -1.0})
    bars = score_bars(item, 10.0)
    assert [(bar.label, bar.value, bar.share) for bar in bars] == [
        ("Text precision", "5.00", 0.5),
        ("Vision recall", "no score", 0.0),
        ("Overall", "−1.00", 0.0),
    ]
    (*_, overall) = score_bars(caption("", scores={"precision": 5.0, "recall": 5.0, "overall": 10.0}), 10.0)
    assert overall.share == 0.5  # it is a sum of two


def test_scores_side_by_side_with_captions():
    told = [explanation("a"), explanation("b")]
    scores = Scores(
        metric="infometic",
        scores=np.array([3.0, math.nan]),
        components={"recall": np.array([1.0, math.nan]), "precision": np.array([2.0, 7.0])},
        settings={},
        image_keys=["", ""],
        truncated=np.zeros(2, bool),
        n_references=np.zeros(2, int),
        languages=["en", ""],
        details=told,
    )
    first, second = explained_captions(["a", "b"], scores)
    assert (first.text, first.language, first.explanation) == ("a", "en", told[0])
    assert first.scores == {"precision": 2.0, "recall": 1.0, "overall": 3.0}
    assert second.scores["precision"] == 7.0 and math.isnan(second.scores["overall"])
