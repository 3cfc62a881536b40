"""Whatever hands rows to a judge gives the numbers of `Scorer.score`."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

import capscore
from capscore.integrations.harness import HarnessMetric
from capscore.integrations.ray import Score
from capscore.integrations.torchmetrics import CaptionMetric
from capscore.integrations.trainer import CaptionCallback
from capscore.integrations.trl import caption_reward

from ..photos import noise
from .tiny_models import tiny_judge

pytestmark = pytest.mark.filterwarnings("ignore:rows that look wrong")
CAPTIONS = ["a cat", "zwei Hunde", "a red house"]
PHOTOS = [Image.fromarray(noise(40, 60, seed)) for seed in range(3)]


@pytest.fixture(scope="module")
def options():
    return {"backbone": tiny_judge(), "cache": False}


@pytest.fixture(scope="module")
def expected(options):
    return capscore.load("judge", **options).score(CAPTIONS, PHOTOS)


def test_torchmetrics_and_harnesses_have_the_mean(expected, options):
    metric = CaptionMetric("judge", **options)
    for caption, photo in zip(CAPTIONS, PHOTOS, strict=True):
        metric.update([caption], [photo])
    assert float(metric.compute()) == pytest.approx(expected.mean, abs=1e-6)
    harness = HarnessMetric("judge", **options)
    rows = [
        harness.process_results({"image": p}, [c])["judge"] for c, p in zip(CAPTIONS, PHOTOS, strict=True)
    ]
    assert harness.aggregation(rows) == pytest.approx(expected.mean, abs=1e-6)


def test_streams_ray_and_rewards_have_the_scores_of_rows(expected, options):
    scores = pytest.approx(expected.scores.tolist(), abs=1e-6)
    rows = [{"caption": c, "image": p} for c, p in zip(CAPTIONS, PHOTOS, strict=True)]
    scorer = capscore.load("judge", **options)
    found = list(capscore.score_stream(rows, scorer, batch_rows=2))
    assert [row["judge"] for row in found] == scores and "reason" not in found[0]
    batch = {"caption": CAPTIONS, "image": [np.asarray(photo) for photo in PHOTOS]}
    explained = Score("judge", **options, explain=True)(batch)
    assert explained["judge"] == scores and all(isinstance(text, str) for text in explained["reason"])
    reward = caption_reward("judge", **options)
    assert reward(prompts=[""] * 3, completions=CAPTIONS, image=PHOTOS) == scores


def test_the_trainer_logs_the_mean(expected, options, tmp_path):
    callback, metrics = CaptionCallback(lambda model: CAPTIONS, PHOTOS, ["judge"], **options), {}
    state = SimpleNamespace(is_world_process_zero=True, global_step=3, log_history=[])
    callback.on_evaluate(SimpleNamespace(output_dir=tmp_path), state, None, metrics=metrics)
    assert metrics["eval_judge"] == pytest.approx(expected.mean, abs=1e-6)
    lines = (tmp_path / "captions" / "step-000003.jsonl").read_text(encoding="utf-8").splitlines()
    assert CAPTIONS[expected.scores.argmin()] in lines[0] and len(lines) == 3
