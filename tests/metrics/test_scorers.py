"""Metrics with a backbone, and texts beside it: formulas to the digit, signatures, warnings."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import capscore
from capscore.errors import CapscoreError, ImageError, InputError, LanguageWarning, TruncationWarning
from capscore.metrics.clip_score import clip_score
from capscore.metrics.from_function import scorer_of
from capscore.metrics.ref_clip_score import ref_clip_score
from capscore.metrics.rows import format_signature, parse_signature
from tools.tiny.colours import BLUE, GREEN, RED, ColourBackbone, plain

from ..photos import encode

YELLOW = plain((255, 255, 0))
HALF = math.sqrt(0.5)
# three rows; one word is a quarter of CIDEr's 10, red and blue are in two sets of references of three, green
# in one, and the second caption has a 2-gram more than its references
ROWS = (["red", "red blue", "green"], [RED, RED, BLUE], [["red"], ["red", "blue"], ["blue", "green"]])
CIDER = [2.5, 2.5 * HALF * math.exp(-1 / 72), 1.25]
CLIP = [2.5, 2.5 * HALF, 0.0]
TEXT = [1.0, HALF, 1.0]
REF_CLIP = [2 * a * b / (a + b) for a, b in zip(CLIP, TEXT, strict=True)]


def load(metric, **options):
    return capscore.load(metric, **{"backbone": ColourBackbone(), "cache": False, **options})


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(-1, 1)), min_size=1))
@settings(max_examples=20)
def test_ref_clip_score_is_scipys_harmonic_mean(pairs):
    from scipy.stats import hmean

    # tiny cosines underflow in scipy's reciprocals, not in ours
    image, text = (np.where(np.abs(x) < 1e-100, 0.0, x) for x in np.array(pairs).T)
    terms = np.stack([2.5 * np.maximum(image, 0), np.maximum(text, 0)])
    assert clip_score(image).tolist() == terms[0].tolist() == (clip_score(image, w=5.0) / 2).tolist()
    expected = np.where((terms > 0).all(axis=0), hmean(np.where(terms > 0, terms, 1.0), axis=0), 0.0)
    np.testing.assert_allclose(ref_clip_score(image, text), expected, atol=1e-12)


def test_literal_scores():
    for metric in ("mcs", "clip_score"):
        scores = load(metric).score(["red", "green", "red green", "red"], [RED, RED, YELLOW, YELLOW])
        np.testing.assert_allclose(scores.scores, [2.5, 0.0, 2.5, 1.7677669529663689], atol=1e-6)
    scores = load("ref_clip_score").score(*ROWS)
    np.testing.assert_allclose(scores.components["clip_score"], CLIP, atol=1e-6)
    np.testing.assert_allclose(scores.components["text_score"], TEXT, atol=1e-6)
    np.testing.assert_allclose(scores.scores, REF_CLIP, atol=1e-6)
    text = load("text_score")
    np.testing.assert_allclose(text.score(ROWS[0], references=ROWS[2]).scores, TEXT, atol=1e-6)
    assert text.backbone.encoded_texts == 4  # each distinct text once


class SignedColours(ColourBackbone):
    """Texts with another word than a colour point the other way."""

    def encode_tokens(self, ids):
        signs = [[-1.0] if 9 in sequence else [1.0] for sequence in ids]
        return super().encode_tokens(ids) * np.array(signs, dtype=np.float32)


def test_only_the_text_score_is_not_cut_off_at_0():
    columns = ["not red", "not red", "red"], [RED] * 3, [["red"], ["red", "blue"], ["not red", "red"]]
    text = load("text_score", backbone=SignedColours()).score(columns[0], references=columns[2])
    np.testing.assert_allclose(text.scores, [-1, 0, 1], atol=1e-6)
    both = load("ref_clip_score", backbone=SignedColours()).score(*columns)
    np.testing.assert_allclose(both.components["text_score"], [0, 0, 1], atol=1e-6)
    np.testing.assert_allclose(both.scores, [0, 0, 10 / 7], atol=1e-6)


@pytest.mark.parametrize(("clip", "term"), [("ref_clip_score", REF_CLIP), ("clip_score", CLIP)])
def test_clip_cider_is_the_plain_average(clip, term):
    scorer = load("clip_cider", clip=clip)
    scores = scorer.score(*ROWS, "en")
    np.testing.assert_allclose(scores.components["cider"], CIDER, atol=1e-9)
    np.testing.assert_allclose(scores.components["clip_term"], term, atol=1e-6)
    np.testing.assert_allclose(scores.scores, (np.array(term) + CIDER) / 2, atol=1e-6)
    # with clip_score, references are counted, not embedded
    assert scorer.backbone.encoded_texts == (4 if clip == "ref_clip_score" else 3)
    cider = capscore.load("cider").score(ROWS[0], references=ROWS[2], language="en")
    counts, end = f"segmenter:ptb2|df:{cider.settings['df']}|n:4|sigma:6", f"version:{capscore.__version__}"
    start = f"clip_cider|backbone:colours@w00000000|clip:{clip}|w:2.5|prefix:none"
    assert scores.signature == f"{start}|{counts}|refs:var|lang:en|dtype:fp32|exif:yes|{end}"
    prefixed = load("clip_cider", clip=clip, prefix="blue ").score(*ROWS, "en")
    np.testing.assert_array_equal(prefixed.components["cider"], scores.components["cider"])
    assert abs(prefixed.components["clip_term"] - scores.components["clip_term"]).max() > 0.1


def test_a_prefix_goes_before_candidates_and_references():
    backbone = ColourBackbone(prefix="blue ")
    scores = load("ref_clip_score", backbone=backbone).score(["red"], [RED], [["green"]])
    # "blue red" against red: 1/√2 · 2.5; "blue red" against "blue green": 1/2
    assert scores.components["clip_score"][0] == pytest.approx(2.5 * HALF, abs=1e-6)
    assert scores.components["text_score"][0] == pytest.approx(0.5, abs=1e-6)
    assert "|prefix:blue%20|" in scores.signature
    without = load("ref_clip_score", backbone=backbone, prefix="").score(["red"], [RED], [["green"]])
    assert without.components["clip_score"][0] == 2.5
    # an empty caption is the prefix alone, as in reference CLIPScore: 2.5 · cos(image, "A photo depicts ")
    empty = load("clip_score", prefix="red ", empty="score").score(["", "green"], [RED, RED])
    np.testing.assert_allclose(empty.scores, [2.5, 2.5 * HALF], atol=1e-6)
    with pytest.raises(InputError, match="row 0, references: reference 0 is an empty string"):
        load("text_score", empty="score").score(["a"], references=[[""]])


def test_counts_and_signature():
    with pytest.warns(TruncationWarning, match=r"1 of 3 rows .* 6 tokens .*first such row: 2"):
        scores = load("mcs").score(["red", "red", "a b c d e f"], [RED, RED, GREEN], language="de-AT")
    assert (scores.n_items, scores.n_unique_images, scores.n_truncated, scores.n_failed) == (3, 2, 1, 0)
    assert scores.truncated.tolist() == [False, False, True]
    start, end = "backbone:colours@w00000000", f"dtype:fp32|exif:yes|version:{capscore.__version__}"
    assert scores.signature == f"mcs|{start}|w:2.5|prefix:none|refs:0|lang:de|{end}"
    with pytest.warns(TruncationWarning, match="1 of 2 rows"):
        text = load("text_score").score(["red", "red"], references=[["red"], ["red", "a b c d e f"]])
    assert text.truncated.tolist() == [False, True]
    end = end.replace("exif:yes|", "")
    assert text.signature == f"text_score|{start}|prefix:none|refs:var|lang:unstated|{end}"


def test_languages_of_failed_rows_and_unknown_ones():
    scorer, languages = load("mcs"), ["de", "en", "en"]
    some = scorer.score(["red", None, "red"], [RED, RED, "gone.jpg"], language=languages, on_error="skip")
    assert some.languages == languages and "|lang:de|" in some.signature
    none = scorer.score([None] * 3, [RED] * 3, language=languages, on_error="skip")
    assert "|lang:de+en|" in none.signature
    unknown = r"'colours' was not trained on ja, th \(it knows de, en\)"
    with pytest.warns(LanguageWarning, match=unknown) as caught:
        scorer.score(["red", "red", "red"], [RED] * 3, language=["ja", "th", "de"])
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scorer.score(["red"] * 2, [RED] * 2, language=["de", None])


def test_images_of_rows_without_a_score_are_not_opened():
    scorer = load("mcs", empty="skip")
    found = scorer.score(["red", "", None, ""], [RED, GREEN, BLUE, "gone.jpg"], on_error="skip")
    assert scorer.backbone.encoded_images == found.n_unique_images == 1
    assert (found.n_scored, found.n_empty, found.n_failed) == (1, 2, 1)
    assert "2.5000 of 4 rows, 1 failed, 2 empty" in repr(found)
    # a row counts once
    scored = load("mcs", empty="score").score(["red", ""], [RED, "gone.jpg"], on_error="skip")
    assert (scored.n_scored, scored.n_empty, scored.n_failed) == (1, 0, 1)


def test_an_unknown_metric_is_named_with_a_similar_one():
    for name, meant in (("msc", "mcs"), ("clipscore", "clip_score"), ("RefCLIP-Score", "ref_clip_score")):
        with pytest.raises(CapscoreError, match=f"metric '{name}' is not one of .*did you mean '{meant}'"):
            capscore.load(name, backbone=ColourBackbone())


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1))
@settings(max_examples=20)
def test_any_value_of_a_signature_comes_back(value):
    signature = format_signature("mcs", {"prefix": value, "refs": 0})
    assert parse_signature(signature) == ("mcs", {"prefix": value, "refs": "0"})
    assert "\n" not in signature and " " not in signature
    settings = {"backbone": "org/name@main", "w": 2.5, "prefix": "", "refs": 5, "exif": True}
    assert format_signature("mcs", settings) == "mcs|backbone:org/name@main|w:2.5|prefix:none|refs:5|exif:yes"
    assert format_signature("mcs", {"prefix": ""}) != format_signature("mcs", {"prefix": "none"})
    with pytest.raises(ValueError, match="'w' in signature"):
        parse_signature("mcs|w")


WHITE, BLACK = plain((255, 255, 255)), plain((0, 0, 0))
CAPTIONS, PHOTOS = ["a", "bb", "ccc", "d", "eeee"], [WHITE, BLACK, encode(WHITE), b"no image", WHITE]


def light(candidate, image):
    if len(candidate) == 4:
        raise InputError("too long", field="candidate")
    return len(candidate) + np.asarray(image).mean()


def lights(candidates, images):
    return [light(candidate[:3], image) for candidate, image in zip(candidates, images, strict=True)]


@pytest.mark.parametrize(("function", "last"), [(light, np.nan), (lights, 258)])
def test_rows_keep_their_order_and_bad_ones_are_named(function, last):
    scorer = scorer_of(function, "light", version="1")()
    found = scorer.score(CAPTIONS, PHOTOS, on_error="skip")
    np.testing.assert_allclose(found.scores, [256, 2, 258, np.nan, last])
    assert [bool(key) for key in found.image_keys] == [True, True, True, False, not np.isnan(last)]
    with pytest.raises(ImageError, match=r"^row 3, image: "):
        scorer.score(CAPTIONS[:4], PHOTOS[:4])
