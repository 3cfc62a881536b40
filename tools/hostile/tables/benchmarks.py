"""Files and archives of benchmarks. A harmless file has two rows."""

from __future__ import annotations

import gzip
import io
import stat
import warnings
import zipfile

from .. import surfaces
from ..case import cases, refused, scored

TEXT = b"1.jpg\ta dog\n2.jpg\ta cat\n"
TWO = scored(2)
LIMIT = 100_000


def _zip(*members: tuple) -> bytes:
    packed = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(packed, "w") as archive:
        warnings.simplefilter("ignore")  # of names that are there twice
        for name, content, *mode in members:
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (mode[0] if mode else 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return packed.getvalue()


def _changed(content: bytes, *changes: tuple[int, bytes]) -> bytes:
    for index, new in changes:
        content = content[:index] + new + content[index + len(new) :]
    return content


_ZIP = _zip(("f.tsv", TEXT))
_ENTRY = _ZIP.index(b"PK\x01\x02")  # of the file, in the list at the end
# tests/benchmarks/data/test_annotation_files.py has what is cut short, damaged, or packed in an unknown way
_ZIPS = [
    ("name that leads out", _zip(("../f.tsv", TEXT)), refused("holds no f.tsv")),
    ("the name twice", _zip(("f.tsv", TEXT), ("f.tsv", b"3.jpg\tx\n")), refused("'f.tsv' 2 times")),
    ("the name in two folders", _zip(("abc/f.tsv", b"x"), ("a/f.tsv", TEXT)), TWO),
    ("a link", _zip(("f.tsv", b"/etc/passwd", stat.S_IFLNK | 0o777)), refused("is a link")),
    ("a folder of that name", _zip(("f.tsv/", b"")), refused("holds no f.tsv")),
    ("wrong checksum", _changed(_ZIP, (_ENTRY + 16, bytes(4))), refused("damaged", "CRC")),
    ("claims a smaller size", _changed(_ZIP, (_ENTRY + 24, b"\3\0\0\0")), refused("f.zip")),
    ("claims 4 GB", _changed(_ZIP, (_ENTRY + 24, b"\xfe\xff\xff\xff")), TWO),
    ("unpacks to too much", _zip(("f.tsv", bytes(2**20))), refused("more than it may", "CAPSCORE_MAX_UNPACKED_BYTES")),
    ("encrypted", _changed(_ZIP, (6, b"\1"), (_ENTRY + 8, b"\1")), refused("encrypted")),
    ("bytes before it", b"#!/bin/sh\nexit\n" + _ZIP, TWO),
    ("a ZIP archive in it", _zip(("f.tsv", _ZIP)), refused("zip archive")),
    ("nul in a name", _changed(_ZIP, (_ZIP.rindex(b"f.tsv") + 1, b"\0")), refused("f.zip")),
    ("10,000 other files", _zip(*((f"{number}", b"") for number in range(10_000)), ("f.tsv", TEXT)), TWO),
]  # fmt: skip
_PLAIN = [
    ("nul", "f.tsv", b"1.jpg\ta\0b\n", refused("binary")),
    ("long line", "f.tsv", b"1.jpg\t" + b"a" * 2**18 + b"\n", refused("line 1", "CAPSCORE_MAX_ROW_BYTES")),
    ("bomb", "f.tsv.gz", gzip.compress(bytes(2**20)), refused("more than it may")),
    ("in two parts", "f.tsv.gz", gzip.compress(TEXT[:12]) + gzip.compress(TEXT[12:]), TWO),
    ("footer of 2 GB", "f.parquet", b"PAR1" + bytes(50) + b"\xff\xff\xff\x7fPAR1", refused("Parquet")),
]


def _laughs() -> str:
    entities = "".join(f'<!ENTITY e{n + 1} "{f"&e{n};" * 10}">' for n in range(12))
    return f'<!DOCTYPE a [<!ENTITY e0 "ha">{entities}]><annotation>&e12;</annotation>'


_XML = [
    ("entities in entities", _laughs(), []),
    ("entity of a file", '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><annotation>&x;</annotation>', []),
    ("10,000 levels", "<a>" * 10_000, []),
    ("400 digits", f"<annotation><size><width>{'9' * 400}</width><height>1</height></size></annotation>", ["expected a number"]),
]  # fmt: skip

CASES = [
    *cases("benchmark", surfaces.annotation, ((f"zip, {name}", ("f.zip", content, LIMIT), expected) for name, content, expected in _ZIPS)),
    *cases("benchmark", surfaces.annotation, ((f"{file}, {name}", (file, content, LIMIT), expected) for name, file, content, expected in _PLAIN)),
    *cases("benchmark", surfaces.annotation, ((f"xml, {name}", ("f.xml", content), refused("f.xml", *words)) for name, content, words in _XML)),
]  # fmt: skip
