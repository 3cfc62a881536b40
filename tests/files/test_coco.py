"""COCO's formats: captions find their photos and references; an id that does not fit is named by its row."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from PIL import Image

import capscore
from capscore.errors import InputError
from capscore.files.coco import image_key, load_coco, read_annotations, with_references
from capscore.files.read import open_rows

from ..laws import every
from ..test_file_format_laws import write

NAMES = {number: f"COCO_val2014_0000000000{number:02}.jpg" for number in (42, 7, 9)}
TEXTS = [(42, "A dog."), (7, "A cat sits."), (42, "A brown dog runs.")]
ANNOTATIONS = {
    "info": {"year": 2014},
    "images": [{"id": number, "file_name": name} for number, name in NAMES.items()],
    "annotations": [{"image_id": number, "caption": text} for number, text in TEXTS],
}
RESULTS = [{"image_id": 7, "caption": "a cat"}, {"image_id": 42, "caption": "a dog runs"}]
REFERENCES = [["A cat sits."], ["A dog.", "A brown dog runs."]]


def as_json(path, content):
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.fixture
def annotations(tmp_path):
    return read_annotations(as_json(tmp_path / "annotations.json", ANNOTATIONS))


def rows_of(source, size=1):
    return [row for chunk in source.chunks(size) for row in chunk.dicts()]


def problems_of(source):
    """Number of a row → what is wrong with it."""
    return {
        chunk.start + row: error.message
        for chunk in source.chunks(2)
        for row, error in source.problems(chunk).items()
    }


@every("file_format", without=["photos"])
def test_rows_of_every_format_find_photos_and_references(file_format, tmp_path, annotations):
    folder = tmp_path / "rows"
    folder.mkdir()
    rows = [{"image": NAMES[row["image_id"]], "caption": row["caption"]} for row in RESULTS]
    source = with_references(open_rows(write(file_format, folder, rows)), annotations)
    expected = [{**row, "references": texts} for row, texts in zip(rows, REFERENCES, strict=True)]
    assert rows_of(source) == expected and problems_of(source) == {}
    assert (source.columns, source.n_rows) == (["image", "caption", "references"], 2)
    assert source.schema().field("references").type == pa.list_(pa.string())
    (chunk,) = source.chunks(5, ["references"])
    assert chunk.values("references") == REFERENCES
    (note,) = source.notes
    assert "(first: 9)" in note


def test_ids_give_rows_the_names_of_their_photos(tmp_path, annotations):
    path = tmp_path / "captions.csv"
    path.write_text("image_id,caption\n000007,a cat\n42,a dog runs\n")
    rows = rows_of(with_references(open_rows(path), annotations))
    found = [(row["image"], row["references"]) for row in rows]
    assert found == [(NAMES[7], REFERENCES[0]), (NAMES[42], REFERENCES[1])]


def test_what_does_not_fit_is_told_with_its_row(tmp_path, annotations):
    rows = [{"img": f"val2014/{NAMES[42]}", "hyp": "a dog"}, {"img": "other.jpg", "hyp": "a cow"}]
    source = with_references(open_rows(as_json(tmp_path / "p.json", rows)), annotations)
    assert [row["references"] for row in rows_of(source)] == [REFERENCES[1], None]
    assert [*problems_of(source)] == [1] and "other.jpg" in problems_of(source)[1]
    path = tmp_path / "captions.jsonl"
    ids = [42, 8, 9, 42, None, "x"]
    path.write_text("".join(json.dumps({"image_id": index, "caption": "a dog"}) + "\n" for index in ids))
    source = with_references(open_rows(path), annotations)
    assert [*problems_of(source)] == [1, 2, 3, 4, 5] and "already (line 1)" in problems_of(source)[3]
    with pytest.raises(InputError, match=r"captions.jsonl, line 2 \(row 1 counted from 0\).*image_id 8"):
        load_coco(path, annotations.path)
    for row, message in (
        ({"image_id": 42, "caption": "x", "references": ["y"]}, "has a column 'references' already"),
        ({"caption": "x"}, "cannot be matched"),
    ):
        with pytest.raises(InputError, match=message):
            with_references(open_rows(as_json(tmp_path / "q.json", [row])), annotations)


def test_a_name_that_two_images_have_means_neither(tmp_path):
    images = [{"id": n, "file_name": f"{n}/x.jpg"} for n in (1, 2)]
    texts = [{"image_id": n, "caption": "A dog."} for n in (1, 2)]
    about = read_annotations(as_json(tmp_path / "a.json", {"images": images, "annotations": texts}))
    rows = open_rows(as_json(tmp_path / "p.json", [{"image": "x.jpg", "caption": "a dog"}]))
    assert [*problems_of(with_references(rows, about))] == [0]


def test_annotations_without_a_list_of_images_take_the_id_as_the_name(tmp_path):
    content = {"annotations": [{"image_id": "dog", "caption": "A dog."}]}
    about = read_annotations(as_json(tmp_path / "a.json", content))
    rows = as_json(tmp_path / "p.json", [{"image_id": "dog", "caption": "a dog"}])
    assert rows_of(with_references(open_rows(rows), about))[0]["image"] == "dog"
    with pytest.raises(InputError, match="cannot be matched"):
        with_references(open_rows(as_json(tmp_path / "b.json", [{"image": "dog.jpg"}])), about)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (RESULTS, "has no list `annotations`"),
        ({"images": {}, "annotations": []}, "has no list `annotations`"),
        ({"images": {"a": 1}, "annotations": [1]}, "`images` is no list"),
        ({"images": [{"id": 1}], "annotations": [1]}, "entry 0 of `images` has no id or no file_name"),
        ({"annotations": [{"image_id": 1}]}, "entry 0 of `annotations` has no image_id or no caption"),
        ({"annotations": [[]]}, "entry 0 of `annotations` has no"),
        ({**ANNOTATIONS, "annotations": [{"image_id": 5, "caption": "x"}]}, "entry 0 .* image_id 5, which"),
        (
            {"images": [{"id": 1, "file_name": "a"}, {"id": "1", "file_name": "b"}], "annotations": [1]},
            "entry 1 .* the id 1",
        ),
        ('{"images": [', r"a.json: not valid JSON.*line 1 column 13"),
        (None, "no such file"),
    ],
)
def test_annotations_of_another_shape_are_one_error(tmp_path, content, message):
    if content is not None:
        (tmp_path / "a.json").write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(InputError, match=message):
        read_annotations(tmp_path / "a.json")


def test_in_python_rows_are_what_score_takes(tmp_path, annotations):
    folder = tmp_path / "val2014"
    folder.mkdir()
    for name in NAMES.values():
        Image.new("RGB", (3, 3)).save(folder / name)
    results = as_json(tmp_path / "captions.json", RESULTS)
    rows = load_coco(results, annotations.path, folder)
    assert (rows.candidates, rows.references) == (["a cat", "a dog runs"], REFERENCES)
    assert [path.name for path in rows.images] == [NAMES[7], NAMES[42]]
    texts = load_coco(results, annotations.path)
    assert texts.images is None
    # of "a cat" against "A cat sits." by hand: two of two words, two of three, β = 1.2
    scores = capscore.load("rouge_l").score(*texts, language="en").scores
    assert scores[0] == pytest.approx((1 + 1.44) * 1 * (2 / 3) / (2 / 3 + 1.44 * 1), abs=1e-6)
    (folder / NAMES[42]).unlink()
    with pytest.raises(InputError, match=r"captions.json, row 1 counted from 0: image: no such file"):
        load_coco(results, annotations.path, folder)


def test_ids_are_compared_by_what_they_mean():
    same = {
        42: "42",
        "000042": "42",
        0: "0",
        "000": "0",
        "a/b.jpg": "a/b.jpg",
        -1: "-1",
        "٤٢": "٤٢",
    }
    assert {given: image_key(given) for given in same} == same
    assert image_key(42.0) == "42" and image_key(10**18 - 1) == "9" * 18
    assert {image_key(nothing) for nothing in (None, "", True, 1.5, 10**18, 10**20)} == {None}
