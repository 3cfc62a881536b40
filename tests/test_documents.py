"""Documents name files, folders, modules and targets of this repository; every one of them exists."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import shlex
from pathlib import Path

import pytest

from capscore.cli import app
from capscore.cli.terminal import spell
from capscore.errors import Setting
from docs.handbook.made_pages import RECIPES
from training.engine.config import described

from .cli.conftest import command as tree
from .laws import KINDS
from .python_source import syntax_tree

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("capscore", "metrics", "datasets_scripts", "training", "tests", "speed", "docs", "weights")
DOCUMENTS = [
    path
    for path in sorted(
        [*ROOT.glob("*.md"), *(found for room in FOLDERS for found in ROOT.glob(f"{room}/**/*.md"))]
    )
    if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
]
# `capscore/text/ptb.py`, `training/configs/pr_mcs.yaml`, `metrics/<name>/` (a pattern, so not taken)
PLACE = re.compile(rf"(?<![\w./<>-])((?:{'|'.join(FOLDERS)})/[\w./-]*\w/?)(?![\w<>*{{])")
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)\s#]+)")
MODULE = re.compile(r"python -m ((?:speed|training|tests|capscore)(?:\.\w+)*)")
CODE = re.compile(r"```\w*\n(.*?)```|`([^`\n]+)`", re.S)
TARGET = re.compile(r"(?:^|&& )make ([a-z][a-z0-9.-]*)", re.M)
# what a command in a document makes, or where a reader's own files are
MADE = ("docs/build",)


def named(document: Path) -> str:
    return str(document.relative_to(ROOT))


def code(text: str) -> str:
    """All code of a document, blocks and inline."""
    return "\n".join(block or inline for block, inline in CODE.findall(text))


@pytest.mark.skipif(not (ROOT / "weights/README.md").exists(), reason="a source archive has no weights")
@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_places_exist(document):
    text = document.read_text(encoding="utf-8")
    if document.name == "CHANGELOG.md":  # older versions had other files
        text = re.split(r"^## ", text, flags=re.M)[1]
    missing = [
        place for place in PLACE.findall(text) if not (ROOT / place).exists() and not place.startswith(MADE)
    ]
    missing += [
        link
        for link in LINK.findall(text)
        if not (document.parent / link).exists() and "{" not in link and "<" not in link
    ]
    assert not missing, f"{named(document)} names {', '.join(sorted(set(missing)))}, which is not there"


@pytest.mark.parametrize("document", [one for one in DOCUMENTS if one.name != "CHANGELOG.md"], ids=named)
def test_commands_exist(document):
    text = document.read_text(encoding="utf-8")
    absent = [module for module in MODULE.findall(text) if importlib.util.find_spec(module) is None]
    targets = set(re.findall(r"^([a-z][a-z0-9.-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    absent += [f"make {target}" for target in TARGET.findall(code(text)) if target not in targets]
    assert not absent, f"{named(document)} names {', '.join(sorted(set(absent)))}, which is not there"


def commands_in(text: str) -> list[list[str]]:
    """What a reader types into a shell, word by word; lines that go on are joined."""
    blocks = re.findall(r"^```(?:bash|console|sh)\n(.*?)^```", text, re.S | re.M)
    lines = [
        line.strip().removeprefix("$ ")
        for block in blocks
        for line in block.replace("\\\n", " ").splitlines()
    ]
    inline = re.findall(r"`((?:capscore|python -m training)[^`\n]*)`", text)
    found = []
    for line in [*lines, *inline]:
        try:
            found.append(shlex.split(line.replace("…", ""), comments=True))
        except ValueError:  # a sign that opens no quotation
            found.append(line.split())
    return found


def options_of_command(words: list[str]) -> set[str] | None:
    """The options of the command that words begin with, none if it does not exist; None if it is not ours."""
    if words[:1] == ["capscore"]:
        command = tree(app)
        for word in words[1:]:
            inside = getattr(command, "commands", None)
            if inside is None or not re.match(r"[a-z]+\Z", word):
                break
            if word not in inside:
                return set()
            command = inside[word]
        if hasattr(command, "add_metric_options"):
            command.add_metric_options()
        found = {flag for one in command.params for flag in (*one.opts, *one.secondary_opts)}
        return found | {"--help", "--install-completion", "--show-completion"}
    if words[:2] == ["python", "-m"] and len(words) > 2:
        for place, settings in RECIPES.values():
            if words[2] == place.removesuffix(".settings"):
                kind = getattr(importlib.import_module(place), settings)
                names = {name for name, _, _ in described(kind)} | {"config", "help"}
                return {f"--{name}" for name in names}
    return None


def unknown_in(text: str) -> list[str]:
    """Commands and options of ours that a text names and that do not exist."""
    unknown = []
    for words in commands_in(text):
        known = options_of_command(words)
        flags = [word.partition("=")[0] for word in words if re.match(r"--[a-z]", word)]
        if known is not None:
            unknown += [f"{' '.join(words[:4])} {flag}" for flag in flags if flag not in known]
            unknown += [] if known else [" ".join(words[:4])]
    return unknown


@pytest.mark.parametrize("document", [one for one in DOCUMENTS if one.name != "CHANGELOG.md"], ids=named)
def test_commands_and_options_exist(document):
    unknown = unknown_in(document.read_text(encoding="utf-8"))
    assert not unknown, f"{named(document)}: {', '.join(unknown)}"


OF_OTHERS = "--force-reinstall --no-deps --nproc_per_node --gpus --to_json".split()  # pip, torchrun, COMET


@pytest.mark.parametrize("folder", ["capscore", "training"])
def test_what_messages_and_docstrings_name_exists(folder):
    """Commands and their options, options alone, and settings: parameters of functions, or fields."""
    flags, settings, wrong = {"--help", *OF_OTHERS}, {"path", "num_process"}, []  # the second is evaluate's
    for page in KINDS["command"]():
        flags |= options_of_command(["capscore", *page.split()]) or set()
    for place, kind in RECIPES.values():
        settings |= {name for name, _, _ in described(getattr(importlib.import_module(place), kind))}
    trees = {path: syntax_tree(path) for path in sorted((ROOT / folder).rglob("*.py"))}
    nodes = [(path, node) for path, tree in trees.items() for node in ast.walk(tree)]
    settings |= {node.arg for _, node in nodes if isinstance(node, ast.arg)}
    settings |= {getattr(node.target, "id", "") for _, node in nodes if isinstance(node, ast.AnnAssign)}
    for path, node in nodes:
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Setting":
            name = getattr(node.args[0], "value", None)
            if isinstance(name, str) and name not in settings and spell(Setting(name)) not in flags:
                wrong.append(f"{named(path)}: {name}")
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            wrong += [f"{named(path)}: {each}" for each in unknown_in(node.value)]
            for flag in re.findall(r"(?<![\w-])--[a-z][\w-]+(?= |\Z)", node.value):
                if flag not in flags and flag[2:] not in settings:
                    wrong.append(f"{named(path)}: {flag}")
    assert not wrong, "\n".join(wrong)
