"""Row files that are damaged, or made to do harm: one clear error with file and line, or rows as they are."""

from __future__ import annotations

import gzip
import json

import pytest

from capscore.errors import CapscoreError, InputError
from capscore.files.columns import find_columns, read_inputs
from capscore.files.image_folder import ImageFolder
from capscore.files.read import open_rows
from capscore.files.sizes import ROW_BYTES


def rows_of(path, data: bytes):
    path.write_bytes(data)
    return [row for chunk in open_rows(path).chunks(2) for row in chunk.dicts()]


def error_of(path, data: bytes) -> str:
    with pytest.raises(InputError) as caught:
        rows_of(path, data)
    message = str(caught.value)
    assert str(path) in message and len(message) < 600
    return message


MANY_DIGITS = b"1" * 4_301
VERY_DEEP = b"[" * 200_000


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (MANY_DIGITS, "not valid JSON"),
        (VERY_DEEP, "not valid JSON"),
        (b'1, "caption": "two"', "two values for 'caption'"),
        (b'{"x": 1, "x": 2}', "two values for 'x'"),
        (b'"\x00"', "not valid JSON: Invalid control character"),
        (b'"\xff"', "expected UTF-8"),
    ],
)
def test_a_value_that_cannot_be_read(tmp_path, value, reason):
    lines = b'{"caption": 1}\n{"caption": ' + value + b"}\n"
    message = error_of(tmp_path / "a.jsonl", lines)
    assert "line 2" in message and reason in message
    if b"\xff" not in value:
        listed = b'[{"caption": 1},\n {"caption": ' + value + b"}]"
        message = error_of(tmp_path / "b.json", listed)
        assert reason in message and ("line 2" in message or "b.json" in message)


def test_sixty_four_levels_come_in_and_go_out(tmp_path):
    nested = b'{"caption": ' + b"[" * 63 + b"]" * 63 + b"}"
    assert rows_of(tmp_path / "a.jsonl", nested) == [json.loads(nested)]


def test_numbers_and_texts_that_are_odd_but_valid(tmp_path):
    row = {"i": 10**4000, "f": 1e308, "s": "\ud800", "n": "a\0b", "e": ""}
    assert rows_of(tmp_path / "a.jsonl", json.dumps(row).encode()) == [row]
    assert rows_of(tmp_path / "b.jsonl", b'{"x": 1e999}') == [{"x": float("inf")}]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv", "a.tsv"])
def test_other_encodings(tmp_path, encoding, name):
    text = "image,caption\na.jpg,A cat.\n" if name[2] in "ct" else '[{"caption": "A cat."}]'
    assert "expected UTF-8" in error_of(tmp_path / name, text.encode(encoding))


def test_byte_order_marks_of_utf_8_are_left_out(tmp_path):
    assert rows_of(tmp_path / "a.csv", b"\xef\xbb\xbfcaption\nx\n") == [{"caption": "x"}]
    assert rows_of(tmp_path / "a.json", b'\xef\xbb\xbf[{"caption": "x"}]') == [{"caption": "x"}]


def test_a_quotation_mark_that_is_never_closed(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    start = b'image,caption\na.jpg,A cat.\nb.jpg,"A dog.\n'
    assert "line 3" in error_of(path, start + b"c.jpg,A cow.\n")
    monkeypatch.setenv(ROW_BYTES.variable, "1000")
    message = error_of(path, start + b"c.jpg,A cow.\n" * 100)
    assert "line 3" in message and "longer than 1.0 KB" in message and "quotation mark" in message
    assert ROW_BYTES.variable in message


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.json"])
def test_a_row_beyond_the_limit_is_refused_while_it_streams(tmp_path, monkeypatch, name, packed):
    monkeypatch.setenv(ROW_BYTES.variable, "1000")
    monkeypatch.setenv("CAPSCORE_MAX_LIST_BYTES", "2000")
    head, tail = {
        "a.jsonl": (b'{"caption": "', b'"}\n'),
        "a.csv": (b"caption\n", b"\n"),
        "a.json": (b'[{"caption": "', b'"}]\n'),
    }[name]
    limit = 2000 if name == "a.json" else 1000
    # exactly the limit is taken
    spent = len(head) + len(tail) if name != "a.csv" else len(tail)
    fits = head + b"x" * (limit - spent) + tail
    beyond = head + b"x" * (limit - spent + 1) + tail
    path = tmp_path / (name + ".gz" * packed)
    pack = gzip.compress if packed else bytes
    assert len(rows_of(path, pack(fits))) == 1
    message = error_of(path, pack(beyond))
    assert f"longer than {limit / 1000:.1f} KB" in message and "CAPSCORE_MAX_" in message


def test_a_packed_line_of_gigabytes_stays_packed(tmp_path, monkeypatch):
    """What is unpacked is counted: no more than the limit, however long the line is."""
    monkeypatch.setenv(ROW_BYTES.variable, "100000")
    unpacked = []

    class Counted(gzip.GzipFile):
        def readline(self, size=-1):
            line = super().readline(size)
            unpacked.append(len(line))
            return line

    monkeypatch.setattr(gzip, "open", Counted)
    message = error_of(tmp_path / "a.jsonl.gz", gzip.compress(b"x" * 20_000_000))
    assert "line 1" in message
    assert 100_000 < sum(unpacked) < 300_000


@pytest.mark.parametrize("given", ["0", "-1", "1e9", "many", "9" * 30])
def test_a_limit_that_is_no_number(tmp_path, monkeypatch, given):
    monkeypatch.setenv(ROW_BYTES.variable, given)
    with pytest.raises(CapscoreError, match=r"CAPSCORE_MAX_ROW_BYTES.*expected a number of bytes"):
        rows_of(tmp_path / "a.jsonl", b'{"caption": "x"}')


@pytest.mark.parametrize("damage", [5, 15, -4])
def test_damaged_gzip(tmp_path, damage):
    data = bytearray(gzip.compress(b'{"caption": "x"}\n' * 50))
    data[damage] ^= 0xFF
    data[-2] ^= 0x01
    assert "cannot be read after line" in error_of(tmp_path / "a.jsonl.gz", bytes(data))


def test_columns_named_by_many_digits(tmp_path):
    number = "9" * 5_000
    names = ["image", "caption", "reference_2", f"reference_{number}", "reference_10"]
    found = find_columns(names, with_references=True)
    assert found.references == ("reference_2", "reference_10", f"reference_{number}")
    with pytest.raises(InputError) as caught:
        find_columns([number, "9" * 4_301])
    assert len(str(caught.value)) < 600


def test_very_many_columns(tmp_path):
    """Looking for two columns with one name takes one pass; 100,000 names took minutes."""
    names = ",".join(f"c{number}" for number in range(100_000))
    message = error_of(tmp_path / "a.csv", f"{names},c5\n".encode())
    assert "two columns have the name 'c5'" in message
    with pytest.raises(InputError, match="and 99980 more"):
        find_columns(names.split(","))


@pytest.mark.parametrize("cell", ["[" + "1" * 5_000 + "]", "[" * 100_000, '["a"', "[1e999", '{"a": 1}'])
def test_cells_of_references_that_are_no_list(tmp_path, cell):
    (tmp_path / "x.jpg").write_bytes(b"x")
    path = tmp_path / "a.csv"
    quoted = cell.replace('"', '""')
    path.write_text(f'image,caption,references\nx.jpg,A cat.,"{quoted}"\n')
    source = open_rows(path)
    names = find_columns(source.columns, with_references=True)
    inputs = read_inputs(next(source.chunks(2)), source, names, ImageFolder(tmp_path))
    assert "expected a JSON list" in str(inputs.problems[0])


@pytest.mark.parametrize("name", ["x" * 300 + ".jsonl", "a\0b.jsonl", "\ud800.jsonl", "x" * 5000])
def test_paths_that_no_file_can_have(tmp_path, name):
    with pytest.raises(InputError, match="path="):
        open_rows(tmp_path / name)


@pytest.mark.parametrize("value", ["\ud800", 2**64, 10**400])
def test_what_arrow_cannot_hold_is_told(tmp_path, value):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"caption": "x", "n": value}))
    with pytest.raises(InputError, match=r"(?s)a\.jsonl.*column 'n'.*\.jsonl"):
        open_rows(path).schema()
