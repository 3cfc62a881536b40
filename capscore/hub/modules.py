"""A metric's module → the files of its Space: code, card, demo, and what to install."""

from __future__ import annotations

import re
from pathlib import Path

from ..errors import CapscoreError, InputError, Setting
from ..files.shipped import module_folder
from .installation import Installation
from .plan import CARD, METRIC, SPACE, Plan, PublishedFile, check_size, made, read_card

_REQUIREMENTS = "requirements.txt"
# What the Hub needs of a Space's card, and evaluate's pages show.
_FRONT_MATTER = (
    "title",
    "emoji",
    "colorFrom",
    "colorTo",
    "sdk",
    "sdk_version",
    "app_file",
    "tags",
    "description",
)


def plan_metric(
    name: str, repo_id: str, installation: Installation, *, endpoint: str, backbone: str = ""
) -> Plan:
    """List what to publish of a metric, with the lines of requirements.txt for this Space.

    Args:
        name: Name of the metric, such as "mcs".
        repo_id: "org/name" of the Space. `evaluate.load` wants the name to be that of the metric.
        installation: How the Space installs the library.
        endpoint: Address of the Hub.
        backbone: Default backbone of the published module, "org/name@revision"; "" for the metric's own.

    Raises:
        CapscoreError: there is no such metric, or its card lacks something.
        InputError: the Space has another name than the metric, or a Hub id comes without a revision.
    """
    folder = Path(module_folder(name))
    if repo_id.partition("/")[2] != name:
        raise InputError(
            Setting("name", repo_id),
            f": evaluate looks for the file {name}.py in a Space of that name; expected …/{name}",
        )
    if backbone and "/" in backbone and "@" not in backbone:
        raise InputError(
            Setting("backbone", backbone),
            f": a default names its revision, as in {backbone}@main or a commit",
        )
    card = (folder / CARD).read_text(encoding="utf-8")
    _check_card(card, folder / CARD)
    asked = (folder / _REQUIREMENTS).read_text(encoding="utf-8")
    files_at = f"{endpoint}/spaces/{repo_id}/resolve/main"
    changed = {
        CARD: _card_of_space(card, name, repo_id),
        _REQUIREMENTS: installation.requirements(asked, files_at),
        f"{name}.py": _module_with_default((folder / f"{name}.py").read_text(encoding="utf-8"), backbone),
    }
    files = [
        made(path.name, changed[path.name], path)
        if path.name in changed
        else PublishedFile(path.name, path, path.stat().st_size)
        for path in sorted(folder.iterdir())
        if path.is_file() and not path.name.startswith(".")
    ]
    needed = installation.distributions(asked)
    wheels = [wheel for wanted, wheel in installation.wheels.items() if wanted in needed]
    files += [PublishedFile(wheel.name, wheel, wheel.stat().st_size) for wheel in wheels]
    check_size(files)
    notes = [f"{wheel.name} goes into the Space, where anybody can download it" for wheel in wheels]
    how = "evaluate.load('{repo}', revision='{commit}')"
    return Plan(folder, METRIC, tuple(files), (), tuple(notes), repo_type=SPACE, name=name, how=how)


def _check_card(text: str, path: Path) -> None:
    from huggingface_hub import SpaceCard

    data = read_card(text, SpaceCard, path)
    missing = [name for name in _FRONT_MATTER if not data.get(name)]
    if missing:
        raise CapscoreError(f"the front matter of {path} says no {', '.join(missing)}")


def _card_of_space(card: str, name: str, repo_id: str) -> str:
    """The card, whose examples load the module from its Space."""

    def renamed(block: re.Match[str]) -> str:
        return block[0].replace(f'evaluate.load("metrics/{name}"', f'evaluate.load("{repo_id}"')

    return re.sub(r"^```python\n.*?^```$", renamed, card, flags=re.DOTALL | re.MULTILINE)


def _module_with_default(code: str, backbone: str) -> str:
    """The module's code, with a default backbone as an attribute of its class."""
    if not backbone:
        return code
    found = re.subn(
        r'^(    metric = "\w+")$', lambda line: f"{line[1]}\n    backbone = {backbone!r}", code, flags=re.M
    )
    assert found[1] == 1, "a module names its metric once"
    return found[0]
