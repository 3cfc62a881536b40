"""The handbook is built without a warning, has a page for everything, and no link leads nowhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import capscore

pytest.importorskip("sphinx")
from docs.handbook.__main__ import ROOT, build, documents
from docs.handbook.made_pages import RECIPES, command_pages, idea_picture, recipe_page


class _Page(HTMLParser):
    """Links and names of places in a page, and what it loads."""

    def __init__(self, text: str):
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if "id" in found:
            self.places.add(found["id"])
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag in ("script", "img", "iframe") and "src" in found:
            self.loaded.append(found["src"])
        if tag == "link" and found.get("rel") == "stylesheet":
            self.loaded.append(found["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("handbook") / "site"
    assert build(folder) == 0  # warnings are errors
    return folder


@pytest.mark.slow
def test_no_link_leads_nowhere(site):
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in site.glob("**/*.html")}
    dead = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            there = pages.get(target)
            if not target.exists() or (
                parts.fragment and there and unquote(parts.fragment) not in there.places
            ):
                dead.append(f"{path.relative_to(site)} → {link}")
    assert len(pages) > 60 and not dead


@pytest.mark.slow
def test_nothing_is_loaded_from_elsewhere(site):
    for path in site.glob("**/*.html"):
        for source in _Page(path.read_text(encoding="utf-8")).loaded:
            assert not urlsplit(source).netloc, f"{path.name} loads {source}"


@pytest.mark.slow
def test_a_page_for_everything(site):
    metrics = {path.parent.name for path in site.glob("metrics/*/README.html")}
    assert metrics == {path.parent.name for path in (ROOT / "metrics").glob("*/README.md")}
    overview = (site / "metrics.html").read_text(encoding="utf-8")
    assert all(f'href="metrics/{metric}/README.html"' in overview for metric in metrics)
    benchmarks = {path.parent.name for path in site.glob("datasets_scripts/*/README.html")}
    assert benchmarks == set(capscore.benchmark_slugs())
    assert {path.stem for path in (site / "recipes").glob("*.html")} == set(RECIPES)
    assert {path.stem for path in (site / "commands").glob("*.html")} == set(command_pages())
    python = _Page((site / "python.html").read_text(encoding="utf-8")).places
    assert {f"capscore.{name}" for name in capscore.__all__ if not name.startswith("_")} <= python
    assert not any(link.startswith("mailto:") for link in _Page((site / "python.html").read_text()).links)


def test_every_guide_of_the_repository_is_in_it():
    assert {path.relative_to(ROOT) for path in (ROOT / "docs").glob("*.md")} <= set(documents())


def test_a_build_that_fails_keeps_the_old_site(tmp_path, monkeypatch):
    (tmp_path / "index.html").write_text("old")
    monkeypatch.setattr("docs.handbook.__main__.build_main", lambda arguments: 1)
    assert build(tmp_path) == 1
    assert (tmp_path / "index.html").read_text() == "old"


def test_pages_of_commands_hold_each_option():
    page = command_pages()["publish-weights"]
    assert page.startswith("# capscore publish weights\n")
    assert "| `--org` | " in page and "`--dry-run`" in page
    assert "```bash\ncapscore compare " in command_pages()["compare"]


def test_pages_of_recipes_hold_each_setting():
    page = recipe_page("teacher_learning")
    assert page.startswith("# python -m training.teacher_learning\n")
    assert "| `teacher` | must be given |" in page or "| `teacher` |" in page
    rows = re.findall(r"^\| `(\w+)` \| .+ \| (.*) \|$", page, re.M)
    assert len(rows) > 20 and all(meaning for _, meaning in rows)


def test_pictures_say_in_words_what_they_show():
    words = re.sub("<[^>]+>", " ", idea_picture("pr_mcs"))
    assert "image tower  text tower that knows noise" in words
    assert idea_picture("cider").count("<span") == 6 + 3
