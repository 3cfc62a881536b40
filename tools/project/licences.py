"""Every file that names a licence says the same, and what is not free is in a package of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement

import capscore
from capscore.backbones import find, registry
from capscore.infometic.network import INSTALLED
from capscore.metrics.loading import default_backbone
from capscore.registry import METRICS

from .source import ROOT, named

WEIGHTS = ROOT / "weights"
FREE, NOT_FREE = "Apache-2.0", "CC-BY-NC-4.0"
# folder of a package → its licence, and a line of that licence's text
PACKAGES = {
    ROOT: (FREE, "Version 2.0, January 2004"),
    WEIGHTS: (NOT_FREE, "Creative Commons Attribution-NonCommercial 4.0 International"),
}
FOLDERS = sorted(path.parent for path in WEIGHTS.glob("capscore_weights/*/README.md"))
PAGES = ("README.md", "docs/backbones.md", "docs/infometic.md", "docs/training.md")
OF_A_SPACE = (
    "(https://creativecommons.org/licenses/by-nc/4.0/)",
    "of this Space and of the library, is under Apache-2.0",
    "the Space as a whole is not for commercial use",
)


def packages() -> list[str]:
    """What the two packages state, the texts of their licences, and the version that is cited."""
    wrong = []
    for folder, (licence, line) in PACKAGES.items():
        project = _text(folder / "pyproject.toml")
        wrong += _unlike(folder / "pyproject.toml", _values("license", project), [f'"{licence}"'])
        wrong += _unlike(folder / "pyproject.toml", _values("license-files", project), ['["LICENSE"]'])
        if "License ::" in project:
            wrong.append(f"{folder}: PyPI refuses a classifier besides the SPDX expression")
        text = _text(folder / "LICENSE")
        if not re.search(rf"^ *{re.escape(line)}$", text, re.M) or len(text) < 10_000:
            wrong.append(f"{folder / 'LICENSE'}: is not the whole text of {licence}")
    cited = yaml.safe_load(_text(ROOT / "CITATION.cff"))
    return wrong + _unlike(ROOT / "CITATION.cff", cited["version"], capscore.__version__)


def weights() -> list[str]:
    """Cards and settings of the weights that ship, and of the recipes that write them."""
    wrong = []
    for folder in FOLDERS:
        card, stated = folder / "README.md", NOT_FREE.lower()
        wrong += _unlike(card, _front_matter(card)["license"], stated)
        wrong += _unlike(card, re.findall(r"^- \*\*Licence\*\*: (.*)$", _text(card), re.M), [stated])
        settings = folder / "settings.yaml"
        wrong += _unlike(settings, yaml.safe_load(_text(settings))["license"], stated)
    recipes = {*WEIGHTS.glob("making/configs/*.yaml")}
    # numbers of texts
    recipes.discard(WEIGHTS / "making" / "configs" / "captions.yaml")
    for recipe in sorted(recipes):
        wrong += _unlike(recipe, yaml.safe_load(_text(recipe))["license"], NOT_FREE.lower())
    return wrong + [f"{len(recipes)} recipes for {len(FOLDERS)} weights"] * (len(recipes) < len(FOLDERS))


def backbones() -> list[str]:
    """What needs capscore-weights is not free, and says so; the other embedded backbones are free."""
    wrong = []
    for known in registry().values():
        if known.weights or known.kind in ("embedded", "tuned"):
            wrong += _unlike(known.name, known.licence, NOT_FREE if known.weights else FREE)
        if known.weights not in ("", *(folder.name for folder in FOLDERS)):
            wrong.append(f"{known.name}: there are no weights {known.weights}")
    free = find("embedded-free")
    return wrong + _unlike("embedded-free", (free.licence, free.weights) if free else None, (FREE, ""))


def spaces() -> list[str]:
    """The card of a metric's Space states the licence of what it loads; its requirements bring that."""
    wrong = []
    for card in sorted(ROOT.glob("metrics/*/README.md")):
        not_free = _needs_weights(card.parent.name)
        if card.parent.name in ("infometic", "pr_mcs") and not not_free:
            wrong.append(f"{named(card)}: loads no weights")
        wrong += _unlike(card, _front_matter(card)["license"], (NOT_FREE if not_free else FREE).lower())
        lines = _text(card.parent / "requirements.txt").splitlines()
        required = [Requirement(line) for line in lines if not line.startswith("#")]
        names = {"capscore", "capscore-weights"} if not_free else {"capscore"}
        wrong += _unlike(card, {requirement.name for requirement in required}, names)
        if len({str(requirement.specifier) for requirement in required}) > 1:
            wrong.append(f"{named(card)}: requires two versions")
        text = " ".join(_text(card).split())
        wrong += [f"{named(card)}: lacks {part!r}" for part in OF_A_SPACE if not_free and part not in text]
    return wrong


def pages() -> list[str]:
    """The table of licences, and the pages that name the weights."""
    wrong = _unlike("docs/dependencies.md", dict(_rows_of_the_table()), {
        "capscore": (FREE, "../LICENSE", {"embedded-free"}),
        "capscore-weights": (
            NOT_FREE, "../weights/LICENSE", {known.name for known in registry().values() if known.weights}
        ),
    })  # fmt: skip
    for page in PAGES:
        text = _text(ROOT / page)
        names = ("capscore-weights", "CC BY-NC 4.0")
        wrong += [f"{page}: lacks {name}" for name in names if name not in text]
        if re.search(r"(weights|installed|ships?) with capscore\b(?!-)", text):
            wrong.append(f"{page}: says that the library brings weights")
    return wrong


def _rows_of_the_table() -> Iterator[tuple[str, tuple[str, str, set[str]]]]:
    """Package, its licence, the file that the licence links to, and the backbones of its row."""
    section = _text(ROOT / "docs" / "dependencies.md").partition("\n## Licences\n")[2].partition("\n## ")[0]
    for what, cell in re.findall(r"^\| (.*?) \| (.*?) \|$", section, re.M):
        names, licence = re.findall(r"`([^`]+)`", what), re.match(r"\[(.+?)\]\((.+?)\)", cell)
        if names and licence:
            known = {name for name in names if find(name) is not None}
            yield names[0], (licence[1].replace(" ", "-"), licence[2], known)


def _needs_weights(metric: str) -> bool:
    """Whether a metric loads weights that are not free where nothing else is asked for."""
    default = find(default_backbone(metric)) if METRICS.get(metric).default_backbone else None
    if default is None:
        return False
    return default.weights != "" or (metric == "infometic" and default.name in INSTALLED)


def _unlike(where: Path | str, found: Any, expected: Any) -> list[str]:
    """A line where what a file states is not what is expected."""
    return [] if found == expected else [f"{where}: {found!r}; expected {expected!r}"]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _values(name: str, project: str) -> list[str]:
    return re.findall(rf"^{name} = (.*)$", project, re.M)


def _front_matter(card: Path) -> dict[str, Any]:
    return yaml.safe_load(_text(card).split("---\n")[1])
