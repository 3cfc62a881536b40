"""A sample of the calls that `tools.hostile` draws; as a command, it draws any number."""

import os

import pytest

from tools.hostile.generator import failures
from tools.tiny.judges import tiny_judge

from ..test_command_laws import _own_cache, folder, made
from ..test_metric_laws import registered

__all__ = ["_own_cache", "folder", "made", "registered"]
CALLS = int(os.environ.get("CAPSCORE_HOSTILE_CALLS", 150))
SEED = int(os.environ.get("CAPSCORE_HOSTILE_SEED", 1))


@pytest.mark.filterwarnings("ignore")
def test_drawn_calls_end_in_the_right_number_or_one_line(folder, monkeypatch, capsys):
    judge = tiny_judge()
    monkeypatch.setattr("capscore.judges.model.load_judge", lambda name, **options: judge)
    found = failures(folder, CALLS, SEED)
    lines = [f"{len(calls)} × {kind}\n    {calls[0]}" for kind, calls in found.items()]
    total = sum(map(len, found.values()))
    assert not found, "\n".join([f"{total} of {CALLS} calls of seed {SEED} in {len(found)} ways", *lines])
