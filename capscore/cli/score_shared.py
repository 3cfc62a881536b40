"""What `capscore score` does where a launcher started several processes of it, or shards were asked for."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import Setting
from ..files.launch import this_process
from ..files.progress import progress_bar
from ..files.streams import STANDARD_INPUT
from ..metrics.loading import options_of
from .score_request import ScoreRequest
from .terminal import UsageError, say

if TYPE_CHECKING:
    from ..metrics.score_file import ScoringRun
    from ..metrics.shards import FinishedShards, SharedWork

# options that move no number
_NEUTRAL = ("cache", "batch_size", "device", "progress", "allow_urls", "allow_private_urls")


def request_of_process(request: ScoreRequest) -> ScoreRequest:
    """The request, without output in a process whose launch has another one that prints.

    Raises:
        UsageError: Several processes have nowhere to meet, or cannot all read the input.
    """
    launch = this_process()
    if launch.world == 1 and request.shard_rows is None:
        return request
    if request.output is None:
        raise UsageError(
            Setting("output"),
            f": {launch.world} processes share the work in a folder beside the result; give it a name",
        )
    if request.input is not None and (request.input == STANDARD_INPUT or request.input.is_fifo()):
        raise UsageError(
            Setting("path", request.input),
            ": shards need a file that can be read again; write the rows to one",
        )
    return request if launch.is_first else dataclasses.replace(request, quiet=True)


def shared_work(request: ScoreRequest, target: Path | None) -> SharedWork | None:
    """This process's part in the work; None where one process scores all rows as they come."""
    launch = this_process()
    if target is None or (launch.world == 1 and request.shard_rows is None):
        return None
    from ..metrics.shards import SharedWork

    return SharedWork(target, launch)


def measure_shards(work: SharedWork, run: ScoringRun, request: ScoreRequest) -> FinishedShards | None:
    """Do this process's part: all shards in the first process, None in the others.

    Raises:
        InputError: A row cannot be scored, or the folder holds shards of other work.
        ResultWriteError: A shard cannot be written.
    """
    from ..metrics.score_file import check_rows_first
    from ..metrics.shards import FinishedShards

    source, launch = run.source, work.launch
    shards = work.plan(_about(run, request), source.n_rows, request.shard_rows, force=request.force)
    mine = [one for one in shards if one.number % launch.world == launch.rank and not one.path.exists()]
    if request.on_error == "raise":
        check_rows_first(source, run.names, run.folder, [(one.start, one.stop) for one in mine])
    with progress_bar("Scoring", source.n_rows, shown=False if request.quiet else None) as advance:
        work.do(shards, lambda shard: run.prepare_span(shard.start, shard.stop), advance)
    if not launch.is_first:
        return None
    work.wait_for_all(lambda message: say(f"warning: {message}"))
    return FinishedShards(shards, [scorer.metric for scorer in run.scorers])


def with_own_device(options: Mapping[str, Any], metrics: Sequence[str]) -> Mapping[str, Any]:
    """The options, with a GPU of its own for each process of a launch where nothing else was asked for."""
    launch = this_process()
    on_cpu = os.environ.get("ACCELERATE_USE_CPU", "").lower() in ("1", "true", "yes")
    if launch.world == 1 or "device" in options or not any("backbone" in options_of(one) for one in metrics):
        return options
    import torch

    n_gpus = 0 if on_cpu else torch.cuda.device_count()
    return {**options, "device": f"cuda:{launch.local_rank % n_gpus}" if n_gpus else "cpu"}


def _about(run: ScoringRun, request: ScoreRequest) -> dict[str, Any]:
    """What the measured numbers depend on, ready for JSON."""
    from .. import __version__
    from ..files.read import parquet_parts
    from ..metrics.backbone_scorer import BackboneScorer

    source = run.source
    files = parquet_parts(source.path) if source.path.is_dir() else []
    states = [os.stat(path) for path in files or [source.path]]
    backbones = {
        scorer.metric: [scorer.embedder.fingerprint, {name: str(v) for name, v in scorer.settings.items()}]
        for scorer in run.scorers
        if isinstance(scorer, BackboneScorer)
    }
    return {
        "version": __version__,
        "input": str(source.path.resolve()),
        "bytes": sum(state.st_size for state in states),
        "modified": max(state.st_mtime_ns for state in states),
        "rows": source.n_rows,
        "columns": dataclasses.asdict(run.names) | {"references": [*run.names.references]},
        "images": str(run.folder.folder.resolve()),
        "metrics": [scorer.metric for scorer in run.scorers],
        "backbones": backbones,
        "options": {name: str(v) for name, v in sorted(request.options.items()) if name not in _NEUTRAL},
        "language": request.language,
        "on_error": request.on_error,
    }
