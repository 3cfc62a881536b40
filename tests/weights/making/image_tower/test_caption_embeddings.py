"""Embeddings of captions: each at its row's place, and computed again only for other captions."""

from __future__ import annotations

import numpy as np
import pytest

from capscore.errors import CapscoreError
from weights.making.held_out import Photo
from weights.making.image_tower.data import caption_embeddings
from weights.making.image_tower.rows import PhotoRow

ROWS = [
    PhotoRow(Photo("flickr", 1), "1.jpg", None, "multi30k", {"en": ("a", "bb"), "de": ("c",)}),
    PhotoRow(Photo("flickr", 2), "2.jpg", None, "multi30k", {"zh": ("d",)}),
    PhotoRow(Photo("flickr", 3), "3.jpg", None, "multi30k", {"en": ("eee",), "zh": ("f", "g")}),
]


def rows_of(texts):
    """A unit row of four numbers for a text, from its characters."""
    found = np.array([[len(text), ord(text[0]) - 96, 1, 0] for text in texts], dtype=np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


class Encoder:
    def __init__(self):
        self.seen = []

    def __call__(self, texts):
        self.seen += texts
        return rows_of(texts)


def test_each_caption_is_at_the_place_of_its_row(tmp_path):
    found = caption_embeddings(ROWS, Encoder(), "x", tmp_path / "captions.npy")
    assert sorted(found.offsets) == ["de", "en", "zh"] and found.matrix.dtype == np.float16
    assert found.matrix.shape == (7, 4)
    for number, row in enumerate(ROWS):
        for language in ("de", "en", "zh"):
            texts = row.captions.get(language, ())
            expected = rows_of(texts) if texts else np.zeros((0, 4))
            np.testing.assert_allclose(
                found.matrix[slice(*found.offsets[language][number : number + 2])].astype(float),
                expected,
                atol=1e-3,
            )


def test_they_are_computed_once_for_the_same_captions_and_encoder(tmp_path):
    encoder, file = Encoder(), tmp_path / "new" / "captions.npy"
    first = caption_embeddings(ROWS, encoder, "x", file)
    again = caption_embeddings(ROWS, encoder, "x", file)
    assert len(encoder.seen) == 7 and again.digest == first.digest
    np.testing.assert_array_equal(first.matrix, again.matrix)
    other = caption_embeddings(ROWS[:2], encoder, "x", file)
    assert len(encoder.seen) == 7 + 4 and other.digest != first.digest and len(other.matrix) == 4
    assert caption_embeddings(ROWS[:2], encoder, "y", file).digest != other.digest
    assert len(encoder.seen) == 7 + 4 + 4


def test_rows_without_captions_have_no_embeddings(tmp_path):
    row = PhotoRow(Photo("coco", 1), "a.jpg", None, "coco", {})
    found = caption_embeddings([row], Encoder(), "x", tmp_path / "captions.npy")
    assert found.offsets == {} and len(found.matrix) == 0


def test_an_embedding_that_is_not_finite_names_its_caption(tmp_path):
    def broken(texts):
        found = rows_of(texts)
        found[list(texts).index("bb"), 2] = np.nan
        return found

    with pytest.raises(CapscoreError, match="the embedding of the caption 'bb' is not finite"):
        caption_embeddings(ROWS, broken, "x", tmp_path / "captions.npy")
    assert not list(tmp_path.iterdir())
