"""Texts of several sentences: what `long` reads of them, as means worked out by hand."""

import warnings

import numpy as np
import pytest

import capscore
from capscore.errors import InputError, OptionError, TruncationWarning
from capscore.images.load import load_image
from capscore.scoring.streams import RunningSummary
from tools.tiny.colours import BLUE, GREEN, RED, ColourBackbone, JudgingColours

from ..photos import noise

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
    other = "green green green . red red red red ."
    found = scorer.score([LONG, LONG, other], [RED, GREEN, RED])
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
    with pytest.raises(OptionError, match=r"long='cut': an option of .*mcs.*, not of infometic"):
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
