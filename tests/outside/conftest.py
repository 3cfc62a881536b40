"""Installs the package of docs/extending.md, with its entry points, beside the tests."""

import subprocess
import sys

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from capscore.cli import app
from capscore.registry import BACKBONES, BENCHMARKS, LAYOUTS, METRICS, PERTURBATIONS, READINGS
from tools.tiny.command import write_jsonl

from .package import write_package


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    source, target = tmp_path_factory.mktemp("source") / "outside", tmp_path_factory.mktemp("installed")
    write_package(source)
    options = "--quiet --no-deps --no-index --no-build-isolation --disable-pip-version-check --target".split()
    subprocess.run([sys.executable, "-m", "pip", "install", *options, target, source], check=True)
    return target


@pytest.fixture
def installed(folder, monkeypatch):
    monkeypatch.syspath_prepend(str(folder))
    registries = (METRICS, BACKBONES, PERTURBATIONS, BENCHMARKS, READINGS, LAYOUTS)
    for registry in registries:
        registry.__dict__.pop("_entry_points", None)
    yield
    for registry in registries:
        for name in registry.outside():
            registry.unregister(name)
        registry.__dict__.pop("_entry_points", None)
    for name in [name for name in sys.modules if name.partition(".")[0] == "capscore_outside"]:
        del sys.modules[name]


@pytest.fixture
def command(installed, tmp_path, monkeypatch):
    """A function: runs a command, made anew with the package installed, and returns its output."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        result = CliRunner(env={"COLUMNS": "80"}).invoke(app, [*map(str, words)])
        assert result.exit_code == 0, f"{words}\n{result.output}"
        return result.output

    return run


@pytest.fixture
def photos(tmp_path):
    """A bright photo and a dark one, each with a lighter half."""
    for name, light in (("day.png", 204), ("night.png", 51)):
        pixels = np.full((8, 8, 3), light - 30, np.uint8)
        pixels[:4] += 60
        Image.fromarray(pixels).save(tmp_path / name)
    return [str(tmp_path / "day.png"), str(tmp_path / "night.png")]


@pytest.fixture
def rows_file(tmp_path, photos):
    """Four captions of the two photos; the first system is right, the second is wrong."""
    captions = {"first": ["a bright room", "a dark room"], "second": ["a dark room indeed", "a bright room"]}
    for system, texts in captions.items():
        rows = []
        for image, text in zip(("day.png", "night.png"), texts, strict=True):
            row = {"id": len(rows), "image": image, "caption": text}
            rows.append(row | {"references": ["a large bright room", "a room"]})
        write_jsonl(tmp_path / f"{system}.jsonl", rows)
    return tmp_path / "first.jsonl"


def write_rooms(folder):
    """The official file of the benchmark and its photos, a white and a black one."""
    (folder / "photos").mkdir(parents=True)
    for name, colour in (("day.png", "white"), ("night.png", "black")):
        Image.new("RGB", (8, 8), colour).save(folder / "photos" / name)
    rated = {"day.png": {"a bright room": 5, "a room": 3, "a dark room": 1}}
    rated["night.png"] = {"a dark room": 4, "a bright room": 2}
    rows = []
    for photo, ratings in rated.items():
        for caption, rating in ratings.items():
            rows.append({"photo": photo, "caption": caption, "rating": rating, "references": ["a room"]})
    return write_jsonl(folder / "ratings.jsonl", rows).parent


@pytest.fixture
def rated_rooms(tmp_path):
    return write_rooms(tmp_path / "rooms")
