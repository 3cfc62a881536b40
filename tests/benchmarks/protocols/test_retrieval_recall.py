"""Retrieval: recall in both directions against full sorting, ties, gaps, slices."""

from __future__ import annotations

import importlib
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capscore.benchmarks.protocols import retrieval
from capscore.errors import InputError

MODULE = importlib.import_module("capscore.benchmarks.protocols.recall")

# 3 images, 5 texts: two of image 0, one of image 1, two of image 2
OWNERS = [0, 0, 1, 2, 2]
SIMILARITY = np.array(
    [
        [0.9, 0.1, 0.3, 0.2, 0.1],
        [0.2, 0.6, 0.4, 0.5, 0.1],
        [0.1, 0.2, 0.8, 0.3, 0.7],
    ]
)


def test_literal_recall():
    found = retrieval(SIMILARITY, text_to_image=OWNERS, ks=(1, 2, 3))
    # image 0: its .9 is first; image 1: .4 is third; image 2: .7 is second
    assert found.details["image_to_text"]["at"] == {1: 1 / 3, 2: 2 / 3, 3: 1.0}
    # text 0: 1st; 1: .1 is third; 2: .4 is second; 3: .3 is second; 4: 1st
    assert found.details["text_to_image"]["at"] == {1: 2 / 5, 2: 4 / 5, 3: 1.0}
    assert (found.details["image_to_text"]["n_queries"], found.details["text_to_image"]["n_queries"]) == (
        3,
        5,
    )
    assert (
        found.details["image_to_text"]["n_candidates"],
        found.details["text_to_image"]["n_candidates"],
    ) == (5, 3)
    assert found.table()[:2] == [("image to text r@1", 1 / 3, 3), ("image to text r@2", 2 / 3, 3)]


def test_chance():
    found = retrieval(SIMILARITY, text_to_image=OWNERS, ks=(1, 2))
    assert found.details["text_to_image"]["chance"] == {1: pytest.approx(1 / 3), 2: pytest.approx(2 / 3)}
    # of 5 texts, two are right for images 0 and 2, one for image 1; k = 2: 1 − (3/5)(2/4) = 7/10, and 2/5
    assert found.details["image_to_text"]["chance"] == {
        1: pytest.approx((2 + 1 + 2) / 15),
        2: pytest.approx((0.7 + 0.4 + 0.7) / 3),
    }


def test_a_constant_metric_finds_nothing():
    found = retrieval(np.ones((4, 8)), text_to_image=[0, 0, 1, 1, 2, 2, 3, 3], ks=(1, 2))
    assert found.details["image_to_text"]["at"] == found.details["text_to_image"]["at"] == {1: 0.0, 2: 0.0}
    assert (found.details["image_to_text"]["n_tied"], found.details["text_to_image"]["n_tied"]) == (4, 8)
    embedded = retrieval(
        image_embeddings=np.full((4, 7), 0.3),
        text_embeddings=np.full((8, 7), 1.7),
        text_to_image=[0, 0, 1, 1, 2, 2, 3, 3],
        ks=(1, 2),
    )
    assert (embedded.details["image_to_text"], embedded.details["text_to_image"]) == (
        found.details["image_to_text"],
        found.details["text_to_image"],
    )


def test_ties_among_the_right_answers_do_no_harm():
    found = retrieval(np.array([[0.5, 0.5, 0.1], [0.2, 0.2, 0.3]]), text_to_image=[0, 0, 1], ks=(1,))
    assert found.details["image_to_text"]["at"] == {1: 1.0}
    assert found.details["image_to_text"]["n_tied"] == 0


def test_an_image_without_a_text_is_no_query_but_can_be_found():
    found = retrieval(np.array([[0.5, 0.1], [0.9, 0.2], [0.1, 0.1]]), text_to_image=[0, 1], ks=(1,))
    assert (found.details["image_to_text"]["n_queries"], found.details["text_to_image"]["at"][1]) == (2, 0.5)


def test_the_matrix_is_left_as_it_was():
    for dtype in (np.float16, np.float32, np.float64):
        matrix = SIMILARITY.astype(dtype)
        matrix.flags.writeable = False
        copy = matrix.copy()
        assert retrieval(matrix, text_to_image=OWNERS, ks=(1,)).details["text_to_image"]["at"] == {1: 0.4}
        assert (matrix == copy).all()
    assert retrieval(SIMILARITY.tolist(), text_to_image=OWNERS, ks=(1,)).details["text_to_image"]["at"] == {
        1: 0.4
    }
    whole = np.round(10 * SIMILARITY).astype(int)
    assert retrieval(whole, text_to_image=OWNERS, ks=(1,)).details["text_to_image"]["at"] == {1: 0.4}


def test_missing_similarities():
    matrix = SIMILARITY.copy()
    matrix[1] = np.nan  # an image that failed
    matrix[2, 0] = np.nan
    with pytest.raises(InputError, match=r"^row 1, similarity: "):
        retrieval(matrix, text_to_image=OWNERS)
    found = retrieval(matrix, text_to_image=OWNERS, ks=(1, 2), missing="skip")
    assert found.counts["left out"] == 6
    assert found.details["image_to_text"]["at"] == {1: 1 / 2, 2: 1.0}
    # text 2 has no similarity to its image; text 1 now is behind one wrong image only
    assert found.details["text_to_image"]["n_queries"] == 4
    assert found.details["text_to_image"]["at"] == {1: 3 / 4, 2: 1.0}
    nothing = retrieval(np.full((1, 1), np.nan), text_to_image=[0], ks=(1,), missing="skip")
    assert nothing.details["text_to_image"]["at"] == {1: None}


def test_missing_embeddings():
    images, texts = np.eye(3), np.eye(3)[[0, 1, 2]]
    images[1, 0] = np.nan
    arguments = {"image_embeddings": images, "text_embeddings": texts, "text_to_image": [0, 1, 2]}
    with pytest.raises(InputError, match=r"^row 1, similarity: "):
        retrieval(**arguments)
    found = retrieval(**arguments, ks=(1,), missing="skip")
    assert (
        found.details["image_to_text"]["n_queries"],
        found.details["text_to_image"]["n_queries"],
        found.counts["left out"],
    ) == (2, 2, 3)
    assert found.details["image_to_text"]["at"] == {1: 1.0}


EYE = np.eye(2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, r"^similarity: "),
        ({"image_embeddings": EYE}, r"^similarity: "),
        (
            {"similarity": EYE, "image_embeddings": EYE, "text_embeddings": EYE},
            r"^similarity: ",
        ),
        (
            {"similarity": [0.1, 0.2]},
            r"^similarity: ",
        ),
        ({"similarity": EYE > 0}, r"^similarity: "),
        ({"similarity": np.array([[1, np.inf], [0, 1]])}, r"^row 0: "),
        ({"similarity": np.ones((2, 3))}, r"^text_to_image: "),
        (
            {"image_embeddings": EYE, "text_embeddings": np.ones((2, 3))},
            r"^text_embeddings: ",
        ),
        (
            {"image_embeddings": EYE, "text_embeddings": np.zeros((2, 2))},
            r"^row 0, text_embeddings: ",
        ),
        (
            {"image_embeddings": [["a", "b"]], "text_embeddings": EYE},
            r"^image_embeddings: ",
        ),
        ({"similarity": EYE, "text_to_image": [0, 2]}, r"^row 1, text_to_image: "),
        ({"similarity": EYE, "text_to_image": [0, -1]}, r"^row 1, text_to_image: "),
        ({"similarity": EYE, "text_to_image": [0, 1.5]}, r"^row 1, text_to_image: "),
        ({"similarity": EYE, "ks": (0,)}, r"^ks: "),
        ({"similarity": EYE, "ks": ()}, r"^ks: "),
        ({"similarity": EYE, "missing": "drop"}, r"^missing: "),
    ],
)
def test_what_is_wrong_is_named(arguments, message):
    with pytest.raises(InputError, match=message):
        retrieval(**{"text_to_image": [0, 1], **arguments})


def brute_force(similarity, owners, k):
    """Recall by sorting, the wrong answers first among equals; NaN pairs are not there."""
    found = []
    n_images, n_texts = similarity.shape
    for axis in (0, 1):
        hits, queries = 0, 0
        for query in range(similarity.shape[axis]):
            answers = []
            for other in range(n_texts if axis == 0 else n_images):
                image, text = (query, other) if axis == 0 else (other, query)
                if not math.isnan(similarity[image, text]):
                    answers.append((-similarity[image, text], owners[text] == image))
            if any(right for _, right in answers):
                queries += 1
                hits += any(right for _, right in sorted(answers)[:k])
        found.append((hits / queries if queries else None, queries))
    return found


@given(st.data())
def test_agrees_with_sorting_in_any_order_and_any_slices(data):
    n_images = data.draw(st.integers(1, 5))
    owners = data.draw(st.lists(st.integers(0, n_images - 1), min_size=1, max_size=8))
    values = st.sampled_from([0.0, 0.25, 0.5, 0.75, math.nan])
    rows = st.lists(values, min_size=len(owners), max_size=len(owners))
    similarity = np.array(data.draw(st.lists(rows, min_size=n_images, max_size=n_images)))
    found = retrieval(similarity, text_to_image=owners, ks=(1, 2, 3), missing="skip")
    for k in (1, 2, 3):
        assert [
            (part["at"][k], part["n_queries"])
            for part in (found.details["image_to_text"], found.details["text_to_image"])
        ] == brute_force(similarity, owners, k)

    images = np.array(data.draw(st.permutations(range(n_images))))
    texts = np.array(data.draw(st.permutations(range(len(owners)))))
    moved = np.argsort(images)[np.array(owners)[texts]]
    shuffled = retrieval(similarity[np.ix_(images, texts)], text_to_image=moved, ks=(1, 2, 3), missing="skip")
    assert shuffled == found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MODULE, "_SLICE", len(owners))  # one image at a time
        assert retrieval(similarity, text_to_image=owners, ks=(1, 2, 3), missing="skip") == found


def test_embeddings_give_what_their_cosines_give(monkeypatch):
    rng = np.random.default_rng(0)
    owners = np.repeat(np.arange(40), 3)
    images = rng.standard_normal((40, 16)) * rng.uniform(0.1, 10, (40, 1))
    texts = images[owners] + rng.standard_normal((120, 16)) * 3
    unit = [matrix / np.linalg.norm(matrix, axis=1, keepdims=True) for matrix in (images, texts)]
    by_matrix = retrieval(unit[0] @ unit[1].T, text_to_image=owners)
    for size in (32_000_000, 500):
        monkeypatch.setattr(MODULE, "_SLICE", size)
        by_embedding = retrieval(image_embeddings=images, text_embeddings=texts, text_to_image=owners)
        assert by_embedding.details["image_to_text"] == by_matrix.details["image_to_text"]
        assert by_embedding.details["text_to_image"] == by_matrix.details["text_to_image"]
    assert 0.1 < by_matrix.details["text_to_image"]["at"][1] < 0.9


def test_the_same_image_twice_is_a_tie_whatever_the_rounding(monkeypatch):
    rng = np.random.default_rng(0)
    images = np.repeat(rng.standard_normal((50, 512)), 2, axis=0)
    texts = images + 0.1 * rng.standard_normal(images.shape)
    for size in (32_000_000, 700):
        monkeypatch.setattr(MODULE, "_SLICE", size)
        found = retrieval(
            image_embeddings=images, text_embeddings=texts, text_to_image=np.arange(100), ks=(1, 2)
        )
        assert found.details["text_to_image"]["at"] == {1: 0.0, 2: 1.0}
        assert found.details["text_to_image"]["n_tied"] == 100


def test_a_memory_map_is_read_in_slices(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    matrix = rng.random((30, 90)).astype(np.float32)
    np.save(tmp_path / "similarity.npy", matrix)
    owners = np.arange(90) // 3
    mapped = np.load(tmp_path / "similarity.npy", mmap_mode="r")
    monkeypatch.setattr(MODULE, "_SLICE", 200)
    assert retrieval(mapped, text_to_image=owners) == retrieval(matrix, text_to_image=owners)
