"""The callback, in a real Trainer: means in its log, worst captions in a file."""

from __future__ import annotations

import json

import pytest
import torch
from PIL import Image
from transformers import Trainer, TrainingArguments

import capscore
from capscore.errors import InputError
from capscore.integrations.trainer import CaptionCallback

CAPTIONS = ["a red square", "two dogs run", "a house"]


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
    arguments = TrainingArguments(
        output_dir=str(tmp_path),
        max_steps=4,
        eval_strategy="steps",
        eval_steps=2,
        per_device_train_batch_size=1,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        save_strategy="no",
    )
    return Trainer(Tiny(), arguments, train_dataset=rows, eval_dataset=rows)


@pytest.fixture
def photos() -> list[Image.Image]:
    return [Image.new("RGB", (32, 32), colour) for colour in ("red", "green", "blue")]


def test_means_and_worst_captions(trainer, photos, tmp_path):
    seen = []

    def caption(model):
        seen.append(type(model).__name__)
        return CAPTIONS

    options = {"backbone": "embedded-free", "device": "cpu", "cache": False}
    CaptionCallback(caption, photos, ["mcs"], language="en", worst=2, **options).attach(trainer)
    trainer.train()
    expected = capscore.load("mcs", **options).score(CAPTIONS, photos, language="en")
    logged = [entry for entry in trainer.state.log_history if "eval_mcs" in entry]
    assert [entry["step"] for entry in logged] == [2, 4] and seen == ["Tiny", "Tiny"]
    assert logged[0]["eval_mcs"] == pytest.approx(float(expected.mean), abs=1e-6)
    names = sorted(path.name for path in (tmp_path / "captions").iterdir())
    assert names == ["step-000002.jsonl", "step-000004.jsonl"]
    rows = [json.loads(line) for line in (tmp_path / "captions" / names[0]).read_text().splitlines()]
    order = expected.scores.argsort(kind="stable")[:2].tolist()
    assert [row["row"] for row in rows] == order
    assert [row["caption"] for row in rows] == [CAPTIONS[row] for row in order]


def test_added_without_attach_the_means_are_in_the_history(trainer, photos):
    trainer.add_callback(
        CaptionCallback(lambda model: CAPTIONS, photos, ["rouge_l"], references=[[one] for one in CAPTIONS])
    )
    trainer.train()
    assert [entry["eval_rouge_l"] for entry in trainer.state.log_history if "eval_rouge_l" in entry] == [1, 1]


def test_too_few_captions(trainer, photos):
    CaptionCallback(lambda model: ["one"], photos, ["mcs"], backbone="embedded-free").attach(trainer)
    with pytest.raises(InputError, match="the model has 1 captions for 3 photos"):
        trainer.evaluate()
