"""A tiny model that learns to say yes where a caption names the colour of a photo is a judge of colours."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

import capscore
from capscore.judges.battle import Battle
from capscore.judges.readings import Yes
from tools.tiny.judges import FAMILIES

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
CAPTIONS = {"red": ["a red photo", "red"], "blue": ["a blue photo", "blue"]}
FAST = ("qwen3_vl",)
SLOW = tuple(family for family in FAMILIES if family not in FAST)


def photo(colour, random, shape="square"):
    """A square, or a disc on grey, of one shade of a colour, with noise."""
    pixels = np.full((42, 42, 3), random.integers(0, 90, 3), dtype=float)
    pixels[..., 0 if colour == "red" else 2] = random.integers(170, 256)
    if shape == "disc":
        away = np.hypot(*(np.mgrid[:42, :42] - 20.5)) > random.integers(16, 20)
        pixels[away] = random.integers(60, 90)
    return np.clip(pixels + random.normal(0, 8, pixels.shape), 0, 255).astype(np.uint8)


def rows_of(seed):
    """Photos of four shades of each colour with every caption, and whether it is right."""
    random = np.random.default_rng(seed)
    photos = [(colour, photo(colour, random)) for colour in CAPTIONS for _ in range(4)]
    return [
        (pixels, caption, colour == named)
        for colour, pixels in photos
        for named, captions in CAPTIONS.items()
        for caption in captions
    ]


def battles_of(seed, shape="square"):
    """Photos of four shades of each colour with a right and a wrong caption, and which of them is right."""
    random = np.random.default_rng(seed)
    rows = []
    for colour in [*CAPTIONS] * 4:
        pixels = photo(colour, random, shape)
        (wrong,) = {*CAPTIONS} - {colour}
        for right, other in zip(CAPTIONS[colour], CAPTIONS[wrong], strict=True):
            rows += [(pixels, right, other, True), (pixels, other, right, False)]
    return rows


def taught(folder, rows, words=("Yes", "No"), steps=80):
    """The library's model after some steps of gradient descent on photos, questions and what is right."""
    model = transformers.AutoModelForImageTextToText.from_pretrained(folder)
    processor = transformers.AutoProcessor.from_pretrained(folder)
    tokenizer = processor.tokenizer
    tokenizer.padding_side = "left"
    texts = [text for _, text, _ in rows]
    images = [Image.fromarray(pixels) for pixels, _, _ in rows]
    if processor.chat_template:
        parts = [[{"type": "image"}, {"type": "text", "text": text}] for text in texts]
        messages = [[{"role": "user", "content": content}] for content in parts]
        texts = processor.apply_chat_template(messages, add_generation_prompt=True)
    else:
        texts = [f"<image>answer en {text}" for text in texts]
    inputs = processor(text=texts, images=[[image] for image in images], padding=True, return_tensors="pt")
    yes, no = tokenizer.convert_tokens_to_ids([*words])
    answers = torch.tensor([yes if is_right else no for _, _, is_right in rows])
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    inputs.pop("labels", None)  # of PaliGemma's processor
    for _ in range(steps):
        loss = torch.nn.functional.cross_entropy(model(**inputs).logits[:, -1], answers)
        if loss < 0.1:
            break
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model


@pytest.mark.parametrize(
    "family", [*FAST, *(pytest.param(family, marks=pytest.mark.slow) for family in SLOW)]
)
def test_a_judge_that_learned_colours_ranks_captions_of_unseen_photos(family, tiny_model, tmp_path):
    transformers.AutoProcessor.from_pretrained(tiny_model(family)).save_pretrained(tmp_path)
    rows = [
        (pixels, Yes.question.replace("{caption}", text), right) for pixels, text, right in rows_of(seed=0)
    ]
    taught(tiny_model(family), rows).save_pretrained(tmp_path)
    photos, captions, right = zip(*rows_of(seed=1), strict=True)
    found = capscore.load("judge", backbone=tmp_path, cache=False).score(captions, photos)
    margin, right = found.components["margin"], np.array(right)
    assert margin[right].min() > margin[~right].max()
    assert ((found.scores > 0.5) == right).all() and found.components["mass"].min() > 0.5


@pytest.mark.slow
def test_a_judge_that_learned_colours_wins_battles_on_shades_and_shapes_that_it_never_saw(
    tiny_model, tmp_path
):
    family, question = FAST[0], Battle().question
    transformers.AutoProcessor.from_pretrained(tiny_model(family)).save_pretrained(tmp_path)
    rows = []
    for pixels, caption, rival, right in battles_of(seed=0):
        rows.append((pixels, question.replace("{caption}", caption).replace("{rival}", rival), right))
    taught(tiny_model(family), rows, "12", steps=600).save_pretrained(tmp_path)
    for shape in ("square", "disc"):
        photos, captions, rivals, right = zip(*battles_of(seed=1, shape=shape), strict=True)
        judge = capscore.load("judge", backbone=tmp_path, cache=False, reading="battle")
        found = judge.score(captions, photos, rival=rivals)
        assert ((found.scores > 0.5) == right).all() and found.components["mass"].min() > 0.5
    systems = {}
    for name, wrong in (("right", False), ("half", None), ("wrong", True)):
        systems[name] = rows = []
        for number, colour in enumerate([*CAPTIONS] * 4):
            path = tmp_path / f"{number}.png"
            Image.fromarray(photo(colour, np.random.default_rng(number + 9), "disc")).save(path)
            is_wrong = number % 4 > 1 if wrong is None else wrong
            (other,) = {*CAPTIONS} - {colour}
            rows.append({"image": str(path), "caption": CAPTIONS[other if is_wrong else colour][0]})
    ranked = capscore.battles(systems, "judge", backbone=tmp_path, cache=False, bootstrap=200)
    assert [*ranked.systems] == ["right", "half", "wrong"] and ranked.intervals["right"].low > 1000
    assert ranked.wins.tolist() == [[0, 6, 8], [2, 0, 6], [0, 2, 0]]
