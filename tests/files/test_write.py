"""Files that are written: whole or not at all, without formulas, with every value that a kind can hold."""

from __future__ import annotations

import csv
import datetime
import decimal
import json
import weakref

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from capscore.errors import InputError, ResultWriteError
from capscore.files.read import open_rows, with_formula
from capscore.files.write import Writer, check_output, json_bytes, whole_file, without_formula, write_text


def jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return open_rows(path)


def written(source, path, **columns):
    """The result of all rows, with the same value of a new column for each."""
    target = check_output(path, source)
    writer = Writer(target, source, {name: type(value) for name, value in columns.items()})
    for chunk in source.chunks(2):
        writer.write(chunk, {name: [value] * len(chunk) for name, value in columns.items()})
    writer.finish({"signatures": {"mcs": "mcs|w:2.5"}}, "{}")
    return target


def rows_of(path):
    return [row for chunk in open_rows(path).chunks(9) for row in chunk.dicts()]


# ---- any file ----


def test_a_file_has_its_name_when_it_is_whole_and_a_link_stays_a_link(tmp_path):
    path = tmp_path / "new" / "out.txt"
    with whole_file(path, make_folders=True) as file:
        file.write(b"half")
        assert not path.exists()
    assert path.read_bytes() == b"half"
    (tmp_path / "link.txt").symlink_to(path)
    write_text(tmp_path / "link.txt", "τ")
    assert (tmp_path / "link.txt").is_symlink() and path.read_text(encoding="utf-8") == "τ"
    assert [entry.name for entry in path.parent.iterdir()] == ["out.txt"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_was_there_stays_when_the_writing_breaks_off(tmp_path, error):
    path = tmp_path / "out.txt"
    path.write_text("before")
    with pytest.raises(error), whole_file(path) as file:
        file.write(b"half")
        raise error
    assert path.read_text() == "before"
    with pytest.raises(ResultWriteError, match="No such file"), whole_file(tmp_path / "new" / "out.txt"):
        pass
    with pytest.raises(ResultWriteError, match=r"the report '.*' could not be written"):
        write_text(tmp_path, "text", "report")
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.txt"]


# ---- what is overwritten ----


def test_only_what_is_a_result_is_overwritten(tmp_path):
    source = jsonl(tmp_path / "in.jsonl", [{"a": 1}])
    rows = datasets.Dataset.from_list([{"a": 1}])
    datasets.DatasetDict({"test": rows}).save_to_disk(tmp_path / "splits")
    rows.save_to_disk(tmp_path / "one")
    assert check_output(tmp_path / "one", source, force=True) == tmp_path / "one"
    assert check_output(tmp_path / "new" / "deep" / "o.jsonl", source).parent.is_dir()
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "in.jsonl")
    (tmp_path / "full.jsonl").symlink_to("/dev/full")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "photo.jpg").write_bytes(b"x")
    for name, message in (
        ("splits", "exists and is not a result of this kind"),
        ("mine", "exists and is not a result of this kind"),
        ("full.jsonl", r"/dev/full exists and is not a result|Permission denied"),
        ("new/../in.jsonl", "is the input"),
        ("link.jsonl", "is the input"),
        ("o.xlsx", "xlsx files cannot be written"),
        ("in.jsonl/o.jsonl", "cannot be written"),
        ("x" * 300 + ".jsonl", "cannot be written"),
    ):
        with pytest.raises(InputError, match=message):
            check_output(tmp_path / name, source, force=True)


def test_the_result_of_two_programs_is_that_of_the_last(tmp_path):
    source = jsonl(tmp_path / "in.jsonl", [{"a": n} for n in range(4)])
    writers = [Writer(tmp_path / "out.jsonl", source, {"mcs": float}) for _ in range(2)]
    chunk = next(source.chunks(4))
    for score, writer in enumerate(writers):
        writer.write(chunk, {"mcs": [float(score)] * 4})
    for writer in writers:
        writer.finish({}, "{}")
        writer.stop()
    assert [row["mcs"] for row in rows_of(tmp_path / "out.jsonl")] == [1.0] * 4
    assert not list(tmp_path.glob(".*"))


# ---- types of columns ----


def test_a_schema_is_found_chunk_by_chunk(tmp_path):
    source = jsonl(tmp_path / "in.jsonl", [{"n": number} for number in range(50_000)])
    before, alive = source.chunks, []

    def chunks(size, columns=None):
        for chunk in before(size, columns):
            alive.append(weakref.ref(chunk))
            yield chunk
            del chunk
            assert sum(reference() is not None for reference in alive) <= 2

    source.chunks = chunks
    assert str(source.schema().field("n").type) == "int64"


def test_types_that_come_late_or_clash(tmp_path):
    late = jsonl(tmp_path / "a.jsonl", [{"x": None}, {"x": 1}, {"x": 2.5}, {"x": float("nan")}])
    assert late.schema() == pa.schema([("x", pa.float64())])
    for values in ([1, "one"], ["\ud800"], [2**64], [10**400]):
        source = jsonl(tmp_path / "b.jsonl", [{"x": value} for value in values])
        with pytest.raises(InputError, match=r"(?s)b\.jsonl': the column 'x' holds values.*write a \.jsonl"):
            Writer(tmp_path / "o.parquet", source, {"mcs": float})


def test_what_the_numbers_depend_on_is_kept_where_a_kind_has_room(tmp_path):
    source, about = jsonl(tmp_path / "in.jsonl", [{"a": 1}]), {"signatures": {"mcs": "mcs|w:2.5"}}
    parquet, saved = (written(source, tmp_path / name, mcs=0.5) for name in ("o1.parquet", "o2"))
    assert json.loads(pq.ParquetFile(parquet).metadata.metadata[b"capscore"]) == about
    assert json.loads(datasets.load_from_disk(str(saved)).info.description) == about


def test_parquet_and_data_set_keep_features_and_images(tmp_path):
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
    rows = [{"image": stored, "caption": str(n), "kind": n % 2} for n in range(5)]
    data = datasets.Dataset.from_list(rows, features=features)
    data.to_parquet(tmp_path / "in.parquet")
    data.save_to_disk(tmp_path / "in")
    for index, name in enumerate(("in.parquet", "in")):
        source = open_rows(tmp_path / name)
        target = written(source, tmp_path / f"o{index}.parquet", mcs=0.5)
        results = [
            datasets.Dataset.from_parquet(str(target), cache_dir=str(tmp_path / f"c{index}")),
            datasets.load_from_disk(str(written(source, tmp_path / f"d{index}", mcs=0.5))),
        ]
        for result in results:
            assert result.features == {**features, "mcs": datasets.Value("float64")}
            assert result.cast_column("image", datasets.Image(decode=False))["image"][:] == [stored] * 5
            assert result["kind"][:] == [0, 1, 0, 1, 0] and result["mcs"][:] == [0.5] * 5
        with pytest.raises(InputError, match=r"the column 'image' of .* holds bytes.*write a .parquet file"):
            check_output(tmp_path / "o.jsonl", source)


@pytest.mark.parametrize(
    "noted", [b"{", b"[]", b'{"info": 3}', b'{"info": {"features": [1]}}', b"[" * 100_000]
)
def test_damaged_notes_of_features(tmp_path, noted):
    table = pa.table({"caption": ["x", "y"]}).replace_schema_metadata({b"huggingface": noted})
    pq.write_table(table, tmp_path / "in.parquet")
    target = written(open_rows(tmp_path / "in.parquet"), tmp_path / "out.parquet", mcs=0.5)
    assert pq.read_table(target).column_names == ["caption", "mcs"]


# ---- columns that nobody asked for: whole to Parquet, readable to JSONL and CSV ----


def text_of(*data: bytes) -> pa.Array:
    """A text column of any bytes, which Arrow does not check."""
    ends = [sum(map(len, data[:number])) for number in range(len(data) + 1)]
    offsets = pa.array(ends, pa.int32()).buffers()[1]
    return pa.Array.from_buffers(pa.string(), len(data), [None, offsets, pa.py_buffer(b"".join(data))])


BAD = text_of(b"\xff\xfe", b"fine \xe2\x98\x83")
ENDS = pa.array([0, 1, 2], pa.int32())
UUID = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16, None], pa.binary(16)))
NAN = float("nan")
DATES = pa.struct([("a", pa.list_(pa.date32()))])
# column → what JSONL holds of its first value (of the second: null); None where a text file cannot hold it
COLUMNS = {
    "date": (pa.array([datetime.date(2020, 1, 2), None]), "2020-01-02"),
    "year 2.9 million": (pa.array([2**30, None], pa.date32()), "<value out of range: 1073741824>"),
    "nanoseconds": (
        pa.array([1234567890123456789, None], pa.timestamp("ns")),
        "2009-02-13T23:31:30.123456789",
    ),
    "duration": (pa.array([90, None], pa.duration("s")), "0:01:30"),
    "long duration": (pa.array([2**62, None], pa.duration("s")), "4611686018427387904"),
    "decimal": (pa.array([decimal.Decimal("1.20"), None]), "1.20"),
    "struct": (pa.array([{"a": [1.0, NAN]}, None]), {"a": [1.0, None]}),
    "dates inside": (pa.array([{"a": [2**30]}, None], DATES), {"a": ["<value out of range: 1073741824>"]}),
    "map": (pa.array([[("k", 1.0)], None], pa.map_(pa.string(), pa.float64())), [["k", 1.0]]),
    "dictionary": (pa.array(["x", None]).dictionary_encode(), "x"),
    "not UTF-8": (BAD, "\\xff\\xfe"),
    "list not UTF-8": (pa.ListArray.from_arrays(ENDS, BAD), ["\\xff\\xfe"]),
    "dictionary not UTF-8": (
        pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), BAD),
        "\\xff\\xfe",
    ),
    "uuid": (UUID, "30303030-3030-3030-3030-303030303030"),
    "bytes": (pa.array([b"\xff", None]), None),
    "bytes in a struct": (pa.array([{"a": b"\xff"}, None]), None),
    "bytes in a dictionary": (pa.array([b"\xff", None]).dictionary_encode(), None),
    "a view of bytes": (pa.array([b"\xff", None], pa.binary_view()), None),
}


def not_json(name):
    raise AssertionError(f"{name} is not JSON")


@pytest.mark.parametrize("name", COLUMNS)
def test_values_of_every_type_pass_through(name, tmp_path):
    column, expected = COLUMNS[name]
    pq.write_table(pa.table({"caption": ["x", "y"], "extra": column}), tmp_path / "in.parquet")
    source = open_rows(tmp_path / "in.parquet")
    table = pq.read_table(written(source, tmp_path / "out.parquet", capscore_error="bad \udcff"))
    before = pq.read_table(tmp_path / "in.parquet").column("extra").combine_chunks()
    after = table.column("extra").combine_chunks()
    # NaN equals NaN in what is printed, and text that is not UTF-8 cannot be printed
    assert after.type == column.type and (after.equals(before) or str(after) == str(before))
    assert table.column("capscore_error").to_pylist() == ["bad \\udcff"] * 2
    if expected is None:
        for suffix in ("jsonl", "json", "csv"):
            with pytest.raises(InputError, match=r"'extra' of .* holds bytes.*write a \.parquet file"):
                check_output(tmp_path / f"o.{suffix}", source)
        return
    lines = written(source, tmp_path / "o1.jsonl").read_text(encoding="utf-8").splitlines()
    values = [json.loads(line, parse_constant=not_json)["extra"] for line in lines]
    fine = ["fine ☃"] if name.startswith("list") else "fine ☃"
    assert values == [expected, fine if "UTF" in name else None]
    whole = json.loads(written(source, tmp_path / "o2.json").read_text(encoding="utf-8"))
    assert [row["extra"] for row in whole] == values
    with open(written(source, tmp_path / "o3.csv"), encoding="utf-8", newline="") as file:
        cells = [row["extra"] for row in csv.DictReader(file)]
    texts = [value if isinstance(value, str) else json_bytes(value).decode() for value in values]
    assert cells == ["" if text == "null" else text for text in texts]


def test_numbers_that_json_lacks(tmp_path):
    (tmp_path / "in.jsonl").write_text('{"a": NaN, "b": [{"c": -Infinity}], "d": 1e999, "e": 1.5}\n')
    source = open_rows(tmp_path / "in.jsonl")
    row = json.loads(written(source, tmp_path / "o.jsonl").read_text(), parse_constant=not_json)
    assert row == {"a": None, "b": [{"c": None}], "d": None, "e": 1.5}
    assert rows_of(written(source, tmp_path / "o2.csv")) == [
        {"a": "NaN", "b": '[{"c": null}]', "d": "Infinity", "e": "1.5"}
    ]
    assert json_bytes({"a": b"\xff", "b": {1}, "c": (NAN,)}) == b'{"a": "\\\\xff", "b": "{1}", "c": [null]}'


def test_a_row_whose_only_cell_is_empty_is_still_a_row(tmp_path):
    rows = [{"caption": text} for text in ("x", "", "y")]
    for suffix in ("csv", "tsv"):
        assert rows_of(written(jsonl(tmp_path / "a.jsonl", rows), tmp_path / f"o{suffix}.{suffix}")) == rows


def test_half_a_surrogate_pair_is_written_as_it_was(tmp_path):
    source = jsonl(tmp_path / "a.jsonl", [{"caption": "x\ud800"}])
    assert written(source, tmp_path / "b.jsonl").read_text() == '{"caption": "x\\ud800"}\n'


def test_a_data_set_says_which_type_it_cannot_hold(tmp_path):
    for name, works in (("date", True), ("map", False), ("uuid", False), ("not UTF-8", True)):
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table({"extra": COLUMNS[name][0]}), path)
        if works:
            assert written(open_rows(path), tmp_path / name).is_dir()
        else:
            with pytest.raises(InputError, match="no data set can hold"):
                check_output(tmp_path / name, open_rows(path))


def test_text_that_is_not_utf_8_is_never_taken_for_a_caption(tmp_path):
    pq.write_table(pa.table({"caption": BAD}), tmp_path / "in.parquet")
    (chunk,) = open_rows(tmp_path / "in.parquet").chunks(2)
    assert chunk.values("caption") == [b"\xff\xfe", "fine ☃"]


# ---- cells that a spreadsheet would run ----

RUN = [
    "=1+1",
    '=HYPERLINK("http://x")',
    "+1+1",
    "-1+1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "＝1+1",
    "=",
    "-",
]
STAY = ["A cat.", "a=b", "", "'", "'tis", "-0.5", "+7", "-1e-9", "-.5", "1", "-Infinity", " =1"]


@given(st.text("'=+-@\t\r\n1.a＝", max_size=8))
def test_every_cell_comes_back(cell):
    assert with_formula(without_formula(cell)) == cell


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_a_table_holds_no_formula_and_is_read_as_it_was(tmp_path, suffix):
    assert [without_formula(cell) for cell in RUN] == [f"'{cell}" for cell in RUN]
    assert [without_formula(f"'{cell}") for cell in RUN] == [f"''{cell}" for cell in RUN]
    assert [without_formula(cell) for cell in STAY] == STAY
    rows = [{"caption": cell, "=cmd()": cell} for cell in [*RUN, *STAY, *(f"'{cell}" for cell in RUN)]]
    first = written(jsonl(tmp_path / "in.jsonl", rows), tmp_path / f"one.{suffix}", one=-0.25)
    second = written(open_rows(first), tmp_path / f"two.{suffix}", two=-0.25)
    with open(second, encoding="utf-8", newline="") as file:
        table = csv.reader(file, delimiter="\t" if suffix == "tsv" else ",")
        cells = {cell for row in table for cell in row} - {*STAY, "-0.25"}
    assert not [cell for cell in cells if cell[:1] in set("=+-@\t\r\n＝")]
    assert rows_of(second) == [{**row, "one": "-0.25", "two": "-0.25"} for row in rows]
