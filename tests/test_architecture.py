"""The library's structure, as far as linters do not check it: `make lint` reads layers and circles."""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.python_source import syntax_tree

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "capscore"
SOURCES = ("capscore", "training", "speed", "metrics", "datasets_scripts", "docs", "weights")
MAX_ENTRIES = 25
# commands of their own, the measurement of how long the command takes to start, and the pages of its options
COMMANDS_OUTSIDE = {"speed/startup.py", "docs/handbook/made_pages.py"}


def test_there_are_few_packages():
    entries = {path.stem for path in PACKAGE.iterdir()} - {"__pycache__", "_shipped"}
    assert len(entries) <= MAX_ENTRIES, sorted(entries)


def test_classes_have_names_of_their_own():
    modules = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in syntax_tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].append(path.relative_to(ROOT).as_posix())
    del modules["InfoMetIC"]  # a metric's scorer, and the network that it is named after
    assert not {name: paths for name, paths in modules.items() if len(paths) > 1}


@pytest.mark.parametrize("folder", SOURCES)
def test_nothing_but_commands_imports_the_command_line(folder):
    found = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / folder).rglob("*.py")
        if re.search(r"capscore\.cli\b|from \.+cli\b", path.read_text(encoding="utf-8"))
    }
    assert {name for name in found if not name.startswith("capscore/cli/")} <= {
        *COMMANDS_OUTSIDE,
        "capscore/__main__.py",
    }


def test_every_library_that_is_imported_is_declared():
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    declared = {
        re.split(r"[^\w.-]", requirement)[0].lower().replace("_", "-")
        for requirement in re.findall(r'"([^"\n]+)"', project)
    }
    packages = packages_distributions()
    undeclared = set()
    for path in (path for folder in SOURCES for path in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(syntax_tree(path)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            for name in {name.partition(".")[0] for name in names} - sys.stdlib_module_names:
                found = {item.lower().replace("_", "-") for item in packages.get(name, [])}
                if found and not found & declared:
                    undeclared.add(f"{path.relative_to(ROOT)} (line {node.lineno}) imports {name}")
    assert not undeclared
