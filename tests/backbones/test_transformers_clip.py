"""transformers' CLIP family: the numbers of the models through their own processors, and their layouts."""

import json
import shutil
from unittest import mock

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file, save_file

from capscore.backbones.base import BackboneOptions
from capscore.backbones.checkpoint import folder_kind
from capscore.backbones.transformers_clip import load_folder
from capscore.errors import BackboneUnavailable, CapscoreError
from tools.tiny import transformers_models as tiny
from tools.tiny.backbones import edit_json

HAS_SIGLIP_2_TOKENIZER = hasattr(transformers, "Siglip2Tokenizer")  # since transformers 5
# Context length of each kind, to which its processor pads; whether padding to the longest text is exact.
CONTEXTS = {"clip": 20, "clip new end": 20, "metaclip 2": 21, "altclip": 38, "chinese clip": 26}
CONTEXTS |= {"siglip": 16, "siglip 2": 16, "siglip 2 naflex": 64}
# The sort of image processor that is taken, as the two versions of transformers put it.
TORCHVISION = {"use_fast": True} if transformers.__version__ < "5" else {"backend": "torchvision"}


@pytest.fixture
def clip(checkpoints, tmp_path):
    return checkpoints("clip").copied(tmp_path)


def load(folder):
    return load_folder(folder, BackboneOptions(name="tiny"))


def unit(features) -> np.ndarray:
    features = features if isinstance(features, torch.Tensor) else features.pooler_output
    return (features / features.norm(dim=-1, keepdim=True)).detach().numpy()


@pytest.mark.parametrize("kind", CONTEXTS)
def test_embeddings_are_the_models_own_through_its_processor(kind, checkpoints, backbones, monkeypatch):
    folder, texts, photos = checkpoints(kind).spec, [*tiny.TEXTS, tiny.LONG], tiny.random_photos()[:4]
    processor = transformers.AutoProcessor.from_pretrained(folder, **TORCHVISION)
    model = transformers.AutoModel.from_pretrained(folder)
    # Gemma's tokenizer keeps capitals, which SigLIP 2 was not trained on.
    keeps_capitals = kind == "siglip 2" or (kind == "siglip 2 naflex" and not HAS_SIGLIP_2_TOKENIZER)
    theirs = [text.lower() for text in texts] if keeps_capitals else texts
    length = {"padding": "max_length", "truncation": True, "max_length": CONTEXTS[kind]}
    expected = unit(model.get_text_features(**processor(text=theirs, return_tensors="pt", **length)))
    np.testing.assert_allclose(backbones(kind).encode_texts(texts), expected, atol=1e-5)
    expected = unit(model.get_image_features(**processor(images=photos, return_tensors="pt")))
    np.testing.assert_allclose(backbones(kind).encode_images(photos), expected, atol=1e-5)

    asked = mock.Mock(side_effect=backbones(kind)._model.get_text_features)
    monkeypatch.setattr(backbones(kind)._model, "get_text_features", asked)
    backbones(kind).encode_texts(["a cat", "a dog"])
    length = asked.call_args.kwargs["input_ids"].shape[1]
    assert (length == CONTEXTS[kind]) is kind.startswith("siglip"), "which was trained on the whole context"


@pytest.mark.skipif(not hasattr(transformers, "CLIPImageProcessorPil"), reason="needs transformers 5")
def test_the_kind_of_image_processor_is_part_of_the_fingerprint(clip, backbones):
    tower = load(clip)
    tower._image_processor = transformers.AutoImageProcessor.from_pretrained(clip, backend="pil")
    # The two may round differently: a step of 255 is 0.015 after normalisation.
    rows = (each.preprocess(tiny.random_photos()[1]) for each in (tower, backbones("clip")))
    torch.testing.assert_close(*rows, atol=0.031, rtol=0)
    assert tower.remade().fingerprint != backbones("clip").fingerprint


def test_an_image_three_pixels_high_has_its_channels_last(backbones):
    thin = tiny.random_photos()[4]
    assert thin.size == (50, 3)
    resized = thin.resize((int(50 * 32 / 3), 32), Image.Resampling.BICUBIC)
    left = (resized.width - 32) // 2
    by_hand = backbones("clip").preprocess(resized.crop((left, 0, left + 32, 32)))
    difference = (backbones("clip").preprocess(thin) - by_hand).abs()
    assert difference.mean() < 0.03  # the crop may begin a pixel further on
    assert difference.max() < 0.3


def test_pickles_shards_and_old_buffers_are_the_same_model(clip, backbones):
    same = backbones("clip").fingerprint
    weights = clip / "model.safetensors"
    (clip / "pytorch_model.bin").write_bytes(b"never opened beside safetensors")
    state = load_file(weights)
    positions = {"text_model": 24, "vision_model": 17}
    old = {f"{part}.embeddings.position_ids": torch.arange(n).unsqueeze(0) for part, n in positions.items()}
    save_file(state | old, weights)
    assert load(clip).fingerprint == same
    weights.unlink()
    torch.save(state, clip / "pytorch_model.bin")
    assert load(clip).fingerprint == same
    (clip / "pytorch_model.bin").unlink()
    halves = {"model-1.safetensors": [*state][:9], "model-2.safetensors": [*state][9:]}
    for file, names in halves.items():
        save_file({name: state[name] for name in names}, clip / file)
    index = {name: file for file, names in halves.items() for name in names}
    tiny.write_json(clip / "model.safetensors.index.json", {"weight_map": index})
    assert load(clip).fingerprint == same
    (clip / "model-2.safetensors").unlink()
    with pytest.raises(BackboneUnavailable, match="does not have the files that"):
        load(clip)


def test_files_outside_the_folder_that_it_names_are_not_opened(clip, tmp_path):
    shutil.copy(clip / "tokenizer.json", tmp_path / "secret.json")
    for field in ("vocab_file", "merges_file", "tokenizer_file"):
        edit_json(clip / "tokenizer_config.json", field, value="../secret.json")
    (clip / "tokenizer.json").unlink()
    with pytest.raises(CapscoreError):
        load(clip)


def test_a_folder_is_recognised_by_its_config(clip, tmp_path):
    for content, kind in (({"modelBase": "a", "numDims": 2}, "multilingual_clip"), ({"dim": 2}, "")):
        (tmp_path / "config.json").write_text(json.dumps(content))
        assert folder_kind(tmp_path) == kind
    edit_json(clip / "config.json", "model_type", value="blip")
    with pytest.raises(CapscoreError, match="model of type 'blip'"):
        load(clip)
