"""Weights are found by entry point, without running code, or one error says what is wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import capscore
from capscore.errors import MissingWeightsError
from capscore.files import shipped
from capscore.files.shipped import has_weights, weights_folder

VERSION = capscore.__version__


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Writes an installed distribution that offers folders of weights; no other one is found."""
    monkeypatch.syspath_prepend(tmp_path)
    entry_points = shipped.entry_points

    def here(group: str):
        points = entry_points(group=group)
        return [point for point in points if Path(str(point.dist.locate_file(""))) == tmp_path]

    def distribution(name: str, package: str, *folders: str, version: str = VERSION) -> Path:
        info = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(f"[capscore.weights]\n{name} = {package}\n")
        for folder in folders:
            (tmp_path / package / folder).mkdir(parents=True)
            (tmp_path / package / folder / "model.safetensors").write_bytes(b"weights")
        return tmp_path / package

    monkeypatch.setattr(shipped, "entry_points", here)
    return distribution


def refused(name: str) -> str:
    with pytest.raises(MissingWeightsError) as caught:
        weights_folder(name)
    assert not has_weights(name)
    assert f"'{name}'" in str(caught.value) and "backbone='embedded-free' does without" in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", ["pr_mcs", "infometic"])
def test_the_weights_of_this_repository_are_installed(name):
    folder = weights_folder(name)
    assert folder.parts[-2:] == ("capscore_weights", name)
    assert {"model.safetensors", "README.md", "settings.yaml"} <= {path.name for path in folder.iterdir()}
    assert "capscore_weights" not in sys.modules


def test_folders_of_several_distributions_are_found_and_no_code_runs(site):
    ours = site("capscore-weights", "weights_a", "eye", "pr_mcs")
    (ours / "__init__.py").write_text("raise SystemExit('code of weights ran')")
    mine = site("My_Weights", "weights_c", "other", version="7")
    assert [weights_folder(name) for name in ("eye", "pr_mcs", "other")] == [
        ours / "eye",
        ours / "pr_mcs",
        mine / "other",
    ]
    assert has_weights("eye") and "weights_a" not in sys.modules
    (ours / "eye" / "model.safetensors").rename(ours / "eye" / "model.safetensors.partial")
    assert f"version {VERSION} is installed" in refused("eye")


def test_no_name_means_two_things(site):
    site("capscore-weights", "weights_d", "eye")
    site("my-weights", "weights_e", "eye")
    assert "capscore-weights and my-weights both have them: uninstall one of the two" in refused("eye")


@pytest.mark.parametrize("package", [None, "weights_gone", "capscore.weights", "../weights"])
def test_not_installed(site, package):
    if package:
        site("capscore-weights", package)
    site("my-weights", "weights_f", "other")
    assert "it is not installed: pip install ./weights in a checkout of capscore" in refused("eye")


def test_weights_belong_to_a_series_of_versions(site):
    series = ".".join(VERSION.split(".")[:2])
    package = site("capscore-weights", "weights_i", "eye", version=f"{series}.99")
    assert weights_folder("eye") == package / "eye"


@pytest.mark.parametrize("version", ["0.1.0", "0.30.0", "1.3.0"])
def test_another_version(site, version):
    site("capscore-weights", "weights_h", "eye", version=version)
    assert f"version {version} is installed" in refused("eye")
