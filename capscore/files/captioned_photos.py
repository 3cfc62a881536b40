"""Photos with captions beside them or typed in → rows with `image`, `caption` and `references`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError, Setting
from .image_folder import IMAGE_SUFFIXES
from .read import EXPECTED, KINDS, open_rows, parquet_parts, text_lines
from .row_source import RowsInMemory, RowSource


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


CAPTIONS_FILE = "captions.json"
_HOW = "a text file beside each photo (dog.jpg and dog.txt, one caption per line), or a captions.json"


def open_captions(path: str | Path, *, split: str | None = None) -> RowSource:
    """Open a file of rows, a saved data set, or a folder of photos with their captions.

    A folder of photos has `NAME.txt` beside each `NAME.jpg`: each line that is not blank is a row, and a file
    without such a line is a row with an empty caption. Or it has one file captions.json, whose rows name the
    photos. Folders inside the folder, and names that begin with a dot, are not read.

    Args:
        path: The file or folder.
        split: Split of a saved data set that has several.

    Raises:
        InputError: There is nothing to read; says what was expected.
    """
    path = Path(path)
    # isdir is False for a name that no folder can have
    if not os.path.isdir(path) or _is_data_set(path) or parquet_parts(path):
        return open_rows(path, split=split)
    if split is not None:
        raise InputError(
            Setting("split", split), f" goes with a saved data set; {path} is a folder of photos"
        )
    names = _names(path)
    photos = [name for name in names if os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES]
    texts = {os.path.splitext(name)[0]: name for name in names if name.lower().endswith(".txt")}
    beside = [name for name in photos if os.path.splitext(name)[0] in texts]
    if CAPTIONS_FILE in names and beside:
        raise InputError(
            Setting("path", path),
            f" has {CAPTIONS_FILE} and text files such as {texts[os.path.splitext(beside[0])[0]]}; "
            f"to score {CAPTIONS_FILE}, name it: {path / CAPTIONS_FILE}",
        )
    if CAPTIONS_FILE in names:
        return open_rows(path / CAPTIONS_FILE)
    if not photos:
        raise _no_photos(path, names)
    if not beside:
        rows = [name for name in names if Path(name).suffix.lower() in KINDS]
        hint = f". To score {rows[0]}, name it: {path / rows[0]}" if rows else ""
        raise InputError(
            Setting("path", path), f" has {len(photos):,} photos, but no captions; expected {_HOW}{hint}"
        )
    return _read_folder(path, photos, texts)


def _is_data_set(path: Path) -> bool:
    return (path / "dataset_dict.json").is_file() or (path / "state.json").is_file()


def _names(path: Path) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return sorted(one.name for one in entries if not one.name.startswith(".") and one.is_file())
    except OSError as error:
        raise InputError(Setting("path", path), f" cannot be read: {error.strerror or error}") from None


def _no_photos(path: Path, names: Sequence[str]) -> InputError:
    rows = [path / name for name in names if Path(name).suffix.lower() in KINDS]
    inside = [folder for folder in sorted(path.iterdir()) if folder.is_dir() and _holds_photos(folder)]
    meant = [*rows, *inside]
    return InputError(
        Setting("path", path),
        f" is a folder without photos, and no saved data set; expected {EXPECTED}; or photos with {_HOW}"
        + (f"; did you mean {meant[0]}?" if meant else ""),
    )


def _holds_photos(folder: Path) -> bool:
    try:
        with os.scandir(folder) as entries:
            return any(os.path.splitext(one.name)[1].lower() in IMAGE_SUFFIXES for one in entries)
    except OSError:
        return False


def _read_folder(path: Path, photos: Sequence[str], texts: dict[str, str]) -> RowSource:
    rows: list[dict[str, str | None]] = []
    places: list[str] = []
    problems: dict[int, InputError] = {}
    owners: dict[str, str] = {}
    for photo in photos:
        stem = os.path.splitext(photo)[0]
        if stem in owners:
            raise InputError(
                Setting("path", path),
                f": {owners[stem]} and {photo} share one text file, {stem}.txt; rename one of the photos",
            )
        owners[stem] = photo
        if stem not in texts:
            problems[len(rows)] = InputError(
                f"there is no {stem}.txt beside it, which holds its captions", field="candidate"
            )
            rows.append({"image": photo, "caption": None})
            places.append(str(path / photo))
            continue
        lines = [(number, line.strip()) for number, line in text_lines(path / texts[stem]) if line.strip()]
        for number, caption in lines or [(1, "")]:
            rows.append({"image": photo, "caption": caption})
            places.append(f"{path / texts[stem]}, line {number}")
    alone = [name for stem, name in texts.items() if stem not in owners]
    notes = []
    if alone:
        are = f"{len(alone):,} text files have" if len(alone) > 1 else "1 text file has"
        notes.append(f"{are} no photo of the same name in {path}, and {alone[0]} is not read")
        if len(alone) > 1:
            notes[-1] = f"{are} no photo of the same name in {path} (first: {alone[0]}), and are not read"
    return RowsInMemory(path, rows, places, problems, notes)
