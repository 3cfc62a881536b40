"""The library's structure, as far as linters do not check it: `make lint` reads layers and circles."""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from importlib.metadata import packages_distributions
from pathlib import Path

from hatchling.builders.sdist import SdistBuilder

from .source import ROOT, SOURCES, named, syntax_tree

PACKAGE = ROOT / "capscore"
MAX_ENTRIES = 25
# commands of their own, the measurement of how long the command takes to start, and the pages of its options
COMMANDS_OUTSIDE = {"speed/startup.py", "docs/handbook/made_pages.py", "capscore/__main__.py"}


def too_many_packages() -> list[str]:
    """Names in `capscore/`, where there are more than a reader takes in."""
    entries = sorted({path.stem for path in PACKAGE.iterdir()} - {"__pycache__", "_shipped"})
    return entries if len(entries) > MAX_ENTRIES else []


def names_of_two_classes() -> list[str]:
    """Public names that classes of two files have."""
    files = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in syntax_tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files[node.name].append(named(path))
    del files["InfoMetIC"]  # a metric's scorer, and the network that it is named after
    return [f"{name}: {', '.join(paths)}" for name, paths in files.items() if len(paths) > 1]


def imports_of_the_command_line() -> list[str]:
    """Files that import `capscore.cli` and are no commands."""
    return [
        named(path)
        for path in _code()
        if re.search(r"capscore\.cli\b|from \.+cli\b", path.read_text(encoding="utf-8"))
        and not named(path).startswith("capscore/cli/")
        and named(path) not in COMMANDS_OUTSIDE
    ]


def undeclared_libraries() -> list[str]:
    """Libraries that code imports and pyproject.toml does not name."""
    requirements = re.findall(r'"([^"\n]+)"', (ROOT / "pyproject.toml").read_text("utf-8"))
    declared = {_canonical(re.split(r"[^\w.-]", requirement)[0]) for requirement in requirements}
    packages, undeclared = packages_distributions(), []
    for path in _code():
        for node in ast.walk(syntax_tree(path)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            for name in {name.partition(".")[0] for name in names} - sys.stdlib_module_names:
                found = {_canonical(item) for item in packages.get(name, [])}
                if found and not found & declared:
                    undeclared.append(f"{named(path)}, line {getattr(node, 'lineno', 0)}: {name}")
    return undeclared


def files_that_the_source_archive_lacks() -> list[str]:
    """Code, documents and the Makefile, which `make test` needs, and the archive is without."""
    packed = {Path(file.path) for file in SdistBuilder(str(ROOT)).recurse_included_files()}
    needed = {ROOT / "Makefile", *ROOT.glob("*.md"), *_code(), *_code("tests", "tools")}
    return sorted(named(path) for path in needed - packed)


def _canonical(name: str) -> str:
    return name.lower().replace("_", "-")


def _code(*folders: str) -> list[Path]:
    """The files with code of folders; without any, of those that people install or run."""
    return [path for folder in folders or SOURCES for path in sorted((ROOT / folder).rglob("*.py"))]
