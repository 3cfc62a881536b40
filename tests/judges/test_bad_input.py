"""What a judge cannot do is one clear error that names the model, the option, or the row and its field."""

import json
import shutil
from unittest import mock

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file, save_file

from capscore.errors import BackboneUnavailable, CapscoreError, ImageError, InputError, RowWarning
from tools.tiny.judges import MATCHERS, load
from tools.tiny.transformers_models import write_clip

from .test_judge import add_tokens, setting
from .test_parity import PHOTOS

LONG, NARROW = "word " * 20_000, np.zeros((2, 800, 3), np.uint8)
TEXTLESS = "{% for m in messages %}{% for c in m.content %}<|image_pad|>{% endfor %}{% endfor %}"
PHOTOLESS = "{% for m in messages %}{% for c in m.content %}{{ c.text }}{% endfor %}{% endfor %}"
ENDLESS = "{% for i in range(9999) %}{% for j in range(9999) %}{% set k = j %}{% endfor %}{% endfor %}"
WIDE = "{% for i in range(9999) %}{{ '0123456789' * 1000 }}{% endfor %}"
DOUBLING = "{%set s = namespace(t='0')%}{%for i in range(60)%}{%set s.t = s.t ~ s.t%}{% endfor %}{{ s.t }}"


def score(scorer, **columns):
    """Two rows; the second photo has a size of its own."""
    return scorer.score(**{"candidates": ["a cat", "a dog"], "images": PHOTOS[:2]} | columns)


def remove(name):
    return lambda folder: (folder / name).unlink()


def code_of_its_own(folder):
    """A processor of a class that only code in the folder has."""
    (folder / "own.py").write_text("open('ran', 'w')")
    setting("processor_config.auto_map", {"AutoProcessor": "own.Own"})(folder)
    setting("processor_config.processor_class", "Own")(folder)


def template(text, file="chat_template.jinja"):
    return lambda folder: (folder / file).write_text(text)


def token(text):
    return lambda folder: add_tokens(folder, text)


def without_a_tensor(folder):
    tensors = load_file(folder / "model.safetensors")
    tensors.pop(min(name for name in tensors if "mlp" in name))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (template(""), {}, "has no chat template, so nothing says how a question is put to it"),
        (template("{{ raise_exception('only users') }}"), {}, "refuses the question: only users$"),
        (template("{{ raise_exception('one') }}"), {"instruction": "Strict."}, "one; without instruction"),
        (template(TEXTLESS), {}, r"leaves out the text of a turn \(caption\)"),
        (template(PHOTOLESS), {}, "refuses the photo and its question: .* 0 .* tokens and 1 image"),
        (remove("processor_config.json"), {}, "^backbone=.*image processor"),
        (remove("model.safetensors"), {}, "has no weights"),
        (template('{"peft_type": "LORA"}', "adapter_config.json"), {}, "^backbone=.*adapter; merge it"),
        (without_a_tensor, {}, "^backbone=.*do not fit its config: 1 missing, such as .*mlp"),
        (code_of_its_own, {}, "^backbone=.*the processor in .* contains custom code"),
        (setting("config.text_config.intermediate_size", 10**8), {}, "^backbone=.*too few for"),
        (setting("processor_config.image_processor.patch_size", 0), {}, "question: division by zero"),
        (template(ENDLESS), {}, "the chat template of judge does not end: stopped after 100,000 steps"),
        (template(WIDE), {}, "the chat template of judge writes over 1,000,000 characters"),
        (template(DOUBLING), {}, "writes over 1,000,000 characters"),
        (setting("config.image_token_id", 3), {}, "judge cannot answer: .* do not fit"),
        (setting("config.text_config.intermediate_size", 48), {}, r"^backbone=.*\d+ of another shape, .*mlp"),
        (token("caption"), {}, "the tokenizer of judge has tokens that the model lacks"),
        (token("55"), {"reading": "grade"}, "izer of judge has no single token for each digit"),
    ],
)
def test_a_checkpoint_that_is_no_judge_says_what_it_lacks(change, options, message, tiny_model, tmp_path):
    folder = shutil.copytree(tiny_model("qwen2_5_vl"), tmp_path / "judge")
    change(folder)
    # to a question that must not be asked
    with mock.patch("builtins.input", lambda *_: "y"), pytest.raises(CapscoreError, match=message):
        score(load(backbone=folder, **options))


def test_other_kinds_of_models_are_named(tmp_path):
    text = transformers.LlamaConfig(vocab_size=50, hidden_size=32, intermediate_size=8, num_hidden_layers=1)
    transformers.LlamaForCausalLM(text).save_pretrained(tmp_path / "text")
    (tmp_path / "two").mkdir()
    (tmp_path / "two/config.json").write_text(json.dumps({"model_type": "florence2"}))
    save_file({"a": torch.zeros(1)}, tmp_path / "two/model.safetensors")
    clip = write_clip(tmp_path / "clip")
    for backbone, message in (
        *((tmp_path / "text", "'llama' does not answer"), (clip, "'clip' does not answer questions")),
        *((tmp_path / "two", "encoder and a decoder"), ("embedded", "^backbone='embedded' makes embeddings")),
        ("./nowhere", "^backbone='./nowhere': there is no such folder"),
        ("Qwen/Qwen3-VL-4B-Instruct", "HF_HUB_OFFLINE is set.*no copy of 'Qwen/Qwen3-VL-4B-Instruct'"),
    ):
        with pytest.raises(BackboneUnavailable, match=message):
            load(backbone=backbone)


BOTH, HEAD = "paligemma reads a prompt both ways", ".* has only a head for matching"


@pytest.mark.parametrize(
    ("family", "options", "message"),
    [
        ("qwen2_5_vl", {"question": "Is it?"}, r"question='Is it\?': .* {caption}"),
        *(("qwen2_5_vl", {"max_pixels": n}, f"max_pixels={n}: expected a whole") for n in (-1, 2.5, True)),
        ("qwen2_5_vl", {"question": "{caption} {context}"}, "{context} has no place of its own"),
        ("qwen2_5_vl", {"question": "\udcff{caption}"}, "question='.*': expected text$"),
        ("qwen2_5_vl", {"question": "{caption}\ue000caption\ue001"}, "question=.*: expected text$"),
        *(("qwen2_5_vl", {"instruction": given}, str(given)) for given in (3, "{answer}")),
        *(("qwen2_5_vl", {"answers": text}, "expected two words") for text in ("yes", "\udcff/no")),
        ("qwen2_5_vl", {"answers": "no/No"}, "answers='no/No': .* one token for both words"),
        ("qwen2_5_vl", {"answers": "indubitably/no"}, "no token for 'indubitably'; try other answers"),
        ("qwen2_5_vl", {"reading": "grade", "answers": "ja/nein"}, "answers='ja/nein' does not go with read"),
        ("qwen2_5_vl", {"reading": "grade", "formula": "p_yes"}, "formula='p_yes' does not go with read"),
        ("qwen2_5_vl", {"image_tower": "embedded"}, "image_tower='embedded': an option of mcs"),
        ("qwen2_5_vl", {"dtype": "float16"}, "dtype='float16' does not go with .*, which is loaded"),
        *(("paligemma", {"reading": "grade"}, BOTH), ("paligemma", {"instruction": "Be strict."}, BOTH)),
        *(("paligemma", {"explain": True}, f"explain=True: {BOTH}"), ("blip", {}, f"reading='yes': {HEAD}")),
        ("blip", {"reading": "match", "question": "{caption}?"}, f"question=.*{HEAD}"),
        ("blip", {"reading": "match", "answers": "ja/nein"}, f"answers=.*{HEAD}"),
        ("blip", {"reading": "match", "explain": True}, f"explain=.*: {HEAD}"),
    ],
)
def test_an_option_that_does_not_fit_is_named(family, options, message):
    with pytest.raises(CapscoreError, match=message):
        score(load(family, **options))


@pytest.mark.parametrize("family", ["llava", "qwen2_5_vl"])
def test_the_tokens_of_the_photo_count(family, tiny_model, tmp_path):
    whole = load(family)
    photo = whole.model.prepare(Image.fromarray(PHOTOS[0]), whole.reading.prompts("a cat", [], ""))
    folder = shutil.copytree(tiny_model(family), tmp_path / "judge")
    setting("config.text_config.max_position_embeddings", len(photo.ids[0]))(folder)
    scorer = load(backbone=folder)
    photos, captions = [PHOTOS[0]] * 3, ["a cat", "a cat.", "a cat"]
    with pytest.raises(InputError, match=r"^row 1, [a-z]+: its question and photo have .* max_pixels"):
        scorer.score(captions, images=photos)
    found = scorer.score(captions, images=photos, on_error="skip")
    assert [*found.failures] == [1] and np.isfinite(found.scores).tolist() == [True, False, True]
    expected = whole.score(captions, images=photos).scores
    np.testing.assert_allclose(found.scores[[0, 2]], expected[[0, 2]], atol=1e-6)
    explained = load(backbone=folder, explain=True).score(captions[:1], images=photos[:1])
    assert "reads at most" in explained.details[0]["reason"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"candidates": ["a cat", None]}, "row 1, candidate: expected a caption, got None"),
        ({"candidates": ["a cat", LONG]}, "row 1, candidate: .* [0-9,]+ tokens; .* reads at most 2,048 here"),
        ({"context": [None, LONG]}, "row 1, context: .* tokens"),
        ({"context": ["", 3]}, "row 1, context: expected text, got 3"),
        ({"context": [" ", "\ud800"]}, "row 1, context: expected text, got .* half a surrogate pair"),
        ({"references": [["a"], ["b", LONG]]}, "row 1, references: .* tokens"),
        ({"images": [PHOTOS[0], NARROW]}, "row 1, image: 800 × 2 pixels; .* at most 150 to 1"),
    ],
)
def test_a_row_that_cannot_be_asked_is_named_and_can_be_skipped(columns, message):
    scorer = load()
    with pytest.raises(InputError, match=f"^{message}") as caught:
        score(scorer, **columns)
    assert isinstance(caught.value, ImageError) == ("images" in columns)
    found = score(scorer, **columns, on_error="skip")
    assert [*found.failures] == [1] and np.isfinite(found.scores).tolist() == [True, False]
    first = {name: values[:1] for name, values in columns.items()}
    alone = scorer.score(**{"candidates": ["a cat"], "images": PHOTOS[:1]} | first)
    assert alone.scores == pytest.approx(found.scores[:1], abs=1e-6)


@pytest.mark.parametrize("family", MATCHERS)
def test_a_matcher_takes_no_long_caption_and_no_other_text(family):
    long = "row 1, candidate: it has 20,002 tokens; .* reads at most"
    for name, values, message in (
        ("candidates", ["a cat", "a " * 20_000], long),
        ("references", [["a"], ["b"]], "judge takes no references"),
        ("context", ["a", "b"], "judge takes no context"),
    ):
        with pytest.raises(InputError, match=message):
            score(load(family, reading="match"), **{name: values})


CUDA, CPU = torch.OutOfMemoryError("CUDA out of memory."), RuntimeError("can't allocate memory")
TOO_LARGE = [("qwen2_5_vl", "yes", ["a cat"] * 3, CUDA), ("blip", "match", ["a cat"] * 3, CUDA)]
TOO_LARGE.append(("qwen2_5_vl", "yes", ["a cat", "a dog", "an owl"], CPU))


@pytest.mark.parametrize(("family", "reading", "texts", "error"), TOO_LARGE)
def test_too_little_memory_names_the_options_that_need_less(family, reading, texts, error, tiny_model):
    scorer = load(backbone=tiny_model(family), reading=reading, batch_size=6)
    scorer.asker.model.model.forward = mock.Mock(side_effect=error)
    with pytest.raises(CapscoreError, match=r"batch_size=3, a lower max_pixels or dtype='bfloat16'$"):
        scorer.score(texts, [PHOTOS[0]] * 3)


def test_answers_that_are_no_numbers_are_an_error(tiny_model):
    scorer = load(backbone=tiny_model("qwen2_5_vl"))
    scorer.asker.model.model.lm_head.weight.data.fill_(torch.nan)
    with pytest.raises(CapscoreError, match=r"answered with NaN in float32: its weights are damaged$"):
        score(scorer)


def test_answers_to_another_question_are_one_warning_that_names_the_first_row():
    with pytest.warns(RowWarning, match=r"2 got an answer other than .* \(first: row 0,") as warned:
        score(load())
    assert len(warned) == 1
