"""Files and archives of benchmarks. A harmless file has two rows."""

from __future__ import annotations

import bz2
import gzip
import io
import stat
import tarfile
import warnings
import zipfile

from ..case import cases, refused, scored

TEXT = b"1.jpg\ta dog\n2.jpg\ta cat\n"
ROWS = b'{"id": 1}\n{"id": 2}\n'
TWO = scored(2)
SMALL = {"CAPSCORE_MAX_UNPACKED_BYTES": "100000"}


def _zip(*members: tuple, **options: object) -> bytes:
    packed = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        warnings.simplefilter("ignore")  # of names that are there twice
        for name, content, *mode in members:
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (mode[0] if mode else 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
        for name, value in options.items():
            setattr(archive, name, value)
    return packed.getvalue()


def _tar(*members: tuple, mode: str = "w:gz", form: int = tarfile.PAX_FORMAT) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode, format=form) as archive:
        for name, content, *more in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            for key, value in (more[0] if more else {}).items():
                setattr(entry, key, value)
            archive.addfile(entry, io.BytesIO(content) if entry.isreg() else None)
    return packed.getvalue()


def _changed(content: bytes, place: int, new: bytes) -> bytes:
    place %= len(content)
    return content[:place] + new + content[place + len(new) :]


def _encrypted(content: bytes) -> bytes:
    """A ZIP archive that says of its files that they are encrypted."""
    changed = _changed(content, content.index(b"PK\x03\x04") + 6, b"\x01")
    return _changed(changed, changed.index(b"PK\x01\x02") + 8, b"\x01")


def _claims(content: bytes, size: int) -> bytes:
    """A ZIP archive whose only file claims to have another size."""
    return _changed(content, content.index(b"PK\x01\x02") + 24, size.to_bytes(4, "little"))


_GOOD_ZIP, _GOOD_TAR = _zip(("f.tsv", TEXT)), _tar(("f.tsv", TEXT))
_LINK = stat.S_IFLNK | 0o777

_ZIPS = [
    ("harmless", _GOOD_ZIP, TWO),
    ("name that leads out", _zip(("../f.tsv", TEXT)), refused("holds no f.tsv")),
    ("absolute name", _zip(("/etc/f.tsv", TEXT)), refused("holds no f.tsv")),
    ("name of Windows that leads out", _zip(("..\\f.tsv", TEXT)), refused("holds no f.tsv")),
    ("the name twice", _zip(("f.tsv", TEXT), ("f.tsv", b"3.jpg\tx\n")), refused("'f.tsv' 2 times")),
    ("the name in two folders", _zip(("abc/f.tsv", b"x"), ("a/f.tsv", TEXT)), TWO),
    ("a link", _zip(("f.tsv", b"/etc/passwd", _LINK)), refused("is a link")),
    ("a folder of that name", _zip(("f.tsv/", b"")), refused("holds no f.tsv")),
    ("empty archive", _zip(), refused("holds nothing")),
    ("cut short", _GOOD_ZIP[:-30], refused("cut short or damaged")),
    ("damaged data", _changed(_GOOD_ZIP, 45, b"\xff\xff\xff"), refused("f.zip")),
    (
        "wrong checksum",
        _changed(_GOOD_ZIP, _GOOD_ZIP.index(b"PK\x01\x02") + 16, b"\0\0\0\0"),
        refused("damaged", "CRC"),
    ),
    ("claims a smaller size", _claims(_GOOD_ZIP, 3), refused("f.zip")),
    ("claims 4 GB", _claims(_GOOD_ZIP, 2**32 - 2), TWO),
    (
        "unpacks to too much",
        _zip(("f.tsv", bytes(2**20))),
        refused("more than it may", "CAPSCORE_MAX_UNPACKED_BYTES"),
        SMALL,
    ),
    ("encrypted", _encrypted(_GOOD_ZIP), refused("encrypted")),
    (
        "compressed in an unknown way",
        _changed(_changed(_GOOD_ZIP, 8, b"\x63"), _GOOD_ZIP.index(b"PK\x01\x02") + 10, b"\x63"),
        refused("compression"),
    ),
    ("bytes before it", b"#!/bin/sh\nexit\n" + _GOOD_ZIP, TWO),
    ("a ZIP archive in it", _zip(("f.tsv", _GOOD_ZIP)), refused("zip archive")),
    ("nul in a name", _changed(_GOOD_ZIP, _GOOD_ZIP.rindex(b"f.tsv") + 1, b"\0"), refused("f.zip")),
    ("10,000 other files", _zip(*((f"{number}", b"") for number in range(10_000)), ("f.tsv", TEXT)), TWO),
    ("not a ZIP archive", TEXT, refused("cut short or damaged")),
]
_TARS = [
    ("not packed", _tar(("f.tsv", TEXT), mode="w"), TWO),
    ("name that leads out", _tar(("../f.tsv", TEXT)), refused("holds no f.tsv")),
    (
        "a link to a file of this machine",
        _tar(("f.tsv", b"", {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"})),
        refused("is a link"),
    ),
    (
        "a link to another file in it",
        _tar(("g", TEXT), ("f.tsv", b"", {"type": tarfile.LNKTYPE, "linkname": "g"})),
        refused("is a link"),
    ),
    ("a pipe", _tar(("f.tsv", b"", {"type": tarfile.FIFOTYPE})), refused("of another kind")),
    ("the name twice", _tar(("f.tsv", TEXT), ("f.tsv", b"x")), refused("2 times")),
    ("a file with holes", _tar(("f.tsv", b"", {"type": tarfile.GNUTYPE_SPARSE})), refused("f.tar.gz")),
    (
        "unpacks to too much",
        _tar(("zeros", bytes(2**20)), ("f.tsv", TEXT)),
        refused("more than it may"),
        SMALL,
    ),
    ("cut short", _GOOD_TAR[:-20], refused("cut short or damaged")),
    (
        "cut short inside gzip",
        gzip.compress(_tar(("f.tsv", TEXT * 1000), mode="w")[:2000]),
        refused("cut short or damaged"),
    ),
    (
        "damaged header",
        gzip.compress(_changed(_tar(("f.tsv", TEXT), mode="w"), 3, b"x")),
        refused("f.tar.gz"),
    ),
    (
        "size that is no number",
        gzip.compress(_changed(_tar(("f.tsv", TEXT), mode="w"), 124, b"zzzzzzzzzzz")),
        refused("f.tar.gz"),
    ),
    (
        "negative size in the header",
        _tar(("f.tsv", TEXT, {"pax_headers": {"size": "-1"}})),
        refused("f.tar.gz"),
    ),
    (
        "size of 5,000 digits in the header",
        _tar(("f.tsv", TEXT, {"pax_headers": {"size": "9" * 5_000}})),
        refused("f.tar.gz"),
    ),
    ("empty archive", _tar(), refused("holds nothing")),
    ("zeros", bytes(10_240), refused("holds nothing")),
    ("not an archive", TEXT, refused("f.tar.gz")),
    ("bzip2", bz2.compress(_tar(("f.tsv", TEXT), mode="w")), refused("f.tar.gz")),
]
_PLAIN = [
    ("empty", "f.tsv", b"", refused("empty")),
    ("no line end", "f.tsv", TEXT[:-1], refused("line 2", "line end")),
    ("three columns", "f.tsv", b"a\tb\tc\n", refused("line 1", "2 tab-separated columns")),
    ("UTF-16", "f.tsv", TEXT.decode().encode("utf-16"), refused("line 1", "UTF-16")),
    ("Latin-1", "f.tsv", b"1.jpg\tcaf\xe9\n", refused("line 1", "UTF-8")),
    ("nul", "f.tsv", b"1.jpg\ta\0b\n", refused("binary")),
    ("line of 2 MB", "f.tsv", b"1.jpg\t" + b"a" * 2**21 + b"\n", refused("line 1", "CAPSCORE_MAX_ROW_BYTES"), {"CAPSCORE_MAX_ROW_BYTES": "1000000"}),
    ("web page", "f.tsv", b"<!DOCTYPE html>", refused("web page")),
    ("packed bomb", "f.tsv.gz", gzip.compress(bytes(2**20)), refused("more than it may"), SMALL),
    ("packed, cut short", "f.tsv.gz", gzip.compress(TEXT * 100)[:-9], refused("cut short or damaged")),
    ("packed in two parts", "f.tsv.gz", gzip.compress(TEXT[:12]) + gzip.compress(TEXT[12:]), TWO),
    ("rows", "f.jsonl", ROWS, TWO),
    ("deep", "f.jsonl", b"[" * 100_000, refused("line 1")),
    ("5,000 digits", "f.jsonl", b'{"id": ' + b"9" * 5_000 + b"}\n", refused("line 1", "JSON")),
    ("name twice", "f.jsonl", b'{"id": 1, "id": 2}\n', refused("line 1", "two values")),
    ("not an object", "f.jsonl", b"[1]\n", refused("line 1", "object")),
    ("lone surrogate", "f.jsonl", b'{"id": "\\ud800"}\n', refused("line 1", "half a character")),
    ("other fields", "f.jsonl", b'{"name": 1}\n', refused("line 1", "'id'")),
    ("deep document", "f.json", b'{"a":' * 100_000, refused()),
    ("document cut short", "f.json", b'{"a": [1, ', refused("cut short")),
    ("document of 2 MB", "f.json", b" " * 2**21 + b"{}", refused("CAPSCORE_MAX_LIST_BYTES"), {"CAPSCORE_MAX_LIST_BYTES": "1000000"}),
    ("table with a column twice", "f.csv", b"id,id\n1,2\n", refused("'id' twice")),
    ("table without the column", "f.csv", b"name\n1\n", refused("'id'")),
    ("table with a quote that does not close", "f.csv", b'id\n"1\n', refused("CSV")),
    ("table with a row that is too short", "f.csv", b"id,name\n1\n", refused("line 2")),
    ("Parquet that is text", "f.parquet", TEXT, refused("Parquet")),
    ("Parquet with a footer of 2 GB", "f.parquet", b"PAR1" + bytes(50) + b"\xff\xff\xff\x7fPAR1", refused("Parquet")),
]  # fmt: skip


def _laughs(levels: int = 12) -> str:
    entities = "".join(f'<!ENTITY e{n + 1} "{f"&e{n};" * 10}">' for n in range(levels))
    return f'<!DOCTYPE a [<!ENTITY e0 "ha">{entities}]><annotation>&e{levels};</annotation>'


_XML = [
    ("entities in entities", _laughs(), refused("Annotations/1.xml")),
    ("entity of a file", '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><annotation>&x;</annotation>', refused("Annotations/1.xml")),
    ("cut short", "<annotation><size>", refused("Annotations/1.xml")),
    ("10,000 levels", "<a>" * 10_000, refused("Annotations/1.xml")),
    ("another document", "<html/>", refused("Annotations/1.xml")),
    ("number of 400 digits", f"<annotation><size><width>{'9' * 400}</width><height>1</height></size></annotation>", refused("Annotations/1.xml", "expected a number")),
    ("huge numbers", f"<annotation><size><width>{'9' * 5_000}</width><height>1</height><depth>3</depth></size></annotation>", refused("Annotations/1.xml")),
]  # fmt: skip

CASES = [
    *cases("benchmark", "annotation", ((f"zip, {name}", ("f.zip", content, *more), expected) for name, content, expected, *more in _ZIPS)),
    *cases("benchmark", "annotation", ((f"tar, {name}", ("f.tar.gz", content, *more), expected) for name, content, expected, *more in _TARS)),
    *cases("benchmark", "annotation", ((f"{file}, {name}", (file, content, *more), expected) for name, file, content, expected, *more in _PLAIN)),
    *cases("benchmark", "regions_of_entities", ((f"xml, {name}", content, expected) for name, content, expected in _XML)),
]  # fmt: skip
