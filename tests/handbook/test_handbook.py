"""The handbook is built without a warning, has a page for everything, and no link leads nowhere."""

import re

import pytest

pytest.importorskip("sphinx")
from docs.handbook.__main__ import ROOT, build, documents
from docs.handbook.made_pages import recipe_page
from tools.project.site import dead_links, foreign_addresses, missing_pages


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("handbook") / "site"
    assert build(folder) == 0  # warnings are errors
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("check", [dead_links, foreign_addresses, missing_pages])
def test_the_site_keeps_what_is_checked_of_it(check, site):
    assert check(site) == []


def test_every_guide_of_the_repository_is_in_it():
    assert {path.relative_to(ROOT) for path in (ROOT / "docs").glob("*.md")} <= set(documents())


def test_a_build_that_fails_keeps_the_old_site(tmp_path, monkeypatch):
    (tmp_path / "index.html").write_text("old")
    monkeypatch.setattr("docs.handbook.__main__.build_main", lambda arguments: 1)
    assert build(tmp_path) == 1
    assert (tmp_path / "index.html").read_text() == "old"


def test_pages_of_recipes_hold_each_setting():
    page = recipe_page("teacher_learning")
    assert page.startswith("# python -m training.teacher_learning\n") and "| `teacher` |" in page
    rows = re.findall(r"^\| `(\w+)` \| .+ \| (.*) \|$", page, re.M)
    assert len(rows) > 20 and all(meaning for _, meaning in rows)
