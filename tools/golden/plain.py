"""What a case returns in, plain JSON without this machine and moment out; two of them in, differences out."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

DIGITS = 9
TOLERANCE = 1e-6
# keys whose values belong to a machine or a moment, or are remarks in words
UNSTABLE = frozenset(
    {
        "notes",
        *("seconds", "versions", "capscore_version", "last_stored", "created", "bytes", "version", "here"),
        "environment",
        "features",  # named after a tiny checkpoint
    }
)
# of a package in a signature (hanta-1.1.2), and capscore's own
_VERSION = re.compile(r"(?<=[a-z]-)\d+(?:\.\d+)+|(?<=version:)[^|]+|(?<=capscore )\d+\.\d+\.\d+(?:rc\d+)?")
# of tiny checkpoints, whose bytes belong to the machine that drew them
_FINGERPRINT = re.compile(r"(?<=clip@w)[0-9a-f]{8}|(?<=tiny@w)[0-9a-f]{8}(?:@[0-9a-f]{8})?")


def plain(value: Any, places: Mapping[str, str]) -> Any:
    """Numbers, texts, arrays, paths and dataclasses → JSON's own types, rounded; folders have the names of
    `places`."""
    if isinstance(value, Mapping):
        return {
            plain(str(key), places): "*" if _unstable(key, item) else plain(item, places)
            for key, item in value.items()
        }
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return _text(value, places)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, np.generic):
        return plain(value.item(), places)
    if isinstance(value, Path):
        return _text(str(value), places)
    if isinstance(value, (set, frozenset)):
        return plain(sorted(value), places)
    if hasattr(value, "tolist"):
        return plain(value.tolist(), places)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: "*" if field.name in UNSTABLE else plain(getattr(value, field.name), places)
            for field in dataclasses.fields(value)
        }
    if isinstance(value, (list, tuple)):
        return [plain(item, places) for item in value]
    if hasattr(value, "isoformat"):
        return "*"
    raise TypeError(f"{type(value).__name__} {value!r:.80} is nothing for JSON")


def _unstable(key: Any, value: Any) -> bool:
    # an archive has the time in it at which it was packed, and so has its checksum
    return value is not None and (
        key in UNSTABLE or (str(key).endswith((".gz", ".zip")) and len(str(value)) == 64)
    )


def _number(value: float) -> float | str:
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else str(value)


def _text(text: str, places: Mapping[str, str]) -> str:
    for folder, name in places.items():
        text = text.replace(folder, name)
    return _FINGERPRINT.sub("*", _VERSION.sub("*", text))


def lines(results: Mapping[str, Any]) -> str:
    """Case → result as a JSON document with one line a case."""
    rows = [
        f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False, separators=(',', ':'))}"
        for name, value in results.items()
    ]
    return "{\n" + ",\n".join(rows) + "\n}\n"


def differences(then: Any, now: Any, at: str = "") -> Iterator[str]:
    """Two results → a line for each place where they differ; numbers may, by 1e-6 of the greater or of 1."""
    if isinstance(then, dict) and isinstance(now, dict):
        for key in then:
            if key == "warnings" and key in now:  # sentences may be put in another way
                yield from differences(len(then[key]), len(now[key]), f"{at}.{key}")
            elif key in now:
                yield from differences(then[key], now[key], f"{at}.{key}")
            else:
                yield f"{at}.{key}: is gone; was {_short(then[key])}"
        yield from (f"{at}.{key}: is new: {_short(now[key])}" for key in now if key not in then)
    elif isinstance(then, list) and isinstance(now, list):
        if len(then) != len(now):
            yield f"{at}: {len(then)} items were here, {len(now)} are now"
        for place, (old, new) in enumerate(zip(then, now, strict=False)):
            yield from differences(old, new, f"{at}[{place}]")
    elif not _same(then, now):
        yield f"{at}: was {_short(then)}; is {_short(now)}"


def _same(then: Any, now: Any) -> bool:
    numbers = all(isinstance(each, (int, float)) and not isinstance(each, bool) for each in (then, now))
    if numbers and (isinstance(then, float) or isinstance(now, float)):
        return abs(then - now) <= TOLERANCE * max(1.0, abs(then), abs(now))
    return type(then) is type(now) and then == now


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 160 else f"{text[:157]}…"
