"""A callback of transformers' Trainer: scores captions of fixed photos at every evaluation."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import distributed
from transformers import TrainerCallback

from ..errors import InputError
from ..files.write import write_text
from ..metrics.base import Scorer
from ..metrics.loading import load_together
from ..metrics.rows import as_list
from ..statistics.columns import plain
from ..tables import counted

if TYPE_CHECKING:
    from transformers import Trainer, TrainerControl, TrainerState, TrainingArguments


class CaptionCallback(TrainerCallback):
    """Logs the mean score of the model's captions, and keeps a table of the worst.

    The means are logged as `eval_<metric>`, a name that `metric_for_best_model` takes. The worst captions of
    each evaluation, with their scores, are in `<output_dir>/captions/step-<step>.jsonl`. Photos are embedded
    once, whatever the number of evaluations.

    A caption that is empty, or None, gets the worst score.

    Args:
        caption: Function from the model to its captions, one per photo.
        images: The photos, as `Scorer.score` takes them.
        metrics: Metrics, each once: METRIC, METRIC@BACKBONE, or a loaded scorer.
        references: Lists of references, for the metrics that read them.
        language: Language of the captions.
        worst: Number of captions in the table.
        **options: Options of `capscore.load`, for each metric that has them.

    >>> callback = CaptionCallback(caption, photos, ["mcs"], backbone="embedded")     # doctest: +SKIP
    >>> callback.attach(trainer)                                                      # doctest: +SKIP
    """

    def __init__(
        self,
        caption: Callable[[Any], Sequence[str]],
        images: Any,
        metrics: Sequence[str | Scorer] = ("mcs",),
        *,
        references: Any = None,
        language: str | None = None,
        worst: int = 20,
        **options: object,
    ):
        self.caption, self.images, self.references = caption, images, references
        self.language, self.worst = language, worst
        self.scorers = {scorer.metric: scorer for scorer in load_together(metrics, **options)}
        self._log: Callable[[dict[str, float]], None] | None = None

    def attach(self, trainer: Trainer) -> None:
        """Add the callback to a trainer, whose loggers get the means."""
        trainer.add_callback(self)
        self._log = trainer.log

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        model: Any = None,
        metrics: dict[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        means = [self._measure(args, state, model) if state.is_world_process_zero else {}]
        if distributed.is_available() and distributed.is_initialized():
            distributed.broadcast_object_list(means)
        if metrics is not None:
            metrics.update(means[0])  # `metric_for_best_model` is looked up here, in every process

    def _measure(self, args: TrainingArguments, state: TrainerState, model: Any) -> dict[str, float]:
        """Score the model's captions, log the means and write the table."""
        said = as_list(self.caption(model), "captions", "captions")
        captions = ["" if caption is None else caption for caption in said]
        if len(captions) != len(self.images):
            given = counted(len(captions), "caption")
            raise InputError(f"the model has {given} for {counted(len(self.images), 'photo')}")
        found = {}
        for name, scorer in self.scorers.items():
            references = self.references if scorer.reads_references else None
            found[name] = scorer.score(captions, self.images, references, self.language)
        means = {}
        for name, scores in found.items():
            if not math.isnan(scores.of_set):
                means[f"eval_{name}"] = float(scores.of_set)
        if self._log is not None:
            self._log(means)
        else:
            state.log_history.append({**means, "step": state.global_step})
        first = np.nan_to_num(next(iter(found.values())).ranking, nan=-np.inf)
        lines = ""
        for row in np.argsort(first, kind="stable")[: self.worst].tolist():
            numbers = {name: plain(scores.scores[row]) for name, scores in found.items()}
            line = {"row": row, "caption": captions[row], **numbers}
            lines += f"{json.dumps(line, ensure_ascii=False)}\n"
        path = Path(args.output_dir or ".") / "captions" / f"step-{state.global_step:06d}.jsonl"
        write_text(path, lines, "table of captions")
        return means
