"""References of any file find their rows; what does not fit is named by its row; rows in Python."""

import json

import pyarrow as pa
import pytest
from PIL import Image

import capscore
from capscore.errors import InputError
from capscore.files.image_folder import image_key
from capscore.files.read import open_rows
from capscore.files.references import read_references, with_references
from capscore.options import RowOptions
from tools.tiny.command import write_jsonl

from ..laws import every
from ..test_file_format_laws import write
from .test_samples import archive

NAMES = {number: f"COCO_val2014_0000000000{number:02}.jpg" for number in (42, 7)}
TEXTS = [(42, "A dog."), (7, "A cat sits."), (42, "A brown dog runs.")]
ANNOTATIONS = {"images": [{"id": number, "file_name": name} for number, name in NAMES.items()]}
ANNOTATIONS["annotations"] = [{"image_id": number, "caption": text} for number, text in TEXTS]
RESULTS = [{"image_id": 7, "caption": "a cat"}, {"image_id": 42, "caption": "a dog runs"}]
TWICE = [{"id": 7, "file_name": "a"}, {"id": "7", "file_name": "b"}]
REFERENCES = [["A cat sits."], ["A dog.", "A brown dog runs."]]
OF_PHOTO = {NAMES[7]: REFERENCES[0], NAMES[42]: REFERENCES[1]}


def as_json(path, content):
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def as_text(path, *lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def annotations(tmp_path):
    return as_json(tmp_path / "annotations.json", ANNOTATIONS)


def matched(rows, references, **options):
    return with_references(open_rows(rows), read_references(references), RowOptions(**options))


def rows_of(source, size=1):
    return [row for chunk in source.chunks(size) for row in chunk.dicts()]


def references_of(source):
    return [row["references"] for row in rows_of(source)]


@every("file_format", without=["photos"])
def test_rows_of_every_format_find_photos_and_references(file_format, tmp_path, annotations):
    folder = tmp_path / "rows"
    folder.mkdir()
    rows = [{"image": NAMES[row["image_id"]], "caption": row["caption"]} for row in RESULTS[:1]]
    source = matched(write(file_format, folder, rows), annotations)
    assert rows_of(source) == [{**rows[0], "references": REFERENCES[0]}] and not source.faults
    assert (source.columns, source.n_rows) == (["image", "caption", "references"], 1)
    assert source.schema().field("references").type == pa.list_(pa.string())
    (chunk,) = source.chunks(5, ["references"])
    assert chunk.values("references") == REFERENCES[:1]
    (note,) = source.notes
    assert "1 images of" in note and "(first: 42)" in note


KARPATHY = [
    {"filename": NAMES[n], "cocoid": n, "split": split, "sentences": [{"raw": text} for text in texts]}
    for n, split, texts in ((42, "test", REFERENCES[1]), (7, "val", REFERENCES[0]))
]
# name of the file → its content: a document, or lines
FILES = {
    "annotations.json": ANNOTATIONS,
    "no_images.json": {"annotations": ANNOTATIONS["annotations"]},
    "dataset_coco.json": {"dataset": "coco", "images": KARPATHY},
    "mapping.json": OF_PHOTO,
    "stems.json": {name[:-4]: texts for name, texts in OF_PHOTO.items()},
    "r.token": [f"{NAMES[n]}#{i}\t{text}" for i, (n, text) in enumerate(TEXTS)],
    "pipe.csv": ["image_name| comment_number| comment", *(f"{NAMES[n]}| 0| {text}" for n, text in TEXTS)],
    "one_cell.csv": ["image,reference_1,reference_2", f"{NAMES[7]},A cat sits.,"],
    "plain.csv": ["image,references", f"{NAMES[7]},A cat sits."],
    "lists.jsonl": {"image": f"other/{NAMES[7]}", "references": ["A cat sits."]},
    "r.tar": {NAMES[7]: b"", f"{NAMES[7][:-4]}.txt": b"A cat sits."},
}
ASKED = [("image_id", 7), ("image_id", "000007"), ("image_id", NAMES[7]), ("image_id", NAMES[7][:-4])]


def file_of(folder, name):
    path, content = folder / name, FILES[name]
    if name.endswith(".tar"):
        return archive(path, content)
    return as_text(path, *content) if isinstance(content, list) else as_json(path, content)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(("column", "value"), [*ASKED, ("img", f"val2014/{NAMES[7]}")])
def test_references_of_every_kind_are_found_by_id_or_name(name, column, value, tmp_path):
    rows = as_json(tmp_path / "rows.jsonl", {column: value, "caption": "a cat"})
    assert references_of(matched(rows, file_of(tmp_path, name))) == REFERENCES[:1]


def test_ids_give_rows_the_names_of_their_photos(tmp_path, annotations):
    lines = ("image_id,caption", "000007,a cat", "42,a dog runs", "000007,cats")
    path = as_text(tmp_path / "captions.csv", *lines)
    found = [(row["image"], row["references"]) for row in rows_of(matched(path, annotations))]
    cat, dog = ((NAMES[number], texts) for number, texts in zip((7, 42), REFERENCES, strict=True))
    assert found == [cat, dog, cat], "an image may have several captions"
    rows = [{"image_id": n, "image": NAMES[m], "caption": "x"} for n, m in ((7, 42), (42, 7))]
    source = matched(as_json(tmp_path / "p.json", rows), annotations)
    assert references_of(source) == REFERENCES[::-1], "names, where ids are of another numbering"


def test_mismatched_references_are_named_with_their_row(tmp_path, annotations):
    rows = [{"img": NAMES[42], "hyp": "a dog"}, {"img": "other.jpg", "hyp": "a cow"}]
    source = matched(as_json(tmp_path / "p.json", rows), annotations)
    assert references_of(source) == [REFERENCES[1], None]
    assert [*source.faults] == [1] and "other.jpg" in str(source.faults[1])
    rows = [{"image_id": one, "caption": "a dog"} for one in (42, 8, None, "x")]
    path = write_jsonl(tmp_path / "captions.jsonl", rows)
    assert [*matched(path, annotations).faults] == [1, 2, 3]
    with pytest.raises(InputError, match=r"captions.jsonl, line 2.*image_id 8"):
        capscore.read_rows(path, references=annotations)
    for row, message in (
        ({"image_id": 42, "caption": "x", "references": ["y"]}, "has a column 'references' already"),
        ({"caption": "x"}, "expected a column image_id"),
        ({"image_id": 1, "caption": "x"}, "the first image_id is 1, in that file 'COCO_val"),
    ):
        with pytest.raises(InputError, match=message):
            matched(as_json(tmp_path / "q.jsonl", row), annotations)


def test_references_in_several_languages_are_those_of_the_row(tmp_path):
    row = {"image/key": "0a", "de": {"caption": ["Ein Hund."]}, "fr": {"caption": ["Un chien."]}}
    references = as_json(tmp_path / "x.jsonl", row)
    rows = [{"image": "0a", "caption": "x", "language": code} for code in ("fr", "de-AT", None, "es")]
    source = matched(as_json(tmp_path / "p.json", rows), references)
    assert references_of(source) == [["Un chien."], ["Ein Hund."], None, None]
    assert "without a language" in str(source.faults[2]) and "in language 'es'" in str(source.faults[3])
    assert "captions in de, fr" in str(source.faults[2]) and "captions in de, fr" in str(source.faults[3])
    assert references_of(matched(tmp_path / "p.json", references, language="fr")) == [["Un chien."]] * 4


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([{"image_id": 1}], "references=.*: no column seems to hold it; found 'image_id'"),
        ([{"image_id": None, "caption": "A dog."}], "row 0, counted from 0: the row names no photo"),
        ([{"image_id": 1, "caption": 3}], r"row 0, counted from 0: expected a reference; got 3"),
        ({"images": {"a": 1}, "annotations": [1]}, "in no known layout.*Closest is COCO annotations"),
        ({**ANNOTATIONS, "annotations": [{"image_id": 5, "caption": "x"}]}, "entry 0 .* image_id 5, which"),
        ({"images": TWICE, "annotations": [{"image_id": 7, "caption": "x"}]}, "entry 1 .* the id 7"),
    ],
)
def test_references_of_another_shape_are_one_error(tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        read_references(as_json(tmp_path / "a.json", content))


def test_a_split_is_of_the_file_that_has_splits(tmp_path):
    references = file_of(tmp_path, "dataset_coco.json")
    rows = as_json(tmp_path / "p.json", [RESULTS[1]])
    assert capscore.read_rows(rows, references=references, split="test").references == REFERENCES[1:]
    with pytest.raises(InputError, match="has the splits test, val"):
        capscore.read_rows(rows, references=references, split="train")
    with pytest.raises(InputError, match="has no split, and"):
        capscore.read_rows(rows, split="test")
    assert capscore.read_rows(references, split="val").candidates == ["A cat sits."]


def test_in_python_rows_are_what_score_takes(tmp_path, annotations):
    folder = tmp_path / "val2014"
    folder.mkdir()
    for name in NAMES.values():
        Image.new("RGB", (3, 3)).save(folder / name)
    results = as_json(tmp_path / "captions.json", RESULTS)
    rows = capscore.read_rows(results, references=annotations, images=folder)
    assert (rows.candidates, rows.references, rows.languages) == (["a cat", "a dog runs"], REFERENCES, None)
    assert [path.name for path in rows.images] == [NAMES[7], NAMES[42]]
    texts = capscore.read_rows(results, references=annotations)
    assert texts.images is None and capscore.read_rows(results, images=folder).references is None
    scores = capscore.load("rouge_l").score(["a cat", "a dog runs"], references=REFERENCES).scores
    assert capscore.load("rouge_l").score(*texts).scores == pytest.approx(scores, abs=1e-6)
    (folder / NAMES[42]).unlink()
    with pytest.raises(InputError, match=r"captions.json, row 1, counted from 0: image: no such file"):
        capscore.read_rows(results, references=annotations, images=folder)


def test_a_broken_row_of_references_is_an_error_or_left_out_and_counted(tmp_path):
    lines = ["a.jpg| 0| A dog.", "a.jpg| 1   It runs.", "b.jpg| 0| A cat ."]  # as one of Flickr30k's is
    references = as_text(tmp_path / "results.csv", "image_name| comment_number| comment", *lines)
    rows = as_json(tmp_path / "c.json", {"a.jpg": "a dog", "b.jpg": "a cat"})
    for read in (read_references, capscore.read_rows):
        with pytest.raises(InputError, match=r"results\.csv, line 3: 2 cells"):
            read(references)
    found = with_references(open_rows(rows), read_references(references, RowOptions(on_error="skip")))
    assert references_of(found) == [["A dog."], ["A cat ."]]
    assert "1 row of references left out" in found.notes[-1] and "line 3" in found.notes[-1]
    assert capscore.read_rows(references, on_error="skip") == (["A dog.", "A cat ."], None, None, None)
    texts = capscore.read_rows(rows, references=references, on_error="skip").references
    assert texts == [["A dog."], ["A cat ."]]
    Image.new("RGB", (3, 3)).save(tmp_path / "b.jpg")
    alone = capscore.read_rows(references, on_error="skip")
    assert (alone.candidates, len(alone.images)) == (["A cat ."], 1)


def test_ids_are_compared_by_what_they_mean():
    same = {42: "42", "000042": "42", 0: "0", "000": "0", "a/b.jpg": "a/b.jpg", -1: "-1", "٤٢": "٤٢"}
    assert {given: image_key(given) for given in same} == same
    assert image_key(42.0) == "42" and image_key(10**18 - 1) == "9" * 18
    assert {image_key(nothing) for nothing in (None, "", True, 1.5, 10**18, 10**20)} == {None}


def test_a_bad_row_beyond_the_first_piece_is_left_out_by_its_own_number(tmp_path):
    rows = [{"caption": f"c{n}", "references": ["a"]} for n in range(1100)]
    del rows[1050]["caption"]
    found = capscore.read_rows(write_jsonl(tmp_path / "rows.jsonl", rows), on_error="skip")
    assert found.candidates == [row["caption"] for row in rows if "caption" in row]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"caption": 3}, r"line 2: candidate: expected a caption, got 3 \(int\)"),
        ({"caption": "\ud800"}, "line 2: candidate: expected a caption, got .* half a surrogate pair"),
        ({"references": ["a", 3]}, "line 2: references: reference 1 is 3"),
        ({"references": {"a": 1}}, "line 2: references: expected a list of references"),
        ({"references": []}, "line 2: references: expected at least one reference"),
        ({"language": 3}, r"line 2: language: 3 is not a language code"),
    ],
)
def test_a_cell_of_the_wrong_type_is_an_error_or_left_out(tmp_path, cells, message):
    right = {"image": "gone.jpg", "caption": "a dog", "references": ["a"], "language": "en"}
    path = write_jsonl(tmp_path / "rows.jsonl", [right, right | cells, right | {"caption": ""}])
    with pytest.raises(InputError, match=message):
        capscore.read_rows(path)
    assert capscore.read_rows(path, on_error="skip") == (["a dog", ""], None, [["a"], ["a"]], ["en", "en"])
