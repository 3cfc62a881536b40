"""The examples in the docstrings of what makes the weights and measures them."""

import doctest
import importlib
import pkgutil

import pytest

import weights.making
import weights.measuring

MODULES = [
    found.name
    for package in (weights.making, weights.measuring)
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
