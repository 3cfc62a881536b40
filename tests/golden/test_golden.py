"""What capscore answers is what it answered when the results were written; the quick cases of them."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from . import releases
from .__main__ import run
from .cases import CASES
from .plain import differences

RESULTS = Path(__file__).with_name("results.json")
QUICK = [each for each in CASES.values() if each.quick]


@pytest.fixture(scope="module")
def written():
    return json.loads(RESULTS.read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", QUICK, ids=[each.name for each in QUICK])
def test_as_before(case, written):
    ((_, result, failure, _),) = run([case])
    assert not failure, failure
    assert list(differences(written[case.name], result)) == []


def test_every_result_has_its_case(written):
    assert set(written) <= set(CASES)


def test_no_release_moves_a_number_in_silence(written):
    """A score that changes under the same signature has to be told here, and in the CHANGELOG."""
    steps = [*releases.kept().items(), ("now", releases.scores_in(written))]
    told: dict[tuple[str, str], list[str]] = {}
    assert len(steps) >= 6 and len(written) >= 140
    for (before, old), (after, new) in itertools.pairwise(steps):
        assert len(old.keys() & new.keys()) > 100
        assert list(releases.moved(old, new)) == told.get((before, after), []), f"{before} → {after}"


def test_a_moved_number_is_seen(written):
    now = releases.scores_in(written)
    place = "metrics/mcs/en"
    changed = {**now, place: {**now[place], "scores": [*now[place]["scores"][:-1], 0.123]}}
    assert list(releases.moved(now, changed)) == [place]
    shorter = {**now, place: {**now[place], "scores": now[place]["scores"][:-1]}}
    assert releases.moved(now, shorter) == {place: float("inf")}
