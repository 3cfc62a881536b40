"""What holds for every format of rows, in and out: the same rows in order, any text, named errors."""

import gzip
import json

import datasets
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capscore.errors import InputError
from capscore.files.read import open_rows
from capscore.files.write import Writer, check_output, summary_path

from .laws import every

ROWS = [
    {"image": "a.jpg", "caption": "Ein „Wort“, noch eins; \t|"},
    {"image": "b.jpg", "caption": "日本語 🐕‍🦺"},
    {"image": "c.jpg", "caption": "cafe\u0301 \u2028 ﬁ"},  # neither composed nor split
    {"image": "d.jpg", "caption": '=1+1 "quoted" \\n'},
    {"image": "e.jpg", "caption": "null\ufeff"},
]


def _json_lines(rows):
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


# format → rows as the bytes of a text file
TEXT = {
    "jsonl": _json_lines,
    "json": lambda rows: json.dumps(rows, ensure_ascii=False, indent=1).encode(),
    "csv": lambda rows: pandas.DataFrame(rows).to_csv(index=False).encode(),
    "tsv": lambda rows: pandas.DataFrame(rows).to_csv(index=False, sep="\t").encode(),
}


def _write_parts(folder, rows):
    folder.mkdir()
    for name, part in (("part-0", rows[:2]), ("part-1", rows[2:])):
        pq.write_table(pa.Table.from_pylist(part, TYPES), folder / f"{name}.parquet")


def _write_photos(folder, rows):
    folder.mkdir()
    for row in rows:
        (folder / row["image"]).write_bytes(b"photo")
        (folder / row["image"]).with_suffix(".txt").write_text(row["caption"], encoding="utf-8")


TYPES = pa.schema([("image", pa.string()), ("caption", pa.string())])
BINARY = {
    "parquet": lambda path, rows: pq.write_table(pa.Table.from_pylist(rows, TYPES), path),
    "saved": lambda path, rows: datasets.Dataset(pa.Table.from_pylist(rows, TYPES)).save_to_disk(path),
    "parts": _write_parts,
    "photos": _write_photos,
}


def write(file_format, folder, rows=ROWS, pack=bytes):
    path = folder / (f"rows.{file_format}" if file_format in (*TEXT, "parquet") else file_format)
    if file_format in BINARY:
        BINARY[file_format](path, rows)
        return path
    path = path.with_name(path.name + ".gz" * (pack is not bytes))
    path.write_bytes(pack(TEXT[file_format](rows)))
    return path


def read(path, size=2):
    return [row for chunk in open_rows(path).chunks(size) for row in chunk.dicts()]


@every("file_format")
@pytest.mark.parametrize("size", [1, 2, 100])
def test_rows_come_in_order_with_their_texts_as_they_were(file_format, size, tmp_path):
    source = open_rows(write(file_format, tmp_path))
    assert (source.n_rows, source.columns) == (5, ["image", "caption"])
    chunks = list(source.chunks(size))
    assert [chunk.start for chunk in chunks] == [sum(map(len, chunks[:n])) for n in range(len(chunks))]
    assert [row for chunk in chunks for row in chunk.dicts()] == ROWS
    images = [chunk.values("image") for chunk in source.chunks(size, ["image"])]
    assert [image for values in images for image in values] == [row["image"] for row in ROWS]
    assert source.schema().names == ["image", "caption"]
    (tmp_path / "one").mkdir()
    row = {"image": "a.jpg", "caption": "word " * 40_000 + "end"}  # the csv module takes 128 KB by default
    assert read(write(file_format, tmp_path / "one", [row])) == [row]


@every("file_format")
def test_a_row_is_named_by_its_file_and_line_or_number(file_format, tmp_path):
    path = write(file_format, tmp_path)
    source = open_rows(path)
    row, chunk = next((3 - chunk.start, chunk) for chunk in source.chunks(9) if chunk.start + len(chunk) > 3)
    lines = {"jsonl": ", line 4", "csv": ", line 5", "tsv": ", line 5", "photos": "/d.txt"}
    lines["parts"] = "/part-1.parquet, row 1, counted from 0"
    assert source.place(chunk, row).startswith(f"{path}{lines.get(file_format, ', row 3, counted from 0')}")


@every("file_format", without=["photos"])
def test_a_file_without_rows_an_empty_and_a_truncated_one_are_named(file_format, tmp_path):
    path = write(file_format, tmp_path)
    files = [part for part in path.rglob("*") if part.is_file()] if path.is_dir() else [path]
    largest = max(files, key=lambda file: file.stat().st_size)
    whole = largest.read_bytes()
    largest.write_bytes(whole[: -40 if file_format in TEXT else 200])
    with pytest.raises(InputError, match=path.name):
        read(path)
    if file_format in TEXT:
        path.write_bytes({"json": b"[]", "jsonl": b"\n \n"}.get(file_format, whole.split(b"\n")[0]))
    for part in files if file_format in ("parquet", "parts") else []:
        pq.write_table(pa.Table.from_pylist([], TYPES), part)
    if file_format != "saved":
        with pytest.raises(InputError, match="has no rows"):
            open_rows(path)
    if path.is_file():
        path.write_bytes(b"")
        with pytest.raises(InputError, match=r"is empty \(0 bytes\)"):
            open_rows(path)


@pytest.mark.parametrize("file_format", TEXT)
def test_text_may_be_packed(file_format, tmp_path):
    path = write(file_format, tmp_path, pack=gzip.compress)
    assert read(path) == ROWS
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(InputError, match="cannot be unpacked, cut short or damaged"):
        open_rows(path)


@pytest.mark.parametrize("file_format", TEXT)
@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"], ids=repr)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32", "utf-32-be"])
def test_a_byte_order_mark_tells_the_encoding_whatever_ends_a_line(file_format, end, encoding, tmp_path):
    path = write(file_format, tmp_path)
    text = path.read_bytes().decode().replace("\r\n", "\n").replace("\n", end)
    mark = "\ufeff" * encoding.endswith("be")
    path.write_bytes((mark + text).encode(encoding))
    assert read(path) == ROWS
    path.write_bytes((mark + text).encode(encoding)[:-1])
    if encoding[4:6] in ("16", "32"):
        with pytest.raises(InputError, match=rf"{path.name}: is not {encoding[:6].upper()} text"):
            read(path)


@pytest.mark.parametrize("packed", [bytes, gzip.compress])
@pytest.mark.parametrize(
    ("encoding", "caption", "name"),
    [
        ("utf-16-le", "a cat", "UTF-16LE"),
        ("utf-16-be", "a cat", "UTF-16BE"),
        ("utf-32-le", "a cat", "UTF-32LE"),
        ("utf-32-be", "a cat", "UTF-32BE"),
        ("cp1252", "Ein Kätzchen frißt", "WINDOWS-1252"),
        ("cp1252", "un café “noir”", "WINDOWS-1252"),
        ("cp1251", "Одна кошка на диване", "WINDOWS-1251"),
        ("gbk", "一只猫在沙发上睡觉", "GB18030"),
        ("big5", "一隻貓在沙發上睡覺", "BIG5"),
        ("cp932", "猫がソファの上で寝ている", "SHIFT_JIS"),
        ("euc-jp", "猫がソファの上で寝ている", "EUC-JP"),
        ("euc-kr", "고양이가 소파 위에서 자고 있다", "EUC-KR"),
    ],
)
def test_text_of_another_encoding_is_refused_with_its_name(encoding, caption, name, packed, tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(packed(f"image,caption\na.jpg,{caption}\n".encode(encoding)))
    with pytest.raises(InputError, match=rf"a\.csv, line [12]: is not UTF-8 .*iconv -f {name} "):
        read(path)


@pytest.mark.parametrize("text", ["一只猫", "Один кот", "“Ω café” π"])
def test_bytes_of_another_encoding_that_are_valid_utf_8_are_warned_of(text, tmp_path):
    is_misread, raw = text == "一只猫", text.encode("gbk" if text == "一只猫" else "utf-8")
    for name, content in (("a.csv", b"image,caption\na.jpg,%s\n"), ("a.jsonl", b'{"caption": "%s"}')):
        (tmp_path / name).write_bytes(content % raw)
        assert ("iconv -f GB18030" in " ".join(open_rows(tmp_path / name).notes)) == is_misread


OUT = ["o.jsonl", "o.json", "o.csv", "o.tsv", "o.parquet"]
MIXED = [
    {"image": "a.jpg", "caption": 'say "hi"\r\nthere', "references": ["x", "y"], "n": 1},
    {"image": "b.jpg", "caption": "日本語", "references": [], "n": None},
    {"image": "c.jpg", "caption": "", "references": ["z,\n"], "n": 3},
]


def source_of(folder, rows=MIXED):
    (folder / "in.jsonl").write_bytes(_json_lines(rows))
    return open_rows(folder / "in.jsonl")


def copied(source, target, size=2):
    """Write all rows with a score that is their number, and an error of the first."""
    target = check_output(target, source)
    writer = Writer(target, source, {"mcs": float, "capscore_error": str})
    for chunk in source.chunks(size):
        numbers = [float(chunk.start + row) for row in range(len(chunk))]
        errors = [None if number else "broken" for number in numbers]
        writer.write(chunk, {"mcs": [number or None for number in numbers], "capscore_error": errors})
    writer.finish({"signatures": {"mcs": "mcs|w:2.5"}}, '{"rows": 3}\n')
    return target


@pytest.mark.parametrize("name", OUT)
def test_a_result_has_all_columns_and_the_new_ones_after_them(name, tmp_path):
    target = copied(source_of(tmp_path), tmp_path / name)
    assert summary_path(target).read_text() == '{"rows": 3}\n'
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["in.jsonl", "o.summary.json", name])
    new = [(None, "broken"), (1.0, None), (2.0, None)]
    expected = [row | {"mcs": n, "capscore_error": error} for row, (n, error) in zip(MIXED, new, strict=True)]
    rows = read(target)
    if name[2:] in ("csv", "tsv"):
        shown = {type(None): lambda value: "", list: json.dumps}
        for row in expected:
            row |= {column: shown.get(type(value), str)(value) for column, value in row.items()}
    assert rows == expected and [*rows[0]] == [*expected[0]]


@pytest.mark.parametrize("name", OUT)
def test_a_result_that_is_stopped_leaves_nothing(name, tmp_path):
    source = source_of(tmp_path)
    writer = Writer(check_output(tmp_path / name, source), source, {"mcs": float})
    writer.write(next(source.chunks(2)), {"mcs": [0.5, 1.5]})
    writer.stop()
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


ANY_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
ANY_ROWS = st.lists(st.fixed_dictionaries({"a": ANY_TEXT, "b": ANY_TEXT}), min_size=1, max_size=7)


@settings(max_examples=20, suppress_health_check=[*HealthCheck])
@given(values=ANY_ROWS, size=st.integers(1, 4))
@pytest.mark.parametrize("name", OUT)
def test_any_text_survives_a_round_trip_in_any_chunks(tmp_path_factory, name, values, size):
    folder = tmp_path_factory.mktemp("any")
    back = read(copied(source_of(folder, values), folder / name, size))
    assert [{key: row[key] for key in "ab"} for row in back] == values
