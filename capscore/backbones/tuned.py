"""Saves and loads fine-tuned towers as the difference from the backbone that training started from.

In: a trained backbone and its base, or the folder of saved towers. Out: a folder with the tensors that
differ from the base's, or a `Backbone`: the base with those tensors in place.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import save_file

from ..errors import BackboneUnavailable, CapscoreError, Setting
from ..text.languages import language_code
from . import find
from .base import DTYPES, Backbone, LoadOptions, fingerprint_of, first_line, resolve_dtype, tensors_digest
from .checkpoint import (
    CONFIGURATION,
    TUNED_FILES,
    folder_kind,
    in_one_line,
    needed_files,
    read_marker,
    read_state_dict,
    refuse_misfit,
    replacing_files,
    without_rebuilt,
)
from .text_towers import PairedBackbone

MARKER, WEIGHTS = TUNED_FILES
_SETTINGS = "text_tower"
_FORMAT = 1
Towers = Literal["text", "both"]
# Fields of the marker and their types.
_FIELDS: dict[str, tuple[type, ...]] = {
    "base": (str,),
    "base_revision": (str,),
    "base_text": (dict,),
    "base_tokens": (str,),
    "image_tower": (str,),
    "parts": (dict, type(None)),
    "prefix": (str,),
    "languages": (list, type(None)),
    "weights": (str,),
    "recipe": (str,),
    "notes": (dict,),
}
# Fields that a marker may lack.
_DEFAULTS = {"towers": "text", "rated_from": ""}
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
# Folders that are being loaded, to notice one that is its own base.
_loading: ContextVar[tuple[Path, ...]] = ContextVar("loading", default=())


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

    The folder holds capscore_tuned.json, which comes last, model.safetensors with the tensors that differ
    from the base's, and, for towers of transformers, the config and tokenizer in text_tower/ for information.
    Other files stay.

    Args:
        backbone: Trained backbone, in float32.
        folder: Folder to write, created if needed; refused if it holds another model's weights.
        base: Backbone that the training started from, in float32 and unchanged since it was loaded.
        base_spec: Spec of the base for `load_backbone`. A commit is pinned if the base came from the Hub. A
            relative path is stored relative to `folder`, so that both folders can move together.
        recipe: Recipe of the training, such as "pr_mcs", for the record.
        languages: Language codes that it was trained on; None for the backbone's.
        notes: Anything else worth recording, ready for JSON.
        dtype: "float32", or "float16" for half the size and embeddings that differ by about 1e-3.
        towers: Network that was trained: "text", `Backbone.text_network`, whose image tower must be the
            base's; or "both", `Backbone.network`.
        rated_from: As `Backbone.rated_from`.

    Raises:
        CapscoreError: the two backbones do not go together, nothing was trained, a weight is not finite, or
            the folder holds another model.
        InputError: an unknown language code.
        ResultWriteError: the folder could not be written.

    >>> import tempfile
    >>> from capscore import load_backbone
    >>> from capscore.backbones.tuned import save_tuned
    >>> base, student = (load_backbone("embedded", device="cpu") for _ in range(2))
    >>> optimizer = torch.optim.SGD(student.text_network().parameters(), lr=0.1)
    >>> first, second = student.embed_tokens(student.tokenize(["a cat", "a dog"]).ids)
    >>> (first @ second).backward()
    >>> optimizer.step()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_tuned(student, folder, base=base, base_spec="embedded", recipe="one step apart")
    ...     tuned = load_backbone(folder, device="cpu")
    >>> tuned.fingerprint == student.remade().fingerprint != base.fingerprint
    True
    """
    folder = Path(folder)
    if resolve_dtype(dtype) == "bfloat16":
        raise CapscoreError(Setting("dtype", dtype), ": weights are stored as float32 or float16")
    _check_pair(backbone, base, towers)
    parts = _new_parts(backbone, base, towers)
    before, after = (without_rebuilt(_network(each, towers).state_dict()) for each in (base, backbone))
    tensors = _changed(before, after, base, getattr(torch, resolve_dtype(dtype)), grown=parts is not None)
    languages = backbone.languages if languages is None else frozenset(map(language_code, languages))
    image_tower = base.image_tower if isinstance(base, PairedBackbone) else ""
    marker = {
        "format": _FORMAT,
        "base": _portable(_pinned(base_spec, base.revision), folder),
        "base_revision": base.revision,
        # A tower is cast when it is loaded, so there is a digest to check for every dtype.
        "base_text": {name: tensors_digest(_cast(before, getattr(torch, name))) for name in DTYPES},
        "base_tokens": _tokens_digest(base),
        "image_tower": _portable(image_tower, folder) if image_tower else "",
        "parts": parts,
        "prefix": backbone.prefix,
        "languages": None if languages is None else sorted(languages),
        "weights": tensors_digest(tensors),
        "recipe": recipe,
        **({"towers": towers} if towers != "text" else {}),
        **({"rated_from": rated_from} if rated_from else {}),
        "notes": dict(notes or {}),
    }
    try:
        text = json.dumps(marker, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise CapscoreError(f"notes and parts must be ready for JSON: {in_one_line(error)}") from None
    _refuse_other_models(folder)
    with replacing_files(folder, MARKER, "the fine-tuned tower") as scratch:
        save_file(tensors, scratch / WEIGHTS, metadata={"format": "pt"})
        for part in backbone.text_settings():
            part.save_pretrained(scratch / _SETTINGS)
        (scratch / MARKER).write_text(text, encoding="utf-8")


def load_folder(folder: Path, options: LoadOptions) -> Backbone:
    """Load a fine-tuned text tower: its base with the folder's tensors in place.

    Args:
        folder: Folder from `save_tuned`. Its base is loaded by name, from the Hub, or from a folder.
        options: Device, dtype and image tower for the base, and its `load_backbone`; prefix and languages
            that are left out come from the folder. Code that comes with the base does not run, since it is
            the folder that names the base.

    Raises:
        BackboneUnavailable: a file is missing or damaged, the base is not available or not the one that the
            tower was fine-tuned from, or the tensors do not fit it.
        CapscoreError: an image tower that does not go with the base.
    """
    marker, state = read_tuned(folder)
    if folder.resolve() in _loading.get():
        raise BackboneUnavailable(f"{folder / MARKER} says that {folder} was fine-tuned from itself")
    token = _loading.set((*_loading.get(), folder.resolve()))
    try:
        base = _load_base(folder, marker, options)
    finally:
        _loading.reset(token)
    _put_in(folder, base, marker, state)
    languages = options.languages
    if languages is None and marker["languages"] is not None:
        languages = frozenset(map(language_code, marker["languages"]))
    own = fingerprint_of(base.revision, marker["weights"], json.dumps(marker["parts"], sort_keys=True))
    tuned = base.remade(name=_name(base, marker, options), revision=options.revision or f"w{own[:8]}")
    tuned.prefix, tuned.languages = options.prefix or marker["prefix"], languages
    tuned.recipe, tuned.rated_from = marker["recipe"], marker["rated_from"]
    return tuned


def read_tuned(folder: str | Path) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """What `save_tuned` wrote to a folder: the content of its marker, and the tensors that differ.

    Raises:
        BackboneUnavailable: a file is missing or damaged.
    """
    folder = Path(folder)
    marker = _DEFAULTS | read_marker(folder / MARKER, _FORMAT, _FIELDS)
    if marker["towers"] not in ("text", "both") or not isinstance(marker["rated_from"], str):
        raise BackboneUnavailable(f"{folder / MARKER}: 'towers' or 'rated_from' is damaged")
    state = read_state_dict(folder)
    if tensors_digest(state) != marker["weights"]:
        raise BackboneUnavailable(f"{folder}: {WEIGHTS} does not belong to {MARKER}; was saving interrupted?")
    return marker, state


def misfit(marker: Mapping[str, Any], base: Backbone) -> str:
    """Why a marker's tensors do not go with the network of a base: a clause, "" if they do."""
    found = tensors_digest(without_rebuilt(_network(base, marker["towers"]).state_dict()))
    if found != marker["base_text"].get(base.dtype):
        return "its text network is a different one"
    if _tokens_digest(base) != marker["base_tokens"]:
        return "it splits texts into other tokens"
    return ""


def resolved(spec: str, folder: Path) -> str:
    """A spec from the marker → one for `load_backbone`."""
    is_path = spec in (".", "..") or spec.startswith(("./", "../"))
    return str(folder / spec) if is_path else spec


def _network(backbone: Backbone, towers: str) -> torch.nn.Module:
    return backbone.text_network() if towers == "text" else backbone.network()


def _parts_of(backbone: Backbone) -> dict[str, Any] | None:
    """Description, ready for JSON, of modules added to the published text network, or None."""
    return getattr(backbone.text_network(), "parts", None)


def _check_pair(backbone: Backbone, base: Backbone, towers: Towers) -> None:
    problem = ""
    if type(backbone) is not type(base):
        problem = f"{type(backbone).__name__} was not fine-tuned from {type(base).__name__}"
    elif {backbone.dtype, base.dtype} != {"float32"}:
        problem = "fine-tuned towers are saved from float32"
    elif {tensor.data_ptr() for tensor in _network(backbone, towers).parameters()} & {
        tensor.data_ptr() for tensor in _network(base, towers).parameters()
    }:
        problem = "backbone and base share their network"
    elif base.remade().fingerprint != base.fingerprint:
        problem = "the base has changed since it was loaded"
    elif _tokens_digest(backbone) != _tokens_digest(base):
        problem = "the backbone splits texts into other tokens than its base"
    if problem:
        raise CapscoreError(f"{problem}: load the base {base.name!r} again, as the training started from it")


def _new_parts(backbone: Backbone, base: Backbone, towers: Towers) -> dict[str, Any] | None:
    """Parts to add to a base before the tensors are put in; None if it has them all."""
    parts, had = _parts_of(backbone), _parts_of(base)
    if parts == had:
        return None
    if parts is None or had is not None:
        raise CapscoreError(f"the backbone has the parts {parts!r}, but its base {base.name!r} has {had!r}")
    if towers == "both":
        raise CapscoreError("parts were added to the text network: save the text tower alone")
    return parts


def _changed(
    before: Mapping[str, torch.Tensor],
    after: Mapping[str, torch.Tensor],
    base: Backbone,
    dtype: torch.dtype,
    *,
    grown: bool,
) -> dict[str, torch.Tensor]:
    """The tensors that training changed or added, as they are stored."""
    misfits = [name for name in before if name not in after or after[name].shape != before[name].shape]
    misfits += [name for name in after if name not in before and not grown]
    if misfits:
        raise CapscoreError(
            f"the network is not that of the base {base.name!r}: {', '.join(sorted(misfits)[:3])} "
            "differ in shape, or only one of the two has them"
        )
    changed = {
        name: tensor.detach().cpu()
        for name, tensor in after.items()
        if name not in before or not torch.equal(tensor.cpu(), before[name].cpu())
    }
    if not changed:
        raise CapscoreError(f"nothing was trained: every weight equals the base's ({base.name!r})")
    stored = {name: tensor.contiguous().clone() for name, tensor in _cast(changed, dtype).items()}
    for name, tensor in stored.items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            finite = torch.isfinite(changed[name]).all()
            reason = "is too large for float16" if finite else "holds NaN or infinity: the training failed"
            raise CapscoreError(f"{name} of the network {reason}")
    return stored


def _cast(tensors: Mapping[str, torch.Tensor], dtype: torch.dtype) -> dict[str, torch.Tensor]:
    return {
        name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in tensors.items()
    }


def _pinned(spec: str, revision: str) -> str:
    """The spec with the text tower's commit, if it came from the Hub and the spec names no revision."""
    spec = os.fspath(spec).strip()
    if not spec:
        raise CapscoreError(Setting("base_spec", spec), ": expected a name, a Hub id or a folder")
    commit = revision.partition("+")[0]
    pin = _COMMIT.fullmatch(commit) and "@" not in spec and not _is_folder(spec)
    return f"{spec}@{commit}" if pin else spec


def _is_folder(spec: str) -> bool:
    return find(spec) is None and Path(os.path.expanduser(spec)).is_dir()


def _portable(spec: str, folder: Path) -> str:
    """A spec as the marker stores it: a relative path becomes relative to the marker's folder."""
    if not _is_folder(spec):
        return spec
    path = Path(os.path.expanduser(spec))
    if path.resolve() == folder.resolve():
        raise CapscoreError(f"{folder} is the folder of the base itself: save the fine-tuned tower elsewhere")
    if path.is_absolute():
        return path.as_posix()
    relative = Path(os.path.relpath(path, folder)).as_posix()
    return relative if relative.startswith(".") else f"./{relative}"


def _tokens_digest(backbone: Backbone) -> str:
    return fingerprint_of(backbone.tokenize(_PROBES).ids)


def _refuse_other_models(folder: Path) -> None:
    names = [path.name for path in folder.iterdir() if path.is_file()] if folder.is_dir() else []
    others = [name for name in needed_files(names) if not name.endswith(CONFIGURATION)]
    if others and folder_kind(folder) != "tuned":
        raise CapscoreError(
            f"{folder} already holds weights ({', '.join(others)}) without a {MARKER}: use another folder, "
            "or delete them if they are left over from an earlier attempt"
        )


def _load_base(folder: Path, marker: dict[str, Any], options: LoadOptions) -> Backbone:
    name = marker["base"]
    try:
        base = options.load_backbone(
            resolved(name, folder),
            device=options.device,
            dtype=options.dtype,
            image_tower=options.image_tower or resolved(marker["image_tower"], folder) or None,
        )
    except BackboneUnavailable as error:
        # The first line only: the rest names replacements for the base.
        raise BackboneUnavailable(f"{folder} was fine-tuned from {name}: ", *first_line(error)) from error
    if because := misfit(marker, base):
        raise BackboneUnavailable(
            f"{folder} was fine-tuned from {name} @ {marker['base_revision']}, but {name} is now "
            f"@ {base.revision}: {because}"
        )
    return base


def _put_in(folder: Path, base: Backbone, marker: Mapping[str, Any], state: dict[str, torch.Tensor]) -> None:
    had = _network(base, marker["towers"]).state_dict().keys()
    if marker["parts"] is not None:
        try:
            base.add_network_parts(marker["parts"])  # type: ignore[attr-defined]
        except (CapscoreError, AttributeError, TypeError, ValueError, RuntimeError) as error:
            raise BackboneUnavailable(
                f"{folder / MARKER} asks for parts of the text network that cannot be built, "
                f"{marker['parts']!r:.200}: {in_one_line(error)}"
            ) from error
    network = _network(base, marker["towers"])
    expected = without_rebuilt(network.state_dict())
    refuse_misfit(
        folder,
        missing=(name for name in expected if name not in had and name not in state),
        unexpected=(name for name in state if name not in expected),
        mismatched=(name for name in state if name in expected and state[name].shape != expected[name].shape),
    )
    network.load_state_dict(_cast(state, torch.float32), strict=False)


def _name(base: Backbone, marker: dict[str, Any], options: LoadOptions) -> str:
    """The given name, followed by the image tower's if that is not the one from training."""
    if not isinstance(base, PairedBackbone) or options.image_tower in (None, "", marker["image_tower"]):
        return options.name
    another = bool(marker["image_tower"]) or not base.as_made
    return f"{options.name}+{base.image_name}" if another else options.name
