"""One register a kind: built-in entries and those of other packages obey the same rules."""

import sys

import pytest

import capscore
from capscore import registry
from capscore.registry import METRICS, Registry, register_metric

REGISTERS = {value.kind: value for value in vars(registry).values() if isinstance(value, Registry)}
# a name, alias or folder of the library, as somebody could take it
TAKEN = {
    "metric": ["mcs", "spice"],
    "backbone": ["embedded", "ViT-B/32", "openai/clip-vit-base-patch32"],
    "perturbation": ["repetition", "typos"],
    "benchmark": ["flickr8k_human"],
}
NAMES_TAKEN = [(kind, name) for kind, names in TAKEN.items() for name in names]


class Newcomer:
    pass


@pytest.mark.parametrize("kind", REGISTERS)
def test_every_built_in_entry_can_be_had(kind):
    register = REGISTERS[kind]
    assert register.outside() == [] and register.names()
    for name in register.names():
        assert name in register and register.get(name) is register.find(name) is not None
    assert register.find("nothing of that name") is None


@pytest.mark.parametrize(("kind", "name"), NAMES_TAKEN)
def test_a_name_of_the_library_is_refused(kind, name):
    register = REGISTERS[kind]
    before = register.get(name)
    with pytest.raises(capscore.CapscoreError, match=f"already a {kind} named {name!r}, from cap"):
        register.register(name)(Newcomer)
    assert register.get(name) is before


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A function: an installed package with one entry point; nothing of it stays known after the test."""
    monkeypatch.syspath_prepend(str(tmp_path))
    touched = []

    def install(kind, name, package):
        (tmp_path / f"{package}.py").write_text("class Item:\n    pass\n", encoding="utf-8")
        about = tmp_path / f"{package}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[capscore.{kind}s]\n{name} = {package}:Item\n")
        touched.append(REGISTERS[kind])
        touched[-1].__dict__.pop("_entry_points", None)

    yield install
    for register in touched:
        register.__dict__.pop("_entry_points", None)
        for name in ("theirs", "embedded"):
            register.unregister(name)
    for name in ("first", "second"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(("kind", "name"), NAMES_TAKEN)
def test_an_entry_point_with_a_name_of_the_library_is_refused(package, kind, name):
    package(kind, name, "first")
    register = REGISTERS[kind]
    message = f"already a {kind} named {name!r}, from capscore: that of first needs another name"
    for ask in (register.names, lambda: register.get(name), lambda: register.register("theirs")(Newcomer)):
        with pytest.raises(capscore.CapscoreError, match=message):
            ask()


@pytest.mark.parametrize("kind", REGISTERS)
def test_a_name_of_another_package_is_refused_to_a_second_one(package, kind):
    register = REGISTERS[kind]
    package(kind, "theirs", "first")
    assert register.outside() == ["theirs"] and register.get("theirs").__module__ == "first"
    with pytest.raises(capscore.CapscoreError, match=f"named 'theirs', from first: that of {__name__}"):
        register.register("theirs")(Newcomer)
    package(kind, "theirs", "second")
    with pytest.raises(capscore.CapscoreError, match="named 'theirs', from first: that of second needs"):
        register.names()


@pytest.mark.parametrize("kind", REGISTERS)
def test_a_registered_entry_can_be_taken_back_and_registered_twice(kind):
    register, newcomer = REGISTERS[kind], type("Newcomer", (), {})
    assert register.register("theirs")(Newcomer) is Newcomer and register.get("theirs") is Newcomer
    register.register("theirs")(Newcomer)
    newcomer.__module__, newcomer.__qualname__ = Newcomer.__module__, Newcomer.__qualname__
    register.register("theirs")(newcomer)  # as a cell of a notebook that runs again
    assert register.get("theirs") is newcomer
    newcomer = type("Other", (), {})
    with pytest.raises(capscore.CapscoreError, match=f"already a {kind} named 'theirs'"):
        register.register("theirs")(newcomer)
    register.unregister("theirs")
    assert "theirs" not in register and register.outside() == []


def test_a_function_may_say_how_rows_become_the_number_of_a_set():
    register_metric("n_signs", aggregate=max)(lambda candidate: float(len(candidate)))
    try:
        assert [*capscore.load("n_signs").score(["a", "abc"]).corpus.values()] == [3.0]
    finally:
        METRICS.unregister("n_signs")
