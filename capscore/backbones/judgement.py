"""What a backbone with a gate says of a text: how much of its score it keeps, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass


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
