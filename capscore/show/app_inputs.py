"""What a visitor of a Gradio demo gives → checked texts, numbers and an uploaded photo.

Gradio limits what its page sends, and not what a program sends to the same address. So everything is checked
again here, and nothing but uploaded files and the examples is read.
"""

from __future__ import annotations

import os
import tempfile
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..errors import CapscoreError

MOST_CHARACTERS = 20_000
"""Limit of one box of text."""

MOST_CAPTIONS = 100
"""Limit of the lines in one box."""

MOST_UPLOAD_BYTES = 20 * 2**20
"""Limit of an uploaded photo."""

_LARGER = "; `capscore score` takes any number"


def given_text(text: Any, what: str = "the text") -> str:
    """The content of a box; "" for an empty one.

    Raises:
        CapscoreError: it is no text, or too long.
    """
    if text is None:
        return ""
    if not isinstance(text, str):
        raise CapscoreError(f"{what}: expected a text, got a {type(text).__name__}")
    if len(text) > MOST_CHARACTERS:
        raise CapscoreError(
            f"{what}: {len(text):,} characters; this demo reads {MOST_CHARACTERS:,} at most{_LARGER}"
        )
    return text


def lines_in(text: Any, what: str = "the text") -> list[str]:
    """The lines of a box that are not blank; errors also where there are too many."""
    lines = [line.strip() for line in given_text(text, what).splitlines() if line.strip()]
    if len(lines) > MOST_CAPTIONS:
        raise CapscoreError(f"{what}: {len(lines):,} lines; this demo reads {MOST_CAPTIONS} at most{_LARGER}")
    return lines


def given_captions(captions: Any) -> list[str]:
    """The captions in a box; an error where there is none."""
    lines = lines_in(captions, "the captions")
    if not lines:
        raise CapscoreError("there is no caption: write at least one line")
    return lines


def whole_number(value: Any, name: str, low: int, high: int) -> int:
    """A number from a box or a slider.

    >>> whole_number(3.0, "seed", 0, 10)
    3
    """
    good = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
    if not good or value != int(value):
        raise CapscoreError(f"{name}={value!r:.60}: expected a whole number from {low} to {high}")
    return int(value)


def given_photo(photo: Any) -> str:
    """The path of the photo in a box.

    Raises:
        CapscoreError: there is none, it was not uploaded, or it is too large.
    """
    if not photo:
        raise CapscoreError("there is no photo: upload one, or click an example")
    if not isinstance(photo, str) or not _is_upload(photo):
        raise CapscoreError("the photo was not uploaded: only uploaded photos and the examples are read")
    size = os.path.getsize(photo)
    if size > MOST_UPLOAD_BYTES:
        raise CapscoreError(
            f"the photo has {size / 2**20:.1f} MB; this demo reads {MOST_UPLOAD_BYTES // 2**20} MB at most"
        )
    return photo


def given_files(files: Any) -> list[str]:
    """The uploaded files of a box.

    Raises:
        CapscoreError: there is none, or one is no upload.
    """
    found = [files] if isinstance(files, str) else list(files or ())
    if not found:
        raise CapscoreError("there is no file: upload some")
    if not all(isinstance(file, str) and _is_upload(file) for file in found):
        raise CapscoreError("a file is no upload")
    return found


def example_photo(file: str) -> str | None:
    """The path of a photo that scikit-image ships; None where scikit-image is not installed."""
    return None if find_spec("skimage") is None else str(files("skimage.data") / file)


def _is_upload(photo: str) -> bool:
    """Whether a path, with its links followed, is a file in the folder of uploads or of the examples."""
    try:
        path = Path(photo).resolve(strict=True)
        return path.is_file() and any(path.is_relative_to(folder.resolve()) for folder in _readable_folders())
    except (OSError, ValueError):  # not there, or a path that no file can have
        return False


def _readable_folders() -> list[Path]:
    uploads = os.environ.get("GRADIO_TEMP_DIR") or Path(tempfile.gettempdir(), "gradio")  # as gradio has it
    example = example_photo("chelsea.png")
    return [Path(uploads), *([] if example is None else [Path(example).parent])]
