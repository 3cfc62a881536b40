"""MaRVL: groups of four rows, two experiments, and the groups that are not as they should be."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capscore.benchmarks.protocols import marvl
from capscore.errors import InputError

from .shares import counted

# (left, right, label, caption, id)
CLEAN = [
    (0.9, 0.2, True, "two dogs", "sw-0"),  # max .9
    (0.1, 0.3, False, "two dogs", "sw-1"),  # min .1
    (0.2, 0.4, True, "two dogs", "sw-2"),  # max .4
    (0.6, 0.5, False, "two dogs", "sw-3"),  # min .5
]
EASY = [
    (0.9, 0.9, True, "a hat", "sw-8"),
    (0.8, 0.1, False, "a hat", "sw-9"),
    (0.9, 0.1, True, "a hat", "sw-10"),
    (0.2, 0.8, False, "a hat", "sw-11"),
]
ODD = [
    (0.5, 0.5, label, "a boat", f"sw-{12 + place}") for place, label in enumerate([True, False, False, False])
]


def run(rows, **settings):
    left, right, labels, captions, ids = zip(*rows, strict=True)
    return marvl(left, right, labels, captions, ids, **settings)


def test_two_experiments():
    found = run(CLEAN + EASY)
    # true .9 and .4 against false .1 and .5: only .4 > .5 fails; the other group has all
    assert found.statistics == (("accuracy_1", 7 / 8, None, 8), ("accuracy_2", 0.5, None, 2))
    assert counted(found) == {"1": (8, 7, 0), "2": (2, 1, 0)}


def test_irregular_groups_are_named_and_take_no_part():
    found = run(ODD + CLEAN + EASY[:3])
    assert found.statistics[0].n == 4
    assert found.details["irregular"] == [
        {"ids": ["sw-8", "sw-9", "sw-10"], "n_true": 2, "n_false": 1},
        {"ids": ["sw-12", "sw-13", "sw-14", "sw-15"], "n_true": 1, "n_false": 3},
    ]
    assert found.counts == {"rows": 11, "groups": 1, "irregular groups": 2, "left out": 0}


def test_a_caption_of_two_groups_is_irregular():
    twice = CLEAN + [(*row[:3], "two dogs", row[4]) for row in EASY]
    as_published = run(twice)
    assert (as_published.counts["groups"], len(as_published.details["irregular"])) == (0, 1)
    assert as_published.value("accuracy_1") is None


def test_a_group_with_only_equal_scores_in_the_way_is_a_tie():
    rows = [
        (0.5, 0.1, True, "c", 0),
        (0.9, 0.1, True, "c", 1),
        (0.5, 0.7, False, "c", 2),
        (0.1, 0.2, False, "c", 3),
    ]
    found = run(rows)
    assert counted(found) == {"1": (4, 3, 1), "2": (1, 0, 1)}


def test_missing_scores():
    rows = [(math.nan, *CLEAN[0][1:]), *CLEAN[1:], *EASY]
    with pytest.raises(InputError, match=r"^row 0, left_scores: "):
        run(rows)
    found = run(rows, missing="skip")
    assert [row.n for row in found.statistics] == [6, 1] and found.counts["left out"] == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({4: "sw-0"}, r"^ids: "),
        ({2: "true"}, r"^row 1, labels: "),
        ({3: None}, r"^row 1, captions: "),
    ],
)
def test_what_is_wrong_is_named(change, message):
    row = list(CLEAN[1])
    for place, value in change.items():
        row[place] = value
    with pytest.raises(InputError, match=message):
        run([CLEAN[0], tuple(row), *CLEAN[2:]])


SCORE = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0, math.nan])
GROUPS = st.lists(
    st.one_of(st.permutations([True, True, False, False]), st.lists(st.booleans(), min_size=1, max_size=5)),
    min_size=1,
    max_size=4,
)


@given(GROUPS, st.data())
def test_agrees_with_loops_in_any_order(groups, data):
    rows = []
    for number, labels in enumerate(groups):
        for label in labels:
            rows.append((data.draw(SCORE), data.draw(SCORE), label, f"caption {number}", len(rows)))
    found = run(rows, missing="skip", bootstrap=40)
    shuffled = run(data.draw(st.permutations(rows)), missing="skip", bootstrap=40)
    assert shuffled.details == found.details
    assert counted(shuffled) == counted(found)

    by_caption = defaultdict(list)
    for row in rows:
        by_caption[row[3]].append(row)
    pairs, fours, n_clean = [], [], 0
    for members in by_caption.values():
        right = [row for row in members if row[2]]
        wrong = [row for row in members if not row[2]]
        if len(right) != 2 or len(wrong) != 2:
            continue
        n_clean += 1
        values = []
        for a, b in itertools.product(right, wrong):
            gap = any(math.isnan(score) for score in (*a[:2], *b[:2]))
            values.append(None if gap else max(a[:2]) - min(b[:2]))
        pairs += [value for value in values if value is not None]
        if None not in values:
            fours.append(values)
    assert counted(found) == {
        "1": (len(pairs), sum(value > 0 for value in pairs), sum(value == 0 for value in pairs)),
        "2": (len(fours), sum(min(v) > 0 for v in fours), sum(min(v) == 0 for v in fours)),
    }
    assert found.counts["groups"] == n_clean
    assert found.counts["left out"] == 5 * n_clean - len(pairs) - len(fours)


def test_intervals_draw_groups():
    rows = []
    for group in range(40):
        right, wrong = (0.9, 0.1) if group % 2 else (0.1, 0.9)
        for label in (True, True, False, False):
            score = right if label else wrong
            rows.append((score, score, label, f"caption {group}", len(rows)))
    found = run(rows, bootstrap=2000)
    half = 1.96 * math.sqrt(0.25 / 40)  # the four pairs of a group say the same
    for row in found.statistics:
        assert row.value == 0.5
        assert row.interval == pytest.approx((0.5 - half, 0.5 + half), abs=0.035)
