"""The package of docs/extending.md: its entry points and its modules are the blocks of the page."""

import importlib.util
import re
import sys
import tempfile
from pathlib import Path

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "extending.md"
_BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", _PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
_ENTRY_POINTS = "".join(text for kind, text in _BLOCKS if kind == "toml")
_PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "capscore-outside"
version = "1.0"

"""
_WRITTEN = tempfile.TemporaryDirectory()  # classes are known by their files
# module → what its entry point names, and its source, which defines that
MODULES = {}
for _module, _name in re.findall(r'"capscore_outside\.(\w+):(\w+)"', _ENTRY_POINTS):
    (_source,) = [text for _, text in _BLOCKS if re.search(rf"^(class|def) {_name}\b", text, re.MULTILINE)]
    MODULES[_module] = _name, _source


def write_package(folder):
    (folder / "capscore_outside").mkdir(parents=True)
    (folder / "pyproject.toml").write_text(_PROJECT + _ENTRY_POINTS)
    (folder / "capscore_outside" / "__init__.py").touch()
    for module, (_, source) in MODULES.items():
        (folder / "capscore_outside" / f"{module}.py").write_text(source)


def run_module(module):
    """What a module defines for its entry point, and registers, without the package being installed."""
    name, source = MODULES[module]
    path = Path(_WRITTEN.name, f"{module}.py")
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(f"docs_extending_{module}", path)
    made = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return getattr(made, name)
