"""Logits of the judge → calibrated probabilities, thresholds for a rate of false alarms, and verdicts.

The thresholds come from captions of photos that no training saw (`weights.making.judge`). Each language
with enough such captions has its own; the others share those of all languages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import CapscoreError

# Name of the thresholds for languages without their own.
SHARED = "shared"
# Rates of false alarms that `MarkCurve.quantiles` are for: 0 %, 0.5 %, … 50 %.
RATES = np.linspace(0.0, 0.5, 101)
# A class is judged only if at 5 % false alarms at least this share of its wrong words is found: otherwise a
# mark would say more about chance than about the photo.
LEAST_FOUND = 0.2
# Captions with more judged words than this have a lower rate per word: a long right caption would almost
# always carry a mark otherwise, and people stop believing marks.
WORDS_AT_FULL_RATE = 3
# Words of other classes have this share of the rate of nouns: photos, above all of another kind than those of
# the calibration, tell little of verbs and colours, and a wrong mark costs more than a missed one.
NO_NOUN_SHARE = 0.1
# Number of logits that those of other languages count for in the quantiles of one language.
PRIOR = 300
# Of right captions, this share of the rate may be said not to fit.
FIT_SHARE = 0.4


@dataclass(frozen=True)
class MarkCurve:
    """Calibration of one kind of logit.

    Attributes:
        scale, bias: p = 1 / (1 + exp(−(scale · logit + bias))): the probability of being right where as many
            are right as wrong.
        quantiles: p below which each of `RATES` of what is right lies.
        found: Share of what is wrong below the quantile of 5 %.

    >>> curve = MarkCurve(2.0, 0.0, tuple(np.linspace(0.0, 1.0, 101)), 0.9)
    >>> [round(value, 2) for value in curve.probabilities(np.array([0.0, 1.0])).tolist()]
    [0.5, 0.88]
    >>> round(curve.threshold(0.05), 2)
    0.1
    """

    scale: float
    bias: float
    quantiles: tuple[float, ...]
    found: float

    def probabilities(self, logits: np.ndarray) -> np.ndarray:
        """p, float64, of logits of any shape."""
        values = np.clip(self.scale * np.asarray(logits, np.float64) + self.bias, -50.0, 50.0)
        return 1.0 / (1.0 + np.exp(-values))

    def threshold(self, rate: float) -> float:
        """p below which this rate of what is right lies; at most 0.5."""
        return min(0.5, float(np.interp(rate, RATES, self.quantiles)))

    def to_dict(self) -> dict[str, Any]:
        """The numbers, rounded, ready for JSON."""
        return {
            "scale": round(self.scale, 5),
            "bias": round(self.bias, 5),
            "quantiles": [round(value, 5) for value in self.quantiles],
            "found": round(self.found, 4),
        }

    @classmethod
    def from_dict(cls, given: Any) -> MarkCurve:
        """The curve out of JSON.

        Raises:
            CapscoreError: it is not one.
        """
        try:
            curve = cls(
                float(given["scale"]),
                float(given["bias"]),
                tuple(map(float, given["quantiles"])),
                float(given["found"]),
            )
        except (KeyError, TypeError, ValueError):
            raise CapscoreError(
                f"a calibration is {given!r:.100}: expected scale, bias, quantiles, found"
            ) from None
        values = np.array([curve.scale, curve.bias, *curve.quantiles, curve.found])
        if len(curve.quantiles) != len(RATES) or not np.isfinite(values).all():
            raise CapscoreError(
                f"a calibration has {len(curve.quantiles)} quantiles: expected {len(RATES)} numbers"
            )
        return curve


def fit_curve(right: np.ndarray, wrong: np.ndarray, prior: np.ndarray | None = None) -> MarkCurve:
    """Calibrate logits of what is right and of what is wrong, each with half of the weight.

    Platt's method (Platt 1999) without his smoothing, by Newton's method.

    Args:
        right: (n,) logits, at least 2.
        wrong: (m,) logits, at least 2.
        prior: Logits of what is right in other languages, which count as `PRIOR` further ones for the
            quantiles: the lowest few per cent of a few hundred logits are a matter of chance.

    Raises:
        CapscoreError: there are too few, or a logit is not finite.

    >>> chance = np.random.default_rng(0)
    >>> curve = fit_curve(chance.normal(1, 1, 4000), chance.normal(-1, 1, 4000))
    >>> round(curve.scale), round(curve.bias)
    (2, 0)
    """
    if min(len(right), len(wrong)) < 2:
        raise CapscoreError(f"{len(right)} right and {len(wrong)} wrong logits: expected at least 2 of each")
    x = np.concatenate([right, wrong]).astype(np.float64)
    if not np.isfinite(x).all():
        raise CapscoreError("logits to calibrate hold NaN or infinity")
    y = np.repeat([1.0, 0.0], [len(right), len(wrong)])
    weight = np.repeat([0.5 / len(right), 0.5 / len(wrong)], [len(right), len(wrong)])
    inputs = np.stack([x, np.ones_like(x)], axis=1)
    theta = np.zeros(2)
    for _ in range(50):
        p = 1.0 / (1.0 + np.exp(-np.clip(inputs @ theta, -50.0, 50.0)))
        # a little weight decay keeps it finite where the two do not overlap
        slope = inputs.T @ (weight * (p - y)) + 1e-4 * theta
        bend = (inputs * (weight * p * (1.0 - p))[:, None]).T @ inputs + 1e-4 * np.eye(2)
        step = np.linalg.solve(bend, slope)
        theta -= step
        if np.abs(step).max() < 1e-9:
            break
    curve = MarkCurve(float(theta[0]), float(theta[1]), (0.0,) * len(RATES), 0.0)
    p_right, p_wrong = curve.probabilities(right), curve.probabilities(wrong)
    quantiles = _quantiles(p_right, None if prior is None else curve.probabilities(prior))
    found = float((p_wrong < np.interp(0.05, RATES, quantiles)).mean())
    return MarkCurve(curve.scale, curve.bias, tuple(quantiles.tolist()), found)


def _quantiles(values: np.ndarray, prior: np.ndarray | None) -> np.ndarray:
    """Quantiles at `RATES` of values and of others that count as `PRIOR` together."""
    if prior is None or not len(prior):
        return np.quantile(values, RATES)
    joined = np.concatenate([values, prior])
    weights = np.concatenate([np.ones(len(values)), np.full(len(prior), PRIOR / len(prior))])
    order = np.argsort(joined, kind="stable")
    # the share below the middle of each value's own weight
    shares = (np.cumsum(weights[order]) - weights[order] / 2.0) / weights.sum()
    return np.interp(RATES, shares, joined[order])


@dataclass(frozen=True)
class MarkCalibration:
    """Curves by language.

    Attributes:
        alone: Class of words → curve of words alone, which what is known of a word in its caption begins
            with.
        words: Language or `SHARED` → class of words → curve of words in captions.
        fits: Language or `SHARED` → curve of captions.
        mentions: Curve of regions.

    Raises:
        CapscoreError: the curves that all languages share are missing.
    """

    alone: Mapping[str, MarkCurve]
    words: Mapping[str, Mapping[str, MarkCurve]]
    fits: Mapping[str, MarkCurve]
    mentions: MarkCurve

    def __post_init__(self) -> None:
        if SHARED not in self.words or SHARED not in self.fits:
            raise CapscoreError(f"a calibration of a judge lacks {SHARED!r}")

    def of_word(self, language: str, word_class: str) -> MarkCurve | None:
        """Curve of a class of words in a language; None for a class that is never judged."""
        return self.words.get(language, {}).get(word_class) or self.words[SHARED].get(word_class)

    def of_caption(self, language: str) -> MarkCurve:
        """Curve of captions in a language."""
        return self.fits.get(language) or self.fits[SHARED]

    def to_dict(self) -> dict[str, Any]:
        """All numbers, ready for JSON."""
        return {
            "alone": {name: curve.to_dict() for name, curve in self.alone.items()},
            "words": {
                language: {name: curve.to_dict() for name, curve in curves.items()}
                for language, curves in self.words.items()
            },
            "fits": {language: curve.to_dict() for language, curve in self.fits.items()},
            "mentions": self.mentions.to_dict(),
        }

    @classmethod
    def from_dict(cls, given: Any) -> MarkCalibration:
        """The calibration out of JSON.

        Raises:
            CapscoreError: it is not one.
        """
        try:
            return cls(
                {name: MarkCurve.from_dict(one) for name, one in given["alone"].items()},
                {
                    language: {name: MarkCurve.from_dict(one) for name, one in curves.items()}
                    for language, curves in given["words"].items()
                },
                {language: MarkCurve.from_dict(one) for language, one in given["fits"].items()},
                MarkCurve.from_dict(given["mentions"]),
            )
        except (KeyError, TypeError, AttributeError):
            raise CapscoreError(f"{given!r:.100}: expected alone, words, fits and mentions") from None


def word_rate(rate: float, n_words: int, word_class: str) -> float:
    """Rate of false alarms per word of a caption with n judged words.

    >>> word_rate(0.05, 3, "noun"), word_rate(0.05, 6, "noun")
    (0.05, 0.025)
    """
    share = 1.0 if word_class == "noun" else NO_NOUN_SHARE
    return rate * share * min(1.0, WORDS_AT_FULL_RATE / max(n_words, 1))


def word_verdict(p: float, curve: MarkCurve, rate: float) -> bool | None:
    """True (right), False (likely wrong) or None (cannot tell).

    Args:
        p: Calibrated probability.
        curve: Curve of the word's class and language.
        rate: Rate of right words that may be called wrong.

    >>> curve = MarkCurve(1.0, 0.0, tuple(np.linspace(0.0, 1.0, 101)), 0.9)
    >>> [word_verdict(p, curve, 0.05) for p in (0.7, 0.3, 0.05)]
    [True, None, False]
    """
    if curve.found < LEAST_FOUND:
        return None
    if p < curve.threshold(rate):
        return False
    return True if p >= 0.5 else None


def expected_calibration_error(p: Sequence[float] | np.ndarray, right: Sequence[bool] | np.ndarray) -> float:
    """Expected calibration error with 10 bins of equal width (Naeini et al. 2015): mean |share right − mean
    p|.

    What is right and what is wrong count half each.

    >>> round(expected_calibration_error([0.9, 0.9, 0.1, 0.1], [True, True, False, False]), 3)
    0.1
    """
    values, truth = np.asarray(p, np.float64), np.asarray(right, bool)
    if truth.all() or not truth.any():
        raise CapscoreError("a calibration error needs what is right and what is wrong")
    weight = np.where(truth, 0.5 / truth.sum(), 0.5 / (~truth).sum())
    bins = np.minimum((values * 10).astype(int), 9)
    gap = np.bincount(bins, weights=weight * (truth - values), minlength=10)
    return float(np.abs(gap).sum())
