"""What goes into a judge's question, what comes out besides the score, and what the cache keeps."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
from PIL import Image

import capscore
from capscore.metrics.judge import QUESTIONS, WHY
from capscore.metrics.signature import parse_signature

from .test_parity import PHOTOS, assert_close
from .tiny_models import FAMILIES, tiny_judge

pytestmark = pytest.mark.filterwarnings(
    "ignore::capscore.errors.CapscoreWarning", "ignore::DeprecationWarning"
)
ROWS = {"candidates": ["a cat", "a dog", "a red cat", "Zwei Hunde."], "images": [*PHOTOS[:2], *PHOTOS[:2]]}
TALKING = [family for family in FAMILIES if family != "paligemma"]


def load(family="qwen2_5_vl", **options):
    return capscore.load("judge", **{"backbone": tiny_judge(family), "cache": False} | options)


@pytest.fixture
def passes(monkeypatch):
    """The number of tokens in each forward pass of the tiny Qwen2.5-VL."""
    model = tiny_judge("qwen2_5_vl").model
    forward, found = model.forward, []

    def counted(**inputs):
        found.append(inputs["input_ids"].numel())
        return forward(**inputs)

    monkeypatch.setattr(model, "forward", counted)
    return found


def asked(scorer, **columns):
    """The texts of the questions."""
    texts = []
    prompter = scorer.asker.model.prompter
    ids = prompter.ids

    def noted(prompts):
        texts.extend(map(prompter.text, prompts))
        return ids(prompts)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prompter, "ids", noted)
        scores = scorer.score(**ROWS | columns)
    return list(dict.fromkeys(texts)), scores


BEFORE = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
PHOTO = "<|vision_start|><|image_pad|><|vision_end|>"
AFTER = "<|im_end|>\n<|im_start|>assistant\n"
QUESTION = QUESTIONS["yes"].replace("{caption}", "a cat")


@pytest.mark.parametrize(
    ("options", "columns", "expected"),
    [
        ({}, {}, f"{BEFORE}{PHOTO}{QUESTION}{AFTER}"),
        (
            {"instruction": "Be strict."},
            {},
            f"<|im_start|>system\nBe strict.<|im_end|>\n<|im_start|>user\n{PHOTO}{QUESTION}{AFTER}",
        ),
        (
            {"question": "Passt {caption} zu {photo}?"},
            {},
            f"{BEFORE}Passt a cat zu {PHOTO}?{AFTER}",
        ),
        (
            {},
            {"context": ["A farm."] * 4, "references": [["one", "two"]] * 4},
            f'{BEFORE}{PHOTO}The photo stands in this text: "A farm."\n\n'
            f'People described this photo like this: "one", "two"\n\n{QUESTION}{AFTER}',
        ),
    ],
)
def test_texts_stand_in_the_question_where_they_belong(options, columns, expected):
    texts, found = asked(load(**options), **columns)
    assert expected in texts and len(set(found.scores.round(4))) > 1
    plain = load().score(**ROWS)
    same = not options and not columns
    assert (np.abs(found.scores - plain.scores).max() < 1e-6) == same
    if options:
        assert found.signature != plain.signature


def test_a_context_may_be_of_any_kind_and_missing_in_some_rows():
    scorer, texts = load(), ["A farm.", None, float("nan"), "A town."]
    expected = scorer.score(**ROWS, context=texts).scores
    assert scorer.score(**ROWS, context=pandas.array(texts)).scores.tolist() == expected.tolist()
    for make in (tuple, iter, lambda given: np.array(given, dtype=object)):
        assert scorer.score(**ROWS, context=make(texts)).scores.tolist() == expected.tolist()
    plain = scorer.score(**ROWS)
    assert_close(expected[[1, 2]], plain.scores[[1, 2]])
    assert np.abs(expected - plain.scores)[[0, 3]].min() > 1e-4


def test_answers_are_the_words_that_are_read():
    words = load(), load(answers="no/yes"), load(answers="ja/nein", backbone=tiny_judge("llava"))
    right, turned, german = (scorer.score(**ROWS) for scorer in words)
    assert_close(right.components["margin"], -turned.components["margin"])
    assert_close(right.scores, 1 - turned.scores)
    assert parse_signature(german.signature)[1]["answers"] == "ja/nein"


def test_p_yes_is_the_score_times_the_mass():
    ratio, p_yes = load().score(**ROWS), load(formula="p_yes").score(**ROWS)
    assert_close(p_yes.scores, ratio.scores * ratio.components["mass"])
    assert "|formula:p_yes|" in p_yes.signature and "|formula:ratio|" in ratio.signature


def test_larger_photos_are_made_smaller(passes):
    whole = load(max_pixels=0).score(**ROWS)
    n_tokens = sum(passes)
    passes.clear()
    small = load(max_pixels=28 * 28).score(**ROWS)
    assert sum(passes) < n_tokens and np.abs(whole.scores - small.scores).max() > 1e-4
    assert "|pixels:all|" in whole.signature and "|pixels:784|" in small.signature


@pytest.mark.parametrize("family", TALKING)
def test_reasons_are_what_the_model_says_next_and_change_no_score(family, monkeypatch):
    rows = ROWS | {"candidates": ["a cat", None, "a red cat", "Zwei Hunde."]}
    judge = load(family, explain=True)
    model, processor = judge.asker.model, judge.asker.model.processor
    made = model.generate
    monkeypatch.setattr(model, "generate", lambda photos: made(photos, max_new_tokens=8))
    expected, found = load(family).score(**rows, on_error="skip"), judge.score(**rows, on_error="skip")
    np.testing.assert_array_equal(found.scores, expected.scores)
    assert found.signature == expected.signature and expected.details is None and found.details[1] is None
    settings = {"tokenize": True, "return_dict": True, "return_tensors": "pt"}
    for row in (0, 2, 3):
        question = QUESTIONS["yes"].replace("{caption}", rows["candidates"][row])
        photo = {"type": "image", "image": Image.fromarray(rows["images"][row])}
        said = "yes" if found.components["margin"][row] > 0 else "no"
        turns = [[photo, text(question)], [text(said)], [text(WHY)]]
        roles = ("user", "assistant", "user")
        messages = [{"role": role, "content": parts} for role, parts in zip(roles, turns, strict=True)]
        inputs = processor.apply_chat_template([messages], add_generation_prompt=True, **settings)
        ids = model.model.generate(**inputs, max_new_tokens=8, do_sample=False)
        new = ids[0, inputs["input_ids"].shape[1] :]
        reason = processor.tokenizer.decode(new, skip_special_tokens=True).strip()
        assert found.details[row] == {"reason": reason}


def text(given):
    return {"type": "text", "text": given}


# ----------------------------------------------------------------- cache


def test_a_second_run_asks_nothing(tmp_path, passes):
    first = load(cache=tmp_path).score(**ROWS)
    passes.clear()
    again = load(cache=tmp_path).score(**ROWS)
    assert not passes and again.to_dict() == first.to_dict()
    for options in (
        {"question": "Is it {caption}?"},
        {"reading": "grade"},
        {"reading": "match"},
        {"answers": "no/yes"},
        {"max_pixels": 1000},
        {"instruction": "Be strict."},
    ):
        passes.clear()
        load(cache=tmp_path, **options).score(**ROWS)
        assert passes, options
    passes.clear()
    for columns in ({"context": ["A farm."] * 4}, {"references": [["one"]] * 4}):
        load(cache=tmp_path).score(**ROWS, **columns)
        assert passes
        passes.clear()


def test_another_number_format_or_model_asks_again(tmp_path, tiny_model):
    found = {}
    for options in ({}, {"dtype": "bfloat16"}):
        scorer = load(backbone=tiny_model("qwen2_5_vl"), cache=tmp_path, **options)
        found[scorer.score(**ROWS).signature] = scorer
    assert len(found) == 2 and len({f.asker.model.dtype for f in found.values()}) == 2


def test_an_interrupted_run_keeps_its_answers(tmp_path, passes, monkeypatch):
    scorer = load(cache=tmp_path, batch_size=1)
    read = scorer.asker.model.model.forward

    def forward(**inputs):
        if len(passes) == 2:
            raise KeyboardInterrupt
        return read(**inputs)

    monkeypatch.setattr(scorer.asker.model.model, "forward", forward)
    rows = {"candidates": ["a cat"] * 4, "images": PHOTOS[:3] + PHOTOS[4:]}
    with pytest.raises(KeyboardInterrupt):
        scorer.score(**rows)
    passes.clear()
    monkeypatch.setattr(scorer.asker.model.model, "forward", read)
    scorer.score(**rows)
    assert len(passes) == 2
