"""Checkpoints of a run: whole or not there, written and read back only for the same settings and data."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import xxhash
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from capscore.errors import CapscoreError, ResultWriteError

CHECKPOINTS = "checkpoints"
# Settings in which a run and the command that continues it may differ. The length of the run may not where
# the schedule falls towards its end.
MAY_CHANGE = frozenset(
    (
        "out",
        "epochs",
        "max_steps",
        "log_every",
        "evaluate_every",
        "checkpoint_every",
        "keep_checkpoints",
        "max_minutes",
    )
)
_STATE, _WEIGHTS, _OPTIMIZER, _SCALER = "state.json", "model.safetensors", "optimizer.pt", "scaler.pt"
_BEST = "best.safetensors"
_FORMAT = 1


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint holds.

    Attributes:
        state: Step, time and log so far, and the description of the run, ready for JSON.
        weights: Trained parameters and buffers by name.
        optimizer: State of the optimizer.
        scaler: State of the gradient scaler; None without one.
        best: Weights of the best evaluation, as `weights`; None without early stopping.
    """

    state: dict[str, Any]
    weights: dict[str, Tensor]
    optimizer: dict[str, Any]
    scaler: dict[str, Any] | None
    best: dict[str, Tensor] | None = None


class Checkpoints:
    """The checkpoints in the folder of a run.

    Args:
        out: Folder of the run.
        described: What makes the run what it is, ready for JSON.
        keep: Number of newest checkpoints to keep.
    """

    def __init__(self, out: Path, described: Mapping[str, Any], keep: int):
        self.out, self.folder, self.described, self.keep = out, out / CHECKPOINTS, described, keep

    def at(self, step: int) -> Path:
        """Where the checkpoint of a step is."""
        return self.folder / step_name(step)

    def listed(self) -> list[Path]:
        """Whole checkpoints, oldest first."""
        found = [path for path in self.folder.glob("step-*") if path.name.removeprefix("step-").isdigit()]
        return sorted(found, key=lambda path: int(path.name.removeprefix("step-")))

    def clear_partial(self) -> None:
        """Remove what a killed run was writing or removing."""
        for left in self.folder.glob(".partial-*"):
            shutil.rmtree(left, ignore_errors=True)

    def remove_old(self) -> None:
        """Remove all checkpoints but the newest."""
        for old in self.listed()[: -self.keep]:
            self._remove(old)

    def write(self, checkpoint: Checkpoint) -> Path:
        """Write a checkpoint, and remove the old ones.

        Raises:
            ResultWriteError: the folder cannot be written; the checkpoints before are whole.
        """
        final = self.at(checkpoint.state["step"])
        aside = self._aside()
        state = {"format": _FORMAT, **checkpoint.state, **self.described}
        try:
            aside.mkdir(parents=True)
            save_file(checkpoint.weights, aside / _WEIGHTS)
            if checkpoint.best is not None:
                save_file(checkpoint.best, aside / _BEST)
            torch.save(checkpoint.optimizer, aside / _OPTIMIZER)
            if checkpoint.scaler is not None:
                torch.save(checkpoint.scaler, aside / _SCALER)
            (aside / _STATE).write_text(json.dumps(state, ensure_ascii=False), encoding="utf-8")
            for file in aside.iterdir():
                with open(file, "rb") as written:
                    os.fsync(written.fileno())
            if final.exists():
                self._remove(final)
            os.replace(aside, final)
        except Exception as error:  # every library raises its own error on a full disk
            shutil.rmtree(aside, ignore_errors=True)
            raise ResultWriteError(
                f"the checkpoint {final} could not be written: {' '.join(str(error).split())}; the "
                "checkpoints before are whole"
            ) from error
        self.remove_old()
        return final

    def read(self, folder: Path, *, scaled: bool, schedule: str) -> Checkpoint:
        """Read a checkpoint of this run.

        Args:
            folder: The checkpoint.
            scaled: Whether it should hold the state of a gradient scaler.
            schedule: Schedule of the learning rate.

        Raises:
            CapscoreError: the checkpoint is damaged, or the run has other settings or data; names them.
        """
        try:
            state = json.loads((folder / _STATE).read_text(encoding="utf-8"))
            if state["format"] != _FORMAT:
                raise CapscoreError(f"{folder} is a checkpoint of another version of this loop")
            self._check_same(state, schedule)
            return Checkpoint(
                state=state,
                weights=load_file(folder / _WEIGHTS),
                optimizer=torch.load(folder / _OPTIMIZER, map_location="cpu", weights_only=True),
                scaler=torch.load(folder / _SCALER, weights_only=True) if scaled else None,
                best=load_file(folder / _BEST) if state.get("best") else None,
            )
        except CapscoreError:
            raise
        except Exception as error:  # every library raises its own error for a damaged file
            raise CapscoreError(
                f"the checkpoint {folder} is damaged ({type(error).__name__}: {' '.join(str(error).split())})"
                "; remove it, and the same command continues from the one before"
            ) from error

    def _check_same(self, state: Mapping[str, Any], schedule: str) -> None:
        given, differ = self.described, []
        for part in ("settings", "identity"):
            for name in sorted(state[part].keys() | given[part].keys()):
                before, now = state[part].get(name), given[part].get(name)
                if before != now and not (part == "settings" and name in MAY_CHANGE):
                    differ.append(f"{name}={_short(before)}, but {_short(now)} was given")
        if state["frozen"] != given["frozen"]:
            differ.append("other frozen weights than the given model has")
        if state["steps_per_epoch"] != given["steps_per_epoch"]:
            differ.append(
                f"{state['steps_per_epoch']} steps per epoch, but the given data makes "
                f"{given['steps_per_epoch']}"
            )
        elif state["total_steps"] != given["total_steps"] and schedule != "constant":
            differ.append(
                f"{state['total_steps']} steps in all, over which its {schedule} schedule falls, but "
                f"{given['total_steps']} were asked for (epochs, max_steps)"
            )
        if differ:
            raise CapscoreError(
                f"{self.out} holds a run with {'; '.join(differ)}. Continue with its settings, or give "
                "another folder as out"
            )

    def _aside(self) -> Path:
        return self.folder / f".partial-{uuid.uuid4().hex[:12]}"

    def _remove(self, checkpoint: Path) -> None:
        """Rename, then remove: whatever has a checkpoint's name is whole."""
        aside = self._aside()
        os.replace(checkpoint, aside)
        shutil.rmtree(aside, ignore_errors=True)


def step_name(step: int) -> str:
    """A step's name in file names.

    >>> step_name(42)
    'step-000042'
    """
    return f"step-{step:06d}"


def frozen_digest(model: nn.Module) -> str:
    """Digest of the parameters that are not trained, which checkpoints leave out."""
    digest = xxhash.xxh3_128()
    for name, parameter in sorted(model.named_parameters()):
        if not parameter.requires_grad:
            digest.update(f"{name}|{parameter.dtype}|{tuple(parameter.shape)}|".encode())
            flat = parameter.detach().cpu().contiguous().flatten()
            if flat.numel():
                digest.update(memoryview(flat.view(torch.uint8).numpy()))
    return digest.hexdigest()


def _short(value: Any) -> str:
    text = "nothing" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else text[:99] + "…"
