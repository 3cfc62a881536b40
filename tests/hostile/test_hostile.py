"""Every hostile input ends in one clear error or in the scores that it is known to have.

`make test` runs a part of every family, `make test-all` all of them. One case:
`pytest tests/hostile --all -k "caption/nul"`.
"""

from tools.hostile.case import check, limited, sample
from tools.hostile.tables import benchmarks, images, options, rows, texts


def pytest_generate_tests(metafunc):
    if "case" in metafunc.fixturenames:
        members = [case for table in metafunc.cls.tables for case in table.CASES]
        if not metafunc.config.getoption("--all"):
            members = sample(members)
        metafunc.parametrize("case", members, ids=lambda case: case.id)


class Hostile:
    """The test of each case; one class for some tables, so that several processes share the work."""

    def test_case(self, case, tmp_path_factory):
        # the name of a case must not be in a path, and with it in an error
        with limited():
            check(case.expected, case.surface(tmp_path_factory.mktemp("given"), case.given))


class TestTexts(Hostile):
    tables = (texts, rows, images)


class TestOptions(Hostile):
    tables = (options, benchmarks)
