"""Streams, files and rows in memory: the numbers of all rows at once, and what is said of each row."""

import json
import tracemalloc
import weakref
from types import SimpleNamespace

import datasets
import pandas as pd
import pyarrow as pa
import pytest
from datasets.distributed import split_dataset_by_node

import capscore
from capscore.errors import CapscoreError, InputError
from capscore.metrics.loading import load_together
from capscore.scoring.streams import DistinctKeys
from tools.tiny.colours import BLUE, GREEN, RED, ColourBackbone
from tools.tiny.judges import tiny_judge

from ..cli.conftest import read_jsonl, run
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
    texts = [{"caption": "a red sea", "references": ["a red sky"]}]
    texts.append({"caption": "a dog", "references": ["a cat"]})
    scored = capscore.score_stream(texts, ["rouge_l", capscore.load("chair")], language="en")
    assert [round(row["rouge_l"], 4) for row in scored] == [0.6667, 0.5]
    whole = capscore.score_file(texts, ["rouge_l", "chair"], language="en").to_dict()
    found = scored.summary()
    assert found == {name: whole[name] for name in found}
    assert whole.keys() - found.keys() <= {"input", "output"}


def test_a_text_around_some_photos_is_in_the_signature_of_a_judge(rows):
    judge = capscore.load("judge", backbone=tiny_judge(), cache=False)
    some = [{**row, "context": text} for row, text in zip(rows, [None, "On a farm.", ""], strict=False)]
    scored = capscore.score_stream(some, judge, batch_rows=1)
    assert len(list(scored)) == 3 and "|context:var|" in scored.summary()["metrics"]["judge"]["signature"]


class Row(dict):
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
    # the embedder decodes them, in threads
    monkeypatch.setattr(datasets.Image, "decode_example", None)
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


def test_rows_of_another_kind_and_wrong_settings_are_refused():
    for given, options, message in (
        ([["red"]], {}, "row 0.*got a list; expected a dict"),
        ([{"caption": "red"}], {}, "no column seems to hold"),
        ([{"image": "red.png", "caption": "red", "mcs": 1.0}], {}, "the column name 'mcs'"),
        *(([], {"batch_rows": n}, f"batch_rows={n}") for n in (0, True)),
        ([], {"on_error": "ignore"}, "on_error='ignore'"),
    ):
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


ROWS = [{"id": "1", "caption": "a cat sits", "references": ["a cat sits there", "one cat"]}]
ROWS.append({"id": "2", "caption": "a dog", "references": ["a dog runs"]})


def test_rows_in_memory_score_as_the_scorer_does_and_results_say_so(tmp_path, capsys):
    best = tmp_path / "best.jsonl"
    options = {"language": "en", "output": tmp_path / "all.jsonl", "keep": best, "top": 1}
    found = capscore.score_file(ROWS, ["rouge_l", "cider"], **options)
    captions, references = ([row[name] for row in ROWS] for name in ("caption", "references"))
    expected = capscore.load("rouge_l").score(captions, references=references, language="en")
    assert found["rouge_l"].scores == pytest.approx(expected.scores, abs=1e-9)
    assert found["rouge_l"].signature == expected.signature
    for rows in (pd.DataFrame(ROWS), pa.Table.from_pylist(ROWS), SimpleNamespace(to_dicts=lambda: ROWS)):
        of_table = capscore.score_file(rows, "rouge_l", language="en")["rouge_l"].scores
        streamed = capscore.score_stream(rows, capscore.load("rouge_l"), language="en")
        assert of_table.tolist() == [row["rouge_l"] for row in streamed] == found["rouge_l"].scores.tolist()
        assert capscore.perturb(rows, "jumble").source.n_rows == len(ROWS)
    table = found.to_pandas()
    assert list(table["id"]) == ["1", "2"] and list(table["rouge_l"]) == pytest.approx(expected.scores)
    summary = json.loads((tmp_path / "all.summary.json").read_text(encoding="utf-8"))
    assert summary == json.loads(json.dumps(found.to_dict()))
    assert (summary["rows"], summary["kept"]["n_kept"]) == (2, 1)
    assert json.loads(best.read_text(encoding="utf-8"))["id"] == "1"
    found.print(worst=1)
    shown = capsys.readouterr().out
    assert "a dog" in shown and "a cat sits" not in shown and "Kept 1 of 2 scored rows" in shown


def test_every_door_says_why_a_row_has_no_score(tmp_path):
    rows = [{**ROWS[0]}, {**ROWS[1], "caption": ""}, {**ROWS[1], "references": []}]
    options = {"language": "en", "empty": "skip", "on_error": "skip"}
    found = capscore.score_file(rows, "rouge_l", output=tmp_path / "rows.jsonl", **options)
    errors = [row["capscore_error"] for row in read_jsonl(tmp_path / "rows.jsonl")]
    assert errors[0] is None and errors[1] == "candidate: an empty caption, left out as asked"
    assert "references" in errors[2] and [*found.failures] == [2]
    assert found.to_pandas()["capscore_error"].fillna("").tolist() == ["", *errors[1:]]
    assert "Scored 1 of 3 rows" in str(found)
    scorer = capscore.load("rouge_l", empty="skip")
    stream = capscore.score_stream(iter(rows), scorer, language="en", on_error="skip")
    assert [row["capscore_error"] for row in stream] == errors


UNUSABLE = [
    (["a cat"], {}, "a cat'?: no such file"),
    (7, {}, "got a int; expected a file, a folder, rows as dicts or a table"),
    ({"caption": ["a cat"], "references": [["a cat"]]}, {}, "got a dict; expected"),
    ([], {}, "there are no rows"),
    (ROWS, {"metrics": ["rouge_l", "rouge_l"]}, "rouge_l is there twice"),
    (ROWS, {"preset": "coko"}, "expected coco, clipscore"),
    (ROWS, {"top": "30%"}, "keep or drop is missing"),
    (ROWS, {"keep": "x.csv", "min_score": "1"}, "min_score='1': expected a number"),
    (ROWS, {"output": 3}, "output=3: got a int; expected str or Path"),
    (ROWS, {"candidate_column": 3}, "candidate_column=3: got a int; expected str"),
    (ROWS, {"min_scor": 1}, "rouge_l takes no min_scor=1"),
    (ROWS, {"language": "xx"}, "unknown language code 'xx'"),
    (ROWS, {"on_error": "ignore"}, "expected 'raise' or 'skip'"),
]


@pytest.mark.parametrize(("rows", "options", "message"), UNUSABLE)
def test_what_cannot_be_scored_is_one_error(rows, options, message):
    with pytest.raises(CapscoreError, match=message):
        capscore.score_file(rows, **{"metrics": "rouge_l", **options})


def test_several_files_are_one_input_in_python_streams_and_the_terminal(tmp_path):
    for number, row in enumerate(ROWS):
        (tmp_path / f"part-{number}.jsonl").write_text(json.dumps(row))
    whole = capscore.score_file(ROWS, "rouge_l", language="en")["rouge_l"].scores.tolist()
    pattern, files = str(tmp_path / "part-*.jsonl"), sorted(tmp_path.glob("part-*"))
    scorer = capscore.load("rouge_l")
    for given in (pattern, files):
        found = capscore.score_file(given, "rouge_l", language="en")
        assert found["rouge_l"].scores.tolist() == pytest.approx(whole, abs=1e-6)
        streamed = [row["rouge_l"] for row in capscore.score_stream(given, scorer, language="en")]
        assert streamed == pytest.approx(whole, abs=1e-6)
        assert len(capscore.read_rows(given).candidates) == len(ROWS)
    done = run("score", *files, "-m", "rouge_l", "--language", "en", "--json")
    assert json.loads(done.stdout)["metrics"]["rouge_l"]["mean"] == pytest.approx(sum(whole) / len(whole))
    files[-1].write_text(json.dumps({**ROWS[-1], "references": 3}))
    with pytest.raises(InputError, match="has changed since it was opened"):
        found.to_pandas()
    for door in (capscore.score_file, lambda rows, scorer: [*capscore.score_stream(rows, scorer)]):
        with pytest.raises(InputError, match=rf"part-{len(ROWS) - 1}.jsonl, line 1: references"):
            door(files, scorer)


def test_ids_without_photos_need_no_backbone(tmp_path):
    """As COCO's results and annotations are; the numbers are those of the same rows with their references."""
    rows = [{"image_id": 1, "caption": "a red bus on a street"}, {"image_id": 2, "caption": "two dogs play"}]
    texts = ["a red bus on a street", "two dogs in snow"]
    known = {"images": [{"id": 1, "file_name": "x.jpg"}, {"id": 2}]}
    known["annotations"] = [{"image_id": n, "caption": text} for n, text in enumerate(texts, start=1)]
    (tmp_path / "refs.json").write_text(json.dumps(known))
    together = [row | {"references": [text]} for row, text in zip(rows, texts, strict=True)]
    whole = capscore.score_file(together, "cider")["cider"].mean
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    for given in (rows, tmp_path / "rows.json"):
        found = capscore.score_file(given, preset="coco", references=tmp_path / "refs.json")
        assert found["cider"].mean == pytest.approx(whole, abs=1e-6) and "clip_score" not in found.scores
        assert any("no photo of image is found" in note for note in found.notes)
