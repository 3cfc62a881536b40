"""What a model card says of its training: its data, what was held out, its own limitations, and its time.

In: the text of a README.md that `training.engine.model_card` wrote. Out: the parts of a `ModelCard` that no
other file beside the weights has.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from capscore.errors import InputError
from training.data.origin import DataSource
from training.engine.model_card import CARD

_CELLS = re.compile(r"(?<!\\)\|")
_COMMAND = re.compile(r"```bash\n(.*?)\n```", re.DOTALL)
_LINK = re.compile(r"\[(.*)\]\((\S*)\)")


@dataclass(frozen=True)
class Origins:
    """What a card says of its training.

    Attributes:
        data: Data sets that contributed to the weights.
        held_out: What was held out; "" if that was not recorded.
        limitations: All limitations on the card, those of its recipe among them.
        compute: Machine and time; "" if not recorded.
        command: Command that trains the weights again; "" without any.
    """

    data: list[DataSource]
    held_out: str
    limitations: list[str]
    compute: str
    command: str


def read_origins(folder: str | Path) -> Origins:
    """The origins of the weights in a folder, from their card.

    Raises:
        InputError: there is no card, or it has no table of training data.
    """
    path, text = _read(folder)
    lines = _section(text, "Training data")
    rows = [_cells(line) for line in lines if line.startswith("| ")][2:]
    if not rows or any(len(row) != 4 for row in rows):
        raise InputError(
            f"{path} has no table of the training data: expected a card as training.pr_mcs writes it",
            field="tower",
        )
    held_out = [line.removeprefix("Held out: ") for line in lines if line.startswith("Held out: ")]
    times = [line for line in _section(text, "Training") if line.startswith("Machine and time: ")]
    compute = times[0].removeprefix("Machine and time: ").removesuffix(".") if times else ""
    limits = _section(text, "Limitations and bias")
    command = _COMMAND.search("\n".join(_section(text, "Training")))
    return Origins(
        data=[_source(*row) for row in rows],
        held_out=held_out[0] if held_out else "",
        limitations=[line.removeprefix("- ") for line in limits if line.startswith("- ")],
        compute="" if compute == "not recorded" else compute,
        command=command[1] if command else "",
    )


def read_front_matter(folder: str | Path) -> dict[str, Any]:
    """What the card of the weights in a folder says to the Hub.

    Raises:
        InputError: there is no card, or it has no front matter.
    """
    path, text = _read(folder)
    try:
        _, front, _ = text.split("---\n", 2)
        found = yaml.safe_load(front)
        if not isinstance(found, dict):
            raise ValueError(f"it is {found!r:.40}")
    except (ValueError, yaml.YAMLError) as error:
        raise InputError(f"{path} has no front matter: {error}", field="tower") from None
    return found


def _read(folder: str | Path) -> tuple[Path, str]:
    path = Path(folder) / CARD
    try:
        return path, path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} cannot be read ({type(error).__name__}): expected the card of the weights", field="tower"
        ) from None


def _section(text: str, heading: str) -> list[str]:
    """The lines under a heading, up to the next one."""
    _, _, rest = text.partition(f"\n## {heading}\n")
    return rest.partition("\n## ")[0].splitlines()


def _cells(line: str) -> list[str]:
    return [cell.strip().replace(r"\|", "|") for cell in _CELLS.split(line)[1:-1]]


def _source(name: str, licence: str, rows: str, used_for: str) -> DataSource:
    link = _LINK.fullmatch(name)
    count = rows.replace(",", "")
    return DataSource(
        name=link[1] if link else name,
        license=licence,
        rows=int(count) if count.isdecimal() else None,
        url=link[2] if link else "",
        used_for=used_for,
    )
