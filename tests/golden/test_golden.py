"""What capscore answers is what it answered when the results were written; `--all` takes every case."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from . import plain, releases
from .__main__ import run
from .plain import differences
from .table import all_cases

WRITTEN = json.loads(Path(__file__).with_name("results.json").read_text(encoding="utf-8"))
CASES = all_cases()


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if item.quick else [pytest.mark.slow]) for name, item in CASES.items()],
)
def test_as_before(name, monkeypatch):
    if not CASES[name].needs():
        pytest.skip("cannot be run here")
    if not CASES[name].quick:
        monkeypatch.setattr(plain, "TOLERANCE", 1e-5)  # what a signature promises on any machine
    ((_, result, failure),) = run([CASES[name]])
    assert not failure, failure
    assert list(differences(WRITTEN[name], result)) == []


def test_no_release_moves_a_number_in_silence():
    """A score that changes under the same signature has to be told here, and in the CHANGELOG."""
    now = releases.scores_in(WRITTEN)
    told: dict[tuple[str, str], list[str]] = {}
    for (before, old), (after, new) in itertools.pairwise([*releases.kept().items(), ("now", now)]):
        assert len(old.keys() & new.keys()) > 80
        assert list(releases.moved(old, new)) == told.get((before, after), []), f"{before} → {after}"
    assert WRITTEN.keys() <= CASES.keys()
    # a moved number is seen
    item = now["metrics/mcs/en"]
    for scores, by in (([*item["scores"][:-1], 0.123], 0.123), (item["scores"][:-1], float("inf"))):
        assert releases.moved(now, {"metrics/mcs/en": {**item, "scores": scores}}) == {"metrics/mcs/en": by}
