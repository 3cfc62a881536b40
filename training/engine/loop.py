"""One training loop for every recipe: steps, several processes, precision, log, checkpoints, exact resume.

In: a model, batches that are a pure function of epoch and step, a loss. Out: the trained model, and in the
folder of the run `log.jsonl` and `checkpoints/`. The same command continues a run that was
stopped or killed, and ends with the same weights as without the stop (on a CPU to 1e-6).

    python -m training.teacher_learning --config …                       # one process
    accelerate launch -m training.teacher_learning --config …            # one process per GPU
    ACCELERATE_USE_CPU=true torchrun --nproc_per_node 2 -m training.…    # several on a CPU
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import parse_flag_from_env, patch_environment, set_seed
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from capscore.errors import CapscoreError, Setting
from capscore.files.console import progress_bar
from capscore.files.write import write_text
from training.data.batches import Batches, kinds_of
from training.engine.checkpoints import Checkpoints, frozen_digest, step_name
from training.engine.early_stopping import Best, EarlyStopping
from training.engine.loop_settings import LoopSettings
from training.engine.processes import (
    Gather,
    alone_in,
    average_gradients,
    device,
    gather_rows,
    is_one_of_several,
    tensors_of_main_process,
)
from training.engine.sharded_layers import (
    ShardedLayers,
    clip_gradients,
    is_sharded,
    load_whole_state,
    part_of,
    whole,
    whole_state,
)
from training.engine.training_log import LOG, Log

# Number of rows of a batch that an error shows; all of them are in a file beside the log.
_ROWS_SHOWN = 8
# Files of a checkpoint, besides those of accelerate.
_STATE, _WEIGHTS, _BEST, _OPTIMIZER = "state.json", "model.safetensors", "best.safetensors", "sharded.pt"

# What a run remembers, besides its weights.
_PROGRESS = ("step", "seconds", "sums", "last_losses", "last_evaluation", "stopped")
_SETTINGS = tuple(LoopSettings.__dataclass_fields__)

Loss = Callable[[nn.Module, Sequence[Any], Gather], Mapping[str, Tensor]]
Evaluate = Callable[[nn.Module, int], Mapping[str, float]]
AfterStep = Callable[[nn.Module], None]


@dataclass(frozen=True)
class RunResult:
    """How far a run has come.

    Attributes:
        step: Number of steps done in all.
        finished: Whether these are all steps, or early stopping ended the run; False where `max_minutes` did.
        resumed_from: Step that the run continued from, 0 for the start.
        losses: Means of the losses in the last line of the log; {} without any.
        evaluation: Numbers of the last evaluation, or of the best one with early stopping; {} without any.
        seconds: Training time over all commands, evaluations included.
        log: File of losses and evaluations.
        checkpoint: The newest checkpoint.
        best_step: Step whose weights the model has, where early stopping chose them; else None.
    """

    step: int
    finished: bool
    resumed_from: int
    losses: dict[str, float]
    evaluation: dict[str, float]
    seconds: float
    log: Path
    checkpoint: Path
    best_step: int | None = None


def run(
    model: nn.Module,
    batches: Batches,
    loss: Loss,
    settings: LoopSettings,
    *,
    evaluate: Evaluate | None = None,
    parameters: Iterable[nn.Parameter] | Iterable[dict[str, Any]] | None = None,
    identity: Mapping[str, Any] | None = None,
    after_step: AfterStep | None = None,
    early_stopping: EarlyStopping | None = None,
    shard_layers: bool | None = None,
) -> RunResult:
    """Train a model in place, from the newest checkpoint in `settings.out` or from the start.

    Args:
        model: Model to train. It is moved to `device()` and keeps its mode: call `model.train()` first if
            its dropout should work. Every random draw depends only on seed, step and process.
        batches: Source of the rows. Each process takes rows[rank::world] of each part of a batch. A batch
            that is `InTurn` has batches of several kinds, whose gradients are summed before the update.
        loss: (model, this process's rows, gather) → scalars by name, among them "loss", which is minimised.
            `gather` joins a tensor with one entry per row, in the first dimension, over the processes, in
            the batch's order, with gradients: a loss on gathered tensors equals the loss in one process.
            Computed under autocast; its numbers should be float32.
        settings: Settings of the loop.
        evaluate: (model, step) → numbers by name, in eval mode and without gradients; called in the main
            process alone, so it must not gather.
        parameters: Parameters to train, or AdamW's groups of them ("params", "lr", "weight_decay"); all
            others are frozen. None for those that require gradients.
        identity: What else makes the run what it is, ready for JSON, such as a recipe's own settings and a
            digest of the data. A run continues only with the same identity.
        after_step: Called with the model after each step, in every process and without gradients. What it
            remembers must be in buffers of the model, which checkpoints hold.
        early_stopping: When the evaluations end the run; the model then gets the weights of the best one.
        shard_layers: Whether the processes share the weights of the layers among them (FSDP), also where
            accelerate's launcher asks for it: the loss must compute the layers equally often in each. None
            where it does not.

    Raises:
        CapscoreError: the folder holds a run with other settings; a loss or gradient is not finite (the
            error names epoch, step and rows, and the weights are those before the step); no parameter to
            train; a batch with fewer rows than processes.
        ResultWriteError: the folder cannot be written; the checkpoints before are whole.

    >>> import contextlib, io, tempfile
    >>> from training.data.batches import ShuffledBatches
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
    if settings.precision == "fp16" and device() == "cpu":
        raise CapscoreError(Setting("precision", "fp16"), " needs a GPU; take 'bf16' or 'no' on a CPU")
    sharded = _is_sharded(shard_layers, settings.precision)
    AcceleratorState._reset_state()  # a process keeps its precision for good, but each run has its own
    # the loop shards the model itself, on every kind of device
    with patch_environment(ACCELERATE_USE_FSDP="false"):
        accelerator = Accelerator(mixed_precision=settings.precision)
    out = Path(settings.out).expanduser()
    with alone_in(out):
        training = _Run(model, batches, loss, settings, accelerator, out)
        training.after_step, training.early_stopping = after_step, early_stopping
        training.evaluate = evaluate
        training.prepare(parameters, identity or {}, sharded)
        return training.go()


def _is_sharded(wanted: bool | None, precision: str) -> bool:
    launched = parse_flag_from_env("ACCELERATE_USE_FSDP")
    unwanted = {
        "DeepSpeed": parse_flag_from_env("ACCELERATE_USE_DEEPSPEED"),
        "FSDP with parameters on the CPU": launched and parse_flag_from_env("FSDP_OFFLOAD_PARAMS"),
        "FSDP": launched and wanted is None,
    }
    for name, is_set in unwanted.items():
        if is_set:
            raise CapscoreError(f"accelerate is set to {name}, which this recipe does not do; take MULTI_GPU")
    if not (launched or wanted) or not is_one_of_several():
        return False
    if precision == "fp16":
        raise CapscoreError(Setting("precision", "fp16"), " needs whole layers; take 'bf16' with shards")
    return True


class _Run:
    """A run: the model, and how far it has come."""

    def __init__(
        self,
        model: nn.Module,
        batches: Batches,
        loss: Loss,
        settings: LoopSettings,
        accelerator: Accelerator,
        out: Path,
    ):
        self.model = model.to(accelerator.device)
        self.batches, self.loss, self.settings = batches, loss, settings
        self.accelerator, self.out = accelerator, out
        self.after_step: AfterStep | None = None
        self.early_stopping: EarlyStopping | None = None
        self.evaluate: Evaluate | None = None
        self.per_epoch = batches.steps_per_epoch
        self.total = settings.max_steps or settings.epochs * self.per_epoch
        self.sharded_layers: ShardedLayers | None = None
        self.step = 0
        self.seconds = 0.0
        self.began = (0, 0.0)  # step and seconds at which this command began
        # name → (sum, number of steps) since the last line of the log
        self.sums: dict[str, list[float]] = {}
        self.last_losses: dict[str, float] = {}
        self.last_evaluation: dict[str, float] = {}
        self.best: Best | None = None
        self.stopped = False  # by early stopping

    def prepare(self, parameters: Iterable[Any] | None, identity: Mapping[str, Any], sharded: bool) -> None:
        """Make the optimizer, and the hooks by which accelerate saves and loads the rest."""
        self.evaluates = self._agreed(self.evaluate is not None)  # other processes need not have the function
        groups, settings = _groups(self.model, parameters, self.settings), self.settings
        described = {
            "settings": _as_json({name: getattr(settings, name) for name in _SETTINGS}),
            "identity": _as_json(identity),
            "steps_per_epoch": self.per_epoch,
            "total_steps": self.total,
            "frozen": frozen_digest(self.model),
        }
        if sharded:
            names = {parameter: name for name, parameter in self.model.named_parameters()}
            self.sharded_layers = ShardedLayers(self.model)
            now = dict(self.model.named_parameters())
            groups = [{**group, "params": [now[names[p]] for p in group["params"]]} for group in groups]
        self.trained = [parameter for group in groups for parameter in group["params"]]
        self.top_rates = [group["lr"] for group in groups]
        # torch's fast loops do not mix sharded and whole parameters
        betas, quick = (settings.betas[0], settings.betas[1]), False if sharded else None
        optimizer = torch.optim.AdamW(groups, betas=betas, eps=settings.eps, foreach=quick)
        self.optimizer = optimizer if sharded else self.accelerator.prepare(optimizer)
        self.checkpoints = Checkpoints(self.out, described, settings.keep_checkpoints, self.accelerator)
        self.accelerator.register_save_state_pre_hook(self._save)
        self.accelerator.register_load_state_pre_hook(self._load)

    def go(self) -> RunResult:
        resumed_from = self._resume()
        started, before = time.monotonic(), self.seconds
        self.began = (self.step, before)
        log = Log(self.out / LOG, self.step, resumed_from > 0) if self.accelerator.is_main_process else None
        if self.step == 0:
            self._evaluate(log)
        limit = math.inf if self.settings.max_minutes is None else 60 * self.settings.max_minutes
        in_time = True
        shown = None if self.accelerator.is_main_process else False
        with progress_bar("Training", self.total, shown=shown, done=self.step) as advance:
            while self.step < self.total and in_time and not self.stopped:
                self._train_step()
                advance(1)
                self.seconds = before + time.monotonic() - started
                last = self.step == self.total
                if last or self.step % self.settings.log_every == 0:
                    self._write_losses(log)
                if last or _due(self.settings.evaluate_every, self.step):
                    self._evaluate(log)
                last = last or self.stopped
                self.seconds = before + time.monotonic() - started
                in_time = self._agreed(self.seconds - before < limit)
                if last or not in_time or _due(self.settings.checkpoint_every, self.step):
                    if log is not None:
                        log.settle()
                    self.checkpoints.write(self.step)
        if log is not None:
            log.close()
        finished = self.step >= self.total or self.stopped
        if self.sharded_layers is not None:
            self.sharded_layers.put_back()
        if finished:
            self._take_best()
        return RunResult(
            step=self.step,
            finished=finished,
            resumed_from=resumed_from,
            losses=self.last_losses,
            evaluation=self.last_evaluation if self.best is None else self.best.evaluation,
            seconds=self.seconds,
            log=self.out / LOG,
            checkpoint=self.checkpoints.at(self.step),
            best_step=None if self.best is None else self.best.step,
        )

    # -------------------------------------------------------------------- steps

    def _train_step(self) -> None:
        accelerator, settings = self.accelerator, self.settings
        world, rank = accelerator.num_processes, accelerator.process_index
        epoch, step_in_epoch = divmod(self.step, self.per_epoch)
        rows = self.batches.batch(epoch, step_in_epoch)
        kinds = kinds_of(rows)
        for kind in kinds:
            if len(kind) < world:
                raise CapscoreError(
                    f"epoch {epoch + 1}, step {self.step + 1}: a batch of {len(kind)} rows for {world} "
                    "processes; take a larger batch_size, or fewer processes"
                )
        rate = _schedule(settings, self.step, self.total)
        for group, top in zip(self.optimizer.param_groups, self.top_rates, strict=True):
            group["lr"] = top * rate
        self.optimizer.zero_grad(set_to_none=True)
        means: dict[str, list[float]] = {}
        parts = [
            (part, len(part) / len(kind))
            for kind in kinds
            for part in split_batch(kind, settings.accumulation_steps, world)
        ]
        for number, (part, share) in enumerate(parts):
            seeds = np.random.SeedSequence([settings.seed, self.step, number, rank])
            set_seed(int(seeds.generate_state(1)[0]))
            with accelerator.autocast():
                losses = dict(self.loss(self.model, part[rank::world], gather_rows(len(part), rank, world)))
            values = self._over_processes(losses)
            bad = [name for name, value in values.items() if not math.isfinite(value)]
            if bad:
                self._stop(rows, ", ".join(f"{name} is {values[name]}" for name in bad))
            accelerator.backward(losses["loss"] * share)
            for name, value in values.items():
                _add(means, name, value * share, share)
        step_values = {name: total / share for name, (total, share) in means.items()}
        step_values["loss"] = means["loss"][0]  # the sum over the kinds, which is minimised
        step_values |= self._update(rows)
        self.step += 1
        for name, value in step_values.items():
            _add(self.sums, name, value, 1)

    def _update(self, rows: Sequence[Any]) -> dict[str, float]:
        """Change the weights by their gradients; gives the gradient's norm, and whether it was skipped."""
        most = self.settings.clip_norm or math.inf
        # those of sharded parameters are averaged already
        average_gradients([parameter for parameter in self.trained if not is_sharded(parameter)])
        if self.sharded_layers is None:
            norm = float(self.accelerator.clip_grad_norm_(self.trained, most))
        else:
            norm = clip_gradients(self.trained, most)
        scaled = self.accelerator.scaler is not None  # the scaler itself skips a step with such gradients
        if not math.isfinite(norm) and not scaled:
            self._stop(rows, f"the gradient's norm is {norm}")
        self.optimizer.step()
        if self.after_step is not None:
            with torch.no_grad():
                self.after_step(self.model)
        values = {"grad_norm": norm} if math.isfinite(norm) else {}
        if scaled:
            values["skipped"] = float(self.accelerator.optimizer_step_was_skipped)
        return values

    def _over_processes(self, losses: Mapping[str, Tensor]) -> dict[str, float]:
        if "loss" not in losses:
            raise CapscoreError(f"the loss function gave {', '.join(losses) or 'nothing'}, but not 'loss'")
        values = torch.stack([value.detach().float() for value in losses.values()])
        if self.accelerator.num_processes > 1:
            torch.distributed.all_reduce(values)
            values /= self.accelerator.num_processes
        return dict(zip(losses, values.tolist(), strict=True))

    def _stop(self, rows: Sequence[Any], why: str) -> None:
        epoch, _ = divmod(self.step, self.per_epoch)
        path = self.out / f"stopped-{step_name(self.step + 1)}.txt"
        if self.accelerator.is_main_process:
            write_text(path, "".join(f"{row!r}\n" for row in rows), "list of rows")
        shown = [repr(row) for row in rows[:_ROWS_SHOWN]]
        shown = [row if len(row) <= 160 else row[:159] + "…" for row in shown]
        more = f"; and {len(rows) - len(shown)} more" if len(rows) > len(shown) else ""
        raise CapscoreError(
            f"epoch {epoch + 1}, step {self.step + 1}: {why}. The batch's {len(rows)} rows, all of them in "
            f"{path}: "
            + "; ".join(shown)
            + more
            + ". The checkpoints before are good. If the rows are right, a lower ",
            Setting("learning_rate"),
            " or ",
            Setting("precision", "no"),
            " may help",
        )

    def _agreed(self, in_time: bool) -> bool:
        """The answer of the main process, in every process."""
        if self.accelerator.num_processes == 1:
            return in_time
        answer = torch.tensor([int(in_time)], device=self.accelerator.device)
        torch.distributed.broadcast(answer, src=0)
        return bool(answer.item())

    # ---------------------------------------------------------------------- log

    def _write_losses(self, log: Log | None) -> None:
        means = {name: total / count for name, (total, count) in self.sums.items()}
        self.sums = {}
        extra: dict[str, Any] = {name: means.pop(name) for name in ("grad_norm", "skipped") if name in means}
        self.last_losses = means
        rate = max(group["lr"] for group in self.optimizer.param_groups)
        self._write(log, {"lr": rate, "losses": means, **extra})

    def _write(self, log: Log | None, content: Mapping[str, Any]) -> None:
        if log is None:
            return
        epoch, seconds = round(self.step / self.per_epoch, 4), round(self.seconds, 2)
        line = {"step": self.step, "epoch": epoch, **content, "seconds": seconds}
        log.write(line, self.total, self._time_left())

    def _time_left(self) -> float | None:
        """Seconds that the remaining steps take at the pace of this command; None before the first step."""
        done = self.step - self.began[0]
        if not done:
            return None
        return (self.seconds - self.began[1]) / done * (self.total - self.step)

    def _evaluate(self, log: Log | None) -> None:
        if self.evaluates:
            with self._whole():
                if log is not None and self.evaluate is not None:
                    self._measure(log, self.evaluate)
        if self.early_stopping is not None:
            ended = log is not None and self.early_stopping.ends(self.best)
            self.stopped = self.stopped or self._agreed(ended)
        self.accelerator.wait_for_everyone()

    def _measure(self, log: Log, evaluate: Evaluate) -> None:
        modes = [(module, module.training) for module in self.model.modules()]
        self.model.eval()
        with torch.no_grad(), self.accelerator.autocast():
            numbers = {name: float(n) for name, n in evaluate(self.model, self.step).items()}
        for module, mode in modes:
            module.training = mode
        self.last_evaluation = numbers
        if self.early_stopping is not None and self.step:
            self.best = self.early_stopping.better_of(self.best, self.step, numbers, self._weights)
        finite = {n: value if math.isfinite(value) else None for n, value in numbers.items()}
        self._write(log, {"evaluation": finite})

    def _take_best(self) -> None:
        """Give the model, in every process, the weights of the best evaluation."""
        if self.early_stopping is None or not self._agreed(self.best is not None):
            return
        found = tensors_of_main_process(self._weights() if self.best is None else self.best.weights)
        self._put_in(found)

    # -------------------------------------------------------------- checkpoints

    def _whole(self) -> AbstractContextManager[None]:
        """Within this, the main process has the whole model; all processes enter together."""
        return nullcontext() if self.sharded_layers is None else self.sharded_layers.whole()

    def _save(self, models: list[nn.Module], states: list[dict[str, Tensor]], folder: str) -> None:
        weights = self._weights()
        optimizer = None if self.sharded_layers is None else whole_state(self.optimizer)
        if not self.accelerator.is_main_process:
            return
        best = self.best
        state = {**{name: getattr(self, name) for name in _PROGRESS}, "best": best and best.described()}
        (Path(folder) / _STATE).write_text(json.dumps(state, ensure_ascii=False), encoding="utf-8")
        save_file(weights, Path(folder) / _WEIGHTS)
        if best is not None:
            save_file(best.weights, Path(folder) / _BEST)
        if optimizer is not None:
            torch.save(optimizer, Path(folder) / _OPTIMIZER)

    def _load(self, models: list[nn.Module], folder: str) -> None:
        state = json.loads((Path(folder) / _STATE).read_text(encoding="utf-8"))
        weights, own = load_file(Path(folder) / _WEIGHTS), self._named()
        if own.keys() != weights.keys() or any(own[n].shape != t.shape for n, t in weights.items()):
            raise CapscoreError(
                f"the checkpoint {folder} is of another model: it has {len(weights)} tensors, the model "
                f"trains {len(own)}, and names or shapes differ"
            )
        self._put_in(weights)
        if self.sharded_layers is not None:
            content = torch.load(Path(folder) / _OPTIMIZER, map_location="cpu", weights_only=True)
            load_whole_state(self.optimizer, content)
        best = state.pop("best")
        vars(self).update(state)
        if best is not None:
            self.best = Best(**best, weights=load_file(Path(folder) / _BEST))

    def _weights(self) -> dict[str, Tensor]:
        """A copy of what is trained and of buffers, whole and on the CPU."""
        return {name: whole(tensor).cpu().clone().contiguous() for name, tensor in self._named().items()}

    def _named(self) -> dict[str, Tensor]:
        """Trained parameters and buffers by name; what is frozen comes with the model."""
        kept = self.model.state_dict().keys()
        tensors = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        return tensors | {name: buffer for name, buffer in self.model.named_buffers() if name in kept}

    @torch.no_grad()
    def _put_in(self, weights: Mapping[str, Tensor]) -> None:
        tensors = dict(self.model.named_parameters()) | dict(self.model.named_buffers())
        for name, tensor in weights.items():
            tensors[name].copy_(part_of(tensor, tensors[name]))

    def _resume(self) -> int:
        if self.accelerator.is_main_process:
            self.checkpoints.tidy()
        self.accelerator.wait_for_everyone()
        if there := self.checkpoints.listed():
            self.checkpoints.read(there[-1], self.settings.schedule)
        self.accelerator.wait_for_everyone()
        return self.step


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
    return 1 - done if settings.schedule == "linear" else (1 + math.cos(math.pi * done)) / 2


def _groups(
    model: nn.Module, parameters: Iterable[Any] | None, settings: LoopSettings
) -> list[dict[str, Any]]:
    """AdamW's groups of parameters; a parameter in no group is frozen."""
    own = {id(parameter): name for name, parameter in model.named_parameters()}
    given: list[Any] = [p for p in model.parameters() if p.requires_grad]
    if parameters is not None:
        given = list(parameters)
    groups = given if given and isinstance(given[0], dict) else [{"params": given}]
    defaults = {"lr": settings.learning_rate, "weight_decay": settings.weight_decay}
    groups = [{**defaults, **group, "params": list(group["params"])} for group in groups]
    trained = {id(parameter) for group in groups for parameter in group["params"]}
    if not trained:
        raise CapscoreError("the model has no parameter to train: all are frozen, or none was named")
    if trained - own.keys():
        raise CapscoreError(f"{len(trained - own.keys())} of the parameters to train are not in the model")
    for parameter in model.parameters():
        parameter.requires_grad_(id(parameter) in trained)
    return groups


def _as_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values as a JSON file gives them back: tuples become lists."""
    return json.loads(json.dumps(dict(values), ensure_ascii=False, default=str))


def _add(sums: dict[str, list[float]], name: str, value: float, weight: float) -> None:
    total = sums.setdefault(name, [0.0, 0.0])
    total[0] += value
    total[1] += weight


def _due(every: int | None, step: int) -> bool:
    return every is not None and step % every == 0
