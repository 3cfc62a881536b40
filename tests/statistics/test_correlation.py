"""Weighted statistics against scipy on the rows written out."""

import itertools
import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from capscore.errors import InputError
from capscore.statistics import correlation
from capscore.statistics.correlation import STATISTICS, Correlations, check_statistics, pearson, tau_b

FUNCTIONS = {name: getattr(correlation, name) for name in STATISTICS}


def weighted(name, first, second, weights):
    """The statistic of rows that count as often as their weight says; None where it is undefined."""
    rows = Correlations(np.asarray(first, float), np.asarray(second, float))
    (value,) = rows.values([name], np.array(weights)[:, None])[name]
    return None if math.isnan(value) else value


def scipys(name, first, second):
    """The statistic as scipy has it; None where one side is constant."""
    if len(set(first)) < 2 or len(set(second)) < 2:
        return None
    if name.startswith("tau"):
        return stats.kendalltau(first, second, variant=name[-1]).statistic
    return (stats.spearmanr if name == "spearman" else stats.pearsonr)(first, second).statistic


# few distinct values, so that there are ties on both sides; many, so that there are long binary numbers
scores = st.one_of(st.integers(0, 4).map(lambda k: k / 10), st.floats(-1e3, 1e3).map(lambda x: round(x, 2)))
ratings = st.one_of(st.sampled_from([1.0, 2.0, 3.0, 4.0]), st.integers(-40, 40).map(float))
rows = st.lists(st.tuples(scores, ratings, st.integers(0, 3)), min_size=1, max_size=40)


def test_by_hand():
    # Pairs of (0.2, 1) (0.5, 3) (0.5, 2) (0.9, 3) (0.1, 2): concordant are 1-2, 1-3, 1-4, 3-4, 2-5 and 4-5,
    # discordant 1-5; tied 2-3 in the score, 2-4 and 3-5 in the rating.
    x, y = [0.2, 0.5, 0.5, 0.9, 0.1], [1, 3, 2, 3, 2]
    assert tau_b(x, y) == pytest.approx((6 - 1) / math.sqrt((10 - 1) * (10 - 2)), abs=1e-15)
    assert correlation.tau_c(x, y) == pytest.approx(2 * 3 * (6 - 1) / (25 * 2), abs=1e-15)
    # ranks 2 3.5 3.5 5 1 and 1 4.5 2.5 4.5 2.5, less 3: products 2 + 0.75 − 0.25 + 3 + 1 = 6.5,
    # squares 1 + 0.25 + 0.25 + 4 + 4 = 9.5 and 4 + 2.25 + 0.25 + 2.25 + 0.25 = 9
    assert correlation.spearman(x, y) == pytest.approx(6.5 / math.sqrt(9.5 * 9), abs=1e-15)
    # less the means 0.44 and 2.2: products 0.288 + 0.048 − 0.012 + 0.368 + 0.068 = 0.76,
    # squares 0.0576 + 0.0036 + 0.0036 + 0.2116 + 0.1156 = 0.392 and 2.8
    assert pearson(x, y) == pytest.approx(0.76 / math.sqrt(0.392 * 2.8), abs=1e-15)


four_counts = st.tuples(*4 * [st.integers(0, 3)])


@settings(max_examples=20)
@given(rows=rows, drawn=st.lists(four_counts, min_size=1, max_size=40), data=st.data())
def test_units_count_as_often_as_they_are_drawn_in_any_order(rows, drawn, data):
    x, y, units = map(np.array, zip(*rows, strict=True))
    drawn = np.array(drawn)  # (units, 4 samples)
    units = units % len(drawn) if data.draw(st.booleans()) else np.arange(len(rows)) % len(drawn)
    order = np.array(data.draw(st.permutations(range(len(rows)))))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # ours says nothing about constant rows, scipy is not asked
        values = Correlations(x, y, units).values(STATISTICS, drawn)
        turned = Correlations(y[order], x[order], units[order]).values(STATISTICS, drawn)
    for sample, name in itertools.product(range(4), STATISTICS):
        times = drawn[units, sample]
        expected = scipys(name, np.repeat(x, times), np.repeat(y, times))
        expected = pytest.approx(math.nan if expected is None else expected, abs=1e-12, nan_ok=True)
        assert values[name][sample] == expected and turned[name][sample] == expected


def test_digits_are_kept_at_every_scale():
    rng = np.random.default_rng(3)
    x, y = rng.uniform(-1, 1, 50), rng.integers(1, 5, 50).astype(float)
    for scale in (1e-300, 1e-3, 1e200, 1.7e308):
        assert pearson(x * scale, y) == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-12)
    # 1 + k·2⁻⁵²: the deviations are exact, so r is that of k
    k, y = np.array([0, 3, 1, 7, 2, 9]), [1.0, 2.0, 1.0, 4.0, 2.0, 3.0]
    assert pearson(1 + k * 2.0**-52, y) == pytest.approx(stats.pearsonr(k, y).statistic, abs=1e-12)
    expected = stats.pearsonr([0.1, 0.4, 0.2], [2.0, 3.0, 1.0]).statistic
    for outlier in (1e9, -1e200):  # that is not drawn
        found = weighted("pearson", [outlier, 0.1, 0.4, 0.2], [1.0, 2.0, 3.0, 1.0], [0, 1, 1, 1])
        assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", STATISTICS)
def test_undefined_is_none_without_a_warning(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x, y in (([1, 1, 1], [1, 2, 3]), ([1, 2], [7, 7]), ([5], [5]), ([0.0, -0.0], [1, 2])):
            assert FUNCTIONS[name](x, y) is None
        for weights in ([0, 4, 0], [0, 0, 0]):
            assert weighted(name, [1, 2, 3], [1, 2, 3], weights) is None
        for times in range(1, 30):  # whatever the mean of one value rounds to
            assert weighted(name, [-1.0, 0.0, 0.7], [-1.0, 0.0, 0.7], [0, 0, times]) is None
            assert weighted(name, [-1.0, 0.0, 0.7, 0.7], [1, 2, 3, 4], [0, 0, times, 1]) is None
    x = np.linspace(-2, 7, 12)
    assert FUNCTIONS[name](x, x) == pytest.approx(1, abs=1e-15)
    assert FUNCTIONS[name](x, -x) == pytest.approx(-1, abs=1e-15)


@pytest.mark.parametrize(
    ("first", "second", "field", "row"),
    [
        ([1, 2], [1], "second", None),
        ([], [], "first", None),
        ([1, math.nan], [1, 2], "first", 1),
        ([1, 2], [math.inf, 2], "second", 0),
        ([[1, 2]], [1], "first", 0),
        (["a", "b"], [1, 2], "first", 0),
        ("ab", [1, 2], "first", None),
    ],
)
def test_invalid_input_is_refused(first, second, field, row):
    with pytest.raises(InputError) as caught:
        tau_b(first, second)
    assert (caught.value.field, caught.value.row) == (field, row)


def test_names_of_statistics():
    assert check_statistics(["tau_c", "pearson", "tau_c"]) == ("tau_c", "pearson")
    for names in (["taub"], []):
        with pytest.raises(InputError, match="expected some of tau_b"):
            check_statistics(names)
