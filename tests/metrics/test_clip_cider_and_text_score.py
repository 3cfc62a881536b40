"""Metrics that compare texts in a backbone's space, alone or beside CIDEr; scores computed by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import capscore
from capscore.errors import CapscoreError, ImageError, InputError, LanguageWarning
from capscore.metrics.base import PreparedRows
from capscore.metrics.formulas.cider import DocumentFrequencies
from capscore.text.segmentation import segmenter_name

from ..toy import BLUE, GREEN, RED, ColourBackbone

CAPTIONS = ["red", "red blue", "green"]
PHOTOS = [RED, RED, BLUE]
REFERENCES = [["red"], ["red", "blue"], ["blue", "green"]]
HALF = math.sqrt(0.5)

# one word is a quarter of 10; red and blue are in two sets of references of three, green in one. The second
# caption has a 2-gram more than its references
CIDER = [2.5, 2.5 * HALF * math.exp(-1 / 72), 1.25]
CLIP = [2.5, 2.5 * HALF, 0.0]
TEXT = [1.0, HALF, 1.0]
REF_CLIP = [2 * a * b / (a + b) for a, b in zip(CLIP, TEXT, strict=True)]


class SignedColours(ColourBackbone):
    """Texts that say "not" point the other way."""

    def tokenize(self, texts):
        tokens = super().tokenize([text.replace("not ", "") for text in texts])
        return type(tokens)(
            [[*ids, 7] if "not " in text else ids for text, ids in zip(texts, tokens.ids, strict=True)],
            tokens.truncated,
        )

    def encode_tokens(self, ids):
        signs = [[-1.0] if 7 in sequence else [1.0] for sequence in ids]
        return super().encode_tokens(ids) * np.array(signs, dtype=np.float32)


def load(metric, **options):
    return capscore.load(metric, **{"backbone": ColourBackbone(), "cache": False, **options})


# ----------------------------------------------------------------------------- text_score


def test_text_score_is_the_nearest_references_cosine():
    scores = load("text_score").score(CAPTIONS, references=REFERENCES, language="en")
    np.testing.assert_allclose(scores.scores, TEXT, atol=1e-6)
    assert scores.components == {} and scores.n_unique_images == 0
    assert scores.signature == (
        f"text_score|backbone:colours@w00000000|prefix:none|refs:var|lang:en|dtype:fp32"
        f"|version:{capscore.__version__}"
    )


def test_text_score_is_not_cut_off_at_0():
    signed = load("text_score", backbone=SignedColours())
    scores = signed.score(
        ["not red", "not red", "red"], references=[["red"], ["red", "blue"], ["not red", "red"]]
    )
    np.testing.assert_allclose(scores.scores, [-1, 0, 1], atol=1e-6)


def test_text_score_opens_no_image():
    backbone = ColourBackbone()
    scorer = load("text_score", backbone=backbone)
    with_images = scorer.score(CAPTIONS, ["gone.jpg"] * 3, REFERENCES)
    assert with_images.to_dict() == scorer.score(CAPTIONS, references=REFERENCES).to_dict()
    assert backbone.encoded_images == 0 and backbone.encoded_texts == 4  # each distinct text once
    with pytest.raises(InputError, match=r"text_score compares with references, but references=None$"):
        scorer.score(CAPTIONS)


def test_text_score_has_a_prefix_truncation_and_languages():
    scorer = load("text_score", prefix="blue ")
    assert scorer.score(["red"], references=[["green"]]).mean == pytest.approx(0.5, abs=1e-6)
    with pytest.warns(LanguageWarning, match="not trained on ja"):
        scorer.score(["red"], references=[["red"]], language="ja")
    with pytest.warns(capscore.TruncationWarning, match="1 of 1 rows"):
        assert scorer.score(["red"], references=[["a b c d e f"]]).n_truncated == 1


def test_text_score_is_the_text_term_of_ref_clip_score(embedded):
    captions = ["eine Katze schläft", "ein Hund", "Kaffee"]
    references = [["eine schlafende Katze", "ein Kater"], ["zwei Katzen"], ["Tee", "eine Tasse Kaffee"]]
    text = load("text_score", backbone=embedded).score(captions, references=references).scores
    both = load("ref_clip_score", backbone=embedded).score(captions, [RED] * 3, references)
    np.testing.assert_allclose(np.maximum(text, 0), both.components["text_score"], atol=1e-6)
    assert len(set(text.round(3))) == 3


# ----------------------------------------------------------------------------- clip_cider


def test_clip_cider_is_the_plain_average():
    scores = load("clip_cider").score(CAPTIONS, PHOTOS, REFERENCES, "en")
    np.testing.assert_allclose(scores.components["cider"], CIDER, atol=1e-9)
    np.testing.assert_allclose(scores.components["clip_term"], REF_CLIP, atol=1e-6)
    expected = [(clip + cider) / 2 for clip, cider in zip(REF_CLIP, CIDER, strict=True)]
    np.testing.assert_allclose(scores.scores, expected, atol=1e-6)
    assert scores.n_unique_images == 2
    cider = capscore.load("cider").score(CAPTIONS, references=REFERENCES, language="en")
    assert scores.signature == (
        f"clip_cider|backbone:colours@w00000000|clip:ref_clip_score|w:2.5|prefix:none"
        f"|segmenter:{segmenter_name('en')}|df:{cider.settings['df']}|n:4|sigma:6|refs:var|lang:en|dtype:fp32"
        f"|exif:yes|version:{capscore.__version__}"
    )


def test_clip_cider_with_clip_score():
    backbone = ColourBackbone()
    scorer = load("clip_cider", clip="clip_score", backbone=backbone)
    scores = scorer.score(CAPTIONS, PHOTOS, REFERENCES, "en")
    np.testing.assert_allclose(scores.components["clip_term"], CLIP, atol=1e-6)
    np.testing.assert_allclose(
        scores.scores, [(clip + cider) / 2 for clip, cider in zip(CLIP, CIDER, strict=True)], atol=1e-6
    )
    assert "|clip:clip_score|" in scores.signature
    assert backbone.encoded_texts == 3  # captions; references are counted, not embedded
    with pytest.raises(CapscoreError, match="clip='mcs': expected 'ref_clip_score' or 'clip_score'"):
        load("clip_cider", clip="mcs")


def test_the_prefix_is_no_part_of_the_words():
    plain = load("clip_cider").score(CAPTIONS, PHOTOS, REFERENCES, "en")
    prefixed = load("clip_cider", prefix="blue ").score(CAPTIONS, PHOTOS, REFERENCES, "en")
    np.testing.assert_array_equal(prefixed.components["cider"], plain.components["cider"])
    assert abs(prefixed.components["clip_term"] - plain.components["clip_term"]).max() > 0.1


def test_a_row_whose_image_fails_is_no_document():
    """Its references are not counted, as if the row were not there."""
    scorer = load("clip_cider")
    with pytest.raises(ImageError, match=r"^row 1, image: .*gone\.jpg"):
        scorer.score(CAPTIONS, [RED, "gone.jpg", BLUE], REFERENCES)
    skipped = scorer.score(CAPTIONS, [RED, "gone.jpg", BLUE], REFERENCES, on_error="skip")
    without = scorer.score(CAPTIONS[::2], PHOTOS[::2], REFERENCES[::2])
    np.testing.assert_allclose(
        skipped.scores, [without.scores[0], np.nan, without.scores[1]], rtol=0, atol=1e-12
    )
    assert skipped.signature == without.signature


def test_clip_cider_with_frequencies_that_were_counted_before():
    counted = DocumentFrequencies.from_references([[["red"]], [["blue"]], [["green"]], [["red", "blue"]]])
    scores = load("clip_cider", document_frequencies=counted).score(["green"], [GREEN], [["green"]], "en")
    assert scores.components["cider"].tolist() == [2.5]
    assert f"|df:{counted.fingerprint}|" in scores.signature


@given(
    rows=st.lists(
        st.tuples(st.sampled_from(CAPTIONS), st.integers(0, 2), st.integers(0, 2)), min_size=2, max_size=8
    ),
    cuts=st.sets(st.integers(1, 7)),
)
@pytest.mark.filterwarnings("ignore::capscore.errors.CorpusWarning")
@pytest.mark.parametrize("clip", ["ref_clip_score", "clip_score"])
def test_pieces_are_one_corpus(clip, rows, cuts):
    scorer = load("clip_cider", clip=clip)

    def columns(part):
        captions, photos, references = zip(*part, strict=True)
        return (
            captions,
            [PHOTOS[place] for place in photos],
            [REFERENCES[place] for place in references],
            "en",
        )

    edges = [0, *sorted(cut for cut in cuts if cut < len(rows)), len(rows)]
    pieces = [scorer.prepare(*columns(rows[start:end])) for start, end in itertools.pairwise(edges)]
    together = scorer.finish(PreparedRows.concatenate(pieces))
    assert together.to_dict() == scorer.score(*columns(rows)).to_dict()
