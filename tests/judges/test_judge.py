"""What goes into a judge's question, what comes out besides the score, and what the cache keeps."""

import re

import numpy as np
import pandas
import pytest

import capscore
from capscore.judges.readings import Yes
from capscore.metrics.judge import WHY
from capscore.metrics.rows import parse_signature
from capscore.registry import READINGS, register_reading
from tools.tiny.judges import FAMILIES, load, tiny_judge

from .test_parity import PHOTOS, asked, assert_close

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
ROWS = {"candidates": ["a cat", "a dog", "a red cat", "Zwei Hunde."], "images": [*PHOTOS[:2], *PHOTOS[:2]]}
TALKING = [family for family in FAMILIES if family != "paligemma"]
SYSTEM = "<|im_start|>system\n{}<|im_end|>\n<|im_start|>user\n"
BEFORE = SYSTEM.format("You are a helpful assistant.")
PHOTO = "<|vision_start|><|image_pad|><|vision_end|>"
AFTER = "<|im_end|>\n<|im_start|>assistant\n"
QUESTION = Yes.question.replace("{caption}", "a cat")
MORE = {"context": ["A farm."], "references": [["one", "two"]]}
WITH_MORE = (
    f'{BEFORE}{PHOTO}The photo stands in this text: "A farm."\n\n'
    f'People described this photo like this: "one", "two"\n\n{QUESTION}{AFTER}'
)


@pytest.mark.parametrize(
    ("options", "columns", "expected"),
    [
        ({}, {}, f"{BEFORE}{PHOTO}{QUESTION}{AFTER}"),
        ({"instruction": "Be strict."}, {}, f"{SYSTEM.format('Be strict.')}{PHOTO}{QUESTION}{AFTER}"),
        ({"question": "Passt {caption} zu {photo}?"}, {}, f"{BEFORE}Passt a cat zu {PHOTO}?{AFTER}"),
        ({}, MORE, WITH_MORE),
    ],
)
def test_texts_stand_in_the_question_where_they_belong(options, columns, expected, passes):
    found = load(**options).score(["a cat"], PHOTOS[:1], **columns)
    ((ids,),) = [inputs["input_ids"] for inputs in passes]
    text = tiny_judge("qwen2_5_vl").processor.tokenizer.decode(ids)
    assert re.sub(r"(<\|image_pad\|>)+", "<|image_pad|>", text) == expected
    plain = load().score(["a cat"], PHOTOS[:1])
    assert (found.signature == plain.signature) == (not options and not columns)


def test_a_context_may_be_of_any_kind_and_missing_in_some_rows():
    scorer, texts = load(), ["A farm.", None, float("nan"), "A town."]
    expected = scorer.score(**ROWS, context=texts).scores
    assert scorer.score(**ROWS, context=pandas.array(texts)).scores.tolist() == expected.tolist()
    for make in (tuple, iter, lambda given: np.array(given, dtype=object)):
        assert scorer.score(**ROWS, context=make(texts)).scores.tolist() == expected.tolist()
    plain = scorer.score(**ROWS)
    assert_close(expected[[1, 2]], plain.scores[[1, 2]])
    assert np.abs(expected - plain.scores)[[0, 3]].min() > 1e-4


def test_answers_are_the_words_that_are_read_and_p_yes_is_the_score_times_the_mass():
    right, turned = load().score(**ROWS), load(answers="no/yes").score(**ROWS)
    p_yes = load(formula="p_yes").score(**ROWS)
    assert_close(right.components["margin"], -turned.components["margin"])
    assert_close(right.scores, 1 - turned.scores)
    assert_close(p_yes.scores, right.scores * right.components["mass"])
    assert "|formula:p_yes|" in p_yes.signature and "|formula:ratio|" in right.signature
    german = load("llava", answers="ja/nein").score(**ROWS)
    assert parse_signature(german.signature)[1]["answers"] == "ja/nein"


def test_larger_photos_are_made_smaller(passes):
    whole, n_whole = load(max_pixels=0).score(**ROWS), len(passes)
    small = load(max_pixels=28 * 28).score(**ROWS)
    with pytest.warns(capscore.RowWarning, match="max_pixels=1 "):
        load(max_pixels=1)
    n_tokens = [inputs["input_ids"].numel() for inputs in passes]
    assert sum(n_tokens[n_whole:]) < sum(n_tokens[:n_whole])
    assert np.abs(whole.scores - small.scores).max() > 1e-4
    assert "|pixels:all|" in whole.signature and "|pixels:784|" in small.signature


@pytest.mark.parametrize("family", TALKING)
def test_reasons_are_what_the_model_says_next_and_change_no_score(family, monkeypatch):
    rows = ROWS | {"candidates": ["a cat", None, "a red cat", "Zwei Hunde."]}
    judge = load(family, explain=True)
    model, processor = judge.asker.model, judge.asker.model.processor
    made = model.generate
    monkeypatch.setattr(model, "generate", lambda image, prompt: made(image, prompt, max_new_tokens=8))
    expected, found = load(family).score(**rows, on_error="skip"), judge.score(**rows, on_error="skip")
    np.testing.assert_array_equal(found.scores, expected.scores)
    assert found.signature == expected.signature and expected.details is None and found.details[1] is None
    for row in (0, 2, 3):
        said = "yes" if found.components["margin"][row] > 0 else "no"
        turns = ("assistant", said), ("user", WHY)
        (inputs,) = asked(processor, Yes.question, [(row % 2, rows["candidates"][row])], turns)
        ids = model.model.generate(**inputs, max_new_tokens=8, do_sample=False)
        new = ids[0, inputs["input_ids"].shape[1] :]
        reason = processor.tokenizer.decode(new, skip_special_tokens=True).strip()
        assert found.details[row] == {"reason": reason}


def test_a_reading_may_ask_several_questions_per_row(passes):
    """Such as one per sentence; a row has the mean of its log-odds, and its photo is read once."""

    @register_reading("sentences")
    class Sentences(Yes):
        def prompts(self, caption, references, context):
            parts = caption.split(". ")
            return [prompt for part in parts for prompt in super(Sentences, self).prompts(part, (), "")]

        def joined(self, numbers, prompts):
            return numbers.mean(axis=0)

    try:
        found = load(reading="sentences").score(["a cat. a dog. no", "a dog"], PHOTOS[:2])
    finally:
        READINGS.unregister("sentences")
    assert len(passes) == 3, "the first photo, its three questions together, and the second photo"
    alone = load().score(["a cat", "a dog", "no", "a dog"], [PHOTOS[0]] * 3 + [PHOTOS[1]]).components
    for name in ("margin", "mass"):
        assert_close(found.components[name], [alone[name][:3].mean(), alone[name][3]])


def test_a_second_run_asks_nothing(tmp_path, passes):
    first = load(cache=tmp_path).score(**ROWS)
    passes.clear()
    again = load(cache=tmp_path).score(**ROWS)
    assert not passes and again.to_dict() == first.to_dict()
    texts = {"question": "Is it {caption}?", "instruction": "Be strict.", "answers": "no/yes"}
    others = [*texts.items(), ("reading", "grade"), ("reading", "match"), ("max_pixels", 1000)]
    for name, value in (*others, ("context", ["A farm."] * 4), ("references", [["one"]] * 4)):
        is_column = isinstance(value, list)
        scorer = load(cache=tmp_path, **({} if is_column else {name: value}))
        scorer.score(**ROWS, **({name: value} if is_column else {}))
        assert passes, name
        passes.clear()


def test_another_number_format_asks_again(tmp_path, tiny_model):
    options = {"backbone": tiny_model("qwen2_5_vl"), "cache": tmp_path}
    first = load(**options).score(**ROWS)
    again, other = load(**options), load(**options, dtype="bfloat16")
    for scorer in (again, other):
        scorer.asker.model.model.forward = None  # it cannot be asked
    assert again.score(**ROWS).to_dict() == first.to_dict()
    with pytest.raises(capscore.CapscoreError, match="cannot answer"):
        other.score(**ROWS)


def test_an_interrupted_run_keeps_its_answers(tmp_path, passes, monkeypatch):
    scorer = load(cache=tmp_path, batch_size=1)
    model, rows = scorer.asker.model.model, {"candidates": ["a cat"] * 4, "images": PHOTOS[:3] + PHOTOS[4:]}
    read = model.forward

    def forward(**inputs):
        if len(passes) == 2:
            raise KeyboardInterrupt
        return read(**inputs)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(model, "forward", forward)
        scorer.score(**rows)
    scorer.score(**rows)
    assert len(passes) == 4
