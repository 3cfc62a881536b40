"""InfoMetIC with a public checkpoint, against the public code's scoring path written a second time."""

from __future__ import annotations

import warnings
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest
import torch
from PIL import Image

import capscore
from capscore.errors import CapscoreError, TruncationWarning
from capscore.infometic.network import InfoMetIC, InfoMetICConfig
from training.convert_infometic import convert

from ..backbones.tiny_transformers import write_clip
from ..infometic.public_code import Clip, public_scores, random_checkpoint

CAT = str(files("skimage.data") / "chelsea.png")
ROCKET = str(files("skimage.data") / "astronaut.png")
COFFEE = str(files("skimage.data") / "coffee.png")
PHOTOS = [CAT, ROCKET, COFFEE]
BOXES = {
    CAT: [(0, 0, 225, 300), (225, 0, 451, 300), (100, 50, 300, 200)],
    ROCKET: [(10, 20, 300, 500)],
    COFFEE: [(0, 0, 600, 400), (100, 100, 200, 390), (5, 5, 60, 70), (300, 10, 590, 200), (1, 2, 3, 4)],
}
CAPTIONS = [
    "a cat",
    "the dog and the cat, on 2 mats!",
    "A DOG",
    # 30 pieces of one letter each fill the 32 tokens; one more is cut
    " ".join("abcdefghij" * 3),
    " ".join("abcdefghij" * 3 + "k"),
    "the cat " * 40,
]
ROWS = [(photo, caption) for caption in CAPTIONS for photo in PHOTOS]


@pytest.fixture(scope="module")
def public(tmp_path_factory):
    """A tiny CLIP, weights converted from a random checkpoint, and the public code's scores of `ROWS`."""
    folder = tmp_path_factory.mktemp("public")
    write_clip(folder / "clip", context=77)
    state = random_checkpoint()
    torch.save(state, folder / "best_model.pth")
    convert(folder / "best_model.pth", folder / "network", backbone=str(folder / "clip"))
    clip = Clip(folder / "clip")
    opened = {photo: Image.open(photo).convert("RGB") for photo in PHOTOS}
    expected = [public_scores(state, clip, opened[photo], BOXES[photo], caption) for photo, caption in ROWS]
    return folder, expected


def scorer_of(folder, **options):
    return capscore.load(
        "infometic",
        **{"backbone": str(folder / "clip"), "weights": str(folder / "network"), "device": "cpu", **options},
        cache=False,
        progress=False,
    )


@pytest.fixture(scope="module")
def scorer(public):
    return scorer_of(public[0])


def scored(scorer, rows):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruncationWarning)
        return scorer.score(
            [caption for _, caption in rows],
            [photo for photo, _ in rows],
            language="en",
            boxes=[BOXES[photo] for photo, _ in rows],
        )


def same(scores, expected):
    overall = [one["overall"] for one in expected]
    np.testing.assert_allclose(scores.scores, overall, atol=1e-4)
    for name, component in (("recall", "recall"), ("precision", "precision"), ("cosine", "clip_cosine")):
        np.testing.assert_allclose(
            scores.components[component], [one[name] for one in expected], atol=1e-4, err_msg=name
        )


def test_a_batch_has_the_public_codes_scores(public, scorer):
    scores = scored(scorer, ROWS)
    same(scores, public[1])
    assert np.ptp(scores.scores) > 1  # rows differ, so that equality says something
    for detail, expected in zip(scores.details, public[1], strict=True):
        found = [*(region["score"] for region in detail["regions"]), detail["null"]]
        np.testing.assert_allclose(found, expected["regions"], atol=1e-5)


def test_a_row_alone_has_them_too(public, scorer):
    for row in (0, 4, 8, 9, 13, 17):
        same(scored(scorer, [ROWS[row]]), [public[1][row]])


def test_company_and_order_do_not_matter_under_one_signature(scorer):
    alone, beside = scored(scorer, ROWS[:1]), scored(scorer, [ROWS[-1], ROWS[0], ROWS[5]])
    assert beside.scores[1] == pytest.approx(alone.scores[0], abs=1e-5)
    assert alone.signature == beside.signature
    assert "|reads:frame,pad=0,32+32tokens,raw|" in alone.signature
    assert "|prefix:none|" in alone.signature


def test_a_words_score_is_that_of_its_tokens(public, scorer):
    (detail,) = scored(scorer, [(CAT, "the dog and the cat, on 2 mats!")]).details
    tokens = public[1][3]["tokens"]
    scores = {word["text"]: word["score"] for word in detail["words"]}
    # "the", "dog" and "cat" are one token each, the comma too
    assert scores["dog"] == pytest.approx(tokens[1], abs=1e-5)
    assert scores["cat"] == pytest.approx(tokens[6], abs=1e-5)
    assert sum(scores.values()) < 1


def test_cut_captions_are_counted(scorer):
    for caption, n_cut in ((CAPTIONS[3], 0), (CAPTIONS[4], 1)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            scores = scorer.score([caption], [CAT], language="en", boxes=[BOXES[CAT]])
        assert scores.details[0]["n_words_cut"] == n_cut
        assert list(scores.truncated) == [bool(n_cut)]
        said = [str(one.message) for one in caught if issubclass(one.category, TruncationWarning)]
        assert len(said) == 2 * n_cut
        assert not said or ("32 tokens" in said[0] and "more than 30 pieces" in said[1])


def test_every_pair_of_a_matrix(public, scorer):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruncationWarning)
        found, parts = scorer.score_matrix(CAPTIONS, PHOTOS[:2])
        rows = scorer.score([CAPTIONS[1]] * 2, PHOTOS[:2], language="en")
    np.testing.assert_allclose(found[:, 1], rows.scores, atol=1e-4)
    np.testing.assert_allclose(parts["clip_cosine"][:, 1], rows.components["clip_cosine"], atol=1e-5)


def test_regions_that_are_found_are_read_as_the_public_code_reads_them(public, scorer):
    scores = scorer.score(["a cat"], [CAT], language="en")
    boxes = [[round(edge) for edge in region["box"]] for region in scores.details[0]["regions"]]
    given = scorer.score(["a cat"], [CAT], language="en", boxes=[boxes])
    assert [region["box"] for region in given.details[0]["regions"]] == boxes
    assert given.scores[0] == pytest.approx(scores.scores[0], abs=0.05)  # windows end within pixels


@pytest.mark.parametrize(
    "changes",
    [
        {"frame": False},
        {"pad_token": None},
        {"pad_token": 3},
        {"caption_tokens": None},
        {"caption_tokens": 12},
        {"unit_inputs": True},
        {"input_scale": 10.0},
        {"max_tokens": 20},
        {"prefix": "the "},
        {"mask_padding": True, "pad_token": None},
    ],
)
def test_every_choice_moves_numbers_and_the_signature(public, scorer, changes):
    network = InfoMetIC.from_pretrained(public[0] / "network")
    other = InfoMetIC(replace(network.config, **changes))
    other.load_state_dict(network.state_dict())
    rows = [ROWS[0], ROWS[-1]]
    plain, changed = scored(scorer, rows), scored(scorer_of(public[0], weights=other), rows)
    assert abs(plain.scores - changed.scores).max() > 1e-3
    assert plain.signature.split("|weights:")[0] == changed.signature.split("|weights:")[0]
    assert plain.signature != changed.signature
    alone = scored(scorer_of(public[0], weights=other), rows[:1])
    assert alone.scores[0] == pytest.approx(changed.scores[0], abs=1e-5)


def test_a_given_prefix_wins(public):
    assert scorer_of(public[0], prefix="the ").prefix == "the "
    assert scorer_of(public[0]).prefix == ""


def test_open_clip_gives_the_same_kind_of_features(tmp_path):
    from ..backbones.tiny_open_clip import write_open_clip

    folder = write_open_clip(tmp_path / "clip")
    backbone = capscore.load_backbone(str(folder), device="cpu")
    ids = backbone.tokenize(["a cat", "the dog runs"]).ids
    features = backbone.token_features(ids).detach().numpy()
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    np.testing.assert_allclose(unit, backbone.encode_tokens(ids), atol=1e-6)
    pixels = [backbone.preprocess(Image.open(CAT).convert("RGB"))]
    seen = backbone.pixel_features(pixels).detach().numpy()
    np.testing.assert_allclose(
        seen / np.linalg.norm(seen, axis=1, keepdims=True), backbone.encode_pixels(pixels), atol=1e-6
    )
    assert abs(np.linalg.norm(features, axis=1) - 1).min() > 1e-3


def test_a_backbone_without_such_features_is_refused():
    network = InfoMetIC(InfoMetICConfig().released())
    with pytest.raises(CapscoreError, match="the backbone 'embedded' does not offer"):
        capscore.load("infometic", backbone="embedded", weights=network)
