"""Fixtures of the judges' tests."""

from __future__ import annotations

import functools

import pytest

from .tiny_models import write_model


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory):
    """`tiny_model(family)`: the folder of a tiny checkpoint, written once per session."""
    return functools.cache(lambda family: write_model(tmp_path_factory.mktemp(family), family))
