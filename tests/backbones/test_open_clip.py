"""open_clip models as Backbones: the numbers of open_clip itself, whatever the padding and the layout."""

import json
import shutil

import numpy as np
import open_clip
import pytest
import torch

from capscore.backbones import checkpoint
from capscore.backbones.base import BackboneOptions
from capscore.backbones.checkpoint import folder_kind
from capscore.backbones.open_clip import load_folder, load_open_clip
from capscore.errors import BackboneUnavailable
from tools.tiny.open_clip_models import CONTEXT, write_open_clip, write_xlmr_config
from tools.tiny.transformers_models import random_photos

TEXTS = ["A dog.", "Ein Hund &amp; eine Katze  laufen.", "犬", "", "a caption that no context holds " * 4]
CONFIG, WEIGHTS = "open_clip_config.json", "open_clip_model.safetensors"
# Whether padding to the longest of the batch is exact for this tower.
TIGHT = dict.fromkeys(("clip", "clip_quickgelu", "custom_text", "worldwide", "xlmr", "nllb"), True)
TIGHT |= dict.fromkeys(("siglip", "clipa", "coca"), False)


@pytest.fixture
def loaded(backbones):
    return lambda kind: backbones(f"open_clip {kind}")


@pytest.fixture
def copied(checkpoints, tmp_path):
    return lambda kind: checkpoints(f"open_clip {kind}").copied(tmp_path)


def load(folder, **options):
    return load_folder(folder, BackboneOptions(folder.name, **options))


def reference(folder):
    text = json.loads((folder / CONFIG).read_text())["model_cfg"]["text_cfg"]
    local = {"hf_model_name": str(folder), "hf_model_pretrained": False} if "hf_model_name" in text else {}
    model, _, preprocess = open_clip.create_model_and_transforms(f"local-dir:{folder}", text_cfg=text | local)
    return model.eval(), preprocess, open_clip.get_tokenizer(f"local-dir:{folder}")


@pytest.mark.parametrize("kind", TIGHT)
def test_embeddings_are_those_of_open_clip_whatever_the_padding(kind, checkpoints, loaded, monkeypatch):
    model, preprocess, tokenizer = reference(checkpoints(f"open_clip {kind}").spec_path)
    photos = random_photos()
    with torch.no_grad():
        texts = model.encode_text(tokenizer(TEXTS), normalize=True).numpy()
        images = model.encode_image(torch.stack([preprocess(p) for p in photos]), normalize=True).numpy()
    np.testing.assert_allclose(loaded(kind).encode_texts(TEXTS), texts, atol=1e-5)
    np.testing.assert_allclose(loaded(kind).encode_images(photos), images, atol=1e-5)
    widths, embed = [], torch.nn.Embedding.forward

    def noted(self, ids):
        widths.append(ids.shape[-1])
        return embed(self, ids)

    monkeypatch.setattr(torch.nn.Embedding, "forward", noted)
    loaded(kind).encode_texts(["A dog."])
    assert (max(widths) < CONTEXT) is TIGHT[kind]


def test_a_pickle_of_tensors_is_the_same_model_and_opened_last(loaded, copied, tmp_path):
    folder = copied("clip")
    (folder / "open_clip_pytorch_model.bin").write_bytes(b"never opened")
    for same in (folder, write_open_clip(tmp_path / "bin", "clip", weights="bin")):
        assert load(same).fingerprint == loaded("clip").fingerprint


def test_the_config_of_a_text_tower_may_lie_in_a_subfolder_but_not_be_missing(loaded, copied):
    folder = copied("xlmr")
    (folder / "config.json").unlink()
    with pytest.raises(BackboneUnavailable, match=r"no config\.json of its text tower"):
        load(folder)
    write_xlmr_config(folder / "tiny")
    assert np.array_equal(*[towers.encode_texts(["a dog"]) for towers in (load(folder), loaded("xlmr"))])
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    with pytest.raises(BackboneUnavailable, match="no tokenizer of its text tower"):
        load(folder)


def test_laions_layout_weights_and_tokenizer_json_alone(checkpoints, loaded, tmp_path, monkeypatch):
    """Its XLM-R repositories have no config at all: the architecture is named, its text config is known."""
    source, folder = checkpoints("open_clip xlmr").spec_path, tmp_path / "laion"
    folder.mkdir()
    for name in (WEIGHTS, "tokenizer.json"):
        shutil.copy(source / name, folder)
    config = json.loads((source / CONFIG).read_text())["model_cfg"]
    config["text_cfg"] |= {"hf_model_name": "tiny-roberta", "hf_tokenizer_name": "tiny-roberta"}
    monkeypatch.setitem(open_clip.factory._MODEL_CONFIGS, "tiny-roberta-ViT", config)
    known = json.loads((source / "config.json").read_text())
    monkeypatch.setitem(checkpoint.encoder_configs(), "tiny-roberta", known)
    backbone = load_open_clip(f"tiny-roberta-ViT/{folder}", BackboneOptions(""))
    assert backbone.name == "tiny-roberta-ViT/laion"
    np.testing.assert_allclose(backbone.encode_texts(TEXTS), loaded("xlmr").encode_texts(TEXTS), atol=1e-5)
    assert folder_kind(folder) == "open_clip"
    with pytest.raises(BackboneUnavailable, match="name their architecture"):
        load(folder)
