"""What all commands use: no text controls the terminal; completion, spelling, kinds of errors."""

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

import capscore.cli
from capscore.cli.options import named_files, on_backbones, split_metrics
from capscore.cli.terminal import is_usage_error, print_line, spell
from capscore.errors import BackboneUnavailable, CapscoreError, InputError, OptionError, Setting
from capscore.files.console import make_console
from capscore.images import fetch
from capscore.registry import METRICS
from capscore.tables import Table

from .conftest import read_jsonl, run, write_jsonl

ESCAPES = "\x1b]0;owned\x07\x9b31m\u202eevil\r"
CONTROLS = set("\x00\x07\x08\x0b\x1b\x9b\r\u2028\u202e\u2066")


def test_a_console_takes_texts_literally():
    printer = make_console()
    out = printer.file = io.StringIO()
    Table(("caption", "what"), [(f"[bold]a[/] :smile: {ESCAPES}", "two\nlines")], wide=0).print(printer)
    printer.print(f"[red]b[/red] {ESCAPES}")
    print_line(printer, f"c\nd {ESCAPES}")
    shown = out.getvalue()
    assert not set(shown) & CONTROLS and shown.count(r"\x1b]0;owned\x07\x9b31m\u202eevil\r") == 3
    assert all(text in shown for text in ("[bold]a[/] :smile:", "[red]b[/red]", r"c\nd"))


@pytest.mark.parametrize("name", ["\x1b[31mred.png", "a\nb\x07.png", "\u202egnp.exe", "[bold]b.png"])
def test_names_of_images_cannot_control_the_terminal(tmp_path, monkeypatch, toys, name):
    monkeypatch.setenv("CAPSCORE_DEBUG", "0")
    (tmp_path / name).write_bytes(b"no image")
    source = write_jsonl(tmp_path / "rows.jsonl", [{"image": name, "caption": f"[red] {ESCAPES}"}])
    for options in ([], ["--debug"]):
        done = run("score", source, "--no-cache", "--backbone", "toy", *options)
        assert done.exit_code == 1 and not set(done.output) & CONTROLS
        assert "is not an image that can be read" in done.stderr
        assert ("Traceback" in done.stderr) == bool(options)
        assert options or len(done.stderr.splitlines()) == 1


def test_passwords_are_shown_nowhere(tmp_path, monkeypatch, toys):
    def look_up(host, port):
        raise OSError(f"no route to https://me:SECRET@{host}/?key=SECRET")

    monkeypatch.setattr(fetch, "look_up", look_up)
    urls = ["https://me:SECRET@x.example/a.jpg?token=SECRET#SECRET", "http://SECRET@[::1/a"]
    urls.append("ftp://me:SECRET@h/?SECRET")
    source = write_jsonl(tmp_path / "rows.jsonl", [{"image": url, "caption": "red"} for url in urls])
    output = tmp_path / "scores.jsonl"
    skip = "--on-error skip"
    for options in ("", "--debug", "--allow-urls", f"--allow-urls {skip} --json", f"{skip} -o {output}"):
        done = run("score", source, "--no-cache", "--backbone", "toy", *options.split())
        assert done.exit_code in (1, 3) and "…@" in done.output and "SECRET" not in done.output
    assert "SECRET" not in (tmp_path / "scores.summary.json").read_text()
    rows = read_jsonl(output)
    assert [row["image"] for row in rows] == urls  # the rows themselves are the reader's own
    assert not any("SECRET" in row["capscore_error"] for row in rows)


def test_help_has_the_common_options_first_and_those_of_the_backbone_apart():
    shown = run("score", "--help").stdout
    panels = re.findall(r"─ (\w[\w ]*?) ─", shown)
    assert panels[0] == "Options" and {"Output", "Columns", "Backbone", "InfoMetIC"} < {*panels}
    first, backbone = (shown.split(f"─ {name} ─")[part] for name, part in (("Columns", 0), ("Backbone", 1)))
    assert "--metric" in first and "--output" in first and "--device" not in first
    assert "--device" in backbone and "--no-cache" in backbone
    assert all(re.search(rf"\b{metric}\b", shown) for metric in METRICS.names())


OFFERED = {"score --on-error ": "raise skip", "score -m mcs,ro": "mcs,rouge_l", "rob": "robustness"}
OFFERED["score --metric c"] = "clip_score clip_cider cider cider_d chair"


@pytest.mark.parametrize(("typed", "offered"), OFFERED.items())
def test_a_shell_completes_commands_options_and_metrics(typed, offered):
    words = f"capscore {typed}"
    env = {"_CAPSCORE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = run(env={**env, "COLUMNS": "80"}, prog_name="capscore")
    assert done.stdout.split() == offered.split(), done.stderr


def test_metrics_are_separated_by_commas():
    assert split_metrics(None) == [] and split_metrics(["mcs, cider,", "mcs"]) == ["mcs", "cider"]
    assert named_files(["a=b=c.json"]) == {"a": Path("b=c.json")}
    assert on_backbones([], ["embedded"]) == []  # as where only files of scores are named
    assert split_metrics(["mcs@folder,pr_mcs@other"]) == ["mcs@folder", "pr_mcs@other"]


def test_options_are_spelled_as_they_are_typed():
    assert spell(Setting("image_text", ["dog", "red ball"])) == "--image-text dog --image-text 'red ball'"
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
