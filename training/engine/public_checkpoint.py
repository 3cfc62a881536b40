"""Checkpoints of public code: their tensors, without running code; where to write them, and their card."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from capscore.errors import CapscoreError, InputError


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a checkpoint by name, in float32.

    They are at the top level or under "model" or "state_dict"; "module." before a name is left out.

    Raises:
        InputError: there is no such file.
        CapscoreError: it holds something other than tensors of numbers.
    """
    if not path.is_file():
        raise InputError(f"there is no file {path}", field="checkpoint")
    try:
        found: Any = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # torch's own message advises to load the file anyway
        raise CapscoreError(
            f"{path} cannot be read safely as a checkpoint: it is damaged, or holds more than tensors"
        ) from None
    for wrapped_in in ("model", "state_dict"):
        if isinstance(found, Mapping) and isinstance(found.get(wrapped_in), Mapping):
            found = found[wrapped_in]
    if not isinstance(found, Mapping) or not found:
        raise CapscoreError(f"{path} holds {type(found).__name__}: expected names with their tensors")
    for name, value in found.items():
        if not isinstance(name, str) or not isinstance(value, Tensor) or not value.is_floating_point():
            raise CapscoreError(f"{path}: {name!r} should be a tensor of numbers, not {type(value).__name__}")
    return {name.removeprefix("module."): tensor.float() for name, tensor in found.items()}


def new_folder(out: str | Path) -> Path:
    """The path of a folder to write; `InputError` if there is something."""
    target = Path(out).expanduser()
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise InputError(f"{target} is not empty: give a new folder", field="out")
    return target


def command_of(recipe: str, source: Path, target: Path, backbone: str) -> str:
    """The command that converts a checkpoint, as its card shows it."""
    words = f"python -m training.convert_{recipe} --checkpoint".split()
    words += [source.name, "--out", target.name]
    return shlex.join([*words, "--backbone", backbone] if backbone else words)


def origin_of(code: str) -> str:
    """Where the weights on a card come from; `code` is the address of the public code."""
    return (
        f"These weights were not trained here: they are a checkpoint of the public code ({code}), "
        "whose scores they give. The data are those of its paper."
    )
