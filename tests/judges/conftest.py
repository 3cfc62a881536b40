"""Fixtures of the judges' tests."""

import functools

import pytest

from tools.tiny.judges import tiny_judge, write_model


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory):
    """`tiny_model(family)`: the folder of a tiny checkpoint, written once per session."""
    return functools.cache(lambda family: write_model(tmp_path_factory.mktemp(family), family))


@pytest.fixture
def watched(monkeypatch):
    """`watched(model)`: filled with what goes into each forward pass of the model."""

    def watch(model):
        forward, found = model.forward, []
        monkeypatch.setattr(model, "forward", lambda **inputs: found.append(inputs) or forward(**inputs))
        return found

    return watch


@pytest.fixture
def passes(watched):
    return watched(tiny_judge("qwen2_5_vl").model)
