"""What tests of commands share: the runner, files of rows, photos of one colour, toys for backbones."""

import csv
import math

import pyarrow.parquet as pq
import pytest

from tools.tiny.colours import ColourBackbone
from tools.tiny.command import json_lines, read_jsonl, run, write_jsonl
from tools.tiny.judges import tiny_judge

from ..benchmarks.test_run import rated
from ..datasets_scripts.conftest import _own_cache, official
from ..toy_command import write_photos

__all__ = ["_own_cache", "json_lines", "read_jsonl", "run", "write_jsonl"]

HALF = 2.5 / math.sqrt(2)  # one colour against two
ROWS = [
    {"id": 1, "image": "red.png", "caption": "red", "references": ["red green", "blue"]},
    {"id": 2, "image": "green.png", "caption": "red green", "references": ["green"]},
    {"id": 3, "image": "blue.png", "caption": "red", "references": ["red", "blue"]},
]
# 2.5 · cosine with the image; cosine with the best reference; harmonic mean of the two
MCS = [2.5, HALF, 0.0]
TEXT = [1 / math.sqrt(2), 1 / math.sqrt(2), 1.0]
REF = [2 * a * b / (a + b) for a, b in zip(MCS, TEXT, strict=True)]


def assert_refused(done, message, *codes):
    """One error, with this text, and one of the exit codes (2 if none is stated); nothing was printed."""
    assert done.exit_code in (codes or (2,)) and done.stdout == "", done.output
    assert message in flat(done.stderr) and "Traceback" not in done.stderr, done.stderr


def rows_of(path):
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    return read_jsonl(path) if path.suffix == ".jsonl" else [*csv.DictReader(open(path, newline=""))]


def flat(text):
    return " ".join(text.split())


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    write_photos(folder)
    return folder


@pytest.fixture
def toys(monkeypatch):
    """Every backbone is a toy of its own, by name, made anew each time it is loaded."""
    made = {}

    def load(name, **options):
        if not isinstance(name, str):
            return name
        made[name] = ColourBackbone(fingerprint=name)
        made[name].name = name
        return made[name]

    monkeypatch.setattr("capscore.backbones.load_backbone", load)
    return made


@pytest.fixture
def judge(monkeypatch):
    """Every name of a judge loads a tiny one, which always says the same; the list has the names."""
    made, names = tiny_judge(), []
    monkeypatch.setattr("capscore.judges.model.load_judge", lambda name, **_: names.append(name) or made)
    monkeypatch.setattr(type(made), "generate", lambda self, *photo: "too <b>\x1b</b>")
    return names


@pytest.fixture
def flickr(tmp_path):
    folder = tmp_path / "flickr8k_human"
    folder.mkdir()
    official("flickr8k_human").write(folder)
    rated(folder)
    crowd = [f"{n % 4}.jpg\t{n + 4}.jpg#1\t{n / 4}\t{n}\t1" for n in (0, 4, 2, 1)]
    (folder / "CrowdFlowerAnnotations.txt").write_text("".join(f"{line}\n" for line in crowd))
    return folder
