"""Columns are found by familiar names, cells are read for a scorer, and images are found in a folder."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from capscore.errors import ImageError, InputError
from capscore.files.columns import ColumnNames, find_columns, read_inputs
from capscore.files.image_folder import ImageFolder
from capscore.files.read import open_rows
from capscore.options import RowOptions

from ..cli.conftest import write_jsonl


def inputs_of(path, **options):
    source = open_rows(path)
    names = find_columns(source.columns, **options)
    return read_inputs(next(source.chunks(9)), source, names, ImageFolder(path.parent))


def test_familiar_columns():
    found = find_columns(["id", "file_name", "prediction", "refs", "lang"], with_references=True)
    assert found == ColumnNames("file_name", "prediction", ("refs",), "lang")
    assert find_columns(["image", "caption", "refs", "references"]).references == ()
    named = RowOptions(references_column="x")
    assert find_columns(["image", "caption", "x"], named, with_references=True).references == ("x",)
    assert find_columns(["image_id", "caption"]).image == "image_id", "where nothing else is"
    assert find_columns(["image_id", "caption", "img"]).image == "img"
    found = find_columns(["question_id", "prompt", "text"])
    assert (found.image, found.candidate, len(found.notes)) == ("question_id", "text", 2)
    of_harness = find_columns(["filename", "image_id", "answer", "prediction"], with_references=True)
    assert (of_harness.candidate, of_harness.references) == ("prediction", ("answer",))
    assert "'answer' is read as the references" in of_harness.notes[-1]
    many = "9" * 5_000  # more digits than Python converts
    names = ["img", "hyp", "reference10", f"reference_{many}", "reference2", "reference1"]
    found = find_columns(names, with_references=True).references
    assert found == ("reference1", "reference2", "reference10", f"reference_{many}")


BASE = ["image", "caption"]


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (["image", "text", "answer"], {}, "the columns text and answer could each be meant"),
        ([*BASE, "hyp"], {}, "candidate_column: the columns caption and hyp could each be meant"),
        ([*BASE, "img"], {}, "image_column: .*image and img could each be meant; choose one"),
        ([*BASE, "refs", "reference_1"], {}, "refs and reference_1 could each be meant"),
        (["image", "captoins"], {}, "candidate_column: .*'captoins'; expected one named caption"),
        (BASE, {}, "references_column: .*, or reference_1, reference_2"),
        (BASE, {"candidate_column": "captoin"}, "candidate_column='captoin': there is no such column"),
        ([f"c{number}" for number in range(100_000)], {}, "and 99980 more"),
        (["9" * 5_000], {}, "image_column"),
    ],
)
def test_columns_that_are_missing_or_could_be_two(columns, options, message):
    with pytest.raises(InputError, match=message) as caught:
        find_columns(columns, RowOptions(**options), with_references=True)
    assert len(str(caught.value)) < 900


def test_numbered_references_may_have_gaps_but_one_is_needed(tmp_path):
    rows = [{"caption": "x", "reference_2": "y"}, {"caption": "x", "reference_1": "z"}, {"caption": "x"}]
    options = {"with_images": False, "with_references": True}
    inputs = inputs_of(write_jsonl(tmp_path / "p.jsonl", rows), **options)
    assert list(inputs.problems) == [2]
    assert inputs.problems[2].message.startswith("the row has no 'reference_1'; it has")
    (tmp_path / "b.csv").write_text("caption,reference_1,reference_2,language\nc,a,,de\nc,a,b,\n")
    inputs = inputs_of(tmp_path / "b.csv", **options)
    assert (inputs.references, inputs.languages) == ([["a"], ["a", "b"]], ["de", None])


LISTS = [f"[{'1' * 5_000}]", "[" * 100_000, f"[{'-' * 9_000}1]", "[a dog]", "['a' 'b']"]


@pytest.mark.parametrize("cell", LISTS)
def test_references_in_cells_of_text_are_json_lists_or_one_reference(tmp_path, cell):
    (tmp_path / "a.csv").write_text(f'caption,references\nc,"[""a"", ""b""]"\nc,"{cell}"\nc,\nc,a dog\n')
    inputs = inputs_of(tmp_path / "a.csv", with_images=False, with_references=True)
    assert inputs.references == [["a", "b"], None, None, ["a dog"]]
    assert list(inputs.problems) == [1] and "expected a JSON list" in str(inputs.problems[1])


@pytest.mark.parametrize("name", ["a.tsv", "a.json"])
def test_lists_of_references_may_be_as_python_writes_them(tmp_path, name):
    cell = str(["a dog's tail", 'a "red" kite'])
    if name == "a.tsv":  # of VLMEvalKit
        (tmp_path / name).write_text(f"index\tanswer\tprediction\n0\t{cell}\tc\n1\tone\tc\n")
    else:
        write_jsonl(tmp_path / name, [{"prediction": "c", "answer": text} for text in (cell, "one")])
    inputs = inputs_of(tmp_path / name, with_images=False, with_references=True)
    assert inputs.references == [["a dog's tail", 'a "red" kite'], ["one"]] and not inputs.problems


def test_names_of_images(tmp_path):
    (tmp_path / "deep").mkdir()
    coco = "COCO_val2014_000000000042.jpg"
    files = ["cat.jpg", "7.png", "7.txt", "two.jpg", "two.png", "deep/x.JPG", coco]
    for name in [*files, "0000005.png", "5_3.jpg", "009.png", "0009.jpg"]:
        (tmp_path / name).write_bytes(b"x")
    folder = ImageFolder(tmp_path)
    named = {"cat.jpg": ["cat.jpg", "cat", str(tmp_path / "cat.jpg")], "7.png": [7], "0000005.png": [5]}
    named |= {"deep/x.JPG": ["deep/x", r"deep\x.JPG"], coco: [42, "42", 42.0, "42.0"]}
    for found, images in named.items():
        assert [folder.find(image) for image in images] == [tmp_path / found] * len(images)
    assert folder.find(b"bytes") == b"bytes" and folder.find(None) is None
    for image, message in (
        ("two", "'two' could be any of two.jpg, two.png"),
        (9, r"could be any of 0009\.jpg, 009\.png"),
        ("05", "no such file"),
        ("Cat.JPG", r"no such file: .*Cat.JPG; .* has cat.jpg: write names as they are in that folder$"),
        (r"C:\photos\deep\x.JPG", r" has deep/x.JPG: write names as they are in that folder$"),
        ("/else/dog.jpg", r"on this machine, give the folder by images, and names that start there$"),
        (f"{tmp_path}/gone.png", r"no such file: .*gone.png$"),
        ("other/cat.jpg", "no such file"),
        ("x" * 5000, "cannot be looked up: File name too long"),
        ("https://example.org/cat.jpg", "is fetched only with allow_urls=True"),
    ):
        with pytest.raises(ImageError, match=message):
            folder.find(image)
    url = "https://example.org/a.jpg"
    assert ImageFolder(tmp_path, allow_urls=True).find(url) == url
    for name in ("none", "x" * 5000, "a\0b"):
        with pytest.raises(InputError, match="does not exist; expected the folder"):
            ImageFolder(tmp_path / name)


def test_stored_images_stay_encoded_and_their_paths_are_found(tmp_path):
    (tmp_path / "cat.jpg").write_bytes(b"x")
    stored = {"bytes": b"encoded", "path": "nowhere.jpg"}
    images = [stored, {"bytes": None, "path": "cat.jpg"}, {"bytes": None, "path": "dog.jpg"}, None]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    pq.write_table(pa.table({"image": pa.array(images, kind), "caption": ["c"] * 4}), tmp_path / "a.parquet")
    inputs = inputs_of(tmp_path / "a.parquet")
    assert list(inputs.images) == [stored, tmp_path / "cat.jpg", None, None]
    assert list(inputs.problems) == [2]
