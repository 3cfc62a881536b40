"""Rows to train on: files, benchmarks, COCO's captions and Flickr30k Entities, with their origins."""

import csv
import json
import math
import warnings
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from capscore.errors import InputError
from tests.photos import encode
from tools.tiny.colours import GREEN, RED
from tools.tiny.official import write_jsonl
from training.data import rows as rows_module
from training.data.photos import read_names
from training.data.rows import ALIGNED, CAPTIONS, RATED, benchmark_rows, file_rows
from training.data.source import DataSource, Source, SourceSettings


@pytest.fixture
def photos(tmp_path) -> Path:
    Image.fromarray(RED).save(tmp_path / "red.png")
    Image.fromarray(GREEN).save(tmp_path / "green.png")
    return tmp_path


ROWS = [
    {"id": "7", "image": "red.png", "caption": "a red kite", "language": "en-GB", "objects": ["kite"]},
    {"id": "8", "image": "green", "caption": "grüne Wiese", "language": "de", "objects": None},
]


def test_jsonl_csv_and_parquet_give_the_same_rows(photos):
    write_jsonl(photos / "rows.jsonl", ROWS)
    pq.write_table(pa.Table.from_pylist(ROWS), photos / "rows.parquet")
    with open(photos / "rows.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(ROWS[0]))
        writer.writeheader()
        writer.writerows({**row, "objects": json.dumps(row["objects"] or [])} for row in ROWS)
    expected = [
        ("a red kite", "en", photos / "red.png", ("kite",), ("7", "red.png", "red")),
        ("grüne Wiese", "de", photos / "green.png", None, ("8", "green")),
    ]
    for name in ("rows.jsonl", "rows.parquet", "rows.csv"):
        rows = [(r.caption, r.language, r.image, r.objects, r.names) for r in file_rows(photos / name)]
        # a cell of CSV says that there are no objects, not that nobody looked
        assert [(*row[:3], row[3] or None, row[4]) for row in rows] == expected
        assert rows[1][3] == (() if name == "rows.csv" else None)


def test_photos_inside_parquet_keep_their_names(tmp_path):
    stored = [{"image": {"bytes": encode(RED), "path": "a/red.png"}, "caption": "red", "lang": "en"}]
    pq.write_table(pa.Table.from_pylist(stored), tmp_path / "rows.parquet")
    (row,) = file_rows(tmp_path / "rows.parquet")
    assert row.names == ("a/red.png", "red.png", "red") and row.image["bytes"] == encode(RED)


def test_missing_images_are_counted_and_the_first_is_named(tmp_path):
    (tmp_path / "there.png").write_bytes(b"")
    names = ["there.png", "a.png", "there.png", "b.png", "c.png"]
    rows = [{"image": name, "caption": "a dog", "language": "en"} for name in names]
    message = r"line 2: image: no such file: .*a\.png; .*; 3 rows have such a photo"
    with pytest.raises(InputError, match=message):
        list(file_rows(write_jsonl(tmp_path / "rows.jsonl", rows)))


def test_texts_may_stand_in_for_missing_images(photos):
    mixed = [{"stand_in": "une prairie"}, {"image": "red.png", "stand_in": None}, {"stand_in": ["a", "b"]}]
    path = write_jsonl(photos / "r.jsonl", [{**row, "caption": "a meadow"} for row in mixed])
    rows = [(row.image, row.stand_in) for row in file_rows(path, language="en")]
    assert rows == [(None, ("une prairie",)), (photos / "red.png", ()), (None, ("a", "b"))]


def test_ratings_are_means_and_regions_are_texts(photos):
    rated = {"image": "red.png", "caption": "x", "language": "de", "rating": [1, 4, 4]}
    path = write_jsonl(photos / "o.jsonl", [rated, {**rated, "rating": 2}])
    assert [row.rating for row in file_rows(path, RATED)] == [3.0, 2.0]
    assert math.isnan(next(file_rows(path, CAPTIONS)).rating)
    row = {"caption": "x", "language": "en", "stand_in": ["y", "z"], "mentioned": [1, 0, 1]}
    path = write_jsonl(photos / "a.jsonl", [{**row, "region_texts": ["a", "b"]}])
    (read,) = file_rows(path, ALIGNED)
    assert (read.stand_in, read.region_texts, read.mentioned) == (("y", "z"), ("a", "b"), (0, 1))


TEXTS = {"image": None, "stand_in": "y"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"caption": 3}, r"caption: 3 is a int; expected a string"),
        ({"caption": " "}, "caption: it is blank"),
        ({"caption": ...}, "candidate: the row has no 'caption'"),
        ({"image": "reed.png"}, r"image: no such file: .*reed\.png"),
        ({"stand_in": "y"}, "both an image and a stand_in"),
        ({"image": ""}, "neither an image nor a stand_in"),
        ({"image": None, "stand_in": 4}, "stand_in: 4; expected a text"),
        ({"image": None, "stand_in": ["y", " "]}, r"stand_in: \['y', ' '\]; expected"),
        ({"language": "klingonese"}, "language: .*klingonese"),
        ({"language": None}, "states no language"),
        ({"objects": "kite"}, "objects: 'kite'; expected a list"),
        ({"objects": [4]}, r"objects: \[4\]; expected a list"),
        ({"objects": [[0, 2]]}, r"objects: \(0, 2\): .* the caption, which has 1 char"),
        ({"rating": "good"}, "rating: 'good'; expected a finite number"),
        ({"rating": None}, "rating: None; expected a finite number"),
        ({"rating": [1, True]}, r"rating: \[1, True\]; "),
        ({"rating": []}, r"rating: \[\]; "),
        ({"rating": float("inf")}, "rating: inf; "),
        ({**TEXTS, "boxes": [[0, 0, 1, 1]]}, "boxes in pixels and a stand_in"),
        ({"boxes": [[0, 0, 1, 1]], "region_texts": ["a"]}, "boxes in pixels and region_texts"),
        ({"boxes": [[0, 0, True, 1]]}, r"boxes: \[\[0, 0, True, 1\]\]; expected a list of \[left"),
        ({"boxes": [[0, 0, 1]]}, r"boxes: \[\[0, 0, 1\]\]; expected"),
        ({"region_texts": ["a", ""]}, r"region_texts: \['a', ''\]; expected a list of texts"),
        ({"region_texts": ["a"], "mentioned": [0, 1]}, r"mentioned: \[0, 1\]; expected .* its 1 boxes"),
        ({"mentioned": [True]}, r"mentioned: \[True\]"),
        ({"mentioned": [-1]}, r"mentioned: \[-1\]"),
    ],
)
def test_errors_in_a_row_name_its_line(photos, changes, message):
    first = {"image": "red.png", "caption": "x", "language": "en", "stand_in": None}
    row = {name: value for name, value in {**first, **changes}.items() if value is not ...}
    cells = [name for name in (*CAPTIONS, *RATED, *ALIGNED) if name in row]
    path = write_jsonl(photos / "rows.jsonl", [{**first, "rating": 1}, row])
    with pytest.raises(InputError, match=f"line 2.*{message}"):
        list(file_rows(path, cells))


def test_lists_of_csv_are_json_and_a_missing_column_is_named(photos):
    (photos / "r.csv").write_text("image,caption,language,boxes\nred.png,x,en,0 0 1 1\n")
    with pytest.raises(InputError, match=r"line 2.*boxes: '0 0 1 1'; expected a list of .* as JSON"):
        list(file_rows(photos / "r.csv", ALIGNED))
    found = {"caption": r"r\.csv has no column 'rating'; it has image, caption", "words": r"'words'.*r\.csv"}
    for column, message in found.items():
        (photos / "r.csv").write_text(f"image,{column}\nred.png,x\n")
        with pytest.raises(InputError, match=message):
            list(file_rows(photos / "r.csv", RATED))


def test_lists_of_names(tmp_path):
    path = tmp_path / "held.txt"
    path.write_text("red.png\n\n id7 \n", encoding="utf-8")
    assert read_names(path) == ["red.png", "id7"]
    path.write_text("\n")
    with pytest.raises(InputError, match="is empty"):
        read_names(path)
    with pytest.raises(InputError, match=r"none\.txt cannot be read"):
        read_names(tmp_path / "none.txt")


def source(spec, cells=CAPTIONS, **settings) -> Source:
    return Source(str(spec), SourceSettings(data_license="CC0", **settings), cells)


def test_a_benchmark_brings_captions_images_and_critical_objects(tmp_path):
    folder = tmp_path / "m_finecap3k"
    (folder / "images").mkdir(parents=True)
    Image.fromarray(RED).save(folder / "images" / "r.png")
    row = {"id": "1", "image": "r.png", "caption": "un cerf-volant sur la plage", "backgrounds": []}
    row |= {"critical_objects": ["cerf-volant", "plage"], "relationships": []}
    write_jsonl(folder / "fr.jsonl", [row])
    given = source("benchmark:m_finecap3k/fr:test", data_dir=str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one row is fewer than published
        (row,) = given.rows()
    assert given.n == 1 and given.described()[0].name == "m_finecap3k/fr:test"
    assert (row.caption, row.language) == ("un cerf-volant sur la plage", "fr")
    assert row.objects == ("cerf-volant", "plage") and {"1", "r.png", "r"} == set(row.names)


def test_captions_of_flickr30k_entities_mention_the_boxes_of_their_phrases(monkeypatch):
    names = ("xmin", "ymin", "xmax", "ymax", "chain")
    boxes = [(1, 11, 40, 60, "1"), (1, 11, 40, 60, "4"), (50, 20, 70, 30, "2"), (71, 20, 130, 30, "2")]
    phrases = [(0, "1"), (0, "2"), (0, "3"), (1, "4"), (3, "1"), (4, "2")]
    row = {
        "image": Image.fromarray(RED),
        "image_id": "17.jpg",
        "references": ["A man throws balls.", "The juggler.", "Nothing.", "Of another photo.", "Balls fly."],
        "unrelated": [3],
        "width": 100,
        "height": 60,
        "language": "en",
        "boxes": [dict(zip(names, box, strict=True)) for box in boxes],
        "phrases": [{"reference": reference, "chain": chain} for reference, chain in phrases],
    }
    both = datasets.DatasetDict({split: datasets.Dataset.from_list([row]) for split in ("train", "test")})
    monkeypatch.setattr(rows_module, "load_benchmark", lambda *_, split, **__: both[split] if split else both)
    rows = list(source("benchmark:flickr30k_entities:train", ALIGNED).rows())
    assert [row.caption for row in rows][1:] == ["The juggler.", "Nothing.", "Balls fly."]
    assert [row.mentioned for row in rows] == [(0, 1, 2), (0,), (), (1, 2)]
    # pixels are counted from 1, the last included; the third box reaches over the edge
    assert rows[0].boxes == ((0, 10, 40, 60), (49, 19, 70, 30), (70, 19, 100, 30))
    assert rows[0].names == ("17.jpg", "17")
    with pytest.raises(InputError, match="has the splits train, test: choose one"):
        list(benchmark_rows("flickr30k_entities"))


def test_origins_are_read_from_a_file_beside_the_captions(photos):
    path = write_jsonl(photos / "rows.jsonl", ROWS)
    plain = source(path)
    assert len(list(plain.rows())) == plain.n == 2
    assert plain.described() == [DataSource("rows.jsonl", "CC0", 2)]
    said = {"held_out": "the sea", "sources": [{"name": "A", "license": "MIT", "url": "u", "rows": 18}]}
    Path(f"{path}.sources.json").write_text(json.dumps(said))
    told = source(path)
    assert told.held_out == "the sea" and told.described() == [DataSource("A", "MIT", 18, "u")]


def test_damaged_origins_are_named(tmp_path):
    for text in (
        '{"sources": [{"name": "A',
        '{"sources": []}',
        '{"sources": [{"name": "A"}]}',
        '{"sources": [{"name": "A", "license": "CC0", "rows": "6"}]}',
        '{"held_out": 3, "sources": [{"name": "A", "license": "CC0"}]}',
    ):
        (tmp_path / "c.jsonl.sources.json").write_text(text)
        with pytest.raises(InputError, match=r"c\.jsonl\.sources\.json does not say where"):
            source(tmp_path / "c.jsonl")
