"""Every hostile input ends in one clear error or in the scores that it is known to have.

`make test` runs a part of every family, `make test-all` all of them. One case:
`pytest tests/hostile --all -k "caption/bell"`.
"""

from __future__ import annotations

import signal

import pytest

from . import tables
from .case import check, sample
from .surfaces import SURFACES

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
        members = [case for case in tables.ALL if case.family in metafunc.cls.families]
        if not metafunc.config.getoption("--all"):
            members = sample(members)
        metafunc.parametrize("case", members, ids=lambda case: case.id)


class Hostile:
    """The test of each case; one class for some families, so that several processes share the work."""

    families: tuple[str, ...] = ()

    def test_case(self, case, tmp_path_factory, limited):
        # the name of a case must not be in a path, and with it in an error
        folder = tmp_path_factory.mktemp("given")
        check(case.expected, SURFACES[case.surface](folder, case.given))


class TestTexts(Hostile):
    families = ("caption", "reference", "word", "language", "rows")


class TestImages(Hostile):
    families = ("array", "image", "address")


class TestOptions(Hostile):
    families = ("option", "command", "path", "compare", "app")


class TestFolders(Hostile):
    families = ("checkpoint", "network", "cache", "benchmark", "training")


def test_names_differ_and_every_family_is_run():
    names = [case.id for case in tables.ALL]
    assert len(set(names)) == len(names)
    run = [family for kind in Hostile.__subclasses__() for family in kind.families]
    assert sorted(run) == sorted({case.family for case in tables.ALL})
    assert all(case.surface in SURFACES for case in tables.ALL)
