"""Text towers of sentence-transformers, loaded from a tiny checkpoint by the code that loads the real one."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer

from capscore.backbones import text_towers
from capscore.backbones.base import LoadOptions
from capscore.backbones.checkpoint import folder_kind
from capscore.backbones.loading import load_backbone
from capscore.errors import BackboneUnavailable, CapscoreError, MissingExtraError

from . import tiny_transformers as tiny


def load(folder: Path, image_tower, **changes):
    return text_towers.load_sentence_transformers(
        folder, replace(LoadOptions(name="tiny", image_tower=image_tower), **changes)
    )


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Path:
    """Not to be changed."""
    return tiny.write_sentence_transformer(tmp_path_factory.mktemp("sentence") / "model")


@pytest.fixture(scope="module")
def backbone(checkpoint, image_tower):
    return load(checkpoint, image_tower)


@pytest.fixture
def folder(checkpoint, tmp_path) -> Path:
    """To be broken."""
    return Path(shutil.copytree(checkpoint, tmp_path / "model"))


def test_texts_are_what_the_library_encodes(checkpoint, backbone):
    texts = [*tiny.TEXTS, tiny.LONG, "  a cat\n"]
    expected = SentenceTransformer(str(checkpoint), device="cpu").encode(texts, normalize_embeddings=True)
    rows = backbone.encode_texts(texts)
    assert rows.dtype == np.float32 and rows.shape == (9, 16)
    np.testing.assert_allclose(rows, expected, atol=1e-5)
    others = np.abs(rows[:, None] - rows[None]).max(axis=-1) + np.eye(len(rows))
    assert others.min() > 0.01


def test_texts_by_hand(checkpoint, backbone):
    model = SentenceTransformer(str(checkpoint), device="cpu")
    weight = load_file(checkpoint / "2_Dense" / "model.safetensors")["linear.weight"].numpy()
    for text in tiny.TEXTS:
        with torch.no_grad():
            ids = model.tokenizer(text, return_tensors="pt")["input_ids"]
            hidden = model[0].auto_model(ids).last_hidden_state[0].numpy()
        expected = weight @ hidden.mean(axis=0)
        np.testing.assert_allclose(
            backbone.encode_texts([text])[0], expected / np.linalg.norm(expected), atol=1e-5
        )


def test_images_are_those_of_the_other_tower(backbone, image_tower):
    photos = tiny.random_photos()
    np.testing.assert_allclose(
        backbone.encode_images(photos), image_tower.encode_images(photos), rtol=0, atol=1e-6
    )


def test_attributes(backbone, image_tower):
    assert (backbone.name, backbone.prefix, backbone.dim, backbone.max_tokens) == ("tiny+clip", "", 16, 20)
    assert backbone.logit_scale == image_tower.logit_scale
    assert backbone.revision.endswith(f"+{image_tower.revision}")


def test_a_long_text_is_cut_before_its_end_token(backbone):
    tokens = backbone.tokenize(["a cat", tiny.LONG])
    assert tokens.truncated.tolist() == [False, True]
    assert [len(tokens.ids[1]), tokens.ids[0][-1], tokens.ids[1][-1]] == [20, 3, 3]  # 3 is [SEP]


def test_the_context_is_the_encoders_where_the_folder_says_none(folder, image_tower):
    tiny.write_json(folder / "sentence_bert_config.json", {"do_lower_case": False})
    assert load(folder, image_tower).max_tokens == 40


def test_padding_goes_to_the_longest_of_the_batch(checkpoint, image_tower):
    loaded = load(checkpoint, image_tower)
    shapes = []
    loaded._text.register_forward_hook(lambda module, inputs, output: shapes.append(tuple(inputs[0].shape)))
    ids = loaded.tokenize(["a cat", "a dog on the beach"]).ids
    loaded.encode_tokens(ids)
    assert shapes == [(2, max(map(len, ids)))]
    assert shapes[0][1] < 20


def test_a_default_prompt_becomes_the_prefix(tmp_path, image_tower):
    folder = tiny.write_sentence_transformer(tmp_path / "model", prompt="photo: ")
    loaded = load(folder, image_tower)
    assert loaded.prefix == "photo: "
    expected = SentenceTransformer(str(folder), device="cpu").encode(["a cat"], normalize_embeddings=True)
    np.testing.assert_allclose(loaded.encode_texts(["photo: a cat"]), expected, atol=1e-5)

    pooling = json.loads((folder / "1_Pooling" / "config.json").read_text())
    tiny.write_json(folder / "1_Pooling" / "config.json", pooling | {"include_prompt": False})
    with pytest.raises(CapscoreError):
        load(folder, image_tower)


def test_bfloat16_is_near_and_has_another_fingerprint(checkpoint, backbone, image_tower):
    half = load(checkpoint, image_tower, dtype="bfloat16")
    assert {parameter.dtype for parameter in half._text.parameters()} == {torch.bfloat16}
    np.testing.assert_allclose(half.encode_texts(tiny.TEXTS), backbone.encode_texts(tiny.TEXTS), atol=0.05)
    assert half.fingerprint != backbone.fingerprint
    assert half.revision == backbone.revision


def test_fingerprint_follows_the_modules_settings(folder, backbone, image_tower):
    assert load(folder, image_tower).fingerprint == backbone.fingerprint
    pooling = {
        "word_embedding_dimension": 32,
        "pooling_mode_mean_tokens": False,
        "pooling_mode_cls_token": True,
    }
    tiny.write_json(folder / "1_Pooling" / "config.json", pooling)
    assert load(folder, image_tower).fingerprint != backbone.fingerprint


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_batch_size_and_order_do_not_matter(backbone, data):
    texts = [*tiny.TEXTS, tiny.LONG]
    whole = backbone.encode_texts(texts)
    order = data.draw(st.permutations(range(len(texts))))
    size = data.draw(st.integers(1, len(texts)))
    for start in range(0, len(order), size):
        rows = order[start : start + size]
        np.testing.assert_allclose(
            backbone.encode_texts([texts[row] for row in rows]), whole[rows], atol=1e-5
        )


def test_load_backbone_finds_it_by_its_folder(checkpoint, backbone, tmp_path):
    clip = tiny.write_clip(tmp_path / "clip")
    loaded = load_backbone(str(checkpoint), device="cpu", image_tower=str(clip))
    assert loaded.fingerprint == backbone.fingerprint


# What goes wrong


def test_the_extra_is_named_when_the_library_is_absent(checkpoint, image_tower, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtraError):
        load(checkpoint, image_tower)


def test_towers_of_two_dimensions_are_refused(tmp_path, image_tower):
    folder = tiny.write_sentence_transformer(tmp_path / "model", dim=24)
    with pytest.raises(CapscoreError):
        load(folder, image_tower)


def test_without_an_image_tower_it_asks_for_one(checkpoint):
    with pytest.raises(CapscoreError):
        load(checkpoint, None)


@pytest.mark.parametrize(
    ("absent", "complaint"),
    [
        ("modules.json", "has no modules.json"),
        ("model.safetensors", r"model has no weights"),
        ("2_Dense/model.safetensors", r"2_Dense has no weights"),
        ("2_Dense/config.json", r"2_Dense has no config\.json"),
        ("tokenizer.json", r"has no tokenizer"),
    ],
)
def test_a_missing_file_is_named(folder, absent, complaint, image_tower):
    (folder / absent).unlink()
    with pytest.raises(BackboneUnavailable):
        load(folder, image_tower)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda state: state.pop("transformer.layer.1.ffn.lin1.weight"), r"lin1\.weight are missing"),
        (lambda state: state.update(stray=torch.zeros(1)), "stray belong to no part"),
        (
            lambda state: state.update({"embeddings.word_embeddings.weight": torch.zeros(7, 32)}),
            r"word_embeddings\.weight",
        ),
    ],
)
def test_weights_that_do_not_fit_are_never_replaced_by_random_ones(folder, change, complaint, image_tower):
    state = load_file(folder / "model.safetensors")
    change(state)
    save_file(state, folder / "model.safetensors")
    with pytest.raises(BackboneUnavailable):
        load(folder, image_tower)


def test_a_dense_that_does_not_fit_is_refused(folder, image_tower):
    save_file({"linear.bias": torch.zeros(16)}, folder / "2_Dense" / "model.safetensors")
    with pytest.raises(BackboneUnavailable):
        load(folder, image_tower)


class Malicious:
    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_a_folder_cannot_ask_for_an_unsafe_pickle(folder, tmp_path, image_tower):
    (folder / "model.safetensors").unlink()
    torch.save(
        {"embeddings.word_embeddings.weight": Malicious(tmp_path / "it_ran")}, folder / "pytorch_model.bin"
    )
    settings = {"max_seq_length": 20, "model_args": {"weights_only": False}}
    tiny.write_json(folder / "sentence_bert_config.json", settings)
    with pytest.raises(BackboneUnavailable):
        load(folder, image_tower)
    assert not (tmp_path / "it_ran").exists()


def test_foreign_modules_do_not_run_unasked(folder, tmp_path, image_tower):
    (folder / "foreign.py").write_text(
        f"from pathlib import Path\nPath({str(tmp_path / 'it_ran')!r}).touch()\n"
    )
    modules = json.loads((folder / "modules.json").read_text())
    modules[1]["type"] = "foreign.Pooling"
    tiny.write_json(folder / "modules.json", modules)
    with pytest.raises(CapscoreError):
        load(folder, image_tower)
    assert not (tmp_path / "it_ran").exists()


def test_a_foreign_activation_is_refused_and_not_replaced_by_tanh(folder, image_tower):
    config = json.loads((folder / "2_Dense" / "config.json").read_text())
    tiny.write_json(folder / "2_Dense" / "config.json", config | {"activation_function": "foreign.Wave"})
    with pytest.raises(CapscoreError):
        load(folder, image_tower)


def test_modules_that_are_no_text_tower_are_refused(folder, image_tower):
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["type"] = "sentence_transformers.models.CLIPModel"
    tiny.write_json(folder / "modules.json", modules)
    with pytest.raises(CapscoreError):
        load(folder, image_tower)


def test_recognises(checkpoint, tmp_path):
    assert folder_kind(checkpoint) == "sentence_transformers"
    assert folder_kind(tmp_path) != "sentence_transformers"
