"""Draws, blocks, intervals and p-values."""

from contextlib import nullcontext

import numpy as np
import pytest

from capscore.errors import InputError
from capscore.options import Sampling
from capscore.statistics import bootstrap
from capscore.statistics.bootstrap import Interval, holm, multiplicities, percentile_interval, two_sided_p
from capscore.statistics.columns import group_codes


def test_multiplicities_are_counted_draws():
    drawn = np.random.default_rng(7).integers(0, 6, size=(4, 6))
    expected = [[np.count_nonzero(sample == unit) for sample in drawn] for unit in range(6)]
    assert multiplicities(np.random.default_rng(7), 6, 4).tolist() == expected


def test_blocks_do_not_change_the_samples_and_long_work_has_a_bar(monkeypatch):
    bars = []
    monkeypatch.setattr(bootstrap, "progress_bar", lambda *bar: bars.append(bar) or nullcontext(bars.count))

    def run(n_rows):
        widths = []

        def values(drawn):
            widths.append(drawn.shape[1])
            return np.arange(7) @ drawn[None]

        return bootstrap.resample(values, Sampling(50, seed=3), n_units=7, n_rows=n_rows), widths

    whole, widths = run(7)
    assert whole.shape == (1, 50) and widths == [50]
    pieces, widths = run(10**7)
    assert widths == [8, 8, 8, 8, 8, 8, 2]
    np.testing.assert_allclose(pieces, whole, rtol=0, atol=1e-12)
    assert bars == [("resampling", 50)] * 2


def test_intervals_and_p_values():
    samples = np.append(np.arange(101.0), [np.nan, np.nan])
    assert percentile_interval(samples, 0.5) == Interval(25.0, 75.0, 0.5, 101, 2)
    assert percentile_interval(np.array([np.nan]), 0.9) is None
    null = np.array([0.1, -0.2, 0.3, -0.4])
    assert [two_sided_p(null, observed) for observed in (0.5, -0.3, 0.0)] == [1 / 5, 3 / 5, 1.0]
    # 0.1 + 0.2 is not 0.3 to the last digit, and is as far nevertheless
    assert two_sided_p(np.array([0.3]), 0.1 + 0.2) == 1.0
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0] and holm([]) == []


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        *(((draws, 0.95, 0), "bootstrap") for draws in (-1, 1.5, True)),
        *(((10, confidence, 0), "confidence") for confidence in (95, 1.0, "high")),
        *(((10, 0.95, seed), "seed") for seed in (-1, None)),
    ],
)
def test_invalid_input_is_refused(arguments, field):
    with pytest.raises(InputError, match=f"^{field}=.*expected") as caught:
        Sampling(*arguments)
    assert caught.value.field == field


def test_notes_warn_readers_of_intervals():
    notes = bootstrap.sampling_notes
    assert notes("image", Sampling(40), {}) == []
    (note,) = notes("image", Sampling(39), {})
    assert note == "39 samples are too few for a 95% interval: take 40 or more"
    assert "take 200 or more" in notes("group", Sampling(100, 0.99), {})[0]
    by_item, undefined = notes("item", Sampling(40), {"r": Interval(0, 1, 0.95, 38, 2), "s": None})
    assert "resampled by item" in by_item and "interval of r: 2 of 40 samples left out" in undefined


def test_an_id_that_cannot_be_one_is_named_with_its_row():
    for bad in (["a"], "", None, float("nan")):
        with pytest.raises(InputError, match="expected an id") as caught:
            group_codes(["b", bad], "image_ids", 2)
        assert (caught.value.row, caught.value.field) == (1, "image_ids")
