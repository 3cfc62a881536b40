"""What capscore answers is what it answered when the results were written."""

import itertools
import json
from pathlib import Path

import pytest

from tools.golden import plain, releases
from tools.golden.__main__ import opened_place, run_one
from tools.golden.plain import differences
from tools.golden.table import all_cases

WRITTEN = json.loads(Path(__file__).with_name("results.json").read_text(encoding="utf-8"))
CASES = all_cases()


@pytest.fixture(scope="module")
def place():
    with opened_place() as place:
        yield place


@pytest.mark.parametrize("name", CASES)
def test_as_before(name, place, monkeypatch):
    if not CASES[name].needs():
        pytest.skip("cannot be run here")
    monkeypatch.setattr(plain, "TOLERANCE", CASES[name].tolerance)
    result, failure = run_one(CASES[name], place)
    assert not failure, failure
    assert list(differences(WRITTEN[name], result)) == []


def test_no_release_moves_a_number_in_silence():
    """A score that changes under the same signature has to be told here, and in the CHANGELOG."""
    now = releases.scores_in(WRITTEN)
    told = {}
    for (before, old), (after, new) in itertools.pairwise([*releases.kept().items(), ("now", now)]):
        assert len(old.keys() & new.keys()) > 80
        assert list(releases.moved(old, new)) == told.get((before, after), []), f"{before} → {after}"
    assert WRITTEN.keys() <= CASES.keys()
    # a moved number is seen
    item = now["metrics/mcs/en"]
    for scores, by in (([*item["scores"][:-1], 0.123], 0.123), (item["scores"][:-1], float("inf"))):
        assert releases.moved(now, {"metrics/mcs/en": {**item, "scores": scores}}) == {"metrics/mcs/en": by}
