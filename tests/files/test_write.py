"""Files that are written: whole or not at all, without formulas, with every value that a kind can hold."""

import csv
import datetime
import decimal
import json
import os
import subprocess
import sys
from pathlib import Path

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from capscore.errors import InputError, ResultWriteError
from capscore.files.read import open_rows
from capscore.files.row_source import rows_in_memory
from capscore.files.scratch import open_partial, scratch_folder
from capscore.files.text_files import with_formula
from capscore.files.write import Writer, check_output, json_bytes, whole_file, without_formula, write_text

from ..cli.conftest import write_jsonl
from ..test_file_format_laws import read


def written(source, path, **columns):
    """The result of all rows, with the same value of a new column for each."""
    target = check_output(path, source)
    writer = Writer(target, source, {name: type(value) for name, value in columns.items()})
    for chunk in source.chunks(2):
        writer.write(chunk, {name: [value] * len(chunk) for name, value in columns.items()})
    writer.finish({"signatures": {"mcs": "mcs|w:2.5"}}, "{}")
    return target


def opened(path, rows):
    return open_rows(write_jsonl(path, rows))


def test_a_file_has_its_name_when_it_is_whole_and_a_link_stays_a_link(tmp_path):
    path = tmp_path / "new" / "out.txt"
    with whole_file(path, make_folders=True) as file:
        file.write(b"half")
        assert not path.exists()
    assert path.read_bytes() == b"half"
    (tmp_path / "link.txt").symlink_to(path)
    write_text(tmp_path / "link.txt", json.dumps("\udc80 τ", ensure_ascii=False))
    whole = path.read_bytes()
    assert (tmp_path / "link.txt").is_symlink() and json.loads(whole) == "\udc80 τ"
    with pytest.raises(KeyboardInterrupt), whole_file(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert path.read_bytes() == whole
    assert [entry.name for entry in path.parent.iterdir()] == ["out.txt"]
    with pytest.raises(ResultWriteError, match="No such file"), whole_file(tmp_path / "no" / "out.txt"):
        pass
    with pytest.raises(ResultWriteError, match=r"the report '.*' could not be written"):
        write_text(tmp_path, "text", "report")


ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
KILLED = """
import os, sys
from pathlib import Path
from capscore.files.row_source import rows_in_memory
from capscore.files.scratch import scratch_folder
from capscore.files.write import whole_file
with scratch_folder(Path("out")) as folder, whole_file("out") as file:
    (folder / "part").write_text("x")
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("begin", [scratch_folder, whole_file])
def test_what_killed_runs_left_of_a_target_goes_with_its_next_run_and_nothing_else(tmp_path, begin):
    with scratch_folder(tmp_path / "out") as alive, scratch_folder(tmp_path / "other"):
        subprocess.run([sys.executable, "-c", KILLED], cwd=tmp_path, env=ENVIRONMENT)
        assert len(list(tmp_path.iterdir())) == 4
        with begin(tmp_path / "out"):
            assert len(list(tmp_path.iterdir())) == 3 and alive.is_dir()
    assert [path.name for path in tmp_path.iterdir()] == ["out"] * (begin is whole_file)


@pytest.mark.parametrize("kind", ["any file", "rows"])
def test_a_run_that_begins_just_before_a_file_gets_its_name_leaves_it_alone(tmp_path, monkeypatch, kind):
    source, target = opened(tmp_path / "in.jsonl", [{"caption": "a"}]), tmp_path / "out.jsonl"
    replace = os.replace

    def replace_later(partial, path):
        if path == target:
            open_partial(path)[1].close()
        replace(partial, path)

    monkeypatch.setattr(os, "replace", replace_later)
    if kind == "rows":
        written(source, target, mcs=1.0)
    else:
        write_text(target, "whole")
    assert target.stat().st_size


TEMPORARY = """
import os, sys
from pathlib import Path
from capscore.files.read import open_rows
from capscore.images.fetch import Downloads
folder = Path(os.environ["TMPDIR"])
source = open_rows("-")
assert [len(chunk) for _ in "ab" for chunk in source.chunks(9)] == [1, 1]
downloads, pages = Downloads(), open_rows("page.md")
print(*((path.stat().st_mode & 0o777, len(list(path.iterdir()))) for path in folder.glob("*.partial")))
if not os.fork():
    sys.exit()  # a child that ends removes nothing of its parent's
os.wait()
print(len(list(folder.iterdir())), flush=True)
os.kill(os.getpid(), int(sys.argv[1])) if sys.argv[1:] else None
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only Unix locks files and forks")
def test_temporary_files_go_with_their_process_or_with_the_next_one_after_it_was_killed(tmp_path):
    (tmp_path / "page.md").write_text("![a](a.png)")
    folder = tmp_path / "temporary"
    folder.mkdir()
    environment = ENVIRONMENT | {"TMPDIR": str(folder)}
    os.mkfifo(folder / ".pipe")
    for ending, left in ((["9"], 2), ([], 1)):  # the pipe is somebody else's
        command = [sys.executable, "-c", TEMPORARY, *ending]
        options = {"input": '{"caption": "a"}\n', "text": True, "capture_output": True, "timeout": 200}
        said = subprocess.run(command, cwd=tmp_path, env=environment, check=False, **options)
        assert f"({0o700}, 3)" in said.stdout and said.stdout.endswith("\n2\n"), said.stderr
        assert len(list(folder.iterdir())) == left


def test_only_what_is_a_result_is_overwritten(tmp_path):
    source = opened(tmp_path / "in.jsonl", [{"a": 1}])
    assert check_output(tmp_path / "new" / "deep" / "o.jsonl", source).parent.is_dir()
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "in.jsonl")
    (tmp_path / "full.jsonl").symlink_to("/dev/full")
    (tmp_path / "mine.csv").mkdir()
    for name, message in (
        ("mine.csv", "exists and is not a result of this kind"),
        ("full.jsonl", r"/dev/full exists and is not a result|Permission denied"),
        ("new/../in.jsonl", "is the input"),
        ("link.jsonl", "is the input"),
        ("o.xlsx", "expected a name that ends in .jsonl"),
        ("o", "expected a name that ends in .jsonl"),
        ("in.jsonl/o.jsonl", "cannot be written"),
        ("x" * 300 + ".jsonl", "cannot be written"),
    ):
        with pytest.raises(InputError, match=message):
            check_output(tmp_path / name, source, force=True)


def test_types_that_come_late_or_clash(tmp_path):
    late = opened(tmp_path / "a.jsonl", [{"x": None}, {"x": 1}, {"x": 2.5}, {"x": float("nan")}])
    assert late.schema() == pa.schema([("x", pa.float64())])
    for values in ([1, "one"], ["\ud800"], [2**64]):
        source = opened(tmp_path / "b.jsonl", [{"x": value} for value in values])
        with pytest.raises(InputError, match=r"(?s)b\.jsonl': the column 'x' holds values.*write a \.jsonl"):
            Writer(tmp_path / "o.parquet", source, {"mcs": float})


def test_parquet_keeps_features_images_and_what_numbers_depend_on(tmp_path):
    photo = tmp_path / "p.png"
    Image.new("RGB", (4, 3), (255, 0, 0)).save(photo)
    kinds = {"image": datasets.Image(), "caption": datasets.Value("large_string")}
    features = datasets.Features(kinds | {"kind": datasets.ClassLabel(names=["x", "y"])})
    stored = {"bytes": photo.read_bytes(), "path": "p.png"}
    rows = [{"image": stored, "caption": str(n), "kind": n % 2} for n in range(5)]
    data = datasets.Dataset.from_list(rows, features=features)
    data.to_parquet(tmp_path / "in.parquet")
    data.save_to_disk(tmp_path / "in")
    for index, name in enumerate(("in.parquet", "in")):
        source = open_rows(tmp_path / name)
        target = written(source, tmp_path / f"o{index}.parquet", mcs=0.5)
        result = datasets.Dataset.from_parquet(str(target), cache_dir=str(tmp_path / f"c{index}"))
        assert result.features == {**features, "mcs": datasets.Value("float64")}
        assert result.cast_column("image", datasets.Image(decode=False))["image"][:] == [stored] * 5
        assert result["kind"][:] == [0, 1, 0, 1, 0] and result["mcs"][:] == [0.5] * 5
        about = json.loads(pq.ParquetFile(target).metadata.metadata[b"capscore"])
        assert about == {"signatures": {"mcs": "mcs|w:2.5"}}
        with pytest.raises(InputError, match=r"the column 'image' of .* holds bytes.*write a .parquet file"):
            check_output(tmp_path / "o.jsonl", source)


def test_values_in_memory_are_lists_numbers_and_null_in_text_or_refused(tmp_path):
    """What pandas gives of a Parquet file: arrays of NumPy, its numbers, NaT and NA."""
    cells = {"array": np.array([1.5, np.nan]), "in": {"x": np.arange(2)}, "n": np.int64(5), "none": pd.NaT}
    source = rows_in_memory([{"caption": "x", **cells, "na": pd.NA}, {"more": np.array(["a"])}], ["0", "1"])
    expected = {"caption": "x", "array": [1.5, None], "in": {"x": [0, 1]}, "n": 5, "none": None, "na": None}
    first, second = map(json.loads, written(source, tmp_path / "a.jsonl").read_text().splitlines())
    assert first == {**expected, "more": None} and second["more"] == ["a"] and second["caption"] is None
    [row, _] = read(written(source, tmp_path / "b.csv"))
    assert (row["array"], row["n"], row["none"]) == ("[1.5, null]", "5", "")
    for image in (b"x", {"bytes": b"x"}, Image.new("L", (1, 1))):
        with pytest.raises(InputError, match=r"the column 'image' of the rows holds bytes"):
            check_output(tmp_path / "x.tsv", rows_in_memory([{"caption": "x"}, {"image": image}], ["0", "1"]))


@pytest.mark.parametrize("noted", [b"{", b"[]", b'{"info": {"features": [1]}}', b"[" * 100_000])
def test_damaged_notes_of_features(tmp_path, noted):
    table = pa.table({"caption": ["x", "y"]}).replace_schema_metadata({b"huggingface": noted})
    pq.write_table(table, tmp_path / "in.parquet")
    target = written(open_rows(tmp_path / "in.parquet"), tmp_path / "out.parquet", mcs=0.5)
    assert pq.read_table(target).column_names == ["caption", "mcs"]


def text_of(*data: bytes) -> pa.Array:
    """A text column of any bytes, which Arrow does not check."""
    ends = [sum(map(len, data[:number])) for number in range(len(data) + 1)]
    offsets = pa.array(ends, pa.int32()).buffers()[1]
    return pa.Array.from_buffers(pa.string(), len(data), [None, offsets, pa.py_buffer(b"".join(data))])


BAD = text_of(b"\xff\xfe", b"fine \xe2\x98\x83")
# column that nobody asked for → what JSONL holds of its values; None where a text file cannot hold it
COLUMNS = {
    "date": (pa.array([datetime.date(2020, 1, 2), None]), ["2020-01-02", None]),
    "year 2.9 million": (pa.array([2**30, None], pa.date32()), ["a date32[day] value", None]),
    "decimal": (pa.array([decimal.Decimal("1.20"), None]), ["1.20", None]),
    "struct": (pa.array([{"a": [1.0, float("nan")]}, None]), [{"a": [1.0, None]}, None]),
    "map": (pa.array([[("k", 1.0)], None], pa.map_(pa.string(), pa.float64())), [[["k", 1.0]], None]),
    "not UTF-8": (BAD, ["\\xff\\xfe", "fine ☃"]),
    "bytes": (pa.array([b"\xff", None]), None),
    "bytes in a struct": (pa.array([{"a": b"\xff"}, None]), None),
    "bytes in a dictionary": (pa.array([b"\xff", None]).dictionary_encode(), None),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_values_of_every_type_pass_whole_to_parquet_and_readable_to_text(name, tmp_path):
    column, expected = COLUMNS[name]
    pq.write_table(pa.table({"caption": ["x", "y"], "extra": column}), tmp_path / "in.parquet")
    source = open_rows(tmp_path / "in.parquet")
    table = pq.read_table(written(source, tmp_path / "out.parquet", capscore_error="bad \udcff"))
    column = pq.read_table(tmp_path / "in.parquet").column("extra").combine_chunks()
    after = table.column("extra").combine_chunks()
    assert after.type == column.type and (after.equals(column) or str(after) == str(column))
    assert table.column("capscore_error").to_pylist() == ["bad \\udcff"] * 2
    if expected is None:
        with pytest.raises(InputError, match=r"'extra' of .* holds bytes.*write a \.parquet file"):
            check_output(tmp_path / "o.csv", source)
        return
    lines = written(source, tmp_path / "o1.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line, parse_constant=pytest.fail)["extra"] for line in lines] == expected
    texts = [value if isinstance(value, str) else json_bytes(value).decode() for value in expected]
    cells = [row["extra"] for row in read(written(source, tmp_path / "o3.csv"))]
    assert cells == ["" if text == "null" else text for text in texts]


def test_text_that_is_not_utf_8_is_never_taken_for_a_caption(tmp_path):
    pq.write_table(pa.table({"caption": BAD}), tmp_path / "in.parquet")
    (chunk,) = open_rows(tmp_path / "in.parquet").chunks(2)
    assert chunk.values("caption") == [b"\xff\xfe", "fine ☃"]


def test_numbers_and_texts_that_json_lacks(tmp_path):
    (tmp_path / "in.jsonl").write_text('{"a": NaN, "b": [{"c": -Infinity}], "d": 1e999, "e": "x\\ud800"}\n')
    source = open_rows(tmp_path / "in.jsonl")
    found = json.loads(written(source, tmp_path / "o.jsonl").read_text(), parse_constant=pytest.fail)
    assert found == {"a": None, "b": [{"c": None}], "d": None, "e": "x\ud800"}
    (row,) = read(written(source, tmp_path / "o2.csv"))
    assert row == {"a": "NaN", "b": '[{"c": null}]', "d": "Infinity", "e": "x\\ud800"}
    written_out = json_bytes({"a": b"\xff", "b": {1}, "c": (float("nan"),)})
    assert written_out == b'{"a": "\\\\xff", "b": "{1}", "c": [null]}'


RUN = ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1+1", "=", "-"]
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
    first = written(opened(tmp_path / "in.jsonl", rows), tmp_path / f"one.{suffix}", one=-0.25)
    with open(first, encoding="utf-8", newline="") as file:
        table = csv.reader(file, delimiter="\t" if suffix == "tsv" else ",")
        cells = {cell for row in table for cell in row} - {*STAY, "-0.25"}
    assert not [cell for cell in cells if cell[:1] in set("=+-@\t\r\n＝")]
    assert read(first) == [{**row, "one": "-0.25"} for row in rows]
