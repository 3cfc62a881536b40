"""Weights are found without running code, or one error says what is wrong."""

import sys

import pytest

import capscore
from capscore.errors import MissingWeightsError, install_command
from capscore.files.shipped import has_weights, weights_folder


@pytest.mark.parametrize("name", ["pr_mcs", "infometic"])
def test_the_weights_of_this_repository_are_installed(name):
    folder = weights_folder(name)
    assert folder.parts[-2:] == ("capscore_weights", name) and has_weights(name)
    assert {"model.safetensors", "README.md", "settings.yaml"} <= {path.name for path in folder.iterdir()}
    assert "capscore_weights" not in sys.modules


def refused(name: str) -> str:
    with pytest.raises(MissingWeightsError) as caught:
        weights_folder(name)
    assert not has_weights(name)
    assert f"'{name}'" in str(caught.value) and "backbone='embedded-free' does without" in str(caught.value)
    return str(caught.value)


def test_missing_weights_say_how_to_install_them(no_weights_installed):
    assert f"it is not installed: {install_command('weights')}" in refused("pr_mcs")


def test_weights_belong_to_a_series_of_versions(monkeypatch):
    series = ".".join(capscore.__version__.split(".")[:2])
    monkeypatch.setattr("capscore.files.shipped.version", lambda name: f"{series}.99")
    assert has_weights("pr_mcs") and f"version {series}.99 is installed" in refused("other")
    for other in ("0.1.0", "0.30.0", "1.3.0"):
        monkeypatch.setattr("capscore.files.shipped.version", lambda name, other=other: other)
        assert f"version {other} is installed" in refused("pr_mcs")
