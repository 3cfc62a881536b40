"""One training loop for every recipe: steps, several processes, precision, log, checkpoints, exact resume.

In: a model, batches that are a pure function of epoch and step, a loss. Out: the model trained in place, and
in the folder of the run `log.jsonl`, `run.json` and `checkpoints/`. The same command goes on where a run was
stopped or killed, and ends with the weights, to the bit on a CPU, that it would have had without the stop.

    python -m training.teacher_learning --config …                       # one process
    accelerate launch -m training.teacher_learning --config …            # one process a GPU
    ACCELERATE_USE_CPU=true torchrun --nproc_per_node 2 -m training.…    # several on a CPU, where
                                                                         # accelerate launch starts one only
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import torch
import xxhash
from accelerate import Accelerator, PartialState
from accelerate.state import AcceleratorState
from accelerate.utils import parse_flag_from_env, set_seed
from filelock import FileLock, Timeout
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from capscore.errors import CapscoreError, ResultWriteError
from capscore.files.whole_file import whole_file, write_text

LOG = "log.jsonl"
RECORD = "run.json"
CHECKPOINTS = "checkpoints"
# What may differ between a run and the command that goes on with it. Where the schedule falls towards the
# run's end, its length may not.
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
_STATE = "state.json"
_FORMAT = 1
# Gradients go from process to process in pieces of this many numbers.
_PIECE = 2**24
# How many rows of a batch an error names; all of them are in a file beside the log.
_ROWS_SHOWN = 8

Gather = Callable[[Tensor], Tensor]
Loss = Callable[[nn.Module, Sequence[Any], Gather], Mapping[str, Tensor]]
Evaluate = Callable[[nn.Module, int], Mapping[str, float]]


@dataclass
class LoopSettings:
    """What the loop does. A recipe adds its own settings in a subclass.

    Attributes:
        out: folder of the run.
        epochs: how often the data is gone through.
        max_steps: steps in all, whatever `epochs` says; None for whole epochs.
        batch_size: rows a step, over all processes and parts of the step.
        learning_rate: of AdamW, where the schedule is at its top.
        betas: AdamW's two.
        eps: AdamW's.
        weight_decay: AdamW's, of every parameter.
        warmup_steps: steps in which the learning rate rises, from a part to the whole.
        schedule: what it does then: stay, or fall to 0 at the run's end, straight or as a cosine.
        clip_norm: gradients longer than this are cut to it; None for no limit.
        precision: "no" is float32; "bf16" and "fp16" compute in that, and keep the weights in float32.
        accumulation_steps: parts that a batch is cut into, in order, to save memory. A loss that compares
            rows with each other sees those of one part.
        seed: of everything that is drawn.
        log_every: steps between two lines of the log; a line has the means of the steps since the last.
        evaluate_every: steps between two evaluations; None for one at the start and one at the end.
        checkpoint_every: steps between two checkpoints; None for one at the end.
        keep_checkpoints: so many of the newest stay.
        max_minutes: stop after this time, with a checkpoint; the same command goes on. None for no limit.

    Raises:
        CapscoreError: a value outside its range.
    """

    out: str
    epochs: int = 1
    max_steps: int | None = None
    batch_size: int = 64
    learning_rate: float = 5e-5
    betas: list[float] = field(default_factory=lambda: [0.9, 0.999])
    eps: float = 1e-8
    weight_decay: float = 0.01
    warmup_steps: int = 0
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    clip_norm: float | None = 1.0
    precision: Literal["no", "bf16", "fp16"] = "no"
    accumulation_steps: int = 1
    seed: int = 0
    log_every: int = 50
    evaluate_every: int | None = None
    checkpoint_every: int | None = 1000
    keep_checkpoints: int = 2
    max_minutes: float | None = None

    def __post_init__(self) -> None:
        self.betas = [float(beta) for beta in self.betas]
        _require(str(self.out).strip() != "", "out", self.out, "a folder")
        for name in ("epochs", "batch_size", "accumulation_steps", "log_every", "keep_checkpoints"):
            value = getattr(self, name)
            _require(_whole(value) and value >= 1, name, value, "a whole number of at least 1")
        for name in ("max_steps", "evaluate_every", "checkpoint_every"):
            value = getattr(self, name)
            _require(
                value is None or (_whole(value) and value >= 1), name, value, "at least 1, or nothing (null)"
            )
        for name in ("warmup_steps", "seed"):
            value = getattr(self, name)
            _require(_whole(value) and value >= 0, name, value, "a whole number of at least 0")
        for name in ("learning_rate", "eps"):
            value = getattr(self, name)
            _require(0 < value < math.inf, name, value, "a number above 0")
        _require(0 <= self.weight_decay < math.inf, "weight_decay", self.weight_decay, "at least 0")
        _require(
            len(self.betas) == 2 and all(0 <= beta < 1 for beta in self.betas),
            "betas",
            self.betas,
            "two numbers from 0 to below 1",
        )
        for name in ("clip_norm", "max_minutes"):
            value = getattr(self, name)
            _require(
                value is None or 0 < value < math.inf, name, value, "a number above 0, or nothing (null)"
            )
        _require(
            self.schedule in ("constant", "linear", "cosine"),
            "schedule",
            self.schedule,
            "constant, linear or cosine",
        )
        _require(self.precision in ("no", "bf16", "fp16"), "precision", self.precision, "no, bf16 or fp16")
        _require(
            self.batch_size >= self.accumulation_steps,
            "accumulation_steps",
            self.accumulation_steps,
            f"at most the batch_size, {self.batch_size}",
        )


class Batches(Protocol):
    """Where the rows of a step come from; the same call gives the same rows at any time, in any process.

    Attributes:
        steps_per_epoch: steps until every row was there once.
    """

    steps_per_epoch: int

    def batch(self, epoch: int, step: int) -> Sequence[Any]:
        """The whole batch of a step, over all processes.

        Args:
            epoch: from 0.
            step: within the epoch, from 0.
        """
        ...


class ShuffledBatches:
    """Every row once an epoch, in an order of its own each epoch.

    The batches of an epoch differ by at most one row: no row is left out, and no batch is a small remainder.

    Args:
        rows: any sequence.
        batch_size: the most rows a batch.
        seed: of the orders.

    Raises:
        CapscoreError: there is no row.

    >>> batches = ShuffledBatches("abcdefg", batch_size=3, seed=0)
    >>> batches.steps_per_epoch
    3
    >>> epoch = [batches.batch(0, step) for step in range(3)]
    >>> [len(rows) for rows in epoch], "".join(sorted(sum(epoch, [])))
    ([2, 2, 3], 'abcdefg')
    """

    def __init__(self, rows: Sequence[Any], batch_size: int, seed: int):
        if not len(rows):
            raise CapscoreError("there are no rows to train on")
        self.rows, self.seed = rows, seed
        self.steps_per_epoch = -(-len(rows) // batch_size)
        self._order: tuple[int, np.ndarray] | None = None

    def batch(self, epoch: int, step: int) -> list[Any]:
        """The rows of a step, 0-based within its epoch."""
        if self._order is None or self._order[0] != epoch:
            self._order = epoch, np.random.default_rng([self.seed, epoch]).permutation(len(self.rows))
        start, stop = (len(self.rows) * place // self.steps_per_epoch for place in (step, step + 1))
        return [self.rows[row] for row in self._order[1][start:stop].tolist()]


@dataclass(frozen=True)
class RunResult:
    """How a run stands.

    Attributes:
        step: steps done in all.
        finished: whether these are all; False where `max_minutes` stopped it.
        resumed_from: the step that it went on from, 0 for the start.
        losses: means of the losses in the last line of the log; {} if there is none.
        evaluation: the last evaluation; {} if there is none.
        seconds: time of training, evaluations included, over all commands.
        log: the file of losses and evaluations.
        checkpoint: the newest checkpoint.
    """

    step: int
    finished: bool
    resumed_from: int
    losses: dict[str, float]
    evaluation: dict[str, float]
    seconds: float
    log: Path
    checkpoint: Path


def device() -> str:
    """Where this process trains, such as "cuda:1" or "cpu": as the launcher says, else a GPU if any."""
    own = _process().device
    return "cpu" if own.type == "cpu" else str(own)


def is_main_process() -> bool:
    """Whether this process writes files and prints; of several on one run, one does."""
    return _process().is_main_process


@contextmanager
def main_process_first() -> Iterator[None]:
    """What the main process does in the block is done when the others enter it."""
    with _process().main_process_first():
        yield


def _process() -> PartialState:
    """This process among those of the run. Whoever asks first settles it, so that all must ask alike."""
    state = PartialState(cpu=parse_flag_from_env("ACCELERATE_USE_CPU"))
    launched = int(os.environ.get("WORLD_SIZE", "1"))
    if launched != state.num_processes:
        raise CapscoreError(
            f"{launched} processes were launched, but each sees {state.num_processes}: set "
            "ACCELERATE_USE_CPU=true to train in several processes on a CPU"
        )
    return state


def run(
    model: nn.Module,
    batches: Batches,
    loss: Loss,
    settings: LoopSettings,
    *,
    evaluate: Evaluate | None = None,
    parameters: Iterable[nn.Parameter] | Iterable[dict[str, Any]] | None = None,
    identity: Mapping[str, Any] | None = None,
) -> RunResult:
    """Train a model in place, from the newest checkpoint in `settings.out` or from the start.

    Args:
        model: it is moved to `device()` and trained in the mode that it is in: call `model.train()` first if
            its dropout is to work. Everything random is drawn anew from seed, step and process at every step.
        batches: each process takes rows[rank::world] of a batch, or of each of the parts of it.
        loss: (model, this process's rows, gather) → scalars by name, "loss" among them, which is what is
            minimised. `gather` joins a tensor with one entry a row, in the first dimension, over the
            processes, in the batch's order, with gradients: a loss on gathered tensors is that of one
            process. Computed under autocast; its numbers should be float32.
        settings: see `LoopSettings`.
        evaluate: (model, step) → numbers by name, in eval mode and without gradients; called in the main
            process alone, so that it must not gather.
        parameters: those to train, or AdamW's groups of them ("params", "lr", "weight_decay"); all others
            are frozen. None for those that require gradients.
        identity: what else makes the run what it is, ready for JSON: a recipe's own settings, a digest of
            the data. A checkpoint goes on only where it is the same.

    Raises:
        CapscoreError: other settings than those of the run in the folder; a loss or gradient that is not
            finite (the error names epoch, step and rows, and the weights are those before it); no parameter
            to train; a batch with fewer rows than there are processes.
        ResultWriteError: the folder cannot be written; the checkpoints before are whole.

    >>> import contextlib, io, tempfile
    >>> def loss(model, rows, gather):
    ...     x = torch.tensor(rows)
    ...     return {"loss": gather(model(x) - 3 * x).square().mean()}
    >>> line = nn.Linear(1, 1, bias=False)
    >>> rows = [[1.0], [2.0], [-1.0], [0.5]]
    >>> with tempfile.TemporaryDirectory() as out, contextlib.redirect_stderr(io.StringIO()):
    ...     settings = LoopSettings(out, epochs=100, batch_size=2, learning_rate=0.1, weight_decay=0.0)
    ...     result = run(line, ShuffledBatches(rows, 2, seed=0), loss, settings)
    >>> result.step, result.finished, round(line.weight.item(), 2)
    (200, True, 3.0)
    """
    on_cpu = device() == "cpu"
    if settings.precision == "fp16" and on_cpu:
        raise CapscoreError("precision='fp16' needs a GPU; take 'bf16' or 'no' on a CPU")
    AcceleratorState._reset_state()  # its precision is that of a process for good, and a run has its own
    accelerator = Accelerator(mixed_precision=settings.precision)
    out = Path(settings.out).expanduser()
    with _alone(out, accelerator):
        return _Run(
            model, batches, loss, settings, evaluate, parameters, identity or {}, out, accelerator
        ).go()


class _Run:
    def __init__(
        self,
        model: nn.Module,
        batches: Batches,
        loss: Loss,
        settings: LoopSettings,
        evaluate: Evaluate | None,
        parameters: Iterable[Any] | None,
        identity: Mapping[str, Any],
        out: Path,
        accelerator: Accelerator,
    ):
        self.batches, self.loss, self.settings, self.evaluate = batches, loss, settings, evaluate
        self.accelerator, self.out = accelerator, out
        self.model = model.to(accelerator.device)
        self.per_epoch = batches.steps_per_epoch
        self.total = settings.max_steps or settings.epochs * self.per_epoch
        groups = _groups(self.model, parameters, settings)
        self.trained = [parameter for group in groups for parameter in group["params"]]
        self.top_rates = [group["lr"] for group in groups]
        betas = (settings.betas[0], settings.betas[1])
        self.optimizer = accelerator.prepare(torch.optim.AdamW(groups, betas=betas, eps=settings.eps))
        self.described = {
            "settings": _as_json(
                {k: v for k, v in asdict(settings).items() if k in LoopSettings.__dataclass_fields__}
            ),
            "identity": _as_json(identity),
            "steps_per_epoch": self.per_epoch,
            "total_steps": self.total,
            "frozen": _frozen_digest(self.model),
        }
        self.step = 0
        self.seconds = 0.0
        # name → (sum, number of steps) since the last line of the log
        self.sums: dict[str, list[float]] = {}
        self.last_losses: dict[str, float] = {}
        self.last_evaluation: dict[str, float] = {}

    def go(self) -> RunResult:
        resumed_from = self._resume()
        started, before = time.monotonic(), self.seconds
        log = _Log(self.out / LOG, self.step, resumed_from > 0) if self.accelerator.is_main_process else None
        latest = self.out / CHECKPOINTS / _name(self.step)
        if self.step == 0:
            self._evaluate(log)
        limit = math.inf if self.settings.max_minutes is None else 60 * self.settings.max_minutes
        in_time = True
        while self.step < self.total and in_time:
            self._train_step()
            self.seconds = before + time.monotonic() - started
            last = self.step == self.total
            if last or self.step % self.settings.log_every == 0:
                self._write_losses(log)
            if last or _due(self.settings.evaluate_every, self.step):
                self._evaluate(log)
            self.seconds = before + time.monotonic() - started
            in_time = self._agreed(self.seconds - before < limit)
            if last or not in_time or _due(self.settings.checkpoint_every, self.step):
                if log is not None:
                    log.settle()
                    latest = self._save()
                self.accelerator.wait_for_everyone()
        if log is not None:
            log.close()
        return RunResult(
            step=self.step,
            finished=self.step >= self.total,
            resumed_from=resumed_from,
            losses=self.last_losses,
            evaluation=self.last_evaluation,
            seconds=self.seconds,
            log=self.out / LOG,
            checkpoint=self.out / CHECKPOINTS / _name(self.step) if log is None else latest,
        )

    # -------------------------------------------------------------------- steps

    def _train_step(self) -> None:
        accelerator, settings = self.accelerator, self.settings
        world, rank = accelerator.num_processes, accelerator.process_index
        epoch, step_in_epoch = divmod(self.step, self.per_epoch)
        rows = self.batches.batch(epoch, step_in_epoch)
        if len(rows) < world:
            raise CapscoreError(
                f"epoch {epoch + 1}, step {self.step + 1}: a batch of {len(rows)} rows for {world} "
                "processes; take a larger batch_size, or fewer processes"
            )
        rate = _schedule(settings, self.step, self.total)
        for group, top in zip(self.optimizer.param_groups, self.top_rates, strict=True):
            group["lr"] = top * rate
        self.optimizer.zero_grad(set_to_none=True)
        means: dict[str, list[float]] = {}
        for number, part in enumerate(_parts(rows, settings.accumulation_steps, world)):
            seeds = np.random.SeedSequence([settings.seed, self.step, number, rank])
            set_seed(int(seeds.generate_state(1)[0]))
            own = part[rank::world]
            with accelerator.autocast():
                losses = dict(self.loss(self.model, own, _gather(len(part), rank, world)))
            values = self._over_processes(losses)
            bad = [name for name, value in values.items() if not math.isfinite(value)]
            if bad:
                self._stop(rows, ", ".join(f"{name} is {values[name]}" for name in bad))
            share = len(part) / len(rows)
            accelerator.backward(losses["loss"] * share)
            for name, value in values.items():
                total = means.setdefault(name, [0.0, 0.0])
                total[0] += value * share
                total[1] += share
        self._average_gradients()
        norm = float(accelerator.clip_grad_norm_(self.trained, settings.clip_norm or math.inf))
        scaled = accelerator.scaler is not None  # then a step with such gradients is left out, as it should
        if not math.isfinite(norm) and not scaled:
            self._stop(rows, f"the gradient's norm is {norm}")
        self.optimizer.step()
        self.step += 1
        step_values = {name: total / share for name, (total, share) in means.items()}
        if math.isfinite(norm):
            step_values["grad_norm"] = norm
        if scaled:
            step_values["skipped"] = float(accelerator.optimizer_step_was_skipped)
        for name, value in step_values.items():
            total = self.sums.setdefault(name, [0.0, 0])
            total[0] += value
            total[1] += 1

    def _over_processes(self, losses: Mapping[str, Tensor]) -> dict[str, float]:
        if "loss" not in losses:
            raise CapscoreError(f"the loss function gave {', '.join(losses) or 'nothing'}, but no 'loss'")
        values = torch.stack([value.detach().float() for value in losses.values()])
        if self.accelerator.num_processes > 1:
            torch.distributed.all_reduce(values)
            values /= self.accelerator.num_processes
        return dict(zip(losses, values.tolist(), strict=True))

    def _average_gradients(self) -> None:
        """The mean of the processes' gradients, as DistributedDataParallel has it.

        Here and not in its hooks, so that a loss may use any part of the model, any number of times.
        """
        world = self.accelerator.num_processes
        if world == 1:
            return
        there = torch.tensor([p.grad is not None for p in self.trained], dtype=torch.int32)
        there = there.to(self.accelerator.device)
        torch.distributed.all_reduce(there)
        piece: list[Tensor] = []
        for parameter, count in zip(self.trained, there.tolist(), strict=True):
            if count:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                if piece and piece[0].dtype != parameter.grad.dtype:
                    _average(piece, world)
                    piece = []
                piece.append(parameter.grad)
                if sum(gradient.numel() for gradient in piece) >= _PIECE:
                    _average(piece, world)
                    piece = []
        if piece:
            _average(piece, world)

    def _stop(self, rows: Sequence[Any], why: str) -> None:
        epoch, _ = divmod(self.step, self.per_epoch)
        path = self.out / f"stopped-{_name(self.step + 1)}.txt"
        if self.accelerator.is_main_process:
            write_text(path, "".join(f"{row!r}\n" for row in rows), "list of rows")
        shown = [repr(row) for row in rows[:_ROWS_SHOWN]]
        shown = [row if len(row) <= 160 else row[:159] + "…" for row in shown]
        more = f"\n  … and {len(rows) - len(shown)} more" if len(rows) > len(shown) else ""
        raise CapscoreError(
            f"epoch {epoch + 1}, step {self.step + 1}: {why}. The batch's {len(rows)} rows, all of them in "
            f"{path}:\n  "
            + "\n  ".join(shown)
            + more
            + "\nThe checkpoints before are good; a lower learning_rate or precision='no' may help "
            "if the rows are as they should be"
        )

    def _agreed(self, in_time: bool) -> bool:
        """The main process's answer, in every process."""
        if self.accelerator.num_processes == 1:
            return in_time
        answer = torch.tensor([int(in_time)], device=self.accelerator.device)
        torch.distributed.broadcast(answer, src=0)
        return bool(answer.item())

    # ---------------------------------------------------------------------- log

    def _write_losses(self, log: _Log | None) -> None:
        means = {name: total / count for name, (total, count) in self.sums.items()}
        self.sums = {}
        extra = {name: means.pop(name) for name in ("grad_norm", "skipped") if name in means}
        self.last_losses = means
        rates = [group["lr"] for group in self.optimizer.param_groups]
        if log is not None:
            log.write(
                {
                    "step": self.step,
                    "epoch": round(self.step / self.per_epoch, 4),
                    "lr": max(rates),
                    "losses": means,
                    **extra,
                    "seconds": round(self.seconds, 2),
                },
                self.total,
            )

    def _evaluate(self, log: _Log | None) -> None:
        if self.evaluate is not None and log is not None:
            modes = [(module, module.training) for module in self.model.modules()]
            self.model.eval()
            with torch.no_grad(), self.accelerator.autocast():
                numbers = {name: float(n) for name, n in self.evaluate(self.model, self.step).items()}
            for module, mode in modes:
                module.training = mode
            self.last_evaluation = numbers
            log.write(
                {
                    "step": self.step,
                    "epoch": round(self.step / self.per_epoch, 4),
                    "evaluation": {
                        n: value if math.isfinite(value) else None for n, value in numbers.items()
                    },
                    "seconds": round(self.seconds, 2),
                },
                self.total,
            )
        self.accelerator.wait_for_everyone()

    # -------------------------------------------------------------- checkpoints

    def _save(self) -> Path:
        folder = self.out / CHECKPOINTS
        final = folder / _name(self.step)
        aside = folder / f".partial-{uuid.uuid4().hex[:12]}"
        state = {
            "format": _FORMAT,
            "step": self.step,
            "seconds": self.seconds,
            "sums": self.sums,
            "losses": self.last_losses,
            "evaluation": self.last_evaluation,
            **self.described,
        }
        try:
            aside.mkdir(parents=True)
            save_file(self._weights(), aside / "model.safetensors")
            torch.save(self.optimizer.optimizer.state_dict(), aside / "optimizer.pt")
            if self.accelerator.scaler is not None:
                torch.save(self.accelerator.scaler.state_dict(), aside / "scaler.pt")
            (aside / _STATE).write_text(json.dumps(state, ensure_ascii=False), encoding="utf-8")
            for file in aside.iterdir():
                with open(file, "rb") as written:
                    os.fsync(written.fileno())
            if final.exists():
                _remove(final)
            os.replace(aside, final)
        except Exception as error:  # on a full disk every library raises its own
            shutil.rmtree(aside, ignore_errors=True)
            raise ResultWriteError(
                f"the checkpoint {final} could not be written: {' '.join(str(error).split())}; those before "
                "are whole"
            ) from error
        for old in _checkpoints(folder)[: -self.settings.keep_checkpoints]:
            _remove(old)
        return final

    def _weights(self) -> dict[str, Tensor]:
        """Trained parameters and buffers by name; what is frozen comes with the model."""
        kept = self.model.state_dict().keys()
        tensors = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        tensors |= {name: buffer for name, buffer in self.model.named_buffers() if name in kept}
        return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}

    def _resume(self) -> int:
        folder = self.out / CHECKPOINTS
        if self.accelerator.is_main_process:
            for left in folder.glob(".partial-*"):  # a killed run was writing or removing it
                shutil.rmtree(left, ignore_errors=True)
        self.accelerator.wait_for_everyone()
        there = _checkpoints(folder)
        if there:
            self._load(there[-1])
        if self.accelerator.is_main_process:
            for old in there[: -self.settings.keep_checkpoints]:
                _remove(old)
            record = {**self.described, "versions": {n: version(n) for n in ("torch", "accelerate")}}
            write_text(
                self.out / RECORD, json.dumps(record, indent=2, ensure_ascii=False) + "\n", "run's record"
            )
        self.accelerator.wait_for_everyone()
        return self.step

    def _load(self, folder: Path) -> None:
        try:
            state = json.loads((folder / _STATE).read_text(encoding="utf-8"))
            if state["format"] != _FORMAT:
                raise CapscoreError(f"{folder} is a checkpoint of another version of this loop")
            _check_same(self.out, state, self.described, self.settings.schedule)
            weights = load_file(folder / "model.safetensors")
            optimizer = torch.load(folder / "optimizer.pt", map_location="cpu", weights_only=True)
            scaler = self.accelerator.scaler
            scaling = torch.load(folder / "scaler.pt", weights_only=True) if scaler is not None else None
        except CapscoreError:
            raise
        except Exception as error:  # every library has its own for a torn file
            raise CapscoreError(
                f"the checkpoint {folder} is damaged ({type(error).__name__}: {' '.join(str(error).split())})"
                "; remove it, and the same command goes on from the one before"
            ) from error
        own = self._weights()
        if own.keys() != weights.keys() or any(own[n].shape != t.shape for n, t in weights.items()):
            raise CapscoreError(
                f"the checkpoint {folder} is of another model: it has {len(weights)} tensors, the model "
                f"trains {len(own)}, and names or shapes differ"
            )
        with torch.no_grad():
            tensors = dict(self.model.named_parameters()) | dict(self.model.named_buffers())
            for name, tensor in weights.items():
                tensors[name].copy_(tensor)
        self.optimizer.optimizer.load_state_dict(optimizer)
        if scaler is not None:
            scaler.load_state_dict(scaling)
        self.step, self.seconds, self.sums = state["step"], state["seconds"], state["sums"]
        self.last_losses, self.last_evaluation = state["losses"], state["evaluation"]


class _Log:
    """The log of a run: whole lines, none of them later than the checkpoint that the run goes on from."""

    def __init__(self, path: Path, step: int, resumed: bool):
        lines = _lines_until(path, step) if resumed and path.exists() else []
        with whole_file(path, "log", make_folders=True) as file:
            file.write(b"".join(lines))
        self._file = open(path, "ab")

    def write(self, line: dict[str, Any], total: int) -> None:
        try:
            self._file.write(json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n")
            self._file.flush()
        except OSError as error:
            raise ResultWriteError(
                f"the log {self._file.name} could not be written: {error.strerror or error}"
            ) from error
        numbers = {**line.get("losses", {}), **line.get("evaluation", {})}
        shown = "  ".join(f"{n} {'–' if v is None else format(v, '.4g')}" for n, v in numbers.items())
        print(f"step {line['step']}/{total}  epoch {line['epoch']:g}  {shown}", file=sys.stderr, flush=True)

    def settle(self) -> None:
        """On disk for good: a checkpoint is about to say that these lines are there."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def read_log(out: str | Path) -> list[dict[str, Any]]:
    """The lines of a run's log; a last line that a kill cut short is left out.

    Args:
        out: folder of the run.

    Raises:
        CapscoreError: there is no log, or a line before the last is damaged; names the line.
    """
    path = Path(out).expanduser() / LOG
    if not path.is_file():
        raise CapscoreError(f"there is no {LOG} in {out}; expected the folder of a run")
    lines = []
    raw = path.read_bytes().split(b"\n")
    for number, line in enumerate(raw[:-1], start=1):
        try:
            entry = json.loads(line)
            int(entry["step"])
        except (ValueError, TypeError, KeyError):
            raise CapscoreError(f"{path}, line {number} is no line of a log") from None
        lines.append(entry)
    return lines


def _lines_until(path: Path, step: int) -> list[bytes]:
    return [
        json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        for line in read_log(path.parent)
        if line["step"] <= step
    ]


# ------------------------------------------------------------------ processes


class _GatherRows(torch.autograd.Function):
    """Rows r, r + world, … of process r → all rows in order. Backward sums the processes' gradients."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, total: int, rank: int, world: int) -> Tensor:
        ctx.rank, ctx.world = rank, world
        most = -(-total // world)
        padded = tensor.new_zeros((most, *tensor.shape[1:]))
        padded[: len(tensor)] = tensor
        parts = [torch.empty_like(padded) for _ in range(world)]
        torch.distributed.all_gather(parts, padded)
        return torch.stack(parts, dim=1).reshape(most * world, *tensor.shape[1:])[:total].contiguous()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        gradient = gradient.contiguous().clone()
        torch.distributed.all_reduce(gradient)
        return gradient[ctx.rank :: ctx.world].contiguous(), None, None, None


def _gather(total: int, rank: int, world: int) -> Gather:
    expected = len(range(rank, total, world))

    def gather(tensor: Tensor) -> Tensor:
        if tensor.ndim == 0 or len(tensor) != expected:
            raise CapscoreError(
                f"gather takes a tensor with one entry a row in its first dimension, here {expected}; "
                f"given was one of shape {tuple(tensor.shape)}"
            )
        if world == 1:
            return tensor
        if tensor.dtype == torch.bool:
            return _GatherRows.apply(tensor.to(torch.uint8), total, rank, world).bool()
        return _GatherRows.apply(tensor, total, rank, world)

    return gather


def _average(gradients: list[Tensor], world: int) -> None:
    flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
    torch.distributed.all_reduce(flat)
    flat /= world
    start = 0
    for gradient in gradients:
        gradient.copy_(flat[start : start + gradient.numel()].view_as(gradient))
        start += gradient.numel()


@contextmanager
def _alone(out: Path, accelerator: Accelerator) -> Iterator[None]:
    """Two runs in one folder would write over each other; a killed one leaves the lock open."""
    if not accelerator.is_main_process:
        yield
        return
    lock = FileLock(out / ".lock", timeout=0)
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise CapscoreError(f"another process is training in {out} right now") from None
    except OSError as error:
        raise ResultWriteError(f"{out} cannot be written: {error.strerror or error}") from error
    try:
        yield
    finally:
        lock.release()


# ----------------------------------------------------------------- parts of it


def _parts(rows: Sequence[Any], count: int, world: int) -> list[Sequence[Any]]:
    """A batch in `count` parts of like size, fewer where a part would have no row for some process."""
    count = max(1, min(count, len(rows) // world))
    edges = [len(rows) * place // count for place in range(count + 1)]
    return [rows[start:stop] for start, stop in pairwise(edges)]


def _schedule(settings: LoopSettings, step: int, total: int) -> float:
    """The part of the learning rate at a 0-based step."""
    warmup = settings.warmup_steps
    if step < warmup:
        return (step + 1) / warmup
    if settings.schedule == "constant":
        return 1.0
    done = (step - warmup) / max(1, total - warmup)
    return 1 - done if settings.schedule == "linear" else (1 + math.cos(math.pi * done)) / 2


def _groups(
    model: nn.Module, parameters: Iterable[Any] | None, settings: LoopSettings
) -> list[dict[str, Any]]:
    """AdamW's groups; every parameter in none of them is frozen."""
    own = {id(parameter): name for name, parameter in model.named_parameters()}
    given = [p for p in model.parameters() if p.requires_grad] if parameters is None else list(parameters)
    groups = given if given and isinstance(given[0], dict) else [{"params": given}]
    defaults = {"lr": settings.learning_rate, "weight_decay": settings.weight_decay}
    groups = [{**defaults, **group, "params": list(group["params"])} for group in groups]
    trained = {id(parameter) for group in groups for parameter in group["params"]}
    if not trained:
        raise CapscoreError("the model has no parameter to train: all are frozen, or none was named")
    if trained - own.keys():
        raise CapscoreError(f"{len(trained - own.keys())} of the parameters to train are none of the model's")
    for parameter in model.parameters():
        parameter.requires_grad_(id(parameter) in trained)
    return groups


def _frozen_digest(model: nn.Module) -> str:
    """Digest of the parameters that do not train: a checkpoint leaves them out."""
    digest = xxhash.xxh3_128()
    for name, parameter in sorted(model.named_parameters()):
        if not parameter.requires_grad:
            digest.update(f"{name}|{parameter.dtype}|{tuple(parameter.shape)}|".encode())
            flat = parameter.detach().cpu().contiguous().flatten()
            if flat.numel():
                digest.update(memoryview(flat.view(torch.uint8).numpy()))
    return digest.hexdigest()


def _check_same(out: Path, state: Mapping[str, Any], given: Mapping[str, Any], schedule: str) -> None:
    """Raise where the run in a folder was made with other settings; names them."""
    differ = []
    for part in ("settings", "identity"):
        for name in sorted(state[part].keys() | given[part].keys()):
            before, now = state[part].get(name), given[part].get(name)
            if before != now and not (part == "settings" and name in MAY_CHANGE):
                differ.append(f"{name}={_short(before)}, but {_short(now)} was given")
    if state["frozen"] != given["frozen"]:
        differ.append("other frozen weights than those of the model given")
    if state["steps_per_epoch"] != given["steps_per_epoch"]:
        differ.append(
            f"{state['steps_per_epoch']} steps an epoch, but the data given makes {given['steps_per_epoch']}"
        )
    elif state["total_steps"] != given["total_steps"] and schedule != "constant":
        differ.append(
            f"{state['total_steps']} steps in all, over which its {schedule} schedule falls, but "
            f"{given['total_steps']} were asked for (epochs, max_steps)"
        )
    if differ:
        raise CapscoreError(
            f"{out} holds a run with {'; '.join(differ)}. Go on with its settings ({out / RECORD}), or give "
            "another folder as out"
        )


def _short(value: Any) -> str:
    text = "nothing" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else text[:99] + "…"


def _as_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """What a file will give back: tuples are lists there."""
    return json.loads(json.dumps(dict(values), ensure_ascii=False, default=str))


def _checkpoints(folder: Path) -> list[Path]:
    """Whole checkpoints, oldest first."""
    found = [path for path in folder.glob("step-*") if path.name.removeprefix("step-").isdigit()]
    return sorted(found, key=lambda path: int(path.name.removeprefix("step-")))


def _remove(checkpoint: Path) -> None:
    """Renamed first: what has a checkpoint's name is whole."""
    aside = checkpoint.with_name(f".partial-{uuid.uuid4().hex[:12]}")
    os.replace(checkpoint, aside)
    shutil.rmtree(aside, ignore_errors=True)


def _name(step: int) -> str:
    return f"step-{step:06d}"


def _due(every: int | None, step: int) -> bool:
    return every is not None and step % every == 0


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _require(good: bool, name: str, value: Any, expected: str) -> None:
    if not good:
        raise CapscoreError(f"{name}={value!r}: expected {expected}")
