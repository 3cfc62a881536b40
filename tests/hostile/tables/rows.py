"""Files of rows: cut short, wrongly encoded, with numbers and names that no program expects.

The metric is ROUGE-L. A row of a harmless file scores 1.
"""

from __future__ import annotations

import gzip
import json

from .. import surfaces
from ..case import cases, refused, scored, usage

ROW = {"caption": "a b", "references": ["a b"]}
LINE = json.dumps(ROW)
ONE = scored(1.0)
_SHARE = 2 / (2**19 + 2)  # of the words of a reference that the candidate has


def _line(**more: object) -> str:
    return json.dumps({**ROW, **more})


_JSONL = [
    ("byte order mark in the middle", f"{LINE}\n\ufeff{LINE}\n", refused("line 2")),
    ("two objects on a line", f"{LINE} {LINE}", refused("line 1")),
    ("null on a line", f"{LINE}\nnull", refused("line 2")),
    ("empty object", "{}", usage("--candidate-column")),
    ("other columns in the second line", f'{LINE}\n{{"text": "a"}}', refused("line 2", "caption")),
    ("NaN in a column nobody reads", _line(n=float("nan")), ONE),
    ("NaN as a caption", _line(caption=float("nan")), refused("line 1")),
    ("number of 5,000 digits", _line()[:-1] + f', "n": {"9" * 5_000}}}', refused("line 1")),
    ("nested 100,000 deep", _line()[:-1] + f', "n": {"[" * 100_000}', refused("line 1")),
    ("lone surrogate in a column nobody reads", _line(note="\ud800"), ONE),
    ("escape sequences in a name", _line(**{"\x1b[31mred": 1}), ONE),
    ("name of 100,000 letters", _line(**{"n" * 100_000: 1}), ONE),
    ("column of the result", _line(rouge_l=1), usage("rouge_l")),
    ("references are a text", _line(references="a b"), refused("line 1", "references")),
    ("references hold null", _line(references=[None]), refused("line 1", "reference 0")),
    ("language is a number", _line(language=7), refused("line 1", "language")),
    ("10,000 columns", _line(**{f"c{number}": number for number in range(10_000)}), ONE),
    ("name of a method", _line(__class__="x", __init__="y"), ONE),
    ("line separator inside", json.dumps({**ROW, "note": "a\u2028b\x85c"}, ensure_ascii=False), ONE),
    ("nul at the end", f"{LINE}\n\0", refused("line 2")),
    ("overlong UTF-8", b'{"caption": "a\xc0\x80b", "references": ["a b"]}', refused("line 1", "UTF-8")),
    ("binary", bytes(range(256)) * 16, refused()),
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
    ("list of empty objects", "[{}, {}]", usage("--candidate-column")),
    ("two lists", f"[{LINE}] [{LINE}]", refused()),
    ("one number", "7", refused()),
    ("100,000 brackets", "[" * 100_000, refused()),
]
_CSV = [
    ("empty header", "\n", refused()),
    ("a column without a name", "caption,reference_1,\na b,a b,x\n", ONE),
    ("too few cells", "caption,reference_1\na b\n", refused("line 2")),
    ("quote in the middle", 'caption,reference_1\na "b" c,"a ""b"" c"\n', ONE),
    ("line end in a cell", 'caption,reference_1\n"a\nb",a b\n', ONE),
    ("nul in a cell", "caption,reference_1\na\0 b,a b\n", ONE),
    (
        "cell of a megabyte",
        f"caption,reference_1\na b,a b{' c' * 2**19}\n",
        scored(2.44 * _SHARE / (_SHARE + 1.44)),
    ),
    ("semicolons", "caption;references\na b;c\n", refused("JSON list")),
    ("formula as a name", "caption,reference_1,=1+1\na b,a b,x\n", ONE),
    (
        "references of 100,000 brackets",
        f"caption,references\na b,{'[' * 100_000}\n",
        refused("line 2", "JSON list"),
    ),
    ("digits of another script", "caption,reference_٣\na b,a b\n", usage("reference_٣")),
    ("binary", bytes(range(256)), refused()),
    ("escape sequences as a name", "\x1b[31mcaption,reference_1\na b,a b\n", usage("caption")),
]
_GZ = [
    ("not gzip", LINE, ONE),
    ("two parts", gzip.compress(f"{LINE}\n".encode()) + gzip.compress(LINE.encode()), scored(1.0, 1.0)),
    ("packed twice", gzip.compress(gzip.compress(LINE.encode())), refused()),
    ("cut short", gzip.compress(LINE.encode() * 1000)[:-20], refused()),
]

CASES = [
    case
    for suffix, table in {"jsonl": _JSONL, "json": _JSON, "csv": _CSV, "jsonl.gz": _GZ}.items()
    for case in cases(
        "rows",
        surfaces.rows,
        ((f"{suffix}, {name}", (f"in.{suffix}", content), expected) for name, content, expected in table),
    )
]
