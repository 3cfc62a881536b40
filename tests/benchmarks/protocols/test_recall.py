"""Retrieval: recall in both directions against full sorting, ties, gaps, slices."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capscore.benchmarks.protocols import recall, retrieval
from capscore.errors import InputError

# 3 images, 5 texts: two of image 0, one of image 1, two of image 2
OWNERS = [0, 0, 1, 2, 2]
SIMILARITY = np.array([[0.9, 0.1, 0.3, 0.2, 0.1], [0.2, 0.6, 0.4, 0.5, 0.1], [0.1, 0.2, 0.8, 0.3, 0.7]])
EYE = np.eye(2)


def both(found):
    return found.details["image_to_text"], found.details["text_to_image"]


def test_literal_recall():
    found = retrieval(SIMILARITY, text_to_image=OWNERS, ks=(1, 2, 3))
    of_images, of_texts = both(found)
    # image 0: its .9 is first; image 1: .4 is third; image 2: .7 is second
    assert of_images == of_images | {"at": {1: 1 / 3, 2: 2 / 3, 3: 1.0}, "n_queries": 3, "n_candidates": 5}
    # text 0: 1st; 1: .1 is third; 2: .4 is second; 3: .3 is second; 4: 1st
    assert of_texts == of_texts | {"at": {1: 2 / 5, 2: 4 / 5, 3: 1.0}, "n_queries": 5, "n_candidates": 3}
    assert found.table()[:2] == [("image to text r@1", 1 / 3, 3), ("image to text r@2", 2 / 3, 3)]
    assert found.notes == ("text to image: R@3 is trivial: there are no more candidates",)
    for matrix in (SIMILARITY.astype(np.float16), SIMILARITY.tolist(), np.round(10 * SIMILARITY).astype(int)):
        assert both(retrieval(matrix, text_to_image=OWNERS, ks=(1,)))[1]["at"] == {1: 0.4}
    # an image without a text is no query, but can be retrieved
    found = retrieval(np.array([[0.5, 0.1], [0.9, 0.2], [0.1, 0.1]]), text_to_image=[0, 1], ks=(1,))
    assert (both(found)[0]["n_queries"], both(found)[1]["at"][1]) == (2, 0.5)
    assert found.notes[0] == "1 image without a text: not a query, but ranked by the texts"


def test_a_constant_metric_finds_nothing():
    owners = {"text_to_image": [0, 0, 1, 1, 2, 2, 3, 3], "ks": (1, 2)}
    embeddings = {"image_embeddings": np.full((4, 7), 0.3), "text_embeddings": np.full((8, 7), 1.7)}
    for given_ in ({"similarity": np.ones((4, 8))}, embeddings):
        of_images, of_texts = both(retrieval(**given_, **owners))
        assert of_images["at"] == of_texts["at"] == {1: 0.0, 2: 0.0}
        assert (of_images["n_tied"], of_texts["n_tied"]) == (4, 8)
    harmless = retrieval(np.array([[0.5, 0.5, 0.1], [0.2, 0.2, 0.3]]), text_to_image=[0, 0, 1], ks=(1,))
    assert (both(harmless)[0]["at"], both(harmless)[0]["n_tied"]) == ({1: 1.0}, 0)


def test_missing_similarities_stop_or_are_left_out():
    matrix = SIMILARITY.copy()
    matrix[1] = matrix[2, 0] = np.nan  # an image that failed, and a pair
    with pytest.raises(InputError, match=r"^row 1, similarity: "):
        retrieval(matrix, text_to_image=OWNERS)
    found = retrieval(matrix, text_to_image=OWNERS, ks=(1, 2), missing="skip")
    assert found.counts["left out"] == 6 and both(found)[0]["at"] == {1: 1 / 2, 2: 1.0}
    # text 2 has no similarity to its image; text 1 now is behind one wrong image only
    assert both(found)[1]["n_queries"] == 4 and both(found)[1]["at"] == {1: 3 / 4, 2: 1.0}
    images = np.eye(3)
    images[1, 0] = np.nan
    embedded = {"image_embeddings": images, "text_embeddings": np.eye(3), "text_to_image": [0, 1, 2]}
    found = retrieval(**embedded, ks=(1,), missing="skip")
    assert [part["n_queries"] for part in both(found)] == [2, 2] and found.counts["left out"] == 3
    nothing = retrieval(np.full((1, 1), np.nan), text_to_image=[0], ks=(1,), missing="skip")
    assert both(nothing)[1]["at"] == {1: None} and "text to image: no queries, no recall" in nothing.notes


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ({}, "similarity"),
        ({"similarity": EYE, "image_embeddings": EYE, "text_embeddings": EYE}, "similarity"),
        ({"similarity": [0.1, 0.2]}, "similarity"),
        ({"similarity": EYE > 0}, "similarity"),
        ({"similarity": np.array([[1, np.inf], [0, 1]])}, "row 0"),
        ({"similarity": np.ones((2, 3))}, "text_to_image"),
        ({"image_embeddings": EYE, "text_embeddings": np.ones((2, 3))}, "text_embeddings"),
        ({"image_embeddings": EYE, "text_embeddings": np.zeros((2, 2))}, "row 0, text_embeddings"),
        ({"image_embeddings": [["a", "b"]], "text_embeddings": EYE}, "image_embeddings"),
        ({"similarity": EYE, "text_to_image": [0, 2]}, "row 1, text_to_image"),
        ({"similarity": EYE, "ks": (0,)}, "ks"),
        ({"similarity": EYE, "ks": ()}, "ks"),
        ({"similarity": EYE, "missing": "drop"}, "missing"),
    ],
)
def test_invalid_arguments_are_named(arguments, place):
    with pytest.raises(InputError, match=f"^{place}[:=]"):
        retrieval(**{"text_to_image": [0, 1], **arguments})


def brute_force(similarity, owners, k):
    """Recall by sorting, the wrong answers first among equals; NaN pairs are not there."""
    found = []
    right = np.array(owners) == np.arange(len(similarity))[:, None]
    for scores, is_right in ((similarity, right), (similarity.T, right.T)):
        hits = []
        for query in zip(scores, is_right, strict=True):
            known = [(-score, hit) for score, hit in zip(*query, strict=True) if not math.isnan(score)]
            if any(hit for _, hit in known):
                hits.append(any(hit for _, hit in sorted(known)[:k]))
        found.append((sum(hits) / len(hits) if hits else None, len(hits)))
    return found


@settings(max_examples=20)
@given(st.data())
def test_agrees_with_sorting_in_any_order_and_any_slices(data):
    n_images = data.draw(st.integers(1, 5))
    owners = data.draw(st.lists(st.integers(0, n_images - 1), min_size=1, max_size=8))
    score, n = st.sampled_from([0.0, 0.25, 0.5, 0.75, math.nan]), len(owners)
    rows = st.lists(score, min_size=n, max_size=n)
    similarity = np.array(data.draw(st.lists(rows, min_size=n_images, max_size=n_images)))
    how = {"ks": (1, 2, 3), "missing": "skip"}
    found = retrieval(similarity, text_to_image=owners, **how)
    for k in (1, 2, 3):
        recalls = [(part["at"][k], part["n_queries"]) for part in both(found)]
        assert recalls == brute_force(similarity, owners, k)
    images = np.array(data.draw(st.permutations(range(n_images))))
    texts = np.array(data.draw(st.permutations(range(len(owners)))))
    moved = np.argsort(images)[np.array(owners)[texts]]
    assert retrieval(similarity[np.ix_(images, texts)], text_to_image=moved, **how) == found
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recall, "_SLICE", len(owners))  # one image at a time
        assert retrieval(similarity, text_to_image=owners, **how) == found


def test_embeddings_give_what_their_cosines_give_in_any_slices(monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    owners = np.repeat(np.arange(40), 3)
    images = rng.standard_normal((40, 16)) * rng.uniform(0.1, 10, (40, 1))
    texts = images[owners] + rng.standard_normal((120, 16)) * 3
    unit = [matrix / np.linalg.norm(matrix, axis=1, keepdims=True) for matrix in (images, texts)]
    np.save(tmp_path / "similarity.npy", unit[0] @ unit[1].T)
    by_matrix = retrieval(unit[0] @ unit[1].T, text_to_image=owners)
    assert 0.1 < both(by_matrix)[1]["at"][1] < 0.9
    # the same image twice is a tie whatever the rounding
    twice = np.repeat(rng.standard_normal((50, 512)), 2, axis=0)
    near = twice + 0.1 * rng.standard_normal(twice.shape)
    for size in (32_000_000, 500):
        monkeypatch.setattr(recall, "_SLICE", size)
        embedded = retrieval(image_embeddings=images, text_embeddings=texts, text_to_image=owners)
        assert both(embedded) == both(by_matrix)
        mapped = np.load(tmp_path / "similarity.npy", mmap_mode="r")
        assert retrieval(mapped, text_to_image=owners) == by_matrix
        tied = retrieval(image_embeddings=twice, text_embeddings=near, text_to_image=range(100), ks=(1, 2))
        assert (both(tied)[1]["at"], both(tied)[1]["n_tied"]) == ({1: 0.0, 2: 1.0}, 100)
