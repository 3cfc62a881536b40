"""XVNLI: three experiments on captions of one image, against every pair and triple enumerated."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capscore.benchmarks.protocols import XVNLI_LABELS, xvnli
from capscore.errors import InputError

from .shares import counted

E, N, C = XVNLI_LABELS
# image "bus" has all labels and a second contradiction; image "cat" no neutral caption; one row has no label
SCORES = [0.8, 0.5, 0.3, 0.6, 0.4, 0.4, 0.9]
LABELS = [E, N, C, C, E, C, "-"]
IMAGES = ["bus", "bus", "bus", "bus", "cat", "cat", "cat"]


def test_three_experiments():
    found = xvnli(SCORES, LABELS, IMAGES)
    # E > C: .8 > .3, .8 > .6, .4 = .4
    # and E > N: .8 > .5; N > C: .5 > .3, .5 < .6
    # .8 > .5 > .3, not .5 > .6
    assert counted(found) == {"1": (3, 2, 1), "2": (6, 4, 1), "3": (2, 1, 0)}
    assert found.value("accuracy_1") == 2 / 3 and found.value("accuracy_3") == 0.5
    assert found.counts == {
        "captions": 7,
        "without label": 1,
        "images": 2,
        "comparisons": 11,
        "left out": 0,
    }


def test_premises_part_the_captions_of_an_image():
    premises = ["bus#0", "bus#0", "bus#0", "bus#1", "cat#0", "cat#0", "cat#0"]
    found = xvnli(SCORES, LABELS, IMAGES, premise_ids=premises)
    assert counted(found) == {"1": (2, 1, 1), "2": (4, 3, 1), "3": (1, 1, 0)}
    assert found.counts["premises"] == 2
    # the same premise number under two images is two premises
    numbered = xvnli(SCORES, LABELS, IMAGES, premise_ids=[0, 0, 0, 1, 0, 0, 0])
    assert numbered.table() == found.table()


def test_a_triple_with_only_equal_scores_in_the_way_is_a_tie():
    for scores, wins, ties in (
        ((0.9, 0.9, 0.1), 0, 1),
        ((0.5, 0.5, 0.5), 0, 1),
        ((0.5, 0.9, 0.5), 0, 0),
        ((0.9, 0.5, 0.1), 1, 0),
    ):
        assert counted(xvnli(scores, (E, N, C), ("a", "a", "a")))["3"] == (1, wins, ties)


def test_nothing_to_compare_is_told():
    found = xvnli([0.1, 0.2], [E, C], ["a", "b"])
    assert [value for _, value, _ in found.table()] == [None, None, None]
    unlabelled = xvnli([0.1], ["-"], ["a"])
    assert unlabelled.statistics[1].n == 0


def test_missing_scores():
    scores = [0.8, math.nan, 0.3, 0.6, 0.4, 0.4, math.nan]
    with pytest.raises(InputError, match=r"^row 1, scores: "):
        xvnli(scores, LABELS, IMAGES)
    found = xvnli(scores, LABELS, IMAGES, missing="skip")
    assert [row.n for row in found.statistics] == [3, 3, 0] and found.counts["left out"] == 0 + 3 + 2
    # the unlabelled row's gap is nobody's business


@pytest.mark.parametrize(
    ("labels", "images", "message"),
    [
        ([E, "Entailment"], ["a", "a"], r"^row 1, labels: "),
        ([E, None], ["a", "a"], r"^row 1, labels: "),
        ([E], ["a", "a"], r"^labels: "),
        ([E, C], ["a"], r"^image_ids: "),
        ([E, C], ["a", None], r"^row 1, image_ids: "),
    ],
)
def test_what_is_wrong_is_named(labels, images, message):
    with pytest.raises(InputError, match=message):
        xvnli([0.1, 0.2], labels, images)


ROWS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.25, 0.5, 0.75, math.nan]),
        st.sampled_from([E, N, C, "-"]),
        st.sampled_from(["a", "b", "c"]),
        st.integers(0, 1),
    ),
    min_size=1,
    max_size=14,
)


def brute_force(rows, key):
    """(n, wins, ties) of the three experiments and what is left out, every combination looked at."""
    order = {E: 2, N: 1, C: 0}
    found = [[0, 0, 0] for _ in range(3)]
    left_out = [0, 0, 0]

    def count(experiment, scores):
        if any(math.isnan(score) for score in scores):
            left_out[experiment] += 1
            return
        pairs = list(itertools.pairwise(scores))
        won = all(a > b for a, b in pairs)
        found[experiment][0] += 1
        found[experiment][1] += won
        found[experiment][2] += not won and all(a >= b for a, b in pairs)

    labelled = [row for row in rows if row[1] != "-"]
    for size in (2, 3):
        for chosen in itertools.combinations(labelled, size):
            if len({key(row) for row in chosen}) > 1 or len({row[1] for row in chosen}) < size:
                continue
            ranked = sorted(chosen, key=lambda row: -order[row[1]])
            scores = [row[0] for row in ranked]
            if size == 3:
                count(2, scores)
            else:
                count(1, scores)
                if {row[1] for row in chosen} == {E, C}:
                    count(0, scores)
    return [tuple(part) for part in found], tuple(left_out)


@given(ROWS, st.booleans(), st.randoms())
def test_agrees_with_every_combination_in_any_order(rows, by_premise, random):
    def run(rows):
        scores, labels, images, premises = zip(*rows, strict=True)
        return xvnli(
            scores,
            labels,
            images,
            premise_ids=premises if by_premise else None,
            bootstrap=40,
            missing="skip",
        )

    found = run(rows)
    expected, left_out = brute_force(rows, (lambda row: row[2:]) if by_premise else (lambda row: row[2]))
    assert list(counted(found).values()) == expected
    assert found.counts["left out"] == sum(left_out)
    assert run(random.sample(rows, len(rows))).statistics == found.statistics


def test_interval_draws_images():
    # half of 60 images have two contradictions below the entailed caption, half have both above
    scores, labels, images = [], [], []
    for image in range(60):
        scores += [0.5, *([0.1, 0.2] if image % 2 else [0.8, 0.9])]
        labels += [E, C, C]
        images += [image] * 3
    row = xvnli(scores, labels, images, bootstrap=2000).statistics[0]
    assert (row.n, row.value) == (120, 0.5)
    half = 1.96 * math.sqrt(0.25 / 60)
    assert row.interval == pytest.approx((0.5 - half, 0.5 + half), abs=0.03)
