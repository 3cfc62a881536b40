"""InfoMetIC with a public checkpoint, against the public code's scoring path written a second time."""

from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest
import torch
from PIL import Image

import capscore
from capscore.infometic.network import InfoMetIC
from tools.tiny.transformers_models import write_clip
from training.convert import Settings, convert

from ..infometic.public_code import Clip, public_scores, random_checkpoint

pytestmark = pytest.mark.filterwarnings("ignore::capscore.errors.TruncationWarning")
CAT, ROCKET, COFFEE = (str(files("skimage.data") / f"{n}.png") for n in ("chelsea", "astronaut", "coffee"))
BOXES = {
    CAT: [(0, 0, 225, 300), (225, 0, 451, 300), (100, 50, 300, 200)],
    ROCKET: [(10, 20, 300, 500)],
    COFFEE: [(0, 0, 600, 400), (100, 100, 200, 390), (5, 5, 60, 70), (300, 10, 590, 200), (1, 2, 3, 4)],
}
CAPTIONS = ["a cat", "the dog and the cat, on 2 mats!"]
# 30 pieces of one letter each fill the 32 tokens; one more is cut
CAPTIONS += [" ".join("abcdefghij" * 3), " ".join("abcdefghij" * 3 + "k")]
ROWS = [(photo, caption) for caption in CAPTIONS for photo in BOXES]


@pytest.fixture(scope="module")
def public(tmp_path_factory):
    """A tiny CLIP, weights converted from a random checkpoint, and the public code's scores of `ROWS`."""
    folder, state = tmp_path_factory.mktemp("public"), random_checkpoint()
    write_clip(folder / "clip", context=77)
    torch.save(state, folder / "best_model.pth")
    convert(Settings(f"{folder}/best_model.pth", f"{folder}/network", backbone=f"{folder}/clip"))
    clip = Clip(folder / "clip")
    opened = {photo: Image.open(photo).convert("RGB") for photo in BOXES}
    return folder, [public_scores(state, clip, opened[photo], BOXES[photo], text) for photo, text in ROWS]


def scorer_of(folder, **options):
    given = {"backbone": str(folder / "clip"), "weights": str(folder / "network"), "device": "cpu"}
    return capscore.load("infometic", **{**given, **options}, cache=False, progress=False)


@pytest.fixture(scope="module")
def scorer(public):
    return scorer_of(public[0])


def scored(scorer, rows):
    photos, captions = zip(*rows, strict=True)
    return scorer.score(captions, photos, language="en", boxes=[BOXES[photo] for photo in photos])


def assert_same(scores, expected):
    found = scores.components | {"overall": scores.scores, "cosine": scores.components["clip_cosine"]}
    for name in ("overall", "recall", "precision", "cosine"):
        np.testing.assert_allclose(found[name], [each[name] for each in expected], atol=1e-4, err_msg=name)


def test_scores_are_those_of_the_public_code(public, scorer):
    scores = scored(scorer, ROWS)
    assert_same(scores, public[1])
    assert np.ptp(scores.scores) > 1  # rows differ, so that equality says something
    for detail, expected in zip(scores.details, public[1], strict=True):
        found = [*(region["score"] for region in detail["regions"]), detail["null"]]
        np.testing.assert_allclose(found, expected["regions"], atol=1e-5)
    for row in (0, 4, 11):
        alone = scored(scorer, [ROWS[row]])
        assert_same(alone, [public[1][row]])
        assert alone.signature == scores.signature
    assert "|reads:frame,pad=0,32+32tokens,raw|" in scores.signature and "|prefix:none|" in scores.signature
    # "dog" and "cat" are one token each
    words = {word["text"]: word["score"] for word in scores.details[3]["words"]}
    tokens = public[1][3]["tokens"]
    assert [words["dog"], words["cat"]] == pytest.approx([tokens[1], tokens[6]], abs=1e-5)
    assert sum(words.values()) < 1
    matrix, parts = scorer.score_matrix(CAPTIONS, list(BOXES)[:2])
    rows = scorer.score([CAPTIONS[1]] * 2, list(BOXES)[:2], language="en")
    np.testing.assert_allclose(matrix[:, 1], rows.scores, atol=1e-4)
    np.testing.assert_allclose(parts["clip_cosine"][:, 1], rows.components["clip_cosine"], atol=1e-5)


CHANGES = [{"frame": False}, {"pad_token": 3}, {"caption_tokens": 12}, {"unit_inputs": True}]
CHANGES += [{"max_tokens": 20}, {"prefix": "the "}, {"mask_padding": True, "pad_token": None}]


@pytest.mark.parametrize("changes", CHANGES)
def test_every_choice_moves_numbers_and_the_signature(public, scorer, changes, tmp_path):
    network = InfoMetIC.from_pretrained(public[0] / "network")
    other = InfoMetIC(replace(network.config, **changes))
    other.load_state_dict(network.state_dict())
    other.save_pretrained(tmp_path)
    rows = [ROWS[0], ROWS[-1]]
    plain, changed = scored(scorer, rows), scored(scorer_of(public[0], weights=tmp_path), rows)
    assert abs(plain.scores - changed.scores).max() > 1e-3
    assert plain.signature != changed.signature
    alone = scored(scorer_of(public[0], weights=tmp_path), rows[:1])
    assert alone.scores[0] == pytest.approx(changed.scores[0], abs=1e-5)
