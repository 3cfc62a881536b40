"""All commands alike: their code is short, their help fits a terminal, their options are spelled as typed."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import capscore.cli
from capscore.cli import app
from capscore.cli.options import split_metrics
from capscore.cli.terminal import is_usage_error, spell
from capscore.errors import BackboneUnavailable, CapscoreError, InputError, OptionError, Setting
from capscore.metrics.loading import all_options

from ..datasets_scripts.conftest import _own_cache
from ..python_source import syntax_tree

__all__ = ["_own_cache"]

MAX_LINES = 75
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
    ("data", "statistics"),
    ("data", "export"),
    ("cache",),
    ("cache", "info"),
    ("cache", "clear"),
]


def test_functions_of_commands_are_short():
    long = [
        f"{path.name}: {node.name} has {node.end_lineno - node.lineno + 1} lines"
        for path in Path(capscore.cli.__file__).parent.glob("*.py")
        for node in ast.walk(syntax_tree(path))
        if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno + 1 > MAX_LINES
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
    for sign in ("list[", "<path>", "<str>", "<bool>", " PATH "):
        assert sign not in shown


def test_help_has_the_common_options_first_and_those_of_the_backbone_apart():
    shown = shown_help("score")
    panels = re.findall(r"─ (\w[\w ]*?) ─", shown)
    assert panels[0] == "Options" and {"Output", "Columns", "Backbone", "InfoMetIC"} < {*panels}
    first, backbone = (shown.split(f"─ {name} ─")[part] for name, part in (("Columns", 0), ("Backbone", 1)))
    assert re.search(r"--metric +-m +METRIC +", first) and re.search(r"--images +FOLDER +", first)
    assert "--output" in first and "--device" not in first
    assert "--device" in backbone and "--no-cache" in backbone


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("score --metric c", ["clip_score", "clip_cider", "cider", "cider_d"]),
        ("score -m mcs,ro", ["mcs,rouge_l"]),
        ("score --on", ["--on-error"]),
        ("score --on-error ", ["raise", "skip"]),
        ("score --preset mu", ["multilingual"]),
        ("rob", ["robustness"]),
    ],
)
def test_a_shell_completes_commands_options_and_metrics(typed, offered):
    words = f"capscore {typed}"
    env = {"_CAPSCORE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = subprocess.run(
        [sys.executable, "-c", "from capscore.cli import app; app(prog_name='capscore')"],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == offered, done.stderr


def test_completion_can_be_shown_and_installed(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("typer.completion._get_shell_name", lambda: "fish")
    monkeypatch.setattr("typer._completion_shared._get_shell_name", lambda: "fish")
    shown = CliRunner().invoke(app, ["--show-completion"], prog_name="capscore")
    assert shown.exit_code == 0 and "complete --command capscore" in shown.stdout
    installed = CliRunner().invoke(app, ["--install-completion"], prog_name="capscore")
    assert installed.exit_code == 0
    assert (tmp_path / ".config/fish/completions/capscore.fish").read_text().strip() == shown.stdout.strip()


@pytest.mark.parametrize(
    ("given", "metrics"),
    [
        (None, []),
        (["mcs,cider"], ["mcs", "cider"]),
        (["mcs", "cider"], ["mcs", "cider"]),
        (["mcs, cider,", "mcs"], ["mcs", "cider"]),
        (["mcs,cidr"], ["mcs", "cidr"]),
        (["mcs@my,folder,pr_mcs@other"], ["mcs@my,folder", "pr_mcs@other"]),
    ],
)
def test_metrics_are_parted_at_commas(given, metrics):
    assert split_metrics(given) == metrics


def test_options_of_metrics_are_options_of_commands():
    for command, metrics in (("score", None), ("benchmark", None), ("explain", ["infometic"])):
        shown, own = shown_help(command), {"backbone", "revision", "image_tower"}
        names = {name for name, entry in all_options(metrics).items() if entry.own} - {"per_row", "empty"}
        names |= set() if command == "benchmark" else own
        assert all(f"--{name.replace('_', '-')}" in shown for name in names)


@pytest.mark.parametrize(
    ("setting", "typed"),
    [
        (Setting("image_column", "x"), "--image-column x"),
        (Setting("image_column"), "--image-column"),
        (Setting("image_text", ["dog", "red ball"]), "--image-text dog --image-text 'red ball'"),
        (Setting("force", True), "--force"),
        (Setting("cache", False), "--no-cache"),
        (Setting("cache", Path("kept")), "--cache-dir kept"),
        (Setting("cache"), "--cache-dir"),
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


def test_the_entry_point_can_be_called_again(monkeypatch):
    """A module of its name would take its place in the package once it is imported."""
    monkeypatch.setattr(sys, "argv", ["capscore", "--version"])
    for _ in range(2):
        with pytest.raises(SystemExit) as end:
            capscore.cli.main()
        assert not end.value.code
