"""Folders with weights: config.json, which holds a digest of the weights, beside model.safetensors."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import torch

from ..backbones.base import resolve_dtype
from ..backbones.checkpoint import (
    fetch,
    read_checkpoint,
    read_json,
    refuse_oversized,
    refusing,
    write_checkpoint,
)
from ..errors import BackboneUnavailable, CapscoreError, Setting

CONFIG, WEIGHTS = "config.json", "model.safetensors"
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_Network = TypeVar("_Network", bound=torch.nn.Module)


def find_folder(
    spec: str | os.PathLike[str], revision: str | None = None, what: str = "weights"
) -> tuple[Path, str, str]:
    """Folder of the files, name of the weights, and commit ("" for a folder); fetched if on the Hub.

    `spec` is a folder, or a Hub id, which "@revision" may follow; `what` names the option in errors.
    Raises BackboneUnavailable for neither, and CapscoreError for a revision that does not go with `spec`.
    """
    wanted = str(spec).strip()
    folder, (name, _, after) = Path(wanted).expanduser(), wanted.partition("@")
    if wanted and folder.is_dir() and not revision:
        return folder, folder.resolve().name, ""  # not its path, so that signatures do not depend on it
    if revision and (folder.is_dir() or after not in ("", revision)):
        raise CapscoreError(Setting("revision", revision), " does not go with ", Setting(what, wanted))
    try:
        if not _HUB_ID.fullmatch(name):
            raise BackboneUnavailable("there is no such folder, and it is not a Hub id (org/name)")
        folder, commit = fetch(name, revision or after, lambda files: [CONFIG, WEIGHTS])
    except BackboneUnavailable as error:
        raise BackboneUnavailable(Setting(what, wanted), " is not available: ", *error.parts) from error
    return folder, name, commit


def write_folder(
    folder: str | os.PathLike[str],
    network: torch.nn.Module,
    record: Mapping[str, Any],
    dtype: str = "float32",
) -> None:
    """Write a network's weights, as float32 or float16, then config.json: the record, dtype and a digest.

    The folder is made if needed; other files in it stay.

    Raises:
        CapscoreError: another dtype, a folder with another model than the record's "model_type", a weight
            that is not finite, or a record not ready for JSON.
        ResultWriteError: the folder could not be written.
    """
    folder, stored = Path(folder).expanduser(), resolve_dtype(dtype)
    if stored == "bfloat16":
        raise CapscoreError(Setting("dtype", dtype), ": weights are stored as float32 or float16")
    there = read_json(folder / CONFIG).get("model_type") if (folder / CONFIG).is_file() else None
    if there != record["model_type"] and ((folder / CONFIG).is_file() or (folder / WEIGHTS).is_file()):
        raise CapscoreError(f"{folder} already holds a model of type {there!r}: use another folder")
    tensors = {name: tensor.to(getattr(torch, stored)) for name, tensor in network.state_dict().items()}
    content = {**record, "dtype": stored, "weights": ""}
    write_checkpoint(folder, CONFIG, content, tensors, f"the weights of {record['model_type']}")


def read_folder(
    folder: Path, model_type: str, version: int
) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Content of config.json, and weights; BackboneUnavailable if missing, damaged, or of another model."""
    kind = read_json(folder / CONFIG).get("model_type")
    if kind != model_type:
        raise BackboneUnavailable(f"{folder / CONFIG} describes a model of type {kind!r}, not {model_type!r}")
    return read_checkpoint(folder, CONFIG, version, {})


def built(
    folder: Path, state: Mapping[str, torch.Tensor], config: Any, build: Callable[[], _Network]
) -> _Network:
    """The network that `build` makes by a config, with a folder's weights, in float32 and eval mode.

    Raises BackboneUnavailable if the weights are not those of such a network.
    """
    refuse_oversized(folder, asdict(config), sum(tensor.nbytes for tensor in state.values()))
    with refusing(f"the network in {folder}"), torch.random.fork_rng(devices=[]):
        network = build()  # with random numbers, so that those of the caller stay as they were
        network.load_state_dict({name: tensor.float() for name, tensor in state.items()})
    return network.eval()
