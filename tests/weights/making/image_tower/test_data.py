"""Drawing captions, their embeddings on disk, and photos that look like held-out ones."""

from types import SimpleNamespace

import numpy as np
import pytest

from weights.making.held_out import Photo
from weights.making.image_tower import data as training_data
from weights.making.image_tower.data import CaptionDraws, CaptionEmbeddings, caption_embeddings
from weights.making.image_tower.rows import PhotoRow

# captions of three rows: de 1, 0, 0; en 2, 1, 0; zh 3, 0, 2; the embedding of caption n is (n, 1)
OFFSETS = {"de": np.array([0, 1, 1, 1]), "en": np.array([1, 3, 4, 4]), "zh": np.array([4, 7, 7, 9])}
EMBEDDINGS = CaptionEmbeddings(np.array([[n, 1] for n in range(9)], dtype=np.float16), OFFSETS, "nine")


def shares(draws: CaptionDraws, row: int, n: int = 20_000) -> dict[int, float]:
    found, counts = np.unique(draws.places(np.full(n, row), np.random.default_rng(3)), return_counts=True)
    return dict(zip(found.tolist(), counts / n, strict=True))


@pytest.mark.parametrize(
    ("english", "expected"),
    [
        (None, {0: 1 / 3, 1: 1 / 6, 2: 1 / 6, 4: 1 / 9, 5: 1 / 9, 6: 1 / 9}),
        (0.8, {0: 0.1, 1: 0.4, 2: 0.4, 4: 1 / 30, 5: 1 / 30, 6: 1 / 30}),
    ],
)
def test_a_language_is_drawn_first_and_then_a_caption(english, expected):
    draws = CaptionDraws(EMBEDDINGS, english)
    assert draws.counts.tolist() == [6, 1, 2]
    assert shares(draws, 0) == pytest.approx(expected, abs=0.012)
    assert shares(draws, 1) == {3: 1.0}  # its only caption
    assert shares(draws, 2) == pytest.approx({7: 0.5, 8: 0.5}, abs=0.012)


def test_two_captions_of_a_row_are_different_ones_and_means_are_of_all():
    draws = CaptionDraws(EMBEDDINGS, 0.5)
    pair = draws.two(np.array([0, 1, 2] * 200), np.random.default_rng(0))
    first, second = (part[:, 0].numpy().reshape(-1, 3) for part in pair)
    assert (first[:, [0, 2]] != second[:, [0, 2]]).all()
    assert (first[:, 1] == 3).all() and (second[:, 1] == 3).all()  # it has no other
    assert set(first[:, 0]) == set(second[:, 0]) == {0, 1, 2, 4, 5, 6} and set(first[:, 2]) == {7, 8}
    np.testing.assert_allclose(draws.means(np.array([2, 0])).numpy(), [[7.5, 1], [3, 1]], atol=1e-6)


ROWS = [
    PhotoRow(Photo("flickr", 1), "1.jpg", None, {"en": ("a", "bb"), "de": ("c",)}),
    PhotoRow(Photo("flickr", 2), "2.jpg", None, {"zh": ("d",)}),
    PhotoRow(Photo("flickr", 3), "3.jpg", None, {"en": ("eee",), "zh": ("f", "g")}),
]


class Encoder:
    """In place of a backbone and its embedder: rows of three numbers from a text's characters."""

    def __init__(self, fingerprint="x"):
        self.fingerprint, self.seen = fingerprint, 0

    def texts(self, texts):
        self.seen += len(texts)
        found = np.array([[len(text), ord(text[0]) - 96, 1] for text in texts], dtype=np.float32)
        return SimpleNamespace(matrix=found, index=np.arange(len(texts)))


@pytest.fixture(autouse=True)
def _embedder(monkeypatch):
    monkeypatch.setattr(training_data, "Embedder", lambda encoder, cache: encoder)


def test_embeddings_are_at_their_rows_and_computed_once_for_the_same_captions_and_encoder(tmp_path):
    encoder = Encoder()
    found = caption_embeddings(ROWS, encoder, tmp_path / "new")
    assert sorted(found.offsets) == ["de", "en", "zh"] and found.matrix.dtype == np.float16
    for number, row in enumerate(ROWS):
        for language, texts in row.captions.items():
            part = slice(*found.offsets[language][number : number + 2])
            assert found.matrix[part].tolist() == Encoder().texts(texts).matrix.tolist()
    assert caption_embeddings(ROWS, encoder, tmp_path / "new").digest == found.digest and encoder.seen == 7
    assert len(caption_embeddings(ROWS[:2], encoder, tmp_path / "new").matrix) == 4 and encoder.seen == 7 + 4
    other = Encoder("y")
    caption_embeddings(ROWS[:2], other, tmp_path / "new")
    assert other.seen == 4
