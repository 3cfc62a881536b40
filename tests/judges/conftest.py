"""Fixtures of the judges' tests."""

from __future__ import annotations

import functools

import pytest

from tools.tiny.judges import tiny_judge, write_model


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory):
    """`tiny_model(family)`: the folder of a tiny checkpoint, written once per session."""
    return functools.cache(lambda family: write_model(tmp_path_factory.mktemp(family), family))


@pytest.fixture
def passes(monkeypatch):
    """The token ids of each forward pass of the tiny Qwen2.5-VL."""
    model = tiny_judge("qwen2_5_vl").model
    forward, found = model.forward, []

    def noted(**inputs):
        found.append(inputs["input_ids"])
        return forward(**inputs)

    monkeypatch.setattr(model, "forward", noted)
    return found
