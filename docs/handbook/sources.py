"""Documents of this repository → the folder that Sphinx reads.

In: Markdown of the repository. Out: the same pages in folders of the site, with links that lead from page to
page; links to files that are no pages become text.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import capscore

from .command_pages import command_pages
from .idea_pictures import idea_picture
from .python_pages import python_page
from .recipe_pages import RECIPES, recipe_page

ROOT = Path(__file__).resolve().parents[2]
# title of each part → its pages: path in the site, or document of the repository
_GUIDES = {
    "Start": ["docs/first-score.md", "docs/which-metric.md", "docs/scoring.md", "docs/scores.md"],
    "Backbones and languages": ["docs/backbones.md", "docs/which-backbone.md", "docs/my-language.md"],
    "Going deeper": [
        *("docs/robustness.md", "docs/infometic.md", "docs/translation.md", "docs/scale.md"),
        *("docs/integrations.md", "docs/limits.md", "docs/why-packages-disagree.md"),
    ],
    "Contribute": [
        *("docs/extending.md", "docs/publishing.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"),
        "weights/README.md",
    ],
}
_FRONT_MATTER = re.compile(r"\A---\n.*?^---\n", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|mailto:)([^)\s#]*)(#[^)\s]*)?\)")
_IMAGE = re.compile(r"!\[([^\]]*)\]\((?!https?:)([^)\s]+)\)")


def documents() -> dict[Path, str]:
    """Document of the repository, relative to its root → page of the site, without the suffix."""
    metrics = [Path("metrics", name, "README.md") for name in _slugs("metrics")]
    benchmarks = [Path("datasets_scripts", name, "README.md") for name in _slugs("datasets_scripts")]
    guides = [Path(name) for names in _GUIDES.values() for name in names]
    pages = {path: f"guide/{_name(path)}" for path in guides}
    pages[Path("docs/benchmarking.md")] = "benchmarks/index"
    pages[Path("docs/training.md")] = "recipes/index"
    pages |= {path: f"metrics/{path.parent.name}" for path in metrics}
    return pages | {path: f"benchmarks/{path.parent.name}" for path in benchmarks}


def write_sources(folder: Path) -> None:
    """Write all pages, and the index that lists them.

    Args:
        folder: Folder to make.
    """
    pages = documents()
    for document, page in pages.items():
        text = _FRONT_MATTER.sub("", (ROOT / document).read_text(encoding="utf-8"))
        text = _linked(text, document, pages, folder)
        if page.startswith("metrics/"):
            text = _with_picture(text, idea_picture(document.parent.name))
        if page == "benchmarks/index":
            text += _list_of("Cards", _pages_in(pages, "benchmarks"))
        if page == "recipes/index":
            text += _list_of("Settings of each recipe", RECIPES)
        _write(folder / f"{page}.md", text)
    commands = command_pages()
    for name, text in commands.items():
        _write(folder / "commands" / f"{name}.md", text)
    for name in RECIPES:
        _write(folder / "recipes" / f"{name}.md", recipe_page(name))
    _write(folder / "commands" / "index.md", "# Commands\n" + _list_of("", commands))
    _write(folder / "metrics" / "index.md", "# Metrics\n" + _list_of("", _pages_in(pages, "metrics")))
    _write(folder / "python.md", python_page())
    _write(folder / "index.md", _index(pages))


def _slugs(room: str) -> list[str]:
    return sorted(path.parent.name for path in (ROOT / room).glob("*/README.md"))


def _name(path: Path) -> str:
    name = path.parent.name if path.name == "README.md" else path.stem
    return name.lower()


def _pages_in(pages: dict[Path, str], part: str) -> list[str]:
    found = [page.partition("/")[2] for page in pages.values() if page.startswith(f"{part}/")]
    return [name for name in found if name != "index"]


def _index(pages: dict[Path, str]) -> str:
    parts = [
        f"# capscore {capscore.__version__}\n\nAutomatic evaluation of image captions, in every language. "
        "Each page is written for somebody who wants one thing; "
        f"[the first score]({pages[Path('docs/first-score.md')]}.md) takes five minutes.\n"
    ]
    for title, names in _GUIDES.items():
        parts.append(_list_of(title, [pages[Path(name)] for name in names], caption=True))
        if title == "Start":
            rooms = ["metrics/index", "benchmarks/index", "recipes/index", "commands/index", "python"]
            parts.append(_list_of("Reference", rooms, caption=True))
    return "\n".join(parts)


def _list_of(title: str, names: object, *, caption: bool = False) -> str:
    """A list of pages, which is also in the menu at the side."""
    heading = f"\n## {title}\n" if title and not caption else ""
    option = f":caption: {title}\n" if caption else ""
    listed = "\n".join(str(name) for name in names)  # type: ignore[attr-defined]
    return f"{heading}\n```{{toctree}}\n:maxdepth: 1\n{option}\n{listed}\n```\n"


def _linked(text: str, document: Path, pages: dict[Path, str], folder: Path) -> str:
    """Links of a document as they have to be on its page; its pictures are copied."""
    here = (folder / pages[document]).parent

    def link(match: re.Match[str]) -> str:
        words, target, anchor = match[1], match[2], match[3] or ""
        if not target:
            return match[0]
        place = Path(os.path.normpath(document.parent / target))
        page = pages.get(place) or pages.get(place / "README.md")
        if page is None:  # a file that is no page
            return words
        return f"[{words}]({os.path.relpath(folder / page, here)}.md{anchor})"

    def image(match: re.Match[str]) -> str:
        place = ROOT / document.parent / match[2]
        here.mkdir(parents=True, exist_ok=True)
        shutil.copy(place, here / place.name)
        return f"![{match[1]}]({place.name})"

    # code stays as it is
    parts = re.split(r"(^```.*?^```$)", text, flags=re.DOTALL | re.MULTILINE)
    return "".join(
        part if part.startswith("```") else _IMAGE.sub(image, _LINK.sub(link, part)) for part in parts
    )


def _with_picture(text: str, picture: str) -> str:
    """The picture below the first heading."""
    heading, _, rest = text.lstrip().partition("\n")
    return f"{heading}\n\n```{{raw}} html\n{picture}\n```\n{rest}"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
