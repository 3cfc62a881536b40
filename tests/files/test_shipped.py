"""Weights are found by entry point, without running code, or one error says what is wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import capscore
from capscore.errors import MissingWeightsError
from capscore.files import shipped
from capscore.files.shipped import has_weights, weights_folder

FREE = "; backbone='embedded-free' does without, and is Apache-2.0 throughout"
INSTALL = ": pip install ./weights in a checkout of capscore"
BEGINNING = "the weights '{}' are part of capscore-weights (CC BY-NC 4.0, not for commercial use), and "


def distribution(
    site: Path,
    name: str,
    package: str,
    *folders: str,
    version: str = capscore.__version__,
    point: bool = True,
) -> Path:
    """Write an installed distribution that offers folders of weights; the folder of its package."""
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n")
    if point:
        (info / "entry_points.txt").write_text(f"[capscore.weights]\n{name} = {package}\n")
    for folder in folders:
        (site / package / folder).mkdir(parents=True)
        (site / package / folder / "model.safetensors").write_bytes(b"weights")
    return site / package


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder on the search path; nothing else that is installed offers weights."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(site)
    real = shipped.entry_points

    def here(group: str):
        points = real(group=group)
        return [point for point in points if Path(str(point.dist.locate_file(""))) == site]

    monkeypatch.setattr(shipped, "entry_points", here)
    return site


def refused(name: str) -> str:
    with pytest.raises(MissingWeightsError) as caught:
        weights_folder(name)
    assert not has_weights(name)
    beginning = BEGINNING.format(name)
    assert str(caught.value).startswith(beginning) and str(caught.value).endswith(FREE)
    return str(caught.value).removeprefix(beginning).removesuffix(FREE)


@pytest.mark.parametrize("name", ["pr_mcs", "infometic"])
def test_the_weights_of_this_repository_are_installed(name):
    folder = weights_folder(name)
    assert folder.parts[-2:] == ("capscore_weights", name)
    assert {"model.safetensors", "README.md", "settings.yaml"} <= {path.name for path in folder.iterdir()}
    assert "capscore_weights" not in sys.modules


def test_a_folder_is_found_and_no_code_runs(site):
    package = distribution(site, "capscore-weights", "weights_a", "eye", "pr_mcs")
    (package / "__init__.py").write_text("raise SystemExit('code of weights ran')")
    assert weights_folder("eye") == package / "eye" and weights_folder("pr_mcs") == package / "pr_mcs"
    assert "weights_a" not in sys.modules


def test_several_distributions_may_offer_different_weights(site):
    ours = distribution(site, "capscore-weights", "weights_b", "pr_mcs")
    mine = distribution(site, "My_Weights", "weights_c", "eye", version="7")
    assert weights_folder("pr_mcs") == ours / "pr_mcs" and weights_folder("eye") == mine / "eye"


def test_no_name_means_two_things(site):
    distribution(site, "capscore-weights", "weights_d", "eye")
    distribution(site, "my-weights", "weights_e", "eye")
    assert refused("eye") == "capscore-weights and my-weights both have them: uninstall one of the two"


def test_not_installed(site):
    assert refused("eye") == f"it is not installed{INSTALL}"
    distribution(site, "my-weights", "weights_f", "other")
    assert refused("eye") == f"it is not installed{INSTALL}"


def test_damaged(site):
    package = distribution(site, "capscore-weights", "weights_g", "eye")
    assert refused("pr_mcs").startswith("version ")
    (package / "eye" / "model.safetensors").rename(package / "eye" / "model.safetensors.partial")
    assert refused("eye").startswith("version ")


@pytest.mark.parametrize("package", ["weights_gone", "capscore.weights", "../weights"])
def test_a_package_that_is_not_there(site, package):
    distribution(site, "capscore-weights", package)
    assert refused("eye") == f"it is not installed{INSTALL}"


@pytest.mark.parametrize("version", ["0.1.0", "0.30.0", "1.3.0"])
def test_another_version(site, version):
    distribution(site, "capscore-weights", "weights_h", "eye", version=version)
    assert refused("eye").startswith(f"version {version} is installed")


def test_a_later_patch_is_the_same_series(site):
    series = ".".join(capscore.__version__.split(".")[:2])
    package = distribution(site, "capscore-weights", "weights_i", "eye", version=f"{series}.99")
    assert weights_folder("eye") == package / "eye"
