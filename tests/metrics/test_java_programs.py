"""METEOR and SPICE: METEOR's own numbers where Java is; elsewhere, what is missing is named.

SPICE's models (400 MB) are on no test machine. A program in its place answers in SPICE's format, so that what
is handed over and read back is tested; what SPICE itself computes is not.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import types
from importlib.util import find_spec

import numpy as np
import pytest

from capscore.errors import CapscoreError, MissingExtraError
from capscore.metrics.java_metrics import meteor, spice

METRICS = {"METEOR": meteor, "SPICE": spice}

needs_program = pytest.mark.skipif(
    find_spec("pycocoevalcap") is None or shutil.which("java") is None,
    reason="METEOR needs the package pycocoevalcap and a Java runtime",
)
posix = pytest.mark.skipif(os.name != "posix", reason="the stand-in for Java is a script with a #! line")


@needs_program
def test_meteors_own_numbers():
    candidates = ["a red kite", "", "a", "the dog runs fast", "", "café", "a red kite", "a red\n||| kite"]
    references = [
        ["a red kite flies", "one kite"],
        ["a cat"],
        [""],
        ["a dog is running quickly"],
        [""],
        ["café"],
        ["a red kite flies", "one kite"],
        ["a red\u2028kite flies", "one ||| kite\r\n"],
    ]
    # what pycocoevalcap 1.2 gives for six of them (Meteor().compute_score); the last two are the first again
    kite = 0.3799461194352912
    expected = [kite, 0.0, 0.0, 0.16416332059955815, 0.0, 1.0, kite, kite]
    np.testing.assert_allclose(meteor(candidates, references), expected, atol=1e-12)


# ------------------------------------------------------------- without the programs themselves


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A pycocoevalcap without programs in it: only their names."""
    home = tmp_path / "pycocoevalcap"
    for jar in ("meteor/meteor-1.5.jar", "spice/spice-1.0.jar"):
        (home / jar).parent.mkdir(parents=True)
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
        says_version = f"""
import json, sys, time
if "-version" in sys.argv:
    sys.exit('openjdk version "{version}"')
"""
        (folder / "java").write_text(f"#!{sys.executable}{says_version}{script}")
        (folder / "java").chmod(0o755)

    return write


def put_models(package) -> None:
    (package / "spice" / "lib").mkdir()
    for name in ("stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar"):
        (package / "spice" / "lib" / name).touch()


@pytest.mark.parametrize("name", METRICS)
def test_without_the_package(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "pycocoevalcap", None)
    with pytest.raises(MissingExtraError) as error:
        METRICS[name](["a"], [["b"]])
    assert str(error.value) == (
        f"{name} needs the package 'pycocoevalcap', which is not installed: pip install 'capscore[java]'"
    )


@pytest.mark.parametrize("name", METRICS)
def test_a_folder_of_that_name_is_not_the_package(name, package):
    for jar in package.glob("*/*.jar"):
        jar.unlink()
    with pytest.raises(MissingExtraError, match=f"{name} needs the package 'pycocoevalcap'"):
        METRICS[name](["a"], [["b"]])


@pytest.mark.parametrize("name", METRICS)
def test_without_java(name, package, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CapscoreError, match=f"^{name} needs Java, and there is no program 'java' on PATH"):
        METRICS[name](["a"], [["b"]])


@posix
@pytest.mark.parametrize("name", METRICS)
def test_no_rows_start_nothing(name, package, java):
    java("raise SystemExit(9)")
    put_models(package)
    assert METRICS[name]([], []).shape == (0,)


ECHO = """
# scores a row by how many references it has; writes down what it was sent
sent = open({log!r}, "a")
for line in sys.stdin:
    sent.write(line)
    sent.flush()
    kind, *fields = line.rstrip("\\n").split(" ||| ")
    if kind == "SCORE":
        print(len(fields) - 1, "0.0", flush=True)
    else:
        print(int(fields[0].split()[0]) / 10, flush=True)
        print("all", flush=True)
"""


@posix
def test_meteor_gets_each_distinct_row_once_on_a_line_of_its_own(package, java, tmp_path):
    log = tmp_path / "sent"
    java(ECHO.format(log=str(log)))
    scores = meteor(
        ["a ||| b", "c\nd", "a b", "ü||||"], [["e", "f"], ["g\u2028h|||", "", "i"], ["e", "f"], ["é  ʻ"]]
    )
    assert scores.tolist() == [0.2, 0.3, 0.2, 0.1]
    sent = [line for line in log.read_text("utf-8").split("\n") if line.startswith("SCORE")]
    assert sent == ["SCORE ||| e ||| f ||| a b", "SCORE ||| g h |||  ||| i ||| c d", "SCORE ||| é ʻ ||| ü |"]


METEOR_FAILS = {
    "dies at once": (
        "sys.exit('Could not reserve enough space')",
        "status 1.*Could not reserve enough space",
    ),
    "dies in the middle": ("print(input()); sys.exit(3)", "status 3; its last output: nothing"),
    "complains": ("print('Error: no hypothesis', flush=True); time.sleep(60)", "'Error: no hypothesis'"),
    "complains of the counts": (
        "print('1', flush=True); input(); input(); print('Error: no counts', flush=True); time.sleep(60)",
        "'Error: no counts'",
    ),
    "says nothing and lives on": (
        "print('1', flush=True); input(); input(); print('\\n', flush=True); time.sleep(60)",
        "'' for 'a'; expected a number",
    ),
    "no number": (
        "for line in sys.stdin: print('x', 'x', sep='\\n', flush=True)",
        "'x' for 'a'; expected a number",
    ),
    "NaN": (
        "for line in sys.stdin: print('NaN', 'NaN', sep='\\n', flush=True)",
        "'NaN' for 'a'; expected a number",
    ),
}


@posix
@pytest.mark.parametrize("name", METEOR_FAILS)
def test_meteor_that_fails_is_ended_and_quoted(name, package, java, tmp_path):
    script, message = METEOR_FAILS[name]
    java(f"import os; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n{script}")
    with pytest.raises(CapscoreError, match=message):
        meteor(["a"], [["b"]])
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@posix
def test_spice_without_its_models(package, java):
    java("")
    with pytest.raises(CapscoreError) as error:
        spice(["a"], [["b"]])
    message = str(error.value)
    assert "not there: stanford-corenlp-3.6.0.jar, stanford-corenlp-3.6.0-models.jar" in message
    assert "pycocoevalcap downloads both" in message and "get_stanford_models" in message
    put_models(package)
    (package / "spice" / "lib" / "stanford-corenlp-3.6.0.jar").unlink()
    with pytest.raises(CapscoreError, match=r"not there: stanford-corenlp-3\.6\.0\.jar\."):
        spice(["a"], [["b"]])


@posix
def test_spice_with_too_new_a_java(package, java):
    put_models(package)
    for version, number in (("15.0.1", 15), ("17.0.15", 17)):
        java("", version=version)
        with pytest.raises(CapscoreError, match=f"SPICE needs Java 8 to 14, and .* is Java {number}:"):
            spice(["a"], [["b"]])
    java("", version="?")
    with pytest.raises(CapscoreError, match="SPICE needs Java 8 to 14"):
        spice(["a"], [["b"]])


SPICE = """
rows = json.load(open(sys.argv[sys.argv.index("-jar") + 2]))
json.dump(rows, open({log!r}, "w"))
made = [
    {{"image_id": row["image_id"], "scores": {{"All": {{"f": len(row["refs"]) / 10, "pr": 1.0, "re": 1.0}}}}}}
    for row in reversed(rows)
]
json.dump(made, open(sys.argv[sys.argv.index("-out") + 1], "w"))
"""


@posix
@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2", "14"])
def test_spice_gets_each_distinct_row_once_and_its_answers_find_their_rows(package, java, tmp_path, version):
    put_models(package)
    log = tmp_path / "rows.json"
    java(SPICE.format(log=str(log)), version=version)
    assert spice(["a\nb", "ü", "a b"], [["c", "d"], ["e"], ["c", "d"]]).tolist() == [0.2, 0.1, 0.2]
    assert json.loads(log.read_text()) == [
        {"image_id": 0, "test": "a b", "refs": ["c", "d"]},
        {"image_id": 1, "test": "ü", "refs": ["e"]},
    ]


SPICE_FAILS = {
    "dies": (
        "print('a\\nb\\nOutOfMemoryError', file=sys.stderr); sys.exit(1)",
        "status 1.*a / b / OutOfMemory",
    ),
    "writes nothing": ("", "status 0; its last output: nothing"),
    "forgets a row": (
        "json.dump([{'image_id': 0, 'scores': {'All': {'f': 1}}}], open(sys.argv[-2], 'w'))",
        "scores for 1 of 2 rows",
    ),
}


@posix
@pytest.mark.parametrize("name", SPICE_FAILS)
def test_spice_that_fails_is_quoted(name, package, java):
    put_models(package)
    script, message = SPICE_FAILS[name]
    java(script)
    with pytest.raises(CapscoreError, match=message):
        spice(["a", "b"], [["c"], ["d"]])
