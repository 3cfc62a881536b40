"""A backbone and held-out ratings → τ_b, τ_c and ρ per language."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from capscore.errors import InputError
from capscore.statistics.correlation import spearman, tau_b, tau_c
from training.data.pictures import TrainedPictures
from training.data.rated_rows import FilePart
from training.engine.texts import TextSide

STATISTICS = {"tau_b": tau_b, "tau_c": tau_c, "rho": spearman}


class RatingsCheck:
    """Measures agreement with held-out ratings, per file and language.

    Args:
        held_out: Rated captions that are not trained on, by file.
        pictures: What they show.
        texts: Text side of the backbone, before training.

    Attributes:
        n: Number of captions that are measured.
        base_numbers: Numbers of the base.

    Raises:
        InputError: there are no rows.
    """

    def __init__(
        self,
        held_out: Sequence[FilePart],
        pictures: TrainedPictures,
        texts: TextSide,
    ):
        self._parts = [part for part in held_out if part.rows]
        self.n = sum(len(part.rows) for part in self._parts)
        if not self.n:
            raise InputError("there are no held-out ratings to measure on")
        self._pictures, self._texts = pictures, texts
        self.base_numbers = self()

    def __call__(self) -> dict[str, float]:
        """Measure the backbone as it is now; NaN where a number is undefined.

        Returns:
            "tau_b", "tau_c" and "rho", each the mean over files and languages where it is defined, and
            "tau_b_<language>" and so on; "tau_b_<file>_<language>" where there are several files.
        """
        found: dict[str, dict[str, float]] = {name: {} for name in STATISTICS}
        for part in self._parts:
            cosines, ratings = self._cosines(part), np.array([row.rating for row in part.rows])
            languages = np.array([row.language for row in part.rows])
            prefix = ""
            if len(self._parts) > 1:
                prefix = f"{Path(part.file).stem}_"
            for language in np.unique(languages).tolist():
                chosen = languages == language
                for name, statistic in STATISTICS.items():
                    value = statistic(cosines[chosen], ratings[chosen])
                    found[name][f"{name}_{prefix}{language}"] = math.nan if value is None else value
        numbers = {name: _mean_of_defined(values.values()) for name, values in found.items()}
        for values in found.values():
            numbers |= values
        return numbers

    @torch.no_grad()
    def _cosines(self, part: FilePart) -> np.ndarray:
        # in the weights' own precision, in which the saved backbone scores
        with torch.autocast(self._texts.backbone.device.partition(":")[0], enabled=False):
            texts = self._texts([row.caption for row in part.rows]).float().cpu().numpy()
            images = self._pictures.embedded(part.pictures)
        return (images * texts).sum(axis=1).astype(np.float64)


def _mean_of_defined(values: Iterable[float]) -> float:
    defined = [value for value in values if not math.isnan(value)]
    return math.fsum(defined) / len(defined) if defined else math.nan


def as_percent(numbers: Mapping[str, float]) -> str:
    """The means in one line, for people.

    >>> as_percent({"tau_b": 0.3, "tau_c": 0.25, "rho": 0.4, "tau_b_en": 0.3})
    'τ_b 30.0, τ_c 25.0, ρ 40.0'
    """
    signs = {"tau_b": "τ_b", "tau_c": "τ_c", "rho": "ρ"}
    return ", ".join(f"{signs[name]} {100 * numbers[name]:.1f}" for name in STATISTICS)
