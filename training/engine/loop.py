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
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import parse_flag_from_env, patch_environment, set_seed
from torch import Tensor, nn

from capscore.errors import CapscoreError, Setting
from capscore.files.console import progress_bar
from capscore.files.write import write_text
from training.data.batches import Batches, kinds_of
from training.engine.checkpoints import Checkpoint, Checkpoints, frozen_digest, step_name
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
    apart,
    clip_gradients,
    is_sharded,
    part_of,
    whole_state,
)
from training.engine.training_log import LOG, Log

# Number of rows of a batch that an error shows; all of them are in a file beside the log.
_ROWS_SHOWN = 8
# What AdamW keeps in a parameter's shape.
_LIKE_PARAMETER = ("exp_avg", "exp_avg_sq")

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
        return _Run(
            model,
            batches,
            loss,
            settings,
            evaluate,
            parameters,
            identity or {},
            after_step,
            early_stopping,
            out,
            accelerator,
            sharded,
        ).go()


def _is_sharded(wanted: bool | None, precision: str) -> bool:
    if parse_flag_from_env("ACCELERATE_USE_DEEPSPEED"):
        raise CapscoreError(
            "accelerate is set to DeepSpeed, which this loop does not use; choose FSDP in `accelerate config`"
        )
    launched = parse_flag_from_env("ACCELERATE_USE_FSDP")
    if launched and wanted is None:
        raise CapscoreError(
            "accelerate is set to shard the model (FSDP), which this recipe does not do; choose MULTI_GPU in "
            "`accelerate config`"
        )
    if launched and parse_flag_from_env("FSDP_OFFLOAD_PARAMS"):
        raise CapscoreError(
            "accelerate is set to keep FSDP's parameters on the CPU, which this loop does not do; say no to "
            "offloading in `accelerate config`"
        )
    if not (launched or wanted) or not is_one_of_several():
        return False
    if precision == "fp16":
        raise CapscoreError(
            Setting("precision", "fp16"), " needs whole layers; take 'bf16' with sharded ones"
        )
    return True


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
        after_step: AfterStep | None,
        early_stopping: EarlyStopping | None,
        out: Path,
        accelerator: Accelerator,
        sharded: bool,
    ):
        self.batches, self.loss, self.settings, self.evaluate = batches, loss, settings, evaluate
        self.after_step, self.early_stopping = after_step, early_stopping
        self.accelerator, self.out = accelerator, out
        self.evaluates = self._agreed(evaluate is not None)  # other processes need not have the function
        self.model = model.to(accelerator.device)
        self.per_epoch = batches.steps_per_epoch
        self.total = settings.max_steps or settings.epochs * self.per_epoch
        groups = _groups(self.model, parameters, settings)
        frozen = frozen_digest(self.model)
        self.sharded_layers: ShardedLayers | None = None
        if sharded:
            names = {parameter: name for name, parameter in self.model.named_parameters()}
            named = [[names[parameter] for parameter in group["params"]] for group in groups]
            self.sharded_layers = ShardedLayers(self.model)
            now = dict(self.model.named_parameters())
            groups = [
                {**group, "params": [now[name] for name in own]}
                for group, own in zip(groups, named, strict=True)
            ]
        self.trained = [parameter for group in groups for parameter in group["params"]]
        groups = apart(groups)
        self.top_rates = [group["lr"] for group in groups]
        betas = (settings.betas[0], settings.betas[1])
        self.optimizer = accelerator.prepare(torch.optim.AdamW(groups, betas=betas, eps=settings.eps))
        described = {
            "settings": _as_json(
                {k: v for k, v in asdict(settings).items() if k in LoopSettings.__dataclass_fields__}
            ),
            "identity": _as_json(identity),
            "steps_per_epoch": self.per_epoch,
            "total_steps": self.total,
            "frozen": frozen,
        }
        self.checkpoints = Checkpoints(out, described, settings.keep_checkpoints)
        self.step = 0
        self.seconds = 0.0
        self.began = (0, 0.0)  # step and seconds at which this command began
        # name → (sum, number of steps) since the last line of the log
        self.sums: dict[str, list[float]] = {}
        self.last_losses: dict[str, float] = {}
        self.last_evaluation: dict[str, float] = {}
        self.best: Best | None = None
        self.stopped = False  # by early stopping

    def go(self) -> RunResult:
        resumed_from = self._resume()
        started, before = time.monotonic(), self.seconds
        self.began = (self.step, before)
        log = Log(self.out / LOG, self.step, resumed_from > 0) if self.accelerator.is_main_process else None
        latest = self.checkpoints.at(self.step)
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
                    optimizer = self._optimizer_state()
                    with self._whole():
                        if log is not None:
                            log.settle()
                            latest = self._save(optimizer)
                    self.accelerator.wait_for_everyone()
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
            checkpoint=self.checkpoints.at(self.step) if log is None else latest,
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
            own = part[rank::world]
            with accelerator.autocast():
                losses = dict(self.loss(self.model, own, gather_rows(len(part), rank, world)))
            values = self._over_processes(losses)
            bad = [name for name, value in values.items() if not math.isfinite(value)]
            if bad:
                self._stop(rows, ", ".join(f"{name} is {values[name]}" for name in bad))
            accelerator.backward(losses["loss"] * share)
            for name, value in values.items():
                total = means.setdefault(name, [0.0, 0.0])
                total[0] += value * share
                total[1] += share
        most = settings.clip_norm or math.inf
        # those of sharded parameters are averaged already
        average_gradients([parameter for parameter in self.trained if not is_sharded(parameter)])
        if self.sharded_layers is None:
            norm = float(accelerator.clip_grad_norm_(self.trained, most))
        else:
            norm = clip_gradients(self.trained, most)
        scaled = accelerator.scaler is not None  # the scaler itself skips a step with such gradients
        if not math.isfinite(norm) and not scaled:
            self._stop(rows, f"the gradient's norm is {norm}")
        self.optimizer.step()
        if self.after_step is not None:
            with torch.no_grad():
                self.after_step(self.model)
        self.step += 1
        step_values = {name: total / share for name, (total, share) in means.items()}
        step_values["loss"] = means["loss"][0]  # the sum over the kinds, which is minimised
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
                self._time_left(),
            )

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
            self.best = self.early_stopping.better_of(self.best, self.step, numbers, self._trained_weights)
        log.write(
            {
                "step": self.step,
                "epoch": round(self.step / self.per_epoch, 4),
                "evaluation": {n: value if math.isfinite(value) else None for n, value in numbers.items()},
                "seconds": round(self.seconds, 2),
            },
            self.total,
            self._time_left(),
        )

    def _take_best(self) -> None:
        """Give the model, in every process, the weights of the best evaluation."""
        if self.early_stopping is None or not self._agreed(self.best is not None):
            return
        found = tensors_of_main_process(self._trained_weights() if self.best is None else self.best.weights)
        self._put_in(found)

    # -------------------------------------------------------------- checkpoints

    def _whole(self) -> AbstractContextManager[None]:
        """Within this, the main process has the whole model; all processes enter together."""
        return nullcontext() if self.sharded_layers is None else self.sharded_layers.whole()

    def _save(self, optimizer: dict[str, Any]) -> Path:
        scaler = self.accelerator.scaler
        return self.checkpoints.write(
            Checkpoint(
                state={
                    "step": self.step,
                    "seconds": self.seconds,
                    "sums": self.sums,
                    "losses": self.last_losses,
                    "evaluation": self.last_evaluation,
                    "stopped": self.stopped,
                    "best": None if self.best is None else self.best.described(),
                },
                weights=self._weights(),
                optimizer=optimizer,
                scaler=None if scaler is None else scaler.state_dict(),
                best=None if self.best is None else self.best.weights,
            )
        )

    def _optimizer_state(self) -> dict[str, Any]:
        """What the optimizer knows of each parameter by its place in `trained`, with whole tensors."""
        if self.sharded_layers is None and not self.accelerator.is_main_process:
            return {}
        return {"state": whole_state(self.optimizer.optimizer.state, self.trained)}

    def _take_optimizer_state(self, saved: Mapping[str, Any]) -> None:
        optimizer = self.optimizer.optimizer
        ordered = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        place = {parameter: number for number, parameter in enumerate(ordered)}
        state = {
            place[self.trained[number]]: {
                name: part_of(value, self.trained[number]) if name in _LIKE_PARAMETER else value
                for name, value in values.items()
            }
            for number, values in saved["state"].items()
        }
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})

    def _weights(self) -> dict[str, Tensor]:
        return {name: tensor.detach().cpu().contiguous() for name, tensor in self._named().items()}

    def _named(self) -> dict[str, Tensor]:
        """Trained parameters and buffers by name; what is frozen comes with the model."""
        kept = self.model.state_dict().keys()
        tensors = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        return tensors | {name: buffer for name, buffer in self.model.named_buffers() if name in kept}

    def _trained_weights(self) -> dict[str, Tensor]:
        """A copy of `_weights`, which the next steps do not change."""
        return {name: tensor.clone() for name, tensor in self._weights().items()}

    def _put_in(self, weights: Mapping[str, Tensor]) -> None:
        with torch.no_grad():
            tensors = dict(self.model.named_parameters()) | dict(self.model.named_buffers())
            for name, tensor in weights.items():
                tensors[name].copy_(part_of(tensor, tensors[name]))

    def _resume(self) -> int:
        if self.accelerator.is_main_process:
            self.checkpoints.clear_partial()
        self.accelerator.wait_for_everyone()
        if there := self.checkpoints.listed():
            self._load(there[-1])
        if self.accelerator.is_main_process:
            self.checkpoints.remove_old()
        self.accelerator.wait_for_everyone()
        return self.step

    def _load(self, folder: Path) -> None:
        scaler = self.accelerator.scaler
        saved = self.checkpoints.read(folder, scaled=scaler is not None, schedule=self.settings.schedule)
        own, weights = self._named(), saved.weights
        if own.keys() != weights.keys() or any(own[n].shape != t.shape for n, t in weights.items()):
            raise CapscoreError(
                f"the checkpoint {folder} is of another model: it has {len(weights)} tensors, the model "
                f"trains {len(own)}, and names or shapes differ"
            )
        self._put_in(weights)
        self._take_optimizer_state(saved.optimizer)
        if scaler is not None:
            scaler.load_state_dict(saved.scaler)
        state = saved.state
        self.step, self.seconds, self.sums = state["step"], state["seconds"], state["sums"]
        self.last_losses, self.last_evaluation = state["losses"], state["evaluation"]
        self.stopped = state.get("stopped", False)
        if state.get("best") is not None and saved.best is not None:
            self.best = Best(**state["best"], weights=saved.best)


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
    given = [p for p in model.parameters() if p.requires_grad] if parameters is None else list(parameters)
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


def _due(every: int | None, step: int) -> bool:
    return every is not None and step % every == 0
