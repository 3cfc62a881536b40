"""Rows that are read: what is odd but valid, damaged, or made to do harm; folders and splits."""

import gzip
import json
import math

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from capscore.errors import CapscoreError, InputError
from capscore.files import text_files
from capscore.files.image_folder import ImageFolder, pair_captions
from capscore.files.read import open_rows
from capscore.files.text_files import ROW_BYTES
from capscore.options import RowOptions

from ..test_file_format_laws import read


def rows_of(path, data: bytes):
    path.write_bytes(data)
    return read(path)


def error_of(path, data: bytes) -> str:
    with pytest.raises(InputError) as caught:
        rows_of(path, data)
    assert str(path) in str(caught.value) and len(str(caught.value)) < 600
    return str(caught.value)


def test_jsonl_lines_are_those_of_the_file_blank_ones_included(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text('{"a": 1}\n\n   \n{"b": NaN}\n{"a": 3}', encoding="utf-8")
    source = open_rows(path)
    chunks = list(source.chunks(2))
    assert (source.n_rows, source.columns) == (3, ["a", "b"])
    assert [chunk.lines for chunk in chunks] == [[1, 4], [5]]
    assert chunks[0].values("a") == [1, None] and math.isnan(chunks[0].values("b")[1])
    assert source.place(chunks[1], 0) == f"{path}, line 5"


def test_json_is_a_list_or_lines_and_tables_have_their_own_delimiter(tmp_path):
    rows = [{"a": 1}, {"a": 2}]
    assert rows_of(tmp_path / "list.jsonl", json.dumps(rows).encode()) == rows
    assert rows_of(tmp_path / "lines.json", b'{"a": 1}\n{"a": 2}\n') == rows
    path = tmp_path / "p.csv"
    path.write_text('image,caption\r\na,"two\r\nlines"\r\n\r\nb,"x, y"\r\n', encoding="utf-8")
    (chunk,) = open_rows(path).chunks(10)
    assert chunk.lines == [2, 5], "a record begins at its line"
    assert chunk.rows == [{"image": "a", "caption": "two\r\nlines"}, {"image": "b", "caption": "x, y"}]
    for name, content in (("a.tsv", b"image\tcaption\na\tx, y"), ("b.csv", b"image;caption\na;x, y\n")):
        assert rows_of(tmp_path / name, content) == [{"image": "a", "caption": "x, y"}]
    assert rows_of(tmp_path / "quoted.csv", b'"a,b,c,d";caption\n1;x\n') == [{"a,b,c,d": "1", "caption": "x"}]


def test_layouts_of_text_are_known_by_their_first_line(tmp_path):
    expected = [{"image": "a.jpg", "caption": "A dog, asleep."}, {"image": "a.jpg", "caption": '"Stop" sign'}]
    token = b'a.jpg#0\tA dog, asleep.\n\na.jpg#1\t"Stop" sign \n'
    assert rows_of(tmp_path / "Flickr8k.token.txt", token) == expected
    assert rows_of(tmp_path / "results.token", token) == expected
    for sign in ("|", "\t", "| "):
        lines = [sign.join(cells) for cells in (expected[0], *(row.values() for row in expected))]
        assert rows_of(tmp_path / "a.csv", "\n".join(lines).encode()) == expected
        assert rows_of(tmp_path / "a.txt", "\n".join(lines).encode()) == expected


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b"image_name| comment\na.jpg| A dog.\nb.jpg  A cat.\n"),
        ("a.csv", b"image,comment\na.jpg,A dog.\nb.jpg,a,cat\n"),
        ("a.token", b"a.jpg#0\tA dog.\n\nb.jpg#0 a cat\n"),
    ],
)
def test_a_broken_row_is_an_error_or_skipped(tmp_path, name, content):
    assert "line 3: " in error_of(tmp_path / name, content)
    source = open_rows(tmp_path / name, RowOptions(on_error="skip"))
    assert (source.n_rows, [*source.faults]) == (2, [1])


def test_files_that_unpack_too_far_are_refused_early(tmp_path, monkeypatch):
    monkeypatch.setattr("capscore.files.text_files.UNPACKED_FLOOR", 100_000)
    # lines are not read; an empty row is work too
    for line, n in ((b'{"caption": "x"}\n', 100_000), (b"no JSON\n", 100_000), (b"{}\n", 20_000)):
        packed = gzip.compress(line * n)
        # the end tells of one part alone
        for parts in (packed, gzip.compress(b"\n") + packed, packed + gzip.compress(b"\n")):
            assert "unpacks to over 200 times its size" in error_of(tmp_path / "a.jsonl.gz", parts)
    for cells in (["x"] * 100_000, ["x" * 2_000_000] * 300, [["x" * 2_000_000]] * 300):
        pq.write_table(pa.table({"caption": cells}), tmp_path / "a.parquet", compression="zstd")
        monkeypatch.setattr("capscore.files.text_files.UNPACKED_FLOOR", 4_000_000 if len(cells) < 999 else 9)
        with pytest.raises(InputError, match="unpacks to over 200 times"):
            open_rows(tmp_path / "a.parquet")


@pytest.mark.parametrize("cell", ["x" * 2000, ["x", "x" * 2000]])
@pytest.mark.parametrize("suffix", ["jsonl", "parquet", "saved"])
def test_no_cell_is_longer_than_a_row_may_be(tmp_path, monkeypatch, cell, suffix):
    monkeypatch.setenv("CAPSCORE_MAX_ROW_BYTES", "1000")
    path = tmp_path / f"a.{suffix}"
    if suffix == "jsonl":
        path.write_text(json.dumps({"references": cell}))
    else:
        table = pa.table({"references": [cell]})
        pq.write_table(table, path) if suffix == "parquet" else datasets.Dataset(table).save_to_disk(path)
    with pytest.raises(InputError, match=r"longer than 1\.0 KB; the limit is"):
        list(open_rows(path).chunks(9))


def test_values_that_are_odd_but_valid(tmp_path):
    row = {"i": 10**4000, "s": "\ud800", "n": "a\0b", "e": "", "l": json.loads("[" * 62 + "]" * 62)}
    assert rows_of(tmp_path / "a.jsonl", json.dumps(row).encode()) == [row]
    assert rows_of(tmp_path / "b.jsonl", b'{"x": 1e999}') == [{"x": float("inf")}]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b'{"a": 1}\n\n{"a": 1,}\n', "line 3: not valid JSON"),
        ("a.jsonl", b'{"a": 1}\n"text"\n', "line 2: expected an object"),
        ("a.jsonl", b'{"a": 1}\n{"a": ' + b"[" * 200_000 + b"}\n", "line 2: not valid JSON"),
        ("a.jsonl", b'{"a": 1}\n{"a": ' + b"1" * 4_301 + b"}\n", "line 2: not valid JSON"),
        ("a.jsonl", b'{"a": 1}\n{"a": 1, "a": 2}\n', "one object has two values for 'a'"),
        ("a.json", b'[{"a": 1},\n {"a" 2}]', "line 2 column 7"),
        ("a.json", b'[{"a": 1}, 3]', "element 1, counted from 0: expected an object"),
        ("a.csv", b"image,caption\na,A cat, asleep\n", "line 2: 3 cells, but the header has 2"),
        ("a.csv", b'image,caption\nx,y\na,"open\nb,c\n', "line 3: not valid CSV: unexpected end of data"),
        ("a.json", b'{"photos": {"a": [1]}}', "is in no known layout; it begins {'photos'"),
        ("a.csv", b"image,image\na,b\n", "two columns have the name 'image'"),
        ("a.csv", b",".join(b"c%d" % n for n in range(100_000)) + b",c5\n", "two columns have the name 'c5'"),
        ("a.xlsx", b"PK\x03\x04", "has an unknown format"),
        ("a.jpg", b"\xff\xd8\xff", 'a row, {"image": "a.jpg", …}, or goes to score --photo'),
    ],
)
def test_errors_in_a_file_name_their_line(tmp_path, name, content, message):
    assert message in error_of(tmp_path / name, content)


ROUND = {"a.jsonl": (b'{"caption": "', b'"}\n', 1000), "a.csv": (b"caption\n", b"\n", 1000)}
ROUND["a.json"] = b'[{"caption": "', b'"}]\n', 2000


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("name", ROUND)
def test_a_row_beyond_the_limit_is_refused_and_one_at_it_is_taken(tmp_path, monkeypatch, pack, name):
    head, tail, limit = ROUND[name]
    monkeypatch.setenv(ROW_BYTES.variable, "1000")
    monkeypatch.setenv("CAPSCORE_MAX_LIST_BYTES", "2000")
    room = limit - len(tail) - (0 if name == "a.csv" else len(head))
    assert len(rows_of(tmp_path / name, pack(head + b"x" * room + tail))) == 1
    message = error_of(tmp_path / name, pack(head + b"x" * (room + 1) + tail))
    assert f"longer than {limit / 1000:.1f} KB" in message and "CAPSCORE_MAX_" in message


def test_a_quotation_mark_that_is_never_closed_and_a_packed_line_of_gigabytes(tmp_path, monkeypatch):
    monkeypatch.setenv(ROW_BYTES.variable, "1000")
    start = b'image,caption\na.jpg,A cat.\nb.jpg,"A dog.\n'
    message = error_of(tmp_path / "a.csv", start + b"c.jpg,A cow.\n" * 100)
    assert "line 3" in message and "longer than 1.0 KB" in message and "quotation mark" in message
    unpacked = []

    class Counted(gzip.GzipFile):
        def read1(self, size=-1):
            block = super().read1(size)
            unpacked.append(len(block))
            return block

    monkeypatch.setattr(gzip, "GzipFile", Counted)
    assert "line 1" in error_of(tmp_path / "a.jsonl.gz", gzip.compress(b"x" * 20_000_000))
    assert 1_000 < sum(unpacked) < 100_000


@pytest.mark.parametrize("given", ["0", "1e9", "9" * 30])
def test_a_limit_must_be_a_number(tmp_path, monkeypatch, given):
    monkeypatch.setenv(ROW_BYTES.variable, given)
    with pytest.raises(CapscoreError, match=r"CAPSCORE_MAX_ROW_BYTES.*expected a number of bytes"):
        rows_of(tmp_path / "a.jsonl", b'{"caption": "x"}')


@pytest.mark.parametrize("name", ["gone.jsonl", "x" * 300 + ".jsonl", "a\0b.jsonl", "\ud800.jsonl"])
def test_paths_without_a_file_are_refused(tmp_path, name):
    with pytest.raises(InputError, match="path="):
        open_rows(tmp_path / name)


def test_splits_of_a_saved_data_set(tmp_path):
    rows, others = (datasets.Dataset.from_list([{"a": n}]) for n in (1, 2))
    rows.save_to_disk(tmp_path / "one")
    datasets.DatasetDict({"train": rows, "test": others}).save_to_disk(tmp_path / "two")
    datasets.DatasetDict({"test": rows}).save_to_disk(tmp_path / "single")
    (tmp_path / "p.jsonl").write_text('{"a": 1}')
    assert read(tmp_path / "single") == [{"a": 1}]
    (chunk,) = open_rows(tmp_path / "two", RowOptions(split="test")).chunks(2)
    assert chunk.dicts() == [{"a": 2}]
    for name, split, message in (
        ("p.jsonl", "test", "p.jsonl has no split"),
        ("one", "test", r"has the splits \(none\)"),
        ("two", None, r"split: .*two has the splits train, test; choose one"),
        ("two", "val", r"split='val': .* has the splits train, test"),
    ):
        with pytest.raises(InputError, match=message):
            open_rows(tmp_path / name, RowOptions(split=split))


def test_parts_have_the_same_columns_and_large_images_come_in_smaller_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr("capscore.files.row_source.CHUNK_BYTES", 25_000)
    table = pa.table({"image": [bytes([n]) * 10_000 for n in range(10)], "caption": ["c"] * 10})
    pq.write_table(table, tmp_path / "0.parquet", compression=None, use_dictionary=False)
    assert [len(chunk) for chunk in open_rows(tmp_path).chunks(1024)] == [2] * 5
    pq.write_table(pa.table({"b": [1]}), tmp_path / "1.parquet")
    with pytest.raises(InputError, match=r"1\.parquet has other columns than .*0\.parquet"):
        open_rows(tmp_path)


def folder_of(tmp_path, files):
    folder = tmp_path / "photos"
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (folder / "dangling.jpg").symlink_to(tmp_path / "nowhere.jpg")  # is no photo
    return folder


def test_texts_beside_photos_may_be_in_a_table_and_names_are_found_however_they_are_composed(tmp_path):
    folder = folder_of(tmp_path, {"cafe\u0301.jfif": b"photo", "caf\u00e9.txt": b"a cup"})
    assert [row["caption"] for row in read(folder)] == ["a cup"]
    assert ImageFolder(folder).find("caf\u00e9") == folder / "cafe\u0301.jfif"
    (folder / "caf\u00e9.txt").unlink()
    (folder / "metadata.csv").write_text("file_name,text\nb.jpe,a dog\n")
    source = open_rows(folder)
    assert (source.columns, source.folder) == (["file_name", "text"], folder)


def test_a_photo_without_a_text_is_a_problem_and_what_is_no_pair_is_noted(tmp_path):
    photos = dict.fromkeys(("b.JPG", "c.v2.webp", "d.jpg", ".hidden.jpg"), b"photo")
    texts = {"b.txt": b"\xef\xbb\xbfa dog\r\n\r\n  two dogs \n", "c.v2.TXT": b" \n", "e.txt": b"no photo"}
    folder = folder_of(tmp_path, photos | texts | {"notes.md": b"not read", "a.html": b""})
    source = open_rows(folder)
    (chunk,) = source.chunks(9)
    rows = [("b.JPG", "a dog\n\n  two dogs"), ("c.v2.webp", ""), ("d.jpg", None)]
    assert [tuple(row.values()) for row in chunk.dicts()] == rows and source.folder == folder
    assert [source.place(chunk, row) for row in (0, 2)] == [str(folder / "b.txt"), str(folder / "d.jpg")]
    ((row, error),) = source.problems(chunk).items()
    assert row == 2 and "there is no d.txt beside it" in str(error)
    several, text, page = source.notes
    assert "1 texts have several lines" in several and "e.txt" in text and "a.html" in page


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "is a folder with 0 photos and no saved data set; expected JSONL"),
        ({"a.jpg": b"x", "b.png": b"x"}, "2 photos .* text file beside each"),
        ({"a.HEIC": b"x", "b.heic": b"x"}, r"0 photos \(2 .heic cannot be read\)"),
        ({"a.parquet": b"x", "b.csv": b"a"}, "is a folder with 0 photos"),
        ({"a.jpg": b"x", "a.txt": "Kätze".encode("latin-1")}, "a.txt, line 1: is not UTF-8 text"),
    ],
)
def test_a_folder_that_cannot_be_read_says_what_was_expected(tmp_path, files, message):
    with pytest.raises(InputError, match=message):
        open_rows(folder_of(tmp_path, files))


@pytest.mark.parametrize(
    ("photos", "captions", "references", "expected"),
    [
        (["a"], ["x", "y"], [], [("a", "x"), ("a", "y")]),
        (["a", "b"], ["x", "y"], [], [("a", "x"), ("b", "y")]),
        ([], ["x"], ["r", "s"], [("x", ["r", "s"])]),
        (["a", "b"], ["x", "y"], ["r"], "photo: 2 photos"),
        (["a"], [], [], "caption: at least one is needed"),
    ],
)
def test_photos_and_captions_that_are_typed_pair_up(photos, captions, references, expected):
    if isinstance(expected, str):
        with pytest.raises(InputError, match=expected):
            pair_captions(photos, captions, references)
        return
    source = pair_captions(photos, captions, references)
    (chunk,) = source.chunks(9)
    names = ("image", "caption") if photos else ("caption", "references")
    assert chunk.dicts() == [dict(zip(names, row, strict=True)) for row in expected]
    assert source.place(chunk, len(expected) - 1) == f"caption {len(expected)}"


@pytest.mark.parametrize(
    ("lines", "names"),
    [
        ([["a.jpg", "a dog"], ["b.jpg"]], ["image", "caption"]),
        ([["a dog", "https://x.org/1"], ["a cat", "y"]], ["caption", "image"]),
        ([["ROCO_1", "a dog"], ["ROCO_2", "a cat"]], ["image", "caption"]),
        ([["one", "a dog"], ["b.jpg", "a cat"]], []),
        ([["a.jpg"], ["b.jpg", "a cat"]], []),
    ],
)
def test_the_first_line_says_whether_a_table_has_a_header(lines, names):
    assert text_files._names_without_header(lines) == names
