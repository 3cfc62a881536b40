"""METEOR and SPICE: METEOR's own numbers where Java is; elsewhere, scripts in the place of their programs.

SPICE's models (400 MB) are on no test machine: what is handed over and read back is tested.
"""

from __future__ import annotations

import os
import shutil
import sys
import types
from importlib.util import find_spec

import numpy as np
import pytest

from capscore.errors import CapscoreError, MissingExtraError
from capscore.metrics.java_metrics import meteor, meteor_of_rows, spice

PROGRAMS = pytest.mark.parametrize(("name", "program"), [("METEOR", meteor), ("SPICE", spice)])
posix = pytest.mark.skipif(os.name != "posix", reason="the stand-in for Java is a script with a #! line")
MODELS = ("stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar")


@pytest.mark.slow  # METEOR takes some ten seconds to start
@pytest.mark.skipif(
    find_spec("pycocoevalcap") is None or shutil.which("java") is None,
    reason="METEOR needs the package pycocoevalcap and a Java runtime",
)
def test_meteors_own_numbers():
    rows = {
        "a red kite": ["a red kite flies", "one kite"],
        "": ["a cat"],
        "a": [""],
        "the dog runs fast": ["a dog is running quickly"],
        "café": ["café"],
        "a red\n||| kite": ["a red\u2028kite flies", "one ||| kite\r\n"],
    }
    # what pycocoevalcap 1.2 gives for them (Meteor().compute_score); the last is the first again
    kite = 0.3799461194352912
    expected = [kite, 0.0, 0.0, 0.16416332059955815, 1.0, kite]
    np.testing.assert_allclose(meteor([*rows], [*rows.values()]), expected, atol=1e-12)
    # the same of clipscore's own example, whose script prints METEOR: 0.1861; the mean of its rows is 0.1883
    captions = [
        "a calico cat and a white cat are lying together",
        "a black dog wearing a hat looks at the camera as a tabby walks in the background",
    ]
    references = [
        [
            "two cats are sleeping next to each other",
            "a grey cat is cuddling with an orange cat on a blanket",
            "the orange cat is happy that the black cat is close to it",
        ],
        [
            "a dog is wearing ear muffs as it lies on a carpet",
            "a black dog and an orange cat are looking at the photographer",
            "headphones are placed on a dogs ears",
        ],
    ]
    scores, corpus = meteor_of_rows(captions, references, [0, 1])
    assert corpus == pytest.approx([0.18607107044266782], abs=1e-9)
    assert scores.mean() == pytest.approx(0.1883, abs=5e-5)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A pycocoevalcap without programs in it: only their names."""
    home = tmp_path / "pycocoevalcap"
    for jar in ("meteor/meteor-1.5.jar", "spice/spice-1.0.jar", *(f"spice/lib/{name}" for name in MODELS)):
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


@PROGRAMS
def test_missing_programs_are_named(name, program, package, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CapscoreError, match=f"^{name} needs Java, and there is no program 'java' on PATH"):
        program(["a"], [["b"]])
    for jar in package.glob("*/*.jar"):
        jar.unlink()  # a folder of that name is not the package
    for _ in range(2):
        with pytest.raises(MissingExtraError, match=rf"^{name} needs .*'pycocoevalcap'.*\[java\]"):
            program(["a"], [["b"]])
        monkeypatch.setitem(sys.modules, "pycocoevalcap", None)


ECHO = """
sent = open({log!r}, "a")
for line in sys.stdin:
    print(line, end="", file=sent, flush=True)
    kind, *fields = line.rstrip("\\n").split(" ||| ")
    if kind == "SCORE":
        print(len(fields) - 1, "0.0", flush=True)
    else:
        found = [int(counts.split()[0]) / 10 for counts in fields]
        print(*found, sum(found), sep="\\n", flush=True)
"""


@posix
def test_meteor_gets_each_row_on_a_line_of_its_own(package, java, tmp_path):
    """The stand-in scores a row by how many references it has."""
    java(ECHO.format(log=str(tmp_path / "sent")))
    scores = meteor(["a ||| b", "c\nd", "ü||||"], [["e", "f"], ["g\u2028h|||", "", "i"], ["é  ʻ"]])
    assert scores.tolist() == [0.2, 0.3, 0.1] and meteor([], []).shape == (0,)
    sent = [line for line in (tmp_path / "sent").read_text("utf-8").split("\n") if line.startswith("SCORE")]
    assert sent == ["SCORE ||| e ||| f ||| a b", "SCORE ||| g h |||  ||| i ||| c d", "SCORE ||| é ʻ ||| ü |"]
    assert meteor_of_rows(["a", "b"], [["c"], ["d", "e"]], [1, 0, 1])[1] == [0.5]


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
    ("program", "script", "message"),
    [
        (meteor, "sys.exit('Could not reserve enough space')", "status 1.*Could not reserve enough space"),
        (meteor, "print(input()); sys.exit(3)", "status 3; its last output: nothing"),
        (meteor, "for line in sys.stdin: print('NaN', 'NaN', sep='\\n', flush=True)", "'NaN', for 'a'"),
        (spice, "print('a\\nb\\nNoMemory', file=sys.stderr); sys.exit(1)", "status 1.*a / b / NoMemory"),
        (spice, "", "status 0; its last output: nothing"),
        (spice, WRITE.format("[dict(image_id=0, scores=dict(All=dict(f=1)))]"), "scores for 1 of 2 rows"),
    ],
)
def test_a_program_that_fails_is_ended_and_quoted(package, java, tmp_path, program, script, message):
    java(f"import os; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n{script}")
    with pytest.raises(CapscoreError, match=message):
        program(["a", "b"], [["c"], ["d"]])
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
