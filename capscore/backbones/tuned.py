"""Loads fine-tuned towers, stored as the difference from the backbone that training started from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch

from ..errors import BackboneUnavailable, CapscoreError
from ..text.languages import language_code
from . import checkpoint
from .base import Backbone, BackboneOptions, fingerprint_of, tensors_digest
from .text_towers import PairedBackbone

MARKER, WEIGHTS = checkpoint.TUNED_FILES
FORMAT = 1
Towers = Literal["text", "both"]
# Fields of the marker and their types.
_FIELDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("base", "base_revision", "base_tokens", "image_tower"), (str,)),
    **dict.fromkeys(("prefix", "recipe"), (str,)),
    "base_text": (dict,),
    "parts": (dict, type(None)),
    "languages": (list, type(None)),
}
# Ordinary captions in several scripts, whose ids change with the vocabulary and the cleaning of texts.
_PROBES = (
    "Two dogs run along the beach, and a man in a red coat watches them.",
    "Ein Mädchen hält 3 große Luftballons.",
    "Un garçon joue au football dans le parc.",
    "Женщина читает книгу на скамейке.",
    "犬が海辺を走っています。",
    "一个男孩在公园里踢足球",
    "رجل يركب دراجة",
    "강아지가 공을 물고 있다.",
)


def load_folder(folder: Path, options: BackboneOptions) -> Backbone:
    """Load a fine-tuned tower from a folder of `save_tuned`: its base with the folder's tensors in place.

    Prefix and languages that the options leave out come from the folder. Code that comes with the base does
    not run, since it is the folder that names the base.
    """
    from . import load_backbone  # which imports this module when a fine-tuned tower is loaded

    marker, state = read_tuned(folder)
    base_name, tower = marker["base"], options.image_tower or marker["image_tower"] or None
    if Path(base_name).absolute() == folder.absolute():
        raise BackboneUnavailable(f"{folder / MARKER} says that {folder} was fine-tuned from itself")
    try:
        base = load_backbone(base_name, device=options.device, dtype=options.dtype, image_tower=tower)
    except BackboneUnavailable as error:
        raise BackboneUnavailable(f"{folder} was fine-tuned from {base_name}: ", *error.parts) from error
    found = tensors_digest(checkpoint.without_rebuilt(network_of(base, marker["towers"]).state_dict()))
    if found != marker["base_text"].get(base.dtype) or tokens_digest(base) != marker["base_tokens"]:
        raise BackboneUnavailable(
            f"{folder} was fine-tuned from {base_name} @ {marker['base_revision']}, but that is now "
            f"@ {base.revision}, with another text network or tokenizer"
        )
    _put_in(folder, base, marker, state)
    own = fingerprint_of(base.revision, marker["weights"], json.dumps(marker["parts"], sort_keys=True))
    name = options.name
    if isinstance(base, PairedBackbone) and options.image_tower not in (None, "", marker["image_tower"]):
        if marker["image_tower"] or not base.as_made:  # another image tower than in training
            name = f"{name}+{base.image_name}"
    tuned = base.remade(name=name, revision=options.revision or f"w{own[:8]}")
    tuned.prefix, tuned.languages = options.prefix or marker["prefix"], options.languages
    if tuned.languages is None and marker["languages"] is not None:
        tuned.languages = frozenset(map(language_code, marker["languages"]))
    tuned.recipe, tuned.rated_from = marker["recipe"], marker["rated_from"]
    tuned.tuned_from = base.tuned_from or base_name
    return tuned


def read_tuned(folder: str | Path) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """What `save_tuned` wrote to a folder: the content of its marker, and the tensors that differ."""
    marker, state = checkpoint.read_checkpoint(Path(folder), MARKER, FORMAT, _FIELDS)
    marker = {"towers": "text", "rated_from": ""} | marker
    if marker["towers"] not in ("text", "both") or not isinstance(marker["rated_from"], str):
        raise BackboneUnavailable(f"{Path(folder) / MARKER}: 'towers' or 'rated_from' is damaged")
    return marker, state


def network_of(backbone: Backbone, towers: str) -> torch.nn.Module:
    return backbone.text_network() if towers == "text" else backbone.network()


def cast(tensors: Mapping[str, torch.Tensor], dtype: torch.dtype) -> dict[str, torch.Tensor]:
    return {
        name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in tensors.items()
    }


def tokens_digest(backbone: Backbone) -> str:
    return fingerprint_of(backbone.tokenize(_PROBES).ids)


def _put_in(folder: Path, base: Backbone, marker: Mapping[str, Any], state: dict[str, torch.Tensor]) -> None:
    had = network_of(base, marker["towers"]).state_dict().keys()
    if marker["parts"] is not None:
        try:
            base.add_network_parts(marker["parts"])
        except CapscoreError as error:
            place = f"the parts of the text network in {folder / MARKER}: "
            raise BackboneUnavailable(place, *error.parts) from None
    network = network_of(base, marker["towers"])
    expected = checkpoint.without_rebuilt(network.state_dict())
    checkpoint.refuse_misfit(
        folder,
        missing=(name for name in expected if name not in had and name not in state),
        unexpected=(name for name in state if name not in expected),
        mismatched=(name for name in state if name in expected and state[name].shape != expected[name].shape),
    )
    network.load_state_dict(cast(state, torch.float32), strict=False)
