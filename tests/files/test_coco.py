"""COCO's formats: captions find their photos and references; an id that does not fit is told with its row."""

from __future__ import annotations

import csv
import json

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import capscore
from capscore.errors import ImageError, InputError
from capscore.files.coco import image_key, load_coco, read_annotations, with_references
from capscore.files.image_folder import ImageFolder
from capscore.files.read import open_rows

ANNOTATIONS = {
    "info": {"year": 2014},
    "images": [
        {"id": 42, "file_name": "COCO_val2014_000000000042.jpg"},
        {"id": 7, "file_name": "COCO_val2014_000000000007.jpg"},
        {"id": 9, "file_name": "COCO_val2014_000000000009.jpg"},
    ],
    "annotations": [
        {"id": 1, "image_id": 42, "caption": "A dog."},
        {"id": 2, "image_id": 7, "caption": "A cat sits."},
        {"id": 3, "image_id": 42, "caption": "A brown dog runs."},
    ],
}
RESULTS = [{"image_id": 7, "caption": "a cat"}, {"image_id": 42, "caption": "a dog runs"}]
JOINED = [
    {
        "image_id": 7,
        "caption": "a cat",
        "image": "COCO_val2014_000000000007.jpg",
        "references": ["A cat sits."],
    },
    {
        "image_id": 42,
        "caption": "a dog runs",
        "image": "COCO_val2014_000000000042.jpg",
        "references": ["A dog.", "A brown dog runs."],
    },
]


def as_json(path, content):
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.fixture
def annotations(tmp_path):
    return read_annotations(as_json(tmp_path / "annotations.json", ANNOTATIONS))


def rows_of(source, size=1):
    return [row for chunk in source.chunks(size) for row in chunk.dicts()]


def told(source):
    """Number of a row → what is wrong with it."""
    return {
        chunk.start + row: error.message
        for chunk in source.chunks(2)
        for row, error in source.problems(chunk).items()
    }


@pytest.mark.parametrize("kind", ["json", "jsonl", "csv", "parquet", "saved"])
def test_rows_of_every_kind_of_file_find_photos_and_references(tmp_path, annotations, kind):
    path = tmp_path / f"captions.{kind}"
    if kind == "json":
        as_json(path, RESULTS)
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in RESULTS))
    elif kind == "csv":
        path.write_text("image_id,caption\n000007,a cat\n42,a dog runs\n")
    elif kind == "parquet":
        datasets.Dataset.from_list(RESULTS).to_parquet(path)
    else:
        datasets.Dataset.from_list(RESULTS).save_to_disk(path)
    source = with_references(open_rows(path), annotations)
    new = [{name: row[name] for name in ("image", "references")} for row in JOINED]
    found = rows_of(source)
    assert [{name: row[name] for name in ("image", "references")} for row in found] == new
    assert [row["caption"] for row in found] == ["a cat", "a dog runs"]
    assert (source.columns, source.n_rows) == (["image_id", "caption", "image", "references"], 2)
    assert source.schema().field("references").type == pa.list_(pa.string())
    (chunk,) = source.chunks(5, ["image"])
    assert chunk.values("image") == [row["image"] for row in new]
    assert told(source) == {}
    (note,) = source.notes
    assert "(first: 9)" in note


def test_rows_without_ids_are_matched_by_the_name_of_their_photo(tmp_path, annotations):
    rows = [
        {"img": "val2014/COCO_val2014_000000000042.jpg", "hyp": "a dog"},
        {"img": "COCO_val2014_000000000007.jpg", "hyp": "a cat"},
        {"img": "other.jpg", "hyp": "a cow"},
    ]
    source = with_references(open_rows(as_json(tmp_path / "p.json", rows)), annotations)
    assert [row["references"] for row in rows_of(source)] == [
        ["A dog.", "A brown dog runs."],
        ["A cat sits."],
        None,
    ]
    assert source.columns == ["img", "hyp", "references"]
    assert [*told(source)] == [2] and "other.jpg" in told(source)[2]


def test_ids_that_do_not_fit_are_told_with_their_row(tmp_path, annotations):
    path = tmp_path / "captions.jsonl"
    ids = [42, 8, 9, 42, None, "x"]
    path.write_text("".join(json.dumps({"image_id": one, "caption": "a dog"}) + "\n" for one in ids))
    source = with_references(open_rows(path), annotations)
    about = annotations.path
    assert [*told(source)] == [1, 2, 3, 4, 5] and "already (line 1)" in told(source)[3]
    with pytest.raises(InputError, match=r"captions.jsonl, line 2 \(row 1 counted from 0\).*image_id 8"):
        load_coco(path, about)


def test_annotations_without_a_list_of_images_take_the_id_as_the_name(tmp_path):
    about = read_annotations(
        as_json(tmp_path / "a.json", {"annotations": [{"image_id": "dog", "caption": "A dog."}]})
    )
    table = pa.table({"image_id": ["dog"], "caption": ["a dog"]})
    pq.write_table(table, tmp_path / "p.parquet")
    source = with_references(open_rows(tmp_path / "p.parquet"), about)
    assert rows_of(source)[0]["image"] == "dog"
    with pytest.raises(InputError, match="cannot be matched"):
        with_references(open_rows(as_json(tmp_path / "b.json", [{"image": "dog.jpg"}])), about)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (RESULTS, "has no list `annotations`"),
        ({"images": []}, "has no list `annotations`"),
        ({"images": {}, "annotations": []}, "has no list `annotations`"),
        ({"images": {"a": 1}, "annotations": [1]}, "`images` is no list"),
        ({"images": [{"id": 1}], "annotations": [1]}, "entry 0 of `images` has no id or no file_name"),
        ({"images": [3], "annotations": [1]}, "entry 0 of `images` has no id"),
        ({"annotations": [{"image_id": 1}]}, "entry 0 of `annotations` has no image_id or no caption"),
        ({"annotations": [[]]}, "entry 0 of `annotations` has no"),
        (
            {**ANNOTATIONS, "annotations": [{"image_id": 5, "caption": "x"}]},
            "of image_id 5, which `images` does",
        ),
        (
            {"images": [{"id": 1, "file_name": "a"}, {"id": "1", "file_name": "b"}], "annotations": [1]},
            "has the id 1 of another one",
        ),
    ],
)
def test_annotations_of_another_shape_are_one_error(tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        read_annotations(as_json(tmp_path / "a.json", content))


def test_annotations_that_are_not_there_or_no_json(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_annotations(tmp_path / "gone.json")
    (tmp_path / "a.json").write_text('{"images": [')
    with pytest.raises(InputError, match=r"a.json: not valid JSON.*line 1 column 13"):
        read_annotations(tmp_path / "a.json")
    (tmp_path / "b.json").write_text("[" * 100_000)
    with pytest.raises(InputError, match="not valid JSON"):
        read_annotations(tmp_path / "b.json")


def test_references_come_from_one_place(tmp_path, annotations):
    rows = [{"image_id": 42, "caption": "x", "references": ["y"]}]
    with pytest.raises(InputError, match="has a column 'references' already"):
        with_references(open_rows(as_json(tmp_path / "p.json", rows)), annotations)
    with pytest.raises(InputError, match="cannot be matched"):
        with_references(open_rows(as_json(tmp_path / "q.json", [{"caption": "x"}])), annotations)


def test_in_python_rows_are_what_score_takes(tmp_path, annotations):
    folder = tmp_path / "val2014"
    folder.mkdir()
    for image in ANNOTATIONS["images"]:
        Image.new("RGB", (3, 3)).save(folder / image["file_name"])
    results = as_json(tmp_path / "captions.json", RESULTS)
    rows = load_coco(results, annotations.path, folder)
    assert rows.candidates == ["a cat", "a dog runs"]
    assert [path.name for path in rows.images] == [row["image"] for row in JOINED]
    assert rows.references == [["A cat sits."], ["A dog.", "A brown dog runs."]]
    texts = load_coco(results, annotations.path)
    assert texts.images is None
    scores = capscore.load("rouge_l").score(*texts, language="en")
    same = capscore.load("rouge_l").score(rows.candidates, references=rows.references, language="en")
    assert scores.scores.tolist() == pytest.approx(same.scores.tolist(), abs=1e-9)
    (folder / "COCO_val2014_000000000042.jpg").unlink()
    with pytest.raises(InputError, match=r"captions.json, row 1 counted from 0: image: no such file"):
        load_coco(results, annotations.path, folder)


def test_references_go_through_csv(tmp_path, annotations):
    """A list beside cells of text: the result has it as JSON, and reads it back."""
    from capscore.files.write import Writer, check_output

    (tmp_path / "p.csv").write_text("image_id,caption\n42,a dog\n")
    source = with_references(open_rows(tmp_path / "p.csv"), annotations)
    target = check_output(tmp_path / "o.csv", source)
    writer = Writer(target, source, {"mcs": float})
    for chunk in source.chunks(5):
        writer.write(chunk, {"mcs": [0.5]})
    writer.finish({}, "{}\n")
    with open(target, newline="") as file:
        (row,) = csv.DictReader(file)
    assert json.loads(row["references"]) == ["A dog.", "A brown dog runs."]


@pytest.mark.parametrize(
    ("given", "key"),
    [
        (42, "42"),
        ("42", "42"),
        ("000042", "42"),
        (42.0, "42"),
        (0, "0"),
        ("000", "0"),
        ("a/b.jpg", "a/b.jpg"),
        (-1, "-1"),
        ("٤٢", "٤٢"),
        (None, None),
        ("", None),
        (True, None),
        (1.5, None),
        ([], None),
        (10**20, None),
    ],
)
def test_ids_are_compared_by_what_they_mean(given, key):
    assert image_key(given) == key


def test_a_number_finds_the_photo_that_coco_names_by_it(tmp_path):
    for name in ("COCO_val2014_000000000042.jpg", "000000000007.png", "dog1.jpg", "12_3.jpg"):
        (tmp_path / name).write_bytes(b"x")
    folder = ImageFolder(tmp_path)
    assert folder.find(42).name == "COCO_val2014_000000000042.jpg"
    assert folder.find("42").name == "COCO_val2014_000000000042.jpg"
    assert folder.find("7").name == "000000000007.png"
    for number in (1, 3, "12"):
        with pytest.raises(ImageError, match="no such file"):
            folder.find(number)
    (tmp_path / "42.png").write_bytes(b"x")
    (tmp_path / "0042.png").write_bytes(b"x")
    assert ImageFolder(tmp_path).find(42).name == "42.png"
    (tmp_path / "000042.png").write_bytes(b"x")
    with pytest.raises(ImageError, match=r"could be any of 000042.png, 0042.png"):
        ImageFolder(tmp_path).find("00042")
