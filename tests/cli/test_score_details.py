"""`capscore score -m pr_mcs`: what was found in a caption is in every kind of result."""

from __future__ import annotations

import csv
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from typer.testing import CliRunner

from capscore.cli import app

from ..toy import RED, ColourBackbone, JudgingColours

CAPTIONS = ["red", "red red red red"]
COLUMNS = ["pr_mcs", "kept", "lost", "kind", "p_kind"]
CELLS = [[2.5, 1.0, 0.0, "none", 1.0], [2.5, 0.5, 0.5, "none", 0.5]]


@pytest.fixture(autouse=True)
def judging(monkeypatch):
    monkeypatch.setattr("capscore.backbones.loading.load_backbone", lambda name, **options: JudgingColours())


@pytest.fixture
def source(tmp_path):
    Image.fromarray(RED).save(tmp_path / "red.png")
    return written(tmp_path, [{"image": "red.png", "caption": text} for text in CAPTIONS])


def written(folder, rows):
    path = folder / "captions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def score(source, *arguments):
    given = ["score", source, "-m", "pr_mcs", "--backbone", "toy", "--no-cache", *arguments]
    result = CliRunner(env={"COLUMNS": "100"}).invoke(app, [str(one) for one in given])
    assert result.exit_code in (0, 3), result.output
    return result.output


def cells(path):
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines()]
    return list(csv.DictReader(text.splitlines()))


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_files_have_them_as_columns(source, tmp_path, suffix):
    output = tmp_path / f"scores{suffix}"
    score(source, "--output", output)
    rows = cells(output)
    assert [*rows[0]] == ["image", "caption", *COLUMNS]
    for row, expected in zip(rows, CELLS, strict=True):
        found = [row[name] for name in COLUMNS]
        assert found[3] == expected[3]
        assert [float(found[place]) for place in (0, 1, 2, 4)] == [expected[p] for p in (0, 1, 2, 4)]


def test_a_failed_row_has_empty_cells(tmp_path, source):
    rows = [{"image": "none.png", "caption": "red"}, {"image": "red.png", "caption": "red"}]
    output = tmp_path / "scores.parquet"
    score(written(tmp_path, rows), "--output", output, "--on-error", "skip")
    failed, scored = cells(output)
    assert [failed[name] for name in COLUMNS] == [None] * 5
    assert [scored[name] for name in COLUMNS] == CELLS[0]
    kinds = {name: pq.read_schema(output).field(name).type for name in COLUMNS}
    assert [kinds["kept"], kinds["kind"]] == [pa.float64(), pa.string()]


def test_a_column_of_that_name_stays(tmp_path, source):
    rows = [{"image": "red.png", "caption": "red", "kind": "jumble", "kept": "yes"}]
    output = tmp_path / "scores.jsonl"
    score(written(tmp_path, rows), "--output", output)
    (row,) = cells(output)
    assert (row["kind"], row["kept"], row["pr_mcs_kind"], row["pr_mcs_kept"]) == (
        "jumble",
        "yes",
        "none",
        1.0,
    )


def test_a_backbone_without_a_gate_leaves_the_cells_empty(source, tmp_path, monkeypatch):
    monkeypatch.setattr("capscore.backbones.loading.load_backbone", lambda name, **options: ColourBackbone())
    output = tmp_path / "scores.jsonl"
    score(source, "--output", output)
    assert [[row[name] for name in COLUMNS[1:]] for row in cells(output)] == [[None] * 4] * 2


def test_terminal_and_page_show_them(source, tmp_path):
    printed = score(source, "--report", tmp_path / "page.html")
    assert "50 % kept: no noise" in printed and "found" in printed
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "50 % kept: no noise (p = 0.50)" in page and "100 % kept: no noise (p = 1.00)" in page
    assert "kept" not in json.loads(score(source, "--json"))["metrics"]["pr_mcs"]
