"""Streams of rows: the numbers of all rows at once, in memory for one batch; Ray Data."""

from __future__ import annotations

import weakref

import datasets
import numpy as np
import pytest
from datasets.distributed import split_dataset_by_node

import capscore
from capscore.errors import CapscoreError, InputError
from capscore.metrics.loading import load_together

from ..photos import encode
from ..toy import BLUE, GREEN, RED, ColourBackbone

PIXELS = {"red": RED, "green": GREEN, "blue": BLUE}
NAMES = [*PIXELS]
N_ROWS = 50
# the words are the photo's colour alone: 2.5; another colour beside it: 2.5 / √2
EXPECTED = {row: 2.5 if row % 3 == row % 2 else 2.5 / np.sqrt(2) for row in range(N_ROWS)}


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


def scorers(*metrics: str) -> list:
    return load_together(metrics, backbone=ColourBackbone(), cache=False)


def test_a_stream_has_its_rows_in_order_with_the_scores_of_each_metric(rows):
    stream = capscore.score_stream(iter(rows), scorers("mcs", "ref_clip_score"), batch_rows=7)
    found = list(stream)
    assert [row["id"] for row in found] == list(range(N_ROWS))
    assert [row["mcs"] for row in found] == pytest.approx([*EXPECTED.values()], abs=1e-6)
    summary = stream.summary()["ref_clip_score"]
    assert (summary["n_items"], summary["n_unique_images"]) == (N_ROWS, 3)  # the same photos in each batch
    assert "|refs:var|lang:de+en|" in summary["signature"]
    empty = capscore.score_stream([], scorers("mcs"))
    assert list(empty) == [] and empty.summary() == {"mcs": {}}


class Row(dict):
    """A dict whose life can be watched."""

    __hash__ = object.__hash__


@pytest.mark.parametrize("n_rows", [60, 600])
def test_never_more_than_two_batches_are_in_memory(rows, n_rows):
    living: weakref.WeakSet = weakref.WeakSet()

    def some():
        for number in range(n_rows):
            row = Row(rows[number % N_ROWS])
            living.add(row)
            yield row

    most = 0
    for _ in capscore.score_stream(some(), scorers("mcs"), batch_rows=10):
        most = max(most, len(living))
    assert most <= 20


@pytest.fixture
def streamed(rows, tmp_path) -> datasets.IterableDataset:
    """A streaming data set in four files of Parquet."""
    (tmp_path / "corpus").mkdir()
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
        data.to_parquet(tmp_path / "corpus" / f"{part}.parquet")
    return datasets.load_dataset(
        "parquet",
        data_dir=str(tmp_path / "corpus"),
        split="train",
        streaming=True,
        cache_dir=str(tmp_path / "hf"),
    )


def test_nodes_score_their_parts_of_a_streaming_data_set(streamed, monkeypatch):
    def decode(*more, **options):
        raise AssertionError("decoded by datasets, and not by the embedder in threads")

    monkeypatch.setattr(datasets.Image, "decode_example", decode)
    parts = []
    for rank in range(2):
        stream = capscore.score_stream(split_dataset_by_node(streamed, rank, 2), scorers("mcs"), batch_rows=8)
        parts.append({row["id"]: row["mcs"] for row in stream})
        assert stream.summary()["mcs"]["n_items"] == len(parts[-1]) >= 20
    assert not set(parts[0]) & set(parts[1])
    assert {**parts[0], **parts[1]} == pytest.approx(EXPECTED, abs=1e-6)


def test_a_poisoned_row_is_named_or_skipped(rows):
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
        ([["red"]], "row 0.*got a list; expected a dict"),
        ([{"caption": "red"}], "no column seems to hold"),
        ([{"image": "red.png", "caption": "red", "mcs": 1.0}], "the column name 'mcs'"),
    ],
)
def test_rows_of_another_kind_are_refused(given, message):
    with pytest.raises(CapscoreError, match=message):
        list(capscore.score_stream(given, scorers("mcs")))


def test_wrong_settings_are_named(rows):
    for options in ({"batch_rows": 0}, {"batch_rows": True}, {"on_error": "ignore"}):
        ((name, value),) = options.items()
        with pytest.raises(CapscoreError, match=f"{name}={value!r}"):
            capscore.score_stream(rows, scorers("mcs"), **options)


def test_columns_and_the_folder_of_images_can_be_named(tmp_path, rows):
    for name, pixels in PIXELS.items():
        (tmp_path / f"{name}.png").write_bytes(encode(pixels))
    named = [{"png": f"{NAMES[row['id'] % 3]}.png", "txt": row["caption"]} for row in rows]
    columns = {"image_column": "png", "candidate_column": "txt", "language": "en"}
    found = capscore.score_stream(named, scorers("mcs"), images=tmp_path, **columns)
    assert [row["mcs"] for row in found] == pytest.approx([*EXPECTED.values()], abs=1e-6)
