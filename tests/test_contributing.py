"""The worked examples of CONTRIBUTING, made in a copy: few edits each, and the laws hold for what is new."""

import re
import shutil
from pathlib import Path

import pytest

from . import processes

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("capscore", "docs", "metrics", "datasets_scripts", "tests", "tools", "pyproject.toml", "README.md")
_EDIT = re.compile(
    r"(?:A new file in `(?P<folder>[^`]+)`, `(?P<name>[^`]+)`"
    r"|In `(?P<file>[^`]+)`, (?P<side>after|before) `(?P<anchor>[^\n]*?)`(?=[:,]))[^\n]*:\n\n"
    r"```\w+\n(?P<text>.*?)```\n",
    re.DOTALL,
)
# example → what is new, and the tests that try it
TRIED = {
    "A metric": ("length_ratio", ["tests/test_metric_laws.py", "tests/test_project.py"]),
    "A layout of files": ("albums", ["tests/files/test_layouts.py"]),
    "A perturbation": ("echo", ["tests/test_perturbation_laws.py"]),
    "A reading of the judge": ("stars", []),
}
USED = """
import capscore
from tests.judges.test_parity import PHOTOS
from tools.tiny.judges import tiny_judge

judge = capscore.load("judge", backbone=tiny_judge(), reading="stars", cache=False)
scores = judge.score(["a", "b"], PHOTOS[:2])
assert ((scores.scores >= 0) & (scores.scores <= 1)).all() and "|reading:stars|" in scores.signature
scores = capscore.load("length_ratio", longest=2).score(["a b c", "a"], references=[["a"], ["a b"]])
assert scores.scores.tolist() == [2, 0.5] and scores.ranking.tolist() == [-2, -0.5]
"""


def examples():
    section = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## Four worked examples\n")[2]
    parts = re.split(r"^### (.+)\n", section.partition("\n## ")[0], flags=re.MULTILINE)[1:]
    found = {}
    for title, text in zip(parts[::2], parts[1::2], strict=True):
        edits = [match.groupdict() for match in _EDIT.finditer(text)]
        found[title] = [{**edit, "file": edit["file"] or f"{edit['folder']}{edit['name']}"} for edit in edits]
    return found


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the library in which all examples are made: each in at most three files, one edit a file."""
    folder = tmp_path_factory.mktemp("copy")
    ignored = shutil.ignore_patterns("__pycache__")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, folder / name)
    assert examples().keys() == TRIED.keys()
    for title, edits in examples().items():
        assert 1 < len(edits) <= 3 and len({edit["file"] for edit in edits}) == len(edits), title
        for edit in edits:
            path = folder / edit["file"]
            assert path.exists() == bool(edit["side"]), edit["file"]
            path.write_text(changed(path, edit), encoding="utf-8")
    laws = folder / "tests" / "test_metric_laws.py"  # the example of docs/extending.md has the same name
    laws.write_text(laws.read_text("utf-8").replace(', "length_ratio")', ")"), encoding="utf-8")
    return folder


def changed(path, edit):
    if not edit["side"]:
        return edit["text"]
    lines = path.read_text("utf-8").splitlines(keepends=True)
    (at,) = [number for number, line in enumerate(lines) if edit["anchor"] in line]
    lines.insert(at + (edit["side"] == "after"), edit["text"])
    return "".join(lines)


BEGIN = """
import sys, pytest
for name in [*sys.modules]:  # of the library itself
    if name.partition(".")[0] in {names!r}:
        del sys.modules[name]
sys.path.insert(0, {copy!r})
"""


def run(copy, program):
    """Run a program in the copy, in a process in which the libraries that ours uses are imported."""
    begin = BEGIN.format(names=(*COPIED, "training"), copy=str(copy))
    done = processes.run(["-c", begin + program], cwd=copy)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_the_laws_hold_for_what_is_new(copy):
    tests = dict.fromkeys(file for _, files in TRIED.values() for file in files)
    names = " or ".join([*(name for name, _ in TRIED.values()), "names_that_pages_lack"])
    words = ["-q", "-p", "no:cacheprovider", "-n", "0", *tests, "-k", names]
    run(copy, f"sys.exit(pytest.main({words}))")


def test_what_is_new_is_used_by_its_name(copy):
    run(copy, f"import warnings\nwarnings.simplefilter('ignore')\n{USED}")
