"""XVNLI: captions that a photo entails, leaves open or contradicts."""

from __future__ import annotations

import numpy as np

from ..protocols.xvnli_accuracy import xvnli
from .base import KeyedRows, Outcome, Task, TaskOptions


class XvnliTask(Task):
    """Entailed, neutral and contradicted captions of one photo, in three experiments.

    Measurement twice: between all captions of a photo, as the paper says, and between those written for one
    premise, which its figures fit (see `capscore.benchmarks.protocols.xvnli`).
    """

    def published_as(self, statistic: str, config: str) -> tuple[str, str, tuple[str, ...]]:
        name, sign, _ = statistic.partition("_same_premise")
        return config, name, ("",) if sign else ()

    def outcome(self, rows: KeyedRows, scores: np.ndarray, options: TaskOptions) -> Outcome:
        image, premise = (
            xvnli(
                scores,
                [row["label"] for _, row in rows],
                [row["image_id"] for _, row in rows],
                premise_ids=premises,
                **options.sampling,
            )
            for premises in (None, [row["premise_id"] for _, row in rows])
        )
        again = [found._replace(name=f"{found.name}_same_premise") for found in premise.statistics()]
        return Outcome(
            (*image.statistics(), *again),
            counts=image.counts(),
            notes=(
                *(note for note in image.notes if note in premise.notes),
                *(f"within a photo: {note}" for note in image.notes if note not in premise.notes),
                *(f"within a premise: {note}" for note in premise.notes if note not in image.notes),
            ),
            details={"same_image": image.to_dict(), "same_premise": premise.to_dict()},
        )
