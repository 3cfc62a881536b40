"""The judge does no work that no score needs."""

import threading

import pytest
import transformers

from tools.tiny.judges import MATCHERS, load
from tools.tiny.transformers_models import random_photos

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
PHOTOS = random_photos()
ROWS = [(photo, caption) for caption in ("a cat", "two dogs run on the beach", "no") for photo in PHOTOS[:3]]


def scored(judge):
    return judge.score([caption for _, caption in ROWS], [photo for photo, _ in ROWS])


def shapes_from(module):
    """Filled with the shapes of what the module gives, while it runs."""
    shapes = []
    module.register_forward_hook(
        lambda _, given, output: shapes.append(getattr(output, "last_hidden_state", output).shape)
    )
    return shapes


def test_the_vocabulary_is_read_only_where_an_answer_begins(tiny_model):
    judge = load(backbone=tiny_model("qwen2_5_vl"))
    shapes = shapes_from(judge.model.model.lm_head)
    scored(judge)
    # for each row, and at the end of the shared part of each photo
    assert sum(photos * places for photos, places, _ in shapes) == len(ROWS) + 3


@pytest.mark.parametrize("family", MATCHERS)
def test_a_head_for_matching_sees_each_photo_once(family, tiny_model):
    judge = load(backbone=tiny_model(family), reading="match", batch_size=9)
    shapes = shapes_from(judge.model.model.vision_model)
    scored(judge)
    assert [shape[0] for shape in shapes] == [3] and judge.model.batch_size == 9


def test_photos_are_prepared_beside_the_model_with_a_tokenizer_that_never_pads(tiny_model, monkeypatch):
    defaults = transformers.Idefics3Processor.valid_processor_kwargs._defaults
    monkeypatch.setitem(defaults, "text_kwargs", {"padding": True})  # as Gemma 4's
    judge = load(backbone=tiny_model("smolvlm"))
    prompter, found = judge.model.prompter, []
    photo_inputs = prompter.photo_inputs

    def noted(*photo):
        inputs = photo_inputs(*photo)
        found.append((threading.get_ident(), prompter.tokenizer._tokenizer.padding))
        return inputs

    monkeypatch.setattr(prompter, "photo_inputs", noted)
    scored(judge)
    threads, padding = zip(*found, strict=True)
    assert threading.get_ident() not in threads and padding == (None,) * 3
