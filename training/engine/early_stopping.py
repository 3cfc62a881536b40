"""When evaluations end a run, and which weights it keeps: those of the best evaluation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from torch import Tensor

from capscore.errors import CapscoreError, Setting


class EarlyStopping:
    """End a run when a number, of which more is better, has not risen for `patience` evaluations.

    The evaluation before the first step does not count. `step`, `evaluation` and `weights`, those of trained
    parameters and buffers by name, are of the best one; {} before it.

    >>> rule = EarlyStopping("tau_c", patience=2)
    >>> for step, value in enumerate((0.3, 0.5, 0.4, 0.5), start=1):
    ...     rule.take(step, {"tau_c": value}, lambda: {"weight": step})
    >>> rule.step, rule.evaluation, rule.weights, rule.ends
    (2, {'tau_c': 0.5}, {'weight': 2}, True)
    """

    def __init__(self, by: str, patience: int):
        self.by, self.patience = by, patience
        self.step = self.waited = 0
        self.evaluation: dict[str, float] = {}
        self.weights: dict[str, Tensor] = {}

    @property
    def ends(self) -> bool:
        return self.waited >= self.patience

    def take(
        self, step: int, evaluation: Mapping[str, float], weights: Callable[[], dict[str, Tensor]]
    ) -> None:
        """Take in an evaluation; that of step 0 is only checked. `weights` copies the weights of the best."""
        if self.by not in evaluation:
            problem = f" is not evaluated; evaluated are {', '.join(evaluation)}"
            raise CapscoreError(Setting("stop_by", self.by), problem)
        if not step:
            return
        value, best = evaluation[self.by], self.evaluation.get(self.by, math.nan)
        if not self.weights or value > best or (math.isnan(best) and not math.isnan(value)):
            self.step, self.evaluation, self.waited, self.weights = step, dict(evaluation), 0, weights()
        else:
            self.waited += 1

    def state(self) -> dict[str, object]:
        """What to save beside the weights, ready for JSON."""
        return {"step": self.step, "evaluation": self.evaluation, "waited": self.waited}

    def load(self, state: Mapping[str, object], weights: dict[str, Tensor]) -> None:
        vars(self).update(state, weights=weights)
