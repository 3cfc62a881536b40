"""The examples in the docstrings of the recipes, and of what makes the weights and measures them."""

import doctest
import importlib
import pkgutil

import pytest

import training
import weights.making
import weights.measuring

MODULES = [
    found.name
    for package in (training, weights.making, weights.measuring)
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
]

# what must have examples
SHOWN = "config early_stopping infometic_losses loop model_card pr_mcs_losses ratings".split()
SHOWN = [f"training.engine.{name}" for name in SHOWN]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    failed, tried = doctest.testmod(importlib.import_module(name), optionflags=flags)
    assert not failed and (tried or name not in SHOWN)
