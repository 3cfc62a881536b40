"""A handbook that was built: no link leads nowhere, nothing comes from elsewhere, everything has its page."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import capscore
from docs.handbook.made_pages import RECIPES, command_pages

from .source import ROOT


class _Page(HTMLParser):
    """Links and names of places in a page, and what it loads."""

    def __init__(self, path: Path):
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.places: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name == "id":
                self.places.add(value or "")
            if (tag, name) == ("a", "href"):
                self.links.append(value or "")
            if name == "src" and tag in ("script", "img", "iframe"):
                self.loaded.append(value or "")
            if (tag, name) == ("link", "href") and dict(attributes).get("rel") == "stylesheet":
                self.loaded.append(value or "")


def _pages(site: Path) -> dict[Path, _Page]:
    return {path: _Page(path) for path in sorted(site.glob("**/*.html"))}


def dead_links(site: Path) -> list[str]:
    """Links to files that are not there, and to places that their page lacks."""
    pages, dead = _pages(site), []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            lacks = parts.fragment and target in pages
            if not target.exists() or (lacks and unquote(parts.fragment) not in pages[target].places):
                dead.append(f"{path.relative_to(site)} → {link}")
    return dead


def foreign_addresses(site: Path) -> list[str]:
    """What pages load from other servers, and addresses of people in the pages of Python."""
    pages = _pages(site)
    found = [link for link in pages[site / "python.html"].links if link.startswith("mailto:")]
    for path, page in pages.items():
        found += [f"{path.name} loads {source}" for source in page.loaded if urlsplit(source).netloc]
    return found


def missing_pages(site: Path) -> list[str]:
    """Metrics, benchmarks, recipes, commands and public names without a page, and pages of none of them."""
    metrics = {path.parent.name for path in (ROOT / "metrics").glob("*/README.md")}
    folders = {
        "metrics/*/README.html": metrics,
        "datasets_scripts/*/README.html": set(capscore.benchmark_slugs()),
        "recipes/*.html": set(RECIPES),
        "commands/*.html": set(command_pages()),
    }
    missing = []
    for pattern, names in folders.items():
        pages = {path.parent.name if path.stem == "README" else path.stem for path in site.glob(pattern)}
        missing += [f"{pattern}: {name}" for name in sorted(names ^ pages)]
    overview, python = _Page(site / "metrics.html").links, _Page(site / "python.html").places
    missing += [f"metrics.html: {name}" for name in metrics if f"metrics/{name}/README.html" not in overview]
    public = [name for name in capscore.__all__ if not name.startswith("_")]
    return missing + [f"python.html: {name}" for name in public if f"capscore.{name}" not in python]
