"""The processes of a run: which one this is, and how tensors and gradients go between them."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import parse_flag_from_env
from filelock import FileLock, Timeout
from torch import Tensor, nn

from capscore.errors import CapscoreError, ResultWriteError

Gather = Callable[[Tensor], Tensor]


def device() -> str:
    """The device of this process, such as "cuda:1" or "cpu": the launcher's choice, else a GPU if any."""
    found = _process().device
    return "cpu" if found.type == "cpu" else str(found)


def is_main_process() -> bool:
    """Whether this is the one process of the run that writes files and prints."""
    return _process().is_main_process


@contextmanager
def main_process_first() -> Iterator[None]:
    """Let the main process finish the block before the others enter it."""
    with _process().main_process_first():
        yield


def say(message: str) -> None:
    """Print a line on stderr, in the main process alone."""
    if is_main_process():
        print(message, file=sys.stderr, flush=True)


def _process() -> PartialState:
    """This process among those of the run. The first call settles it for good, so all must ask alike."""
    state = PartialState(cpu=parse_flag_from_env("ACCELERATE_USE_CPU"))
    launched = int(os.environ.get("WORLD_SIZE", "1"))
    if launched != state.num_processes:
        raise CapscoreError(
            f"{launched} processes were launched, but each sees {state.num_processes}: set "
            "ACCELERATE_USE_CPU=true to train in several processes on a CPU"
        )
    if state.num_processes > 1:  # a thread of the connections that outlives Python aborts it
        atexit.register(state.destroy_process_group)
    return state


def tensors_of_main_process(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The main process's values of tensors that every process has, with the same names and shapes."""
    own = {name: tensor.to(_process().device, copy=True) for name, tensor in tensors.items()}
    if _process().num_processes > 1:
        for name in sorted(own):
            torch.distributed.broadcast(own[name], src=0)
    return own


class _AllGather(torch.autograd.Function):
    """Tensors (n, …) of one shape → those of all processes (n, world, …); gradients are summed over them."""

    @staticmethod
    def forward(ctx: Any, own: Tensor) -> Tensor:
        parts = [torch.empty_like(own) for _ in range(_process().num_processes)]
        torch.distributed.all_gather(parts, own)
        return torch.stack(parts, dim=1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        summed = gradients[0].clone(memory_format=torch.contiguous_format)
        torch.distributed.all_reduce(summed)
        return summed[:, _process().process_index]


def gather_rows(total: int, rank: int, world: int) -> Gather:
    """What joins a tensor with one entry per row over the processes, in the batch's order, with gradients."""
    expected = len(range(rank, total, world))

    def gather(tensor: Tensor) -> Tensor:
        if tensor.ndim == 0 or len(tensor) != expected:
            wanted = f"one entry per row in its first dimension, here {expected}"
            raise CapscoreError(f"gather takes a tensor with {wanted}; its shape is {tuple(tensor.shape)}")
        if world == 1:
            return tensor
        if tensor.dtype == torch.bool:
            return gather(tensor.to(torch.uint8)).bool()
        most = -(-total // world)
        padding = tensor.new_zeros((most - len(tensor), *tensor.shape[1:]))
        # process r has the rows r, r + world, …; the backward pass sums the gradients
        parts: Tensor = _AllGather.apply(torch.cat([tensor, padding]))
        return parts.flatten(0, 1)[:total]

    return gather


def average_gradients(parameters: Sequence[nn.Parameter]) -> None:
    """Give every process the mean of the processes' gradients, as DistributedDataParallel does.

    Here and not in hooks, so that a loss may use any part of the model, any number of times.
    """
    world = _process().num_processes
    if world == 1:
        return
    counts = torch.tensor([int(p.grad is not None) for p in parameters], device=_process().device)
    torch.distributed.all_reduce(counts)
    for parameter, count in zip(parameters, counts.tolist(), strict=True):
        if count:  # in all processes or in none
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            torch.distributed.all_reduce(parameter.grad)
            parameter.grad /= world


@contextmanager
def alone_in(out: Path) -> Iterator[None]:
    """Keep a second run out of a folder, where it would overwrite the first; a killed run frees its lock."""
    if not is_main_process():
        yield
        return
    lock = FileLock(out / ".lock", timeout=0)
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise CapscoreError(f"another process is training in {out}") from None
    except OSError as error:
        raise ResultWriteError(f"{out} cannot be written: {error.strerror or error}") from error
    try:
        yield
    finally:
        lock.release()
