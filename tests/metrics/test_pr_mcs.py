"""PR-MCS: the formula of MCS, what its gate finds of each caption, and the weights that ship."""

import itertools
import warnings
from importlib.resources import files

import numpy as np
import pytest

import capscore
from capscore.backbones.embedded.noise_gate import FOUND
from capscore.images.load import load_image
from capscore.perturbations import KINDS, perturb
from tools.tiny.colours import BLUE, GREEN, RED, ColourBackbone, JudgingColours

from ..shipped_weights import pr_mcs_on

PHOTO = str(files("skimage.data") / "chelsea.png")  # a tabby cat
CAPTIONS = {
    "en": ("A tabby cat with green eyes and white whiskers looks to the side.", ["cat", "eyes", "whiskers"]),
    "de": ("Eine getigerte Katze mit grünen Augen blickt zur Seite.", ["Katze", "Augen"]),
}
SENTENCES = ["A brown dog runs on the beach.", "Two cats sleep on a red sofa."]
SENTENCES += ["A man rides a bike in the street.", "A woman reads a book in the park."]
SENTENCES.append("A white boat lies in the harbour.")
SPOILT = "A woman woman woman reads reads a a book book in in the the park park."
# 2,000 words; no sentence stands in it twice
LONG = " ".join(f"{text[:-1]} near {number} trees." for number in range(40) for text in SENTENCES)
HOSTILE = [
    *("", " \t\n\u3000", "." * 500, "🐱🐶👩‍👩‍👧🇩🇪" * 20, "1234567890" * 300, "c" * 3000),
    *(LONG, LONG.replace(".", "").lower(), "cat " * 2000, "一只猫看着镜头。" * 100),
    *("A cat кошка 猫 قطة แมว sits", "a \u202ecat\u202c sits", "a\x00cat\x07", "\U00013000\U00013001 \ue000"),
]


def scored(metric, backbone, captions, photo=RED, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the recipe, and of captions that were cut
        scorer = capscore.load(metric, backbone=backbone, cache=False, empty="score", **options)
        return scorer.score(captions, [photo] * len(captions))


def test_each_caption_has_its_details():
    """Tokens that differ among all, start and end among them: 3 / 3, 3 / 6, 4 / 5."""
    scorer = capscore.load("pr_mcs", backbone=JudgingColours(), cache=False)
    rows = ["red", "red red red red", "blue green blue"], [RED, GREEN, BLUE]
    scores = scorer.score(*rows)
    kept = [1.0, 0.5, 0.8]
    for detail, share in zip(scores.details, kept, strict=True):
        p = pytest.approx(share)
        assert detail == {"kept": p, "lost": pytest.approx(1 - share), "kind": "none", "p_kind": p}
    stream = [{"image": photo, "caption": text} for text, photo in zip(*rows, strict=True)]
    found = list(capscore.score_stream(stream, scorer, batch_rows=2))
    assert [row["kept"] for row in found] == pytest.approx(kept) and found[0]["kind"] == "none"
    long = JudgingColours()
    long.max_tokens = 20
    (detail,) = scored("pr_mcs", long, ["red " * 10]).details
    assert detail["kind"] == "repetition" and detail["p_kind"] == pytest.approx(0.75)


def test_without_a_gate_there_are_no_details_and_without_the_training_a_warning():
    backbone = ColourBackbone()
    with pytest.warns(capscore.RecipeWarning, match="'colours'"):
        assert capscore.load("pr_mcs", backbone=backbone, cache=False).score(["red"], [RED]).scores == [2.5]
    backbone.recipe = "pr_mcs"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = capscore.load("pr_mcs", backbone=backbone, cache=False).score(["red"], [RED])
    assert scores.details is None and scores.to_dict()["kind"] == [None]


@pytest.fixture(scope="module")
def shipped(base_of_pr_mcs):
    return pr_mcs_on(base_of_pr_mcs)


def test_the_weights_that_ship_are_the_default(shipped, monkeypatch):
    monkeypatch.setattr("capscore.backbones.tuned.load_folder", lambda folder, options: shipped)
    scorer = capscore.load("pr_mcs", cache=False)
    assert scorer.backbone is shipped and shipped.recipe == "pr_mcs"
    # the variable that names the learned backbone means its fine-tuned companion here
    monkeypatch.setenv("CAPSCORE_BACKBONE", "embedded")
    assert capscore.load("pr_mcs", cache=False).backbone is shipped
    with pytest.warns(capscore.RecipeWarning, match="pr_mcs uses 'embedded-pr-mcs'"):
        assert capscore.load("pr_mcs", backbone="embedded", cache=False).backbone is shipped
    captions = ["A cat.", "[MASK] [MASK]", "cat cat cat"]
    scores = scorer.score(captions, [PHOTO] * 3)
    cosines = shipped.encode_texts(captions) @ shipped.encode_images([load_image(PHOTO)])[0]
    np.testing.assert_allclose(scores.scores, shipped.w * np.maximum(cosines, 0), atol=1e-5)
    assert scores.signature.startswith(f"pr_mcs|backbone:embedded-pr-mcs@{shipped.revision}|w:{shipped.w:g}|")


@pytest.mark.parametrize("language", CAPTIONS)
def test_perturbed_captions_lose_their_score_and_others_keep_it(shipped, base_of_pr_mcs, language):
    caption, objects = CAPTIONS[language]
    texts = [caption]
    for kind, seed in itertools.product(KINDS, range(4)):
        given = [objects] if kind == "substitution" else None
        texts += perturb([caption], kind, language, seed=seed, objects=given).captions
    mcs = scored("mcs", base_of_pr_mcs, texts, PHOTO).scores
    pr_mcs = scored("pr_mcs", shipped, texts, PHOTO).scores
    assert pr_mcs[0] == pytest.approx(mcs[0], rel=0.2)
    left = [(values[1:] / values[0]).reshape(len(KINDS), -1).mean(axis=1) for values in (mcs, pr_mcs)]
    assert left[1].mean() < 0.6 * left[0].mean()
    # repetition, masking and jumble are plain to see
    assert (left[1][[0, 2]] < 0.5 * left[0][[0, 2]]).all()
    # the gate lets more of the shuffled German caption pass
    assert left[1][3] < (0.8 if language == "de" else 0.55) * left[0][3]
    right, wrong = scored("pr_mcs", shipped, [caption, "Zwei Männer spielen Fußball."], PHOTO).scores
    assert right > 3 * wrong


def test_unusual_captions_have_a_score_and_a_verdict(shipped):
    found = scored("pr_mcs", shipped, HOSTILE)
    assert np.isfinite(found.scores).all() and (found.scores >= 0).all()
    for detail in found.details:
        assert 0 <= detail["kept"] <= 1 and detail["lost"] == 1 - detail["kept"]
        assert detail["kind"] in FOUND and 1 / len(FOUND) - 1e-6 < detail["p_kind"] <= 1 + 1e-6


def test_a_spoilt_sentence_costs_its_share_even_beyond_the_encoders_context(shipped):
    """The encoder reads 512 pieces, the gate 4,096."""
    texts = [" ".join(SENTENCES), " ".join([*SENTENCES[:3], SPOILT, *SENTENCES[4:]]), SPOILT]
    ids = shipped.tokenize([*texts, LONG[:6000], f"{LONG[:6000]} {' '.join([SPOILT] * 60)}"]).ids
    verdicts = shipped.encode_judged(ids)[1]
    before, after, spoilt, long, long_after = verdicts[:, 0]
    assert before > 0.8 and spoilt < 0.3 and FOUND[verdicts[2, 1:].argmax()] == "repetition"
    assert before - after == pytest.approx((len(ids[2]) - 2) / (len(ids[1]) - 2) * (1 - spoilt), abs=0.1)
    assert long > 0.8 and long_after < long - 0.2
