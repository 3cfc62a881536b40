"""`capscore score` in several processes: one result, that of one process, whatever happens to a process."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ..processes import ROOT, Process
from ..toy_command import WAIT_S, end, write_photos
from ..toy_command import program as toy_program

# The command on the toy backbone, in chunks of three rows.
program = functools.partial(toy_program, chunk_rows=3)
N_ROWS = 40


def begin(arguments, rank: int = 0, world: int = 2, port: int = 1, **options) -> Process:
    """One process of a launch, as torchrun starts it."""
    variables = {"RANK": rank, "WORLD_SIZE": world, "LOCAL_RANK": rank, "MASTER_PORT": port}
    variables |= {"MASTER_ADDR": "127.0.0.1", "ACCELERATE_USE_CPU": "true"}
    environment = {**os.environ, **{name: str(value) for name, value in variables.items()}}
    return Process(["-c", program(**options), *arguments], env=environment)


@pytest.fixture
def rows(tmp_path) -> Path:
    """Forty rows of three photos, with references; two rows have an empty caption or an unknown photo."""
    photos = write_photos(tmp_path)
    path = tmp_path / "in.jsonl"
    with open(path, "w") as file:
        for number in range(N_ROWS):
            row = {
                "id": number,
                "image": photos[number % 3],
                "caption": f"red word{number % 7}",
                "references": ["a red word", f"word{number % 5} green"][: 1 + number % 2],
                "language": "de" if number % 4 else "en",
            }
            file.write(json.dumps(row) + "\n")
    return path


def scored(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def metrics(path: Path) -> dict:
    return json.loads(path.read_text())["metrics"]


def compare(got: list[dict], expected: list[dict]) -> None:
    """The same rows in the same order, with the same numbers."""
    assert [{k: v for k, v in row.items() if not isinstance(v, float)} for row in got] == [
        {k: v for k, v in row.items() if not isinstance(v, float)} for row in expected
    ]
    for one, other in zip(got, expected, strict=True):
        for name, value in other.items():
            if isinstance(value, float):
                assert one[name] == pytest.approx(value, abs=1e-6), (name, one["id"])


def test_two_processes_of_accelerate_equal_one(rows, tmp_path):
    """Metrics with a backbone and CIDEr, whose scores depend on the references of all rows.

    The command of docs/scale.md for a CPU, with the toy in capscore's place.
    """
    documented = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    line = next(line for line in documented.splitlines() if line.endswith("# on a CPU"))
    variable, *launcher = line.partition(" -m capscore score ")[0].split()
    assert launcher[0] == "accelerate"
    note = "open('process {RANK} of {WORLD_SIZE}'.format(**os.environ), 'w')"
    (tmp_path / "toy_capscore.py").write_text(program(before=note))
    whole, shared = tmp_path / "whole.jsonl", tmp_path / "shared.jsonl"
    options = ["score", str(rows), "--metric", "ref_clip_score,cider,bleu", "--no-cache"]
    alone = Process(["-c", program(), *options, "-o", whole])
    accelerate = [sys.executable, "-m", "accelerate.commands.accelerate_cli"]
    together = subprocess.run(
        [*accelerate, *launcher[1:], "-m", "toy_capscore", *options, "-o", str(shared), "--shard-rows", "7"],
        cwd=tmp_path,
        env={**os.environ, **dict([variable.split("=")])},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
    )
    assert together.returncode == 0, together.stderr
    assert together.stdout.count("40 rows written to") == 1  # by process 0 alone
    assert all((tmp_path / f"process {rank} of 2").exists() for rank in (0, 1))
    assert end(alone)[0] == 0
    compare(scored(shared), scored(whole))
    assert scored(whole)[0]["ref_clip_score"] == pytest.approx(10 / 7)  # 2 · 2.5 · 1 / (2.5 + 1)
    one, other = metrics(tmp_path / "whole.summary.json"), metrics(tmp_path / "shared.summary.json")
    assert [one[name]["signature"] for name in one] == [other[name]["signature"] for name in one]
    assert one.keys() == other.keys() and "df:rows@" in one["cider"]["signature"]
    for name in one:
        for key, value in one[name].items():
            expected = pytest.approx(value, abs=1e-6) if isinstance(value, float) else value
            assert other[name][key] == expected, (name, key)
    assert not (tmp_path / "shared.jsonl.shards").exists()


SMALL = ("--metric", "mcs", "--no-cache", "--shard-rows", "5")


def alone(rows: Path, path: Path, *options) -> list[dict]:
    """The rows as one process scores them."""
    code, errors = end(Process(["-c", program(), "score", rows, "--no-cache", "-o", path, *options]))
    assert code == 0, errors
    return scored(path)


def wait_until(true, *processes: Process) -> None:
    until = time.monotonic() + WAIT_S
    while not true():
        assert all(process.poll() is None for process in processes), [end(one) for one in processes]
        assert time.monotonic() < until
        time.sleep(0.01)


def finished(folder: Path) -> dict[str, int]:
    """Shards whose files are there, and when they were written."""
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("shard-*.parquet")}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_was_stopped_is_taken_up_without_its_finished_shards(rows, tmp_path, number):
    out, folder = tmp_path / "out.jsonl", tmp_path / "out.jsonl.shards"
    arguments = ["score", rows, *SMALL, "-o", out]
    both = [begin(arguments, rank, seconds=0.2) for rank in range(2)]
    wait_until(lambda: len(finished(folder)) >= 3, *both)
    for process in both:
        process.send_signal(number)
    for process in both:
        process.wait(WAIT_S)
    before = finished(folder)
    assert 3 <= len(before) < 8 and not out.exists()
    # the times of finished shards stay: what is measured again is written again
    again = [begin(arguments, rank, port=2, before=KEEP) for rank in range(2)]
    assert [end(process)[0] for process in again] == [0, 0]
    after = finished(folder)
    assert {name: after[name] for name in before} == before and len(after) == 8
    compare(scored(out), alone(rows, tmp_path / "whole.jsonl"))


def test_a_process_that_ended_before_process_0_began_is_not_waited_for(rows, tmp_path):
    out = tmp_path / "out.jsonl"
    arguments = ["score", rows, *SMALL, "-o", out]
    assert end(begin(arguments, 1))[0] == 0  # all shards, as nobody else is there
    assert len(finished(tmp_path / "out.jsonl.shards")) == 8
    code, errors = end(begin(arguments, 0))
    assert code == 0 and "did not begin" not in errors
    compare(scored(out), alone(rows, tmp_path / "whole.jsonl"))
    assert not (tmp_path / "out.jsonl.shards").exists()


# the folder of shards stays, to be looked into
KEEP = "import capscore.metrics.shards as shards; shards.SharedWork.clear = lambda self: None"


def test_a_killed_process_leaves_its_share_to_the_others(rows, tmp_path):
    """Without a launcher that ends all of them, process 0 goes on alone."""
    out, folder = tmp_path / "out.jsonl", tmp_path / "out.jsonl.shards"
    arguments = ["score", rows, *SMALL, "-o", out]
    second = begin(arguments, 1, seconds=30)  # it would take hours
    wait_until(lambda: (folder / "shard-000001.lock").exists(), second)
    first = begin(arguments, 0, seconds=0.02)
    wait_until(lambda: len(finished(folder)) >= 7, first, second)  # all but the one that is held
    second.send_signal(signal.SIGKILL)
    code, errors = end(first)
    assert code == 0, errors
    compare(scored(out), alone(rows, tmp_path / "whole.jsonl"))
    assert not folder.exists()


def test_the_same_job_started_twice(rows, tmp_path):
    """The second one stops in each of its processes, and says why; the first is not disturbed."""
    out, folder = tmp_path / "out.jsonl", tmp_path / "out.jsonl.shards"
    arguments = ["score", rows, *SMALL, "-o", out]
    go = tmp_path / "go"
    first = [begin(arguments, rank, before=WAITING.format(go=str(go))) for rank in range(2)]
    wait_until(lambda: len(list(folder.glob("joined-*"))) == 2, *first)
    for rank in range(2):
        code, errors = end(begin(arguments, rank, port=2))
        assert code == 2, errors
        assert "another run is at work on it (process 0 and 1 of 2 holds its lock" in errors
    # two processes with one number, as two tasks of a cluster that were given the same
    code, errors = end(begin(arguments, 1))
    assert code == 2 and "another run is at work on it (process 1 of 2" in errors
    go.touch()
    assert [end(process)[0] for process in first] == [0, 0]
    assert len(scored(out)) == N_ROWS and not folder.exists()


# no row is scored before a file is there
WAITING = """
class Waiting(Toy):
    def encode_tokens(self, ids):
        while not os.path.exists({go!r}):
            time.sleep(0.01)
        return super().encode_tokens(ids)
Toy = Waiting
"""


def test_shards_of_other_work_are_kept_unless_forced(rows, tmp_path):
    out, folder = tmp_path / "out.jsonl", tmp_path / "out.jsonl.shards"
    stopped = begin(["score", rows, *SMALL, "-o", out], 0, seconds=0.2)
    wait_until(lambda: len(finished(folder)) >= 1, stopped)
    stopped.send_signal(signal.SIGKILL)
    stopped.wait(WAIT_S)
    before = finished(folder)
    other = ["score", rows, "--metric", "clip_score", "--no-cache", "--shard-rows", "4", "-o", out]
    code, errors = end(begin(other, 0))
    assert code == 2 and "holds shards of another run (another metrics, backbones, shard rows)" in errors
    assert "--force removes them" in errors and finished(folder) == before
    both = [begin([*other, "--force"], rank) for rank in range(2)]
    assert [end(process)[0] for process in both] == [0, 0]
    compare(scored(out), alone(rows, tmp_path / "whole.jsonl", "--metric", "clip_score"))


def test_a_poisoned_row(rows, tmp_path):
    """An error names the row, whichever process has it; with skip the others are scored."""
    lines = rows.read_text().splitlines()
    poisoned = {**json.loads(lines[27]), "image": "absent.png"}
    rows.write_text("\n".join([*lines[:27], json.dumps(poisoned), *lines[28:]]) + "\n")
    out = tmp_path / "out.jsonl"
    arguments = ["score", rows, *SMALL, "-o", out]
    code, errors = end(begin(arguments, 1))  # rows 25 to 29 are the shard of process 1
    assert code == 1 and "line 28 (row 27 counted from 0): image: no such file" in errors
    assert not out.exists()
    both = [begin([*arguments, "--on-error", "skip", "--force"], rank) for rank in range(2)]
    assert [end(process)[0] for process in both] == [3, 0]
    found = scored(out)
    assert [row["id"] for row in found if row["mcs"] is None] == [27]
    assert "no such file" in found[27]["capscore_error"]
    compare(found, alone_skipping(rows, tmp_path / "whole.jsonl"))


def alone_skipping(rows: Path, path: Path) -> list[dict]:
    process = Process(["-c", program(), "score", rows, "--no-cache", "-o", path, "--on-error", "skip"])
    assert end(process)[0] == 3
    return scored(path)


FULL = """
import errno, builtins
import capscore.files.whole_file as whole_file
kept = builtins.open
class Full:
    def __init__(self, file): self.file = file
    def write(self, data): raise OSError(errno.ENOSPC, "No space left on device")
    def __getattr__(self, name): return getattr(self.file, name)
    def __enter__(self): return self
    def __exit__(self, *error): self.file.close()
made = []
def opened(path, mode="r", *more, **options):
    file = kept(path, mode, *more, **options)
    if "shards" in str(path) and mode == "xb":
        made.append(path)
        return Full(file) if len(made) > {room} else file
    return file
whole_file.open = opened
"""


def test_a_disk_that_is_full(rows, tmp_path):
    """One error, no half shard; with room again the run goes on."""
    out, folder = tmp_path / "out.jsonl", tmp_path / "out.jsonl.shards"
    arguments = ["score", rows, *SMALL, "-o", out]
    code, errors = end(begin(arguments, 0, world=1, before=FULL.format(room=5)))
    assert code == 1 and "could not be written: No space left on device" in errors, errors
    whole = finished(folder)
    assert len(whole) == 2 and not out.exists()  # three notes and two shards had room
    assert not list(folder.glob("*.partial"))
    assert end(begin(arguments, 0, world=1))[0] == 0
    compare(scored(out), alone(rows, tmp_path / "whole.jsonl"))


def test_more_processes_than_shards(rows, tmp_path):
    out = tmp_path / "out.jsonl"
    arguments = ["score", rows, "--no-cache", "--shard-rows", "30", "-o", out]
    three = [begin(arguments, rank, world=3) for rank in range(3)]
    ended = [end(process) for process in three]
    assert [code for code, _ in ended] == [0, 0, 0], ended
    assert [errors for _, errors in ended[1:]] == ["", ""]  # process 0 alone speaks
    compare(scored(out), alone(rows, tmp_path / "whole.jsonl"))


def test_a_damaged_shard(rows, tmp_path):
    out, folder = tmp_path / "out.jsonl", tmp_path / "out.jsonl.shards"
    arguments = ["score", rows, *SMALL, "-o", out]
    stopped = begin(arguments, 0, world=1, seconds=0.2)
    wait_until(lambda: len(finished(folder)) >= 2, stopped)
    stopped.send_signal(signal.SIGKILL)
    stopped.wait(WAIT_S)
    damaged = folder / "shard-000000.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-9])
    code, errors = end(begin(arguments, 0, world=1))
    assert code == 1 and f"{damaged} is not a whole shard" in errors and "remove it" in errors
    damaged.unlink()
    assert end(begin(arguments, 0, world=1))[0] == 0
    compare(scored(out), alone(rows, tmp_path / "whole.jsonl"))


@pytest.mark.parametrize(
    ("arguments", "variables", "message"),
    [
        (["in.jsonl"], {}, "2 processes share the work in a folder beside the result"),
        (["-", "-o", "out.jsonl"], {}, "shards need a file that can be read again"),
        (["in.jsonl", "--shard-rows", "4"], {"WORLD_SIZE": "1"}, "--shard-rows 4 goes with --output"),
        (["in.jsonl", "-o", "out.jsonl"], {"RANK": "2"}, "RANK='2', WORLD_SIZE='2'"),
        (["in.jsonl", "-o", "out.jsonl"], {"RANK": "first"}, "RANK='first'"),
    ],
)
def test_what_cannot_be_shared(rows, arguments, variables, message):
    environment = {**os.environ, "RANK": "0", "WORLD_SIZE": "2", **variables}
    done = Process(["-c", program(), "score", *arguments], cwd=rows.parent, env=environment)
    _, errors = done.communicate(WAIT_S)
    assert done.returncode != 0 and message in errors, errors
    assert not list(rows.parent.glob("out*"))


# ------------------------------------------------------------ parts of Parquet


def test_parts_are_read_as_one(rows, tmp_path):
    """By pyarrow, by datasets, and by capscore again."""
    import datasets

    folder = tmp_path / "scores"
    both = [begin(["score", rows, *SMALL, "-o", folder, "--rows-per-file", "12"], rank) for rank in range(2)]
    ended = [end(process) for process in both]
    assert [code for code, _ in ended] == [0, 0], ended
    parts = sorted(folder.iterdir())
    assert [part.name for part in parts] == [f"part-{number:06d}.parquet" for number in range(4)]
    assert [pq.ParquetFile(part).metadata.num_rows for part in parts] == [12, 12, 12, 4]
    expected = alone(rows, tmp_path / "whole.jsonl")
    compare(pq.read_table(folder).to_pylist(), expected)
    loaded = datasets.load_dataset("parquet", data_dir=str(folder), split="train", cache_dir=tmp_path / "hf")
    compare(loaded.to_list(), expected)
    summary = json.loads((tmp_path / "scores.summary.json").read_text())
    assert summary["rows"] == N_ROWS and summary["metrics"]["mcs"]["n_scored"] == N_ROWS

    from capscore.files.captioned_photos import open_captions

    source = open_captions(folder)
    compare([row for chunk in source.chunks(7) for row in chunk.dicts()], expected)
    found = [(chunk.start, len(chunk)) for chunk in source.span(100, 10, 26)]
    assert [row for start, n in found for row in range(start, start + n)] == list(range(10, 26))


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_a_span_of_rows_is_that_of_all_rows(rows, tmp_path, suffix):
    from capscore.files.read import open_rows

    path = tmp_path / f"all.{suffix}"
    alone(rows, path.with_name("first.jsonl"))
    assert end(Process(["-c", program(), "score", rows, "--no-cache", "-o", path]))[0] == 0
    source = open_rows(path)
    whole = [row for chunk in source.chunks(9) for row in chunk.dicts()]
    for start, stop in ((0, 40), (0, 1), (13, 14), (7, 31), (39, 40)):
        chunks = list(source.span(4, start, stop))
        assert [row for chunk in chunks for row in chunk.dicts()] == whole[start:stop]
        assert chunks[0].start == start and max(map(len, chunks)) <= 4
        if suffix != "parquet":
            lines = [line for chunk in chunks for line in chunk.lines]
            assert lines == [row + (2 if suffix == "csv" else 1) for row in range(start, stop)]


def test_parts_of_different_tables(tmp_path):
    import pyarrow as pa

    from capscore.errors import InputError
    from capscore.files.read import open_rows

    pq.write_table(pa.table({"caption": ["a"]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"text": ["b"]}), tmp_path / "b.parquet")
    with pytest.raises(InputError, match=r"b\.parquet has other columns than .*a\.parquet"):
        open_rows(tmp_path)


def test_a_folder_that_is_no_folder_of_parts(rows, tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "notes.txt").write_text("mine")
    for name, message in (("kept", "is left alone"), ("scores.csv", "expected a name without a suffix")):
        process = Process(
            ["-c", program(), "score", rows, "-o", tmp_path / name, "--rows-per-file", "9", "--force"]
        )
        code, errors = end(process)
        assert code == 2 and message in errors, errors
    assert (tmp_path / "kept" / "notes.txt").read_text() == "mine"


def test_a_result_whose_rows_are_not_kept(rows, tmp_path):
    """Beyond a million rows means and counts alone stay in memory; they are the same."""
    texts = rows.read_text().splitlines()
    long = {**json.loads(texts[9]), "caption": "red one two three four five six seven"}
    rows.write_text("\n".join([*texts[:9], json.dumps(long), *texts[10:]]) + "\n")
    options = ["score", rows, "--metric", "mcs,ref_clip_score", "--no-cache", "--shard-rows", "7"]
    few = "import capscore.cli.score as score; score.KEPT_ROWS = 10"
    kept = begin([*options, "-o", tmp_path / "kept.jsonl"], world=1)
    not_kept = begin([*options, "-o", tmp_path / "not-kept.jsonl"], world=1, before=few)
    codes = [end(process) for process in (kept, not_kept)]
    assert [code for code, _ in codes] == [0, 0], codes
    assert codes[0][1] == codes[1][1] and "first such row: 9, counted from 0" in codes[0][1]
    assert (tmp_path / "kept.jsonl").read_bytes() == (tmp_path / "not-kept.jsonl").read_bytes()
    one, other = metrics(tmp_path / "kept.summary.json"), metrics(tmp_path / "not-kept.summary.json")
    for name, numbers in one.items():
        numbers.pop("calibration", None)
        assert [*numbers] == [*other[name]] and numbers["n_truncated"] == 1
        for key, value in numbers.items():
            expected = pytest.approx(value, abs=1e-9) if isinstance(value, float) else value
            assert other[name][key] == expected, (name, key)
