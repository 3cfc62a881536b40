"""The callback, in a real Trainer: means in its log, worst captions in a file."""

import pytest
import torch
from transformers import Trainer, TrainingArguments

import capscore
from capscore.errors import InputError
from capscore.integrations.trainer import CaptionCallback
from tools.tiny.colours import BLUE, RED, ColourBackbone
from tools.tiny.command import read_jsonl

CAPTIONS, PHOTOS, MEAN = ["red", "red blue", "green"], [RED, BLUE, BLUE], (2.5 + 2.5 / 2**0.5) / 3


class Tiny(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def forward(self, x):
        return {"loss": self.layer(x).square().mean()}


@pytest.fixture
def trainer(tmp_path):
    rows = [{"x": torch.ones(1)}] * 4
    steps = {"max_steps": 4, "eval_strategy": "steps", "eval_steps": 2, "per_device_train_batch_size": 1}
    quiet = {"report_to": [], "use_cpu": True, "disable_tqdm": True, "save_strategy": "no"}
    arguments = TrainingArguments(output_dir=str(tmp_path), **steps, **quiet)
    return Trainer(Tiny(), arguments, train_dataset=rows, eval_dataset=rows)


OPTIONS = {"backbone": ColourBackbone(), "cache": False}


def test_a_mean_chooses_the_best_checkpoint(trainer):
    trainer.args.metric_for_best_model, trainer.args.greater_is_better = "eval_mcs", True
    captions = iter([CAPTIONS, ["green"] * 3])
    CaptionCallback(lambda model: next(captions), PHOTOS, ["mcs"], language="en", **OPTIONS).attach(trainer)
    assert trainer.evaluate()["eval_mcs"] == pytest.approx(MEAN, abs=1e-6)
    trainer.args.save_strategy = "best"
    trainer.args.max_steps = 2
    trainer.train()
    assert trainer.state.best_metric == 0.0


def test_metrics_of_every_kind_are_in_the_history_and_the_worst_captions_in_a_file(trainer, tmp_path):
    metrics = [capscore.load("mcs", **OPTIONS), "rouge_l", "clip_score@embedded-free", "cider"]
    more = {"references": [[text] for text in CAPTIONS], "language": "en", "cache": False, "worst": 2}
    callback = CaptionCallback(lambda model: isinstance(model, Tiny) and CAPTIONS, PHOTOS, metrics, **more)
    trainer.add_callback(callback)  # without `attach`
    trainer.train()
    names = {"eval_rouge_l", "eval_mcs", "eval_clip_score", "eval_cider"}
    logged = [entry for entry in trainer.state.log_history if names <= entry.keys()]
    assert [(entry["step"], entry["eval_rouge_l"]) for entry in logged] == [(2, 1), (4, 1)]
    assert logged[0]["eval_mcs"] == pytest.approx(MEAN, abs=1e-6)
    paths = sorted((tmp_path / "captions").iterdir())
    assert [path.name for path in paths] == ["step-000002.jsonl", "step-000004.jsonl"]
    found = [(row["row"], row["caption"], row["mcs"]) for row in read_jsonl(paths[0])]
    assert found == [(2, "green", 0.0), (1, "red blue", pytest.approx(2.5 / 2**0.5))]


@pytest.mark.parametrize("said, what", [(["one"], "has 1 caption for 3 photos"), ("red", "is one string")])
def test_too_few_captions_are_refused(trainer, said, what):
    CaptionCallback(lambda model: said, PHOTOS, ["mcs"], **OPTIONS).attach(trainer)
    with pytest.raises(InputError, match=what):
        trainer.evaluate()
