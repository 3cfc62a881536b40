"""Cells of CSV that a spreadsheet would run are written so that it does not, and come back as they were."""

from __future__ import annotations

import csv
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capscore.files.read import open_rows, with_formula
from capscore.files.write import Writer, check_output, without_formula

RUN = ["=1+1", "=HYPERLINK(\"http://x\")", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1+1", "=", "-", "- a dog"]  # fmt: skip  # noqa: E501
STAY = ["A cat.", "a=b", "", "'", "'tis", "-0.5", "+7", "-1e-9", "-.5", "1", "-Infinity", " =1"]


@pytest.mark.parametrize("cell", RUN)
def test_what_a_spreadsheet_runs_gets_an_apostrophe(cell):
    assert without_formula(cell) == f"'{cell}"
    assert without_formula(f"'{cell}") == f"''{cell}"


@pytest.mark.parametrize("cell", STAY)
def test_other_cells_stay(cell):
    assert without_formula(cell) == with_formula(cell) == cell


@given(st.text("'=+-@\t\r\n1.a＝", max_size=8))
def test_every_cell_comes_back(cell):
    assert with_formula(without_formula(cell)) == cell


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_files_hold_no_formula_and_are_read_as_they_were(tmp_path, suffix):
    rows = [{"caption": cell, "=cmd()": cell} for cell in [*RUN, *STAY, *(f"'{cell}" for cell in RUN)]]
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for target in ("one", "two"):  # the second from the first
        source = open_rows(path)
        path = check_output(tmp_path / f"{target}{suffix}", source)
        writer = Writer(path, source, {target: float})
        for chunk in source.chunks(100):
            writer.write(chunk, {target: [-0.25] * len(chunk)})
        writer.finish({}, "{}")
    with open(path, encoding="utf-8", newline="") as file:
        cells = [
            cell for row in csv.reader(file, delimiter="\t" if suffix == ".tsv" else ",") for cell in row
        ]
    assert "-0.25" in cells
    assert not [
        cell for cell in cells if cell[:1] in set("=+-@\t\r\n＝") and cell not in STAY and cell != "-0.25"
    ]
    back = [row for chunk in open_rows(path).chunks(100) for row in chunk.dicts()]
    assert back == [{**row, "one": "-0.25", "two": "-0.25"} for row in rows]
