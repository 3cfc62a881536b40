"""Backbones of 2025 and after: what the registry says of them, and tiny checkpoints of their kinds."""

from __future__ import annotations

import json

import numpy as np
import open_clip
import pytest
import torch
from open_clip.model import CLIP, CustomTextCLIP
from safetensors.torch import save_file
from transformers import M2M100Config

from capscore import load_backbone
from capscore.backbones import registry
from capscore.backbones.text_towers import encoder_config

from . import tiny_transformers as tiny
from .tiny_open_clip import CONTEXT, DIM, VISION, build, bytes_tokenizer

# name in the registry → the architecture of open_clip with the same towers
SAME_TOWERS = {
    "google/siglip-base-patch16-256-multilingual": "ViT-B-16-SigLIP-i18n-256",
    "google/siglip-so400m-patch16-256-i18n": "ViT-SO400M-16-SigLIP-i18n-256",
    "google/siglip2-base-patch32-256": "ViT-B-32-SigLIP2-256",
    "google/siglip2-base-patch16-224": "ViT-B-16-SigLIP2",
    "google/siglip2-base-patch16-256": "ViT-B-16-SigLIP2-256",
    "google/siglip2-base-patch16-384": "ViT-B-16-SigLIP2-384",
    "google/siglip2-large-patch16-256": "ViT-L-16-SigLIP2-256",
    "google/siglip2-large-patch16-384": "ViT-L-16-SigLIP2-384",
    "google/siglip2-so400m-patch14-224": "ViT-SO400M-14-SigLIP2",
    "google/siglip2-so400m-patch14-384": "ViT-SO400M-14-SigLIP2-378",
    "google/siglip2-so400m-patch16-256": "ViT-SO400M-16-SigLIP2-256",
    "google/siglip2-so400m-patch16-384": "ViT-SO400M-16-SigLIP2-384",
    "google/siglip2-giant-opt-patch16-256": "ViT-gopt-16-SigLIP2-256",
    "google/siglip2-giant-opt-patch16-384": "ViT-gopt-16-SigLIP2-384",
    "facebook/metaclip-2-worldwide-huge-quickgelu": "ViT-H-14-worldwide-quickgelu",
    "facebook/metaclip-2-worldwide-huge-378": "ViT-H-14-worldwide-378",
}
# text → image, image → text, as the sources print them
RETRIEVAL = {
    "google/siglip-so400m-patch16-256-i18n": (50.0, 62.8),
    "google/siglip2-base-patch16-256": (40.7, 51.0),
    "google/siglip2-giant-opt-patch16-384": (48.6, 57.9),
    "facebook/metaclip-2-worldwide-huge-quickgelu": (None, 64.3),
    "nllb-clip-large-siglip/mrl": (60.79, 57.41),
    "xlm-roberta-large-ViT-H-14/frozen_laion5b_s13b_b90k": (50.22, 53.38),
}


def weights_of(architecture: str, folder) -> int:
    """Number of weights of an architecture of open_clip, without making them."""
    config = open_clip.get_model_config(architecture)
    text, vision = config["text_cfg"], config["vision_cfg"]
    if "timm_model_name" in vision:
        vision["timm_model_pretrained"] = False
    if "hf_model_name" in text:
        (folder / "config.json").write_text(json.dumps(encoder_config(text["hf_model_name"])))
        text |= {"hf_model_name": str(folder), "hf_model_pretrained": False}
    custom = config.pop("custom_text", False) or "hf_model_name" in text
    with torch.device("meta"):
        model = (CustomTextCLIP if custom else CLIP)(**config)
    return sum(parameter.numel() for parameter in model.parameters())


def test_every_siglip_and_metaclip_has_an_architecture_that_open_clip_knows():
    known = {model for model, _ in open_clip.list_pretrained()}
    assert known.issuperset(SAME_TOWERS.values())
    makers = ("google/siglip", "facebook/metaclip-2-worldwide-huge")
    assert set(SAME_TOWERS) == {name for name in registry() if name.startswith(makers)}
    for name, architecture in SAME_TOWERS.items():
        config = open_clip.get_model_config(architecture)
        entry = registry()[name]
        assert (entry.dim, entry.context) == (config["embed_dim"], config["text_cfg"]["context_length"])
        clean = config["text_cfg"].get("tokenizer_kwargs", {}).get("clean")
        assert entry.text_case == ("lower" if clean == "canonicalize" else "kept")


@pytest.mark.parametrize(
    ("name", "architecture"),
    [
        ("google/siglip2-base-patch16-224", "ViT-B-16-SigLIP2"),
        ("google/siglip2-so400m-patch16-256", "ViT-SO400M-16-SigLIP2-256"),
        ("google/siglip2-giant-opt-patch16-256", "ViT-gopt-16-SigLIP2-256"),
        ("facebook/metaclip-2-worldwide-huge-quickgelu", "ViT-H-14-worldwide"),
        ("nllb-clip-base-siglip/mrl", "nllb-clip-base-siglip"),
        ("nllb-clip-large-siglip/v1", "nllb-clip-large-siglip"),
        ("xlm-roberta-large-ViT-H-14/frozen_laion5b_s13b_b90k", "xlm-roberta-large-ViT-H-14"),
    ],
)
def test_sizes_are_those_of_the_architectures(name, architecture, tmp_path):
    assert registry()[name].parameters == weights_of(architecture, tmp_path)


def test_published_retrieval_word_for_word():
    found = {name: registry()[name].retrieval for name in RETRIEVAL}
    assert {name: (one.text_to_image, one.image_to_text) for name, one in found.items()} == RETRIEVAL
    assert all(one.source for one in found.values())
    # a second look at SigLIP 2's columns: their sums, added up from the printed table by itself
    of_table = [entry.retrieval for name, entry in registry().items() if name.startswith("google/siglip2-")]
    assert len(of_table) == 12
    assert sum(one.text_to_image for one in of_table) == pytest.approx(543.6, abs=1e-9)
    assert sum(one.image_to_text for one in of_table) == pytest.approx(661.2, abs=1e-9)


def test_non_commercial_licences_are_recorded():
    for name, entry in registry().items():
        if "nllb" in name or "worldwide" in name:
            assert entry.licence == "CC-BY-NC-4.0", name
        if name.startswith("google/"):
            assert entry.licence == "Apache-2.0", name


def test_text_case_is_what_the_loaders_do(tmp_path):
    siglip = load_backbone(str(tiny.write_siglip_2(tmp_path / "siglip2")), device="cpu")
    assert siglip.tokenize(["A DOG"]).ids == siglip.tokenize(["a dog"]).ids
    metaclip = load_backbone(str(tiny.write_metaclip_2(tmp_path / "metaclip2")), device="cpu")
    assert metaclip.tokenize(["A DOG"]).ids != metaclip.tokenize(["a dog"]).ids
    embedded = load_backbone("embedded-free", device="cpu")
    assert embedded.tokenize(["A DOG"]).ids != embedded.tokenize(["a dog"]).ids
    assert registry()["embedded-free"].text_case == "kept"
    tensors = [*embedded.text.state_dict().values(), *embedded.image.state_dict().values()]
    assert sum(tensor.numel() for tensor in tensors) == registry()["embedded-free"].parameters


def test_an_nllb_text_tower_embeds_as_open_clip_does(tmp_path):
    """The encoder of a translator, pooled at its first token, beside an image tower of open_clip."""
    M2M100Config(
        vocab_size=260,
        d_model=32,
        encoder_layers=2,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        max_position_embeddings=CONTEXT,
        pad_token_id=1,
    ).save_pretrained(tmp_path)
    text = {
        "context_length": CONTEXT,
        "hf_model_name": "somebody/tiny-nllb",
        "hf_tokenizer_name": "somebody/tiny-nllb",
        "hf_pooler_type": "cls_pooler",
        "hf_proj_type": "linear",
    }
    config = {"embed_dim": DIM, "vision_cfg": VISION, "text_cfg": text, "custom_text": True}
    (tmp_path / "open_clip_config.json").write_text(json.dumps({"model_cfg": config, "preprocess_cfg": {}}))
    bytes_tokenizer().save_pretrained(tmp_path)
    model = build(config, tmp_path, seed=0)
    weights = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    save_file(weights, tmp_path / "open_clip_model.safetensors")
    backbone = load_backbone(str(tmp_path), device="cpu")
    assert backbone.dim == DIM and backbone.max_tokens == CONTEXT
    texts = ["dog", "Ein Hund!", "mbwa anakimbia"]
    padded = torch.ones(len(texts), CONTEXT, dtype=torch.long)
    for row, ids in enumerate(backbone.tokenize(texts).ids):
        padded[row, : len(ids)] = torch.tensor(ids)
    with torch.no_grad():
        expected = model.encode_text(padded, normalize=True).numpy()
    np.testing.assert_allclose(backbone.encode_texts(texts), expected, atol=1e-6)
