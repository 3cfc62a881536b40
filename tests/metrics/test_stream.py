"""Streams of rows: the numbers of all rows at once, in memory for one batch."""

import tracemalloc
import weakref

import datasets
import pytest
from datasets.distributed import split_dataset_by_node

import capscore
from capscore.errors import CapscoreError, InputError
from capscore.metrics.loading import load_together
from capscore.scoring.streams import DistinctKeys
from tools.tiny.colours import BLUE, GREEN, RED, ColourBackbone
from tools.tiny.judges import tiny_judge

from ..photos import encode

PIXELS = {"red": RED, "green": GREEN, "blue": BLUE}
NAMES = [*PIXELS]
N_ROWS = 50
# the words are the photo's colour alone: 2.5; another colour beside it: 2.5 / √2
EXPECTED = {row: 2.5 if row % 3 == row % 2 else 2.5 / 2**0.5 for row in range(N_ROWS)}


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


def stream(rows, *metrics: str, **options):
    scorers = load_together(metrics or ["mcs"], backbone=ColourBackbone(), cache=False)
    return capscore.score_stream(rows, scorers, **options)


def test_a_stream_has_its_rows_in_order_with_the_scores_of_each_metric(rows):
    scored = stream(iter(rows), "mcs", "ref_clip_score", batch_rows=7)
    found = list(scored)
    assert [row["id"] for row in found] == list(range(N_ROWS))
    assert [row["mcs"] for row in found] == pytest.approx([*EXPECTED.values()], abs=1e-6)
    summary = scored.summary()["metrics"]["ref_clip_score"]
    assert (summary["n_items"], summary["n_unique_images"]) == (N_ROWS, 3)  # the same photos in each batch
    assert "|refs:var|lang:de+en|" in summary["signature"]
    empty = stream([])
    assert list(empty) == [] and empty.summary()["metrics"] == {}


@pytest.mark.filterwarnings("ignore:rows that look wrong")
def test_metrics_are_named_and_the_summary_is_that_of_a_file():
    texts = [
        {"caption": "a red sea", "references": ["a red sky"]},
        {"caption": "a dog", "references": ["a cat"]},
    ]
    scored = capscore.score_stream(texts, ["rouge_l", capscore.load("chair")], language="en")
    assert [round(row["rouge_l"], 4) for row in scored] == [0.6667, 0.5]
    whole = capscore.score_file(texts, ["rouge_l", "chair"], language="en").to_dict()
    found = scored.summary()
    assert found == {name: whole[name] for name in found}
    assert whole.keys() - found.keys() <= {"input", "output"}


def test_a_text_around_some_photos_is_in_the_signature_of_a_judge(rows):
    judge = capscore.load("judge", backbone=tiny_judge(), cache=False)
    texts = [None, "On a farm.", ""]
    some = [{**row, "context": text} for row, text in zip(rows, texts, strict=False)]
    scored = capscore.score_stream(some, judge, batch_rows=1)
    assert len(list(scored)) == 3 and "|context:var|" in scored.summary()["metrics"]["judge"]["signature"]
    columns = [row["caption"] for row in some], [row["image"] for row in some]
    for given, expected in (
        (texts, "|context:var|"),
        (["a"] * 3, "|context:yes|"),
        (None, "|pixels:602112|"),
    ):
        signature = judge.score(*columns, context=given).signature
        assert expected in signature and ("context" in signature) == (given is not None)


class Row(dict):
    """A dict whose life can be watched."""

    __hash__ = object.__hash__


def test_never_more_than_two_batches_are_in_memory(rows):
    living: weakref.WeakSet = weakref.WeakSet()

    def some():
        for number in range(200):
            row = Row(rows[number % N_ROWS])
            living.add(row)
            yield row

    assert max(len(living) for _ in stream(some(), batch_rows=10)) <= 20


def test_nodes_score_their_parts_of_a_streaming_data_set(rows, tmp_path, monkeypatch):
    data = datasets.Dataset.from_list(rows).cast_column("image", datasets.Image())
    for part in range(4):
        data.shard(4, part).to_parquet(tmp_path / f"{part}.parquet")
    where = {"data_files": str(tmp_path / "*.parquet"), "cache_dir": str(tmp_path / "hf")}
    streamed = datasets.load_dataset("parquet", split="train", streaming=True, **where)

    def decode(*more, **options):
        raise AssertionError("decoded by datasets, and not by the embedder in threads")

    monkeypatch.setattr(datasets.Image, "decode_example", decode)
    found = {}
    for rank in range(2):
        scored = stream(split_dataset_by_node(streamed, rank, 2), batch_rows=8)
        part = {row["id"]: row["mcs"] for row in scored}
        assert scored.summary()["metrics"]["mcs"]["n_items"] == len(part) >= 20
        assert not part.keys() & found.keys()
        found |= part
    assert found == pytest.approx(EXPECTED, abs=1e-6)


def test_a_poisoned_row_is_named_or_skipped(rows):
    rows[17] = {**rows[17], "image": {"bytes": b"no photo", "path": "poison.png"}}
    named = r"row 17 of the stream, counted from 0 \('poison.png': 'blue green'\)"
    with pytest.raises(InputError, match=named):
        list(stream(rows, batch_rows=8))
    scored = stream(rows, batch_rows=8, on_error="skip")
    found = list(scored)
    right = [score for row, score in EXPECTED.items() if row != 17]
    assert scored.summary()["metrics"]["mcs"]["mean"] == pytest.approx(sum(right) / 49)
    assert [row["id"] for row in found if row["mcs"] is None] == [17]
    assert [row["id"] for row in found if row["capscore_error"]] == [17]


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ([["red"]], {}, "row 0.*got a list; expected a dict"),
        ([{"caption": "red"}], {}, "no column seems to hold"),
        ([{"image": "red.png", "caption": "red", "mcs": 1.0}], {}, "the column name 'mcs'"),
        ([], {"batch_rows": 0}, "batch_rows=0"),
        ([], {"batch_rows": True}, "batch_rows=True"),
        ([], {"on_error": "ignore"}, "on_error='ignore'"),
    ],
)
def test_rows_of_another_kind_and_wrong_settings_are_refused(given, options, message):
    with pytest.raises(CapscoreError, match=message):
        list(stream(given, **options))


def test_columns_and_the_folder_of_images_can_be_named(tmp_path, rows):
    for name, pixels in PIXELS.items():
        (tmp_path / f"{name}.png").write_bytes(encode(pixels))
    named = [{"png": f"{NAMES[row['id'] % 3]}.png", "txt": row["caption"]} for row in rows]
    found = stream(named, images=tmp_path, image_column="png", candidate_column="txt", language="en")
    assert [row["mcs"] for row in found] == pytest.approx([*EXPECTED.values()], abs=1e-6)


def test_distinct_photos_take_8_bytes_each():
    keys = DistinctKeys()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for first in range(0, 300_000, 1000):  # each photo comes three times
        keys.update({f"file:{number // 3}" for number in range(first, first + 1000)})
    assert len(keys) == 100_000
    assert tracemalloc.get_traced_memory()[0] - before < 10 * 100_000
    tracemalloc.stop()
