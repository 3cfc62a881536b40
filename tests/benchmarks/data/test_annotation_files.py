"""Annotation files as they come: whole, damaged in every way, packed; what is wrong names file and line."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import re
import tarfile
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capscore.benchmarks.data.annotation_files import AnnotationError, AnnotationSource, MissingAnnotations

LINES = "".join(f"{n}.jpg#0\tA caption with the number {n} .\n" for n in range(300)).encode()


@pytest.fixture
def write(tmp_path):
    """Writes a file, and gives it to read."""

    def written(content, name="file.txt", member=""):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return AnnotationSource(path, member)

    return written


def zipped(**members):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "/"), content)
    return packed.getvalue()


def tarred(name, content):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


# ----------------------------------------------------------------------------- the error


def test_an_error_names_file_line_and_entry():
    error = AnnotationError("is wrong", file="a.json", line=3, entry="key")
    assert str(error) == "a.json, line 3, entry key: is wrong"
    assert str(AnnotationError("is wrong", file="a.json", entry=0)) == "a.json, entry 0: is wrong"
    assert str(AnnotationError("is wrong")) == "is wrong"


@pytest.mark.parametrize("kind", [AnnotationError, MissingAnnotations])
def test_an_error_comes_through_another_process(kind):
    error = pickle.loads(pickle.dumps(kind("is wrong", file="a.json", line=3, entry="key")))
    assert type(error) is kind
    assert (error.message, error.file, error.line, error.entry) == ("is wrong", "a.json", 3, "key")


# -------------------------------------------------------------------- text and its lines


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\0")), min_size=1),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
)
def test_line_ends_and_a_mark_change_nothing(tmp_path_factory, lines, end, mark):
    lines = ["first", *lines]
    path = tmp_path_factory.mktemp("lines") / "file.txt"
    path.write_bytes(mark + "".join(line + end for line in lines).encode())
    assert list(AnnotationSource(path).lines()) == list(enumerate(lines, start=1))


def test_the_last_line_may_lack_its_end_only_where_text_cannot_be_cut_short(write):
    file = write("one\ntwo")
    assert list(file.lines()) == [(1, "one"), (2, "two")]
    with pytest.raises(AnnotationError, match=r"file\.txt, line 2: is the last line, and has no line end"):
        list(file.lines(ended=True))


@pytest.mark.parametrize("cut", [*range(1, len(LINES), 997), LINES.index(b"\n", 5000) + 1])
def test_a_table_that_is_cut_anywhere_but_after_a_line_is_refused(write, cut):
    file = write(LINES[:cut])
    if LINES[:cut].endswith(b"\n"):
        assert len(list(file.tsv("id", "caption"))) == LINES[:cut].count(b"\n")
        return
    with pytest.raises(AnnotationError) as caught:
        list(file.tsv("id", "caption"))
    assert caught.value.line == LINES[:cut].count(b"\n") + 1


@pytest.mark.parametrize(
    "content, what",
    [
        ("Größe\n".encode("utf-16"), "UTF-16"),
        ("plain\n".encode("utf-16-le"), "UTF-16, or binary data"),
        (b"PK\x03\x04 and so on\n", "a zip archive"),
        (b"  <!DOCTYPE html>\n<html>", "a web page"),
        (b"<HTML><body>404", "a web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "a pointer of Git LFS"),
    ],
)
def test_what_is_no_annotation_file_is_called_what_it_is(write, content, what):
    file = write(content)
    with pytest.raises(AnnotationError, match=rf"line 1: is not UTF-8 text: it looks like {what}"):
        file.text()
    with pytest.raises(AnnotationError, match=r"file\.txt, line 1:"):
        list(file.lines())


def test_another_encoding_is_refused_at_its_line(write):
    file = write("one\ntwo\nGröße\n".encode("latin-1"))
    for read in (file.text, lambda: list(file.lines())):
        with pytest.raises(AnnotationError, match=r"line 3: is not UTF-8 text: byte 0xf6 cannot be decoded"):
            read()


# ---------------------------------------------------------------------------- tables


def test_a_table(write):
    file = write("a.jpg\t1\n\nb.jpg\t2\n")
    rows = [(row.line, row["photo"], row["rating"]) for row in file.tsv("photo", "rating")]
    assert rows == [(1, "a.jpg", "1"), (3, "b.jpg", "2")]
    with pytest.raises(AnnotationError, match=r"line 1: expected 3 tab-separated columns \(a, b, c\)"):
        list(file.tsv("a", "b", "c"))


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_a_file_with_nothing_in_it(write, content):
    file = write(content)
    for read in (lambda: file.tsv("a"), file.jsonl, file.csv, file.json_rows, file.json):
        with pytest.raises(AnnotationError, match=r"file\.txt: is empty"):
            list(read())


def test_csv(write):
    file = write('\ufeffa , b\n1,"two\nlines"\n\n3,4\n')
    rows = [(row.line, row.values) for row in file.csv()]
    assert rows == [(3, {"a": "1", "b": "two\nlines"}), (5, {"a": "3", "b": "4"})]


@pytest.mark.parametrize(
    "content, message",
    [
        ("a,b\n1,2\n", r"line 2: lacks the field 'c'; it has a, b"),
        ("a;c\n", r"is empty"),
        ("c,c\n1,2\n", r"line 1: has the column 'c' twice"),
        ("c,d\n1\n", r"line 2: expected 2 columns as in the header, found 1"),
        ('c,d\n1,"two\n', r"line 3: is not CSV: unexpected end of data \(cut short\?\)|line 2: is not CSV"),
    ],
)
def test_csv_with_other_columns_or_cut_short(write, content, message):
    with pytest.raises(AnnotationError, match=message):
        [row["c"] for row in write(content).csv()]


# ------------------------------------------------------------------------------ JSON


def test_json_lines(write):
    file = write('{"a": 1}\n\n{"a": 2, "b": 3}\n')
    assert [(row.line, row.values) for row in file.jsonl()] == [(1, {"a": 1}), (3, {"a": 2, "b": 3})]
    with pytest.raises(AnnotationError, match=r"line 1: lacks the field 'b'; it has a"):
        [row["b"] for row in file.jsonl()]


@pytest.mark.parametrize(
    "line, message",
    [
        ('{"a": 1', r"line 2: is not JSON: Expecting ',' delimiter: line 1 column 8 .*cut"),
        ('{"a": "x', r"line 2: is not JSON: Unterminated string starting at: line 1 column 7"),
        ("[1]", r"line 2: expected a JSON object, found list: \[1\]"),
        ('{"a": 1, "a": 2}', r"line 2: is not JSON: one object has two values for 'a'"),
        ('{"a": "\\ud83d"}', r"line 2: has half a character"),
        ('{"a": ' + "9" * 5000 + "}", r"line 2: is not JSON"),
        ('{"a": ' + "[" * 100_000, r"line 2: "),
    ],
)
def test_a_line_that_is_no_object(write, line, message):
    with pytest.raises(AnnotationError, match=message):
        list(write(f'{{"a": 0}}\n{line}\n').jsonl())


@pytest.mark.parametrize(
    "content, message",
    [
        (
            "[1,\n 2",
            r"line 2: is not JSON: Expecting ',' delimiter: line 2 column 3 .*cut",
        ),
        (
            '[1,\n "two',
            r"line 2: is not JSON: Unterminated string starting at: line 2 column 2 .*cut",
        ),
        ("[1,\n 2}", r"line 2: is not JSON: Expecting ',' delimiter"),
        ("[1,\n x, 2]\n", r"line 2: is not JSON: Expecting value: line 2 column 2 \(char 5\)$"),
        ('{"a": {"b": 1, "b": 2}}', r"one object has two values for 'b'"),
        ('["\\\\ud83d",\n "\\ud83d\\ude00",\n "\\ude00"]', r"has half a character"),
        ("[" * 100_000, r"is not JSON"),
    ],
)
def test_a_document_that_is_damaged(write, content, message):
    with pytest.raises(AnnotationError, match=message):
        list(write(content).json_rows())


def test_whole_characters_outside_the_first_plane_are_read(write):
    assert write('{"a": "\\uD83D\\uDE00", "b": "\\\\ud83d"}').json().values == {"a": "😀", "b": "\\ud83d"}


# ------------------------------------------------------------------------------ archives


@pytest.mark.parametrize(
    "name, member, content",
    [
        ("f.txt.gz", "", gzip.compress(LINES)),
        ("f.txt", "", gzip.compress(LINES)),
        ("f.zip", "f.txt", zipped(**{"top__f.txt": LINES})),
        ("f.zip", "f.txt.gz", zipped(**{"top__f.txt.gz": gzip.compress(LINES)})),
        ("f.tar.gz", "f.txt", tarred("top/f.txt", LINES)),
    ],
    ids=[
        "gzip",
        "gzip by its content",
        "zip",
        "gzip in zip",
        "tar",
    ],  # archives hold the time, but a test's name may not
)
def test_a_packed_file(write, name, member, content):
    file = write(content, name, member)
    assert file.text().encode() == LINES
    assert str(file).endswith(f"{name}::{member}" if member else name)
    cut = write(content[: len(content) // 2], f"cut-{name}", member)
    with pytest.raises(AnnotationError, match=rf"cut-{re.escape(name)}.*: cannot be unpacked, cut short or"):
        cut.text()


@pytest.mark.parametrize("place", [0.3, 0.5, 0.7])
def test_a_bit_that_tipped_over_in_an_archive_is_noticed(write, place):
    """Of a tar archive only gzip has a checksum, and it lies behind the member that is read."""
    for name, member, content in (
        ("f.txt.gz", "", gzip.compress(LINES)),
        ("f.zip", "f.txt", zipped(**{"f.txt": LINES})),
        ("f.tar.gz", "f.txt", tarred("f.txt", LINES)),
    ):
        damaged = bytearray(content)
        damaged[int(place * len(content))] ^= 1
        with pytest.raises(AnnotationError, match=re.escape(name)):
            write(bytes(damaged), name, member).text()


def test_a_member_that_is_not_there(write):
    with pytest.raises(AnnotationError, match=r"holds no captions\.json \(it holds 'a', 'b'\)"):
        write(zipped(a="1", b="2"), "f.zip", "captions.json").text()


def test_an_archive_compressed_in_a_way_that_is_not_known(write):
    content = bytearray(zipped(**{"f.txt": LINES}))
    for mark in (b"PK\x03\x04", b"PK\x01\x02"):
        place = content.index(mark) + (8 if mark == b"PK\x03\x04" else 10)
        content[place : place + 2] = (99).to_bytes(2, "little")
    with pytest.raises(AnnotationError, match=r"f\.zip::f\.txt: cannot be unpacked \(.*compression"):
        write(bytes(content), "f.zip", "f.txt").text()


def test_a_file_that_cannot_be_read(write, tmp_path, monkeypatch):
    with pytest.raises(AnnotationError, match=r"nowhere\.txt: cannot be read \(No such file or directory\)"):
        AnnotationSource(tmp_path / "nowhere.txt").text()
    with pytest.raises(AnnotationError, match=r"cannot be read \(Is a directory\)"):
        AnnotationSource(tmp_path).sha256()
    file = write("text")
    monkeypatch.setattr("builtins.open", lambda *_: (_ for _ in ()).throw(OSError(5, "Input/output error")))
    with pytest.raises(AnnotationError, match=r"file\.txt: cannot be read \(Input/output error\)"):
        file.text()


def test_checksums(write):
    file = write(b"hello\n")
    # as `sha256sum` and `git hash-object` give them
    assert file.sha256() == "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"
    assert file.git_blob() == "ce013625030ba8dba906f756967f9e9ca394464a"


def test_who_reads_is_told(write):
    opened = {}
    file = AnnotationSource(write(LINES).path, opened=opened)
    assert opened == {}
    file.text()
    assert opened == {file.path: file}


# ------------------------------------------------------------------------------ values


@pytest.mark.parametrize("value, number", [("1", 1.0), (" 2.5 ", 2.5), (5, 5.0), ("1e0", 1.0)])
def test_a_number(write, value, number):
    assert write("").row({"rating": value}).number("rating", 1, 5) == number


@pytest.mark.parametrize("value", ["", "six", "6", 0, "nan", float("nan"), "inf", None, True, [1], "1,5"])
def test_what_is_no_number_of_the_scale(write, value):
    with pytest.raises(AnnotationError, match=r"line 4: 'rating' is .*, expected a number from 1 to 5"):
        write("").row({"rating": value}, line=4).number("rating", 1, 5)


def test_whole_numbers_flags_names_lists_and_captions(write):
    values = {
        "n": "3.0",
        "f": False,
        "name": " a.jpg ",
        "list": [" a\tb\n"],
        "rows": [{"x": 1}],
        "text": " a\tdog\n ",
    }
    row = write("").row({**values, "text": " a\tdog\n "})
    assert row.integer("n", 0, 9) == 3
    assert row.flag("f") is False
    assert row.identifier("name") == row.photo("name") == row.choice("name", [" a.jpg "]).strip() == "a.jpg"
    assert row.captions("list") == ["a b"]
    assert row.caption("text") == "a dog"
    assert [(item.entry, item["x"]) for item in row.rows("rows")] == [("rows[0]", 1)]


@pytest.mark.parametrize(
    "method, value, message",
    [
        ("integer", "3.5", "expected a whole number"),
        ("flag", 1, "'a' is 1, expected true or false"),
        ("identifier", " ", "expected a name"),
        ("identifier", 7, "expected a name"),
        ("photo", "a dog.", "expected a photo's file name"),
        ("array", "ab", "expected a list"),
        ("rows", [1], r"entry a\[0\]: expected a JSON object"),
        ("caption", "\u00a0", "expected a caption"),
        ("caption", None, "expected a caption"),
        ("captions", ["a", " "], "expected a caption"),
    ],
)
def test_values_that_are_something_else(write, method, value, message):
    row = write("").row({"a": value}, line=1)
    with pytest.raises(AnnotationError, match=rf"file\.txt, line 1.*{message}"):
        list(getattr(row, method)("a"))


def test_parquet_in_an_archive_and_its_rows(write):
    import pyarrow
    from pyarrow import parquet

    table = io.BytesIO()
    parquet.write_table(pyarrow.table({"a": list(range(100))}), table)
    for file in (
        write(table.getvalue(), "f.parquet"),
        write(zipped(**{"f.parquet": table.getvalue()}), "f.zip", "f.parquet"),
    ):
        assert [(row["a"], row.entry) for row in file.parquet()] == [(n, n) for n in range(100)]
    with pytest.raises(AnnotationError, match=r"f\.json: is not Parquet, or cut short"):
        list(write(json.dumps([1]), "f.json").parquet())
