"""Processes that are killed, or write one cache or one result at once."""

import json
import signal

import pytest

from tools.tiny.command import read_jsonl, write_jsonl

from ..processes import Process
from ..toy_command import end, program, write_photos


def begin(*arguments, during="pass"):
    return Process(["-c", program(during=during), *arguments])


@pytest.fixture
def rows(tmp_path):
    photos = write_photos(tmp_path) * 14
    rows = [{"id": n, "image": photos[n], "caption": f"red word{n}"} for n in range(40)]
    return write_jsonl(tmp_path / "in.jsonl", rows)


def assert_right(path):
    found = read_jsonl(path)
    assert [row["id"] for row in found] == [*range(40)]
    assert [row["mcs"] for row in found] == pytest.approx(([2.5, 0.0, 0.0] * 14)[:40], abs=1e-6)


def test_a_killed_run_continues(rows, tmp_path):
    common = ("score", rows, "--cache-dir", tmp_path / "cache", "-o", tmp_path / "out.jsonl")
    assert end(begin("score", rows, "--no-cache", "-o", tmp_path / "whole.jsonl"))[0] == 0
    killed = begin(*common, during="if Toy.turns == 4: os.kill(os.getpid(), signal.SIGKILL)")
    assert end(killed)[0] == -signal.SIGKILL
    assert [*tmp_path.glob("cache/*")] and [*tmp_path.glob(".*.partial")]
    assert not (tmp_path / "out.jsonl").exists() and not (tmp_path / "out.summary.json").exists()
    code, errors = end(begin(*common))
    assert code == 0, errors
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert_right(tmp_path / "out.jsonl")
    summaries = [json.loads((tmp_path / f"{name}.summary.json").read_text()) for name in ("out", "whole")]
    assert summaries[0]["metrics"] == summaries[1]["metrics"]


@pytest.mark.slow
def test_eight_writers_of_one_cache_and_one_result(rows, tmp_path):
    given = ("score", rows, "--cache-dir", tmp_path / "cache", "--force", "-o", tmp_path / "o.jsonl")
    for writer in [begin(*given, during="time.sleep(0.02)") for _ in range(8)]:
        code, errors = end(writer)
        assert code == 0 and "warning" not in errors, errors
    assert_right(tmp_path / "o.jsonl")
    summary = json.loads((tmp_path / "o.summary.json").read_text())
    assert (summary["rows"], summary["failures"]) == (40, [])
    assert not list(tmp_path.glob(".*"))
