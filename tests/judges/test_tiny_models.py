"""Every tiny checkpoint loads as real ones do, and its output depends on photo and caption."""

import pytest
import torch
import transformers

from ..backbones.tiny_transformers import random_photos
from .tiny_models import FAMILIES, MATCHERS, write_model

CAPTIONS = ("A red cat sleeps on the mat.", "Zwei Hunde rennen, 2.5 km!")
ANSWERS = ("Yes", " Yes", "yes", " yes", "No", " No", "no", " no")


@pytest.fixture(scope="module", params=FAMILIES)
def loaded(request, tiny_model):
    folder = tiny_model(request.param)
    model = transformers.AutoModelForImageTextToText.from_pretrained(folder)
    return model.eval(), transformers.AutoProcessor.from_pretrained(folder)


def inputs_of(processor, photo, caption):
    question = f'Does "{caption}" describe the photo?'
    if not processor.chat_template:
        return processor(text=f"<image>{question}", images=photo, return_tensors="pt")
    parts = [{"type": "image", "image": photo}, {"type": "text", "text": question}]
    settings = {"tokenize": True, "return_dict": True, "return_tensors": "pt"}
    message = {"role": "user", "content": parts}
    return processor.apply_chat_template([message], add_generation_prompt=True, **settings)


def check_margins(margin_of):
    """Margins of photos × captions depend on both."""
    with torch.inference_mode():
        margins = torch.stack(
            [torch.stack([margin_of(photo, text) for text in CAPTIONS]) for photo in random_photos()]
        )
    assert margins.isfinite().all()
    assert margins.std() > 0.05
    assert margins.std(dim=0).min() > 0.01, "the photo makes no difference"
    assert margins.diff(dim=1).abs().min() > 1e-4, "the caption makes no difference"


def test_answers_depend_on_photo_and_caption(loaded):
    model, processor = loaded
    yes, no = (processor.tokenizer.encode(word, add_special_tokens=False)[0] for word in ("Yes", "No"))

    def margin_of(photo, caption):
        logits = model(**inputs_of(processor, photo, caption)).logits
        assert logits.isfinite().all()
        return logits[0, -1, yes] - logits[0, -1, no]

    check_margins(margin_of)


@pytest.mark.parametrize("family", MATCHERS)
def test_matches_depend_on_photo_and_caption(family, tiny_model):
    folder = tiny_model(family)
    processor = transformers.AutoProcessor.from_pretrained(folder)
    head = {"use_itm_head" if family == "blip" else "use_image_text_matching_head": True}
    name = transformers.AutoConfig.from_pretrained(folder).architectures[0]
    model = getattr(transformers, name).from_pretrained(folder).eval()

    def margin_of(photo, caption):
        output = model(**processor(text=caption, images=photo, return_tensors="pt"), **head)
        mismatch, match = output[0][0]
        return match - mismatch

    check_margins(margin_of)


def test_answers_and_digits_are_single_tokens(loaded):
    tokenizer = loaded[1].tokenizer
    pieces = {text: tokenizer.tokenize(text) for text in ANSWERS}
    assert all(len(found) == 1 for found in pieces.values()), pieces
    assert tokenizer.tokenize("Grade 0.1234.56789.")[-13:] == list("0.1234.56789.")
    assert tokenizer.decode(tokenizer.encode("猫 é 🐈", add_special_tokens=False)) == "猫 é 🐈"


def test_the_seed_draws_the_weights(tmp_path):
    first, again, other = (
        write_model(tmp_path / name, FAMILIES[0], seed=seed) for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    assert all((again / path.name).read_bytes() == path.read_bytes() for path in first.iterdir())
    assert (first / "model.safetensors").read_bytes() != (other / "model.safetensors").read_bytes()
