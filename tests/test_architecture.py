"""The layers of the library, read from the imports: which package may use which, and what none may do.

In: every `.py` file of the library. Out: sentences, one for each import that breaks a rule.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.python_source import syntax_tree

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "capscore"
MAX_ENTRIES = 19

# From the bottom up: a package imports from lower layers only. Packages of one layer don't import each other.
LAYERS = (
    ("errors",),
    ("registry",),
    ("files",),
    ("text", "images"),
    ("statistics", "perturbations", "backbones"),
    ("embedding",),
    ("infometic",),
    ("metrics",),
    ("benchmarks",),
    ("show", "hub"),
    ("cli", "integrations"),
)
LAYER = {package: layer for layer, packages in enumerate(LAYERS) for package in packages}
# what stands above all packages and is only used from outside
ENTRANCES = {"__init__", "__main__"}


class Import(NamedTuple):
    """One imported name: who imports it, where it is from, what it is."""

    importer: str
    line: int
    module: str
    name: str

    @property
    def package(self) -> str:
        return package_of(self.importer)

    @property
    def from_package(self) -> str:
        return package_of(self.module)


def package_of(module: str) -> str:
    """The package that a module of capscore is in; "" is the package itself."""
    return module.partition(".")[2].partition(".")[0]


def modules() -> dict[str, Path]:
    """Every module of capscore by its dotted name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imports() -> Iterator[Import]:
    """Every import of capscore inside capscore, wherever in a file it stands."""
    for module, path in MODULES.items():
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        for node in ast.walk(syntax_tree(path)):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name.split(".")[0] == "capscore":
                        yield Import(module, node.lineno, alias.name, "")
            elif isinstance(node, ast.ImportFrom):
                base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
                source = ".".join([*base, *([node.module] if node.module else [])])
                if source.split(".")[0] != "capscore":
                    continue
                for alias in node.names:
                    inside = f"{source}.{alias.name}"
                    yield (
                        Import(module, node.lineno, inside, "")
                        if inside in MODULES
                        else Import(module, node.lineno, source, alias.name)
                    )


IMPORTS = list(imports())


def told(problems: list[str]) -> None:
    assert not problems, "\n" + "\n".join(sorted(set(problems)))


def test_there_are_few_packages_and_each_is_in_a_layer():
    entries = sorted(path.name for path in PACKAGE.iterdir() if path.name not in ("__pycache__", "_shipped"))
    assert len(entries) <= MAX_ENTRIES, (
        f"capscore/ has {len(entries)} entries at its top: {', '.join(entries)}"
    )
    packages = {name.removesuffix(".py") for name in entries} - ENTRANCES - {"py.typed"}
    assert packages <= set(LAYER), f"no layer holds {', '.join(sorted(packages - set(LAYER)))}"


def test_arrows_go_down():
    told(
        [
            f"{one.importer} (line {one.line}) is in {one.package}/ and imports {one.module}: "
            f"{one.from_package}/ is not below {one.package}/"
            for one in IMPORTS
            if one.package not in ENTRANCES | {""}
            and one.from_package not in ("", one.package)
            and LAYER[one.from_package] >= LAYER[one.package]
        ]
    )


def test_from_the_package_itself_only_its_version_is_taken_and_only_main_imports_the_command_line():
    told(
        [
            f"{one.importer} (line {one.line}) imports {one.name} of {one.module}"
            for one in IMPORTS
            if (
                one.module == "capscore" and one.name != "__version__" and one.package not in ENTRANCES | {""}
            )
            or (one.from_package == "cli" and one.package not in ("cli", "__main__"))
        ]
    )


def test_underscored_names_stay_in_their_file():
    told(
        [
            f"{one.importer} (line {one.line}) imports {part} of {one.module}, which is private to it"
            for one in IMPORTS
            for part in (one.name, one.module.rpartition(".")[2])
            if part.startswith("_") and not part.startswith("__")
        ]
    )


def test_no_module_imports_itself_in_a_circle():
    uses: dict[str, set[str]] = {module: set() for module in MODULES}
    for one in IMPORTS:
        if one.module in MODULES and one.module != one.importer:
            uses[one.importer].add(one.module)
    # `from . import x` in a package's own file is how it offers x, not a use of it
    for module, path in MODULES.items():
        if path.name == "__init__.py":
            uses[module] = {used for used in uses[module] if not used.startswith(f"{module}.")}
    circles, done = [], set()

    def walk(module: str, way: list[str]) -> None:
        if module in way:
            circles.append(" → ".join([*way[way.index(module) :], module]))
        elif module not in done:
            for used in sorted(uses[module]):
                walk(used, [*way, module])
            done.add(module)

    for module in sorted(uses):
        walk(module, [])
    told([f"a circle of imports: {circle}" for circle in circles])


def test_classes_have_names_of_their_own():
    places: dict[str, list[str]] = {}
    for module, path in MODULES.items():
        for node in syntax_tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(module)
    # a metric's scorer, and the network that it is named after
    places.pop("InfoMetIC", None)
    told([f"{name} is a class in {' and in '.join(at)}" for name, at in places.items() if len(at) > 1])


# commands of their own, the measurement of how long the command takes to start, and the pages of its options
COMMANDS_OUTSIDE = {
    *("training/convert_infometic.py", "benchmarks/speed/startup.py"),
    "docs/handbook/made_pages.py",
}


@pytest.mark.parametrize("folder", ["training", "benchmarks", "metrics", "datasets_scripts", "docs"])
def test_what_stands_around_the_library_uses_public_names_and_no_command(folder):
    problems = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name not in COMMANDS_OUTSIDE and "capscore.cli" in path.read_text(encoding="utf-8"):
            problems.append(f"{name} imports capscore.cli and is no command")
        for node in ast.walk(syntax_tree(path)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "capscore":
                problems += [
                    f"{name} (line {node.lineno}) imports {alias.name} of {node.module}"
                    for alias in node.names
                    if alias.name.startswith("_") and not alias.name.startswith("__")
                ]
    told(problems)


def test_every_library_that_is_imported_is_declared():
    projects = [
        (ROOT / name).read_text(encoding="utf-8") for name in ("pyproject.toml", "weights/pyproject.toml")
    ]
    declared = {
        re.split(r"[^\w.-]", requirement)[0].lower().replace("_", "-")
        for project in projects
        for requirement in re.findall(r'"([^"\n]+)"', project)
    }
    of_module = packages_distributions()
    problems = []
    for folder in ("capscore", "training", "benchmarks", "metrics", "datasets_scripts", "docs", "weights"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(syntax_tree(path)):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and not node.level:
                    names = [node.module or ""]
                for name in {name.partition(".")[0] for name in names} - sys.stdlib_module_names:
                    found = {item.lower().replace("_", "-") for item in of_module.get(name, [])}
                    if found and not found & declared:
                        problems.append(f"{path.relative_to(ROOT)} (line {node.lineno}) imports {name}")
    told(problems)
