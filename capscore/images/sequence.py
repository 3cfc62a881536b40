"""The images of all rows in any form → a sequence without decoded images.

In: lists, arrays, columns of data sets, tables and Arrow, iterators. Out: a sequence with cheap access by
index, whose items `capscore.images.load` decodes one at a time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from PIL import Image

from ..errors import InputError
from .describe import describe


def check_images(images: Any) -> Sequence[Any]:
    """The images of all rows → a sequence with cheap access by index.

    Nothing is decoded or read from disk. A column of a `datasets.Dataset` is read row by row as stored (its
    Image feature is not decoded), and so is an Arrow column; iterators and streams become lists.

    Args:
        images: List, tuple, array (N, H, W, C), 1-D object array, pandas or Arrow column, column of a data
            set, any other sequence, or an iterator.

    Raises:
        InputError: it is a single image, a folder, a table or something without order.

    >>> check_images(["a.jpg", "b.jpg"])
    ['a.jpg', 'b.jpg']
    """
    _refuse_single_images(images)
    column = _dataset_column(images)
    if column is not None:
        return column
    if hasattr(images, "to_pylist"):
        return _ArrowColumn(images)
    if isinstance(images, Sequence) or (
        hasattr(images, "__len__") and hasattr(images, "__getitem__") and not hasattr(images, "ndim")
    ):
        return images
    # The rows of an array are views, so no pixels are copied; and [i] of a pandas column would be a label.
    return list(images)


class _ArrowColumn(Sequence):
    """A pyarrow Array or ChunkedArray, whose rows become Python objects on access."""

    def __init__(self, column: Any):
        self._column = column

    def __len__(self) -> int:
        return len(self._column)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return self._column[index].as_py()


class _DatasetColumn(Sequence):
    """A column of a `datasets.Dataset` as stored: paths and encoded bytes, not decoded.

    Args:
        dataset: Data set with its row order.
        names: Name of the column, followed by those of nested fields.
    """

    def __init__(self, dataset: Any, names: Sequence[str]):
        self._rows = dataset.select_columns([names[0]]).with_format("arrow")
        self._names = tuple(names)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        value = self._rows[int(index)].column(0)[0].as_py()
        for name in self._names[1:]:
            value = None if value is None else value[name]
        return value


def _dataset_column(images: Any) -> Sequence[Any] | None:
    """A column of a data set → its stored rows; None for anything else."""
    datasets = sys.modules.get("datasets")  # imported already if there is a column
    if datasets is None:
        return None
    names: list[str] = []
    source = images
    while hasattr(source, "column_name") and type(source).__module__.startswith("datasets."):
        names.insert(0, source.column_name)
        source = source.source
    if not names:
        return None
    if isinstance(source, datasets.IterableDataset):
        stream = source if source.features is None else source.decode(False)
        for name in names:
            stream = stream[name]
        return list(stream)
    feature = source.features
    for name in names:
        feature = feature[name]
    # A transform, or the feature's mode, is part of what the user wants scored. The column is a sequence,
    # too, and decodes rows on access.
    if source.format["type"] == "custom" or not _is_stored_whole(feature, datasets):
        return images
    return _DatasetColumn(source, names)


def _is_stored_whole(feature: Any, datasets: Any) -> bool:
    """Whether the stored values are the rows' images: encoded images, paths, or bytes."""
    if isinstance(feature, datasets.Image):
        return feature.mode in (None, "RGB")
    texts = ("string", "large_string", "binary", "large_binary")
    return isinstance(feature, datasets.Value) and feature.dtype in texts


def _refuse_single_images(images: Any) -> None:
    """Raise InputError for one image, a folder, a table, a whole data set, or what has no order."""
    if isinstance(images, (str, os.PathLike)) and os.path.isdir(os.path.expanduser(images)):
        what = "is a folder"
    elif hasattr(images, "column_names") and hasattr(images, "features") and hasattr(images, "map"):
        what = f"is a whole data set; pass one of its columns: {images.column_names or []}"
    elif hasattr(images, "columns"):
        what = "is a table; pass one of its columns"
    elif isinstance(images, dict) and not images.keys() & {"path", "bytes"}:
        what = f"is a dict with the keys {sorted(map(str, images))}; pass the list inside it"
    elif isinstance(images, (set, frozenset)):
        what = "is a set, which has no order"
    elif _is_one_image(images):
        what = "is one image"
    elif images is None or not (isinstance(images, Iterable) or hasattr(images, "__getitem__")):
        what = "is no list"
    else:
        return
    raise InputError(f"images={describe(images)} {what}; expected a list with one image per candidate")


def _is_one_image(images: Any) -> bool:
    is_column = hasattr(images, "to_pylist") or hasattr(images, "to_list")
    dimensions = None if is_column else getattr(images, "ndim", None)
    return (
        isinstance(images, (str, os.PathLike, bytes, bytearray, memoryview, dict, Image.Image))
        or dimensions in (0, 2, 3)
        or (dimensions == 1 and getattr(images.dtype, "kind", "u") not in "OUST")
        or (hasattr(images, "read") and hasattr(images, "seek"))
    )
