"""What a backbone with a gate says of a text: how much of its score it keeps, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Judgement:
    """The verdict on a text.

    Attributes:
        kept: Share of its score that the text keeps, from 0 to 1; of a long text, the mean over its
            sentences by their lengths.
        kinds: Kind of noise, and "none" → probability; they sum to 1.
    """

    kept: float
    kinds: dict[str, float]

    @property
    def kind(self) -> str:
        """The most likely kind of noise, "none" if nothing is likely wrong."""
        return max(self.kinds, key=self.kinds.__getitem__)


def verdict_width(kinds: Sequence[str]) -> int:
    """Length of a verdict as numbers: the kept share, and the probability of each kind; 0 without kinds."""
    return 1 + len(kinds) if kinds else 0


def judgements(verdicts: np.ndarray, kinds: Sequence[str]) -> list[Judgement]:
    """Verdicts as numbers, (n, 1 + k), as `Backbone.encode_judged` gives them → n judgements.

    >>> judgements(np.array([[0.25, 0.125, 0.875]]), ("none", "jumble"))[0].kind
    'jumble'
    """
    return [Judgement(kept, dict(zip(kinds, row, strict=True))) for kept, *row in verdicts.tolist()]
