"""Writes open_clip checkpoints of every kind of text tower, small enough to make in a test.

The folders have the form that `open_clip.push_to_hf_hub` gives a repository on the Hub.
"""

from __future__ import annotations

import json
from pathlib import Path

import open_clip
import torch
from open_clip.model import CLIP, CustomTextCLIP
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import M2M100Config, PreTrainedTokenizerFast, XLMRobertaConfig

DIM = 16
CONTEXT = 24
VISION = {"image_size": 32, "patch_size": 16, "width": 32, "layers": 1, "head_width": 16}
TEXT = {"context_length": CONTEXT, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2}
# With a tokenizer of transformers: bytes, so that every script has its tokens.
BYTES = {**TEXT, "vocab_size": 260, "hf_tokenizer_name": "somebody/bytes"}

LAST = {**BYTES, "no_causal_mask": True, "pool_type": "last"}
POOLED = {"context_length": CONTEXT, "hf_model_name": "somebody/tiny", "hf_tokenizer_name": "somebody/tiny"}

MODELS = {
    "clip": {"text_cfg": TEXT},
    "clip_quickgelu": {"text_cfg": TEXT, "quick_gelu": True},
    "custom_text": {"text_cfg": {**TEXT, "proj_bias": True}, "custom_text": True},
    "worldwide": {"text_cfg": {**BYTES, "pool_type": "eos", "eos_id": 2}},
    "siglip": {
        "text_cfg": {**LAST, "proj_bias": True, "tokenizer_kwargs": {"clean": "canonicalize"}},
        "custom_text": True,
        "init_logit_bias": -10,
    },
    "clipa": {"text_cfg": {**LAST, "tokenizer_kwargs": {"strip_sep_token": True}}},
    "coca": {
        "text_cfg": {**TEXT, "embed_cls": True, "output_tokens": True},
        "vision_cfg": {**VISION, "attentional_pool": True, "attn_pooler_heads": 2, "output_tokens": True},
        "multimodal_cfg": {"context_length": CONTEXT, "width": 32, "heads": 2, "layers": 1},
        "custom_text": True,
    },
    "xlmr": {"text_cfg": {**POOLED, "hf_pooler_type": "mean_pooler"}},
    # NLLB-CLIP: the encoder of a translator, pooled at its first token
    "nllb": {
        "text_cfg": {**POOLED, "hf_pooler_type": "cls_pooler", "hf_proj_type": "linear"},
        "custom_text": True,
    },
}


def write_open_clip(folder: Path, kind: str = "clip", *, seed: int = 0, weights: str = "safetensors") -> Path:
    """One checkpoint of a kind of MODELS, with random weights from the seed; `weights` may also be "bin"."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {"embed_dim": DIM, "vision_cfg": VISION, **MODELS[kind]}
    preprocess = {"mean": [0.5, 0.4, 0.3], "std": [0.2, 0.25, 0.3], "interpolation": "bicubic"}
    text = json.dumps({"model_cfg": config, "preprocess_cfg": {} if kind == "nllb" else preprocess})
    (folder / "open_clip_config.json").write_text(text)
    if kind == "xlmr":
        write_xlmr_config(folder)
    if kind == "nllb":
        write_nllb_config(folder)
    if "hf_tokenizer_name" in config["text_cfg"]:
        bytes_tokenizer().save_pretrained(folder)
    model = build(config, folder, seed)
    tensors = {key: tensor.contiguous() for key, tensor in model.state_dict().items()}
    if weights == "safetensors":
        save_file(tensors, folder / "open_clip_model.safetensors")
    else:
        torch.save(tensors, folder / "open_clip_pytorch_model.bin")
    return folder


def build(config: dict, folder: Path, seed: int) -> torch.nn.Module:
    """The architecture with weights large enough that a change anywhere shows in the embeddings."""
    config = json.loads(json.dumps(config))
    if "hf_model_name" in config["text_cfg"]:
        config["text_cfg"] |= {"hf_model_name": str(folder), "hf_model_pretrained": False}
    custom = config.pop("custom_text", False) or "hf_model_name" in config["text_cfg"]
    kind = CLIP if not custom else open_clip.CoCa if "multimodal_cfg" in config else CustomTextCLIP
    model = kind(**config).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "logit" not in name and "norm" not in name.lower() and "ln_" not in name:
                parameter.copy_(0.2 * torch.randn(parameter.shape, generator=generator))
        model.logit_scale.fill_(2.5)
    return model


def write_xlmr_config(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    XLMRobertaConfig(
        vocab_size=260,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        max_position_embeddings=CONTEXT + 2,
        type_vocab_size=1,
        pad_token_id=1,
    ).save_pretrained(folder)


def write_nllb_config(folder: Path) -> None:
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
    ).save_pretrained(folder)


def bytes_tokenizer() -> PreTrainedTokenizerFast:
    """XLM-R's special tokens around the bytes of the text."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate(["<s>", "<pad>", "</s>", "<unk>", *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        sep_token="</s>",
        cls_token="<s>",
    )
