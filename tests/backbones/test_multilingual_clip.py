"""M-CLIP text towers, loaded from tiny checkpoints on disk by the code that loads the published ones."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from capscore.backbones import Known, text_towers
from capscore.backbones.base import LoadOptions
from capscore.backbones.checkpoint import folder_kind
from capscore.backbones.loading import load_backbone
from capscore.errors import BackboneUnavailable, CapscoreError

from . import tiny_transformers as tiny


def load(folder: Path, image_tower, **changes):
    return text_towers.load_multilingual_clip(
        folder, replace(LoadOptions(name="tiny", image_tower=image_tower), **changes)
    )


@pytest.fixture(scope="module")
def published(tmp_path_factory) -> Path:
    """A checkpoint of the published layout; not to be changed."""
    return tiny.write_multilingual_clip(tmp_path_factory.mktemp("mclip") / "model")


@pytest.fixture(scope="module")
def backbone(published, image_tower):
    return load(published, image_tower)


@pytest.fixture
def folder(published, tmp_path) -> Path:
    """A checkpoint to be broken."""
    return Path(shutil.copytree(published, tmp_path / "model"))


def test_texts_by_hand(published, backbone):
    state = torch.load(published / "pytorch_model.bin", weights_only=True)
    config = transformers.XLMRobertaConfig.from_pretrained(published / "encoder_config.json")
    encoder = transformers.XLMRobertaModel(config).eval()
    encoder.load_state_dict(
        {k.removeprefix("transformer."): v for k, v in state.items() if k.startswith("transformer.")},
        strict=False,
    )
    tokenizer = transformers.AutoTokenizer.from_pretrained(published, config=config)
    weight, bias = (state[f"LinearTransformation.{part}"].numpy() for part in ("weight", "bias"))
    texts = [*tiny.TEXTS, tiny.LONG]
    expected = []
    for text in texts:
        ids = tokenizer(text, truncation=True, max_length=38, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            expected.append(weight @ encoder(ids).last_hidden_state[0].mean(dim=0).numpy() + bias)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)

    rows = backbone.encode_texts(texts)

    np.testing.assert_allclose(rows, expected, atol=1e-5)
    others = np.abs(rows[:, None] - rows[None]).max(axis=-1) + np.eye(len(rows))
    assert others.min() > 0.01


def test_images_are_those_of_the_other_tower(backbone, image_tower):
    photos = tiny.random_photos()
    np.testing.assert_allclose(
        backbone.encode_images(photos), image_tower.encode_images(photos), rtol=0, atol=1e-6
    )


def test_attributes(backbone, image_tower):
    assert (backbone.name, backbone.prefix, backbone.languages) == ("tiny+clip", "", None)
    assert (backbone.dim, backbone.max_tokens) == (16, 38)  # 40 positions, 2 unused
    assert backbone.logit_scale == image_tower.logit_scale
    assert backbone.revision.endswith(f"+{image_tower.revision}")


def test_the_registered_image_tower_is_not_part_of_the_name(published, image_tower, monkeypatch):
    known = Known("M-CLIP/tiny", "multilingual_clip", "M-CLIP/tiny", image_tower="some/clip")
    monkeypatch.setattr(
        "capscore.backbones.text_towers.find", lambda name: known if name == "M-CLIP/tiny" else None
    )
    loads = {"load_backbone": lambda spec, **options: image_tower}
    assert load(published, None, name="M-CLIP/tiny", **loads).name == "M-CLIP/tiny"
    assert load(published, "some/clip", name="M-CLIP/tiny", **loads).name == "M-CLIP/tiny"
    assert load(published, "another/clip", name="M-CLIP/tiny", **loads).name == "M-CLIP/tiny+clip"


def test_safetensors_are_read_as_well(tmp_path, backbone, image_tower):
    folder = tiny.write_multilingual_clip(tmp_path / "model", pickled=False)
    assert not (folder / "pytorch_model.bin").exists()
    assert load(folder, image_tower).fingerprint == backbone.fingerprint


def test_load_backbone_finds_it_by_its_folder(published, backbone, image_tower, tmp_path):
    clip = tiny.write_clip(tmp_path / "clip")
    loaded = load_backbone(str(published), device="cpu", image_tower=str(clip))
    assert loaded.fingerprint == backbone.fingerprint


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


# The encoders that are built in


def test_weights_of_another_size_than_the_named_encoder_are_refused(folder, image_tower):
    (folder / "encoder_config.json").unlink()
    config = json.loads((folder / "config.json").read_text())
    tiny.write_json(folder / "config.json", config | {"modelBase": "xlm-roberta-base"})
    with pytest.raises(BackboneUnavailable):
        load(folder, image_tower)


def test_an_encoder_that_nobody_knows_is_refused(folder, image_tower):
    (folder / "encoder_config.json").unlink()
    with pytest.raises(CapscoreError):
        load(folder, image_tower)


def test_a_config_of_no_encoder_is_refused(folder, image_tower):
    tiny.write_json(folder / "encoder_config.json", {"model_type": "no-such-type"})
    with pytest.raises(CapscoreError):
        load(folder, image_tower)


# What goes wrong


def test_towers_of_two_dimensions_are_refused(tmp_path, image_tower):
    folder = tiny.write_multilingual_clip(tmp_path / "model", dim=24)
    with pytest.raises(CapscoreError):
        load(folder, image_tower)


def test_without_an_image_tower_it_asks_for_one(published):
    with pytest.raises(CapscoreError):
        load(published, None)


@pytest.mark.parametrize("absent", ["config.json", "pytorch_model.bin", "tokenizer.json"])
def test_a_missing_file_is_named(folder, absent, image_tower):
    (folder / absent).unlink()
    with pytest.raises(BackboneUnavailable):
        load(folder, image_tower)


@pytest.mark.parametrize(("key", "stored"), [("numDims", 16), ("transformerDimensions", 32)])
def test_a_config_of_other_sizes_is_refused(folder, key, stored, image_tower):
    config = json.loads((folder / "config.json").read_text())
    tiny.write_json(folder / "config.json", config | {key: 7})
    with pytest.raises(BackboneUnavailable):
        load(folder, image_tower)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda state: state.pop("LinearTransformation.bias"), r"LinearTransformation\.bias are missing"),
        (
            lambda state: state.pop("transformer.encoder.layer.0.output.dense.bias"),
            r"encoder\.layer\.0\.output\.dense\.bias are missing",
        ),
        (lambda state: state.update(stray=torch.zeros(1)), "stray belong to no part"),
    ],
)
def test_weights_that_do_not_fit_are_never_replaced_by_random_ones(tmp_path, change, complaint, image_tower):
    folder = tiny.write_multilingual_clip(tmp_path / "model", pickled=False)
    state = load_file(folder / "model.safetensors")
    change(state)
    save_file(state, folder / "model.safetensors")
    with pytest.raises(BackboneUnavailable):
        load(folder, image_tower)


def test_a_pooler_is_not_needed_and_not_random(tmp_path, backbone, image_tower):
    folder = tiny.write_multilingual_clip(tmp_path / "model", pickled=False)
    state = load_file(folder / "model.safetensors")
    without = {key: tensor for key, tensor in state.items() if ".pooler." not in key}
    assert len(without) == len(state) - 2
    save_file(without, folder / "model.safetensors")
    assert load(folder, image_tower).fingerprint == backbone.fingerprint


def test_recognises(published, tmp_path):
    assert folder_kind(published) == "multilingual_clip"
    assert folder_kind(tmp_path) != "multilingual_clip"
    tiny.write_json(tmp_path / "config.json", {"model_type": "clip"})
    assert folder_kind(tmp_path) != "multilingual_clip"
