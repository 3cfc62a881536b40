"""Parallel text in its three forms, each pair once, and what is said of bad rows."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from capscore.benchmarks.data.annotation_files import AnnotationError
from capscore.errors import CapscoreError
from training.data.parallel_text import ParallelText, read_parallel_text

WIDE = [
    {"en": "A red kite.", "de": "Ein roter Drachen.", "ja": "赤い凧。"},
    {"en": "Two  boats ", "de": "Zwei Boote", "ja": None},
    {"en": "A red kite.", "de": "Ein roter Drachen."},
    {"en": "A red kite.", "de": "Der rote Drachen."},
]
PAIRS = [
    ("A red kite.", "Ein roter Drachen.", "de"),
    ("A red kite.", "赤い凧。", "ja"),
    ("Two boats", "Zwei Boote", "de"),
    ("A red kite.", "Der rote Drachen.", "de"),
]


def jsonl(path, rows):
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    data = text.encode("utf-8")
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def pairs(text: ParallelText):
    assert text.pair_source.dtype == np.int64
    assert len(set(text.sources)) == len(text.sources)
    assert len(text) == len(text.targets) == len(text.languages) == len(text.pair_source)
    return [
        (text.sources[source], target, language)
        for source, target, language in zip(text.pair_source, text.targets, text.languages, strict=True)
    ]


# Forms


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz"])
def test_a_field_a_language(tmp_path, name):
    text = read_parallel_text([jsonl(tmp_path / name, WIDE)])
    assert pairs(text) == PAIRS
    assert text.sources == ["A red kite.", "Two boats"]
    assert text.duplicates == 1
    assert text.counts() == {"de": 3, "ja": 1}


def test_source_target_language(tmp_path):
    rows = [{"source": s, "target": t, "language": {"de": "deu"}.get(c, c)} for s, t, c in PAIRS]
    rows.append({"source": "A red kite.", "target": "A red kite.", "language": "en"})
    assert pairs(read_parallel_text([jsonl(tmp_path / "t.jsonl", rows)])) == PAIRS
    only = read_parallel_text([tmp_path / "t.jsonl"], ["ja"])
    assert pairs(only) == [PAIRS[1]] and only.sources == ["A red kite."]


def test_parquet(tmp_path):
    columns = {name: [row.get(name) for row in WIDE] for name in ("en", "de", "ja")}
    parquet.write_table(pyarrow.table({**columns, "id": [1, 2, 3, 4]}), tmp_path / "t.parquet")
    assert pairs(read_parallel_text([tmp_path / "t.parquet"], ["de", "ja"])) == PAIRS


def test_line_aligned(tmp_path):
    for name, lines in {
        "train.en.gz": "One.\nTwo.\nOne.\n",
        "train.de.gz": "Eins.\nZwei.\nEins.\n",
        "train.fr.gz": "Un.\nDeux.\nUn.\n",
    }.items():
        (tmp_path / name).write_bytes(gzip.compress(lines.encode()))
    (tmp_path / "train.raw.gz").write_bytes(b"no language")
    template = str(tmp_path / "train.{language}.gz")
    expected = [
        ("One.", "Eins.", "de"),
        ("Two.", "Zwei.", "de"),
        ("One.", "Un.", "fr"),
        ("Two.", "Deux.", "fr"),
    ]
    text = read_parallel_text([template])
    assert pairs(text) == expected and text.duplicates == 2
    assert pairs(read_parallel_text([template], ["fr"])) == expected[2:]


def test_several_files_are_one_text_whose_digest_is_that_of_its_pairs(tmp_path):
    a, b = jsonl(tmp_path / "a.jsonl", WIDE[:2]), jsonl(tmp_path / "b.jsonl", WIDE[2:])
    text = read_parallel_text([a, b])
    assert pairs(text) == PAIRS and text.duplicates == 1 and text.rows == (3, 2)
    again = read_parallel_text([a, b, b])
    assert text.digest == again.digest != read_parallel_text([a]).digest and len(text.digest) == 32


# What is wrong with them


@pytest.mark.parametrize(
    "rows, said",
    [
        ([WIDE[0], {"en": "A boat", "de": " "}], "line 2: 'de' is ' '"),
        ([WIDE[0], {"en": "A boat", "de": 3}], r"line 2: 'de' is 3"),
        ([{"de": "Ein Boot"}], "line 1: has no field 'en'; it has de"),
        (
            [{"en": "A boat", "caption id": "x"}],
            "line 1: 'caption id' is no language code.*name the languages to read",
        ),
        ([{"en": "A boat", "de": "Boot", "deu": "Boot"}], "line 1: the fields 'de' and 'deu' are both de"),
        ([{"source": "A", "target": "B"}], "line 1: .*'language'"),
        ([{"source": "A", "target": "B", "language": "xx-yy"}], "line 1: 'xx-yy' is no"),
        ([{"source": "A", "target": "B", "language": 7}], "line 1: 7 is no language code"),
        ([{"source": "A", "target": None, "language": "de"}], "line 1: 'target' is None"),
    ],
)
def test_a_bad_row_is_named(tmp_path, rows, said):
    path = jsonl(tmp_path / "t.jsonl", rows)
    with pytest.raises(AnnotationError, match=said) as raised:
        read_parallel_text([path])
    assert str(path) in str(raised.value)


def test_damage_is_named(tmp_path):
    path = tmp_path / "t.jsonl"
    for content, message in [
        (b'{"en": "A boat", "de": "Ein Boot"}\n{"en": "A\n', "line 2"),
        (b'{"en": "A boat", "de": "B\xff"}\n', "line 1: is not UTF-8"),
        (b"", "is empty"),
    ]:
        path.write_bytes(content)
        with pytest.raises(AnnotationError, match=message):
            read_parallel_text([path])
    cut = jsonl(tmp_path / "cut.jsonl.gz", WIDE * 50)
    cut.write_bytes(cut.read_bytes()[:-20])
    with pytest.raises(AnnotationError, match="cut short"):
        read_parallel_text([cut])


def test_unequal_lines_name_both_files(tmp_path):
    (tmp_path / "v.en").write_text("One.\nTwo.\n")
    for name, content, message in [
        ("v.de", "Eins.\nZwei.\nDrei.\n", r"v\.en has 2 lines, but .*v\.de has 3"),
        ("v.de", "Eins.\n\n", r"v\.de, line 2: 'the line' is ''"),
        ("v.de-AT", "Eins.\nZwei.\n", "are both de"),
    ]:
        (tmp_path / name).write_text(content)
        with pytest.raises(CapscoreError, match=message):
            read_parallel_text([tmp_path / "v.{language}"])


@pytest.mark.parametrize(
    ("name", "languages", "message"),
    [
        ("t.jsonl", ["de", "fr"], "to fr; available: de"),
        ("nowhere.jsonl", None, r"there is no file .*nowhere\.jsonl"),
        ("t.csv", None, r"is read from \.jsonl, .*train\.\{language\}\.gz"),
        ("new/w.{language}", None, "no file of English sentences"),
        ("t.jsonl", ["en"], "expected another than English"),
        ("t.jsonl", ["jp"], "did you mean 'ja'"),
        ("e.jsonl", None, "to another language; available: none"),
    ],
)
def test_what_is_not_there(tmp_path, name, languages, message):
    jsonl(tmp_path / "t.jsonl", WIDE)
    jsonl(tmp_path / "e.jsonl", [{"en": "A boat"}])
    with pytest.raises(CapscoreError, match=message):
        read_parallel_text([tmp_path / name], languages)
