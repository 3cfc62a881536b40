"""What goes into the question of a judge, what comes out and what is kept, its signature, and its work."""

import functools
import json
import re
import shutil
import threading

import numpy as np
import pandas
import pytest
import torch
import transformers

import capscore
from capscore.judges.asker import answer_key
from capscore.judges.model import known_models
from capscore.judges.prompts import Prompt
from capscore.judges.readings import Yes
from capscore.metrics.judge import WHY
from capscore.metrics.rows import parse_signature
from capscore.registry import READINGS, register_reading
from tools.tiny.judges import FAMILIES, MATCHERS, load, tiny_judge

from ..processes import ROOT
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
    f'{BEFORE}{PHOTO}The photo stands in this text: "A farm."\n\nPeople described this photo like this: '
)
WITH_MORE += f'"one", "two"\n\n{QUESTION}{AFTER}'


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
        turns = ("assistant", ("yes" if found.components["margin"][row] > 0 else "no")), ("user", WHY)
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
    assert load(cache=tmp_path).score(**ROWS).to_dict() == first.to_dict() and not passes
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


# three captions of each of three photos
NINE = {"candidates": [text for text in ("a cat", "two dogs run on the beach", "no") for _ in range(3)]}
NINE["images"] = PHOTOS[:3] * 3


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
    judge.score(**NINE)
    # for each row, and at the end of the shared part of each photo
    assert sum(photos * places for photos, places, _ in shapes) == 9 + 3


@pytest.mark.parametrize("family", MATCHERS)
def test_a_head_for_matching_sees_each_photo_once(family, tiny_model):
    judge = load(backbone=tiny_model(family), reading="match", batch_size=9)
    shapes = shapes_from(judge.model.model.vision_model)
    judge.score(**NINE)
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
    judge.score(**NINE)
    threads, padding = zip(*found, strict=True)
    assert threading.get_ident() not in threads and padding == (None,) * 3


def signature(folder, columns=None, **options):
    rows = {"candidates": ["a cat", "a dog"], "images": PHOTOS[:2]} | (columns or {})
    return load(backbone=folder, **options).score(**rows).signature


def add_tokens(folder, *texts):
    processor = transformers.AutoProcessor.from_pretrained(folder)
    processor.tokenizer.add_tokens([*texts, "<<"])
    processor.save_pretrained(folder)


def setting(name, value):
    """A change of `name`, such as "config.vision_config.depth", in config.json or processor_config.json."""
    file, *path, last = name.split(".")

    def change(folder):
        config = json.loads((folder / f"{file}.json").read_text())
        functools.reduce(dict.__getitem__, path, config)[last] = value
        (folder / f"{file}.json").write_text(json.dumps(config))

    return change


def test_a_template_that_states_the_day_has_another_digest_every_day(tiny_model, tmp_path):
    folder = shutil.copytree(tiny_model("qwen2_5_vl"), tmp_path / "judge")
    template = folder / "chat_template.jinja"
    template.write_text("{{ strftime_now('%S.%f') }}" + template.read_text())
    assert signature(folder) != signature(folder)


@pytest.mark.parametrize("change", [add_tokens, setting("config.text_config.rms_norm_eps", 0.1)])
def test_a_folder_whose_settings_change_is_another_model(change, tiny_model, tmp_path):
    folder = shutil.copytree(tiny_model("qwen2_5_vl"), tmp_path / "judge")
    before = signature(folder)
    change(folder)
    assert signature(folder) != before


def test_text_around_photos_is_in_the_signature_and_blanks_in_an_option_are_not():
    judge = tiny_judge()
    assert "context" not in signature(judge) == signature(judge, {"context": [None, " "]})
    assert "|context:yes|" in signature(judge, {"context": ["A pond.", "A lake."]})
    assert "|context:var|" in signature(judge, {"context": ["A pond.", ""]})
    assert signature(judge, answers=" yes / no") == signature(judge)


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


MODELS = known_models()


def test_entries_are_complete_and_of_known_kinds():
    fields = {"kind", "billions", "licence", "commercial", "languages", "source"}
    for name, model in MODELS.items():
        assert fields <= set(model) <= fields | {"note"}, model
        assert re.fullmatch(r"[\w.-]+/[\w.-]+", name) and 0 < model["billions"] < 20, name
        assert model["licence"] and type(model["commercial"]) is bool, model
        assert model["source"].startswith("https://"), model
        assert model["languages"] is None or all(len(code) == 2 for code in model["languages"]), model
    assert {model["kind"] for model in MODELS.values()} == {"generative", "matching", "reranker"}


def test_the_guide_shows_every_model():
    guide = (ROOT / "docs" / "judge.md").read_text(encoding="utf-8")
    for name, model in MODELS.items():
        cells = [f"`{name}`", model["kind"], str(model["billions"]), ", ".join(model["languages"] or ())]
        cells += [f"[{model['licence']}]({model['source']})", "yes" if model["commercial"] else "no"]
        assert " ".join(f"| {' | '.join([*cells, model.get('note', '')])} |".split()) in guide
