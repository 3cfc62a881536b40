"""A metric of captions as torchmetrics knows it: `update`, `compute`, states that processes share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
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
    """Score of all captions: the mean of the rows, or the metric's figure of a corpus, such as corpus BLEU.

    Each process scores the rows that it is given, once; only numbers and row ids are exchanged. A sampler
    that pads the last batch gives some rows to two processes: with `ids`, each row counts once. In a
    `MetricCollection`, two of these share their states only if all their settings are the same.

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
        # a collection takes metrics for one whose states have the same names and begin alike
        settings = [metric, language, sorted(options.items()), [*self.scorer.settings.items()]]
        digest = xxhash.xxh3_64_hexdigest(repr(settings).encode(errors="backslashreplace"))
        self._numbers, self._names = f"numbers_{digest}", f"names_{digest}"
        self.add_state(self._numbers, default=[], dist_reduce_fx="cat")
        self.add_state(self._names, default=[], dist_reduce_fx="cat")

    def update(
        self,
        predictions: Sequence[str],
        images: Any = None,
        references: Any = None,
        *,
        language: str | Sequence[str] | None = None,
        ids: Any = None,
    ) -> None:
        """Score n rows.

        Args:
            predictions, images, references, language: As in `Scorer.score`. Arguments may also come as in
                torchmetrics: images first, or one image and one text (`CLIPScore`); and, for metrics that
                open no images, references second (`BLEUScore`).
            ids: Names of the rows, n numbers or texts, in a list, an array or a tensor on any device, so that
                none counts twice. 7, "7", `tensor(7)` and `[7]` are one name; None names no row.
        """
        if isinstance(images, str) and not isinstance(predictions, (str, list, tuple)):
            predictions, images = [images], [predictions]
        if not self.scorer.needs_images and references is None:
            images, references = None, images
        elif _are_texts(images) and not _are_texts(predictions):
            predictions, images = images, predictions
        named = [-1] * len(predictions)  # a row without an id never equals another
        if ids is not None:
            if hasattr(ids, "tolist"):
                ids = ids.tolist()
            named = [*map(_number, [ids] if isinstance(ids, int | str) else ids)]
        if len(named) != len(predictions):
            raise InputError(f"there are {len(named)} ids for {len(predictions)} captions", field="ids")
        found = self.scorer.score(list(predictions), images, references, language or self.language)
        numbers = torch.from_numpy(np.column_stack([found.scores, *found.statistics.values()]))
        names = torch.tensor([named, [*map(_code_number, found.languages)]], dtype=torch.int64).T
        getattr(self, self._numbers).append(numbers.to(self.device))
        getattr(self, self._names).append(names.to(self.device))

    def sync(self, *arguments: Any, **options: Any) -> None:
        """Exchange the states; a process without rows sends empty ones of the right type."""
        if not len(getattr(self, self._numbers)):
            numbers, names = self._empty()
            setattr(self, self._numbers, [numbers.to(self.device)])
            setattr(self, self._names, [names.to(self.device)])
        super().sync(*arguments, **options)

    def compute(self) -> torch.Tensor:
        """The number of all rows, float64; NaN, with a warning, if none was scored."""
        numbers, names = self._counted()
        if not len(numbers):
            warn(CapscoreWarning("no row was scored, so the mean is NaN"))
        columns = numbers.cpu().numpy().T
        statistics = dict(zip(self.scorer.statistic_names, columns[1:], strict=True))
        languages = [*map(_code, names[:, 1].tolist())]
        corpus = self.scorer.corpus_of_rows(columns[0], languages, statistics)
        if self.scorer.aggregation in corpus:
            return torch.tensor(corpus[self.scorer.aggregation], dtype=torch.float64, device=self.device)
        return numbers[:, 0].mean()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.scorer.metric!r}, language={self.language!r})"

    @property
    def higher_is_better(self) -> bool:  # type: ignore[override]
        """Whether a higher score is better."""
        return self.scorer.higher_is_better

    @property
    def n_rows(self) -> torch.Tensor:
        """Number of rows that count."""
        return torch.tensor(len(self._counted()[0]))

    def _empty(self) -> tuple[torch.Tensor, torch.Tensor]:
        n_columns = 1 + len(self.scorer.statistic_names)
        return torch.zeros((0, n_columns), dtype=torch.float64), torch.zeros((0, 2), dtype=torch.int64)

    def _counted(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Numbers, and ids with languages, of the rows with a score, each once."""
        if not len(getattr(self, self._numbers)):
            return self._empty()
        numbers, names = dim_zero_cat(getattr(self, self._numbers)), dim_zero_cat(getattr(self, self._names))
        counts = ~numbers[:, 0].isnan()
        numbers, names = numbers[counts], names[counts]
        seen: set[int] = set()
        first = []
        for index, item in enumerate(names[:, 0].tolist()):
            if item < 0 or item not in seen:
                first.append(index)
                seen.add(item)
        kept = torch.tensor(first, dtype=torch.int64, device=numbers.device)
        return numbers[kept], names[kept]


def _are_texts(rows: object) -> bool:
    return isinstance(rows, (list, tuple)) and bool(rows) and all(isinstance(row, str) for row in rows)


def _number(name: Any) -> int:
    """A number of 63 bits for the name of a row, whatever holds it; -1 for None and NaN."""
    if hasattr(name, "tolist"):  # an array or tensor, or a number of theirs
        name = name.tolist()
    if isinstance(name, list | tuple) and len(name) == 1:
        return _number(name[0])
    if name is None or name != name:
        return -1
    if isinstance(name, float) and name.is_integer():
        name = int(name)
    return xxhash.xxh3_64_intdigest(str(name).encode(errors="backslashreplace")) >> 1


def _code_number(code: str) -> int:
    """A language code of up to 8 letters as a number."""
    return int.from_bytes(code.encode(), "big")


def _code(number: int) -> str:
    return number.to_bytes(8, "big").lstrip(b"\0").decode()
