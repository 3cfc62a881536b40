"""One training loop for every recipe: steps, several processes, precision, log, checkpoints, exact resume.

In: a model, batches that are a pure function of epoch and step, a loss. Out: the trained model, and in the
folder of the run `log.jsonl` and `checkpoints/`. The same command continues a run that was stopped or killed,
and ends with the same weights as without the stop (on a CPU to 1e-6).
"""

from __future__ import annotations

import json
import math
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import parse_flag_from_env, set_seed
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from capscore.errors import CapscoreError, Setting
from capscore.files.console import progress_bar
from capscore.files.write import write_text
from training.data.batches import Batches, kinds_of
from training.engine import processes
from training.engine.checkpoints import MAY_CHANGE, Checkpoints, frozen_digest, step_name
from training.engine.early_stopping import EarlyStopping
from training.engine.loop_settings import LoopSettings
from training.engine.processes import Gather, device, say
from training.engine.training_log import LOG, Log, duration, for_json

# Files of a checkpoint, besides those of accelerate.
_STATE, _WEIGHTS, _BEST = "state.json", "model.safetensors", "best.safetensors"
# Settings that make a run what it is.
_SETTINGS = LoopSettings.__dataclass_fields__.keys() - MAY_CHANGE
# What a run remembers, besides its weights.
_PROGRESS = ("step", "seconds", "recent", "last_losses", "last_evaluation", "stopped", "learned")

Loss = Callable[[nn.Module, Sequence[Any], Gather], Mapping[str, Tensor]]
Evaluate = Callable[[nn.Module, int], Mapping[str, float]]
AfterStep = Callable[[nn.Module], None]


@dataclass(frozen=True)
class RunResult:
    """How far a run has come.

    `finished` says whether all steps are done, or early stopping ended the run; `best_step` is then the step
    whose weights the model has. `losses` are those of the last line of the log, `evaluation` is the last, or
    the best with early stopping; {} without any. `seconds` are those of all commands.
    """

    step: int
    finished: bool
    resumed_from: int
    losses: dict[str, float]
    evaluation: dict[str, float]
    seconds: float
    best_step: int | None = None


def run(
    model: nn.Module,
    batches: Batches,
    loss: Loss,
    settings: LoopSettings,
    *,
    evaluate: Evaluate | None = None,
    parameters: Iterable[nn.Parameter] | Iterable[dict[str, Any]] | None = None,
    identity: Mapping[str, object] | None = None,
    after_step: AfterStep | None = None,
    early_stopping: EarlyStopping | None = None,
    accumulation_steps: int = 1,
) -> RunResult:
    """Train a model in place, from the newest checkpoint in `settings.out` or from the start.

    Args:
        model: Model to train. It is moved to `device()` and keeps its mode: call `model.train()` first
            for dropout. Every random draw depends only on seed, step and process.
        batches: Source of the rows. Each process takes rows[rank::world] of each part of a batch. Gradients
            of the kinds of a batch that is `InTurn` are summed.
        loss: (model, this process's rows, gather) → scalars by name, among them "loss", which is minimised.
            `gather` joins a tensor with one entry per row over the processes, with gradients, so that a loss
            on gathered tensors equals that in one process. Under autocast; its numbers should be float32.
        evaluate: (model, step) → numbers by name, in eval mode, in float32 and without gradients; called in
            the main process alone, so it must not gather.
        parameters: Parameters to train, or AdamW's groups of them; all others are frozen. None for those
            that require gradients.
        identity: What else a run must share with the one it continues, such as a digest of the data.
        after_step: Called with the model after each step, in every process. What it remembers must be in
            buffers of the model.
        early_stopping: When the evaluations end the run; the model then gets the weights of the best one.
        accumulation_steps: Parts into which a batch is cut, in order, to save memory; only for a loss that is
            the mean of those of the rows, since it sees one part at a time.

    Raises:
        CapscoreError: the folder holds a run with other settings; a loss or gradient is not finite (the
            error names epoch, step and rows); no parameter to train; a batch with fewer rows than processes;
            every gradient was 0.
        KeyboardInterrupt, SystemExit: Ctrl-C or SIGTERM came; the step was finished, and is a checkpoint.

    >>> import contextlib, io, tempfile
    >>> from training.data.batches import ShuffledBatches
    >>> def loss(model, rows, gather):
    ...     x = torch.tensor(rows)
    ...     return {"loss": gather(model(x) - 3 * x).square().mean()}
    >>> line, rows = nn.Linear(1, 1, bias=False), [[1.0], [2.0], [-1.0], [0.5]]
    >>> with tempfile.TemporaryDirectory() as out, contextlib.redirect_stderr(io.StringIO()):
    ...     settings = LoopSettings(out, epochs=100, batch_size=2, learning_rate=0.1, weight_decay=0.0)
    ...     result = run(line, ShuffledBatches(rows, 2, seed=0), loss, settings)
    >>> result.step, result.finished, round(line.weight.item(), 2)
    (200, True, 3.0)
    """
    if settings.precision == "fp16" and device() == "cpu":
        raise CapscoreError(Setting("precision", "fp16"), " needs a GPU; take 'bf16' or 'no' on a CPU")
    for name in ("DEEPSPEED", "FSDP"):
        if parse_flag_from_env(f"ACCELERATE_USE_{name}"):
            raise CapscoreError(f"accelerate is set to {name}, which this loop lacks; use MULTI_GPU")
    AcceleratorState._reset_state()  # a process keeps its precision for good, but each run has its own
    accelerator = Accelerator(mixed_precision=settings.precision)
    out = Path(settings.out).expanduser()
    with processes.alone_in(out):
        groups = _groups(model.to(accelerator.device), parameters, settings)
        hooks = evaluate, after_step, early_stopping
        training = _Run(model, batches, loss, settings, *hooks, accumulation_steps, accelerator)
        training.prepare(groups, identity or {})
        return training.go()


@dataclass(eq=False)
class _Run:
    """A run: the model, and how far it has come."""

    model: nn.Module
    batches: Batches
    loss: Loss
    settings: LoopSettings
    evaluate: Evaluate | None
    after_step: AfterStep | None
    early_stopping: EarlyStopping | None
    accumulation_steps: int
    accelerator: Accelerator

    def __post_init__(self) -> None:
        settings = self.settings
        self.out, self.per_epoch = Path(settings.out).expanduser(), self.batches.steps_per_epoch
        self.total = settings.max_steps or settings.epochs * self.per_epoch
        self.step = 0
        self.seconds = 0.0
        self.began = (0, 0.0)  # step and seconds at which this command began
        self.recent: dict[str, list[float]] = {}  # values of the steps since the last line of the log
        self.last_losses: dict[str, float] = {}
        self.last_evaluation: dict[str, float] = {}
        self.stopped = False  # by early stopping
        self.learned = False  # whether a gradient was not 0
        self.log: Log | None = None  # of the main process

    def prepare(self, groups: list[dict[str, Any]], identity: Mapping[str, object]) -> None:
        """Set up the optimizer for groups of parameters, and the checkpoints of the run."""
        settings, accelerator = self.settings, self.accelerator
        self.trained = list(chain.from_iterable(group["params"] for group in groups))
        self.top_rates = [group["lr"] for group in groups]
        betas = settings.betas[0], settings.betas[1]
        self.optimizer = accelerator.prepare(torch.optim.AdamW(groups, betas=betas, eps=settings.eps))
        described = {
            **{name: getattr(settings, name) for name in _SETTINGS},
            **identity,
            "accumulation_steps": self.accumulation_steps,
            "processes": accelerator.num_processes,
            "steps per epoch": self.per_epoch,
            "digest of the frozen weights": frozen_digest(self.model),
        }
        if settings.schedule != "constant":  # it falls over all steps
            described["total steps"] = self.total
        self.checkpoints = Checkpoints(self.out, described, settings.keep_checkpoints, accelerator)

    def go(self) -> RunResult:
        if self.accelerator.is_main_process:
            self.checkpoints.tidy()
        self.accelerator.wait_for_everyone()
        if there := self.checkpoints.listed():
            self.checkpoints.read(there[-1], self._load)
        resumed_from, before = self.began = self.step, self.seconds
        started = time.monotonic()
        if self.accelerator.is_main_process:
            self.log = Log(self.out / LOG, self.step)
        if self.step == 0:
            if self.settings.warmup_steps > self.total:
                share = self.total / self.settings.warmup_steps
                say(f"the run ends in its warm-up (warmup_steps): its rate reaches {share:.0%} of its top")
            self._evaluate()
        limit = 60 * (self.settings.max_minutes or math.inf)
        goes_on = True
        with ExitStack() as stack:
            shown: bool | None = False
            if self.log is not None:
                stack.enter_context(closing(self.log))
                shown = None  # as the terminal is
            received = stack.enter_context(_signals())
            bar = progress_bar("Training", self.total, shown=shown, done=self.step)
            advance = stack.enter_context(bar)
            while self.step < self.total and goes_on and not self.stopped:
                self._train_step()
                advance(1)
                self.seconds = before + time.monotonic() - started
                if self.step == resumed_from + 1 < self.total:
                    say(f"step {self.step}/{self.total}: about {duration(self._time_left())} left")
                last = self.step == self.total
                if last or self.step % self.settings.log_every == 0:
                    self._write_losses()
                if last or self._due(self.settings.evaluate_every):
                    self._evaluate()
                last = last or self.stopped
                self.seconds = before + time.monotonic() - started
                goes_on = self._agreed(self.seconds - before < limit and not received)
                if last or not goes_on or self._due(self.settings.checkpoint_every):
                    if self.log is not None:
                        self.log.settle()
                    self.checkpoints.write(self.step, self._save)
        finished, best = self.step >= self.total or self.stopped, self.early_stopping
        if received and not finished:
            if received[0] == signal.SIGINT:
                raise KeyboardInterrupt
            raise SystemExit(128 + received[0])
        if finished and not self.learned:
            why = "the loss does not depend on what is trained, as where it compares rows that are alike"
            raise CapscoreError(f"nothing was learned: the gradient was 0 in all {self.step} steps; {why}")
        if finished and best is not None:
            self._put_in(processes.tensors_of_main_process(best.weights or self._weights()))
        result = RunResult(
            self.step, finished, resumed_from, self.last_losses, self.last_evaluation, self.seconds
        )
        if best is None or not best.weights:
            return result
        return replace(result, evaluation=best.evaluation, best_step=best.step)

    def _train_step(self) -> None:
        """One update of the weights, by the summed gradients of all parts of a batch."""
        world = self.accelerator.num_processes
        epoch, step_in_epoch = divmod(self.step, self.per_epoch)
        rows = self.batches.batch(epoch, step_in_epoch)
        kinds = kinds_of(rows)
        fewest = min(map(len, kinds))
        if fewest < world:
            problem = f"a batch of {fewest} rows for {world} processes; take a larger batch_size, or fewer"
            raise CapscoreError(f"epoch {epoch + 1}, step {self.step + 1}: {problem} processes")
        rate = _schedule(self.settings, self.step, self.total)
        for group, top in zip(self.optimizer.param_groups, self.top_rates, strict=True):
            group["lr"] = top * rate
        self.optimizer.zero_grad(set_to_none=True)
        totals: dict[str, float] = defaultdict(float)
        shares: dict[str, float] = defaultdict(float)
        number = 0
        for kind in kinds:
            for part in split_batch(kind, self.accumulation_steps, world):
                share = len(part) / len(kind)
                for name, value in self._backward(number, part, share, rows).items():
                    totals[name] += value * share
                    shares[name] += share
                number += 1
        shares["loss"] = 1.0  # the sum over the kinds, which is minimised
        values = {name: total / shares[name] for name, total in totals.items()} | self._update(rows)
        self.step += 1
        for name, value in values.items():
            self.recent.setdefault(name, []).append(value)

    def _backward(
        self, number: int, part: Sequence[Any], share: float, rows: Sequence[Any]
    ) -> dict[str, float]:
        """Add the gradients of a part of a batch; returns its losses, the means over the processes."""
        accelerator = self.accelerator
        world, rank = accelerator.num_processes, accelerator.process_index
        seeds = np.random.SeedSequence([self.settings.seed, self.step, number, rank])
        set_seed(int(seeds.generate_state(1)[0]))
        with accelerator.autocast():
            losses = self.loss(self.model, part[rank::world], processes.gather_rows(len(part), rank, world))
        means = torch.stack([value.detach().float() for value in losses.values()])
        if world > 1:
            torch.distributed.all_reduce(means)
            means /= world
        values = dict(zip(losses, means.tolist(), strict=True))
        bad = [f"{name} is {value}" for name, value in values.items() if not math.isfinite(value)]
        if bad:
            self._stop(rows, ", ".join(bad))
        accelerator.backward(losses["loss"] * share)
        return values

    def _update(self, rows: Sequence[Any]) -> dict[str, float]:
        """Change the weights by their gradients; gives the gradient's norm, and whether it was skipped."""
        processes.average_gradients(self.trained)
        norm = float(self.accelerator.clip_grad_norm_(self.trained, self.settings.clip_norm or math.inf))
        scaled = self.accelerator.scaler is not None  # the scaler itself skips a step with such gradients
        values = {}
        if math.isfinite(norm):
            values["grad_norm"] = norm
            self.learned = self.learned or norm > 0
        elif not scaled:
            self._stop(rows, f"the gradient's norm is {norm}")
        self.optimizer.step()
        if self.after_step is not None:
            with torch.no_grad():
                self.after_step(self.model)
        if scaled:
            values["skipped"] = float(self.accelerator.optimizer_step_was_skipped)
        return values

    def _stop(self, rows: Sequence[Any], why: str) -> None:
        path = self.out / f"stopped-{step_name(self.step + 1)}.txt"
        if self.accelerator.is_main_process:
            write_text(path, "".join(f"{row!r}\n" for row in rows), "list of rows")
        place = f"epoch {self.step // self.per_epoch + 1}, step {self.step + 1}"
        said = f"The batch's {len(rows)} rows, from {rows[0]!r:.160} on, are in {path}"
        hint = Setting("learning_rate"), " or ", Setting("precision", "no"), " may help"
        raise CapscoreError(f"{place}: {why}. {said}. Earlier checkpoints are intact. A lower ", *hint)

    def _due(self, every: int | None) -> bool:
        return every is not None and self.step % every == 0

    def _agreed(self, answer: bool) -> bool:
        """The answer of the main process, in every process."""
        return bool(processes.tensors_of_main_process({"": torch.tensor(int(answer))})[""])

    def _write_losses(self) -> None:
        means = {name: math.fsum(values) / len(values) for name, values in self.recent.items()}
        extra: dict[str, float] = {
            name: means.pop(name) for name in ("grad_norm", "skipped") if name in means
        }
        self.recent, self.last_losses = {}, means
        rate = max(group["lr"] for group in self.optimizer.param_groups)
        self._write({"lr": rate, "losses": means, **extra})

    def _write(self, content: Mapping[str, object]) -> None:
        if self.log is None:
            return
        line = {"step": self.step, "epoch": round(self.step / self.per_epoch, 4), **content}
        self.log.write({**line, "seconds": round(self.seconds, 2)}, self.total, self._time_left())

    def _time_left(self) -> float:
        """Estimate of the remaining seconds, by the pace of this command; 0 before its first step."""
        step, seconds = self.began
        return (self.seconds - seconds) / max(1, self.step - step) * (self.total - self.step)

    def _evaluate(self) -> None:
        """Measure in the main process, and settle whether the run ends."""
        stopping = self.early_stopping
        if self.evaluate is not None and self.accelerator.is_main_process:
            modes = [(module, module.training) for module in self.model.modules()]
            self.model.eval()
            with torch.no_grad():  # in float32 at any precision, as what the numbers are compared with
                numbers = {name: float(n) for name, n in self.evaluate(self.model, self.step).items()}
            for module, mode in modes:
                module.training = mode
            self.last_evaluation = numbers
            if stopping is not None:
                stopping.take(self.step, numbers, self._weights)
            self._write({"evaluation": for_json(numbers)})
        if stopping is not None:
            self.stopped = self.stopped or self._agreed(stopping.ends)
        self.accelerator.wait_for_everyone()

    def _save(self, folder: Path) -> None:
        best = self.early_stopping
        state = {name: getattr(self, name) for name in _PROGRESS}
        if best is not None and best.weights:
            state["best"] = best.state()
            save_file(best.weights, folder / _BEST)
        (folder / _STATE).write_text(json.dumps(state, ensure_ascii=False), encoding="utf-8")
        save_file(self._weights(), folder / _WEIGHTS)

    def _load(self, folder: Path) -> None:
        state = json.loads((folder / _STATE).read_text(encoding="utf-8"))
        self._put_in(load_file(folder / _WEIGHTS))
        best = state.pop("best", None)
        vars(self).update({"learned": True, **state})
        if best is not None and self.early_stopping is not None:
            self.early_stopping.load(best, load_file(folder / _BEST))

    def _weights(self) -> dict[str, Tensor]:
        """A copy of what is trained and of buffers, on the CPU."""
        return {name: tensor.detach().cpu().clone().contiguous() for name, tensor in self._named().items()}

    def _named(self) -> dict[str, Tensor]:
        """Trained parameters and buffers by name; what is frozen comes with the model."""
        kept = self.model.state_dict().keys()
        tensors = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        return tensors | {name: buffer for name, buffer in self.model.named_buffers() if name in kept}

    @torch.no_grad()
    def _put_in(self, weights: Mapping[str, Tensor]) -> None:
        named = self._named()
        for name, tensor in weights.items():
            named[name].copy_(tensor)


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Ctrl-C and SIGTERM that came: the first ends a run after its step, a second one at once."""
    received: list[int] = []

    def receive(number: int, frame: FrameType | None) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)

    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    before = {number: signal.signal(number, receive) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def split_batch(rows: Sequence[Any], count: int, world: int) -> list[Sequence[Any]]:
    """A batch in `count` parts of similar size, fewer where a part would leave a process without a row."""
    count = max(1, min(count, len(rows) // world))
    edges = [len(rows) * index // count for index in range(count + 1)]
    return [rows[start:stop] for start, stop in pairwise(edges)]


def _schedule(settings: LoopSettings, step: int, total: int) -> float:
    """Share of the top learning rate at a step, counted from 0."""
    warmup = settings.warmup_steps
    if step < warmup:
        return (step + 1) / warmup
    if settings.schedule == "constant":
        return 1.0
    done = (step - warmup) / max(1, total - warmup)
    if settings.schedule == "linear":
        return 1 - done
    return (1 + math.cos(math.pi * done)) / 2


def _groups(
    model: nn.Module, parameters: Iterable[Any] | None, settings: LoopSettings
) -> list[dict[str, Any]]:
    """AdamW's groups of parameters; a parameter in no group is frozen."""
    if parameters is None:
        parameters = [p for p in model.parameters() if p.requires_grad]
    given = list(parameters)
    if not given or not isinstance(given[0], dict):
        given = [{"params": given}]
    defaults = {"lr": settings.learning_rate, "weight_decay": settings.weight_decay}
    groups = [{**defaults, **group, "params": list(group["params"])} for group in given]
    trained = set(map(id, chain.from_iterable(group["params"] for group in groups)))
    if not trained:
        raise CapscoreError("the model has no parameter to train: all are frozen, or none was named")
    for parameter in model.parameters():
        parameter.requires_grad_(id(parameter) in trained)
    return groups
