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

PROGRAMS = pytest.mark.parametrize(("name", "program"), [("METEOR", meteor), ("SPICE", spice)])
posix = pytest.mark.skipif(os.name != "posix", reason="the stand-in for Java is a script with a #! line")
MODELS = ("stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar")


@pytest.mark.slow  # METEOR takes some ten seconds to start
@pytest.mark.skipif(
    find_spec("pycocoevalcap") is None or shutil.which("java") is None,
    reason="METEOR needs the package pycocoevalcap and a Java runtime",
)
def test_meteors_own_numbers():
    candidates = ["a red kite", "", "a", "the dog runs fast", "", "café", "a red\n||| kite"]
    references = [
        ["a red kite flies", "one kite"],
        ["a cat"],
        [""],
        ["a dog is running quickly"],
        [""],
        ["café"],
        ["a red\u2028kite flies", "one ||| kite\r\n"],
    ]
    # what pycocoevalcap 1.2 gives for six of them (Meteor().compute_score); the last is the first again
    kite = 0.3799461194352912
    expected = [kite, 0.0, 0.0, 0.16416332059955815, 0.0, 1.0, kite]
    np.testing.assert_allclose(meteor(candidates, references), expected, atol=1e-12)


# ------------------------------------------------------------- without the programs themselves


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A pycocoevalcap without programs in it: only their names."""
    home = tmp_path / "pycocoevalcap"
    jars = ("meteor/meteor-1.5.jar", "spice/spice-1.0.jar", *(f"spice/lib/{name}" for name in MODELS))
    for jar in jars:
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
        says_version = f"""
import json, sys, time
if "-version" in sys.argv:
    sys.exit('openjdk version "{version}"')
"""
        (folder / "java").write_text(f"#!{sys.executable}{says_version}{script}")
        (folder / "java").chmod(0o755)

    return write


@PROGRAMS
def test_what_is_missing_is_named(name, program, package, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CapscoreError, match=f"^{name} needs Java, and there is no program 'java' on PATH"):
        program(["a"], [["b"]])
    for jar in package.glob("*/*.jar"):
        jar.unlink()  # a folder of that name is not the package
    for _ in range(2):
        with pytest.raises(MissingExtraError, match=rf"^{name} needs .*'pycocoevalcap'.*capscore\[java\]"):
            program(["a"], [["b"]])
        monkeypatch.setitem(sys.modules, "pycocoevalcap", None)


@posix
@PROGRAMS
def test_no_rows_start_nothing(name, program, package, java):
    java("raise SystemExit(9)")
    assert program([], []).shape == (0,)


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


@posix
@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("sys.exit('Could not reserve enough space')", "status 1.*Could not reserve enough space"),
        ("print(input()); sys.exit(3)", "status 3; its last output: nothing"),
        ("print('Error: no hypothesis', flush=True); time.sleep(60)", "'Error: no hypothesis'"),
        (
            "print('1', flush=True); input(); input(); print('\\n', flush=True); time.sleep(60)",
            "'' for 'a'; expected a number",
        ),
        ("for line in sys.stdin: print('NaN', 'NaN', sep='\\n', flush=True)", "'NaN' for 'a'"),
    ],
)
def test_meteor_that_fails_is_ended_and_quoted(package, java, tmp_path, script, message):
    java(f"import os; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n{script}")
    with pytest.raises(CapscoreError, match=message):
        meteor(["a"], [["b"]])
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@posix
def test_spice_names_missing_models_and_too_new_a_java(package, java):
    for version, found in (("15.0.1", "Java 15"), ("17.0.15", "Java 17"), ("?", ".*version")):
        java("", version=version)
        with pytest.raises(CapscoreError, match=f"SPICE needs Java 8 to 14, and .* is {found}"):
            spice(["a"], [["b"]])
    (package / "spice" / "lib" / MODELS[0]).unlink()
    with pytest.raises(CapscoreError, match=r"not there: stanford-corenlp-3\.6\.0\.jar\..* downloads both"):
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
    log = tmp_path / "rows.json"
    java(SPICE.format(log=str(log)), version=version)
    assert spice(["a\nb", "ü", "a b"], [["c", "d"], ["e"], ["c", "d"]]).tolist() == [0.2, 0.1, 0.2]
    assert json.loads(log.read_text()) == [
        {"image_id": 0, "test": "a b", "refs": ["c", "d"]},
        {"image_id": 1, "test": "ü", "refs": ["e"]},
    ]


@posix
@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("print('a\\nb\\nOutOfMemoryError', file=sys.stderr); sys.exit(1)", "status 1.*a / b / OutOfMemory"),
        ("", "status 0; its last output: nothing"),
        (
            "json.dump([{'image_id': 0, 'scores': {'All': {'f': 1}}}], open(sys.argv[-2], 'w'))",
            "scores for 1 of 2 rows",
        ),
    ],
)
def test_spice_that_fails_is_quoted(package, java, script, message):
    java(script)
    with pytest.raises(CapscoreError, match=message):
        spice(["a", "b"], [["c"], ["d"]])
