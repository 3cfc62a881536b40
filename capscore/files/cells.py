"""Cells of any type → values that JSON, a CSV file and people can read.

Numbers that JSON lacks (NaN, infinity) become null. Dates, times and decimals become text; bytes that are not
UTF-8, and dates that no calendar has, become text that shows them.

In CSV and TSV, a text that a spreadsheet would run as a formula (it begins with = + - @, a tab or a line
break, and is no number) gets an apostrophe in front, which reading takes away: `=1+1` is written `'=1+1`.
A text that has the apostrophe already gets a second one.
"""

from __future__ import annotations

import datetime
import decimal
import json
import math
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

# the wide forms count, because spreadsheets in Japanese and Chinese take them for the narrow ones
_SIGNS = "=+\\-@\\t\\r\\n＝＋－＠"
_RUNS = re.compile(f"'*[{_SIGNS}]")
_ESCAPED = re.compile(f"'+[{_SIGNS}]")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|-Infinity")


def without_formula(cell: str) -> str:
    """The cell as it is written.

    >>> [without_formula(cell) for cell in ("=1+1", "-0.5", "A cat.", "'@x")]
    ["'=1+1", '-0.5', 'A cat.', "''@x"]
    """
    return f"'{cell}" if _RUNS.match(cell) and not _NUMBER.fullmatch(cell) else cell


def with_formula(cell: str) -> str:
    """The cell as it was, from how it is written.

    >>> [with_formula(cell) for cell in ("'=1+1", "-0.5", "A cat.", "''@x")]
    ['=1+1', '-0.5', 'A cat.', "'@x"]
    """
    return cell[1:] if _ESCAPED.match(cell) else cell


def column_values(column: pa.ChunkedArray, *, readable: bool) -> list[Any]:
    """A column as Python values.

    Args:
        column: Column of any type.
        readable: Whether values that Python cannot represent become text, for output. Otherwise text that is
            not UTF-8 stays bytes, which no scorer takes for a caption.
    """
    import pyarrow as pa

    if not pa.types.is_time64(column.type):  # Python's times lack nanoseconds
        try:
            return column.to_pylist()
        except Exception:  # each type fails in its own way; now it is known that some value does
            pass
    return [_value(cell, readable) for cell in column]


def table_rows(table: pa.Table) -> list[dict[str, Any]]:
    """The rows of a table as dicts of readable values."""
    columns = [column_values(column, readable=True) for column in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def _value(cell: pa.Scalar, readable: bool) -> Any:
    import pyarrow as pa

    kind = cell.type
    if not cell.is_valid:
        return None
    try:
        return str(cell.cast(pa.string())) if pa.types.is_time64(kind) else cell.as_py()
    except Exception:
        pass
    if isinstance(cell, (pa.DictionaryScalar, pa.ExtensionScalar, pa.RunEndEncodedScalar)):
        return _value(cell.value, readable)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        data = bytes(cell.as_buffer())
        return data.decode("utf-8", "backslashreplace") if readable else data
    if pa.types.is_map(kind):
        return [list(_struct_values(pair, readable)) for pair in cell.values]
    if pa.types.is_nested(kind) and hasattr(cell, "values"):
        if pa.types.is_struct(kind):
            names = [kind.field(number).name for number in range(kind.num_fields)]
            values = list(_struct_values(cell, readable))
            # fields of one name stay apart as pairs, which a dict could not hold
            pairs = list(map(list, zip(names, values, strict=True)))
            return dict(zip(names, values, strict=True)) if len(set(names)) == len(names) else pairs
        return [_value(item, readable) for item in cell.values]
    return _shown(cell)


def _struct_values(cell: pa.StructScalar, readable: bool) -> Iterable[Any]:
    return (_value(cell[number], readable) for number in range(cell.type.num_fields))


def _shown(cell: pa.Scalar) -> str:
    """A value that Python has no type for, such as the year 2,900,000, as Arrow writes it or as a number."""
    import pyarrow as pa

    for kind in (pa.string(), pa.int64(), pa.int32()):
        try:
            text = str(cell.cast(kind))
        except (pa.ArrowException, ValueError, OverflowError):
            continue
        return text if kind == pa.string() else f"{text} ({cell.type})"
    return f"a value of type {cell.type}"


def json_text(value: Any, *, ascii_only: bool = False) -> str:
    """A value as JSON on one line; NaN and infinity as null.

    >>> json_text({"a": [1.5, float("nan")], "day": datetime.date(2020, 1, 2)})
    '{"a": [1.5, null], "day": "2020-01-02"}'
    """
    try:
        return json.dumps(value, ensure_ascii=ascii_only, default=plain, allow_nan=False)
    except ValueError:  # looked for only where there is one
        return json.dumps(_finite(value), ensure_ascii=ascii_only, default=plain, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    return value


def plain(value: Any) -> str:
    """A value that JSON has no type for, as text."""
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).decode("utf-8", "backslashreplace")
    return str(value)
