"""The examples in the docstrings of what makes the weights."""

import doctest
import importlib
import pkgutil

import pytest

import weights.making

MODULES = [found.name for found in pkgutil.walk_packages(weights.making.__path__, "weights.making.")]


@pytest.mark.parametrize("name", [name for name in MODULES if not name.endswith("__main__")])
def test_docstring_examples(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
