"""Settings from a file and a command line, and what is said of wrong ones."""

import importlib
import os
from dataclasses import dataclass, field
from typing import Literal

import pytest

import training
from capscore.errors import CapscoreError, MissingExtraError, Setting
from training import convert, pr_mcs
from training.engine.config import main, parse

from ...processes import run


@dataclass
class Recipe:
    """Settings of a test.

    Attributes:
        out: where to, 100% of it,
            over two lines.
        names, only: of whom.
    """

    out: str
    rate: float = 0.5
    steps: int | None = None
    names: list[str] = field(default_factory=list)
    only: list[str] | None = None
    betas: list[float] = field(default_factory=lambda: [0.9])
    precision: Literal["no", "bf16"] = "bf16"
    english: bool = True

    def __post_init__(self):
        if self.rate > 1:
            raise CapscoreError(Setting("rate", self.rate), ": expected at most 1")


@pytest.fixture
def parsed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def read(text: str, line: str = "") -> Recipe:
        (tmp_path / "c.yaml").write_text(text, encoding="utf-8")
        return parse(Recipe, ["--config", "c.yaml", *line.split()], "")

    return read


def test_the_command_line_wins_over_the_file_and_the_file_over_the_defaults(parsed):
    text = "out: a\nrate: 5e-5\nsteps: 7\nnames: [x, y]\nprecision: no\nenglish: false\nonly: null\n"
    assert parsed(text) == Recipe("a", 5e-5, 7, ["x", "y"], None, [0.9], "no", False)
    line = "--rate=1e-3 --steps null --names z --english true --precision bf16 --only de fr --betas 0.8 1"
    assert parsed(text, line) == Recipe("a", 1e-3, None, ["z"], ["de", "fr"], [0.8, 1.0], "bf16", True)
    assert parsed("# nothing\n", "--out 5") == Recipe("5")
    negative = parsed("rate: -5e-5\nout: a", "--steps -7 --betas -0.5 -1e-3")
    assert negative == Recipe("a", -5e-5, -7, betas=[-0.5, -1e-3])


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("rat: 1", ["unknown setting rat; did you mean rate?"]),
        ("rate: fast", ["c.yaml: rate is 'fast'; expected a number"]),
        ("out: a\nrate: null", ["rate is None; expected a number"]),
        ("out: 5", ["out is 5; expected a text"]),
        ("rate: true", ["rate is True; expected a number"]),
        ("steps: 1.5", ["steps is 1.5; expected a whole number or null"]),
        ("names: x", ["names is 'x'; expected a list, each a text"]),
        ("names: [x, [y]]", ["names is ['y']; expected a text"]),
        ("english: 1", ["english is 1; expected true or false"]),
        ("rate: 1\nout: a\nrate: 2", ["line 3", "rate stands there twice"]),
        ("precision: bf61", ["precision is 'bf61'", "bf16"]),
        ("- out", ["expected lines such as"]),
        ("names: &a [x]\nonly: *a", ["line 2", "alias"]),
        ("out: !!python/name:os.system", ["not YAML"]),
    ],
)
def test_a_wrong_file_is_one_line_with_the_setting_and_its_value(parsed, text, named):
    with pytest.raises(CapscoreError) as raised:
        parsed(text)
    assert all(part in str(raised.value) for part in named) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("--out a --rat 1", ["unknown setting --rat; did you mean --rate?"]),
        ("--out a --steps 1e3", ["--steps is '1e3'; expected a whole number or null"]),
        ("--out a --english maybe", ["--english is 'maybe'; expected true or false"]),
        ("--out a --betas 1 x", ["--betas is 'x'; expected a number"]),
        ("--out a --rate 7", ["--rate 7.0: expected at most 1"]),
        ("--out a --names b --names c", ["--names is given twice"]),
        ("--out", ["--out: expected one argument"]),
        ("--config nowhere.yaml", ["nowhere.yaml", "cannot be read: No such file"]),
        ("", ["no out: give --out"]),
    ],
)
def test_a_wrong_line_ends_with_status_2_and_the_option_and_its_value(line, named, capsys):
    with pytest.raises(SystemExit) as ended:
        main(lambda: parse(Recipe, line.split(), ""), Recipe)
    said = capsys.readouterr().err
    assert ended.value.code == 2 and said.count("\n") == 1 and all(part in said for part in named)


def test_help_says_what_the_docstring_says(capsys):
    with pytest.raises(SystemExit) as raised:
        parse(Recipe, ["--help"], "What it does.")
    shown = " ".join(capsys.readouterr().out.split())
    assert raised.value.code == 0 and "What it does." in shown and shown.count("of whom.") == 2
    assert "where to, 100% of it, over two lines. Must be given." in shown


@pytest.mark.parametrize(
    ("parts", "settings", "code", "said"),
    [
        (["the file is empty"], None, 1, "the file is empty"),
        ([Setting("learning_rate", 0), ": expected more"], None, 2, "--learning_rate 0: expected more"),
        ([Setting("backbone", "embedded")], pr_mcs.Settings, 2, "--base embedded"),
        ([Setting("backbone", "embedded")], convert.Settings, 2, "--backbone embedded"),
        ([Setting("images")], pr_mcs.Settings, 2, "--image_dir"),
        (["or ", Setting("force", True)], pr_mcs.Settings, 1, "or force=True"),
        ([], None, 1, f"{200 * 'x'}: File name too long"),
    ],
)
def test_an_error_of_a_recipe_is_one_line_with_its_options(parts, settings, code, said, capsys):
    def recipe():
        if not parts:
            os.stat(300 * "x")
        raise CapscoreError(*parts)

    with pytest.raises(SystemExit) as raised:
        main(recipe, settings)
    assert (raised.value.code, capsys.readouterr().err) == (code, f"error: {said}\n")


@pytest.mark.parametrize(("number", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_ends_a_recipe(number, code):
    program = "import os, signal, time\nfrom training.engine.config import main\nmain(lambda: ({}, {}))"
    done = run(["-c", program.format(f"os.kill(os.getpid(), signal.{number})", "time.sleep(600)")])
    assert done.returncode == code and "Traceback" not in done.stderr
    assert ("the same command continues the run" in done.stderr) == (number == "SIGINT")


@pytest.mark.parametrize(("argv", "ending"), [(["-m"], SystemExit), (["notebook"], MissingExtraError)])
def test_a_missing_package_names_the_extra_before_a_recipe_is_read(monkeypatch, argv, ending):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("sys.argv", argv)
    with pytest.raises(ending, match=r"'accelerate'.*\[training\]"):
        importlib.reload(training)
