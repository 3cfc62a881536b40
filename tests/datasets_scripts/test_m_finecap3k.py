"""M-FineCap3k: for English FineCapEval is read where M-FineCap3k's own file is not there."""

from __future__ import annotations

import pytest

import capscore
from capscore.benchmarks.data.load import benchmark_builder

from .official import m_finecap3k as official


def _rows(data_dir, config="en"):
    builder = benchmark_builder("m_finecap3k", config, data_dir=data_dir)
    return builder, [row for _, row in builder.checked_rows("test")]


def test_phrases_of_finecapeval(tmp_path):
    official.write_finecapeval(tmp_path)
    builder, rows = _rows(tmp_path)
    assert rows[0] == {
        "image_id": "41.jpg",
        "caption": "A woman, in a red coat, waits.",
        "critical_objects": ["woman", "red coat"],
        "backgrounds": ["tram stop", "grey sky"],
        "relationships": ["waits"],
        "id": "41.jpg#1",
        "language": "en",
    }
    assert [row["id"] for row in rows] == ["41.jpg#1", "41.jpg#2", "42.jpg#1"]
    assert rows[1]["backgrounds"] == []
    assert builder.count(rows) == {
        "rows": 3,
        "images": 2,
        "critical objects": 4,
        "backgrounds": 3,
        "relationships": 3,
    }


def test_the_number_of_captions_is_that_of_the_file_that_is_read(tmp_path):
    official.write_finecapeval(tmp_path)
    with pytest.warns(capscore.BenchmarkWarning, match="has 3 rows where 5,000 were published"):
        capscore.load_benchmark("m_finecap3k", "en", data_dir=tmp_path)
    official.write(tmp_path)
    with pytest.warns(capscore.BenchmarkWarning, match="has 2 rows where 1,000 were published"):
        rows = capscore.load_benchmark("m_finecap3k", "en", data_dir=tmp_path, split="test")
    assert rows["id"] == ["en-0", "en-1"]


def test_other_languages_never_read_english_captions(tmp_path):
    official.write_finecapeval(tmp_path)
    with pytest.raises(capscore.MissingAnnotations, match=r"\(de\) reads de\.jsonl"):
        _rows(tmp_path, "de")


@pytest.mark.parametrize(
    "old, new, message",
    [
        (b"object", b"objects", r"FineCapEval\.csv, line 2: lacks the field 'object'"),
        (b"A dog sleeps.", b"", r"FineCapEval\.csv, line 4: 'caption' is ''"),
        (b",sleeps on", b"", r"FineCapEval\.csv, line 4: expected 5 columns as in the header, found 4"),
        (b"grey", b"gr\xe9y", r"FineCapEval\.csv, line 2: is not UTF-8"),
        (b'"A woman, in a red  coat, waits."', b'"A woman', r"FineCapEval\.csv, line .: is not CSV"),
    ],
)
def test_a_damaged_csv(old, new, message, tmp_path):
    official.write_finecapeval(tmp_path)
    path = tmp_path / "data" / "FineCapEval.csv"
    assert old in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(old, new, 1))
    with pytest.raises(capscore.AnnotationError, match=message):
        _rows(tmp_path)
