"""Columns that nobody asked for pass through: whole to Parquet, readable to JSONL and CSV."""

from __future__ import annotations

import csv
import datetime
import decimal
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from capscore.errors import InputError
from capscore.files.read import open_rows
from capscore.files.write import Writer, check_output, json_bytes


def text_of(*data: bytes) -> pa.Array:
    """A text column of any bytes, which Arrow does not check."""
    ends = [sum(map(len, data[:number])) for number in range(len(data) + 1)]
    offsets = pa.array(ends, pa.int32()).buffers()[1]
    return pa.Array.from_buffers(pa.string(), len(data), [None, offsets, pa.py_buffer(b"".join(data))])


BAD = text_of(b"\xff\xfe", b"fine \xe2\x98\x83")
NAN = float("nan")
# column → what JSONL holds; None where a text file cannot hold it and says so
COLUMNS = {
    "date": (pa.array([datetime.date(2020, 1, 2), None]), ["2020-01-02", None]),
    "year 2.9 million": (
        pa.array([2**30, 0], pa.date32()),
        ["<value out of range: 1073741824>", "1970-01-01"],
    ),
    "nanoseconds": (
        pa.array([1234567890123456789, None], pa.timestamp("ns")),
        ["2009-02-13T23:31:30.123456789", None],
    ),
    "duration": (pa.array([90, None], pa.duration("s")), ["0:01:30", None]),
    "long duration": (pa.array([2**62, None], pa.duration("s")), ["4611686018427387904", None]),
    "decimal": (pa.array([decimal.Decimal("1.20"), None]), ["1.20", None]),
    "struct": (pa.array([{"a": [1.0, NAN]}, None]), [{"a": [1.0, None]}, None]),
    "struct of dates": (
        pa.array([{"a": [2**30]}, None], pa.struct([("a", pa.list_(pa.date32()))])),
        [{"a": ["<value out of range: 1073741824>"]}, None],
    ),
    "map": (pa.array([[("k", 1.0)], None], pa.map_(pa.string(), pa.float64())), [[["k", 1.0]], None]),
    "dictionary": (pa.array(["x", None]).dictionary_encode(), ["x", None]),
    "not UTF-8": (BAD, ["\\xff\\xfe", "fine ☃"]),
    "list not UTF-8": (
        pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), BAD),
        [["\\xff\\xfe"], ["fine ☃"]],
    ),
    "dictionary not UTF-8": (
        pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), BAD),
        ["\\xff\\xfe", "fine ☃"],
    ),
    "numbers": (pa.array([NAN, float("-inf")]), [None, None]),
    "nothing": (pa.nulls(2), [None, None]),
    "uuid": (
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16, None], pa.binary(16))),
        ["30303030-3030-3030-3030-303030303030", None],
    ),
    "bytes": (pa.array([b"\xff", None]), None),
    "bytes in a struct": (pa.array([{"a": b"\xff"}, None]), None),
    "bytes in a dictionary": (pa.array([b"\xff", None]).dictionary_encode(), None),
    "a view of bytes": (pa.array([b"\xff", None], pa.binary_view()), None),
}


@pytest.fixture(params=COLUMNS)
def case(request, tmp_path):
    column, expected = COLUMNS[request.param]
    pq.write_table(pa.table({"caption": ["x", "y"], "extra": column}), tmp_path / "in.parquet")
    return open_rows(tmp_path / "in.parquet"), column, expected


def written(source, path):
    target = check_output(path, source)
    writer = Writer(target, source, {"mcs": float, "capscore_error": str})
    for chunk in source.chunks(1):
        writer.write(chunk, {"mcs": [None], "capscore_error": ["bad \udcff"]})
    writer.finish({}, "{}")
    return target


def refuse_constants(name):
    raise AssertionError(f"{name} is not JSON")


def test_parquet_keeps_every_value(case, tmp_path):
    source, column, _ = case
    table = pq.read_table(written(source, tmp_path / "out.parquet"))
    before = pq.read_table(tmp_path / "in.parquet").column("extra").combine_chunks()
    after = table.column("extra").combine_chunks()
    assert after.type == column.type
    # NaN equals NaN in what is printed, and text that is not UTF-8 cannot be printed
    assert after.equals(before) or str(after) == str(before)
    assert table.column("capscore_error").to_pylist() == ["bad \\udcff"] * 2


@pytest.mark.parametrize("name", ["out.jsonl", "out.json"])
def test_json_is_valid_and_readable(case, tmp_path, name):
    source, _, expected = case
    if expected is None:
        with pytest.raises(InputError, match=r"'extra' of .* holds bytes.*write a \.parquet file"):
            check_output(tmp_path / name, source)
        return
    text = written(source, tmp_path / name).read_text(encoding="utf-8")
    lines = text if name.endswith("json") else f"[{','.join(text.splitlines())}]"
    rows = json.loads(lines, parse_constant=refuse_constants)
    assert [row["extra"] for row in rows] == expected


def test_csv_shows_the_same(case, tmp_path):
    source, _, expected = case
    if expected is None:
        return
    with open(written(source, tmp_path / "out.csv"), encoding="utf-8", newline="") as file:
        cells = [row["extra"] for row in csv.DictReader(file)]
    if expected == [None, None] and "nan" in str(pq.read_table(tmp_path / "in.parquet")):
        assert cells == ["NaN", "-Infinity"]
        return
    shown = {type(None): lambda value: "", str: str}
    texts = [shown.get(type(value), lambda value: json_bytes(value).decode())(value) for value in expected]
    assert cells == texts


def test_a_data_set_says_which_type_it_cannot_hold(tmp_path):
    for name, works in (("date", True), ("map", False), ("uuid", False), ("not UTF-8", True)):
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table({"caption": ["x", "y"], "extra": COLUMNS[name][0]}), path)
        if works:
            assert written(open_rows(path), tmp_path / name).is_dir()
        else:
            with pytest.raises(InputError, match="no data set can hold"):
                check_output(tmp_path / name, open_rows(path))


def test_text_that_is_not_utf_8_is_never_taken_for_a_caption(tmp_path):
    pq.write_table(pa.table({"caption": BAD}), tmp_path / "in.parquet")
    (chunk,) = open_rows(tmp_path / "in.parquet").chunks(2)
    assert chunk.values("caption") == [b"\xff\xfe", "fine ☃"]


def test_nan_and_infinity_of_jsonl_come_out_as_null(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text('{"caption": "x", "a": NaN, "b": [{"c": -Infinity}], "d": 1e999, "e": 1.5}\n')
    line = written(open_rows(path), tmp_path / "out.jsonl").read_text()
    row = json.loads(line, parse_constant=refuse_constants)
    assert row == {"caption": "x", "a": None, "b": [{"c": None}], "d": None, "e": 1.5, "mcs": None,
                   "capscore_error": "bad \udcff"}  # fmt: skip


@pytest.mark.parametrize(
    "noted", [b"{", b"[]", b'{"info": 3}', b'{"info": {"features": [1]}}', b"[" * 100_000]
)
def test_damaged_notes_of_features(tmp_path, noted):
    table = pa.table({"caption": ["x", "y"]}).replace_schema_metadata({b"huggingface": noted})
    pq.write_table(table, tmp_path / "in.parquet")
    target = written(open_rows(tmp_path / "in.parquet"), tmp_path / "out.parquet")
    assert pq.read_table(target).column_names == ["caption", "mcs", "capscore_error"]


def test_values_of_other_types():
    assert (
        json_bytes({"a": b"\xff", "b": {1}, "c": (float("inf"),)})
        == b'{"a": "\\\\xff", "b": "{1}", "c": [null]}'
    )
