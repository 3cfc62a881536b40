"""A backbone and held-out ratings → τ_b, τ_c and ρ per language; and VALSE → its accuracy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from capscore.backbones.base import Backbone
from capscore.benchmarks.run import MetricResult, run_benchmark
from capscore.benchmarks.tasks import TaskOptions
from capscore.embedding.embedder import Embedder
from capscore.errors import InputError
from capscore.metrics.backbone_scorer import MCS
from capscore.statistics.correlation import spearman, tau_b, tau_c
from training.data.pictures import Pictures
from training.engine.texts import TextSide

STATISTICS = {"tau_b": tau_b, "tau_c": tau_c, "rho": spearman}
_TEXTS_AT_ONCE = 256


@dataclass(frozen=True)
class HeldOutRatings:
    """Rated captions of one file that are not trained on.

    Attributes:
        name: Name of the file, in the names of the numbers where there are several.
        pictures: Number of each caption's image.
        captions, languages, ratings: Each (n,).
    """

    name: str
    pictures: Sequence[int]
    captions: Sequence[str]
    languages: Sequence[str]
    ratings: Sequence[float]


class RatingsCheck:
    """Measures agreement with held-out ratings, per file and language.

    Args:
        held_out: Files of held-out ratings; those without a row do not count.
        pictures: What they show.
        texts: Text side of the backbone, before training.

    Attributes:
        n: Number of captions that are measured.
        base_numbers: Numbers of the base.

    Raises:
        InputError: there are no rows.
    """

    def __init__(self, held_out: Sequence[HeldOutRatings], pictures: Pictures, texts: TextSide):
        self._parts: dict[str, tuple[HeldOutRatings, np.ndarray]] = {}
        filled = [part for part in held_out if len(part.captions)]
        self.n = sum(len(part.captions) for part in filled)
        if not self.n:
            raise InputError("there are no held-out ratings to measure on")
        for part in filled:
            languages = np.array(part.languages)
            for language in sorted(set(part.languages)):
                title = f"{part.name}_{language}" if len(filled) > 1 else language
                self._parts[title] = part, np.flatnonzero(languages == language)
        self._pictures, self._texts = pictures, texts
        self.base_numbers = self()

    def __call__(self) -> dict[str, float]:
        """Measure the backbone as it is now; NaN where a number is undefined.

        Returns:
            "tau_b", "tau_c" and "rho", each the mean over files and languages where it is defined, and
            "tau_b_<language>" and so on; "tau_b_<file>_<language>" where there are several files.
        """
        numbers: dict[str, float] = {}
        scores = {
            id(part): self._cosines(part) for part in {id(p): p for p, _ in self._parts.values()}.values()
        }
        for name, statistic in STATISTICS.items():
            for title, (part, rows) in self._parts.items():
                ratings = np.asarray(part.ratings, dtype=np.float64)[rows]
                found = statistic(scores[id(part)][rows], ratings)
                numbers[f"{name}_{title}"] = math.nan if found is None else found
        means = {name: _mean([numbers[f"{name}_{title}"] for title in self._parts]) for name in STATISTICS}
        return {**means, **numbers}

    @torch.no_grad()
    def _cosines(self, part: HeldOutRatings) -> np.ndarray:
        # in the weights' own precision, in which the saved backbone scores
        with torch.autocast(self._texts.backbone.device.partition(":")[0], enabled=False):
            return self._exact_cosines(part)

    def _exact_cosines(self, part: HeldOutRatings) -> np.ndarray:
        distinct = list(dict.fromkeys(part.captions))
        texts = np.concatenate(
            [
                self._texts(distinct[start : start + _TEXTS_AT_ONCE]).float().cpu().numpy()
                for start in range(0, len(distinct), _TEXTS_AT_ONCE)
            ]
        )
        place = {text: row for row, text in enumerate(distinct)}
        images = self._pictures.embedded(part.pictures)
        return (images * texts[[place[text] for text in part.captions]]).sum(axis=1).astype(np.float64)


def _mean(values: Sequence[float]) -> float:
    defined = [value for value in values if not math.isnan(value)]
    return math.fsum(defined) / len(defined) if defined else math.nan


def as_percent(numbers: Mapping[str, float]) -> str:
    """The means in one line, for people.

    >>> as_percent({"tau_b": 0.3, "tau_c": 0.25, "rho": 0.4, "tau_b_en": 0.3})
    'τ_b 30.0, τ_c 25.0, ρ 40.0'
    """
    signs = {"tau_b": "τ_b", "tau_c": "τ_c", "rho": "ρ"}
    return ", ".join(f"{signs[name]} {100 * numbers[name]:.1f}" for name in STATISTICS)


def valse_numbers(backbone: Backbone, data: str | Path, photos: str | Path | None = None) -> dict[str, float]:
    """Accuracy on the foils of VALSE (Parcalabescu et al. 2022) whose photos are there.

    Args:
        backbone: Backbone in its present state.
        data: Folder of VALSE's files.
        photos: Folder of its photos; None for the folder of the files.

    Returns:
        "valse_<statistic>" for each statistic of `capscore benchmark --data valse`.

    Raises:
        CapscoreError: files are missing, or all photos are.
    """
    return {
        f"valse_{item.name}": math.nan if item.value is None else item.value
        for item in valse_result(backbone, data, photos).outcome.statistics
    }


def valse_result(backbone: Backbone, data: str | Path, photos: str | Path | None = None) -> MetricResult:
    """The result of `capscore benchmark --data valse` for MCS; arguments as for `valse_numbers`."""
    run = run_benchmark(
        "valse",
        data_dir=Path(data).expanduser(),
        image_dir=None if photos is None else Path(photos).expanduser(),
        metrics={"mcs": lambda: MCS(Embedder(backbone, progress=False))},
        options=TaskOptions(bootstrap=0),
        partial=True,
    )
    return run.results[0]
