"""What importing capscore costs and offers; docstring examples."""

import doctest
import importlib
import pickle
import pkgutil

import pytest

import capscore
from capscore import errors
from capscore.errors import ImageError, MissingExtraError


def test_public_names_resolve_and_are_listed():
    for name in capscore.__all__:
        assert getattr(capscore, name) is not None
        assert name in dir(capscore)
    with pytest.raises(AttributeError, match="no attribute 'lod'"):
        _ = capscore.lod


def test_module_folder():
    for metric in ("mcs", "clip_score", "ref_clip_score"):
        assert capscore.module_folder(metric).endswith(metric)
    with pytest.raises(capscore.CapscoreError, match=r"'msc': expected one of .*mcs"):
        capscore.module_folder("msc")


def test_errors_say_where_and_survive_other_processes(monkeypatch):
    error = ImageError("photo.jpg is empty", row=3, field="image")
    assert str(error) == "row 3, image: photo.jpg is empty"
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.row) == (ImageError, str(error), 3)
    missing = MissingExtraError("gradio", "app", "the demo app")
    install = "the demo app needs the package 'gradio', which is not installed: pip install "
    assert str(missing) == f"{install}'.[app]'"
    monkeypatch.setattr(errors, "__file__", "/usr/lib/site-packages/capscore/errors.py")
    assert str(MissingExtraError("gradio", "app", "the demo app")) == f"{install}'capscore[app]'"


def test_weights_come_from_an_index_unless_a_checkout_has_them(tmp_path, monkeypatch):
    monkeypatch.setattr(errors, "__file__", str(tmp_path / "capscore" / "errors.py"))
    (tmp_path / "weights").mkdir()
    commands = [errors.install_command("weights")]
    for name in ("pyproject.toml", "weights/pyproject.toml"):  # a source archive has the first alone
        (tmp_path / name).touch()
        commands.append(errors.install_command("weights"))
    sources = ("'capscore[weights]'", "'.[weights]'", "./weights")
    assert commands == [f"pip install {source}" for source in sources]


def modules():
    for found in pkgutil.walk_packages(capscore.__path__, "capscore."):
        if not found.name.endswith("__main__"):
            yield found.name


@pytest.mark.parametrize("name", ["capscore", *modules()])
def test_docstring_examples(name):
    module = importlib.import_module(name)
    assert module.__doc__, f"{name} does not say what comes in and what goes out"
    failed, _ = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert failed == 0
