"""Every tiny checkpoint loads through the Auto classes, and its logits depend on photo and text."""

import pytest
import torch

from ..backbones.tiny_transformers import random_photos
from .tiny_models import FAMILIES, write_model

CAPTIONS = ("A red cat sleeps on the mat.", "Zwei Hunde rennen, 2.5 km!")
ONE_TOKEN = ("Yes", " Yes", "yes", " yes", "No", " No", "no", " no", *"0123456789.")


@pytest.fixture(scope="module", params=FAMILIES)
def loaded(request, tiny_model):
    from transformers import AutoModelForImageTextToText, AutoProcessor

    folder = tiny_model(request.param)
    return AutoModelForImageTextToText.from_pretrained(folder).eval(), AutoProcessor.from_pretrained(folder)


def inputs_of(processor, photo, caption):
    question = f'Does "{caption}" describe the photo?'
    parts = [{"type": "image", "image": photo}, {"type": "text", "text": question}]
    return processor.apply_chat_template(
        [{"role": "user", "content": parts}],
        tokenize=True,
        return_dict=True,
        add_generation_prompt=True,
        return_tensors="pt",
    )


def first_answer(model, processor, photo, caption):
    with torch.inference_mode():
        return model(**inputs_of(processor, photo, caption)).logits[0, -1]


def test_logits_depend_on_photo_and_caption(loaded):
    model, processor = loaded
    yes, no = processor.tokenizer.convert_tokens_to_ids(["Yes", "No"])
    logits = torch.stack(
        [
            torch.stack([first_answer(model, processor, photo, caption) for caption in CAPTIONS])
            for photo in random_photos()
        ]
    )
    assert logits.isfinite().all()
    margins = logits[..., yes] - logits[..., no]
    assert margins.std() > 0.05
    assert margins.std(dim=0).min() > 0.01, "the photo makes no difference"
    assert margins.diff(dim=1).abs().min() > 1e-4, "the caption makes no difference"


def test_answers_and_digits_are_single_tokens(loaded):
    tokenizer = loaded[1].tokenizer
    pieces = {text: tokenizer.tokenize(text) for text in ONE_TOKEN}
    assert all(len(found) == 1 for found in pieces.values()), pieces
    numbers = [piece for piece in tokenizer.tokenize("Grade 0.75") if any(map(str.isdigit, piece))]
    assert numbers == ["0", "7", "5"]
    assert tokenizer.decode(tokenizer.encode("猫 é 🐈", add_special_tokens=False)) == "猫 é 🐈"
    assert len(tokenizer) <= 1000


def test_the_seed_draws_the_weights(tmp_path):
    first, again, other = (
        write_model(tmp_path / name, FAMILIES[0], seed=seed) for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    assert all((again / path.name).read_bytes() == path.read_bytes() for path in first.iterdir())
    assert (first / "model.safetensors").read_bytes() != (other / "model.safetensors").read_bytes()
