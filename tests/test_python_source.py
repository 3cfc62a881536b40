"""Syntax trees are read whatever the garbage collector would do meanwhile."""

from __future__ import annotations

import ast
import gc
from pathlib import Path

import pytest

from .python_source import syntax_tree


@pytest.mark.parametrize(
    "parsed", [syntax_tree, lambda path: ast.parse(path.read_text())], ids=["file", "text"]
)
def test_what_the_collector_runs_does_not_disturb(parsed):
    parsing = []

    def parse(phase, info):
        if not parsing:
            parsing.append(phase)
            ast.parse("a + b")
            parsing.clear()

    before = gc.get_threshold()
    gc.callbacks.append(parse)
    gc.set_threshold(50)
    try:
        tree = parsed(Path(ast.__file__))
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(parse)
    assert gc.isenabled() and any(getattr(node, "name", "") == "NodeVisitor" for node in tree.body)
