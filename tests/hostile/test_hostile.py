"""Every hostile input ends in one clear error or in the scores that it is known to have.

`make test` runs a part of every family, `make test-all` all of them. One case:
`pytest tests/hostile --all -k "caption/nul"`.
"""

from __future__ import annotations

import signal

import pytest

from .case import check, sample
from .tables import benchmarks, images, options, rows, texts

LIMIT_S = 60  # for one case; the slowest needs a few seconds


class Hang(BaseException):
    """A case did not end; not an `Exception`, so that nothing handles it."""


@pytest.fixture
def limited():
    """Raise `Hang` in the main thread if the test takes too long."""

    def ring(*_):
        raise Hang(f"more than {LIMIT_S} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(LIMIT_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def pytest_generate_tests(metafunc):
    if "case" in metafunc.fixturenames:
        members = [case for table in metafunc.cls.tables for case in table.CASES]
        if not metafunc.config.getoption("--all"):
            members = sample(members)
        metafunc.parametrize("case", members, ids=lambda case: case.id)


class Hostile:
    """The test of each case; one class for some tables, so that several processes share the work."""

    def test_case(self, case, tmp_path_factory, limited):
        # the name of a case must not be in a path, and with it in an error
        check(case.expected, case.surface(tmp_path_factory.mktemp("given"), case.given))


class TestTexts(Hostile):
    tables = (texts, rows, images)


class TestOptions(Hostile):
    tables = (options, benchmarks)
