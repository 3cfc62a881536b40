"""A signature, and with it the cache, changes with everything that moves a score, and with nothing else."""

import json
import shutil

import numpy as np
import pytest
import torch
import transformers

import capscore
from capscore.judges.asker import answer_key
from capscore.judges.prompts import Prompt
from capscore.judges.readings import Yes
from tools.tiny.judges import tiny_judge

from .test_parity import PHOTOS

pytestmark = pytest.mark.filterwarnings("ignore::capscore.errors.CapscoreWarning")


def signature(folder, columns=None, **options):
    judge = capscore.load("judge", backbone=folder, cache=False, **options)
    return judge.score(**{"candidates": ["a cat", "a dog"], "images": PHOTOS[:2]} | (columns or {})).signature


def add_tokens(folder, *texts):
    processor = transformers.AutoProcessor.from_pretrained(folder)
    processor.tokenizer.add_tokens([*texts, "<<"])
    processor.save_pretrained(folder)


def another_config(folder):
    config = json.loads((folder / "config.json").read_text())
    config["text_config"]["rms_norm_eps"] = 0.1
    (folder / "config.json").write_text(json.dumps(config))


def test_a_template_that_states_the_day_has_another_digest_every_day(tiny_model, tmp_path):
    folder = shutil.copytree(tiny_model("qwen2_5_vl"), tmp_path / "judge")
    template = folder / "chat_template.jinja"
    template.write_text("{{ strftime_now('%S.%f') }}" + template.read_text())
    assert signature(folder) != signature(folder)


@pytest.mark.parametrize("change", [add_tokens, another_config])
def test_a_folder_whose_settings_change_is_another_model(change, tiny_model, tmp_path):
    folder = shutil.copytree(tiny_model("qwen2_5_vl"), tmp_path / "judge")
    before = signature(folder)
    change(folder)
    assert signature(folder) != before


def test_text_around_photos_is_in_the_signature():
    judge = tiny_judge()
    assert "context" not in signature(judge) == signature(judge, {"context": [None, " "]})
    assert "|context:yes|" in signature(judge, {"context": ["A pond.", "A lake."]})
    assert "|context:var|" in signature(judge, {"context": ["A pond.", ""]})


def test_blanks_in_an_option_are_not():
    assert signature(tiny_judge(), answers=" yes / no") == signature(tiny_judge())


def test_answers_of_different_texts_have_different_keys():
    turns = (("user", "{caption} {context}"),)
    texts = [("a", "b\x1fcontext\x1fc"), ("a\x1fcontext\x1fb", "c"), ("a", 'b", "c'), ('a", "b', "c")]
    prompts = [Prompt(turns, {"caption": caption, "context": context}) for caption, context in texts]
    assert len({answer_key("photo", prompt) for prompt in prompts}) == len(prompts)


def test_no_probability_is_above_one():
    reading = Yes()
    reading.bind(tiny_judge().prompter, reading.prompts("", (), "")[0])
    logits = torch.randn(512, 1, 600, generator=torch.Generator().manual_seed(0))
    logits[:, :, [*reading.spellings[0], *reading.spellings[1]]] += 25
    assert np.max(reading.read(512, lambda begun: logits)[:, 1]) == 1
