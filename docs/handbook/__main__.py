"""Builds the handbook: `python -m docs.handbook --output build/handbook`. Every warning is an error."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import tempfile
from collections.abc import Collection, Iterable
from pathlib import Path

from sphinx.cmd.build import build_main

import capscore

from .made_pages import RECIPES, command_pages, idea_picture, recipe_page

ROOT = Path(__file__).resolve().parents[2]
# title of each part of the menu → its pages, which are documents of the repository
GUIDES = {
    "Start": ["docs/first-score", "docs/which-metric", "docs/scoring", "docs/scores", "docs/alt-texts"],
    "Reference": [
        "metrics",
        *("docs/benchmarking", "docs/reproduced"),
        "benchmarks",
        "commands",
        "docs/training",
        "recipes",
        "python",
    ],
    "Backbones and languages": ["docs/backbones", "docs/which-backbone", "docs/my-language"],
    "Going deeper": [
        *(
            "docs/robustness",
            "docs/infometic",
            "docs/made-up-objects",
            "docs/judge",
            "docs/learned-metrics",
            "docs/translation",
            "docs/scale",
        ),
        *("docs/integrations", "docs/limits", "docs/dependencies", "docs/why-packages-disagree"),
    ],
    "Contribute": [
        *("docs/extending", "docs/publishing", "CONTRIBUTING", "SECURITY", "CHANGELOG", "weights/README"),
    ],
}
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|mailto:)([^)\s#]+)(#[^)\s]*)?\)")


def documents() -> list[Path]:
    """Documents of the repository that are pages, relative to its root."""
    guides = [Path(f"{page}.md") for pages in GUIDES.values() for page in pages]
    cards = [
        path for folder in ("metrics", "datasets_scripts") for path in ROOT.glob(f"{folder}/*/README.md")
    ]
    return [path for path in guides if (ROOT / path).is_file()] + [
        path.relative_to(ROOT) for path in sorted(cards)
    ]


def write_sources(folder: Path) -> None:
    """Write what Sphinx reads into a folder: documents where they are in the repository, and made pages."""
    pages = documents()
    for path in pages:
        _write(folder / path, _linked((ROOT / path).read_text(encoding="utf-8"), path, pages))
    shutil.copy(Path(__file__).with_name("python.md"), folder)
    commands = command_pages()
    made = {f"commands/{name}": text for name, text in commands.items()}
    made |= {f"recipes/{name}": recipe_page(name) for name in RECIPES}
    for page, text in made.items():
        _write(folder / f"{page}.md", text)
    metrics = [path for path in pages if path.parts[0] == "metrics"]
    ideas = "\n".join(
        f"## [{path.parent.name}]({path})\n\n```{{raw}} html\n{idea_picture(path.parent.name)}\n```\n"
        for path in metrics
    )
    lists = {
        "metrics": (f"# Metrics\n\n{ideas}", [path.with_suffix("") for path in metrics]),
        "benchmarks": (
            "# Benchmarks\n",
            [p.with_suffix("") for p in pages if p.parts[0] == "datasets_scripts"],
        ),
        "commands": ("# Commands\n", [f"commands/{name}" for name in commands]),
        "recipes": ("# Recipes\n", [f"recipes/{name}" for name in RECIPES]),
    }
    for name, (text, listed) in lists.items():
        _write(folder / f"{name}.md", text + _toctree(listed))
    shutil.copy(ROOT / "docs" / "scored_photo.jpg", folder / "docs")
    home = Path(__file__).with_name("home.md").read_text(encoding="utf-8")
    about = home.replace("VERSION", capscore.__version__).replace("](../", "](docs/")
    menu = [_toctree(names, f":caption: {title}\n") for title, names in GUIDES.items()]
    _write(folder / "index.md", about + "".join(menu))


def _toctree(pages: Iterable[object], caption: str = "") -> str:
    return f"\n```{{toctree}}\n:maxdepth: 1\n{caption}\n" + "".join(f"{page}\n" for page in pages) + "```\n"


def _linked(text: str, document: Path, pages: Collection[Path]) -> str:
    """A document whose links to files that are no pages are text, and those to folders lead to their card."""

    def link(match: re.Match[str]) -> str:
        target = Path(os.path.normpath(document.parent / match[2]))
        if target in pages:
            return match[0]
        card = target / "README.md"
        return f"[{match[1]}]({match[2]}/README.md{match[3] or ''})" if card in pages else match[1]

    parts = re.split(r"(^```.*?^```$)", text, flags=re.DOTALL | re.MULTILINE)  # code stays as it is
    return "".join(part if part.startswith("```") else _LINK.sub(link, part) for part in parts)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def build(output: Path) -> int:
    """Write the site into a folder; what was there before is replaced once the new one is whole.

    Args:
        output: Folder of the site.

    Returns:
        Sphinx's exit code; with another one than 0, the old site stays.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, built = Path(folder, "source"), Path(folder, "html")
        source.mkdir()
        write_sources(source)
        settings = str(Path(__file__).parent)
        code = build_main(["-b", "html", "-c", settings, "-W", "--keep-going", "-q", str(source), str(built)])
        if code == 0:
            shutil.rmtree(built / ".doctrees", ignore_errors=True)
            shutil.rmtree(output, ignore_errors=True)
            shutil.copytree(built, output)
    return code


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("build/handbook"), help="folder of the site")
    output = parser.parse_args().output
    code = build(output)
    if code == 0:
        print(f"open {output / 'index.html'}")
    return code


if __name__ == "__main__":
    raise SystemExit(main())
