"""What people imported from version 0.1 keeps answering under its former name."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from capscore.files.former_names import FORMER_MEMBERS, FORMER_NAMES

from .. import processes

NAMES = [
    ("agreement", "agreement"),
    ("benchmark.tasks", "RatingTask"),
    ("cache", "EmbeddingCache"),
    ("cider", "DocumentFrequencies"),
    ("data_sets", "load_benchmark"),
    ("embedding", "Embedder"),
    ("images", "MAX_DOWNLOAD_BYTES"),
    ("infometic.drawing", "write_png"),
    ("infometic.regions", "load_finder"),
    ("perturbations", "check_captions"),
    ("perturbed_rows", "PerturbedRows"),
    ("protocols", "foils"),
    ("protocols.foils", "VALSE_PIECES"),
    ("published", "find"),
    ("rated_rows", "RatedRows"),
    ("robustness", "run_robustness"),
    ("row_fields", "find_fields"),
    ("rows", "Rows"),
    ("rows", "open_rows"),
    ("rows", "open_writer"),
    ("scorers.checked_rows", "CheckedRows"),
    ("segmentation", "tokenize"),
    ("word_classes", "tag"),
]


# They import torch, datasets and evaluate, which the server of tests/processes.py has imported.
HEAVY = [
    ("backbones.embedded", "load_embedded"),
    ("backbones.embedded", "UncentredBackbone"),
    ("benchmark_builder", "CaptionBenchmark"),
    ("evaluate_module", "CaptionModule"),
]


def imports(names) -> str:
    return "\n".join(f"from capscore.{module} import {name}" for module, name in names)


def test_a_fresh_process_imports_them():
    done = subprocess.run([sys.executable, "-c", imports(NAMES)], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_a_process_imports_those_of_large_libraries():
    done = processes.run(["-c", imports(HEAVY)])
    assert done.returncode == 0 and not done.stderr, done.stderr


@pytest.mark.parametrize("former", sorted(set(FORMER_NAMES) - set(FORMER_MEMBERS)))
def test_the_module_is_the_present_one(former):
    present = importlib.import_module(f"capscore.{FORMER_NAMES[former]}")
    assert importlib.import_module(f"capscore.{former}") is present
    assert present.__name__ == present.__spec__.name == f"capscore.{FORMER_NAMES[former]}"


@pytest.mark.parametrize("former", sorted(FORMER_MEMBERS))
def test_members_with_other_names_are_the_present_ones(former):
    module = importlib.import_module(f"capscore.{former}")
    for name, place in FORMER_MEMBERS[former].items():
        where, _, now = place.partition(":")
        assert getattr(module, name) is getattr(importlib.import_module(f"capscore.{where}"), now)
    with pytest.raises(AttributeError):
        _ = module.nothing_of_this_name
