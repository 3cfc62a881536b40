"""Every hostile input ends in one clear error or in the score of a harmless twin.

`make test` runs a part of every family, `make test-all` all of them. One case:
`pytest tests/hostile --all -k "caption/bell"`.
"""

from __future__ import annotations

import signal
import zlib
from contextlib import contextmanager

import pytest

from . import tables
from .case import AsTwin, check, sample
from .surfaces import SURFACES

LIMIT_S = 60  # for one case; the slowest needs a few seconds


class Hang(BaseException):
    """A case did not end; not an `Exception`, so that nothing handles it."""


@contextmanager
def within(seconds: int):
    """Raise `Hang` in the main thread if the block takes longer."""

    def ring(*_):
        raise Hang(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def pytest_generate_tests(metafunc):
    if "case" not in metafunc.fixturenames:
        return
    members = [case for case in tables.ALL if case.family in metafunc.cls.families]
    if not metafunc.config.getoption("--all"):
        members = sample(members)
    parameters = []
    for case in members:
        broken = pytest.mark.xfail(strict=True, reason=case.finding)
        parameters.append(pytest.param(case, id=case.id, marks=[broken] if case.finding else []))
    metafunc.parametrize("case", parameters)


class Hostile:
    """The test of each case; one class for some families, so that several processes share the work."""

    families: tuple[str, ...] = ()

    def test_case(self, case, tmp_path_factory):
        surface = SURFACES[case.surface]
        # the name of a case must not be in a path, and with it in an error
        folders = [tmp_path_factory.mktemp("given") for _ in range(2)]
        of_twin = None
        with within(LIMIT_S):
            if isinstance(case.expected, AsTwin):
                of_twin = surface(folders[1], case.expected.twin)
            outcome = surface(folders[0], case.given)
        check(case, outcome, of_twin)


class TestTexts(Hostile):
    families = ("caption", "reference", "word", "language")


class TestFiles(Hostile):
    families = ("rows",)


class TestImages(Hostile):
    families = ("array", "image", "address")


class TestOptions(Hostile):
    families = ("option", "command", "path", "compare")


class TestBenchmarks(Hostile):
    families = ("benchmark",)


class TestApps(Hostile):
    families = ("app",)


class TestFolders(Hostile):
    families = ("checkpoint", "network", "cache")


class TestTraining(Hostile):
    families = ("training",)


def test_names_differ_and_every_family_is_run():
    names = [case.id for case in tables.ALL]
    assert len(set(names)) == len(names)
    run = [family for kind in Hostile.__subclasses__() for family in kind.families]
    assert sorted(run) == sorted({case.family for case in tables.ALL})
    assert all(case.surface in SURFACES for case in tables.ALL)


def test_inputs_differ():
    """Two cases with one input on one surface would count twice."""
    seen = {}
    for case in tables.ALL:
        given = case.given
        code = given.__code__.co_code + repr(given.__code__.co_consts).encode() if callable(given) else None
        if code is None:
            key = (case.surface, zlib.crc32(repr(given).encode("utf-8", "surrogatepass")))
            assert key not in seen, (case.id, seen[key])
            seen[key] = case.id
