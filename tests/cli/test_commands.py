"""Parts that all commands use: completion, metrics of an option, the spelling of options, kinds of errors."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import capscore.cli
from capscore.cli.options import named_files, on_backbones, split_metrics
from capscore.cli.terminal import is_usage_error, spell
from capscore.errors import BackboneUnavailable, CapscoreError, InputError, OptionError, Setting
from capscore.registry import METRICS

from .conftest import run


def test_help_has_the_common_options_first_and_those_of_the_backbone_apart():
    shown = run("score", "--help").stdout
    panels = re.findall(r"─ (\w[\w ]*?) ─", shown)
    assert panels[0] == "Options" and {"Output", "Columns", "Backbone", "InfoMetIC"} < {*panels}
    first, backbone = (shown.split(f"─ {name} ─")[part] for name, part in (("Columns", 0), ("Backbone", 1)))
    assert "--metric" in first and "--output" in first and "--device" not in first
    assert "--device" in backbone and "--no-cache" in backbone
    assert all(re.search(rf"\b{metric}\b", shown) for metric in METRICS.names())


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("score --metric c", ["clip_score", "clip_cider", "cider", "cider_d", "chair"]),
        ("score -m mcs,ro", ["mcs,rouge_l"]),
        ("score --on-error ", ["raise", "skip"]),
        ("rob", ["robustness"]),
    ],
)
def test_a_shell_completes_commands_options_and_metrics(typed, offered):
    words = f"capscore {typed}"
    env = {"_CAPSCORE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = run(env={**env, "COLUMNS": "80"}, prog_name="capscore")
    assert done.stdout.split() == offered, done.stderr


def test_metrics_are_separated_by_commas():
    assert split_metrics(None) == [] and split_metrics(["mcs, cider,", "mcs"]) == ["mcs", "cider"]
    assert named_files(["a=b=c.json"]) == {"a": Path("b=c.json")}
    assert on_backbones([], ["embedded"]) == []  # as where only files of scores are named
    assert split_metrics(["mcs@folder,pr_mcs@other"]) == ["mcs@folder", "pr_mcs@other"]


def test_options_are_spelled_as_they_are_typed():
    texts = Setting("image_text", ["dog", "red ball"])
    assert spell(texts) == "--image-text dog --image-text 'red ball'"
    assert spell(Setting("image_column")) == "--image-column"
    assert spell(Setting("cache", Path("kept"))) == "--cache-dir kept"
    assert spell(Setting("path", Path("a b.jsonl"))) == "a b.jsonl"


def test_an_error_that_begins_with_an_option_is_one_of_usage():
    split = Setting("split", "x")
    assert is_usage_error(InputError(split, ": no")) and is_usage_error(OptionError("no ", split))
    others = [InputError("no ", split), InputError(split, ": no", row=3), BackboneUnavailable(split, ": no")]
    assert not any(map(is_usage_error, [*others, CapscoreError("no")]))


def test_the_entry_point_prints_its_version_and_can_be_called_again(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["capscore", "--version"])
    for _ in range(2):
        with pytest.raises(SystemExit) as end:
            capscore.cli.main()
        assert not end.value.code and capsys.readouterr().out == f"capscore {capscore.__version__}\n"


def test_the_module_runs_as_the_command():
    command = [sys.executable, "-m", "capscore", "score", "no.jsonl"]
    done = subprocess.run(command, capture_output=True, text=True)
    told = "capscore: error: no.jsonl: no such file\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", told)


def test_the_library_and_its_help_import_nothing_heavy():
    heavy = {"torch", "datasets", "pyarrow", "transformers", "evaluate", "matplotlib", "open_clip", "scipy"}
    heavy.add("pandas")
    program = (
        "import sys, capscore, capscore.embedding.cache\n"
        f"assert not {heavy | {'PIL'}} & set(sys.modules)\n"
        "from capscore.cli import app\n"
        "try: app(['score', '--help'])\n"
        "except SystemExit as end: assert not end.code\n"
        f"assert not {heavy} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout, done.stderr
