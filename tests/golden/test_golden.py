"""What capscore answers is what it answered when the results were written; the quick cases of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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
