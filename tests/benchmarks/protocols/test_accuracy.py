"""How often scores are in people's order: literal accuracies, ties, gaps, and every comparison enumerated."""

import itertools
import math
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capscore.benchmarks import protocols
from capscore.benchmarks.protocols import VALSE_PIECES, XVNLI_LABELS, foils, marvl, xvnli
from capscore.errors import InputError

SCORE = st.sampled_from([0.0, 0.25, 0.5, 0.75, math.nan])


def counted(found):
    """Name of a row, without "accuracy_" → (comparisons, wins, ties); the mean has no wins of its own."""
    ties = found.details["ties"]
    rows = {row.name: (row.n, round(row.n * (row.value or 0))) for row in found.statistics}
    counted = {name: (*pair, ties[name]) for name, pair in rows.items() if name in ties}
    return {name.removeprefix("accuracy_"): three for name, three in counted.items()}


def tallied(values):
    """Differences of scores → (comparisons, wins, ties); NaN stands for no comparison."""
    values = [value for value in values if not math.isnan(value)]
    return len(values), sum(value > 0 for value in values), sum(value == 0 for value in values)


def test_pascal50s_has_an_accuracy_per_category_and_their_plain_mean():
    # HC won, lost; HI tied, won; HM won; MM lost
    first, second = [0.9, 0.2, 0.5, 0.1, 0.8, 0.7], [0.1, 0.7, 0.5, 0.3, 0.2, 0.9]
    found = protocols.pairwise_by_category(first, second, [0, 0, 1, 1, 0, 0], "HC HC HI HI HM MM".split())
    assert counted(found) == {"hc": (2, 1, 0), "hi": (2, 1, 1), "hm": (1, 1, 0), "mm": (1, 0, 0)}
    assert found.table()[-1] == ("accuracy mean", 0.5, 6)
    assert found.counts == {"pairs": 6, "ties": 1, "left out": 0}
    assert "1 tie of scores in HI, not counted as a win" in found.notes
    empty = protocols.pairwise_by_category([0.9], [0.1], [0], ["HM"])
    assert [value for _, value, _ in empty.table()] == [None, None, 1.0, None, None]
    assert "HC has nothing to compare: no accuracy, and no mean over all" in empty.notes


def test_foils_have_a_mean_over_pieces_and_one_over_pairs():
    found = foils([1, 1, 1, 0], [0, 0, 0, 1], ["a", "a", "a", "b"])
    assert found.table()[2:] == [("accuracy mean", 0.5, 4), ("accuracy pooled", 0.75, 4)]
    assert counted(found) == {"a": (3, 3, 0), "b": (1, 0, 0), "pooled": (4, 3, 0)}
    one = foils([0.9, 0.5, 0.3, 0.2], [0.1, 0.5, 0.4, 0.1])
    assert counted(one) == {"all": (4, 2, 1), "pooled": (4, 2, 1)}
    nothing = foils([0.9, 0.8], [0.1, 0.2], ["a", "b"], [True, False])
    assert [value for _, value, _ in nothing.table()] == [1.0, None, None, 1.0]
    # a foil that is not valid needs no score
    counts = {"pairs": 2, "ties": 0, "not valid": 1, "left out": 0}
    scores = [0.9, None, 0.3], [0.1, 0.2, 0.4]
    found = foils(*scores, valid=[True, False, True])
    assert counted(found)["pooled"] == (2, 1, 0) and found.counts == counts
    assert foils(*scores, valid=[1, 1, 0], missing="skip").counts == counts | {"pairs": 1, "left out": 1}


def test_valse_gives_the_published_average():
    assert len(set(VALSE_PIECES)) == 11
    assert [len(pieces) for pieces in protocols.VALSE_PHENOMENA.values()] == [1, 1, 3, 1, 2, 2, 1]
    # Accuracies in percent of the published table's first line (English, ViT-H/14, both losses), here as wins
    # of 1,000 pairs a piece; its average is 69.7.
    percent = [81.6, 76.3, 68.3, 75.8, 66.1, 66.5, 86.0, 62.1, 46.9, 42.3, 95.0]
    captions = [float(pair < 10 * share) for share in percent for pair in range(1000)]
    pieces = [piece for piece in VALSE_PIECES for _ in range(1000)]
    found = foils(captions, [0.5] * len(captions), pieces)
    assert round(100 * found.value("accuracy_mean"), 1) == 69.7
    assert round(100 * found.details["phenomena"]["counting"], 1) == 70.1  # (68.3 + 75.8 + 66.1) / 3
    assert round(100 * found.details["phenomena"]["coreference"], 1) == 44.6
    assert found.details["phenomena"]["existence"] == 0.816


E, N, C = XVNLI_LABELS
xvnli_row = st.tuples(SCORE, st.sampled_from([E, N, C, "-"]), st.sampled_from("abc"), st.integers(0, 1))


@settings(max_examples=30)
@given(st.lists(xvnli_row, min_size=1, max_size=14), st.booleans())
def test_xvnli_counts_every_combination(rows, by_premise):
    scores, labels, images, premises = zip(*rows, strict=True)
    found = xvnli(scores, labels, images, premise_ids=premises if by_premise else None, missing="skip")
    gaps = {"1": [], "2": [], "3": []}
    for size in (2, 3):
        for chosen in itertools.combinations([row for row in rows if row[1] != "-"], size):
            groups = {row[2:] if by_premise else row[2] for row in chosen}
            ranked = sorted(chosen, key=lambda row: XVNLI_LABELS.index(row[1]))
            if len(groups) > 1 or len({row[1] for row in chosen}) < size:
                continue
            steps = [a[0] - b[0] for a, b in itertools.pairwise(ranked)]
            gap = math.nan if any(map(math.isnan, steps)) else min(steps)
            gaps["2" if size == 2 else "3"].append(gap)
            if [row[1] for row in ranked] == [E, C]:
                gaps["1"].append(gap)
    assert counted(found) == {name: tallied(values) for name, values in gaps.items()}
    assert found.counts["left out"] == sum(math.isnan(gap) for values in gaps.values() for gap in values)


# (left, right, label, caption, id)
MARVL = [
    (0.9, 0.2, True, "two dogs", "sw-0"),  # max .9
    (0.1, 0.3, False, "two dogs", "sw-1"),  # min .1
    (0.2, 0.4, True, "two dogs", "sw-2"),  # max .4
    (0.6, 0.5, False, "two dogs", "sw-3"),  # min .5
]
ODD = [(0.5, 0.5, place == 0, "a boat", f"sw-{12 + place}") for place in range(4)]


def run(rows, **how):
    return marvl(*zip(*rows, strict=True), **how)


def test_irregular_groups_take_no_part():
    found = run(ODD + MARVL)
    # true .9 and .4 against false .1 and .5: only .4 > .5 fails
    assert found.statistics == (("accuracy_1", 3 / 4, None, 4), ("accuracy_2", 0.0, None, 1))
    assert found.counts == {"rows": 8, "groups": 1, "irregular groups": 1, "left out": 0}
    # so is a caption of two groups
    twice = run(MARVL + [(*row[:4], f"{row[4]} again") for row in MARVL])
    assert (twice.counts["groups"], twice.value("accuracy_1")) == (0, None)
    with pytest.raises(InputError, match="the id 'sw-0' occurs twice"):
        run([*MARVL, MARVL[0]])


irregular = st.lists(st.booleans(), min_size=1, max_size=5)
labels_of_a_group = st.permutations([True, True, False, False]) | irregular


@settings(max_examples=30)
@given(st.lists(labels_of_a_group, min_size=1, max_size=4), st.data())
def test_marvl_counts_every_pair_of_a_group(groups, data):
    groups = [[(data.draw(SCORE), data.draw(SCORE), label) for label in labels] for labels in groups]
    rows = [(*row, number) for number, group in enumerate(groups) for row in group]
    found = run([(*row, index) for index, row in enumerate(rows)], missing="skip")
    gaps = defaultdict(list)
    for group in groups:
        right, wrong = ([row[:2] for row in group if row[2] == label] for label in (True, False))
        if len(right) == len(wrong) == 2:
            pairs = []
            for a, b in itertools.product(right, wrong):
                pairs.append(math.nan if math.isnan(sum(a + b)) else max(a) - min(b))
            gaps["1"] += pairs
            gaps["2"].append(math.nan if any(map(math.isnan, pairs)) else min(pairs))
    assert counted(found) == {name: tallied(gaps[name]) for name in ("1", "2")}
    assert found.counts["groups"] == len(gaps["2"])
    assert found.counts["left out"] == sum(math.isnan(gap) for values in gaps.values() for gap in values)
