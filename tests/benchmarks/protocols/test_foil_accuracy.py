"""Captions and foils: accuracy per piece, the published mean over pieces, VALSE's groups."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capscore.benchmarks.protocols import VALSE_PHENOMENA, VALSE_PIECES, foils
from capscore.errors import InputError

from .shares import counted, interval


def test_one_piece():
    found = foils([0.9, 0.5, 0.3, 0.2], [0.1, 0.5, 0.4, 0.1])
    assert counted(found) == {"all": (4, 2, 1), "pooled": (4, 2, 1)}
    assert found.statistics[0] == ("accuracy_all", 0.5, None, 4)
    assert found.value("accuracy_mean") == found.value("accuracy_pooled") == 0.5
    assert found.details["phenomena"] == {}


def test_mean_over_pieces_and_over_pairs_differ():
    found = foils([1, 1, 1, 0], [0, 0, 0, 1], ["a", "a", "a", "b"])
    assert found.table() == [
        ("accuracy a", 1.0, 3),
        ("accuracy b", 0.0, 1),
        ("accuracy mean", 0.5, 4),
        ("accuracy pooled", 0.75, 4),
    ]


def test_the_interval_of_the_mean_is_over_pieces():
    # whatever images are drawn, all pairs of piece a are won and none of b
    found = foils(
        [1, 1, 1, 0] * 5,
        [0, 0, 0, 1] * 5,
        ["a", "a", "a", "b"] * 5,
        images=[row // 4 for row in range(20)],
        bootstrap=100,
    )
    assert interval(found, "accuracy_mean") == (0.5, 0.5)
    assert interval(found, "accuracy_pooled") == (0.75, 0.75)


def test_pairs_that_are_not_valid_take_no_part_and_need_no_score():
    found = foils([0.9, None, 0.3], [0.1, 0.2, 0.4], valid=[True, False, True])
    assert counted(found)["pooled"] == (2, 1, 0)
    assert found.counts == {"pairs": 2, "ties": 0, "not valid": 1, "left out": 0}
    with pytest.raises(InputError, match=r"^row 1, caption_scores: "):
        foils([0.9, None, 0.3], [0.1, 0.2, 0.4])
    skipped = foils([0.9, None, 0.3], [0.1, 0.2, 0.4], valid=[1, 1, 0], missing="skip")
    assert skipped.counts == {"pairs": 1, "ties": 0, "not valid": 1, "left out": 1}


def test_no_valid_pair_leaves_nothing_to_say():
    found = foils([0.9, 0.8], [0.1, 0.2], ["a", "b"], [True, False])
    assert [value for _, value, _ in found.table()] == [1.0, None, None, 1.0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"valid": [True]}, r"^valid: "),
        ({"valid": [True, "yes"]}, r"^row 1, valid: "),
        ({"valid": [True, math.nan]}, r"^row 1, valid: "),
        ({"pieces": ["a", None]}, r"^row 1, pieces: "),
        ({"pieces": ["a", "c"], "known": ("a", "b")}, r"^row 1, pieces: "),
    ],
)
def test_what_is_wrong_is_named(settings, message):
    with pytest.raises(InputError, match=message):
        foils([0.9, 0.8], [0.1, 0.2], **settings)


def test_valse_has_eleven_pieces_in_seven_groups():
    assert len(VALSE_PIECES) == len(set(VALSE_PIECES)) == 11
    assert [len(pieces) for pieces in VALSE_PHENOMENA.values()] == [1, 1, 3, 1, 2, 2, 1]


def test_valse_gives_the_published_average():
    # Accuracies in percent of the published table's first line (English, ViT-H/14, both losses), here as wins
    # of 1,000 pairs a piece; its average is 69.7.
    percent = [81.6, 76.3, 68.3, 75.8, 66.1, 66.5, 86.0, 62.1, 46.9, 42.3, 95.0]
    captions, pieces = [], []
    for piece, share in zip(VALSE_PIECES, percent, strict=True):
        wins = round(10 * share)
        captions += [1.0] * wins + [0.0] * (1000 - wins)
        pieces += [piece] * 1000
    found = foils(captions, [0.5] * len(captions), pieces, known=VALSE_PIECES)
    assert round(100 * found.value("accuracy_mean"), 1) == 69.7
    assert round(100 * found.details["phenomena"]["counting"], 1) == 70.1  # (68.3 + 75.8 + 66.1) / 3
    assert round(100 * found.details["phenomena"]["coreference"], 1) == 44.6
    assert found.details["phenomena"]["existence"] == 0.816


def test_valse_names_an_unknown_piece():
    with pytest.raises(InputError, match=r"^row 0, pieces: "):
        foils([0.9], [0.1], ["plural"], known=VALSE_PIECES)


ROWS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.5, 1.0, None]),
        st.sampled_from([0.0, 0.5, 1.0]),
        st.sampled_from(["a", "b"]),
        st.booleans(),
        st.integers(1, 3),
    ),
    min_size=1,
    max_size=20,
)


@given(ROWS, st.randoms())
def test_agrees_with_one_row_at_a_time_in_any_order(rows, random):
    def run(rows):
        captions, foiled, pieces, valid, images = zip(*rows, strict=True)
        return foils(
            captions, foiled, pieces, valid, known=("a", "b"), images=images, bootstrap=40, missing="skip"
        )

    def without_first_row(notes):
        return [note.split("(first such row")[0] for note in notes]

    found, shuffled = run(rows), run(random.sample(rows, len(rows)))
    assert (shuffled.statistics, shuffled.details) == (found.statistics, found.details)
    for piece in ("a", "b"):
        mine = [(c, f) for c, f, p, valid, _ in rows if p == piece and valid and c is not None]
        assert counted(found)[piece] == (
            len(mine),
            sum(c > f for c, f in mine),
            sum(c == f for c, f in mine),
        )
