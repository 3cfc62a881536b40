"""What all protocols share: results that are JSON, statistics with names, scores as people hand them over."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import subprocess
import sys

import numpy as np
import pytest

from capscore.benchmarks import protocols
from capscore.benchmarks.protocols import (
    ProtocolResult,
    captokeneval,
    foils,
    marvl,
    pairwise_by_category,
    retrieval,
    thumb,
    xvnli,
)
from capscore.benchmarks.tasks import TaskOptions
from capscore.cli.benchmark import benchmark
from capscore.errors import InputError

agreement_module = importlib.import_module("capscore.statistics.agreement")

# every protocol on rows that leave gaps: empty categories, constant scores, no mean
RESULTS = {
    "pairwise": lambda: pairwise_by_category([0.9, 0.8], [0.1, 0.9], [0, 1], ["HC", "HM"], bootstrap=50),
    "foils": lambda: foils([0.9, 0.5], [0.1, 0.5], images=["a", "b"], bootstrap=50),
    "valse": lambda: foils([0.9], [0.1], ["existence"], known=protocols.VALSE_PIECES),
    "xvnli": lambda: xvnli([0.9, 0.5], ["entailment", "contradiction"], ["a", "a"], bootstrap=50),
    "marvl": lambda: marvl([0.9], [0.1], [True], ["a"], ["sw-0"]),
    "thumb": lambda: thumb([0.1, 0.2], [5, 5], [1, 2], [1, 2], ["A", "Human"], bootstrap=50),
    "captokeneval": lambda: captokeneval([[0.5]], [[1]], [[False]], [[0.5]], [[1]]),
    "retrieval": lambda: retrieval(np.eye(2), text_to_image=[0, 1]),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_are_json_and_frozen(name):
    found = RESULTS[name]()
    assert isinstance(found, ProtocolResult)
    json.dumps(found.details, allow_nan=False)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.notes = ()


@pytest.mark.parametrize("name", RESULTS)
def test_statistics_have_names_of_their_own_and_say_why_they_are_none(name):
    found = RESULTS[name]()
    statistics = found.statistics
    assert len({statistic.name for statistic in statistics}) == len(statistics)
    for statistic in statistics:
        assert statistic.value is None or -1 <= statistic.value <= 1 or statistic.name.startswith("mean_")
        assert type(statistic.n) is int
        if statistic.interval is not None:
            low, high = statistic.interval
            assert low <= high
    if any(statistic.value is None for statistic in statistics):
        assert found.notes
    assert found.table() == [(s.name.replace("_", " "), s.value, s.n) for s in statistics]
    assert all(type(number) is int for number in found.counts.values())


def test_columns_as_people_hand_them_over():
    import pandas
    import pyarrow
    import torch

    expected = foils([0.9, 0.5, 0.3], [0.1, 0.5, 0.4], ["a", "a", "b"], [True, True, False])
    scores = [0.9, 0.5, 0.3]
    for column in (
        np.array(scores),
        pandas.Series(scores, index=[5, 6, 7]),
        pandas.array(scores, dtype="Float64"),
        pyarrow.array(scores),
        torch.tensor(scores, dtype=torch.float64),
        tuple(scores),
    ):
        assert foils(column, [0.1, 0.5, 0.4], ["a", "a", "b"], [True, True, False]) == expected
    for pieces in (
        np.array(["a", "a", "b"]),
        pandas.Series(["a", "a", "b"], index=[5, 6, 7]),
        pyarrow.array(["a", "a", "b"]),
    ):
        assert foils(scores, [0.1, 0.5, 0.4], pieces, np.array([True, True, False])) == expected


@pytest.mark.parametrize("given", ["abc", {"a": 1}, 3, None, [[0.1], [0.2]], np.ones((2, 1))])
def test_scores_that_are_no_list_of_numbers(given):
    with pytest.raises(InputError, match="caption_scores"):
        foils(given, [0.1, 0.2])


@pytest.mark.parametrize("given", ["ab", {"a": 1, "b": 2}, {"a", "b"}, 3, np.array(3)])
def test_labels_that_are_no_list(given):
    with pytest.raises(InputError, match=r"^pieces: "):
        foils([0.1, 0.2], [0.2, 0.3], given)


# protocols that draw nothing
WITHOUT_DRAWS = {"captokeneval", "retrieval"}


def _functions(module):
    return {name: one for name in module.__all__ if inspect.isfunction(one := getattr(module, name))}


def test_every_protocol_draws_or_is_known_not_to():
    drawing = {name for name, one in _functions(protocols).items() if "bootstrap" in _defaults(one)}
    assert drawing == _functions(protocols).keys() - WITHOUT_DRAWS


def _defaults(function):
    return {name: one.default for name, one in inspect.signature(function).parameters.items()}


@pytest.mark.parametrize("name", sorted(_functions(protocols).keys() - WITHOUT_DRAWS))
def test_defaults_of_the_bootstrap(name):
    """Other defaults would change published intervals."""
    found = _defaults(getattr(protocols, name))
    assert {name: found[name] for name in ("bootstrap", "confidence", "seed")} == {
        "bootstrap": 0,
        "confidence": 0.95,
        "seed": 0,
    }


@pytest.mark.parametrize(
    ("name", "number", "default"),
    [("agreement", "bootstrap", 0), ("compare", "n", 1000)],
)
def test_defaults_of_statistics(name, number, default):
    found = _defaults(getattr(agreement_module, name))
    assert (found[number], found["confidence"], found["seed"]) == (default, 0.95, 0)


def test_defaults_of_runs_and_commands():
    assert [getattr(TaskOptions(), name) for name in ("bootstrap", "confidence", "seed")] == [1000, 0.95, 0]
    assert TaskOptions().sampling == {"bootstrap": 1000, "confidence": 0.95, "seed": 0, "missing": "raise"}
    options = inspect.signature(benchmark).parameters
    assert [options[name].default for name in ("bootstrap", "confidence", "seed")] == [1000, 0.95, 0]


def test_what_is_drawn_by_default_is_what_seed_0_draws():
    rng = np.random.default_rng(5)
    better, worse = rng.random((2, 40))
    groups = [f"{number % 8}.jpg" for number in range(40)]
    made = [foils(better, worse, images=groups, bootstrap=200, **more) for more in ({}, {"seed": 0})]
    assert made[0] == made[1]
    other = foils(better, worse, images=groups, bootstrap=200, seed=1)
    assert [one.interval for one in other.statistics] != [one.interval for one in made[0].statistics]


def test_protocols_import_nothing_heavy():
    heavy = ("matplotlib", "scipy", "torch", "pandas", "PIL", "datasets")
    names = f"[name for name in {heavy!r} if name in sys.modules]"
    code = f"import sys, capscore.benchmarks.protocols; print({names})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
