"""A contrastive run small enough to be killed often: as a module for tests, as a script for other processes.

python -m tools.tiny.training_run kill FOLDER N    # killed at every Nth moment in turn; prints JSON
python -m tools.tiny.training_run once FOLDER      # one run, in as many processes as were launched
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from training.data.batches import ShuffledBatches
from training.engine import checkpoints, loop, processes, training_log
from training.engine.loop_settings import LoopSettings

ROWS = 23


class Pair(nn.Module):
    """Two layers and a temperature; dropout, so that a run that draws otherwise ends otherwise."""

    def __init__(self, dropout: float = 0.2):
        super().__init__()
        torch.manual_seed(7)
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 6)
        self.dropout = nn.Dropout(dropout)
        self.scale = nn.Parameter(torch.tensor(1.0))
        self.unused = nn.Linear(2, 2)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.second(self.dropout(torch.tanh(self.first(rows))))


DATA = torch.randn(ROWS, 6, generator=torch.Generator().manual_seed(3))


def contrastive(model, rows, gather):
    """Each row against its own reverse among all rows of the batch."""
    own = DATA[list(rows)]
    left = F.normalize(gather(model(own)), dim=-1)
    right = F.normalize(gather(own.flip(1)), dim=-1)
    logits = left @ right.T * model.scale.exp()
    return {"loss": F.cross_entropy(logits, torch.arange(len(logits))), "scale": model.scale}


def settings(out: Path, **changes) -> LoopSettings:
    made = {
        "max_steps": 10,
        "batch_size": 7,
        "learning_rate": 0.02,
        "warmup_steps": 2,
        "log_every": 3,
        "evaluate_every": 4,
        "checkpoint_every": 2,
        "keep_checkpoints": 2,
    }
    return LoopSettings(str(out), **(made | changes))


def train(
    out: Path, *, dropout: float = 0.2, identity=None, accumulation_steps: int = 2, **changes
) -> tuple[Pair, loop.RunResult]:
    torch.set_num_threads(1)
    model = Pair(dropout).train()
    chosen = settings(out, **changes)
    batches = ShuffledBatches(range(ROWS), chosen.batch_size, chosen.seed)
    result = loop.run(
        model,
        batches,
        contrastive,
        chosen,
        evaluate=lambda model, step: {"sum": model.first.weight.sum().item() + torch.rand(1).item() * 0},
        identity=identity,
        accumulation_steps=accumulation_steps,
    )
    return model, result


def weights(model: nn.Module) -> list[float]:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()]).tolist()


def lines(out: Path) -> list[dict]:
    """The log without its times, which differ from run to run; numbers to five places."""
    return [
        {name: value for name, value in line.items() if name != "seconds"}
        for text in (out / training_log.LOG).read_text().splitlines()
        for line in [json.loads(text, parse_float=lambda number: round(float(number), 5))]
    ]


def _killed(out: Path, moment: int | None) -> tuple[int, int]:
    """Train in a child process that kills itself at a moment: the signal it got, the moments it had."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        moments = 0

        def passing() -> None:
            nonlocal moments
            if moments == moment:
                os.kill(os.getpid(), signal.SIGKILL)
            moments += 1

        def watched(function):
            def call(*args, **kwargs):
                passing()
                try:
                    return function(*args, **kwargs)
                finally:
                    passing()

            return call

        def torn(tensors, path, metadata=None):
            """Half a file, a moment, the whole file."""
            path.write_bytes(b"half a file")
            passing()
            save_file(tensors, path, metadata)

        global contrastive
        save_file = loop.save_file
        loop.save_file = torn
        checkpoints.torch.save = watched(torch.save)
        checkpoints.os.replace = watched(os.replace)
        checkpoints.shutil.rmtree = watched(shutil.rmtree)
        training_log.Log.write = watched(training_log.Log.write)
        contrastive = watched(contrastive)
        sys.stderr = open(os.devnull, "w")
        try:
            train(out)
            os.write(writer, str(moments).encode())
        finally:
            os._exit(0)
    os.close(writer)
    _, status = os.waitpid(child, 0)
    said = os.read(reader, 100)
    os.close(reader)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, int(said or -1)


def kill_everywhere(folder: Path, every_nth: int) -> dict:
    """Kill runs at every n-th moment and resume each; and kill one run again and again."""
    train(folder / "warm")  # what torch loads when it is first used is loaded before the forks
    whole = folder / "whole"
    _, moments = _killed(whole, None)
    outcomes = []
    for moment in range(0, moments, every_nth):
        out = folder / f"killed-{moment}"
        signalled, _ = _killed(out, moment)
        torn = out / training_log.LOG
        if torn.exists():
            with open(torn, "ab") as file:
                file.write(b'{"step": 3, "lo')  # as a kill within a write leaves it
        ended, _ = _killed(out, None)
        outcomes.append((signalled, ended, str(out)))
    often = folder / "often"
    for moment in (25, 20, 30, 15, 40):
        _killed(often, moment)
    ended, _ = _killed(often, None)
    outcomes.append((signal.SIGKILL, ended, str(often)))
    return {"moments": moments, "whole": str(whole), "outcomes": outcomes}


if __name__ == "__main__":
    job, folder = sys.argv[1], Path(sys.argv[2])
    torch.set_num_threads(1)
    if job == "kill":
        print(json.dumps(kill_everywhere(folder, int(sys.argv[3]))))
    else:
        # a recipe asks before the loop does
        with processes.main_process_first():
            alone = processes.is_main_process()
        trained, _ = train(folder, dropout=0.0)
        if alone:
            world = processes.PartialState().num_processes
            print(json.dumps({"processes": world, "weights": weights(trained)}))
