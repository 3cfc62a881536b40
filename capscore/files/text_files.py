"""Reads text files, packed or not: their lines, and values of JSON; errors name the line."""

from __future__ import annotations

import codecs
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from ..errors import InputError
from .sizes import LIST_BYTES, ROW_BYTES, UNPACKED_TIMES, Limit, readable_size, unpacked_limit


def text_lines(path: Path, limit: Limit = ROW_BYTES, file: Path | None = None) -> Iterator[tuple[int, str]]:
    """Numbers, from 1, and lines of a text file; `file` is what is read, if `path` is but its name.

    Raises:
        InputError: The file cannot be read, is not UTF-8, or has a line beyond the limit; names the line.
    """
    number, size, longest = 0, 0, limit.bytes
    try:
        largest = unpacked_limit((file or path).stat().st_size)
        with closing(open_bytes(file or path)) as opened:
            if _stated_size(file or path) > largest:  # before minutes are spent on its lines
                while size <= largest and (block := opened.read(2**20)):  # unless the file is torn
                    size += len(block)
                raise unpacks_too_far(path)
            while raw := opened.readline(longest + 1):
                number, size = number + 1, size + len(raw)
                if size > largest:
                    raise unpacks_too_far(path)
                if len(raw) > longest:
                    raise too_long(f"{path}, line {number}", limit)
                if number == 1:
                    raw = raw.removeprefix(codecs.BOM_UTF8)
                text = raw.decode("utf-8")
                if number == 1 and "\0" in text:
                    raise UnicodeError
                yield number, text
    except UnicodeError:
        raise InputError(
            f"{path}, line {number} is not UTF-8 text. To convert a file, name its "
            f"encoding: iconv -f WINDOWS-1252 -t UTF-8 {path} > new{path.suffix}"
        ) from None
    except (OSError, EOFError, zlib.error) as error:  # a torn gzip file raises any of them
        raise InputError(f"{path} cannot be read after line {number}: {error}") from None


def open_bytes(path: Path) -> io.BufferedIOBase:
    with open(path, "rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if zipped else open(path, "rb")


def _stated_size(path: Path) -> int:
    """The size that the end of a gzip file says its last part unpacks to, modulo 2³²; 0 for other files."""
    with open(path, "rb") as file:
        if file.read(2) != b"\x1f\x8b":
            return 0
        file.seek(-4, io.SEEK_END)
        return int.from_bytes(file.read(4), "little")


def too_long(place: str, limit: Limit, hint: str = "") -> InputError:
    return InputError(f"{place}: longer than {readable_size(limit.bytes)}; {limit}{hint}")


def unpacks_too_far(path: Path) -> InputError:
    return InputError(f"{path} unpacks to over {UNPACKED_TIMES} times its size, as no file of captions does")


def read_json(path: Path, file: Path | None = None) -> Any:
    """The one value of a JSON file, whatever it is; `file` is what is read, if it is a copy.

    Raises:
        InputError: The file cannot be read, is no JSON or goes beyond the limits; names the line.
    """
    lines, size = [], 0
    for _, line in text_lines(path, LIST_BYTES, file):
        size += len(line)
        if size > LIST_BYTES.bytes:
            raise too_long(str(path), LIST_BYTES, "; or write one object per line, as .jsonl")
        lines.append(line)
    return decoded("".join(lines), str(path))


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"one object has two values for {max(names, key=names.count)!r:.60}")
    return row


decode_json: Callable[[str], Any] = json.JSONDecoder(object_pairs_hook=_unrepeated).decode
"""The value of a JSON text in which no object has a name twice; ValueError or RecursionError: it is none."""


def decoded(text: str, place: str) -> Any:
    try:
        return decode_json(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place}: not valid JSON: {error}") from None
