"""Writers of tiny vision–language checkpoints: real models, processors, tokenizers and chat templates.

In: a folder and a family. Out: the folder, which `AutoProcessor` and `AutoModelForImageTextToText` load.
Weights are random and large enough for the logits to depend visibly on photo and text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers, trainers

from ..backbones.tiny_transformers import randomise

_SENTENCES = (
    "A red cat sleeps on the mat in front of the window.",
    "Two dogs run on the beach and bark at the waves.",
    "Does this caption describe the photo? Answer yes or no.",
    "How well does the caption describe the photo? Grade it from 0.0 to 1.0.",
    "A man rides a blue bicycle along the street; a woman waits for the bus.",
    "Is this a good caption for the image? Please answer with one word.",
    "Ein roter Hund und eine blaue Katze spielen auf der Wiese.",
    "Beschreibt dieser Satz das Bild? Antworte mit ja oder nein.",
    "Un chat noir dort sur le canapé, et il pleut dehors.",
    "Una niña come una manzana verde en el parque.",
    "Красная кошка спит на окне, а собака бежит по пляжу.",
    "海辺を走る二匹の犬と赤い猫。",
    "一只红色的猫在窗边睡觉。",
    "قطة حمراء تنام على النافذة",
)
_ANSWERS = tuple(f"{space}{word}" for word in ("Yes", "yes", "No", "no") for space in ("", "so "))
_TEXTS = _SENTENCES * 2 + _ANSWERS * 40
_WORDS = Regex(r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
_BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
_PATCH = 14


# Tokenizers


def _bpe(split: Sequence[pre_tokenizers.PreTokenizer], size: int, alphabet: list[str]) -> tuple[dict, list]:
    """Vocabulary and merges of a BPE trained on the sentences; the same in every run."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(list(split))
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(_TEXTS, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], [tuple(merge) for merge in model["merges"]]


def _byte_level(special: Sequence[str], **settings: Any) -> Any:
    """Qwen2's tokenizer: byte-level BPE that splits digits; `special` has its other control tokens."""
    from transformers import Qwen2Tokenizer

    split = [pre_tokenizers.Split(_WORDS, "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
    vocabulary, merges = _bpe(split, 600, sorted(pre_tokenizers.ByteLevel.alphabet()))
    return _with_special(Qwen2Tokenizer(vocabulary, merges, **settings), special)


def _with_special(tokenizer: Any, special: Sequence[str]) -> Any:
    tokens = [AddedToken(token, special=True, normalized=False) for token in special]
    tokenizer.add_tokens(tokens, special_tokens=True)
    return tokenizer


# Chat templates


def _chat(before: str, image: str, after: str, answer: str, *, start: str = "") -> str:
    """A template: `start`, each message with `before` and `after` it, and `answer`; all may hold Jinja."""
    return (
        start
        + "{% for message in messages %}"
        + before
        + "{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}"
        + "{% if part.type == 'image' %}"
        + image
        + "{% elif part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %}{% endif %}"
        + after
        + "{% endfor %}{% if add_generation_prompt %}"
        + answer
        + "{% endif %}"
    )


# Configurations


def _text(tokenizer: Any, **settings: Any) -> dict[str, Any]:
    """Settings of a language model of two layers."""
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 2048,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        **settings,
    }


def _vision(**settings: Any) -> dict[str, Any]:
    """Settings of an image encoder of two layers."""
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    return sizes | settings


# Families


def _qwen2_5_vl() -> tuple[Any, Any]:
    from transformers import (
        Qwen2_5_VLConfig,
        Qwen2_5_VLProcessor,
        Qwen2VLImageProcessor,
        Qwen2VLVideoProcessor,
    )

    marks = ["<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>"]
    tokenizer = _byte_level([*marks, "<|image_pad|>", "<|video_pad|>"], eos_token="<|im_end|>")
    template = _chat(
        "{% if loop.first and message.role != 'system' %}<|im_start|>system{{ '\\n' }}You are helpful."
        "<|im_end|>{{ '\\n' }}{% endif %}<|im_start|>{{ message.role + '\\n' }}",
        "<|vision_start|><|image_pad|><|vision_end|>",
        "<|im_end|>{{ '\\n' }}",
        "<|im_start|>assistant{{ '\\n' }}",
    )
    pixels = {"min_pixels": (2 * _PATCH) ** 2, "max_pixels": 6 * (2 * _PATCH) ** 2}
    processor = Qwen2_5_VLProcessor(
        Qwen2VLImageProcessor(**pixels), tokenizer, Qwen2VLVideoProcessor(**pixels), chat_template=template
    )
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]}
    windows = {"window_size": 4 * _PATCH, "fullatt_block_indexes": [1]}
    vision = {"depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "out_hidden_size": 32}
    ids = tokenizer.convert_tokens_to_ids
    config = Qwen2_5_VLConfig(
        text_config=_text(tokenizer, rope_parameters=rope),
        vision_config=vision | windows,
        image_token_id=ids("<|image_pad|>"),
        video_token_id=ids("<|video_pad|>"),
        vision_start_token_id=ids("<|vision_start|>"),
        vision_end_token_id=ids("<|vision_end|>"),
    )
    return config, processor


def _smolvlm() -> tuple[Any, Any]:
    """SmolVLM-Instruct, which has Idefics3's classes; SmolVLM2's processor needs `num2words` for videos."""
    from transformers import Idefics3Config, Idefics3ImageProcessor, Idefics3Processor

    marks = ["<|im_start|>", "<end_of_utterance>", "<fake_token_around_image>", "<image>", "<global-img>"]
    places = [f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)]
    roles = {"bos_token": "<|im_start|>", "eos_token": "<end_of_utterance>", "pad_token": "<|im_end|>"}
    tokenizer = _byte_level([*marks, *places], **roles)
    template = _chat(
        "{{ message.role.capitalize() + (':' if message.content[0].type == 'image' else ': ') }}",
        "<image>",
        "<end_of_utterance>{{ '\\n' }}",
        "Assistant:",
        start="<|im_start|>",
    )
    images = Idefics3ImageProcessor(size={"longest_edge": 56}, max_image_size={"longest_edge": 28})
    processor = Idefics3Processor(images, tokenizer, image_seq_len=4, chat_template=template)
    config = Idefics3Config(
        text_config=_text(tokenizer, model_type="llama"),
        vision_config=_vision(image_size=28, patch_size=7),
        scale_factor=2,
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        pad_token_id=tokenizer.pad_token_id,
    )
    return config, processor


_WRITERS: dict[str, Callable[[], tuple[Any, Any]]] = {"qwen2_5_vl": _qwen2_5_vl, "smolvlm": _smolvlm}
FAMILIES: tuple[str, ...] = tuple(_WRITERS)


def write_model(folder: Path, family: str, *, seed: int = 0) -> Path:
    """Write a tiny checkpoint of one of `FAMILIES`; `seed` draws its weights. Returns the folder."""
    from transformers import AutoModelForImageTextToText

    config, processor = _WRITERS[family]()
    with torch.random.fork_rng(devices=[]):
        model = AutoModelForImageTextToText.from_config(config)
    randomise(model, seed).save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder
