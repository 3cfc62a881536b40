"""The plan of training/, read from the imports: which folder may use which."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.python_source import syntax_tree

TRAINING = Path(__file__).parents[2] / "training"
# folder → folders that it may import from; "" are the recipes and tools, which do not build on one another
MAY_USE = {"data": {"data"}, "engine": {"data", "engine"}, "": {"data", "engine"}}


def imports() -> Iterator[tuple[Path, ast.ImportFrom | ast.Import, str, list[str]]]:
    """(file, statement, module, names) of each import inside training/."""
    for path in sorted(TRAINING.rglob("*.py")):
        for node in ast.walk(syntax_tree(path)):
            if isinstance(node, ast.ImportFrom):
                yield path, node, node.module or "", [alias.name for alias in node.names]
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    yield path, node, alias.name, []


def test_imports_within_training_are_absolute_and_public():
    for path, node, module, names in imports():
        where = f"{path.relative_to(TRAINING)}, line {node.lineno}"
        assert not isinstance(node, ast.ImportFrom) or node.level == 0, f"{where}: a relative import"
        if module.split(".")[0] in ("training", "capscore"):
            assert not any(name.startswith("_") for name in (*module.split("."), *names)), where


def test_arrows_go_from_recipes_to_the_engine_to_the_data():
    for path, node, module, _ in imports():
        parts = module.split(".")
        if parts[0] != "training":
            continue
        where = f"{path.relative_to(TRAINING)}, line {node.lineno}, imports {module}"
        folder = path.relative_to(TRAINING).parts[0] if path.parent != TRAINING else ""
        assert parts[1:2] and parts[1] in MAY_USE[folder], where
