"""Files of rows: cut short, wrongly encoded, deeply nested, with numbers and names that no program expects.

The metric is ROUGE-L. A row of a harmless file scores 1.
"""

from __future__ import annotations

import gzip
import json

from ..case import cases, refused, scored, usage

ROW = {"caption": "a b", "references": ["a b"]}
LINE = json.dumps(ROW)
ONE = scored(1.0)
_DEEP = "[" * 100_000 + "]" * 100_000
_BIG = "9" * 5_000
_SHARE = 2 / (2**19 + 2)  # of the words of a reference that the candidate has


def _line(**more: object) -> str:
    return json.dumps({**ROW, **more})


_JSONL = [
    ("empty file", "", refused("empty")),
    ("one blank line", "\n", refused("no rows")),
    ("line ends of Windows", f"{LINE}\r\n", ONE),
    ("byte order mark", f"\ufeff{LINE}\n", ONE),
    ("byte order mark in the middle", f"{LINE}\n\ufeff{LINE}\n", refused("line 2")),
    ("second line cut short", f"{LINE}\n{LINE[:-5]}", refused("line 2")),
    ("two objects on a line", f"{LINE} {LINE}", refused("line 1")),
    ("a number on a line", f"{LINE}\n7", refused("line 2")),
    ("null on a line", f"{LINE}\nnull", refused("line 2")),
    ("empty object", "{}", usage("--candidate-column")),
    ("other columns in the second line", f'{LINE}\n{{"text": "a"}}', refused("line 2", "caption")),
    (
        "key twice",
        '{"caption": "a b", "caption": "c", "references": ["a b"]}',
        refused("line 1", "two values for 'caption'"),
    ),
    ("NaN in a column nobody reads", '{"caption": "a b", "references": ["a b"], "n": NaN}', ONE),
    ("NaN as a caption", '{"caption": NaN, "references": ["a b"]}', refused("line 1")),
    (
        "number of 5,000 digits",
        f'{{"caption": "a b", "references": ["a b"], "n": {_BIG}}}',
        refused("line 1"),
    ),
    ("nested 100,000 deep", f'{{"caption": "a b", "references": ["a b"], "n": {_DEEP}}}', refused("line 1")),
    ("lone surrogate in a column nobody reads", _line(note="\ud800"), ONE),
    ("escape sequences in a name", _line(**{"\x1b[31mred": 1}), ONE),
    ("name of 100,000 letters", _line(**{"n" * 100_000: 1}), ONE),
    ("column of the result", _line(rouge_l=1), usage("rouge_l")),
    ("caption is null", '{"caption": null, "references": ["a b"]}', refused("line 1", "None")),
    ("references are a text", '{"caption": "a b", "references": "a b"}', refused("line 1", "references")),
    ("references hold null", '{"caption": "a b", "references": [null]}', refused("line 1", "reference 0")),
    ("language is a number", _line(language=7), refused("line 1", "language")),
    ("language is unknown", _line(language="xx"), refused("line 1", "'xx'")),
    ("10,000 columns", json.dumps({**ROW, **{f"c{number}": number for number in range(10_000)}}), ONE),
    ("name of a method", _line(__class__="x", __init__="y"), ONE),
    ("line separator inside", json.dumps({**ROW, "note": "a\u2028b\x85c"}, ensure_ascii=False), ONE),
    ("nul at the end", f"{LINE}\n\0", refused("line 2")),
    ("UTF-16", LINE.encode("utf-16"), refused("UTF-8")),
    ("Latin-1", '{"caption": "café", "references": ["a b"]}'.encode("latin-1"), refused("line 1", "UTF-8")),
    ("overlong UTF-8", b'{"caption": "a\xc0\x80b", "references": ["a b"]}', refused("line 1", "UTF-8")),
    ("binary", bytes(range(256)) * 16, refused()),
    ("zeros", bytes(4096), refused()),
    ("gzip under the name of JSONL", gzip.compress(LINE.encode()), ONE),
    ("zip under the name of JSONL", b"PK\x03\x04" + bytes(100), refused()),
    ("web page", "<!DOCTYPE html><html><body>Not found</body></html>", refused("line 1")),
    (
        "pointer of Git LFS",
        "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
        refused("line 1"),
    ),
]
_JSON = [
    ("list of lists", "[[1], [2]]", refused()),
    ("empty list", "[]", refused("no rows")),
    ("list of empty objects", "[{}, {}]", usage("--candidate-column")),
    ("cut short", f"[{LINE}, ", refused()),
    ("two lists", f"[{LINE}] [{LINE}]", refused()),
    ("one number", "7", refused()),
    ("100,000 brackets", "[" * 100_000, refused()),
    ("key twice", f'[{LINE[:-1]}, "caption": "c"}}]', refused("two values for 'caption'")),
    ("rows without order", f"[{LINE}, {LINE}]", scored(1.0, 1.0)),
    ("byte order mark", f"\ufeff[{LINE}]", ONE),
]
_CSV = [
    ("header alone", "caption,references\n", refused("no rows")),
    ("empty header", "\n", refused()),
    (
        "two columns of one name",
        "caption,caption,reference_1\na b,c,a b\n",
        usage("two columns", "'caption'"),
    ),
    ("a column without a name", "caption,reference_1,\na b,a b,x\n", ONE),
    ("too many cells", "caption,reference_1\na b,a b,c\n", refused("line 2")),
    ("too few cells", "caption,reference_1\na b\n", refused("line 2")),
    ("quote that does not close", 'caption,reference_1\n"a b,a b\n', refused()),
    ("quote in the middle", 'caption,reference_1\na "b" c,"a ""b"" c"\n', ONE),
    ("line end in a cell", 'caption,reference_1\n"a\nb",a b\n', ONE),
    ("nul in a cell", "caption,reference_1\na\0 b,a b\n", ONE),
    (
        "cell of a megabyte",
        f"caption,reference_1\na b,a b{' c' * 2**19}\n",
        scored(2.44 * _SHARE / (_SHARE + 1.44)),
    ),
    ("100,000 cells", "caption,reference_1" + ",x" * 100_000 + "\n", usage("two columns", "'x'")),
    ("semicolons", "caption;references\na b;c\n", refused("JSON list")),
    ("formula as a name", "caption,reference_1,=1+1\na b,a b,x\n", ONE),
    ("references are no JSON", "caption,references\na b,c\n", refused("line 2", "JSON list")),
    (
        "references of 100,000 brackets",
        f"caption,references\na b,{'[' * 100_000}\n",
        refused("line 2", "JSON list"),
    ),
    ("columns of references with a gap", "caption,reference_1,reference_9\na b,,a b\n", ONE),
    ("digits of another script", "caption,reference_٣\na b,a b\n", usage("reference_٣")),
    ("Latin-1", "caption,reference_1\ncafé,a b\n".encode("latin-1"), refused("UTF-8")),
    ("UTF-16", "caption,reference_1\na b,a b\n".encode("utf-16"), refused("UTF-8")),
    ("binary", bytes(range(256)), refused()),
    ("escape sequences as a name", "\x1b[31mcaption,reference_1\na b,a b\n", usage("caption")),
]
_GZ = [
    ("cut short", gzip.compress(LINE.encode() * 1000)[:-20], refused()),
    ("damaged", bytearray(gzip.compress(f"{LINE}\n".encode() * 1000)), refused()),
    ("not gzip", LINE, ONE),
    ("two parts", gzip.compress(f"{LINE}\n".encode()) + gzip.compress(LINE.encode()), scored(1.0, 1.0)),
    ("packed twice", gzip.compress(gzip.compress(LINE.encode())), refused()),
]
_GZ[1][1][len(_GZ[1][1]) // 2] ^= 0xFF


def _in(name: str, rows: list) -> list:
    """Rows whose input is the name and the content of one file."""
    return [(f"{name}, {row[0]}", (f"in.{name}", bytes(row[1]) if isinstance(row[1], bytearray) else row[1]), *row[2:])
            for row in rows]  # fmt: skip


CASES = cases(
    "rows",
    "rows",
    [*_in("jsonl", _JSONL), *_in("json", _JSON), *_in("csv", _CSV), *_in("jsonl.gz", _GZ)],
)
