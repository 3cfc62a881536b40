"""Streams of rows: the numbers of all rows at once, in memory for one batch."""

from __future__ import annotations

import io
import json
import tarfile
import weakref
from pathlib import Path

import datasets
import numpy as np
import pytest

import capscore
from capscore.errors import CapscoreError, InputError
from capscore.metrics.formulas.cider import DocumentFrequencies
from capscore.metrics.loading import load_together

from ..photos import encode
from ..toy import BLUE, GREEN, RED, ColourBackbone

PIXELS = {"red": RED, "green": GREEN, "blue": BLUE}
NAMES = [*PIXELS]
N_ROWS = 50


@pytest.fixture
def rows() -> list[dict]:
    """Fifty rows with encoded photos; captions of one colour or two."""
    return [
        {
            "id": number,
            "image": {"bytes": encode(PIXELS[NAMES[number % 3]]), "path": f"{number}.png"},
            "caption": f"{NAMES[number % 3]} {NAMES[number % 2]}",
            "references": [NAMES[number % 3], "red blue"][: 1 + number % 2],
            "language": "de" if number % 5 else "en",
        }
        for number in range(N_ROWS)
    ]


def scorers(*metrics: str, **options) -> list:
    return load_together(metrics, backbone=ColourBackbone(), cache=False, **options)


def whole(rows, scorer) -> capscore.Scores:
    return scorer.score(
        [row["caption"] for row in rows],
        [row["image"] for row in rows],
        [row["references"] for row in rows] if scorer.needs_references else None,
        [row["language"] for row in rows],
    )


def test_a_stream_has_the_numbers_of_all_rows_at_once(rows):
    several = scorers("mcs", "ref_clip_score")
    stream = capscore.score_stream(iter(rows), several, batch_rows=7)
    found = list(stream)
    assert [row["id"] for row in found] == list(range(N_ROWS))
    # the words are the photo's colour alone: 2.5; another colour beside it: 2.5 / √2
    assert [round(row["mcs"], 4) for row in found[:4]] == [2.5, 2.5, 1.7678, 1.7678]
    for scorer in several:
        expected = whole(rows, scorer)
        np.testing.assert_allclose([row[scorer.metric] for row in found], expected.scores, atol=1e-6)
        summary, told = stream.summary()[scorer.metric], expected.summary()
        assert summary.keys() == told.keys() and summary["n_unique_images"] == 3
        assert summary["signature"] == told["signature"] and "|lang:de+en|" in summary["signature"]
        for name, value in told.items():
            assert summary[name] == (pytest.approx(value, abs=1e-9) if isinstance(value, float) else value)


class Row(dict):
    """A dict whose life can be watched."""


@pytest.mark.parametrize("n_rows", [60, 600])
def test_no_row_is_kept(rows, n_rows):
    """Ten times as many rows: never more than two batches of them are there."""
    living: weakref.WeakSet = weakref.WeakSet()

    class Watched(Row):
        __hash__ = object.__hash__

    def some():
        for number in range(n_rows):
            row = Watched(rows[number % N_ROWS])
            living.add(row)
            yield row

    most = 0
    for _ in capscore.score_stream(some(), scorers("mcs"), batch_rows=10):
        most = max(most, len(living))
    assert most <= 20


@pytest.fixture
def streamed(rows, tmp_path) -> datasets.IterableDataset:
    """A streaming data set in four files of Parquet."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    features = datasets.Features(
        {
            "id": datasets.Value("int64"),
            "image": datasets.Image(),
            "caption": datasets.Value("string"),
            "references": datasets.Sequence(datasets.Value("string")),
            "language": datasets.Value("string"),
        }
    )
    for part in range(4):
        data = datasets.Dataset.from_list(rows[part::4], features=features)
        data.to_parquet(folder / f"{part}.parquet")
    return datasets.load_dataset(
        "parquet", data_dir=str(folder), split="train", streaming=True, cache_dir=str(tmp_path / "hf")
    )


def test_a_streaming_data_set_and_its_nodes(rows, streamed):
    """Each node scores its part; together they have all rows, with the same scores."""
    from datasets.distributed import split_dataset_by_node

    (scorer,) = scorers("mcs")
    expected = dict(zip(range(N_ROWS), whole(rows, scorer).scores, strict=True))
    parts = []
    for rank in range(2):
        stream = capscore.score_stream(split_dataset_by_node(streamed, rank, 2), scorer, batch_rows=8)
        parts.append({row["id"]: row["mcs"] for row in stream})
        assert stream.summary()["mcs"]["n_items"] == len(parts[-1])
    assert not set(parts[0]) & set(parts[1]) and len(parts[0]) >= 20 and len(parts[1]) >= 20
    together = {**parts[0], **parts[1]}
    assert together == pytest.approx(expected, abs=1e-6)


def test_photos_of_a_data_set_are_decoded_by_the_embedder_alone(streamed, monkeypatch):
    def decode(*more, **options):
        raise AssertionError("decoded by datasets")

    monkeypatch.setattr(datasets.Image, "decode_example", decode)
    (row, *_) = capscore.score_stream(streamed, scorers("mcs"))
    assert row["image"]["bytes"].startswith(b"\x89PNG")


def test_webdataset(rows, tmp_path):
    """Photos and captions in two tar files, through `datasets`."""
    for part in range(2):
        with tarfile.open(tmp_path / f"corpus-{part:04d}.tar", "w") as tar:
            for row in rows[part::2]:
                about = {"caption": row["caption"], "language": row["language"]}
                for suffix, content in (
                    ("png", row["image"]["bytes"]),
                    ("json", json.dumps(about).encode()),
                    ("txt", row["caption"].encode()),
                ):
                    entry = tarfile.TarInfo(f"{row['id']:06d}.{suffix}")
                    entry.size = len(content)
                    tar.addfile(entry, io.BytesIO(content))
    data = datasets.load_dataset(
        "webdataset",
        data_files={"train": [str(path) for path in sorted(tmp_path.glob("*.tar"))]},
        split="train",
        streaming=True,
        cache_dir=str(tmp_path / "hf"),
    )
    (scorer,) = scorers("mcs")
    stream = capscore.score_stream(
        data, scorer, image_column="png", candidate_column="txt", language="en", batch_rows=8
    )
    found = {int(row["__key__"]): row["mcs"] for row in stream}
    assert found == pytest.approx(dict(enumerate(whole(rows, scorer).scores)), abs=1e-6)
    assert stream.summary()["mcs"]["n_unique_images"] == 3


def test_cider_streams_with_document_frequencies(rows):
    references = [[text.split() for text in row["references"]] for row in rows]
    counted = DocumentFrequencies.from_references(references)
    scorer = capscore.load("cider", document_frequencies=counted)
    stream = capscore.score_stream(rows, scorer, batch_rows=9, language="en", candidate_column="caption")
    found = [row["cider"] for row in stream]
    expected = scorer.score(
        [row["caption"] for row in rows], references=[row["references"] for row in rows], language="en"
    )
    np.testing.assert_allclose(found, expected.scores, atol=1e-9)
    assert stream.summary()["cider"]["signature"] == expected.signature
    assert max(found) > 1


@pytest.mark.parametrize("metric", ["cider", "bleu"])
def test_metrics_that_compare_rows(rows, metric):
    with pytest.raises(InputError, match=f"{metric} compares rows with each other"):
        capscore.score_stream(rows, capscore.load(metric))


def test_a_poisoned_row(rows):
    rows[17] = {**rows[17], "image": {"bytes": b"no photo", "path": "poison.png"}}
    stream = capscore.score_stream(rows, scorers("mcs"), batch_rows=8)
    with pytest.raises(
        InputError, match=r"row 17 of the stream, counted from 0 \('poison.png': 'blue green'\)"
    ):
        list(stream)
    found = list(capscore.score_stream(rows, scorers("mcs"), batch_rows=8, on_error="skip"))
    assert [row["id"] for row in found if row["mcs"] is None] == [17]
    assert [row["id"] for row in found if row["capscore_error"]] == [17]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([["red"]], "got a list; expected a dict"),
        ([{"caption": "red"}], "no column seems to hold"),
        ([{"image": "red.png", "caption": "red", "mcs": 1.0}], "the column name 'mcs'"),
    ],
)
def test_rows_of_another_kind(given, message):
    with pytest.raises(CapscoreError, match=message):
        list(capscore.score_stream(given, scorers("mcs")))


def test_wrong_settings(rows):
    with pytest.raises(CapscoreError, match="batch_rows=0"):
        capscore.score_stream(rows, scorers("mcs"), batch_rows=0)
    with pytest.raises(CapscoreError, match="on_error='ignore'"):
        capscore.score_stream(rows, scorers("mcs"), on_error="ignore")
    with pytest.raises(CapscoreError, match="variant='paper': an option of cider, not of mcs"):
        load_together("mcs", backbone=ColourBackbone(), variant="paper")


def test_an_empty_stream():
    stream = capscore.score_stream([], scorers("mcs"))
    assert list(stream) == [] and stream.summary() == {"mcs": {}}


def test_the_stream_of_a_saved_folder_needs_no_scorer_of_its_own(tmp_path: Path, rows):
    """Names of images start from the folder that is given."""
    for name, pixels in PIXELS.items():
        (tmp_path / f"{name}.png").write_bytes(encode(pixels))
    named = [{**row, "image": f"{NAMES[row['id'] % 3]}.png"} for row in rows]
    found = list(capscore.score_stream(named, scorers("mcs"), images=tmp_path))
    (scorer,) = scorers("mcs")
    np.testing.assert_allclose([row["mcs"] for row in found], whole(rows, scorer).scores, atol=1e-6)
