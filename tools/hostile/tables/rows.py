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
    ("null on a line", f"{LINE}\nnull", refused("line 2")),
    ("empty object", "{}", usage("--candidate-column")),
    ("other columns in the second line", f'{LINE}\n{{"text": "a"}}', refused("line 2", "caption")),
    ("NaN in a column nobody reads", _line(n=float("nan")), ONE),
    ("NaN as a caption", _line(caption=float("nan")), refused("line 1")),
    ("lone surrogate in a column nobody reads", _line(note="\ud800"), ONE),
    ("escape sequences in a name", _line(**{"\x1b[31mred": 1}), ONE),
    ("name of 100,000 letters", _line(**{"n" * 100_000: 1}), ONE),
    ("10,000 columns", _line(**{f"c{number}": number for number in range(10_000)}), ONE),
    ("line separator inside", json.dumps({**ROW, "note": "a\u2028b\x85c"}, ensure_ascii=False), ONE),
    ("nul at the end", f"{LINE}\n\0", refused("binary data")),
    ("overlong UTF-8", b'{"caption": "a\xc0\x80b", "references": ["a b"]}', refused("line 1", "UTF-8")),
    ("pointer of Git LFS", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", refused("line 1")),
]  # fmt: skip
_JSON = [
    ("list of empty objects", "[{}, {}]", usage("--candidate-column")),
    ("two lists", f"[{LINE}] [{LINE}]", refused()),
]
_CSV = [
    ("empty header", "\n", refused()),
    ("a column without a name", "caption,reference_1,\na b,a b,x\n", refused("line 2", "3 cells")),
    ("too few cells", "caption,reference_1\na b\n", refused("line 2")),
    ("quote in the middle", 'caption,reference_1\na "b" c,"a ""b"" c"\n', ONE),
    ("nul in a cell", "caption,reference_1\na\0 b,a b\n", refused("binary data")),
    ("cell of a megabyte", f"caption,reference_1\na b,a b{' c' * 2**19}\n", scored(2.44 * _SHARE / (_SHARE + 1.44))),
    ("references of 100,000 brackets", f"caption,references\na b,{'[' * 100_000}\n", refused("line 2", "JSON list")),
    ("digits of another script", "caption,reference_٣\na b,a b\n", usage("reference_٣")),
]  # fmt: skip
_GZ = [
    ("not gzip", LINE, ONE),
    ("two parts", gzip.compress(f"{LINE}\n".encode()) + gzip.compress(LINE.encode()), scored(1.0, 1.0)),
    ("packed twice", gzip.compress(gzip.compress(LINE.encode())), refused()),
]

_TABLES: dict[str, list[tuple]] = {"jsonl": _JSONL, "json": _JSON, "csv": _CSV, "jsonl.gz": _GZ}
CASES = [
    case
    for suffix, table in _TABLES.items()
    for name, content, expected in table
    for case in cases("rows", surfaces.rows, [(f"{suffix}, {name}", (f"in.{suffix}", content), expected)])
]
