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
from capscore.errors import CapscoreWarning
from capscore.integrations.torchmetrics import CaptionMetric

from ..toy import BLUE, RED, ColourBackbone

ROOT = Path(__file__).resolve().parents[2]
CAPTIONS = ["a dog runs", "a cat sleeps on a sofa", "two people", "the sea", "a red bus"]
REFERENCES = [["a dog runs"], ["a cat lies on a sofa"], ["three people eat"], ["a beach"], ["a bus is red"]]


@pytest.fixture
def expected() -> np.ndarray:
    return capscore.load("rouge_l").score(CAPTIONS, references=REFERENCES, language="en").scores


@pytest.fixture
def metric() -> CaptionMetric:
    return CaptionMetric("rouge_l", language="en")


def test_forward_gives_the_batch_and_scores_it_once(metric, expected, monkeypatch):
    calls, score = [], metric.scorer.score
    monkeypatch.setattr(metric.scorer, "score", lambda *given: calls.append(1) or score(*given))
    found = metric(CAPTIONS[:2], references=REFERENCES[:2])
    assert float(found) == pytest.approx(expected[:2].mean(), abs=1e-9) and len(calls) == 1
    metric(CAPTIONS[2:], references=REFERENCES[2:])
    assert float(metric.compute()) == pytest.approx(expected.mean(), abs=1e-9) and int(metric.n_rows) == 5
    metric.reset()
    with pytest.warns(CapscoreWarning, match="no row was scored"):
        assert torch.isnan(metric.compute()) and int(metric.n_rows) == 0
    assert repr(metric) == "CaptionMetric('rouge_l', language='en')"


def test_references_may_come_second_as_in_torchmetrics(metric, expected):
    metric.update(CAPTIONS, REFERENCES)
    assert float(metric.compute()) == pytest.approx(expected.mean(), abs=1e-9)


def test_images_may_come_first_as_in_torchmetrics():
    metrics = [CaptionMetric("mcs", backbone=ColourBackbone(), cache=False, language="en") for _ in range(2)]
    metrics[0].update(["red", "red blue"], [RED, BLUE])
    metrics[1].update([RED, BLUE], ["red", "red blue"])
    assert float(metrics[0].compute()) == float(metrics[1].compute()) > 1
    metrics[1].update(RED, "red")
    assert int(metrics[1].n_rows) == 3


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


@pytest.mark.slow
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
