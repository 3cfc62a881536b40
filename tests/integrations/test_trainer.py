"""The callback, in a real Trainer: means in its log, worst captions in a file."""

from __future__ import annotations

import json

import pytest
import torch
from transformers import Trainer, TrainingArguments

import capscore
from capscore.errors import InputError
from capscore.integrations.trainer import CaptionCallback
from tools.tiny.colours import BLUE, RED, ColourBackbone

CAPTIONS, PHOTOS = ["red", "red blue", "green"], [RED, BLUE, BLUE]


class Tiny(torch.nn.Module):
    """As little as a Trainer needs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": self.layer(x).square().mean()}


@pytest.fixture
def trainer(tmp_path) -> Trainer:
    rows = [{"x": torch.ones(1)}] * 4
    steps = {"max_steps": 4, "eval_strategy": "steps", "eval_steps": 2, "per_device_train_batch_size": 1}
    quiet = {"report_to": [], "use_cpu": True, "disable_tqdm": True, "save_strategy": "no"}
    arguments = TrainingArguments(output_dir=str(tmp_path), **steps, **quiet)
    return Trainer(Tiny(), arguments, train_dataset=rows, eval_dataset=rows)


OPTIONS = {"backbone": ColourBackbone(), "cache": False}


def test_means_are_logged_and_the_worst_captions_written(trainer, tmp_path):
    seen = []

    def caption(model):
        seen.append(type(model).__name__)
        return CAPTIONS

    CaptionCallback(caption, PHOTOS, ["mcs"], language="en", worst=2, **OPTIONS).attach(trainer)
    trainer.train()
    logged = [entry for entry in trainer.state.log_history if "eval_mcs" in entry]
    assert [entry["step"] for entry in logged] == [2, 4] and seen == ["Tiny", "Tiny"]
    assert logged[0]["eval_mcs"] == pytest.approx((2.5 + 2.5 / 2**0.5) / 3, abs=1e-6)
    names = sorted(path.name for path in (tmp_path / "captions").iterdir())
    assert names == ["step-000002.jsonl", "step-000004.jsonl"]
    rows = [json.loads(line) for line in (tmp_path / "captions" / names[0]).read_text().splitlines()]
    assert rows == [
        {"row": 2, "caption": "green", "mcs": 0.0},
        {"row": 1, "caption": "red blue", "mcs": pytest.approx(2.5 / 2**0.5)},
    ]


def test_a_mean_chooses_the_best_checkpoint(trainer):
    trainer.args.metric_for_best_model, trainer.args.greater_is_better = "eval_mcs", True
    captions = iter([CAPTIONS, ["green"] * 3])
    CaptionCallback(lambda model: next(captions), PHOTOS, ["mcs"], language="en", **OPTIONS).attach(trainer)
    assert trainer.evaluate()["eval_mcs"] == pytest.approx((2.5 + 2.5 / 2**0.5) / 3, abs=1e-6)
    trainer.args.save_strategy = "best"
    trainer.args.max_steps = 2
    trainer.train()
    assert trainer.state.best_metric == 0.0


def test_metrics_of_every_kind_are_in_the_history_without_attach(trainer):
    metrics = ["rouge_l", "mcs@embedded-free", capscore.load("clip_score", **OPTIONS), "cider"]
    references = [[text] for text in CAPTIONS]
    callback = CaptionCallback(lambda model: CAPTIONS, PHOTOS, metrics, references=references, cache=False)
    trainer.add_callback(callback)
    trainer.train()
    names = ("eval_rouge_l", "eval_mcs", "eval_clip_score", "eval_cider")
    logged = [entry for entry in trainer.state.log_history if set(names) <= entry.keys()]
    assert [entry["eval_rouge_l"] for entry in logged] == [1, 1]
    assert logged[0]["eval_clip_score"] == pytest.approx((1 + 1 / 2**0.5) * 2.5 / 3, abs=1e-6)


def test_too_few_captions_are_refused(trainer):
    CaptionCallback(lambda model: ["one"], PHOTOS, ["mcs"], **OPTIONS).attach(trainer)
    with pytest.raises(InputError, match="the model has 1 caption for 3 photos"):
        trainer.evaluate()
