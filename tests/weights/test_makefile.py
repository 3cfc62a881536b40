"""The Makefile and the settings beside shipped weights fit the programs that train the weights."""

import argparse
import importlib
import itertools
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from capscore.errors import InputError
from docs.handbook.made_pages import RECIPES
from training.engine.config import parse

ROOT = Path(__file__).parents[2]
TARGETS = re.findall(r"^(train-embedded[\w-]*):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)

needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")


def printed(*words):
    command = ["make", "-n", "DATA=d", "PHOTOS=p", "TRAINING=nowhere", "INSTALL=x", *words]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return made.stdout.replace("\\\n", " ")


def program(name):
    package = (ROOT / name.replace(".", "/")).is_dir()
    return importlib.import_module(f"{name}.__main__" if package else name)


class Parsed(Exception):
    pass


def only_parse(name, arguments, monkeypatch):
    """Let a program read its arguments, and do nothing else."""
    parse_args = argparse.ArgumentParser.parse_args

    def only_parsed(parse):
        def parsed(*arguments, **options):
            parse(*arguments, **options)
            raise Parsed

        return parsed

    module = program(name)
    # a recipe of training reads its rows next, which are not there
    expected = pytest.raises((Parsed, InputError), match=r"^$|no such file")
    with monkeypatch.context() as patch, expected:
        if hasattr(module, "parse"):
            patch.setattr(module, "parse", only_parsed(module.parse))
        else:
            patch.setattr(argparse.ArgumentParser, "parse_args", only_parsed(parse_args))
        module.main(arguments)


@needs_make
@pytest.mark.parametrize("target", TARGETS)
def test_every_program_takes_its_options(target, monkeypatch):
    lines = re.findall(r"python -m ((?:weights|training)\..*?)\s*(?:[;&]|$)", printed(target), re.MULTILINE)
    monkeypatch.chdir(ROOT)
    assert lines
    for name, *arguments in map(shlex.split, lines):
        only_parse(name, arguments, monkeypatch)


@needs_make
def test_a_named_tower_is_built_on_and_none_is_made():
    made = printed("train-embedded", "TOWER=embedded")
    assert "weights.making.image_tower" not in made and made.count("--base embedded ") == 3


@needs_make
def test_every_figure_of_infometic_is_of_the_given_network():
    given = {"BACKBONE": "own-tower", "INFOMETIC": "own-network", "MARKS": "own-marks"}
    lines = printed("measure-embedded-infometic", *map("=".join, given.items())).splitlines()
    scored = [shlex.split(line) for line in lines if re.search("believable_marks|capscore benchmark", line)]
    assert len(scored) == 2
    for words in scored:
        options = dict(itertools.pairwise(words))
        assert [options[f"--{name}"] for name in ("backbone", "weights", "marks")] == list(given.values())


@pytest.mark.parametrize(
    ("weights", "recipe"),
    [
        ("image_tower", "image_tower"),
        ("infometic", "infometic_network"),
        ("mark_calibration", "mark_calibration"),
        ("pr_mcs", "noise_gate"),
    ],
)
def test_settings_beside_shipped_weights_are_those_of_their_recipe(weights, recipe):
    module, name = RECIPES[recipe]
    file = ROOT / "weights" / "capscore_weights" / weights / "settings.yaml"
    parse(getattr(importlib.import_module(module), name), ["--config", str(file), "--out", "again"], "")
