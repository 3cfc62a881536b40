"""A metric of captions as torchmetrics knows it: `update`, `compute`, states that processes share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import xxhash

from ..errors import CapscoreError, CapscoreWarning, InputError, MissingExtraError, warn
from ..metrics import load

try:
    from torchmetrics import Metric
    from torchmetrics.utilities import dim_zero_cat
except ImportError:
    raise MissingExtraError("torchmetrics", "torchmetrics", "capscore.integrations.torchmetrics") from None


class CaptionMetric(Metric):
    """Mean score of captions.

    Each process scores the rows that it is given, once; only scores and row ids are exchanged. A sampler that
    pads the last batch gives some rows to two processes: with `ids`, each row counts once.

    Args:
        metric: Name of the metric, such as "mcs"; one whose scores depend on the row alone.
        language: Language of all captions; None where `update` names it.
        torchmetrics_options: Options of `torchmetrics.Metric`, such as `dist_sync_on_step`.
        **options: Options of `capscore.load`.

    Raises:
        MissingExtraError: torchmetrics is not installed; the extra `torchmetrics` brings it.
        CapscoreError: the metric compares rows with each other, as CIDEr does.

    >>> from PIL import Image
    >>> metric = CaptionMetric("mcs", backbone="embedded-free", device="cpu", cache=False)
    >>> metric.update(["a dog", "a cat"], [Image.new("RGB", (32, 32))] * 2, ids=[7, 7])
    >>> int(metric.n_rows)
    1
    """

    is_differentiable = False
    full_state_update = False  # `forward` scores a batch once
    scores: list[torch.Tensor]
    ids: list[torch.Tensor]

    def __init__(
        self,
        metric: str = "mcs",
        *,
        language: str | None = None,
        torchmetrics_options: dict[str, Any] | None = None,
        **options: Any,
    ):
        super().__init__(**(torchmetrics_options or {}))
        self.scorer = load(metric, **options)
        if self.scorer.compares_rows:
            raise CapscoreError(
                f"{metric} compares all rows with each other, so it cannot be computed batch by batch: score "
                f"all captions at once with capscore.load({metric!r})"
            )
        self.language = language
        self.add_state("scores", default=[], dist_reduce_fx="cat")
        self.add_state("ids", default=[], dist_reduce_fx="cat")

    def update(
        self,
        predictions: Sequence[str],
        images: Any = None,
        references: Any = None,
        *,
        language: str | Sequence[str] | None = None,
        ids: Sequence[int | str] | None = None,
    ) -> None:
        """Score n rows.

        Args:
            predictions, images, references, language: As in `Scorer.score`. Arguments may also come as in
                torchmetrics: images first, or one image and one text (`CLIPScore`); and, for metrics that
                open no images, references second (`BLEUScore`).
            ids: Names of the rows, so that none counts twice.
        """
        if isinstance(images, str) and not isinstance(predictions, (str, list, tuple)):
            predictions, images = [images], [predictions]
        if not self.scorer.needs_images and references is None:
            images, references = None, images
        elif _are_texts(images) and not _are_texts(predictions):
            predictions, images = images, predictions
        if ids is not None and len(ids) != len(predictions):
            raise InputError(f"there are {len(ids)} ids for {len(predictions)} captions", field="ids")
        found = self.scorer.score(list(predictions), images, references, language or self.language)
        self.scores.append(torch.as_tensor(found.scores, dtype=torch.float64, device=self.device))
        named = [-1] * len(predictions)  # a row without an id never equals another
        if ids is not None:
            named = [*map(_number, ids)]
        self.ids.append(torch.tensor(named, dtype=torch.int64, device=self.device))

    def sync(self, *arguments: Any, **options: Any) -> None:
        """Exchange the states; a process without rows sends empty ones of the right type."""
        if not len(self.scores):
            self.scores = [torch.zeros(0, dtype=torch.float64, device=self.device)]
            self.ids = [torch.zeros(0, dtype=torch.int64, device=self.device)]
        super().sync(*arguments, **options)

    def compute(self) -> torch.Tensor:
        """Mean of the scores, float64; NaN, with a warning, if there is none."""
        counted = self._counted()
        if not len(counted):
            warn(CapscoreWarning("no row was scored, so the mean is NaN"))
        return counted.mean()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.scorer.metric!r}, language={self.language!r})"

    @property
    def higher_is_better(self) -> bool:  # type: ignore[override]
        """Whether a higher score is better."""
        return self.scorer.higher_is_better

    @property
    def n_rows(self) -> torch.Tensor:
        """Number of rows that count."""
        return torch.tensor(len(self._counted()))

    def _counted(self) -> torch.Tensor:
        if not len(self.scores):
            return torch.zeros(0, dtype=torch.float64, device=self.device)
        scores, ids = dim_zero_cat(self.scores), dim_zero_cat(self.ids)
        counts = ~scores.isnan()
        scores, ids = scores[counts], ids[counts]
        seen: set[int] = set()
        first = []
        for index, item in enumerate(ids.tolist()):
            if item < 0 or item not in seen:
                first.append(index)
                seen.add(item)
        return scores[torch.tensor(first, dtype=torch.int64, device=scores.device)]


def _are_texts(rows: object) -> bool:
    return isinstance(rows, (list, tuple)) and bool(rows) and all(isinstance(row, str) for row in rows)


def _number(one: int | str) -> int:
    """A number of 63 bits for an id."""
    return xxhash.xxh3_64_intdigest(f"{type(one).__name__} {one}".encode()) >> 1
