"""The backbones that are known by name: where they are, at which revision, and what is published of them.

In: a name. Out: a `Known` entry read from registry.json.
"""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Known:
    """One entry of the registry.

    Attributes:
        name: what `capscore.load(backbone=…)` takes.
        kind: "embedded", "open_clip", "transformers", "multilingual_clip", "sentence_transformers", or
            "tuned" for fine-tuned weights that ship with capscore.
        model: open_clip architecture, or the Hub id of the weights; of a tuned one a folder of this package.
        pretrained: open_clip tag; "" elsewhere.
        revision: commit on the Hub, or "" where none is pinned (then `main`; the signature names it).
        image_tower: name of the backbone whose image tower goes with this text tower; "" if it has its own.
        prefix: text before candidates and references.
        languages: primary subtags; () means not stated by its makers.
        dim: embedding length.
        base: of a tuned one the name of the backbone that it was fine-tuned from; "" elsewhere.
        tuned: names of its fine-tuned companions, {metric: name}.
        aliases: other names it answers to.
        agreement: published agreement in percent, {benchmark: {coefficient: value}}, 004 Table 1.
        note: what a user should know before choosing it.
    """

    name: str
    kind: str
    model: str
    pretrained: str = ""
    revision: str = ""
    image_tower: str = ""
    prefix: str = ""
    languages: tuple[str, ...] = ()
    dim: int = 0
    base: str = ""
    tuned: dict[str, str] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    agreement: dict[str, dict[str, float]] = field(default_factory=dict)
    note: str = ""


@cache
def registry() -> dict[str, Known]:
    """Every known backbone by name, in the order of the file.

    >>> registry()["embedded"].dim
    512
    """
    raw = json.loads(files(__package__).joinpath("registry.json").read_text(encoding="utf-8"))
    entries = {}
    for row in raw["backbones"]:
        row = {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
        entries[row["name"]] = Known(**row)
    return entries


def find(name: str) -> Known | None:
    """The entry that answers to a name or alias, or None."""
    for known in registry().values():
        if name == known.name or name in known.aliases:
            return known
    return None


def suggest(name: str) -> list[str]:
    """Known names that look like a name nobody knows, nearest first."""
    names = {alias: known.name for known in registry().values() for alias in (known.name, *known.aliases)}
    folded = {alias.lower(): target for alias, target in names.items()}
    close = difflib.get_close_matches(name.lower(), folded, n=3, cutoff=0.5)
    return list(dict.fromkeys(folded[match] for match in close))
