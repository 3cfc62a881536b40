"""Row files: what is read is what is written, in every kind; what is wrong is told with its line."""

from __future__ import annotations

import csv
import gzip
import json
import math
import shutil
import weakref

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from capscore.errors import ImageError, InputError, ResultWriteError
from capscore.files.columns import find_columns, read_inputs
from capscore.files.image_folder import ImageFolder
from capscore.files.read import open_rows
from capscore.files.write import Writer, check_output, summary_path

ROWS = [
    {"image": "a.jpg", "caption": "Ein „Wort“, noch eins", "references": ["x", "y"], "n": 1},
    {"image": "b.jpg", "caption": 'say "hi"\nthere', "references": ["z"], "n": None},
    {"image": "c.jpg", "caption": "日本語", "references": [], "n": 3},
]


def write_jsonl(path, rows=ROWS):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def all_rows(source, size=2):
    return [row for chunk in source.chunks(size) for row in chunk.dicts()]


def copied(source, target, size=2):
    """Write all rows with a score that is their number, and close the result."""
    target = check_output(target, source)
    writer = Writer(target, source, {"mcs": float, "capscore_error": str})
    for chunk in source.chunks(size):
        numbers = [float(chunk.start + row) for row in range(len(chunk))]
        errors = [None if number else "broken" for number in numbers]
        writer.write(chunk, {"mcs": [number or None for number in numbers], "capscore_error": errors})
    writer.finish({"signatures": {"mcs": "mcs|w:2.5"}}, '{"rows": 3}\n')
    assert not list(target.parent.glob(".*.partial"))
    assert summary_path(target).read_text() == '{"rows": 3}\n'
    return target


# ----------------------------------------------------------------------- reading


@pytest.mark.parametrize("kind", ["csv", "tsv"])
def test_cells_longer_than_the_csv_module_takes_by_default(tmp_path, kind):
    before = csv.field_size_limit(131_072)  # another test may have raised it
    try:
        path, text = tmp_path / f"p.{kind}", "word " * 40_000
        path.write_text(f"id\n{text}\n", encoding="utf-8")
        assert all_rows(open_rows(path)) == [{"id": text}]
    finally:
        csv.field_size_limit(before)


def test_jsonl_lines_are_those_of_the_file_blank_ones_included(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text('\ufeff{"a": 1}\n\n   \n{"b": NaN}\n{"a": 3}', encoding="utf-8")
    source = open_rows(path)
    chunks = list(source.chunks(2))
    assert (source.n_rows, source.columns) == (3, ["a", "b"])
    assert [chunk.lines for chunk in chunks] == [[1, 4], [5]]
    assert [chunk.start for chunk in chunks] == [0, 2]
    assert chunks[0].values("a") == [1, None]
    assert math.isnan(chunks[0].values("b")[1])
    assert source.place(chunks[1], 0) == f"{path}, line 5 (row 2 counted from 0)"


def test_json_is_a_list_or_lines_whatever_its_name(tmp_path):
    as_list, as_lines = tmp_path / "list.jsonl", tmp_path / "lines.json"
    as_list.write_text(json.dumps(ROWS))
    write_jsonl(as_lines)
    assert all_rows(open_rows(as_list)) == ROWS
    assert all_rows(open_rows(as_lines)) == ROWS
    assert (
        open_rows(as_list).place(next(open_rows(as_list).chunks(3)), 2) == f"{as_list}, row 2 counted from 0"
    )


def test_csv_records_begin_at_their_line(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text('\ufeffimage,caption\r\na,"two\r\nlines"\r\n\r\nb,"x, y"\r\n', encoding="utf-8")
    (chunk,) = open_rows(path).chunks(10)
    assert chunk.lines == [2, 5]
    assert chunk.rows == [{"image": "a", "caption": "two\r\nlines"}, {"image": "b", "caption": "x, y"}]


def test_some_columns(tmp_path):
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "a.parquet")
    datasets.Dataset.from_list(ROWS).save_to_disk(tmp_path / "saved")
    for name in ("a.parquet", "saved"):
        (chunk,) = open_rows(tmp_path / name).chunks(3, ["image"])
        assert chunk.dicts() == [{"image": row["image"]} for row in ROWS]


def test_separators(tmp_path):
    (tmp_path / "a.tsv").write_text("image\tcaption\na\tx, y; z\n")
    (tmp_path / "b.csv").write_text("image;caption\na;x, y\n")
    assert all_rows(open_rows(tmp_path / "a.tsv")) == [{"image": "a", "caption": "x, y; z"}]
    assert all_rows(open_rows(tmp_path / "b.csv")) == [{"image": "a", "caption": "x, y"}]


def test_gzip(tmp_path):
    path = tmp_path / "p.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"a": 1}\n{"a": 2}\n'))
    assert all_rows(open_rows(path)) == [{"a": 1}, {"a": 2}]
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(InputError, match="cannot be read after line"):
        open_rows(path)


@pytest.mark.parametrize(
    ("name", "content", "error", "message"),
    [
        ("a.jsonl", b"", InputError, r"a.jsonl is empty \(0 bytes\)"),
        ("a.jsonl", b"\n \n", InputError, "a.jsonl has no rows"),
        ("a.json", b"[]", InputError, "a.json has no rows"),
        ("a.csv", b"image,caption\n", InputError, "a.csv has no rows"),
        ("a.jsonl", b'{"a": 1}\n\n{"a": 1,}\n', InputError, "a.jsonl, line 3: not valid JSON"),
        ("a.jsonl", b'{"a": 1}\n"text"\n', InputError, "line 2: expected an object"),
        ("a.json", b'[{"a": 1},\n {"a" 2}]', InputError, "a.json: not valid JSON.*line 2 column 7"),
        ("a.json", b'[{"a": 1}, 3]', InputError, "element 1 counted from 0: expected an object"),
        ("a.jsonl", b'{"a": ' + b"[" * 100_000, InputError, "not valid JSON"),
        (
            "a.jsonl",
            b'{"a": 1}\n{"a": "caf\xe9"}\n',
            InputError,
            "line 2 is no text in UTF-8",
        ),
        ("a.csv", "image,caption\n".encode("utf-16"), InputError, "a.csv, line 1 is no text in UTF-8"),
        ("a.csv", "image,caption\n".encode("utf-16-le"), InputError, "a.csv, line 1 is no text in UTF-8"),
        ("a.csv", b"image,caption\na,A cat, asleep\n", InputError, "line 2: 3 cells, but the header has 2"),
        ("a.csv", b'image,caption\na,"open\n', InputError, "line 2: not valid CSV: unexpected end of data"),
        ("a.tsv", b'image\tcaption\na\t"Stop" sign\n', InputError, "line 2: not valid TSV"),
        ("a.csv", b"image,image\na,b\n", InputError, "a.csv': two columns have the name 'image'"),
        ("a.xlsx", b"PK\x03\x04", InputError, "a.xlsx' is a file of an unknown kind"),
        ("a.parquet", b"PAR1 cut", InputError, "a.parquet is not a Parquet file that can be read"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(tmp_path, name, content, error, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(error, match=message):
        open_rows(path)


def test_missing_file_folder_and_splits(tmp_path):
    write_jsonl(tmp_path / "preds.jsonl")
    with pytest.raises(InputError, match=r"pred.jsonl': no such file"):
        open_rows(tmp_path / "pred.jsonl")
    with pytest.raises(InputError, match="is a folder with 0 photos and no saved data set"):
        open_rows(tmp_path)
    with pytest.raises(InputError, match="goes with a saved data set"):
        open_rows(tmp_path / "preds.jsonl", split="test")
    rows = datasets.Dataset.from_list([{"a": 1}])
    rows.save_to_disk(tmp_path / "one")
    datasets.DatasetDict({"train": rows, "test": datasets.Dataset.from_list([{"a": 2}])}).save_to_disk(
        tmp_path / "two"
    )
    with pytest.raises(InputError, match=r"has the splits \(none\)"):
        open_rows(tmp_path / "one", split="test")
    with pytest.raises(InputError, match=r"split: .*two has the splits train, test; choose one"):
        open_rows(tmp_path / "two")
    with pytest.raises(InputError, match=r"split='val': .* has the splits train, test"):
        open_rows(tmp_path / "two", split="val")
    assert all_rows(open_rows(tmp_path / "two", split="test")) == [{"a": 2}]
    datasets.DatasetDict({"test": rows}).save_to_disk(tmp_path / "single")
    assert all_rows(open_rows(tmp_path / "single")) == [{"a": 1}]


# ----------------------------------------------------------------------- writing


def test_only_what_is_a_result_is_overwritten(tmp_path):
    source = open_rows(write_jsonl(tmp_path / "in.jsonl"))
    rows = datasets.Dataset.from_list([{"a": 1}])
    datasets.DatasetDict({"test": rows}).save_to_disk(tmp_path / "splits")
    with pytest.raises(InputError, match="exists and is not a result of this kind"):
        check_output(tmp_path / "splits", source, force=True)
    rows.save_to_disk(tmp_path / "one")
    assert check_output(tmp_path / "one", source, force=True) == tmp_path / "one"


def test_a_data_set_that_cannot_be_replaced_stays(tmp_path, monkeypatch):
    source = open_rows(write_jsonl(tmp_path / "in.jsonl"))
    target = copied(source, tmp_path / "out")
    before = {path.name: path.read_bytes() for path in target.iterdir()}
    writer = Writer(check_output(target, source, force=True), source, {})
    shutil.rmtree(next(tmp_path.glob(".*.partial")))  # so that its folder cannot be renamed
    monkeypatch.setattr("capscore.files.write._describe_data_set", lambda *arguments: None)
    with pytest.raises(ResultWriteError, match="could not be written"):
        writer.finish({}, "{}")
    writer.stop()
    assert {path.name: path.read_bytes() for path in target.iterdir()} == before


def test_a_schema_is_found_chunk_by_chunk(tmp_path):
    source = open_rows(write_jsonl(tmp_path / "in.jsonl", [{"n": number} for number in range(50_000)]))
    before = source.chunks
    alive = []

    def chunks(size, columns=None):
        for chunk in before(size, columns):
            alive.append(weakref.ref(chunk))
            yield chunk
            del chunk
            assert sum(reference() is not None for reference in alive) <= 2

    source.chunks = chunks
    assert str(source.schema().field("n").type) == "int64"


def test_every_text_kind_keeps_its_columns_and_adds_the_new_ones(tmp_path):
    source = open_rows(write_jsonl(tmp_path / "in.jsonl"))
    expected = [
        {**ROWS[0], "mcs": None, "capscore_error": "broken"},
        {**ROWS[1], "mcs": 1.0, "capscore_error": None},
        {**ROWS[2], "mcs": 2.0, "capscore_error": None},
    ]
    lines = copied(source, tmp_path / "out1.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == expected
    assert list(json.loads(lines[0])) == ["image", "caption", "references", "n", "mcs", "capscore_error"]
    assert json.loads(copied(source, tmp_path / "out2.json").read_text(encoding="utf-8")) == expected
    with open(copied(source, tmp_path / "out3.csv"), newline="", encoding="utf-8") as file:
        cells = list(csv.DictReader(file))
    assert cells[1] == {
        "image": "b.jpg",
        "caption": 'say "hi"\nthere',
        "references": '["z"]',
        "n": "",
        "mcs": "1.0",
        "capscore_error": "",
    }
    assert all_rows(open_rows(tmp_path / "out3.csv")) == cells


def test_arrow_kinds_from_text(tmp_path):
    source = open_rows(write_jsonl(tmp_path / "in.jsonl"))
    table = pq.read_table(copied(source, tmp_path / "out1.parquet", size=1))
    assert table.column("mcs").to_pylist() == [None, 1.0, 2.0]
    assert table.drop_columns(["mcs", "capscore_error"]).to_pylist() == ROWS
    about = pq.ParquetFile(tmp_path / "out1.parquet").metadata.metadata[b"capscore"]
    assert json.loads(about) == {"signatures": {"mcs": "mcs|w:2.5"}}
    saved = datasets.load_from_disk(str(copied(source, tmp_path / "out2")))
    assert saved.to_list() == table.to_pylist()
    assert json.loads(saved.info.description) == {"signatures": {"mcs": "mcs|w:2.5"}}


def test_types_that_come_late_or_clash(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [{"x": None}, {"x": 1}, {"x": 2.5}, {"x": float("nan")}])
    assert open_rows(path).schema() == pa.schema([("x", pa.float64())])
    clash = write_jsonl(tmp_path / "b.jsonl", [{"x": 1}, {"x": "one"}])
    with pytest.raises(InputError, match=r"b.jsonl': the column 'x' holds values.*write a .jsonl"):
        Writer(tmp_path / "o.parquet", open_rows(clash), {"mcs": float})


def test_parquet_and_data_set_keep_schema_and_images(tmp_path):
    photo = tmp_path / "p.png"
    Image.new("RGB", (4, 3), (255, 0, 0)).save(photo)
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "caption": datasets.Value("large_string"),
            "kind": datasets.ClassLabel(names=["x", "y"]),
        }
    )
    stored = {"bytes": photo.read_bytes(), "path": "p.png"}
    rows = datasets.Dataset.from_list(
        [{"image": stored, "caption": str(n), "kind": n % 2} for n in range(5)], features=features
    )
    rows.to_parquet(tmp_path / "in.parquet")
    rows.save_to_disk(tmp_path / "in")
    for source, names in (("in.parquet", ("o1.parquet", "o2")), ("in", ("o3.parquet", "o4"))):
        source = open_rows(tmp_path / source)
        for name in names:
            target = copied(source, tmp_path / name)
            if name.endswith(".parquet"):
                result = datasets.Dataset.from_parquet(str(target), cache_dir=str(tmp_path / f"c{name}"))
            else:
                result = datasets.load_from_disk(str(target))
            assert result.features == {
                **features,
                "mcs": datasets.Value("float64"),
                "capscore_error": datasets.Value("string"),
            }
            assert result.cast_column("image", datasets.Image(decode=False))["image"][:] == [stored] * 5
            assert result["mcs"][:] == [None, 1.0, 2.0, 3.0, 4.0]
        with pytest.raises(InputError, match=r"the column 'image' of .* holds bytes.*write a .parquet file"):
            check_output(tmp_path / "o.jsonl", source)


cell = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    values=st.lists(
        st.fixed_dictionaries({"a": cell, "b": cell, "c": st.lists(cell, max_size=3)}), min_size=1, max_size=7
    ),
    size=st.integers(1, 4),
    suffix=st.sampled_from([".jsonl", ".json", ".csv", ".tsv", ".parquet"]),
)
def test_any_text_comes_back_whatever_the_chunks(tmp_path_factory, values, size, suffix):
    folder = tmp_path_factory.mktemp("any")
    path = copied(open_rows(write_jsonl(folder / "in.jsonl", values)), folder / f"out{suffix}", size)
    back = all_rows(open_rows(path))
    if suffix in (".csv", ".tsv"):
        back = [{**row, "c": json.loads(row["c"])} for row in back]
    assert [{key: row[key] for key in "abc"} for row in back] == values


def test_half_a_surrogate_pair_is_written_as_it_was(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"caption": "x\\ud800"}\n')
    target = copied(open_rows(path), tmp_path / "b.jsonl")
    assert target.read_text() == '{"caption": "x\\ud800", "mcs": null, "capscore_error": "broken"}\n'


@pytest.mark.parametrize("name", ["o.jsonl", "o.json", "o.csv", "o.parquet", "o"])
def test_a_stop_leaves_nothing(tmp_path, name):
    source = open_rows(write_jsonl(tmp_path / "in.jsonl"))
    target = check_output(tmp_path / name, source)
    writer = Writer(target, source, {"mcs": float})
    writer.write(next(source.chunks(2)), {"mcs": [0.5, 1.5]})
    writer.stop()
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


@pytest.mark.parametrize("name", ["o.jsonl", "o.json", "o.csv", "o.parquet", "o"])
def test_a_result_that_is_replaced(tmp_path, name):
    source = open_rows(write_jsonl(tmp_path / "in.jsonl"))
    target = copied(source, tmp_path / name)
    with pytest.raises(InputError, match="exists; force=True overwrites it"):
        check_output(target, source)
    before = len(list(tmp_path.iterdir()))
    check_output(target, source, force=True)
    writer = Writer(target, source, {"score": float})
    for chunk in source.chunks(3):
        writer.write(chunk, {"score": [9.0] * 3})
    writer.finish({}, "{}\n")
    assert [float(row["score"]) for row in all_rows(open_rows(target))] == [9.0, 9.0, 9.0]
    assert len(list(tmp_path.iterdir())) == before


def test_what_cannot_be_the_output(tmp_path):
    path = write_jsonl(tmp_path / "in.jsonl")
    source = open_rows(path)
    with pytest.raises(InputError, match="is the input"):
        check_output(tmp_path / "x" / ".." / "in.jsonl", source, force=True)
    (tmp_path / "link.jsonl").symlink_to(path)
    with pytest.raises(InputError, match="is the input"):
        check_output(tmp_path / "link.jsonl", source, force=True)
    with pytest.raises(InputError, match=r".xlsx files cannot be written"):
        check_output(tmp_path / "o.xlsx", source)
    (tmp_path / "full.jsonl").symlink_to("/dev/full")
    with pytest.raises(InputError, match="/dev/full exists and is not a result"):
        check_output(tmp_path / "full.jsonl", source, force=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "photo.jpg").write_bytes(b"x")
    with pytest.raises(InputError, match="is not a result of this kind"):
        check_output(tmp_path / "mine", source, force=True)
    with pytest.raises(InputError, match="cannot be written"):
        check_output(path / "o.jsonl", source)
    assert check_output(tmp_path / "new" / "deep" / "o.jsonl", source).parent.is_dir()


# ----------------------------------------------------------------------- columns


def test_familiar_columns():
    found = find_columns(["id", "file_name", "prediction", "refs", "lang"], with_references=True)
    assert (found.image, found.candidate, found.references, found.language) == (
        "file_name",
        "prediction",
        ("refs",),
        "lang",
    )
    found = find_columns(["img", "hyp", "reference10", "reference2", "reference1"], with_references=True)
    assert found.references == ("reference1", "reference2", "reference10")
    assert find_columns(["image", "caption", "refs", "references"]).references == ()
    assert find_columns(["image", "caption", "x"], references="x", with_references=True).references == ("x",)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            ["image", "caption", "hyp"],
            "candidate_column: the columns caption and hyp could each be meant",
        ),
        (
            ["image", "img", "caption"],
            "image_column: the columns image and img could each be meant; choose one",
        ),
        (["image", "captions"], "candidate_column: .*found 'image', 'captions'"),
        (["image", "caption", "refs", "reference_1"], "refs and reference_1 could each be meant"),
        (
            ["image", "wert"],
            "candidate_column: no column .* expected one named caption, candidate, prediction, hyp",
        ),
    ],
)
def test_columns_that_are_missing_or_could_be_two(columns, message):
    with pytest.raises(InputError, match=message):
        find_columns(columns, with_references=True)


def test_an_id_is_the_name_of_a_photo_where_nothing_else_is():
    assert find_columns(["image_id", "caption"]).image == "image_id"
    assert find_columns(["image_id", "caption", "img"]).image == "img"


def test_numbered_references_may_have_gaps_but_one_is_needed(tmp_path):
    rows = [{"caption": "x", "reference_2": "y"}, {"caption": "x", "reference_1": "z"}, {"caption": "x"}]
    source = open_rows(write_jsonl(tmp_path / "p.jsonl", rows))
    names = find_columns(source.columns, with_images=False, with_references=True)
    (chunk,) = source.chunks(5)
    problems = read_inputs(chunk, source, names, ImageFolder(tmp_path)).problems
    assert list(problems) == [2] and problems[2].message.startswith("the row has no 'reference_1'; it has")


@pytest.mark.parametrize(
    ("image", "hint"),
    [
        ("gone.png", "; images names the folder that names start from"),
        ("{0}/gone.png", "gone.png"),
    ],
)
def test_an_image_that_is_missing_says_which_option_names_the_folder(tmp_path, image, hint):
    (tmp_path / "a.jpg").write_bytes(b"x")
    with pytest.raises(ImageError) as error:
        ImageFolder(tmp_path).find(image.format(tmp_path))
    assert str(error.value).endswith(hint.format(tmp_path))


def test_a_named_column_that_is_not_there():
    with pytest.raises(InputError, match=r"candidate_column='captoin': there is no such column"):
        find_columns(["image", "caption"], candidate="captoin")


def test_references_in_cells_of_text(tmp_path):
    (tmp_path / "x").write_bytes(b"an image")
    path = tmp_path / "a.csv"
    path.write_text('image,caption,references\nx,c,"[""a"", ""b""]"\nx,c,a bare text\nx,c,\n')
    source = open_rows(path)
    fields = find_columns(source.columns, with_references=True)
    inputs = read_inputs(next(source.chunks(3)), source, fields, ImageFolder(tmp_path))
    assert inputs.references == [["a", "b"], None, None]
    assert (
        inputs.problems[1]
        .message_with_field()
        .startswith("references: the cell holds 'a bare text'; expected a JSON list")
    )
    numbered = tmp_path / "b.csv"
    numbered.write_text("image,caption,reference_1,reference_2,language\nx,c,a,,de\nx,c,a,b,\n")
    source = open_rows(numbered)
    inputs = read_inputs(
        next(source.chunks(3)),
        source,
        find_columns(source.columns, with_references=True),
        ImageFolder(tmp_path),
    )
    assert (inputs.references, inputs.languages) == ([["a"], ["a", "b"]], ["de", None])


# ------------------------------------------------------------------------ images


def test_image_names_and_ids(tmp_path):
    (tmp_path / "deep").mkdir()
    for name in ("cat.jpg", "7.png", "7.txt", "two.jpg", "two.png", "deep/x.JPG"):
        (tmp_path / name).write_bytes(b"x")
    folder = ImageFolder(tmp_path)
    assert folder.find("cat.jpg") == tmp_path / "cat.jpg"
    assert folder.find("cat") == tmp_path / "cat.jpg"
    assert folder.find(7) == tmp_path / "7.png"
    assert folder.find("deep/x") == tmp_path / "deep" / "x.JPG"
    assert folder.find(str(tmp_path / "cat.jpg")) == tmp_path / "cat.jpg"
    assert folder.find(b"bytes") == b"bytes"
    assert folder.find(None) is None
    with pytest.raises(ImageError, match=r"'two' could be any of two.jpg, two.png"):
        folder.find("two")
    with pytest.raises(ImageError, match=r"no such file: .*Cat.JPG"):
        folder.find("Cat.JPG")
    with pytest.raises(ImageError, match="no such file"):
        folder.find("other/cat.jpg")
    with pytest.raises(ImageError, match="cannot be looked up: File name too long"):
        folder.find("x" * 5000)
    with pytest.raises(ImageError, match="is fetched only with allow_urls=True"):
        folder.find("https://example.org/cat.jpg")
    assert (
        ImageFolder(tmp_path, allow_urls=True).find("https://example.org/a.jpg")
        == "https://example.org/a.jpg"
    )
    with pytest.raises(InputError, match="does not exist; expected the folder"):
        ImageFolder(tmp_path / "none")


def test_stored_images_stay_encoded_and_their_paths_are_found(tmp_path):
    (tmp_path / "cat.jpg").write_bytes(b"x")
    images = [{"bytes": b"encoded", "path": "nowhere.jpg"}, {"bytes": None, "path": "cat.jpg"},
              {"bytes": None, "path": "dog.jpg"}, None]  # fmt: skip
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = pa.table({"image": pa.array(images, kind), "caption": ["c"] * 4})
    pq.write_table(table, tmp_path / "a.parquet")
    source = open_rows(tmp_path / "a.parquet")
    inputs = read_inputs(next(source.chunks(4)), source, find_columns(source.columns), ImageFolder(tmp_path))
    assert list(inputs.images) == [images[0], tmp_path / "cat.jpg", None, None]
    assert list(inputs.problems) == [2]


def test_rows_with_large_images_come_in_smaller_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr("capscore.files.row_source.CHUNK_BYTES", 25_000)
    table = pa.table({"image": [bytes([n]) * 10_000 for n in range(10)], "caption": ["c"] * 10})
    pq.write_table(table, tmp_path / "a.parquet", compression=None, use_dictionary=False)
    assert [len(chunk) for chunk in open_rows(tmp_path / "a.parquet").chunks(1024)] == [2] * 5


def test_the_result_of_two_programs_is_that_of_the_last(tmp_path):
    source = open_rows(_jsonl(tmp_path, 4))
    writers = [Writer(tmp_path / "out.jsonl", source, {"mcs": float}) for _ in range(2)]
    chunk = next(source.chunks(4))
    for score, writer in enumerate(writers):
        writer.write(chunk, {"mcs": [float(score)] * 4})
    for writer in writers:
        writer.finish({}, "{}")
        writer.stop()
    assert [row["mcs"] for row in all_rows(open_rows(tmp_path / "out.jsonl"))] == [1.0] * 4
    assert not list(tmp_path.glob(".*"))


def _jsonl(folder, count):
    path = folder / "in.jsonl"
    path.write_text("".join(f'{{"image": "{n}.jpg", "caption": "c{n}"}}\n' for n in range(count)))
    return path
