"""A backbone's name → what is known of it: location, revision and published figures."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from ..registry import BACKBONES


@dataclass(frozen=True)
class Known:
    """What is known of a backbone that has a name.

    Attributes:
        kind: "embedded", "open_clip", "transformers", "multilingual_clip", "sentence_transformers", "tuned"
            for installed weights that were fine-tuned from another entry, or "outside" for one from another
            package.
        model: open_clip architecture, or Hub id of the weights; for "embedded" and "tuned" its own name.
        weights: Folder that it needs of the distribution capscore-weights; "" for none.
        pretrained: open_clip tag; "" for other kinds.
        revision: Commit on the Hub; "" if none is pinned (`main` is used, and the signature names it).
        image_tower: Backbone that lends this text tower its image tower; "" if it has its own.
        prefix: Text put before candidates and references.
        languages: Primary subtags; () if its makers do not state them.
        base: Backbone that a "tuned" one was fine-tuned from; "" for other kinds.
        tuned: Backbones with weights for a metric that it has none for itself, {metric: name}.
        agreement: Published agreement in percent, {benchmark: {coefficient: value}} (Gomes et al. 2025).
        licence: SPDX id of the licence of its weights; "" if unknown.
        parameters, context: Numbers of weights of both towers, and of tokens of a text; 0 if unknown.
        text_case: "kept" or "lower", whether capitals reach the text tower; "" if unknown.
        retrieval: Published recall@1 on Crossmodal-3600 in percent, the mean over its 36 languages, as
            {"text_to_image", "image_to_text", "source"}. Sources differ in what they search.
        note: Advice for choosing it.
        load: Function `(*, device, dtype)` that loads one from another package.
    """

    name: str
    kind: str
    model: str
    weights: str = ""
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
    licence: str = ""
    parameters: int = 0
    context: int = 0
    text_case: str = ""
    retrieval: dict[str, Any] = field(default_factory=dict)
    note: str = ""
    load: Callable[..., Any] | None = None


@cache
def registry() -> dict[str, Known]:
    """All backbones of registry.json by name, in the order of the file."""
    raw = json.loads(files(__package__).joinpath("registry.json").read_text(encoding="utf-8"))
    entries = {}
    for row in raw["backbones"]:
        row = {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
        entries[row["name"]] = Known(**row)
    return entries


def spellings() -> dict[str, str]:
    """{name or alias: name} of all entries of registry.json; see `capscore.registry.Registry`."""
    found = {name: name for name in registry()}
    for known in registry().values():
        found |= dict.fromkeys(known.aliases, known.name)
    return found


def known_backbone(name: str) -> Known:
    """The entry of registry.json with a name."""
    return registry()[name]


def find(name: str) -> Known | None:
    """The backbone with a name or alias, or None."""
    entry = BACKBONES.find(name)
    if entry is None or isinstance(entry, Known):
        return entry
    return Known(name, "outside", name, load=entry)
