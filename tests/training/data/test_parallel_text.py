"""Parallel text of several files, each pair once, and what is said of bad rows."""

import gzip
import json

import pyarrow
import pytest
from pyarrow import parquet

from capscore.errors import CapscoreError
from training.data.parallel_text import read_parallel_text

ROWS = [
    {"en": "A red kite.", "de": "Ein roter Drachen.", "ja": "赤い凧。"},
    {"en": "Two  boats ", "de": "Zwei Boote", "ja": None},
    {"en": "A red kite.", "de": "Ein roter Drachen."},
    {"en": "A red kite.", "deu": "Der rote Drachen."},
]
PAIRS = [
    ("A red kite.", "Ein roter Drachen.", "de"),
    ("A red kite.", "赤い凧。", "ja"),
    ("Two boats", "Zwei Boote", "de"),
    ("A red kite.", "Der rote Drachen.", "de"),
]


def written(path, rows):
    data = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def test_files_are_one_text_in_which_each_pair_stands_once(tmp_path):
    first = written(tmp_path / "a.jsonl", ROWS[:2])
    second, last = written(tmp_path / "b.jsonl.gz", ROWS[2:3]), written(tmp_path / "c.jsonl", ROWS[3:])
    text = read_parallel_text([first, second, last])
    assert text.pairs == PAIRS and text.sources == ["A red kite.", "Two boats"]
    assert text.rows == (3, 1, 1) and text.counts() == {"de": 3, "ja": 1}
    again = read_parallel_text([first, second, last, last])
    assert text.digest() == again.digest() != read_parallel_text([first]).digest()
    assert read_parallel_text([first], ["ja", "en"]).pairs == [PAIRS[1]]


def test_other_columns_are_not_read_where_languages_are_named(tmp_path):
    columns = {name: [row.get(name) for row in ROWS[:3]] for name in ("en", "de", "ja")}
    parquet.write_table(pyarrow.table({**columns, "caption id": [1, 2, 3]}), tmp_path / "t.parquet")
    assert read_parallel_text([tmp_path / "t.parquet"], ["de", "ja"]).pairs == PAIRS[:3]
    with pytest.raises(CapscoreError, match="the column 'caption id' is not a language code"):
        read_parallel_text([tmp_path / "t.parquet"])


@pytest.mark.parametrize(
    ("rows", "languages", "said"),
    [
        ([ROWS[0], {"en": "A boat", "de": " "}], None, r"t\.jsonl.*line 2.*de: it is blank"),
        ([ROWS[0], {"en": "A boat", "de": 3}], None, r"t\.jsonl.*line 2.*de: 3 is a int"),
        ([ROWS[0], {"en": None, "de": "Boot"}], None, r"t\.jsonl.*line 2.*en: None is a NoneType"),
        ([{"de": "Ein Boot"}], None, r"t\.jsonl has no column 'en'; it has de"),
        ([{"en": "A boat", "de": "Boot", "deu": "Boot"}], None, "the columns 'de' and 'deu' are both de"),
        ([{"en": "A boat"}], None, r"t\.jsonl.*to another language; available: none"),
        (ROWS[:3], ["de", "fr"], "to fr; available: de"),
        (ROWS[:3], ["en"], "expected other languages than English"),
        (ROWS[:3], ["jp"], "did you mean 'ja'"),
        ([], None, r"t\.jsonl.*: no such file"),
    ],
)
def test_bad_rows_and_missing_files_are_named(tmp_path, rows, languages, said):
    path = tmp_path / "t.jsonl"
    if rows:
        written(path, rows)
    with pytest.raises(CapscoreError, match=said):
        read_parallel_text([path], languages)
