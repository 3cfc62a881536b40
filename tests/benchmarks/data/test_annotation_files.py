"""Annotation files as they come: whole, damaged in every way, packed; what is wrong names file and line."""

import gzip
import io
import pickle
import re
import zipfile

import pyarrow
import pytest
from pyarrow import parquet

from capscore.benchmarks.data.annotation_files import AnnotationError, AnnotationSource, MissingAnnotations

LINES = "".join(f"{n}.jpg#0\tA caption with the number {n} .\n" for n in range(300)).encode()


@pytest.fixture
def write(tmp_path):

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


def test_an_error_names_file_line_and_entry_in_any_process():
    error = pickle.loads(pickle.dumps(MissingAnnotations("is wrong", file="a.json", line=3, entry="key")))
    assert type(error) is MissingAnnotations and str(error) == "a.json, line 3, entry key: is wrong"
    assert (error.message, error.file, error.line, error.entry) == ("is wrong", "a.json", 3, "key")
    assert str(AnnotationError("is wrong", file="a.json", entry=0)) == "a.json, entry 0: is wrong"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_line_ends_and_a_mark_change_nothing(write, end, mark):
    lines = ["first", "", "Größe\t\x0b 犬\u2028\x85", "last"]
    file = write(mark + "".join(line + end for line in lines).encode())
    assert list(file.lines()) == list(enumerate(lines, start=1))


@pytest.mark.parametrize("cut", [1, 998, LINES.index(b"\n", 5000) + 1])
def test_a_table_that_is_cut_anywhere_but_after_a_line_is_refused(write, cut):
    file, n = write(LINES[:cut]), LINES[:cut].count(b"\n")
    if LINES[:cut].endswith(b"\n"):
        assert len(list(file.tsv("id", "caption"))) == n
        return
    assert len(list(file.lines())) == n + 1
    with pytest.raises(AnnotationError, match=f"line {n + 1}: is the last line, and has no line end: cut"):
        list(file.tsv("id", "caption"))


@pytest.mark.parametrize(
    ("content", "line", "what"),
    [
        ("plain\n".encode("utf-16-le"), 1, "it looks like UTF-16LE"),
        (b"PK\x03\x04 and so on\n", 1, "it looks like a zip archive"),
        (b"  <!DOCTYPE html>\n<html>", 1, "it looks like a web page"),
        (b"version https://git-lfs.github.com/spec/v1\n", 1, "it looks like a pointer of Git LFS"),
        ("one\ntwo\nGröße\n".encode("latin-1"), 3, "byte 0xf6 cannot be decoded"),
    ],
)
def test_bytes_that_are_not_text_are_named_by_their_kind(write, content, line, what):
    file = write(content)
    for read in (file.text, lambda: list(file.lines())):
        with pytest.raises(AnnotationError, match=rf"file\.txt, line {line}: is not UTF-8 text: {what}"):
            read()


def test_rows_have_their_lines(write):
    def read(content, kind, *names):
        return [(row.line, row.values) for row in getattr(write(content), kind)(*names)]

    assert read("a\t1\n\nb\t2\n", "tsv", "p", "r") == [(1, {"p": "a", "r": "1"}), (3, {"p": "b", "r": "2"})]
    table = read('\ufeffa , b\n1,"two\nlines"\n\n3,4\n', "csv")
    assert table == [(2, {"a": "1", "b": "two\nlines"}), (5, {"a": "3", "b": "4"})]
    assert read('{"a": 1}\n\n{"b": 3}\n', "jsonl") == [(1, {"a": 1}), (3, {"b": 3})]
    assert write('{"a": "\\uD83D\\uDE00", "b": "\\\\ud83d"}').json().values == {"a": "😀", "b": "\\ud83d"}
    row = write("").row({"rows": [{"x": 1}], "y": 2})
    assert [(item.entry, item["x"]) for item in row.rows("rows")] == [("rows[0]", 1)]
    assert "y" in row and list(row) == ["rows", "y"] and row.get("z", 3) == 3


@pytest.mark.parametrize(
    ("read", "content", "message"),
    [
        *((read, "\n \n", "is empty") for read in ("tsv", "jsonl", "csv", "json_rows", "json")),
        ("tsv", "c\n", r"line 1: expected 2 tab-separated columns \(a, b\), found 1"),
        ("csv", "a,b\n1,2\n", "line 2: lacks the field 'c'; it has a, b"),
        ("csv", "a;c\n", "is empty"),
        ("csv", "c,c\n1,2\n", "line 1: has the column 'c' twice"),
        ("csv", "c,d\n1\n", "line 2: expected 2 columns as in the header, found 1"),
        ("csv", 'c,d\n1,"two\n', r"not valid CSV: unexpected end of data \(cut short\?\)"),
        ("jsonl", '{"c": 0}\n{"a": 1', "line 2: not valid JSON: Expecting ',' delimiter.*cut"),
        ("jsonl", '{"c": 0}\n[1]', r"line 2: expected a JSON object, found list: \[1\]"),
        ("json_rows", '[1,\n "two', "line 2: not valid JSON: Unterminated string .*cut"),
        ("json_rows", "[1,\n x, 2]\n", r"line 2: not valid JSON: Expecting value.*\(char 5\)$"),
        ("json_rows", '["\\\\ud83d",\n "\\ud83d\\ude00",\n "\\ude00"]', "has half a character"),
        ("json_rows", '{"a": 1}', "expected a list"),
        ("parquet", "PAR1", "is not Parquet, or cut short"),
    ],
)
def test_damage_is_named_with_its_line(write, read, content, message):
    with pytest.raises(AnnotationError, match=rf"file\.txt.*{message}"):
        [row["c"] for row in getattr(write(content), read)(*("ab" if read == "tsv" else ""))]


@pytest.mark.parametrize(
    ("name", "member", "content"),
    [("f.txt", "", gzip.compress(LINES)), ("f.zip", "f.txt", zipped(**{"top__f.txt": LINES}))],
)
def test_a_packed_file_is_read_or_its_damage_is_noticed(write, name, member, content):
    file = write(content, name, member)
    assert file.text().encode() == LINES
    assert str(file).endswith(f"{name}::{member}" if member else name)
    with pytest.raises(AnnotationError, match=rf"{re.escape(name)}.*: cannot be unpacked, cut short or"):
        write(content[: len(content) // 2], name, member).text()
    for place in (0.3, 0.5, 0.7):
        damaged = bytearray(content)
        damaged[int(place * len(content))] ^= 1
        with pytest.raises(AnnotationError, match=re.escape(name)):
            write(bytes(damaged), name, member).text()


def test_an_archive_that_lacks_the_file_or_is_packed_in_another_way(write):
    with pytest.raises(AnnotationError, match=r"holds no captions\.json \(it holds 'a', 'b'\)"):
        write(zipped(a="1", b="2"), "f.zip", "captions.json").text()
    assert write(zipped(abc__f="1", a__f="2"), "f.zip", "f").text() == "2"  # of several the shortest
    content = bytearray(zipped(**{"f.txt": LINES}))
    for mark, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        place = content.index(mark) + offset
        content[place : place + 2] = (99).to_bytes(2, "little")
    with pytest.raises(AnnotationError, match=r"f\.zip::f\.txt: cannot be unpacked \(.*compression"):
        write(bytes(content), "f.zip", "f.txt").text()


def test_parquet_has_rows_in_an_archive_too(write):
    table = io.BytesIO()
    parquet.write_table(pyarrow.table({"a": list(range(100))}), table)
    packed = write(zipped(**{"f.parquet": table.getvalue()}), "f.zip", "f.parquet")
    for file in (write(table.getvalue(), "f.parquet"), packed):
        assert [(row["a"], row.entry) for row in file.parquet()] == [(n, n) for n in range(100)]


def test_a_file_that_cannot_be_read(write, tmp_path, monkeypatch):
    with pytest.raises(AnnotationError, match=r"nowhere\.txt: cannot be read \(No such file or directory\)"):
        AnnotationSource(tmp_path / "nowhere.txt").text()
    with pytest.raises(AnnotationError, match=r"cannot be read \(Is a directory\)"):
        AnnotationSource(tmp_path).sha256()
    file = write("text")
    monkeypatch.setattr("builtins.open", lambda *_: (_ for _ in ()).throw(OSError(5, "Input/output error")))
    with pytest.raises(AnnotationError, match=r"file\.txt: cannot be read \(Input/output error\)"):
        file.text()


def test_checksums_who_reads_and_what_is_read_once(write):
    path = write(b"hello\n").path
    opened, readings = {}, {}
    file = AnnotationSource(path, opened=opened, readings=readings)
    # as `sha256sum` and `git hash-object` give them
    assert file.sha256() == "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"
    assert file.git_blob() == "ce013625030ba8dba906f756967f9e9ca394464a"
    assert opened == {} and len(readings) == 1
    path.write_text('{"a": 1}\n')
    assert [row["a"] for row in file.jsonl()] == [1] and opened == {path: file}
    path.write_text('{"a": 2}\n')
    others = AnnotationSource(path, readings=readings), AnnotationSource(path)
    assert [[row["a"] for row in other.jsonl()] for other in others] == [[1], [2]]


ARGUMENTS = {"number": (1, 5), "integer": (0, 9), "choice": (["a", "b"],)}
RIGHT = [("number", " 2.5 ", 2.5), ("number", "1", 1.0), ("integer", "3.0", 3), ("flag", False, False)]
RIGHT += [("identifier", " a.jpg ", "a.jpg"), ("choice", "a", "a"), ("array", [1], [1])]
RIGHT += [("caption", " a\tdog\n ", "a dog"), ("captions", [" a\tb\n"], ["a b"])]


@pytest.mark.parametrize(("method", "value", "expected"), RIGHT)
def test_values_are_read_as_what_they_must_be(write, method, value, expected):
    found = getattr(write("").row({"x": value}), method)("x", *ARGUMENTS.get(method, ()))
    assert found == expected and type(found) is type(expected)


NO_NUMBERS = "", "six", "6", 0, "nan", "inf", None, True, [1]


@pytest.mark.parametrize(
    ("method", "value", "message"),
    [
        *(("number", value, "'a' is .*, expected a number from 1 to 5") for value in NO_NUMBERS),
        ("integer", "3.5", "expected a whole number"),
        ("flag", 1, "'a' is 1, expected true or false"),
        ("identifier", " ", "expected a name"),
        ("photo", "a dog.", "expected a photo's file name"),
        ("choice", "c", "expected one of a, b"),
        ("array", "ab", "expected a list"),
        ("rows", [1], r"entry a\[0\]: expected a JSON object"),
        ("caption", "\u00a0", "expected a caption"),
        ("captions", ["a", " "], "expected a caption"),
    ],
)
def test_values_that_are_something_else(write, method, value, message):
    row = write("").row({"a": value}, line=1)
    with pytest.raises(AnnotationError, match=rf"file\.txt, line 1.*{message}"):
        list(getattr(row, method)("a", *ARGUMENTS.get(method, ())))
