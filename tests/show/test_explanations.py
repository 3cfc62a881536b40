"""An explanation on a page: marks, regions, bars and notes; captions cannot change the page."""

import base64
import dataclasses
import io
import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from capscore.metrics.infometic import InfoMetIC
from capscore.show import explained
from capscore.show.explained import ExplainedCaption, Segment, footnotes, notes, segments, shown_regions
from capscore.show.pages import explain_page
from tools.tiny.browser import Page

from ..infometic.invented import REGIONS, SCORES, caption, explanation

PHOTO = Image.new("RGB", (40, 30), (200, 30, 30))
HOSTILE = '<script>alert(1)</script><b title="x">\'&amp;'


def test_regions_of_one_name_that_share_half_of_the_smaller_are_one():
    boxes = [(0, 0, 40, 10), (20, 0, 60, 10), (30, 0, 70, 10), (0, 6, 40, 16), (1, 1, 2, 9)]
    same = {"name": "dog", "mentioned": True, "score": 0}
    regions = [same | {"confidence": -index, "box": box} for index, box in enumerate(boxes)]
    assert explained.representatives(regions) == [0, 0, 2, 3, 0]
    assert explained.representatives([{**regions[0], "name": "cat"}, *regions[1:]]) == [0, 1, 1, 3, 4]


def test_only_strong_doubt_about_nouns_is_explained():
    doubts = [(0.001, True), (None, True), (0.4, True), (0.001, False)]
    said = [explained.wrong_because([Segment("dog", "wrong", -1.0, None, p, noun)]) for p, noun in doubts]
    assert [bool(text) for text in said] == [True, False, False, False]


def judged(text, *, fits=True, **p):
    """A caption as a mark calibration sees it: word → (p_correct, correct)."""
    details = explanation(text, right=" ".join(p))
    for word in details["words"]:
        if word["text"] in p:
            word["p_correct"], word["correct"] = p[word["text"]]
            word["word_class"] = "noun"
    details |= {"fits": fits, "p_fits": 0.9 if fits else 0.1}
    wrong = frozenset(start for start, _, _ in InfoMetIC.wrong_words(details))
    return ExplainedCaption(text, "en", details, SCORES, wrong=wrong)


def test_a_caption_in_pieces():
    pieces = segments(caption("A red cat, asleep on.", right="red", wrong="cat", cut="asleep"))
    texts = ["A ", "red", " ", "cat", ", ", "asleep", " on."]
    kinds = ["plain", "right", "plain", "wrong", "plain", "unseen", "plain"]
    assert [piece.text for piece in pieces] == texts and [piece.kind for piece in pieces] == kinds
    assert [piece.score for piece in pieces] == [None, 0.31, None, 0.02, None, None, None]
    found = judged("red cat sits", red=(0.4, None), cat=(0.05, False), sits=(0.94, True))
    kinds = {piece.text: (piece.kind, piece.p) for piece in segments(found) if piece.kind != "plain"}
    assert kinds == {"red": ("unsure", 0.4), "cat": ("wrong", 0.05), "sits": ("right", 0.94)}
    unfit = judged("red cat", fits=False, red=(0.6, None), cat=(0.05, None))
    assert [(piece.text, piece.kind) for piece in segments(unfit)] == [("red ", "plain"), ("cat", "wrong")]


UNFIT = "This caption does not fit the photo"
LOW = judged("red cat mat", fits=False, red=(0.4, None), cat=(0.05, None), mat=(0.6, None))
HIGH = judged("cat mat", fits=False, cat=(0.8, None), mat=(0.7, None))
NONE = judged("group cat", fits=False, group=(None, None), cat=(None, None))


@pytest.mark.parametrize(
    ("item", "sentence"),
    [
        (caption("red cat", right="red cat"), "No word looks wrong."),
        (caption("a cat", wrong="cat"), "Likely wrong: cat (score 0.02)."),
        (caption("of the"), "There is no content word, so none can be wrong."),
        (judged("red", red=(0.5, None)), "No word can be judged with this photo."),
        (judged("cat", cat=(0.03, False)), "Likely wrong: cat (3 %)."),
        (judged("cat mat", cat=(0.029, False), mat=(0.004, False)), "Likely wrong: cat (3 %), mat (< 1 %); "),
        (LOW, f"{UNFIT}. Least likely: cat (5 %), red (40 %)."),
        (HIGH, f"{UNFIT}. Least likely: mat (70 %)."),
        (NONE, f"{UNFIT}. Least likely: group (score 0.31)."),
        (judged("of", fits=False), f"{UNFIT}; it has no word that can be judged."),
        (judged("cat mat", cat=(0.9, True), mat=(0.3, None)), "No word looks wrong; least likely: mat"),
    ],
)
def test_verdicts(item, sentence):
    assert str(explained.verdict(item)).replace("right with probability ", "").startswith(sentence)


def test_of_regions_that_show_the_same_the_most_confident_is_shown():
    def region(left, name, mentioned=True, confidence=0.2, p=0.8):
        box = [left, 0, left + 10, 10]
        row = {"score": 0.0, "label": "", "name": name, "p_mentioned": p, "mentioned": mentioned}
        return {**row, "box": box, "confidence": confidence}

    details = explanation("")
    # of the first two, 7 of 10 columns are shared, of the second and the third 4 of 10
    details["regions"] = [region(0, "bus", p=0.9), region(3, "bus", confidence=0.9, p=0.7), region(9, "bus")]
    details["regions"] += [region(3, "car"), region(3, "bus", mentioned=False, p=0.1)]
    details["regions"] += [region(3, ""), region(3, "")]
    shown = shown_regions(details)
    assert sorted(item.index for item in shown) == [1, 2, 3, 4, 5, 6]
    labels = {item.index: (item.label, item.note) for item in shown}
    assert labels[1] == ("bus", "70 %") and labels[4] == ("bus", "10 %")
    found = footnotes(ExplainedCaption("", "", details, SCORES))
    assert "Regions that show the same as one of these: 1" in found and len(found) == 3


def test_mentioned_regions_come_first_and_few_missed_ones_are_shown():
    shown = shown_regions(explanation("", regions=REGIONS))
    assert [region.tag for region in shown] == ["✓ 1 dog", "✗ 2 sky", "✗ 3 tree", "✗ 4 sign"]
    assert shown[1].box == (0, 0, 40, 8)


def test_notes_and_footnotes():
    none = "No region was found in the photo"
    assert notes(caption("a cat", regions=REGIONS)) == []
    assert notes(caption("a cat", cut="a cat")) == ["Words past the limit, not scored: 2", none]
    assert notes(judged("red", red=(0.4, None))) == ["Cannot tell: red", none]
    null = "Score of the null token, what no region accounts for: 0.25"
    assert footnotes(caption("a cat", regions=REGIONS)) == ["Missed regions that are not drawn: 1", null]
    assert footnotes(caption("a cat", regions=REGIONS[1:])) == [null]


def test_bars_go_from_the_middle_to_both_sides():
    score_bars = explained.score_bars
    bars = score_bars(caption("", scores={"precision": 5.0, "recall": math.nan, "overall": -4.0}), 10.0)
    assert bars == [
        *(("Text precision", "5.00", 0.5, 0.25), ("Vision recall", "no score", 0.5, 0.0)),
        ("Overall", "−4.00", 0.4, 0.1),  # a sum of two, so it ends at 20
    ]
    bars = score_bars(caption("", scores={"precision": 25.0, "recall": -25.0, "overall": 10.0}), 10.0)
    assert [bar[2:] for bar in bars] == [(0.5, 0.5), (0.0, 0.5), (0.5, 0.25)]


@pytest.mark.parametrize(("weights", "end"), [("infometic@w592eda69", 10), ("info_clip", 40)])
def test_bars_of_one_signature_share_one_scale(weights, end):
    for precision in (0.1, 30.0):
        item = caption("", scores={"precision": precision, "recall": -1.0, "overall": precision - 1})
        page = Page(explain_page(PHOTO, [item], signature=f"infometic|weights:{weights}|beta:0.1"))
        style = page.all("i", "full")[1][0]["style"]
        assert style == f"margin-left:{50 - 50 / end:.1f}%;width:{50 / end:.1f}%"
        assert any(f"from −{end} to {end}" in text for text in page.texts("p", "soft"))


def test_a_calibrated_score_has_its_rank():
    item = caption("", scores={"precision": 1.0, "recall": 1.0, "overall": 2.0})
    assert not any(note.startswith("Rank") for note in notes(item))
    for among, of in (("en", "right captions"), ("all", "right captions of all languages")):
        ranked = dataclasses.replace(item, rank=42.4, among=among)
        assert notes(ranked)[0] == f"Rank: 42 % of {of} have a lower overall score"


def test_words_scores_and_regions():
    item = caption("a red cat asleep", right="red", wrong="cat", cut="asleep", regions=REGIONS)
    page = Page(explain_page(PHOTO, [item], title="photo.jpg", signature="infometic|beta:0.1", beta=0.1))
    assert page.texts("p", "caption") == ["a red ✗likely wrong: cat asleep"]
    titles = [a.get("title") for a, _ in page.all("mark", "word-wrong")]
    assert titles == [None, "score 0.02"]  # the first is the legend's
    assert page.texts("p", "verdict") == ["Likely wrong: cat (score 0.02)."]
    assert page.texts("div", "score") == ["Text precision0.40", "Vision recall0.60", "Overall1.00"]
    widths = [f"margin-left:50.0%;width:{width}%" for width in ("2.0", "3.0", "2.5")]
    assert [a["style"] for a, _ in page.all("i", "full")] == widths
    assert page.texts("span", "tag") == ["✓ 1 dog", "✗ 2 sky", "✗ 3 tree", "✗ 4 sign"]
    assert [len(page.all("rect", kind)) for kind in ("mentioned", "missed")] == [2, 6]
    box = page.all("rect", "box")[0][0]
    assert [float(box[name]) for name in ("x", "y", "width", "height")] == [5, 5, 10, 20]
    sky = page.all("rect", "box")[1][0]  # two pixels of the screen inside the photo, which has 560
    assert (float(sky["x"]), float(sky["y"])) == pytest.approx((1 / 7, 1 / 7), abs=0.01)
    assert "Words past the limit, not scored: 1" in page.texts("ul", "notes")[0]
    assert "infometic|beta:0.1" in page.texts("footer")[0]
    label = "The photo, with 1 region that the caption mentions and 3 regions that it misses"
    assert page.all("svg")[0][0]["aria-label"] == label
    assert not page.all("rect", "near")  # results of older versions name no region of a word
    rows = ["a0.31not a content word", "red0.31✓ right", "cat0.02✗ likely wrong", "asleep–cut off"]
    assert page.texts("tr") == ["WordScoreJudged", *rows]


def test_the_page_holds_the_photo_once_and_asks_for_nothing():
    items = [caption(text, regions=REGIONS) for text in ("one", "two", "three")]
    markup = explain_page(PHOTO, items, signature="s")
    assert markup.count("data:image") == 1 and markup.count('<use href="#photo"/>') == 2
    data = re.search(r"data:image/jpeg;base64,([^\"]+)", markup)[1]
    with Image.open(io.BytesIO(base64.b64decode(data))) as photo:
        assert photo.size == (40, 30)
        assert np.allclose(photo.getpixel((20, 15)), (200, 30, 30), atol=7)
    assert "<script" not in markup and not re.search("https?:", markup)
    addresses = re.findall(r'(?:href|src)="(.*?)"', markup)
    assert all(each.startswith(("#", "data:image/jpeg")) for each in addresses)
    assert "default-src 'none'" in markup
    # without a place to break, the name of a photo's file makes the page wider than a phone
    rules = dict(re.findall(r"^([^{}@/\n]+) \{([^{}]*)\}", markup.partition("</style>")[0], re.MULTILINE))
    assert all("overflow-wrap: anywhere" in rules[name] for name in ("h1", "footer :not(pre) > code"))


def test_nothing_that_is_given_becomes_markup():
    regions = [((0, 0, 9, 9), True, 1.0, HOSTILE), ((0, 0, 9, 9), False, 1.0, HOSTILE)]
    item = caption(HOSTILE, '"><script>', wrong="script", right="alert", regions=regions)
    page = Page(explain_page(PHOTO, [item], HOSTILE, HOSTILE))
    assert not page.all("script")
    assert page.texts("h1") == page.texts("title") == [HOSTILE]
    assert page.texts("p", "caption")[0].replace("✗likely wrong: ", "") == HOSTILE


@settings(max_examples=30)
@given(st.text(max_size=40), st.permutations(["right", "wrong", "cut"]))
def test_any_caption_makes_a_page_that_parses_and_its_pieces_are_the_caption(text, kinds):
    words = explanation(text)["words"]
    named = {kind: " ".join(word["text"] for word in words[at::3]) for at, kind in enumerate(kinds)}
    item = caption(text, **named)
    assert "".join(piece.text for piece in segments(item)) == text
    markup = explain_page(PHOTO, [item])
    Page(markup)
    assert not re.search("[\x00-\x08\x0b-\x1f\ud800-\udfff\u202a-\u202e]", markup)


def test_a_word_and_the_region_most_like_it_light_each_other_up():
    item = caption("red dog runs", right="red runs", wrong="dog", regions=REGIONS)
    near = [0, len(REGIONS) - 1, None]
    for word, region in zip(item.explanation["words"], near, strict=True):
        word["region"] = region
    markup = explain_page(PHOTO, [item])
    page = Page(markup)
    words = [page.all("span", "word-right")[-2], page.all("mark", "word-wrong")[-1]]
    words.append(page.all("span", "said")[-1])
    assert [attributes.get("data-region") for attributes, _ in words] == ["0", str(near[1]), None]
    assert [attributes.get("tabindex") for attributes, _ in words] == ["0", "0", None]
    assert [attributes["data-region"] for attributes, _ in page.all("rect", "near")] == ["0", str(near[1])]
    listed = {attributes["data-region"] for attributes, _ in page.all("span", "listed")}
    assert listed == {"1", "2", "3", "4"}  # of four missed regions, three are shown
    for index in range(len(REGIONS)):
        this = f'[data-region="{index}"]'
        assert markup.count(f".explained:has({this}:is(:hover,:focus-visible)) {this}{{--lit:1}}") == 1
    # white on black lines: a white line alone is lost in a bright photo
    assert re.findall(r'<rect class="(edge|near)" data-region="0"', markup) == ["edge", "near"]
