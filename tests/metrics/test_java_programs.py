"""SPICE, with scripts in the place of its program.

Its models (400 MB) are on no test machine: what is handed over and read back is tested.
"""

import os
import sys
import types

import pytest

from capscore.errors import CapscoreError, MissingExtraError
from capscore.metrics.spice import spice

posix = pytest.mark.skipif(os.name != "posix", reason="the stand-in for Java is a script with a #! line")
MODELS = ("stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar")


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A pycocoevalcap without programs in it: only their names."""
    home = tmp_path / "pycocoevalcap"
    for jar in ("spice/spice-1.0.jar", *(f"spice/lib/{name}" for name in MODELS)):
        (home / jar).parent.mkdir(parents=True, exist_ok=True)
        (home / jar).touch()
    module = types.ModuleType("pycocoevalcap")
    # a folder of that name that is not the package comes first
    module.__path__ = [str(tmp_path / "somewhere else"), str(home)]
    monkeypatch.setitem(sys.modules, "pycocoevalcap", module)
    return home


@pytest.fixture
def java(tmp_path, monkeypatch):
    """Puts a Python script in the place of Java: `java(script)`; the only program on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def write(script: str, version: str = "1.8.0_402") -> None:
        head = f"import json, sys\nif '-version' in sys.argv: sys.exit('openjdk version \"{version}\"')\n"
        (folder / "java").write_text(f"#!{sys.executable}\n{head}{script}")
        (folder / "java").chmod(0o755)

    return write


def test_missing_programs_are_named(package, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CapscoreError, match=r"^SPICE needs Java, and there is no program 'java' on PATH"):
        spice(["a"], [["b"]])
    for jar in package.glob("*/*.jar"):
        jar.unlink()  # a folder of that name is not the package
    for _ in range(2):
        with pytest.raises(MissingExtraError, match=r"^SPICE needs .*'pycocoevalcap'.*\[java\]"):
            spice(["a"], [["b"]])
        monkeypatch.setitem(sys.modules, "pycocoevalcap", None)


WRITE = "json.dump({}, open(sys.argv[sys.argv.index('-out') + 1], 'w'))"
SPICE = f"""
rows = json.load(open(sys.argv[sys.argv.index("-jar") + 2]))
assert rows == [dict(image_id=0, test="a b", refs=["c", "d"]), dict(image_id=1, test="ü", refs=["e"])]
made = [dict(image_id=row["image_id"], scores=dict(All=dict(f=len(row["refs"]) / 10))) for row in rows[::-1]]
{WRITE.format("made")}
"""


@posix
@pytest.mark.parametrize("version", ["1.8.0_402", "14"])
def test_spice_answers_find_their_rows(package, java, version):
    java(SPICE, version=version)
    assert spice(["a\nb", "ü"], [["c", "d"], ["e"]]).tolist() == [0.2, 0.1] and spice([], []).shape == (0,)


@posix
def test_spice_names_missing_models_and_too_new_a_java(package, java):
    for version, found in (("15.0.1", "Java 15"), ("?", ".*version")):
        java("", version=version)
        with pytest.raises(CapscoreError, match=f"SPICE needs Java 8 to 14, and .* is {found}"):
            spice(["a"], [["b"]])
    (package / "spice" / "lib" / MODELS[0]).unlink()
    with pytest.raises(CapscoreError, match=r"not there: stanford-corenlp-3\.6\.0\.jar\..* downloads both"):
        spice(["a"], [["b"]])


@posix
@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("print('a\\nb\\nNoMemory', file=sys.stderr); sys.exit(1)", "status 1.*a / b / NoMemory"),
        ("", "status 0; its last output: nothing"),
        (WRITE.format("[dict(image_id=0, scores=dict(All=dict(f=1)))]"), "scores for 1 of 2 rows"),
    ],
)
def test_a_program_that_fails_is_ended_and_quoted(package, java, tmp_path, script, message):
    java(f"import os; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n{script}")
    with pytest.raises(CapscoreError, match=message):
        spice(["a", "b"], [["c"], ["d"]])
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
