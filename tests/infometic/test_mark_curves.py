"""Thresholds and verdicts."""

from __future__ import annotations

import numpy as np
import pytest

from capscore.infometic.mark_calibration import (
    SHARED,
    MarkCalibration,
    MarkCurve,
    MarkNetwork,
    word_rate,
)
from tests.infometic.tiny_marks import SIZES

EVEN = tuple(np.linspace(0.0, 1.0, 101).tolist())


def test_a_threshold_is_at_most_a_half():
    curve = MarkCurve(1.0, 0.0, (0.9,) * 101, 1.0)
    assert curve.threshold(0.05) == 0.5


@pytest.mark.parametrize(
    ("p", "found", "expected"),
    [
        (0.6, 0.9, True),
        (0.5, 0.9, True),
        (0.49, 0.9, None),
        (0.11, 0.9, None),
        (0.09, 0.9, False),
        # a class whose wrong words are hardly found is never judged
        (0.9, 0.1, None),
        (0.01, 0.1, None),
    ],
)
def test_three_verdicts(p, found, expected):
    assert MarkCurve(1.0, 0.0, EVEN, found).verdict(p, 0.05) is expected


def test_a_higher_rate_marks_no_fewer_words():
    curve = MarkCurve(1.0, 0.0, EVEN, 0.9)
    marked = [curve.verdict(0.2, rate) is False for rate in (0.05, 0.1, 0.15, 0.3)]
    assert marked == sorted(marked) == [False, False, True, True]


def test_long_captions_have_a_lower_rate_per_word():
    rates = [word_rate(0.06, n, "noun") for n in (0, 1, 3, 6, 12)]
    assert rates == pytest.approx([0.06, 0.06, 0.06, 0.03, 0.015])
    assert word_rate(0.06, 6, "verb") == pytest.approx(0.003)


def test_languages_share_curves():
    noun, english = MarkCurve(1.0, 0.0, EVEN, 0.9), MarkCurve(2.0, 0.0, EVEN, 0.9)
    words = {SHARED: {"noun": noun}, "en": {"noun": english}}
    calibration = MarkCalibration(MarkNetwork(SIZES), {"noun": noun}, words, {SHARED: noun}, noun)
    assert calibration.word_curve("en", "noun") is english
    assert calibration.word_curve("sw", "noun") is noun
    assert calibration.word_curve("en", "number") is None
    assert calibration.caption_curve("en") is noun
