"""Reading a checkpoint folder: its JSON files, and weights that are whole, safe to read, and all there.

In: a local folder. Out: a dict, a state dict, or a transformers model in float32; never a model some of
whose weights are random, and never a pickle that may run code.
"""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file

from ..errors import BackboneUnavailable

# Buffers that old versions of transformers saved and that new ones rebuild from the config.
_REBUILT = re.compile(r"(^|\.)(position_ids|token_type_ids)$")
# What torn weights raise.
_UNREADABLE = (SafetensorError, RuntimeError, EOFError, OSError, ValueError, TypeError)
_POOLER = re.compile(r"(^|\.)pooler\.")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file.

    Raises:
        BackboneUnavailable: the file is missing, torn, or holds something else; the message names it.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BackboneUnavailable(f"{path.parent} has no {path.name}") from None
    except (OSError, ValueError) as error:
        raise BackboneUnavailable(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(content, dict):
        raise BackboneUnavailable(f"{path} should hold a JSON object, not {type(content).__name__}")
    return content


def weight_files(folder: Path) -> list[Path]:
    """The files that hold a folder's weights, safetensors before pickles, all shards of one set.

    Raises:
        BackboneUnavailable: there are none, a shard is missing, or a safetensors file is torn.
    """
    for stem, suffix in (("model", "safetensors"), ("pytorch_model", "bin")):
        single, index = folder / f"{stem}.{suffix}", folder / f"{stem}.{suffix}.index.json"
        if single.is_file():
            files = [single]
        elif index.is_file():
            names = read_json(index).get("weight_map", {})
            files = [folder / name for name in sorted(set(names.values()))]
        else:
            continue
        for file in files:
            _refuse_torn(file)
        return files
    raise BackboneUnavailable(
        f"{folder} has no weights: neither model.safetensors nor pytorch_model.bin is there"
    )


def _refuse_torn(file: Path) -> None:
    if not file.is_file():
        raise BackboneUnavailable(f"{file.parent} has no {file.name}, which its index names")
    if file.suffix == ".safetensors":
        try:
            with safe_open(file, framework="pt"):
                pass
        except (SafetensorError, OSError) as error:
            raise BackboneUnavailable(why_torn(file, error)) from None


def why_torn(file: Path, error: Exception) -> str:
    """What is wrong with a safetensors file that cannot be opened."""
    try:
        with open(file, "rb") as opened:
            if opened.read(24) == b"version https://git-lfs.":
                return f"{file} is a Git LFS pointer: the weights were never pulled (git lfs pull)"
    except OSError:
        pass  # then the first error says why
    return f"{file} is torn or is no safetensors file: {error}"


def read_state_dict(folder: Path) -> dict[str, torch.Tensor]:
    """Every tensor of a folder's weights, on the CPU, as stored.

    Pickles are read with `weights_only=True`: a file that would run code is refused.

    Raises:
        BackboneUnavailable: see `weight_files`; or a pickle that is torn or holds more than tensors.
    """
    state: dict[str, torch.Tensor] = {}
    for file in weight_files(folder):
        try:
            if file.suffix == ".safetensors":
                state.update(load_file(file))
            else:
                state.update(torch.load(file, map_location="cpu", weights_only=True))
        except pickle.UnpicklingError:  # which would advise to load it all the same
            raise BackboneUnavailable(
                f"{file} cannot be read safely: it is torn, or holds more than tensors"
            ) from None
        except _UNREADABLE as error:
            raise BackboneUnavailable(f"{file} cannot be read: {in_one_line(error)}") from None
    return state


def without_rebuilt(state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A state dict without the buffers that some versions of transformers list and others do not."""
    return {name: tensor for name, tensor in state.items() if not _REBUILT.search(name)}


def refuse_misfit(
    folder: Path, missing: Iterable[str], unexpected: Iterable[str], mismatched: Iterable[str] = ()
) -> None:
    """Raise unless the weights of a folder are exactly those that its model has.

    Weights of a pooler that the model is built without are no misfit.

    Raises:
        BackboneUnavailable: names up to three weights of each sort that do not fit.
    """
    complaints = []
    for what, names in (
        ("are missing", missing),
        ("belong to no part of the model", (name for name in unexpected if not _POOLER.search(name))),
        ("have another shape than the config says", mismatched),
    ):
        names = sorted(name for name in names if not _REBUILT.search(name))
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            complaints.append(f"{', '.join(names[:3])}{more} {what}")
    if complaints:
        raise BackboneUnavailable(f"the weights in {folder} do not fit its config: {'; '.join(complaints)}")


def refuse_misreport(folder: Path, report: dict[str, Any], *, without_pooler: bool = False) -> None:
    """`refuse_misfit` on the report that `from_pretrained(..., output_loading_info=True)` makes."""
    shapes = [
        entry  # transformers 4 gives the name only, 5 the two shapes as well
        if isinstance(entry, str)
        else f"{entry[0]} (stored {tuple(entry[1])}, config {tuple(entry[2])})"
        for entry in report["mismatched_keys"]
    ]
    missing = [name for name in report["missing_keys"] if not (without_pooler and _POOLER.search(name))]
    refuse_misfit(folder, missing, report["unexpected_keys"], shapes)


def load_strictly(
    model_class: Any,
    config: Any,
    folder: Path,
    state: dict[str, torch.Tensor] | None = None,
    *,
    without_pooler: bool = False,
) -> Any:
    """A transformers model with the weights of a folder, in float32 and in eval mode.

    Args:
        model_class: a class of transformers, such as `CLIPModel`.
        config: its config.
        folder: where the weights are; named in errors.
        state: the weights, if they have been read already.
        without_pooler: take the pooler off, whether or not the checkpoint has one: towers that pool on
            their own do not use it, and a missing one would be filled with random numbers.

    Raises:
        BackboneUnavailable: weights are missing, too many, or of another shape; or no such model can be made.
    """
    state = read_state_dict(folder) if state is None else state
    try:
        with quiet_transformers():
            model, report = model_class.from_pretrained(
                None,
                config=config,
                state_dict=state,
                dtype=torch.float32,
                ignore_mismatched_sizes=True,  # they come back in the report, and are refused below
                output_loading_info=True,
            )
    except Exception as error:  # a config can ask for what is not there, or make no sense, in many ways
        raise BackboneUnavailable(
            f"{folder} makes no {model_class.__name__}: {in_one_line(error)}"
        ) from error
    refuse_misreport(folder, report, without_pooler=without_pooler)
    if without_pooler and getattr(model, "pooler", None) is not None:
        model.pooler = None
    return model.eval()


def in_one_line(error: Exception) -> str:
    """What an error says, or else its type, without line breaks."""
    return " ".join(str(error).split()) or type(error).__name__


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Without transformers' loading bars and reports: what matters in them is raised as an error here."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
