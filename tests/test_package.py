"""What importing capscore costs and offers; docstring examples."""

import doctest
import importlib
import pickle
import pkgutil

import pytest

import capscore
from capscore import errors
from capscore.errors import ImageError, MissingExtraError


def test_public_names_and_folders_of_modules_can_be_had():
    for name in capscore.__all__:
        assert getattr(capscore, name) is not None and name in dir(capscore)
    with pytest.raises(AttributeError, match="'lod'"):
        _ = capscore.lod
    assert capscore.module_folder("ref_clip_score").endswith("ref_clip_score")
    with pytest.raises(capscore.CapscoreError, match=r"'msc': .*mcs"):
        capscore.module_folder("msc")


def test_errors_say_where_and_survive_other_processes():
    error = ImageError("photo.jpg is empty", row=3, field="image")
    copy = pickle.loads(pickle.dumps(error))
    assert str(error) == "row 3, image: photo.jpg is empty"
    assert (type(copy), str(copy), copy.row) == (ImageError, str(error), 3)


def test_what_is_missing_comes_from_an_index_unless_a_checkout_has_it(tmp_path, monkeypatch):
    missing = "the demo app needs the package 'gradio', which is not installed: pip install "
    assert str(MissingExtraError("gradio", "app", "the demo app")) == f"{missing}'.[app]'"
    monkeypatch.setattr(errors, "__file__", str(tmp_path / "capscore" / "errors.py"))
    assert str(MissingExtraError("gradio", "app", "the demo app")) == f"{missing}'capscore[app]'"
    (tmp_path / "weights").mkdir()
    commands = [errors.install_command("weights")]
    for name in ("pyproject.toml", "weights/pyproject.toml"):  # a source archive has the first alone
        (tmp_path / name).touch()
        commands.append(errors.install_command("weights"))
    sources = ("'capscore[weights]'", "'.[weights]'", "./weights")
    assert commands == [f"pip install {source}" for source in sources]


PACKAGE = [found.name for found in pkgutil.walk_packages(capscore.__path__, "capscore.")]
MODULES = ["capscore", "docs.measured", "tools.release.licences", *PACKAGE]


@pytest.mark.parametrize("name", [name for name in MODULES if not name.endswith("__main__")])
def test_docstring_examples(name):
    module = importlib.import_module(name)
    assert module.__doc__, f"{name} does not say what comes in and what goes out"
    failed, _ = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert failed == 0
