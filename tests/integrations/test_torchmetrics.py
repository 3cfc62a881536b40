"""torchmetrics: batches add up to what one call gives, in one process and in several."""

import copy
import importlib.util
import json
import pickle
from unittest import mock

import pytest
import torch
from torchmetrics import MetricCollection
from torchmetrics.text import BLEUScore

import capscore
from capscore.errors import CapscoreWarning
from capscore.integrations.torchmetrics import CaptionMetric
from tools.tiny.colours import BLUE, RED, ColourBackbone

from ..processes import Process

PIXELS = torch.tensor([255, 0, 0])[:, None, None].expand(3, 8, 8)  # int64
CAPTIONS = ["a dog runs", "a cat sleeps on a sofa", "two people", "the sea", "a red bus"]
REFERENCES = [["a dog runs"], ["a cat lies on a sofa"], ["three people eat"], ["a beach"], ["a bus is red"]]


@pytest.fixture
def expected():
    return capscore.load("rouge_l").score(CAPTIONS, references=REFERENCES, language="en").scores


def test_forward_gives_the_batch_and_scores_it_once(expected, monkeypatch):
    metric = CaptionMetric("rouge_l", language="en")
    score = mock.Mock(side_effect=metric.scorer.score)
    monkeypatch.setattr(metric.scorer, "score", score)
    found = metric(CAPTIONS[:2], references=REFERENCES[:2])
    assert float(found) == pytest.approx(expected[:2].mean(), abs=1e-9) and score.call_count == 1
    metric.reset()
    with pytest.warns(CapscoreWarning, match="no row was scored"):
        assert torch.isnan(metric.compute()) and int(metric.n_rows) == 0
    assert repr(metric) == "CaptionMetric('rouge_l', language='en')"


PHOTOS = [RED, BLUE, RED, BLUE, RED]
WITH_PHOTOS = {"backbone": ColourBackbone(), "cache": False}
OPTIONS = {"rouge_l": {}, "bleu": {}, "cider": {}, "mcs": WITH_PHOTOS, "clip_cider": WITH_PHOTOS}


@pytest.mark.parametrize("name", OPTIONS)
def test_contract_of_their_metric_tester(name):
    """What torchmetrics' MetricTester asks of each of its metrics; no package of theirs holds it."""
    scorer = capscore.load(name, **OPTIONS[name])

    def expected(first, last):
        rows = [column[first:last] * (2 if peers else 1) for column in (CAPTIONS, PHOTOS, REFERENCES)]
        return scorer.score(*(rows if scorer.reads_references else rows[:2]), language="en").of_set

    two_processes = {"dist_sync_fn": lambda state, group: [state, state], "dist_sync_on_step": True}
    two_processes["distributed_available_fn"] = lambda: True  # which have the same rows
    for peers in ({}, two_processes):
        metric = CaptionMetric(name, language="en", **OPTIONS[name], **peers)
        assert (metric.plot_lower_bound, metric.plot_upper_bound) == scorer.limits
        for constant in ("is_differentiable", "higher_is_better", "plot_lower_bound"):
            with pytest.raises(RuntimeError, match="Can't change const"):
                setattr(metric, constant, None)
        metric = copy.deepcopy(metric if peers else pickle.loads(pickle.dumps(metric)))
        assert isinstance(hash(metric), int) and not metric.state_dict()
        for first, last in ((0, 2), (2, 5)):
            found = metric(CAPTIONS[first:last], PHOTOS[first:last], REFERENCES[first:last])
            assert float(found) == pytest.approx(expected(first, last), abs=1e-9) and not found.requires_grad
        other = metric.clone().set_dtype(torch.float16)
        assert float(metric.compute()) == float(other.compute()) == pytest.approx(expected(0, 5), abs=1e-9)
        if importlib.util.find_spec("matplotlib") is not None:
            assert all(axis is not None for axis in (*metric.plot(), *metric.plot([found, found])))


def test_a_collection_mixes_metrics_with_and_without_references_and_takes_their_forms():
    metrics = {name: CaptionMetric(name, language="en", **options) for name, options in OPTIONS.items()}
    every = MetricCollection({**metrics, "theirs": BLEUScore()})
    theirs = {"preds": CAPTIONS, "target": REFERENCES}
    every.update(predictions=CAPTIONS, images=PHOTOS, references=REFERENCES, **theirs)
    found = every.compute()
    assert found.keys() == every.keys() and all(torch.isfinite(value) for value in found.values())
    for name, options in OPTIONS.items():
        alone = CaptionMetric(name, language="en", **options)
        assert float(found[name]) == float(alone(CAPTIONS, PHOTOS, REFERENCES)), name


TEXT, TEXTS, COLOURS = CAPTIONS[1], REFERENCES[1], "red blue"
FORMS = {
    "rouge_l": [([TEXT], [TEXTS]), (TEXT, TEXTS), (TEXT, TEXTS[0]), (TEXT, None, TEXTS)],
    "mcs": [
        *(([COLOURS], [RED]), ([RED], [COLOURS]), (RED, COLOURS), (COLOURS, RED), (PIXELS, COLOURS)),
        *((COLOURS, PIXELS.float()), (PIXELS[None], [COLOURS], [["a red photo"]])),
    ],
}


@pytest.mark.parametrize("name", FORMS)
def test_rows_come_in_each_form_of_torchmetrics(name):
    """Images or references second, images first, one row alone; pixels as in their examples."""
    found = []
    for columns in FORMS[name]:
        metric = CaptionMetric(name, language="en", **OPTIONS[name])
        found.append(float(metric(*columns)))
        assert int(metric.n_rows) == 1
    assert found == [found[0]] * len(found) and found[0] > 0.5


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
def test_processes_share_their_rows_and_none_counts_twice(expected, tmp_path):
    """The last process has no rows; the second repeats a row of the first, as a padding sampler does."""
    shares = [
        [CAPTIONS[:3], REFERENCES[:3], [0, 1, 2]],
        [[*CAPTIONS[3:], CAPTIONS[0]], [*REFERENCES[3:], REFERENCES[0]], [3, 4, 0]],
        [[], [], []],
    ]
    job = json.dumps({"at": (tmp_path / "meeting").as_uri(), "shares": shares})
    started = [Process(["-c", PROCESS, job, rank]) for rank in range(3)]
    for process, here in zip(started, (3, 3, 0), strict=True):
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        value, rows, again = json.loads(out.splitlines()[-1])
        assert value == again == pytest.approx(expected.mean(), abs=1e-9)
        assert rows == here, "n_rows is of this process"
