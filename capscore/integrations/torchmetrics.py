"""A metric of captions as torchmetrics knows it: `update`, `compute`, states that processes share."""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import xxhash

from ..errors import CapscoreWarning, InputError, MissingExtraError, warn
from ..metrics import load
from ..metrics.base import Scorer
from ..metrics.rows import PreparedRows

try:
    from torchmetrics import Metric
    from torchmetrics.utilities import dim_zero_cat
except ImportError:
    raise MissingExtraError("torchmetrics", "torchmetrics", "capscore.integrations.torchmetrics") from None


# keyword arguments of every metric of torchmetrics
_OF_TORCHMETRICS = (
    "compute_on_cpu",
    "compute_with_cache",
    "dist_sync_fn",
    "dist_sync_on_step",
    "distributed_available_fn",
    "process_group",
    "sync_on_compute",
)


class CaptionMetric(Metric):
    """Score of all captions: the mean of the rows, or the metric's figure of a corpus, such as corpus BLEU.

    Each process scores the rows that it is given, once; only numbers and row ids are exchanged. Rows of a
    metric that compares them with each other, as CIDEr does, wait with their texts until `compute`, and are
    exchanged. A sampler that pads the last batch gives some rows to two processes: with `ids`, each row
    counts once. In a `MetricCollection`, two of these share their states only if all their settings are the
    same; references go to the metrics that read them.

    Args:
        metric: METRIC, METRIC@BACKBONE, or a loaded scorer.
        language: Language of all captions; None where `update` names it.
        **options: Options of `torchmetrics.Metric`, such as `dist_sync_on_step`, and of `capscore.load`.

    Raises:
        MissingExtraError: torchmetrics is not installed; the extra `torchmetrics` brings it.
        CapscoreError: an option is wrong.

    >>> from PIL import Image
    >>> metric = CaptionMetric("mcs", backbone="embedded-free", device="cpu", cache=False)
    >>> metric.update(["a dog", "a cat"], [Image.new("RGB", (32, 32))] * 2, ids=[7, 7])
    >>> int(metric.n_rows)
    1
    """

    is_differentiable = False
    full_state_update = False  # `forward` scores a batch once

    def __init__(self, metric: str | Scorer = "mcs", *, language: str | None = None, **options: Any):
        super().__init__(**{name: options.pop(name) for name in _OF_TORCHMETRICS if name in options})
        self.scorer = load(metric, **options)
        self.language = language
        low, high = self.scorer.limits
        vars(self).update(
            higher_is_better=self.scorer.higher_is_better, plot_lower_bound=low, plot_upper_bound=high
        )
        # a collection takes metrics for one and the same if their states have the same names and begin alike
        plain = {
            name: value for name, value in options.items() if isinstance(value, str | int | float | None)
        }
        settings = [self.scorer.metric, language, sorted(plain.items()), [*self.scorer.settings.items()]]
        digest = xxhash.xxh3_64_hexdigest(repr(settings).encode(errors="backslashreplace"))
        self._numbers, self._names, self._texts = f"numbers_{digest}", f"names_{digest}", f"texts_{digest}"
        for state in self._empty():
            self.add_state(state, default=[], dist_reduce_fx="cat")

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
                open no images, references second (`BLEUScore`). A metric without references ignores them.
            ids: Names of the rows, n numbers or texts, in a list, an array or a tensor on any device, so that
                none counts twice. 7, "7", `tensor(7)` and `[7]` are one name; None names no row.
        """
        if isinstance(images, str) and not isinstance(predictions, (str, list, tuple)):
            predictions, images = images, predictions
        if isinstance(predictions, str):  # one row
            predictions = [predictions]
            if images is not None and getattr(images, "ndim", 3) != 4:
                images = [images]
            if references is not None:
                references = [references]
        if not self.scorer.needs_images and references is None:
            images, references = None, images
        elif _are_texts(images) and not _are_texts(predictions):
            predictions, images = images, predictions
        if not self.scorer.reads_references:
            references = None
        named = [-1] * len(predictions)  # a row without an id never equals another
        if ids is not None:
            if hasattr(ids, "tolist"):
                ids = ids.tolist()
            named = [*map(_number, [ids] if isinstance(ids, int | str) else ids)]
        if len(named) != len(predictions):
            problem = f"got {len(named)}; expected {len(predictions)}, one per caption"
            raise InputError(problem, field="ids")
        columns = list(predictions), images, references, language or self.language
        states = {}
        if self.scorer.compares_rows:
            rows = self.scorer.prepare(*columns)
            codes, numbers = rows.languages, np.where(rows.kept, 0.0, np.nan)[:, None]
            states[self._texts] = _as_bytes(rows)
        else:
            found = self.scorer.score(*columns)
            codes, numbers = found.languages, np.column_stack([found.scores, *found.statistics.values()])
        states[self._numbers] = torch.from_numpy(numbers)
        states[self._names] = torch.tensor([named, [*map(_code_number, codes)]], dtype=torch.int64).T
        for name, state in states.items():
            getattr(self, name).append(state.to(self.device))

    def sync(self, *arguments: Any, **options: Any) -> None:
        """Exchange the states; a process without rows sends empty ones of the right type."""
        if not len(getattr(self, self._numbers)):
            for name, state in self._empty().items():
                setattr(self, name, [state.to(self.device)])
        super().sync(*arguments, **options)

    def compute(self) -> torch.Tensor:
        """The number of all rows, float64; NaN, with a warning, if none was scored."""
        which = self._counted()
        numbers, names = self._joined(self._numbers)[which], self._joined(self._names)[which]
        if not len(numbers):
            warn(CapscoreWarning("no row was scored, so the mean is NaN"))
            return torch.tensor(torch.nan, dtype=torch.float64, device=self.device)
        if self.scorer.compares_rows:
            rows = _from_bytes(self._joined(self._texts))
            scores = self.scorer.finish(PreparedRows.concatenate([*map(rows.row, which)]))
            return torch.tensor(scores.of_set, dtype=torch.float64, device=self.device)
        columns = numbers.cpu().numpy().T
        statistics = dict(zip(self.scorer.statistic_names, columns[1:], strict=True))
        languages = [*map(_code, names[:, 1].tolist())]
        corpus = self.scorer.corpus_of_rows(columns[0], languages, statistics)
        if self.scorer.aggregation in corpus:
            return torch.tensor(corpus[self.scorer.aggregation], dtype=torch.float64, device=self.device)
        return numbers[:, 0].mean()

    def set_dtype(self, dst_type: object) -> CaptionMetric:
        """Nothing changes: scores are float64, and ids and texts whole numbers."""
        return self

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Draw a result, or a list of results over steps; `val` and `ax` as in torchmetrics.

        Args:
            val: What `compute` or `forward` gave, once or several times; None draws `compute`'s.
            ax: Axes of matplotlib to draw on; None makes new ones.
        """
        return self._plot(val, ax)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.scorer.metric!r}, language={self.language!r})"

    @property
    def n_rows(self) -> torch.Tensor:
        """Number of rows that count."""
        return torch.tensor(len(self._counted()))

    def _empty(self) -> dict[str, torch.Tensor]:
        """The states without rows: scores with statistics, ids with languages, rows that wait as text."""
        n_columns = 1
        if not self.scorer.compares_rows:
            n_columns += len(self.scorer.statistic_names)
        states = {
            self._numbers: torch.zeros((0, n_columns), dtype=torch.float64),
            self._names: torch.zeros((0, 2), dtype=torch.int64),
        }
        if self.scorer.compares_rows:
            states[self._texts] = torch.zeros(0, dtype=torch.uint8)
        return states

    def _joined(self, name: str) -> torch.Tensor:
        """The batches of a state, one after the other."""
        batches = getattr(self, name)
        return dim_zero_cat(batches) if len(batches) else self._empty()[name].to(self.device)

    def _counted(self) -> list[int]:
        """Numbers of the rows with a score, each once."""
        scores = self._joined(self._numbers)[:, 0].tolist()
        seen: set[int] = set()
        first = []
        for index, item in enumerate(self._joined(self._names)[:, 0].tolist()):
            if not np.isnan(scores[index]) and (item < 0 or item not in seen):
                first.append(index)
                seen.add(item)
        return first


def _as_bytes(rows: PreparedRows) -> torch.Tensor:
    """Rows as uint8, so that processes can exchange them."""
    return torch.frombuffer(bytearray(pickle.dumps(rows)), dtype=torch.uint8)


def _from_bytes(content: torch.Tensor) -> PreparedRows:
    """All rows that `_as_bytes` wrote, one after the other."""
    stream, parts = io.BytesIO(content.cpu().numpy().tobytes()), []
    while stream.tell() < len(content):
        parts.append(pickle.load(stream))
    return PreparedRows.concatenate(parts)


def _are_texts(rows: object) -> bool:
    return isinstance(rows, (list, tuple)) and bool(rows) and all(isinstance(row, str) for row in rows)


def _number(name: object) -> int:
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
