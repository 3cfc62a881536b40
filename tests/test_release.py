"""Steps of a release check that need no network: licences, contents of archives, what a wheel requires."""

import zipfile
from email.message import Message
from importlib.metadata import metadata
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from tools.project.source import ROOT
from tools.release.archives import check_contents, problems_of, requirements
from tools.release.licences import is_free, not_free, stated


@pytest.mark.parametrize("extra", metadata("capscore").get_all("Provides-Extra"))
def test_an_extra_brings_only_what_is_free_unless_its_name_says_otherwise(extra):
    refused = {name: licence for name, licence in not_free(extra).items() if licence != "is not installed"}
    assert refused == {}


STATED = {
    ("License-Expression", "MIT", "GPL"): ["MIT"],
    ("Classifier", "License :: OSI Approved :: MIT License", "GPLv3"): ["MIT License", "GPLv3"],
    ("Classifier", "License :: OSI Approved :: BSD License", "Copyright\n…"): ["BSD License"],
    ("Classifier", "Programming Language :: Python", ""): [""],
}


def test_metadata_of_the_packages():
    for (field, value, name), licences in STATED.items():
        message = Message()
        message[field], message["License"] = value, name
        assert stated(message) == licences
    assert not is_free("") and not is_free("GPLv3") and not is_free("GPL-3.0-only")


def wheel(path, name, members):
    with zipfile.ZipFile(path / name, "w") as file:
        for member, text in members.items():
            file.writestr(member, text)
    return path / name


def test_requirements_of_a_wheel(tmp_path):
    extras = {"gradio>=5": "app", "ray": "ray", "capscore[app]": "dev"}
    lines = [f"{name}; extra == '{extra}'" for name, extra in extras.items()]
    metadata = "".join(f"Requires-Dist: {line}\n" for line in ["numpy<3,>=1.26", *lines])
    path = wheel(tmp_path, "capscore-1.whl", {"capscore-1.dist-info/METADATA": metadata})
    assert requirements(path, ["app", "dev"]) == ["numpy<3,>=1.26", "gradio>=5"]


def test_archives_that_lack_something_are_refused(tmp_path):
    with pytest.raises(RuntimeError, match="expected two wheels and two source archives, got none"):
        check_contents([])
    names = ["capscore-1.whl", "capscore-2.whl", "capscore_weights-1.whl", "capscore_weights-2.whl"]
    about = "Name: capscore\nVersion: 1\nRequires-Dist: capscore-weights>=99\n\nmake demo [a](b.md)"
    held = {"LICENSE": "", "tests/x.py": "", "a.bin": "", "capscore-1.dist-info/METADATA": about}
    paths = [wheel(tmp_path, name, held) for name in names]
    for message in (
        r"capscore-1.whl lacks \['capscore/py.typed'.*hold \['tests/x.py'\]",
        r"capscore_weights-1.whl lacks .*hold \['tests/x.py'\]",
        r"carries the weights \['a.bin'\]",
        "version 1; expected",
        "capscore-weights>=99 is not of the series",
        "does not begin with how to install it",
        r"1 links, of which these lead nowhere: \['b.md'\]",
    ):
        with pytest.raises(RuntimeError, match=message):
            check_contents(paths)


@pytest.mark.skipif(not (ROOT / "weights/pyproject.toml").exists(), reason="a source archive has no weights")
@pytest.mark.parametrize("builder", [WheelBuilder, pytest.param(SdistBuilder, marks=pytest.mark.slow)])
@pytest.mark.parametrize("package", [".", "weights"])
def test_an_archive_that_is_built_holds_what_it_should(builder, package, tmp_path):
    built = next(builder(str(ROOT / package)).build(directory=str(tmp_path)))
    assert not problems_of(Path(built))
