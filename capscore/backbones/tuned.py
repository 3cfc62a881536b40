"""Saves and loads fine-tuned towers as the difference from the backbone that training started from.

In: a trained backbone and its base, or the folder of saved towers. Out: a folder with the tensors that
differ from the base's, or a `Backbone`: the base with those tensors in place.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import torch

from ..errors import BackboneUnavailable, CapscoreError, Setting
from ..text.languages import language_code
from . import checkpoint, find
from .base import DTYPES, Backbone, BackboneOptions, fingerprint_of, resolve_dtype, tensors_digest
from .text_towers import PairedBackbone

MARKER, WEIGHTS = checkpoint.TUNED_FILES
_FORMAT = 1
Towers = Literal["text", "both"]
# Fields of the marker and their types.
_FIELDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("base", "base_revision", "base_tokens", "image_tower"), (str,)),
    **dict.fromkeys(("prefix", "recipe"), (str,)),
    "base_text": (dict,),
    "parts": (dict, type(None)),
    "languages": (list, type(None)),
}
_COMMIT = re.compile(r"[0-9a-f]{40}")
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


def save_tuned(
    backbone: Backbone,
    folder: str | Path,
    *,
    base: Backbone,
    base_spec: str,
    recipe: str,
    languages: Iterable[str] | None = None,
    notes: Mapping[str, Any] | None = None,
    dtype: str = "float32",
    towers: Towers = "text",
    rated_from: str = "",
) -> None:
    """Write what fine-tuning changed to a folder that `load_backbone` reads.

    The folder holds model.safetensors with the tensors that differ from the base's, and capscore_tuned.json,
    which comes last. Other files stay.

    Args:
        backbone: Trained backbone, in float32.
        folder: Folder to write, created if needed; refused if it holds another model's weights.
        base: Backbone that the training started from, in float32 and unchanged since it was loaded.
        base_spec: Spec of the base for `load_backbone`. A commit is pinned if the base came from the Hub; the
            path of a folder is stored as an absolute one.
        recipe: Recipe of the training, such as "pr_mcs", for the record.
        languages: Language codes that it was trained on; None for the backbone's.
        notes: Anything else worth recording, ready for JSON.
        dtype: "float32", or "float16" for half the size and embeddings that differ by about 1e-3.
        towers: Network that was trained: "text", `Backbone.text_network`, or "both", `Backbone.network`.
        rated_from: As `Backbone.rated_from`.

    Raises:
        CapscoreError: the two backbones do not go together, nothing was trained, a weight is not finite, or
            the folder holds another model.
        ResultWriteError: the folder could not be written.
    """
    folder, stored = Path(folder), resolve_dtype(dtype)
    if stored == "bfloat16":
        raise CapscoreError(Setting("dtype", dtype), ": weights are stored as float32 or float16")
    parts = _check_pair(backbone, base, towers)
    before, after = (
        checkpoint.without_rebuilt(_network(model, towers).state_dict()) for model in (base, backbone)
    )
    tensors = _changed(before, after, getattr(torch, stored), grown=parts is not None)
    base_spec, commit = _absolute(os.fspath(base_spec).strip()), base.revision.partition("+")[0]
    if not base_spec or base_spec == _absolute(str(folder)):
        raise CapscoreError(Setting("base_spec", base_spec), ": expected another backbone, or another folder")
    if _COMMIT.fullmatch(commit) and "@" not in base_spec and not os.path.isabs(base_spec):
        base_spec = f"{base_spec}@{commit}"  # the text tower came from the Hub
    languages = backbone.languages if languages is None else frozenset(map(language_code, languages))
    image_tower = base.image_tower if isinstance(base, PairedBackbone) else ""
    marker = {
        "format": _FORMAT,
        "base": base_spec,
        "base_revision": base.revision,
        # A tower is cast when it is loaded, so there is a digest to check for every dtype.
        "base_text": {name: tensors_digest(_cast(before, getattr(torch, name))) for name in DTYPES},
        "base_tokens": _tokens_digest(base),
        "image_tower": _absolute(image_tower),
        "parts": parts,
        "prefix": backbone.prefix,
        "languages": None if languages is None else sorted(languages),
        "weights": "",
        "recipe": recipe,
        **({"towers": towers} if towers != "text" else {}),
        **({"rated_from": rated_from} if rated_from else {}),
        "notes": dict(notes or {}),
    }
    checkpoint.refuse_other_models(folder, "tuned")
    checkpoint.write_checkpoint(folder, MARKER, marker, tensors, "the fine-tuned tower")


def load_folder(folder: Path, options: BackboneOptions) -> Backbone:
    """Load a fine-tuned tower from a folder of `save_tuned`: its base with the folder's tensors in place.

    Prefix and languages that the options leave out come from the folder. Code that comes with the base does
    not run, since it is the folder that names the base.

    Raises:
        BackboneUnavailable: the base is not available or another one, or a file or tensor does not fit.
    """
    from .loading import load_backbone  # which imports this module when a fine-tuned tower is loaded

    marker, state = read_tuned(folder)
    base_name, tower = marker["base"], options.image_tower or marker["image_tower"] or None
    if Path(base_name).absolute() == folder.absolute():
        raise BackboneUnavailable(f"{folder / MARKER} says that {folder} was fine-tuned from itself")
    try:
        base = load_backbone(base_name, device=options.device, dtype=options.dtype, image_tower=tower)
    except BackboneUnavailable as error:
        raise BackboneUnavailable(f"{folder} was fine-tuned from {base_name}: ", *error.parts) from error
    found = tensors_digest(checkpoint.without_rebuilt(_network(base, marker["towers"]).state_dict()))
    if found != marker["base_text"].get(base.dtype) or _tokens_digest(base) != marker["base_tokens"]:
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
    return tuned


def read_tuned(folder: str | Path) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """What `save_tuned` wrote to a folder: the content of its marker, and the tensors that differ."""
    marker, state = checkpoint.read_checkpoint(Path(folder), MARKER, _FORMAT, _FIELDS)
    marker = {"towers": "text", "rated_from": ""} | marker
    if marker["towers"] not in ("text", "both") or not isinstance(marker["rated_from"], str):
        raise BackboneUnavailable(f"{Path(folder) / MARKER}: 'towers' or 'rated_from' is damaged")
    return marker, state


def _network(backbone: Backbone, towers: str) -> torch.nn.Module:
    return backbone.text_network() if towers == "text" else backbone.network()


def _check_pair(backbone: Backbone, base: Backbone, towers: Towers) -> dict[str, Any] | None:
    """Parts, ready for JSON, to add to the base before the tensors are put in; None if it has them all."""
    own, others = ({t.data_ptr() for t in _network(b, towers).parameters()} for b in (backbone, base))
    parts, had = (getattr(model.text_network(), "parts", None) for model in (backbone, base))
    if type(backbone) is not type(base) or {backbone.dtype, base.dtype} != {"float32"}:
        problem = "a backbone and its base are of one kind, both in float32"
    elif own & others:
        problem = "backbone and base share their network"
    elif base.remade().fingerprint != base.fingerprint:
        problem = "the base has changed since it was loaded"
    elif _tokens_digest(backbone) != _tokens_digest(base):
        problem = "the backbone splits texts into other tokens than its base"
    elif parts != had and (parts is None or had is not None or towers == "both"):
        problem = f"the backbone has the parts {parts!r}, but its base has {had!r}"
    else:
        return None if parts == had else parts
    raise CapscoreError(f"{problem}: load the base {base.name!r} again, as the training started from it")


def _changed(
    before: Mapping[str, torch.Tensor], after: Mapping[str, torch.Tensor], dtype: torch.dtype, *, grown: bool
) -> dict[str, torch.Tensor]:
    """The tensors that training changed or added, as they are stored."""
    misfits = [name for name in before if name not in after or after[name].shape != before[name].shape]
    misfits += [name for name in after if name not in before and not grown]
    if misfits:
        raise CapscoreError(f"the network is not that of the base: {', '.join(sorted(misfits)[:3])} differ")
    changed = {
        name: tensor.detach().cpu()
        for name, tensor in after.items()
        if name not in before or not torch.equal(tensor.cpu(), before[name].cpu())
    }
    if not changed:
        raise CapscoreError("nothing was trained: every weight equals the base's")
    return _cast(changed, dtype)


def _cast(tensors: Mapping[str, torch.Tensor], dtype: torch.dtype) -> dict[str, torch.Tensor]:
    return {
        name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in tensors.items()
    }


def _absolute(spec: str) -> str:
    """A spec as the marker stores it: the path of a folder becomes absolute."""
    path = Path(os.path.expanduser(spec))
    return str(path.resolve()) if spec and find(spec) is None and path.is_dir() else spec


def _tokens_digest(backbone: Backbone) -> str:
    return fingerprint_of(backbone.tokenize(_PROBES).ids)


def _put_in(folder: Path, base: Backbone, marker: Mapping[str, Any], state: dict[str, torch.Tensor]) -> None:
    had = _network(base, marker["towers"]).state_dict().keys()
    if marker["parts"] is not None:
        with checkpoint.refusing(f"the parts of the text network in {folder / MARKER}"):
            base.add_network_parts(marker["parts"])  # type: ignore[attr-defined]
    network = _network(base, marker["towers"])
    expected = checkpoint.without_rebuilt(network.state_dict())
    checkpoint.refuse_misfit(
        folder,
        missing=(name for name in expected if name not in had and name not in state),
        unexpected=(name for name in state if name not in expected),
        mismatched=(name for name in state if name in expected and state[name].shape != expected[name].shape),
    )
    network.load_state_dict(_cast(state, torch.float32), strict=False)
