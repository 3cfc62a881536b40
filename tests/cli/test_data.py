"""`capscore data` as a person types it in a terminal of 80 columns: what it says, and its exit code."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from capscore.benchmarks.data.load import builder_class
from capscore.cli import app

from ..datasets_scripts.conftest import official

FAILED, USAGE = 1, 2


def data(*arguments):
    return CliRunner(env={"COLUMNS": "80"}).invoke(app, ["data", *map(str, arguments)])


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "xvnli"
    made.mkdir()
    official("xvnli").write(made)
    return made


def listed():
    lines = data("list").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    return {line.split()[0]: line.split()[-1] for line in lines if line and not line.startswith((" ", "─"))}


def test_rows_that_are_in_two_configurations_count_once():
    rows = listed()
    assert rows["composite"] == "11,985"
    assert rows["valse"] == "8,782"
    assert rows["xvnli"] == "5,820"
    counts = builder_class("valse").COUNTS
    assert json.loads(data("list", "--json").stdout)[-6]["benchmark"] == "valse"
    assert sum(counts[name]["test"]["rows"] for name in counts if name != "all") == 8782


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["check", "xvnl"], "there is no benchmark 'xvnl'"),
        (["check", "xvnli", "-c", "FR"], "expected one of en, ar, es, fr, ru"),
        (["check", "xvnli", "--data-dir", "nowhere"], "nowhere is not a folder"),
        (["check", "xvnli", "-c", "fr", "--image-dir", "nowhere"], "nowhere is not a folder"),
        (["export", "xvnl", "--out", "out"], "there is no benchmark 'xvnl'"),
        (["export", "xvnli", "--out", "out", "-c", "FR"], "expected one of en, ar, es, fr, ru"),
        (["export", "xvnli", "--out", "out", "--data-dir", "nowhere"], "nowhere is not a folder"),
        (["export", "xvnli", "--out", "taken"], "taken exists; --force replaces it"),
        (["export", "xvnli", "--out", "taken", "--force"], "is not an exported benchmark; it is left alone"),
        (["export", "xvnli", "--out", ".", "--force"], "it is left alone"),
    ],
)
def test_wrong_usage(arguments, message, folder, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "taken").mkdir()
    (folder / "taken" / "mine.txt").write_text("mine")
    if arguments[:2] == ["check", "xvnli"] and "--data-dir" not in arguments:
        arguments = [*arguments, "--data-dir", folder]
    result = data(*arguments)
    assert (result.exit_code, result.stdout) == (USAGE, "")
    assert message in result.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["ar", "en", "es", "fr", "ru", "taken"]


@pytest.mark.parametrize("command", [["check"], ["export", "--out", "out"]])
def test_a_damaged_file(command, folder, monkeypatch):
    monkeypatch.chdir(folder)
    path = folder / "fr" / "test.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    result = data(command[0], "xvnli", *command[1:], "-c", "fr", "--data-dir", folder)
    assert result.exit_code == FAILED
    said = " ".join(result.output.split())
    assert "test.jsonl, line 6: is not JSON" in said
    assert "Traceback" not in said and "examples/s" not in said
    assert not (folder / "out").exists()
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


def test_what_is_exported_is_said_without_bars(folder, tmp_path):
    result = data("export", "xvnli", "-c", "fr", "--data-dir", folder, "--out", tmp_path / "out")
    assert result.exit_code == 0
    assert result.stdout == ""
    lines = [line for line in result.stderr.splitlines() if "warning" not in line]
    assert lines == ["capscore: xvnli (fr)", f"capscore: {tmp_path / 'out'} is whole"]
    again = data("export", "xvnli", "-c", "ru", "--data-dir", folder, "--out", tmp_path / "out", "--force")
    assert again.exit_code == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["README.md", "ru"]


def test_a_check_as_json_is_json_whatever_is_found(folder):
    (folder / "fr" / "test.jsonl").unlink()
    result = data("check", "xvnli", "-c", "fr", "-c", "ru", "--data-dir", folder, "--json")
    assert result.exit_code == FAILED
    french, russian = json.loads(result.stdout)
    assert french["findings"][0]["level"] == "problem"
    assert russian["counts"]["test"]["rows"] == 6
