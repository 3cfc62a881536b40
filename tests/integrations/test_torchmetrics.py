"""torchmetrics: batches add up to what one call gives, in one process and in several."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import capscore
from capscore.errors import CapscoreError, InputError
from capscore.integrations.torchmetrics import CaptionMetric

ROOT = Path(__file__).resolve().parents[2]
CAPTIONS = ["a dog runs", "a cat sleeps on a sofa", "two people", "the sea", "a red bus"]
REFERENCES = [["a dog runs"], ["a cat lies on a sofa"], ["three people eat"], ["a beach"], ["a bus is red"]]


@pytest.fixture
def expected() -> np.ndarray:
    return capscore.load("rouge_l").score(CAPTIONS, references=REFERENCES, language="en").scores


def metric() -> CaptionMetric:
    return CaptionMetric("rouge_l", language="en")


def test_batches_add_up(expected):
    whole, parts = metric(), metric()
    whole.update(CAPTIONS, references=REFERENCES)
    for start in (0, 2, 4):
        parts.update(CAPTIONS[start : start + 2], references=REFERENCES[start : start + 2])
    assert float(whole.compute()) == pytest.approx(expected.mean(), abs=1e-9)
    assert float(parts.compute()) == pytest.approx(expected.mean(), abs=1e-9)
    assert int(parts.n_rows) == 5
    parts.reset()
    assert torch.isnan(parts.compute()) and int(parts.n_rows) == 0


def test_forward_gives_the_batch_and_scores_it_once(expected, monkeypatch):
    both = metric()
    calls = []
    score = both.scorer.score
    monkeypatch.setattr(both.scorer, "score", lambda *given: calls.append(1) or score(*given))
    found = both(CAPTIONS[:2], references=REFERENCES[:2])
    assert float(found) == pytest.approx(expected[:2].mean(), abs=1e-9) and len(calls) == 1
    both(CAPTIONS[2:], references=REFERENCES[2:])
    assert float(both.compute()) == pytest.approx(expected.mean(), abs=1e-9)


def test_a_row_with_an_id_counts_once(expected):
    twice = metric()
    twice.update(CAPTIONS, references=REFERENCES, ids=["a", "b", "c", "d", "e"])
    twice.update(CAPTIONS[:2], references=REFERENCES[:2], ids=["a", "b"])
    assert float(twice.compute()) == pytest.approx(expected.mean(), abs=1e-9)
    twice.update(CAPTIONS[:1], references=REFERENCES[:1])  # without an id it counts
    assert int(twice.n_rows) == 6
    with pytest.raises(InputError, match="there are 1 ids for 2 captions"):
        twice.update(CAPTIONS[:2], references=REFERENCES[:2], ids=[1])


def test_a_metric_that_compares_rows_is_refused():
    with pytest.raises(CapscoreError, match="cider compares all rows with each other"):
        CaptionMetric("cider")


PROCESS = """
import json, sys
import torch.distributed as dist
from capscore.integrations.torchmetrics import CaptionMetric
job = json.loads(sys.argv[1])
rank = int(sys.argv[2])
dist.init_process_group("gloo", init_method=job["at"], rank=rank, world_size=3)
metric = CaptionMetric("rouge_l", language="en")
captions, references, ids = job["shares"][rank]
if captions:
    metric.update(captions, references=references, ids=ids)
print(json.dumps([float(metric.compute()), int(metric.n_rows), float(metric.compute())]))
"""


def test_processes_share_their_rows_and_none_counts_twice(expected):
    """The last process has no rows; the second repeats a row of the first, as a padding sampler does."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shares = [
        [CAPTIONS[:3], REFERENCES[:3], [0, 1, 2]],
        [[*CAPTIONS[3:], CAPTIONS[0]], [*REFERENCES[3:], REFERENCES[0]], [3, 4, 0]],
        [[], [], []],
    ]
    job = json.dumps({"at": f"tcp://127.0.0.1:{port}", "shares": shares})
    started = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, job, str(rank)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(3)
    ]
    for process, here in zip(started, (3, 3, 0), strict=True):
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        value, rows, again = json.loads(out.splitlines()[-1])
        assert value == again == pytest.approx(expected.mean(), abs=1e-9)
        assert rows == here, "n_rows is of this process"
