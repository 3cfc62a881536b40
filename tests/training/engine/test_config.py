"""Settings from a file and a command line, and what is said of wrong ones."""

from __future__ import annotations

import doctest
import importlib
from dataclasses import dataclass, field
from typing import Literal

import pytest

from capscore.errors import CapscoreError, InputError
from training.engine.config import language_counts, main, parse

from ...processes import run


@dataclass
class Recipe:
    """Settings of a test.

    Attributes:
        out: where to, 100% of it,
            over two lines.
        rate: how fast.
        names: of whom.
    """

    out: str
    rate: float = 0.5
    steps: int | None = None
    names: list[str] = field(default_factory=list)
    only: list[str] | None = None
    betas: list[float] = field(default_factory=lambda: [0.9])
    precision: Literal["no", "bf16"] = "bf16"
    english: bool = True
    share: bool = False


@pytest.fixture
def config(tmp_path):
    def write(text: str) -> str:
        (tmp_path / "c.yaml").write_text(text, encoding="utf-8")
        return str(tmp_path / "c.yaml")

    return write


def test_a_list_that_is_given_twice_is_one_list():
    found = parse(Recipe, "--out o --names a b --names c --betas 0.1 --betas 0.2".split(), "")
    assert (found.names, found.betas) == (["a", "b", "c"], [0.1, 0.2])


def test_line_over_file_over_defaults(config):
    path = config("out: a\nrate: 5e-5\nsteps: 7\nnames: [x, y]\nprecision: no\nenglish: false\nonly: null\n")
    assert parse(Recipe, ["--config", path], "") == Recipe("a", 5e-5, 7, ["x", "y"], None, [0.9], "no", False)
    line = ["--config", path, "--rate=1e-3", "--steps", "none", "--names", "z", "--english", "--share", "yes"]
    line += ["--precision", "bf16", "--only", "de", "fr", "--betas", "0.8", "1"]
    expected = Recipe("a", 1e-3, None, ["z"], ["de", "fr"], [0.8, 1.0], "bf16", True, True)
    assert parse(Recipe, line, "") == expected
    assert parse(Recipe, ["--out", "5", "--no_english"], "") == Recipe("5", english=False)
    assert parse(Recipe, ["--config", config("# nothing\n"), "--out", "b"], "") == Recipe("b")


@pytest.mark.parametrize(
    "text, said",
    [
        ("out: a\nrat: 1\n", "unknown setting rat; did you mean rate?"),
        ("out: a\nzzz: 1\n", "unknown setting zzz; known are out, rate"),
        ("out: a\nrate: fast\n", "rate is 'fast'; expected a number"),
        ("out: a\nrate: true\n", "rate is True; expected a number"),
        ("out: a\nrate: null\n", "rate is None; expected a number"),
        ("out: a\nsteps: 1.5\n", "steps is 1.5; expected a whole number"),
        ("out: a\nsteps: .inf\n", "steps is inf; expected a whole number"),
        ("out: a\nnames: x\n", "names is the text 'x'; expected a list"),
        ("out: a\nenglish: 1\n", "english is 1; expected true or false"),
        ("out: a\nprecision: bf61\n", "precision is 'bf61'; expected no, bf16; did you mean bf16?"),
        ("out: [a]\n", "out is ['a']; expected text"),
        ("- out\n", "holds a list; expected lines such as 'epochs: 5'"),
        ("out: [a\n", "is not YAML"),
        ("rate: 1\n", "no out: give --out, or a line 'out: …' in the file"),
    ],
)
def test_a_wrong_file(config, text, said):
    path = config(text)
    with pytest.raises(CapscoreError) as raised:
        parse(Recipe, ["--config", path], "")
    assert said in str(raised.value)


@pytest.mark.parametrize(
    "line, said",
    [
        (["--out", "a", "--rat", "1"], "unknown setting --rat; did you mean --rate?"),
        (["--out", "a", "--rate", "fast"], "--rate is 'fast'; expected a number"),
        (["--out", "a", "--steps", "2.5"], "--steps is '2.5'; expected a whole number"),
        (["--out", "a", "--english", "maybe"], "--english is 'maybe'; expected true or false"),
        (["--out"], "argument --out: expected one argument"),
        (["--out", "a", "b"], "unknown setting b"),
        (["--config", "nowhere.yaml"], "the config nowhere.yaml cannot be read: No such file"),
        ([], "no out: give --out"),
    ],
)
def test_a_wrong_line(line, said):
    with pytest.raises(CapscoreError) as raised:
        parse(Recipe, line, "")
    assert said in str(raised.value)


def test_help_says_what_the_docstring_says(capsys):
    with pytest.raises(SystemExit) as raised:
        parse(Recipe, ["--help"], "What it does.")
    assert raised.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "What it does." in shown
    assert "where to, 100% of it, over two lines. [must be given]" in shown
    assert "how fast. [0.5]" in shown


def test_errors_of_a_command_are_one_message(capsys):
    def recipe():
        raise CapscoreError("the file is empty")

    with pytest.raises(SystemExit) as raised:
        main(recipe)
    assert raised.value.code == 1
    assert capsys.readouterr().err == "error: the file is empty\n"


def test_numbers_of_languages_keep_their_order():
    assert list(language_counts(["zh:2", "en:30000", "ar:0"], "most").items()) == [
        ("zh", 2),
        ("en", 30_000),
        ("ar", 0),
    ]
    assert language_counts([], "most") == {}


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        (["ja"], "'ja': expected language:number, such as ja:8000"),
        (["ja:"], "'ja:': expected language:number"),
        (["en:1", ":5"], "':5': expected language:number"),
        (["ja:1.5"], "'ja:1.5': expected"),
        (["ja:-1"], "'ja:-1': expected"),
        (["ja:1", "en:2", "ja:1"], "ja is named twice"),
    ],
)
def test_numbers_of_languages_that_cannot_be(entries, said):
    with pytest.raises(InputError) as caught:
        language_counts(entries, "copies")
    assert caught.value.field == "copies" and caught.value.message.startswith(said)


@pytest.mark.parametrize(
    "name", ["engine.config", "engine.loop", "data.parallel_text", "plot", "teacher_learning"]
)
def test_docstring_examples(name):
    module = importlib.import_module(f"training.{name}")
    failed, _ = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert failed == 0


@pytest.mark.parametrize(("number", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_ends_a_recipe(number, code):
    program = (
        "import os, signal, time\nfrom training.engine.config import main\n"
        f"main(lambda: (os.kill(os.getpid(), signal.{number}), time.sleep(40)))"
    )
    done = run(["-c", program])
    assert done.returncode == code and "Traceback" not in done.stderr
    assert ("the same command continues from the last checkpoint" in done.stderr) == (number == "SIGINT")
