"""Several processes against one, the cost of putting shards together, and the size of stored embeddings.

In: photos and captions that are generated here. Out: rates of one process and of two that have a core each,
and what a plan for more rows needs: rows a second, bytes per embedding.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from .data import captions, write_photos
from .figures import Figure, cores

ROOT = Path(__file__).resolve().parents[2]
ROWS, QUICK_ROWS, SHARD = 256, 64, 16
CACHED_ROWS, QUICK_CACHED_ROWS = 20_000, 2_000
# a process alone: no threads of torch, and one core that its decoding threads share
ALONE = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def measure(quick: bool) -> list[Figure]:
    """256 photos with a caption each; `quick`: 64, where a share is too small for the ratio to say much."""
    count, repeats = (QUICK_ROWS, 1) if quick else (ROWS, 2)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        rows = _write_rows(folder, count)
        found: dict[int, list[dict[str, float]]] = {1: [], 2: []}
        for number in range(repeats):
            for world in found:  # in turn, so that whatever else the machine does falls on both
                result = folder / f"scores-{world}-{number}.jsonl"
                found[world].append(_run_processes(rows, result, world))
        best = {world: min(one["measure"] for one in runs) for world, runs in found.items()}
        merge = min(one["merge"] for one in found[2])
        busy = {world: min(one["busy"] for one in runs) for world, runs in found.items()}
        stored = _embedding_bytes(folder, rows)
        merged = _merge_rate(folder, QUICK_CACHED_ROWS if quick else CACHED_ROWS)
    ratio = best[1] / best[2]
    enough = cores() >= 2
    return [
        Figure(f"{count} photos with a caption: one process on one core", count / best[1], "{:.1f}/s"),
        Figure("  two processes on a core each", count / best[2], "{:.1f}/s"),
        Figure("  two ÷ one", ratio, "{:.2f}×", 1.7 if enough and not quick else None),
        Figure("  the same in processor seconds of the busier one", busy[1] / busy[2], "{:.2f}×"),
        Figure("  putting shards together ÷ measuring", merge / best[2], "{:.2%}", 0.03, at_most=True),
        Figure("putting together, rows that are measured already", merged, "{:,.0f}/s"),
        Figure("an embedding in the cache", stored, "{:,.0f} B"),
        *(Figure(f"{name}: a photo and a caption", work, "{:.1f}e9") for name, work in _tower_work().items()),
    ]


def _tower_work() -> dict[str, float]:
    """Billions of floating-point operations of both towers, counted without weights: a figure for plans."""
    import open_clip
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    found = {}
    for name in ("ViT-B-32", "ViT-H-14"):
        with torch.device("meta"):
            model = open_clip.create_model(name, device="meta")
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            model.encode_image(torch.empty(1, 3, 224, 224, device="meta"))
            model.encode_text(torch.zeros(1, 77, dtype=torch.long, device="meta"))
        found[name] = counter.get_total_flops() / 1e9
    return found


def _write_rows(folder: Path, count: int) -> Path:
    paths = write_photos(folder / "photos", count)
    file = folder / "rows.jsonl"
    with open(file, "w", encoding="utf-8") as out:
        for path, caption in zip(paths, captions(count), strict=True):
            out.write(json.dumps({"image": path, "caption": caption}) + "\n")
    return file


def _run_processes(rows: Path, result: Path, world: int) -> dict[str, float]:
    """Seconds until all rows are measured, until they are written, and of work in the busier process."""
    code = "import sys; from benchmarks.speed.scale import _work; _work(*sys.argv[1:])"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(rows), str(result), str(rank), str(world)],
            cwd=ROOT,
            env={**os.environ, **ALONE},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(world)
    ]
    for process in processes:  # all have loaded the backbone
        assert process.stdout is not None
        if process.stdout.readline().strip() != "ready":
            raise RuntimeError(f"a process of {world} ended early")
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    ended = [json.loads(process.communicate()[0].splitlines()[-1]) for process in processes]
    return {**ended[0], "busy": max(one["busy"] for one in ended)}


def _open(rows: Path, backbone: Any) -> Any:
    import capscore
    from capscore.files.columns import find_columns
    from capscore.files.image_folder import ImageFolder
    from capscore.files.read import open_rows
    from capscore.metrics.score_file import ScoringRun

    scorer = capscore.load("mcs", backbone=backbone, device="cpu", cache=False, progress=False)
    source = open_rows(rows)
    return ScoringRun(source, find_columns(source.columns), ImageFolder(source.folder), [scorer])


def _work(rows_file: str, result: str, rank_text: str, world_text: str) -> None:
    """One process: what `capscore score` does in it, with the clock on."""
    rank, world = int(rank_text), int(world_text)
    if hasattr(os, "sched_setaffinity"):
        mine = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {mine[rank % len(mine)]})
    import torch

    from capscore.files.interrupts import Signals
    from capscore.files.launch import Launch
    from capscore.files.write import check_output, open_writer
    from capscore.metrics.score_file import result_columns
    from capscore.metrics.shards import FinishedShards, SharedWork

    torch.set_num_threads(1)
    run = _open(Path(rows_file), "embedded")
    run.prepare_span(0, 2)  # what is loaded or compiled on first use
    columns = result_columns(["mcs"], run.source.columns, on_error="raise")
    work = SharedWork(check_output(result, run.source), Launch(rank, world, rank, "benchmark"))
    print("ready", flush=True)
    sys.stdin.readline()
    start, busy = time.perf_counter(), time.process_time()
    with work.joined():
        shards = work.plan({}, run.source.n_rows, SHARD)
        work.do(shards, lambda shard: run.prepare_span(shard.start, shard.stop))
        measured, busy = time.perf_counter(), time.process_time() - busy
        if rank:
            print(json.dumps({"busy": busy}))
            return
        work.wait_for_all(print)
        writer = open_writer(work.result, run.source, {name: float for name in columns})
        run.run(writer, columns, Signals(), prepare=FinishedShards(shards, ["mcs"]).of)
        writer.finish({}, json.dumps(run.scores()["mcs"].summary()))
        ended = time.perf_counter()
        work.clear()
    print(json.dumps({"measure": measured - start, "merge": ended - measured, "busy": busy}))


def _embedding_bytes(folder: Path, rows: Path) -> float:
    """What an embedding costs on disk: those of the photos and captions of some rows."""
    import capscore
    from capscore.files.read import open_rows

    (chunk,) = open_rows(rows).span(QUICK_ROWS, 0, QUICK_ROWS)
    with capscore.EmbeddingCache(folder / "cache") as cache:
        scorer = capscore.load("mcs", backbone="embedded", device="cpu", cache=cache, progress=False)
        scorer.score(chunk.values("caption"), chunk.values("image"))
        about = cache.info()
    return about.bytes / about.entries


def _merge_rate(folder: Path, count: int) -> float:
    """Rows a second of process 0 alone, with shards that hold made-up cosines."""
    import numpy as np

    from capscore.files.interrupts import Signals
    from capscore.files.launch import Launch
    from capscore.files.write import check_output, open_writer
    from capscore.metrics.base import PreparedRows
    from capscore.metrics.score_file import result_columns
    from capscore.metrics.shards import FinishedShards, Shard, SharedWork

    file = folder / "many.jsonl"
    with open(file, "w", encoding="utf-8") as out:
        for number in range(count):
            out.write(json.dumps({"image": f"{number}.jpg", "caption": f"photo number {number}"}) + "\n")
    run = _open(file, "embedded")
    columns = result_columns(["mcs"], run.source.columns, on_error="raise")
    work = SharedWork(check_output(folder / "merged.jsonl", run.source), Launch())

    def measured(shard: Shard) -> dict[str, PreparedRows]:
        n = len(shard)
        return {
            "mcs": PreparedRows(
                values={"image_cosine": np.random.default_rng(shard.number).uniform(0, 1, n)},
                candidates=None,
                references=None,
                image_keys=[f"image:{shard.start + row:032x}" for row in range(n)],
                truncated=np.zeros(n, dtype=bool),
                n_references=np.zeros(n, dtype=np.int64),
                languages=["en"] * n,
                failures={},
                empty=np.zeros(n, dtype=bool),
                skips_empty=False,
            )
        }

    with work.joined():
        shards = work.plan({}, count, SHARD * 64)
        work.do(shards, measured)
        start = time.perf_counter()
        writer = open_writer(work.result, run.source, {name: float for name in columns})
        run.run(writer, columns, Signals(), prepare=FinishedShards(shards, ["mcs"]).of)
        writer.finish({}, json.dumps(run.scores()["mcs"].summary()))
        took = time.perf_counter() - start
        work.clear()
    return count / took
