"""Scores the rows of Ray Data: `dataset.map_batches(Score, …)`."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ..errors import MissingExtraError
from ..metrics.loading import load_together
from ..options import LoadOptions, RowOptions, split_options
from ..scoring.pipeline import column_types
from ..scoring.streams import BatchScorer


class Score:
    """A class for `map_batches` of Ray Data: each batch comes out with the columns of its scores.

    Args:
        metric: Metric or metrics whose scores depend on the row alone; CIDEr needs `document_frequencies`.
        calibration: File that `capscore.calibrate` wrote, which every worker must see; None for the library's
            own. Metrics that are calibrated also give the columns "rank" and "rank_shuffled".
        **options: Options of `capscore.options.RowOptions`, such as image_column, language, images (a folder
            that every worker must see) and on_error ("skip" gives a bad row NaN, and says why in
            `capscore_error`); and those of `capscore.load`.

    Raises:
        MissingExtraError: Ray is not installed; the extra `ray` brings it.
        CapscoreError: An option is wrong, or a metric compares rows with each other.

    >>> import ray                                                                    # doctest: +SKIP
    >>> scored = ray.data.read_parquet("corpus").map_batches(
    ...     Score, fn_constructor_kwargs={"metric": "mcs", "backbone": "embedded"},
    ...     batch_size=256, batch_format="pyarrow", concurrency=2)                    # doctest: +SKIP
    >>> scored.write_parquet("scored")                                                # doctest: +SKIP
    """

    def __init__(
        self, metric: str | Sequence[str] = "mcs", *, calibration: str | Path | None = None, **options: object
    ):
        if importlib.util.find_spec("ray") is None:
            raise MissingExtraError("ray", "ray", "capscore.integrations.ray")
        rows, load = split_options(options, RowOptions, LoadOptions)
        self._scorer = BatchScorer(load_together(metric, **load.arguments()), rows, calibration)

    def __call__(self, batch: Any) -> Any:
        """Add the scores to a batch of columns: float64, NaN where a row has none; words as objects.

        With `batch_format="pyarrow"` batches are Arrow tables, in which every column keeps its type.

        Raises:
            InputError: A row cannot be scored and on_error="raise"; names it by its photo and caption.
        """
        columns = batch.to_pydict() if isinstance(batch, pa.Table) else batch
        types = column_types(self._scorer.new_columns([*columns]))
        scored = self._scorer.score(columns)
        if isinstance(batch, pa.Table):
            for name, cells in scored.items():
                batch = batch.append_column(name, pa.array(cells, _ARROW[types[name]]))
            return batch
        new = {name: np.array(cells, _NUMPY[types[name]]) for name, cells in scored.items()}
        return {**batch, **new}


_ARROW = {str: pa.string(), float: pa.float64()}
_NUMPY = {str: object, float: np.float64}
