"""Checkpoints of a run by accelerate: whole or not there, read back only for the same settings and data."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
import xxhash
from accelerate import Accelerator
from torch import nn

from capscore.errors import CapscoreError, ResultWriteError, message_of

CHECKPOINTS = "checkpoints"
# Settings in which a run and the command that continues it may differ. The length of the run may not where
# the schedule falls towards its end.
MAY_CHANGE = frozenset(
    ("out", "epochs", "max_steps", "max_minutes", "log_every", "evaluate_every", "checkpoint_every")
) | {"keep_checkpoints"}
_RUN = "described.json"


class Checkpoints:
    """The checkpoints in the folder of a run, of which the newest are kept.

    `described` is what makes the run what it is; `accelerator` saves and loads the optimizer.
    """

    def __init__(self, out: Path, described: Mapping[str, object], keep: int, accelerator: Accelerator):
        self.out, self.folder, self.keep, self.accelerator = out, out / CHECKPOINTS, keep, accelerator
        # as a JSON file gives it back: tuples become lists
        self.described = json.loads(json.dumps(described, ensure_ascii=False, default=str))

    def listed(self) -> list[Path]:
        """Whole checkpoints, oldest first."""
        found = [path for path in self.folder.glob("step-*") if path.name.removeprefix("step-").isdigit()]
        return sorted(found, key=lambda path: int(path.name.removeprefix("step-")))

    def tidy(self) -> None:
        """Remove what a killed run was writing or removing, and all checkpoints but the newest."""
        for left in self.folder.glob(".partial-*"):
            shutil.rmtree(left, ignore_errors=True)
        for old in self.listed()[: -self.keep]:
            self._remove(old)

    def write(self, step: int, save: Callable[[Path], None]) -> None:
        """Write a checkpoint in all processes together, and remove the old ones.

        `save` adds weights and progress to a folder, in the main process.
        """
        final, aside = self.folder / step_name(step), self.folder / f".partial-{step}"
        main = self.accelerator.is_main_process
        try:
            if main:
                shutil.rmtree(aside, ignore_errors=True)
                aside.mkdir(parents=True)
            self.accelerator.wait_for_everyone()
            self.accelerator.save_state(str(aside))
            self.accelerator.wait_for_everyone()
            if main:
                save(aside)
                (aside / _RUN).write_text(json.dumps(self.described, ensure_ascii=False), encoding="utf-8")
                for file in aside.iterdir():
                    with open(file, "rb") as written:
                        os.fsync(written.fileno())
                if final.exists():
                    self._remove(final)
                os.replace(aside, final)
                self.tidy()
        except Exception as error:  # every library raises its own error on a full disk
            shutil.rmtree(aside, ignore_errors=True)
            problem = f"could not be written: {message_of(error)}; earlier checkpoints are intact"
            raise ResultWriteError(f"the checkpoint {final} {problem}") from error

    def read(self, folder: Path, load: Callable[[Path], None]) -> None:
        """Read a checkpoint of this run; `load` reads what `save` wrote, in every process.

        A CapscoreError names a damaged checkpoint, or settings, data or a number of processes that differ.
        """
        try:
            self._check_same(json.loads((folder / _RUN).read_text(encoding="utf-8")))
            self.accelerator.load_state(str(folder))
            load(folder)
        except CapscoreError:
            raise
        except Exception as error:  # every library raises its own error for a damaged file
            mended = "remove it, and the same command continues from the one before"
            problem = f"is damaged ({type(error).__name__}: {message_of(error)}); {mended}"
            raise CapscoreError(f"the checkpoint {folder} {problem}") from error

    def _check_same(self, before: Mapping[str, object]) -> None:
        now = self.described
        differ = []
        for name in sorted(before.keys() | now.keys()):
            then, given = before.get(name), now.get(name)
            if then != given:
                differ.append(f"{name}={_short(then)}, but {_short(given)} was given")
        if differ:
            mended = "Continue it with the same settings, or give another folder as out"
            raise CapscoreError(f"{self.out} holds a run with {'; '.join(differ)}. {mended}")

    def _remove(self, checkpoint: Path) -> None:
        """Rename, then remove: whatever has a checkpoint's name is whole."""
        aside = self.folder / f".partial-{uuid.uuid4().hex[:12]}"
        os.replace(checkpoint, aside)
        shutil.rmtree(aside, ignore_errors=True)


def step_name(step: int) -> str:
    return f"step-{step:06d}"


def frozen_digest(model: nn.Module) -> str:
    """Digest of the parameters that are not trained, which checkpoints leave out."""
    digest = xxhash.xxh3_128()
    for name, parameter in sorted(model.named_parameters()):
        if not parameter.requires_grad:
            digest.update(f"{name}|{parameter.dtype}|{tuple(parameter.shape)}|".encode())
            digest.update(parameter.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _short(value: object) -> str:
    text = "nothing" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else text[:99] + "…"
