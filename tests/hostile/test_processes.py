"""Processes that are killed, or write one cache or one result at once; folders that cannot be written."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from tools.tiny.command import read_jsonl, write_jsonl

from ..processes import Process
from ..toy_command import WAIT_S, end, program, write_photos

# Root may write everywhere; without its capabilities the permissions of files count for it too.
WITHOUT_PRIVILEGES = """
if os.geteuid() == 0:
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    none = (ctypes.c_uint32 * 6)()
    if ctypes.CDLL(None, use_errno=True).capset(header, none):
        sys.exit("capabilities cannot be given up here")
"""


def begin(*arguments: object, seconds: float = 0, before: str = "") -> Process:
    return Process(["-c", program(during=f"time.sleep({seconds})", before=before), *arguments])


@pytest.fixture
def rows(tmp_path) -> Path:
    """Forty rows that differ, of three photos."""
    photos = write_photos(tmp_path) * 14
    rows = [{"id": n, "image": photos[n], "caption": f"red word{n}"} for n in range(40)]
    return write_jsonl(tmp_path / "in.jsonl", rows)


def assert_right(path: Path) -> None:
    """Assert that all rows are there in order, each with its score."""
    found = read_jsonl(path)
    assert [row["id"] for row in found] == [*range(40)]
    assert [row["mcs"] for row in found] == pytest.approx(([2.5, 0.0, 0.0] * 14)[:40], abs=1e-6)


def wait_until(true, process: Process) -> None:
    until = time.monotonic() + WAIT_S
    while not true():
        assert process.poll() is None and time.monotonic() < until, "it ended before it could be killed"
        time.sleep(0.01)


def test_a_killed_run_continues(rows, tmp_path):
    common = ("score", rows, "--cache-dir", tmp_path / "cache")
    assert end(begin("score", rows, "--no-cache", "-o", tmp_path / "whole.jsonl"))[0] == 0
    stopped = begin(*common, "-o", tmp_path / "out.jsonl", seconds=0.1)
    wait_until(lambda: list(tmp_path.glob("cache/*")) and list(tmp_path.glob(".*.partial")), stopped)
    stopped.send_signal(signal.SIGKILL)
    assert end(stopped)[0] == -signal.SIGKILL
    assert not (tmp_path / "out.jsonl").exists() and not (tmp_path / "out.summary.json").exists()
    code, errors = end(begin(*common, "-o", tmp_path / "out.jsonl"))
    assert code == 0, errors
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert_right(tmp_path / "out.jsonl")
    summaries = [json.loads((tmp_path / f"{name}.summary.json").read_text()) for name in ("out", "whole")]
    assert summaries[0]["metrics"] == summaries[1]["metrics"]


@pytest.mark.slow
def test_eight_writers_of_one_cache_and_one_result(rows, tmp_path):
    given = ("score", rows, "--cache-dir", tmp_path / "cache", "--force", "-o", tmp_path / "o.jsonl")
    for writer in [begin(*given, seconds=0.02) for _ in range(8)]:
        code, errors = end(writer)
        assert code == 0 and "warning" not in errors, errors
    assert_right(tmp_path / "o.jsonl")
    summary = json.loads((tmp_path / "o.summary.json").read_text())
    assert (summary["rows"], summary["failures"]) == (40, [])
    assert not list(tmp_path.glob(".*"))


def test_a_cache_that_cannot_be_written(rows, tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o555)
    given = ("score", rows, "--cache-dir", cache, "-o", tmp_path / "out.jsonl")
    code, errors = end(begin(*given, before=WITHOUT_PRIVILEGES))
    assert code == 0, errors
    assert_right(tmp_path / "out.jsonl")
    assert not list(cache.iterdir())
    assert errors.count("warning") == 1 and str(cache) in errors, errors
