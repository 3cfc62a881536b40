"""Photos and captions that were typed in; rows with `image`, `caption` and `references` out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError, Setting
from .row_source import RowSource
from .rows_in_memory import RowsInMemory


def pair_captions(
    photos: Sequence[str], captions: Sequence[str], references: Sequence[str] = ()
) -> RowSource:
    """Rows of one photo with one or several captions, of as many photos as captions, or of captions alone.

    Args:
        photos: Names of photos; none if only references are compared with.
        captions: Captions; the first goes with the first photo, and so on, or all go with the only photo.
        references: References of every caption, so of one photo.

    Raises:
        InputError: The numbers do not fit.

    >>> rows = pair_captions(["dog.jpg"], ["a dog", "a cat"])
    >>> next(rows.chunks(2)).rows
    [{'image': 'dog.jpg', 'caption': 'a dog'}, {'image': 'dog.jpg', 'caption': 'a cat'}]
    """
    if not captions:
        raise InputError(Setting("caption"), ": at least one is needed")
    if len(photos) > 1 and len(photos) != len(captions):
        counted = "1 caption" if len(captions) == 1 else f"{len(captions)} captions"
        raise InputError(
            Setting("photo"),
            f": {len(photos)} photos, but {counted}; give one caption per photo, in the same order, or one "
            "photo with several captions",
        )
    if len(photos) > 1 and references:
        raise InputError(
            Setting("reference"),
            f" belongs to one photo, and there are {len(photos)}; a file of rows has references for each "
            '({"image": …, "caption": …, "references": […]})',
        )
    rows: list[dict[str, Any]] = []
    for number, caption in enumerate(captions):
        row: dict[str, Any] = {}
        if photos:
            row["image"] = photos[number] if len(photos) > 1 else photos[0]
        row["caption"] = caption
        if references:
            row["references"] = [*references]
        rows.append(row)
    places = [f"caption {number}" for number in range(1, len(captions) + 1)]
    return RowsInMemory(Path(), rows, places)
