"""What holds for every command of `capscore`: its help, exit codes, errors, files, and both streams."""

import errno
import functools
import json
import os
import re
import shutil

import pytest

import capscore
from docs.handbook.made_pages import command_pages
from tools.hostile.commands import CASES, command_named, content
from tools.tiny.colours import ColourBackbone
from tools.tiny.command import run as run_words
from tools.tiny.command import write_jsonl

from .benchmarks.test_run import rated
from .datasets_scripts.conftest import _own_cache, official
from .laws import KINDS, every
from .toy_command import write_photos

__all__ = ["_own_cache"]
ROWS = [
    ("red.png", "red sea", ["red sky", "a red sea"]),
    ("green.png", "red green tree", ["green tree"]),
    ("blue.png", "red house blue sea", ["blue sea"]),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    write_photos(folder)
    rows = [dict(zip(("image", "caption", "references"), row, strict=True), language="en") for row in ROWS]
    write_jsonl(folder / "rows.jsonl", rows)
    for name, shift in (("a", 0), ("b", 0.1)):
        write_jsonl(folder / f"{name}.jsonl", [{**row, "mcs": n / 10 + shift} for n, row in enumerate(rows)])
    (folder / "flickr").mkdir()
    official("flickr8k_human").write(folder / "flickr")
    rated(folder / "flickr")
    (folder / "xm3600").mkdir()
    official("xm3600").write(folder / "xm3600")
    return folder


@pytest.fixture
def folder(made, tmp_path, monkeypatch):
    folder = tmp_path / "work"
    shutil.copytree(made, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setattr("capscore.backbones.load_backbone", lambda name, **options: ColourBackbone())
    monkeypatch.setattr("capscore.scoring.calibrating.MIN_PHOTOS", 2)
    for name in ("build_app", "launch"):
        monkeypatch.setattr(f"capscore.show.app.{name}", lambda *_, **__: None)
    if not (made / "result.json").exists():
        assert run("benchmark", CASES["benchmark"].arguments, "--output", made / "result.json").exit_code == 0
        shutil.copy(made / "result.json", folder)
    return folder


PAGES = functools.cache(command_pages)
UNBROKEN = ("calibrate", "cite", "data check", "perturb")  # JSON, BibTeX, paths, rows
GONE = {"benchmark": {"compare FILES": ["--systems"]}, "robustness": {"robustness FILE": ["--captions=x"]}}


def run(command, arguments="", *more):
    words = arguments.split() if isinstance(arguments, str) else arguments
    return run_words(*command.split(), *words, *more)


def listed(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def takes(command, option):
    return any(option in parameter.opts for parameter in command_named(command).params)


def with_option(option):
    return pytest.mark.parametrize("command", [name for name in CASES if takes(name, option)])


def test_every_command_has_a_case():
    assert sorted(CASES) == sorted(KINDS["command"]())


@every("command")
def test_help_fits_80_columns_and_has_every_option_of_the_handbook(command):
    shown = run(command, "--help")
    assert shown.exit_code == 0 and max(map(len, shown.stdout.splitlines())) <= 80
    assert not [sign for sign in ("list[", "<path>", "<str>", "<bool>", " PATH ") if sign in shown.stdout]
    in_handbook = re.findall(r"`(--[\w-]+)`", PAGES()[command.replace(" ", "-")])
    assert {"--debug", "--help", *in_handbook} <= set(re.findall(r"--[\w-]+", shown.stdout))


@every("command")
def test_an_unknown_option_and_an_extra_argument_are_wrong_usage(command, folder):
    before = listed(folder)
    wrong = {"No such option: --nonesuch": ["--nonesuch"]}
    wrong |= GONE.get(command, {})
    wrong |= {} if CASES[command].more else {"unexpected extra argument": ["x", "y"]}
    for message, more in wrong.items():
        done = run(command, CASES[command].arguments, *more)
        assert (done.exit_code, done.stdout) == (2, "")
        assert message in " ".join(done.stderr.replace("│", "").split()) and "Traceback" not in done.stderr
    assert listed(folder) == before


@every("command")
def test_an_empty_text_names_no_file_and_no_metric(command, folder):
    words = CASES[command].arguments.split()
    options = re.findall(r"(--[\w-]+) +(?:-\w +)?(?:FILE|FOLDER|METRIC) ", run(command, "--help").stdout)
    calls = [[*words, f"{option}="] for option in options]
    for read in CASES[command].reads.split():
        if not read.startswith("-"):
            calls.append(["" if word == read else word for word in words])
    for call in calls:
        done = run(command, call)
        assert done.exit_code in (1, 2) and done.stdout == "", (call, done.output)


@every("command")
def test_a_right_command_prints_80_columns_without_colours_or_errors(command, folder):
    done = run(command, CASES[command].arguments)
    assert done.exit_code == CASES[command].code, done.output
    assert "error" not in done.stderr and "\x1b" not in done.output
    copied = ("|", "@", "/", "load it: ", "--", "note: ")  # lines that a reader copies are never broken
    lines = [line for line in done.stdout.splitlines() if not any(sign in line for sign in copied)]
    assert command in UNBROKEN or max(map(len, lines), default=0) <= 80


@with_option("--json")
def test_json_is_all_that_stdout_has(command, folder):
    case = CASES[command]
    done = run(command, case.arguments, *([] if "--json" in case.arguments else ["--json"]))
    assert done.exit_code == case.code, done.output
    json.loads(done.stderr if command == "perturb" else done.stdout)  # its rows are on stdout


@with_option("--quiet")
def test_quiet_is_quiet(command, folder):
    case = CASES[command]
    done = run(command, case.arguments.replace("--json", ""), *case.writes.split()[0].split("="), "--quiet")
    assert (done.exit_code, done.output) == (case.code, "")


def bad_files(folder, word):
    """Nothing, folder, link to itself, endless device, other encoding, each with the suffix of a file."""
    suffix = os.path.splitext(word)[1] if "." in word else ""
    (folder / f"empty{suffix}").mkdir()
    (folder / f"loop{suffix}").symlink_to(f"loop{suffix}")
    (folder / f"endless{suffix}").symlink_to("/dev/zero")
    (folder / f"latin{suffix}").write_bytes('{"caption": "café"}\n'.encode("latin-1"))
    return [f"{name}{suffix}" for name in ("gone", "empty", "loop", "endless", "latin")]


READ = [(command, word) for command, case in CASES.items() for word in case.reads.split()]


@pytest.mark.parametrize(("command", "word"), READ)
def test_a_path_that_is_not_a_file_is_one_error_that_names_it(command, word, folder):
    words = CASES[command].arguments.split()
    for name in bad_files(folder, word):
        before = listed(folder)
        given = [*words, word, name] if word.startswith("--") else [name if w == word else w for w in words]
        done = run(command, given)
        assert done.exit_code in (1, 2) and done.stdout == "", (name, done.output)
        errors = [line for line in done.stderr.splitlines() if line.startswith("capscore: error: ")]
        assert len(errors) == 1 and name in errors[0] and "Traceback" not in done.stderr, done.stderr
        assert listed(folder) == before


WRITTEN = [(command, *pair.split("=")) for command, case in CASES.items() for pair in case.writes.split()]
written = pytest.mark.parametrize(("command", "option", "name"), WRITTEN)


@written
def test_an_output_is_overwritten_only_with_force(command, option, name, folder):
    before = listed(folder)
    arguments = (CASES[command].arguments, option, name)
    assert run(command, *arguments).exit_code == 0
    new = [path for path in listed(folder) if path not in before]
    allowed = rf"{name}(/.*)?|{name.split('.')[0]}\.summary\.json"
    assert name in new and not [path for path in new if not re.fullmatch(allowed, path)]
    if name != "o":  # a folder is replaced only where it is an earlier export
        (folder / name).write_text("mine")
    mine = content(folder / name)
    refused = run(command, *arguments)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert name in refused.stderr and "--force" in refused.stderr and content(folder / name) == mine
    if takes(command, "--force") and option != "--write-queries":
        assert run(command, *arguments, "--force").exit_code == 0
        assert name == "o" or "mine" not in (folder / name).read_text("utf-8", "replace")


# command, options that write two files, of which the first is written first
TWO_FILES = [(name, "--output o.json --markdown o.md") for name in ("benchmark", "compare", "robustness")]
TWO_FILES.append(("score", "--output o.jsonl --report o.html"))
TWO_FILES.append(("score", "--min-score 0.5 --keep o.jsonl --drop dropped.jsonl"))
ENDS = [KeyboardInterrupt(), SystemExit(143), OSError(errno.ENOSPC, "No space left")]


@written
@pytest.mark.parametrize(("error", "code"), [(ENDS[2], 1), (ENDS[0], 130)])
def test_nothing_is_half_written(command, option, name, error, code, folder, monkeypatch):
    if name != "o":
        (folder / name).write_text("mine")
    before, mine = listed(folder), content(folder / name)

    def fail(*_, **__):
        raise error

    for way in ("os.replace", "os.rename"):
        monkeypatch.setattr(way, fail)
    done = run(command, CASES[command].arguments, option, name, "--force")
    assert done.exit_code == code and "Traceback" not in done.stderr
    expected = "capscore: interrupted" if code == 130 else f".*({name}|o.summary.json).*No space left.*"
    assert re.fullmatch(expected, done.stderr.splitlines()[-1])
    assert listed(folder) == before and content(folder / name) == mine


@pytest.mark.parametrize(("command", "options"), TWO_FILES)
@pytest.mark.parametrize("end", ENDS, ids=repr)
def test_a_run_that_is_cut_off_says_which_file_is_new(command, options, end, folder, monkeypatch):
    first, second = options.split()[-3::2]
    replace = os.replace

    def cut_off(partial, target):
        if str(target).endswith(second):
            raise end
        replace(partial, target)

    monkeypatch.setattr("os.replace", cut_off)
    done = run(command, f"{CASES[command].arguments} {options}")
    assert done.exit_code in (1, 130, 143) and (folder / first).exists() and not (folder / second).exists()
    note = re.search("note: written: (.*); not written, and as before if there: (.*)", done.stderr)
    assert first in note[1] and note[2] == second


@written
def test_an_impossible_output_is_an_error_before_the_work(command, option, name, folder):
    (folder / "file").write_text("no folder")
    done = run(command, CASES[command].arguments, option, f"file/{name}")
    assert (done.exit_code, done.stdout) in ((1, ""), (2, "")) and "file" in done.stderr.splitlines()[-1]
    assert done.stderr.splitlines()[-1].startswith("capscore: error: ")


def test_commands_give_what_python_gives(folder):
    # of the others: test_metric_laws.py, test_perturbation_laws.py, cli/test_explain.py
    found = json.loads(run("benchmark", f"{CASES['benchmark'].arguments} --json").stdout)
    made = capscore.benchmark("flickr8k_human", "rouge_l", config="expert", data_dir=folder / "flickr")
    measured = [each["results"][0]["statistics"][0]["measured"] for each in (found, made.to_dict())]
    assert measured[0] == measured[1]
    names = [entry["benchmark"] for entry in json.loads(run("data list", "--json").stdout)]
    assert names == list(capscore.benchmark_slugs())
