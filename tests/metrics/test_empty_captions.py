"""Empty captions: an error whatever on_error says, a score as in reference code, or a counted gap."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from PIL import Image

import capscore
from capscore.embedding.embedder import Embedder
from capscore.errors import InputError
from capscore.metrics.backbone_scorer import MCS, CLIPScore
from capscore.metrics.base import PreparedRows
from capscore.registry import METRICS

from ..toy import GREEN, RED, ColourBackbone

WITHOUT_JAVA = [metric for metric in METRICS.names() if metric not in ("meteor", "spice")]
BLANK = ["", " ", "\u3000\t\n", "\u200b\ufeff", " \xa0\u200b"]
CAPTIONS = ["a dog runs", "", "two cats sit"]
REFERENCES = [["a dog", "the dog runs"], ["one cat"], ["two cats", "cats"]]
PHOTO = Image.new("RGB", (64, 64), "red")


@pytest.fixture(scope="module")
def load():
    """Loads a metric; those with a backbone share the embedded one."""
    made = {}

    def load(metric, **options):
        if METRICS.get(metric).takes_backbone:
            backbone = "embedded-pr-mcs" if metric == "pr_mcs" else "embedded"
            if backbone not in made:
                made[backbone] = capscore.backbones.loading.load_backbone(backbone, device="cpu")
            options = {"backbone": made[backbone], "cache": False, **options}
        return capscore.load(metric, **options)

    return load


def score(scorer, captions=CAPTIONS, references=REFERENCES, language="en", **more):
    kind = type(scorer)
    return scorer.score(
        captions,
        [PHOTO] * len(captions) if kind.needs_images else None,
        references if kind.needs_references else None,
        language,
        **more,
    )


@pytest.mark.parametrize("metric", WITHOUT_JAVA)
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_by_default_an_empty_caption_is_an_error_whatever_on_error_says(load, metric, on_error):
    with pytest.raises(InputError) as caught:
        score(load(metric), on_error=on_error)
    assert str(caught.value).startswith("row 1, candidate: expected a caption, got an empty string")
    assert "empty='skip'" in str(caught.value)


@pytest.mark.parametrize("metric", WITHOUT_JAVA)
@pytest.mark.parametrize("blank", BLANK)
def test_a_skipped_row_is_left_out_and_counted(load, metric, blank):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = score(load(metric, empty="skip"), ["a dog runs", blank, "two cats sit"])
        others = score(load(metric), [CAPTIONS[0], CAPTIONS[2]], [REFERENCES[0], REFERENCES[2]])
    np.testing.assert_allclose(found.scores[[0, 2]], others.scores, rtol=0, atol=1e-5)
    assert np.isnan(found.scores[1]) and found.empty.tolist() == [False, True, False]
    assert found.mean == pytest.approx(others.mean, abs=1e-5) and found.corpus == pytest.approx(others.corpus)
    assert (found.n_items, found.n_scored, found.n_empty, found.n_failed) == (3, 2, 1, 0)
    assert "|empty:skip|" in found.signature and "empty" not in others.signature
    summary = found.summary()
    assert [summary[key] for key in ("n_items", "n_scored", "n_failed", "n_empty")] == [3, 2, 0, 1]


@pytest.mark.parametrize("metric", WITHOUT_JAVA)
def test_every_blank_caption_scores_the_same_and_a_full_one_as_before(load, metric):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = score(
            load(metric, empty="score"), ["a dog runs", *BLANK], [REFERENCES[0], *[["one cat"]] * 5]
        )
        alone = score(load(metric, empty="score"), ["a dog runs", ""], [REFERENCES[0], ["one cat"]])
        without = score(load(metric, empty="score"), ["a dog runs"], [REFERENCES[0]])
    assert np.isfinite(found.scores).all() and (found.n_scored, found.n_empty) == (6, 5)
    np.testing.assert_allclose(found.scores[1:], found.scores[1], rtol=0, atol=1e-6)
    np.testing.assert_allclose(alone.scores[1], found.scores[1], rtol=0, atol=1e-5)
    assert "|empty:score|" in found.signature and "empty" not in without.signature


def test_clip_score_of_the_prefix_alone():
    """As reference CLIPScore: 2.5 · cos(image, "A photo depicts ")."""
    backbone = ColourBackbone()
    made = CLIPScore(Embedder(backbone), prefix="red ", empty="score").score(["", "green"], [RED, RED])
    assert made.scores[0] == pytest.approx(2.5)  # the text is "red", the photo too
    plain = CLIPScore(Embedder(backbone), prefix="red ").score(["red"], [RED])
    assert plain.scores[0] == pytest.approx(2.5)


@pytest.mark.parametrize("language", ["en", "de", "ja", "ko", "th", "zh"])
def test_counting_metrics_give_0_as_coco_caption(language):
    """pycocoevalcap 1.2: Cider, Rouge and Bleu(4) of {0: ["a dog runs"], 1: [""]}, references as here."""
    pytest.importorskip(
        {"ja": "fugashi", "ko": "mecab_ko", "th": "pythainlp", "zh": "rjieba"}.get(language, "json")
    )
    texts = ["a dog runs", ""]
    references = [["a dog", "the dog runs"], ["one cat"]]
    for metric in ("cider", "cider_d", "rouge_l", "bleu"):
        found = capscore.load(metric, empty="score").score(texts, references=references, language=language)
        assert found.scores[1] == 0 and found.scores[0] > 0
    if language == "en":
        # 3 words beside references of 3 and 2: e^(1 − 5/3)
        assert found.corpus["corpus_bleu_1"] == pytest.approx(0.5134171186903144)
        cider = capscore.load("cider", empty="score").score(texts, references=references)
        assert cider.scores == pytest.approx([3.3365689318484023, 0])


def test_empty_references_score_as_coco_caption_does_where_empty_captions_do():
    """pycocoevalcap 1.2's Rouge of these rows: the empty text is one empty word there."""
    captions, references = ["a dog", "", "a dog"], [["a dog", ""], ["", "a cat"], [" "]]
    found = capscore.load("rouge_l", empty="score").score(captions, references=references)
    assert found.scores.tolist() == [1, 1, 0]
    with pytest.raises(InputError, match="row 0, references: reference 1 is an empty string"):
        capscore.load("rouge_l", empty="skip").score(captions, references=references)
    with pytest.raises(InputError, match="row 0, references: reference 0 is an empty string"):
        capscore.load("text_score", backbone="embedded", empty="score").score(["a"], references=[[""]])


def test_a_row_counts_once_and_its_photo_is_not_opened_if_it_is_left_out():
    scorer = MCS(Embedder(ColourBackbone()), empty="skip")
    found = scorer.score(["red", "", None, ""], [RED, GREEN, RED, "gone.jpg"], on_error="skip")
    assert scorer.backbone.encoded_images == 1
    assert (found.n_scored, found.n_empty, found.n_failed) == (1, 2, 1)
    assert "2.5000 of 4 rows, 1 failed, 2 empty" in repr(found)
    scored = MCS(Embedder(ColourBackbone()), empty="score").score(
        ["red", ""], [RED, "gone.jpg"], on_error="skip"
    )
    assert (scored.n_scored, scored.n_empty, scored.n_failed) == (1, 0, 1)


def test_pieces_remember_what_was_empty():
    scorer = MCS(Embedder(ColourBackbone()), empty="skip")
    pieces = [scorer.prepare(["", "red"], [RED, RED]), scorer.prepare(["red", " "], [RED, RED])]
    found = scorer.finish(PreparedRows.concatenate(pieces))
    assert found.empty.tolist() == [True, False, False, True] and found.n_scored == 2


def test_when_every_caption_is_empty():
    for empty, mean in (("skip", None), ("score", 0)):
        found = capscore.load("cider", empty=empty).score(["", " "], references=[["a"], ["b"]])
        assert found.to_dict()["cider"] == mean and found.n_empty == 2


def test_without_lists():
    found = capscore.load("bleu").score(["a dog"], references=[["a dog"]])
    flat = found.to_dict(per_row=False)
    assert all(isinstance(value, (float, int, str)) for value in flat.values())
    assert set(flat) == set(found.summary()) and "n_scored" in flat and "signature" in flat
    assert found.to_dict()["scores"] == found.scores.tolist()


@pytest.mark.parametrize(("name", "value"), [("empty", "ignore"), ("empty", 3)])
def test_options_are_checked(name, value):
    with pytest.raises(InputError, match=f"{name}={value!r}: expected "):
        capscore.load("cider", **{name: value})
    with pytest.raises(InputError, match=f"{name}={value!r}: expected "):
        MCS(Embedder(ColourBackbone()), **{name: value})
