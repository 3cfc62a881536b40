"""All commands alike: their code is short, their help fits a terminal, their options are spelled as typed."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import capscore.cli
from capscore.cli.app import app
from capscore.cli.options import OF_INFOMETIC, OF_SCORE, OF_SEVERAL
from capscore.cli.terminal import is_usage_error, spell
from capscore.errors import BackboneUnavailable, CapscoreError, InputError, OptionError, Setting
from capscore.scorers.options import OPTIONS

from ..benchmark.test_run import rated
from ..datasets_scripts.conftest import _own_cache, official

__all__ = ["_own_cache"]

MOST_LINES = 80
COMMANDS = [
    (),
    ("score",),
    ("benchmark",),
    ("robustness",),
    ("perturb",),
    ("explain",),
    ("backbones",),
    ("data",),
    ("data", "list"),
    ("data", "check"),
    ("data", "export"),
    ("cache",),
    ("cache", "info"),
    ("cache", "clear"),
]


def test_functions_of_commands_are_short():
    long = [
        f"{path.name}: {node.name} has {node.end_lineno - node.lineno + 1} lines"
        for path in Path(capscore.cli.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno + 1 > MOST_LINES
    ]
    assert long == []


def shown_help(*command):
    result = CliRunner(env={"COLUMNS": "80"}).invoke(app, [*command, "--help"])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_fits_80_columns(command):
    shown = shown_help(*command)
    assert max(map(len, shown.splitlines())) <= 80
    assert not [line for line in shown.splitlines() if "--" in line and "list[" in line]


@pytest.mark.parametrize(
    ("command", "names"), [("score", OF_SCORE), ("benchmark", OF_SEVERAL), ("explain", OF_INFOMETIC)]
)
def test_options_of_the_table_are_options_of_commands(command, names):
    shown = shown_help(command)
    flags = {"cache": "--cache-dir"}
    assert all(flags.get(name, f"--{name.replace('_', '-')}") in shown for name in names)
    assert set(OPTIONS) - set(OF_SCORE) == {"progress"}


@pytest.mark.parametrize(
    ("setting", "typed"),
    [
        (Setting("image_column", "x"), "--image-column x"),
        (Setting("image_column"), "--image-column"),
        (Setting("region_names", ["dog", "red ball"]), "--region-names dog --region-names 'red ball'"),
        (Setting("force", True), "--force"),
        (Setting("cache", False), "--no-cache"),
        (Setting("cache", Path("kept")), "--cache-dir kept"),
        (Setting("cache"), "--cache-dir"),
        (Setting("shared_draws", False), "--independent-draws"),
        (Setting("path", Path("a b.jsonl")), "a b.jsonl"),
        (Setting("beta", 0.5), "--beta 0.5"),
    ],
)
def test_options_are_spelled_as_they_are_typed(setting, typed):
    assert spell(setting) == typed


@pytest.mark.parametrize(
    ("error", "is_usage"),
    [
        (InputError(Setting("split", "x"), ": no"), True),
        (OptionError("mcs takes no ", Setting("beta", 1)), True),
        (InputError("no ", Setting("split", "x")), False),
        (InputError(Setting("split", "x"), ": no", row=3), False),
        (BackboneUnavailable(Setting("backbone", "x"), ": no"), False),
        (CapscoreError("no"), False),
    ],
)
def test_an_error_that_begins_with_an_option_is_one_of_usage(error, is_usage):
    assert is_usage_error(error) is is_usage


def test_a_benchmark_imports_its_own_protocol_only(tmp_path):
    folder = tmp_path / "flickr8k_human"
    folder.mkdir()
    official("flickr8k_human").write(folder)
    rated(folder)
    program = (
        "import sys; from capscore.cli.app import app\n"
        "try: app(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print(*(name for name in sys.modules if name.startswith('capscore.benchmark.')))\n"
    )
    arguments = ("--data", "flickr8k_human", "--config", "expert", "--data-dir", str(folder), "-m", "rouge_l")
    done = subprocess.run(
        [sys.executable, "-c", program, "benchmark", *arguments, "--bootstrap", "0", "--quiet"],
        capture_output=True,
        text=True,
    )
    loaded = {name.removeprefix("capscore.benchmark.") for name in done.stdout.split()}
    assert "tasks.ratings" in loaded, done.stderr
    others = (
        "captokeneval",
        "marvl",
        "retrieval",
        "foil",
        "xvnli",
        "thumb",
        "pair",
        "tokens",
        "cross_language",
    )
    assert not [name for name in loaded if name.partition(".")[2].startswith(others)]
