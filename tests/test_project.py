"""The project's own files keep what `python -m tools.project` checks."""

import pytest

from tools.project.__main__ import CHECKS


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_files_of_the_project_are_in_order(check):
    problems = check()
    assert not problems, "\n".join(problems)
