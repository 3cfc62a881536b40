"""When evaluations end a run, and which weights it keeps: those of the best evaluation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from capscore.errors import CapscoreError, Setting


@dataclass(frozen=True)
class Best:
    """The best evaluation so far.

    Attributes:
        value: Its value of the number that decides.
        step: Step after which it was made.
        evaluation: All its numbers.
        waited: Number of evaluations since.
        weights: Trained parameters and buffers at that step, by name.
    """

    value: float
    step: int
    evaluation: dict[str, float]
    waited: int = 0
    weights: dict[str, Tensor] = field(default_factory=dict, repr=False, compare=False)

    def described(self) -> dict[str, Any]:
        """Everything but the weights, ready for JSON."""
        return {name: value for name, value in vars(self).items() if name != "weights"}


@dataclass(frozen=True)
class EarlyStopping:
    """End a run when a number has not risen for some evaluations; the one before the first step does not
    count.

    Attributes:
        by: Name of the number, of which more is better.
        patience: Number of evaluations without a better one after which the run ends.

    >>> rule, best = EarlyStopping("tau_c", patience=2), None
    >>> for step, value in enumerate((0.3, 0.5, 0.4, 0.5), start=1):
    ...     best = rule.better_of(best, step, {"tau_c": value}, dict)
    ...     print(step, best.step, rule.ends(best))
    1 1 False
    2 2 False
    3 2 False
    4 2 True
    """

    by: str
    patience: int

    def better_of(
        self,
        best: Best | None,
        step: int,
        evaluation: Mapping[str, float],
        weights: Callable[[], dict[str, Tensor]],
    ) -> Best:
        """The best evaluation after a new one.

        Args:
            best: The best before; None for none.
            step: Step of the new one.
            evaluation: Its numbers.
            weights: Function that copies the weights, called where the new one is better.

        Raises:
            CapscoreError: the evaluation lacks the number that decides.
        """
        if self.by not in evaluation:
            raise CapscoreError(
                Setting("stop_by", self.by), f" is not evaluated: there are {', '.join(evaluation)}"
            )
        value = evaluation[self.by]
        if best is None or value > best.value or (math.isnan(best.value) and not math.isnan(value)):
            return Best(value, step, dict(evaluation), 0, weights())
        return replace(best, waited=best.waited + 1)

    def ends(self, best: Best | None) -> bool:
        """Whether the run has waited long enough."""
        return best is not None and best.waited >= self.patience
