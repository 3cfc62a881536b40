"""Scores the rows of Ray Data: `dataset.map_batches(Score, …)`.

Ray starts one `Score` per worker, which loads the metrics once and scores the batches that it is given.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ..errors import MissingExtraError
from ..metrics.loading import load_together
from ..options import RowOptions
from ..scoring.pipeline import column_types
from ..scoring.streams import BatchScorer


class Score:
    """A class for `map_batches` of Ray Data: each batch comes out with the columns of its scores.

    Args:
        metric: Metric or metrics whose scores depend on the row alone; CIDEr needs `document_frequencies`.
        image_column, candidate_column, references_column, language_column: Names of columns that are called
            something unfamiliar, as in `capscore score`.
        images: Folder that names of images start from; every worker must see it.
        language: Language code of all rows; None where rows name theirs, or none is stated.
        on_error: "raise" ends the job at a bad row, "skip" gives it NaN and says why in `capscore_error`.
        **options: Options of `capscore.load`.

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
        self,
        metric: str | Sequence[str] = "mcs",
        *,
        image_column: str | None = None,
        candidate_column: str | None = None,
        references_column: str | None = None,
        language_column: str | None = None,
        images: str | Path | None = None,
        language: str | None = None,
        on_error: str = "raise",
        **options: Any,
    ):
        if importlib.util.find_spec("ray") is None:
            raise MissingExtraError("ray", "ray", "capscore.integrations.ray")
        rows = RowOptions(
            image_column=image_column,
            candidate_column=candidate_column,
            references_column=references_column,
            language_column=language_column,
            images=images,
            language=language,
            on_error=on_error,
            allow_urls=bool(options.get("allow_urls", False)),
        )
        self._scorer = BatchScorer(load_together(metric, **options), rows)

    def __call__(self, batch: Any) -> Any:
        """Add the scores to a batch of columns: float64, NaN where a row has none; words as objects.

        With `batch_format="pyarrow"` batches are Arrow tables, in which every column keeps its type.

        Raises:
            InputError: A row cannot be scored and on_error="raise"; names it by its photo and caption.
        """
        columns = batch.to_pydict() if isinstance(batch, pa.Table) else batch
        types = column_types(self._scorer.new_columns([*columns]))
        new = {
            name: np.array(cells, dtype=object if types[name] is str else np.float64)
            for name, cells in self._scorer.score(columns).items()
        }
        if not isinstance(batch, pa.Table):
            return {**batch, **new}
        for name, cells in new.items():
            batch = batch.append_column(name, pa.array(cells, pa.string() if types[name] is str else None))
        return batch
