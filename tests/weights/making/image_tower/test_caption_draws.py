"""Drawing captions: languages first, then a caption, for all rows at once."""

from __future__ import annotations

import numpy as np
import pytest

from weights.making.image_tower.data import CaptionDraws, CaptionEmbeddings

# captions of three rows: de 1, 0, 0; en 2, 1, 0; zh 3, 0, 2; the embedding of caption n is (n, 1)
OFFSETS = {
    "de": np.array([0, 1, 1, 1]),
    "en": np.array([1, 3, 4, 4]),
    "zh": np.array([4, 7, 7, 9]),
}
EMBEDDINGS = CaptionEmbeddings(np.array([[n, 1] for n in range(9)], dtype=np.float16), OFFSETS, "nine")


def shares(draws: CaptionDraws, row: int, n: int = 20_000) -> dict[int, float]:
    places, counts = np.unique(draws.places(np.full(n, row), np.random.default_rng(3)), return_counts=True)
    return dict(zip(places.tolist(), counts / n, strict=True))


@pytest.mark.parametrize(
    "english, expected",
    [
        (None, {0: 1 / 3, 1: 1 / 6, 2: 1 / 6, 4: 1 / 9, 5: 1 / 9, 6: 1 / 9}),
        (0.5, {0: 1 / 4, 1: 1 / 4, 2: 1 / 4, 4: 1 / 12, 5: 1 / 12, 6: 1 / 12}),
        (0.8, {0: 0.1, 1: 0.4, 2: 0.4, 4: 1 / 30, 5: 1 / 30, 6: 1 / 30}),
    ],
)
def test_chances_of_captions(english, expected):
    draws = CaptionDraws(EMBEDDINGS, ("de", "en", "zh"), english)
    assert draws.counts.tolist() == [6, 1, 2]
    assert shares(draws, 0) == pytest.approx(expected, abs=0.012)
    assert shares(draws, 1) == {3: 1.0}  # its only caption
    assert shares(draws, 2) == pytest.approx({7: 0.5, 8: 0.5}, abs=0.012)


def test_captions_in_other_languages_count_as_missing():
    draws = CaptionDraws(EMBEDDINGS, ("de", "en", "fr"))
    assert draws.counts.tolist() == [3, 1, 0]
    assert set(shares(draws, 0)) == {0, 1, 2}


def test_two_captions_of_a_row_are_different_ones_of_it():
    draws = CaptionDraws(EMBEDDINGS, ("de", "en", "zh"), 0.5)
    first, second = draws.two(np.array([0, 1, 2] * 200), np.random.default_rng(0))
    one, other = first[:, 0].numpy().reshape(-1, 3), second[:, 0].numpy().reshape(-1, 3)
    assert (one[:, [0, 2]] != other[:, [0, 2]]).all()
    assert (one[:, 1] == 3).all() and (other[:, 1] == 3).all()  # it has no other
    assert set(one[:, 0]) == set(other[:, 0]) == {0, 1, 2, 4, 5, 6}
    assert set(one[:, 2]) == {7, 8}


def test_means_are_of_all_captions_of_a_row():
    draws = CaptionDraws(EMBEDDINGS, ("de", "en", "zh"))
    np.testing.assert_allclose(draws.means(np.array([2, 0])).numpy(), [[7.5, 1], [3, 1]], atol=1e-6)
