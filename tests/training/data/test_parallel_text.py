"""Parallel text in its three forms, each pair once, and what is said of bad rows."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
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
    text = read_parallel_text(jsonl(tmp_path / name, WIDE))
    assert pairs(text) == PAIRS
    assert text.sources == ["A red kite.", "Two boats"]
    assert text.duplicates == 1
    assert text.counts() == {"de": 3, "ja": 1}


def test_source_target_language(tmp_path):
    rows = [{"source": s, "target": t, "language": {"de": "deu"}.get(c, c)} for s, t, c in PAIRS]
    rows.append({"source": "A red kite.", "target": "A red kite.", "language": "en"})
    assert pairs(read_parallel_text(jsonl(tmp_path / "t.jsonl", rows))) == PAIRS
    only = read_parallel_text(tmp_path / "t.jsonl", ["ja"])
    assert pairs(only) == [PAIRS[1]] and only.sources == ["A red kite."]


def test_parquet(tmp_path):
    columns = {name: [row.get(name) for row in WIDE] for name in ("en", "de", "ja")}
    parquet.write_table(pyarrow.table({**columns, "id": [1, 2, 3, 4]}), tmp_path / "t.parquet")
    assert pairs(read_parallel_text(tmp_path / "t.parquet", ["de", "ja"])) == PAIRS


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
    text = read_parallel_text(template)
    assert pairs(text) == expected and text.duplicates == 2
    assert pairs(read_parallel_text(template, ["fr"])) == expected[2:]
    other = read_parallel_text(template, ["en"], source_language="de")
    assert pairs(other) == [("Eins.", "One.", "en"), ("Zwei.", "Two.", "en")]


def test_several_files_are_one_text(tmp_path):
    a, b = jsonl(tmp_path / "a.jsonl", WIDE[:2]), jsonl(tmp_path / "b.jsonl", WIDE[2:])
    text = read_parallel_text([a, b])
    assert pairs(text) == PAIRS and text.duplicates == 1


SENTENCES = st.sampled_from(["one", "two", "three"])


@given(st.lists(st.tuples(SENTENCES, SENTENCES, st.sampled_from(["de", "fr"])), min_size=1))
def test_every_pair_once_in_the_order_of_the_file(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("rows") / "t.jsonl"
    named = [dict(zip(("source", "target", "language"), row, strict=True)) for row in rows]
    text = read_parallel_text(jsonl(path, named))
    assert pairs(text) == list(dict.fromkeys(rows))
    assert text.duplicates == len(rows) - len(set(rows))


def test_the_digest_is_that_of_the_text(tmp_path):
    text = read_parallel_text(jsonl(tmp_path / "a.jsonl", WIDE))
    again = read_parallel_text(jsonl(tmp_path / "b.jsonl", [*WIDE, *WIDE]))
    other = read_parallel_text(jsonl(tmp_path / "c.jsonl", WIDE[:2]))
    assert text.digest == again.digest != other.digest
    assert len(text.digest) == 32


# What is wrong with them


@pytest.mark.parametrize(
    "rows, said",
    [
        ([WIDE[0], {"en": "A boat", "de": " "}], "line 2: 'de' is ' '"),
        ([WIDE[0], {"en": "A boat", "de": 3}], r"line 2: 'de' is 3"),
        ([{"de": "Ein Boot"}], "line 1: has no field 'en', the source's; it has de"),
        (
            [{"en": "A boat", "caption id": "x"}],
            "line 1: unknown language code 'caption id'.*name the languages to read",
        ),
        ([{"en": "A boat", "de": "Boot", "deu": "Boot"}], "line 1: the fields 'de' and 'deu' are both de"),
        ([{"source": "A", "target": "B"}], "line 1: .*'language'"),
        ([{"source": "A", "target": "B", "language": "xx-yy"}], "line 1: unknown language code 'xx-yy'"),
        ([{"source": "A", "target": "B", "language": 7}], "line 1: 7 is not a language code"),
        ([{"source": "A", "target": None, "language": "de"}], "line 1: 'target' is None"),
    ],
)
def test_a_bad_row_is_named(tmp_path, rows, said):
    path = jsonl(tmp_path / "t.jsonl", rows)
    with pytest.raises(AnnotationError, match=said) as raised:
        read_parallel_text(path)
    assert str(path) in str(raised.value)


def test_other_damage(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"en": "A boat", "de": "Ein Boot"}\n{"en": "A\n')
    with pytest.raises(AnnotationError, match="line 2"):
        read_parallel_text(path)
    path.write_bytes(b'{"en": "A boat", "de": "B\xff"}\n')
    with pytest.raises(AnnotationError, match="line 1: is not UTF-8"):
        read_parallel_text(path)
    path.write_text("")
    with pytest.raises(AnnotationError, match="is empty"):
        read_parallel_text(path)
    cut = jsonl(tmp_path / "cut.jsonl.gz", WIDE * 50)
    cut.write_bytes(cut.read_bytes()[:-20])
    with pytest.raises(AnnotationError, match="cut short"):
        read_parallel_text(cut)
    (tmp_path / "t.parquet").write_bytes(b"PAR1 torn")
    with pytest.raises(AnnotationError, match="is not Parquet"):
        read_parallel_text(tmp_path / "t.parquet")


def test_unequal_lines_name_both_files(tmp_path):
    (tmp_path / "v.en").write_text("One.\nTwo.\n")
    (tmp_path / "v.de").write_text("Eins.\nZwei.\nDrei.\n")
    with pytest.raises(CapscoreError, match=r"v\.en has 2 lines, but .*v\.de has 3"):
        read_parallel_text(tmp_path / "v.{language}")
    (tmp_path / "v.de").write_text("Eins.\n\n")
    with pytest.raises(AnnotationError, match=r"v\.de, line 2: 'the line' is ''"):
        read_parallel_text(tmp_path / "v.{language}")
    (tmp_path / "v.de-AT").write_text("Eins.\nZwei.\n")
    with pytest.raises(CapscoreError, match="are both de"):
        read_parallel_text(tmp_path / "v.{language}")


def test_what_is_not_there(tmp_path):
    path = jsonl(tmp_path / "t.jsonl", WIDE)
    with pytest.raises(CapscoreError, match="no sentence is in fr; available: de"):
        read_parallel_text(path, ["de", "fr"])
    with pytest.raises(CapscoreError, match=r"there is no file .*nowhere\.jsonl"):
        read_parallel_text(tmp_path / "nowhere.jsonl")
    with pytest.raises(CapscoreError, match=r"is read from \.jsonl, .*train\.\{language\}\.gz"):
        read_parallel_text(tmp_path / "t.csv")
    with pytest.raises(CapscoreError, match="of the source language, en; there is no such file"):
        read_parallel_text(tmp_path / "w.{language}")
    with pytest.raises(CapscoreError, match="there is no folder"):
        read_parallel_text(tmp_path / "new" / "w.{language}")
    with pytest.raises(CapscoreError, match="must be in the file's name"):
        read_parallel_text(tmp_path / "{language}" / "w.jsonl")
    with pytest.raises(CapscoreError, match="no file of parallel text"):
        read_parallel_text([])
    with pytest.raises(CapscoreError, match="only the source language, en"):
        read_parallel_text(path, ["en"])
    with pytest.raises(CapscoreError, match="did you mean 'ja'"):
        read_parallel_text(path, ["jp"])
    with pytest.raises(CapscoreError, match="there is no translation from en"):
        read_parallel_text(jsonl(tmp_path / "e.jsonl", [{"en": "A boat"}]))
