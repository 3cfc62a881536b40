"""Writers of tiny vision–language checkpoints: real models, processors, tokenizers and chat templates.

In: a folder and a family. Out: the folder, which `AutoProcessor` and `AutoModelForImageTextToText` load; the
model of a matcher is loaded by the class that its configuration names.
Weights are random and large enough for the logits to depend visibly on photo and text.
"""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers, trainers

import capscore
from capscore.judges.model import load_judge
from tools.tiny.transformers_models import randomise

_SENTENCES = (
    "A red cat sleeps on the mat in front of the window.",
    "Two dogs run on the beach and bark at the waves.",
    "Does this caption describe the photo? Answer yes or no.",
    "How well does the caption describe the photo? Grade it from 0.0 to 1.0.",
    "A man rides a blue bicycle along the street; a woman waits for the bus.",
    "Ein roter Hund und eine blaue Katze spielen auf der Wiese.",
    "Beschreibt dieser Satz das Bild? Antworte mit ja oder nein.",
    "Una niña come una manzana verde en el parque.",
    "Красная кошка спит на окне, а собака бежит по пляжу.",
    "海辺を走る二匹の犬と赤い猫。",
    "一只红色的猫在窗边睡觉。",
    "قطة حمراء تنام على النافذة",
)
_ANSWERS = tuple(f"{space}{word}" for word in ("Yes", "yes", "No", "no") for space in ("", "so "))
_TEXTS = _SENTENCES * 2 + _ANSWERS * 40
_WORDS = Regex(r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
_SIGLIP = {"model_type": "siglip_vision_model", "vision_use_head": False}
_BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
_QWEN_MARKS = "<|im_start|> <|im_end|> <|vision_start|> <|vision_end|> <|image_pad|> <|video_pad|>".split()
_LINE = "{{ '\\n' }}"
_CHATML = ("<|im_start|>{{ message.role + '\\n' }}", f"<|im_end|>{_LINE}", f"<|im_start|>assistant{_LINE}")


# Tokenizers


def _bpe(split: Sequence[pre_tokenizers.PreTokenizer], size: int, alphabet: list[str]) -> tuple[dict, list]:
    """Vocabulary and merges of a BPE trained on the sentences; the same in every run."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(list(split))
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(_TEXTS, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], [tuple(merge) for merge in model["merges"]]


def _byte_level(special: Sequence[str], eos: str = "<|im_end|>", **settings: Any) -> Any:
    """Qwen2's tokenizer: byte-level BPE that splits digits, with the control tokens `special`."""
    split = [pre_tokenizers.Split(_WORDS, "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
    vocabulary, merges = _bpe(split, 600, sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer = transformers.Qwen2Tokenizer(vocabulary, merges, eos_token=eos, **settings)
    return _with_special(tokenizer, special)


def _metaspace(kind: type, roles: str, special: Sequence[str], **settings: Any) -> Any:
    """Llama's or Gemma's tokenizer: BPE with "▁" for spaces, and bytes for characters that it lacks."""
    digits, marks = pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.Punctuation()
    split = [pre_tokenizers.Metaspace("▁", prepend_scheme="never"), digits, marks]
    learned, merges = _bpe(split, 350, [*"0123456789▁"])
    pieces = [*roles.split(), *_BYTES, *sorted(learned, key=learned.__getitem__)]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = kind(vocab=vocabulary, merges=merges, add_bos_token=True, **settings)
    return _with_special(tokenizer, special)


def _gemma(special: Sequence[str], **settings: Any) -> Any:
    return _metaspace(transformers.GemmaTokenizer, "<pad> <eos> <bos> <unk> <mask>", special, **settings)


def _word_pieces() -> Any:
    """BERT's tokenizer with a piece per character."""
    characters = sorted(set("".join(_SENTENCES).lower()) - {" "})
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *characters, *(f"##{one}" for one in characters)]
    return transformers.BertTokenizer({piece: number for number, piece in enumerate(pieces)})


def _with_special(tokenizer: Any, special: Sequence[str]) -> Any:
    tokens = [AddedToken(token, special=True, normalized=False) for token in special]
    tokenizer.add_tokens(tokens, special_tokens=True)
    return tokenizer


# Parts that families share


def _chat(before: str, image: str, after: str, answer: str, *, start: str = "") -> str:
    """A template: `start`, each message with `before` and `after` it, and `answer`; all may hold Jinja."""
    text = "{% elif part.type == 'text' %}{{ part.text }}{% endif %}"
    part = f"{{% if part.type == 'image' %}}{image}{text}"
    parts = f"{{% for part in message.content %}}{part}{{% endfor %}}"
    content = f"{{% if message.content is string %}}{{{{ message.content }}}}{{% else %}}{parts}{{% endif %}}"
    messages = f"{{% for message in messages %}}{before}{content}{after}{{% endfor %}}"
    return f"{start}{messages}{{% if add_generation_prompt %}}{answer}{{% endif %}}"


def _square(side: int) -> dict[str, int]:
    return {"height": side, "width": side}


def _layers(**settings: Any) -> dict[str, Any]:
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    return sizes | settings


def _text(tokenizer: Any, **settings: Any) -> dict[str, Any]:
    """Settings of a language model of two layers."""
    roles = {f"{role}_token_id": getattr(tokenizer, f"{role}_token_id") for role in ("bos", "eos", "pad")}
    sizes = {"vocab_size": len(tokenizer), "num_key_value_heads": 1, "max_position_embeddings": 2048}
    return _layers(**sizes, **roles, **settings)


def _vision(side: int, **settings: Any) -> dict[str, Any]:
    """Settings of an image encoder of two layers, for photos of `side` pixels."""
    return _layers(**{"image_size": side, "patch_size": 14} | settings)


def _qwen(tokenizer: Any, rope: list[int], **vision: Any) -> dict[str, Any]:
    """Settings that Qwen2.5-VL and Qwen3-VL share."""
    names = {"image_token_id": "<|image_pad|>", "video_token_id": "<|video_pad|>"}
    names |= {"vision_start_token_id": "<|vision_start|>", "vision_end_token_id": "<|vision_end|>"}
    encoder = {"depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "out_hidden_size": 32}
    rotary = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": rope}
    return {
        "text_config": _text(tokenizer, rope_parameters=rotary, head_dim=16),
        "vision_config": encoder | vision,
        **{name: tokenizer.convert_tokens_to_ids(token) for name, token in names.items()},
    }


# Families: → the configuration and the processor


def _qwen2_5_vl() -> tuple[Any, Any]:
    """One to six tokens per photo; a system message of the template's own; windows in the image encoder."""
    tokenizer = _byte_level(_QWEN_MARKS)
    system = f"<|im_start|>system{_LINE}You are a helpful assistant.<|im_end|>{_LINE}"
    start = f"{{% if messages[0].role != 'system' %}}{system}{{% endif %}}"
    before, *after = _CHATML
    processor = transformers.Qwen2_5_VLProcessor(
        transformers.Qwen2VLImageProcessor(min_pixels=28**2, max_pixels=6 * 28**2),
        tokenizer,
        transformers.Qwen2VLVideoProcessor(),
        chat_template=_chat(before, "<|vision_start|><|image_pad|><|vision_end|>", *after, start=start),
    )
    settings = _qwen(tokenizer, [2, 3, 3], window_size=56, fullatt_block_indexes=[1])
    return transformers.Qwen2_5_VLConfig(**settings), processor


def _smolvlm() -> tuple[Any, Any]:
    """SmolVLM-Instruct, of Idefics3's classes: four tokens for each of up to four tiles and for the whole."""
    marks = "<|im_start|> <end_of_utterance> <fake_token_around_image> <image> <global-img>".split()
    places = [f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)]
    roles = {"bos_token": "<|im_start|>", "pad_token": "<|im_end|>"}
    tokenizer = _byte_level([*marks, *places], "<end_of_utterance>", **roles)
    before = "{{ message.role.capitalize() + (':' if message.content[0].type == 'image' else ': ') }}"
    after = f"<end_of_utterance>{_LINE}"
    processor = transformers.Idefics3Processor(
        transformers.Idefics3ImageProcessor(size={"longest_edge": 56}, max_image_size={"longest_edge": 28}),
        tokenizer,
        image_seq_len=4,
        chat_template=_chat(before, "<image>", after, "Assistant:", start="<|im_start|>"),
    )
    config = transformers.Idefics3Config(
        text_config=_text(tokenizer, model_type="llama"),
        vision_config=_vision(28, patch_size=7),
        scale_factor=2,
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        pad_token_id=tokenizer.pad_token_id,
    )
    return config, processor


def _smolvlm2() -> tuple[Any, Any]:
    """SmolVLM2's own classes; its processor does the same with photos, and needs num2words for videos."""
    config, processor = _smolvlm()
    parts = {name: config.to_dict()[name] for name in ("text_config", "vision_config")}
    parts["vision_config"].pop("model_type")
    names = ("scale_factor", "image_token_id", "pad_token_id")
    return transformers.SmolVLMConfig(**parts, **{name: getattr(config, name) for name in names}), processor


def _llava() -> tuple[Any, Any]:
    """LLaVA-1.5: a template in plain text; nine tokens per photo, of CLIP's last layer but one."""
    kind = transformers.LlamaTokenizer
    tokenizer = _metaspace(kind, "<unk> <s> </s>", ["<image>"], pad_token="<pad>", padding_side="left")
    after = "{{ eos_token if message.role == 'assistant' else ' ' }}"
    processor = transformers.LlavaProcessor(
        transformers.CLIPImageProcessor(size={"shortest_edge": 42}, crop_size=_square(42)),
        tokenizer,
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=_chat("{{ message.role.upper() + ': ' }}", f"<image>{_LINE}", after, "ASSISTANT:"),
    )
    config = transformers.LlavaConfig(
        text_config=_text(tokenizer, model_type="llama"),
        vision_config=_vision(42, model_type="clip_vision_model"),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        image_seq_length=9,
    )
    return config, processor


def _gemma3() -> tuple[Any, Any]:
    """Four tokens per photo, which see each other; the first layer sees 64 tokens back."""
    marks = {"boi_token": "<start_of_image>", "eoi_token": "<end_of_image>"}
    marks["image_token"] = "<image_soft_token>"
    tokenizer = _gemma(["<start_of_turn>", "<end_of_turn>", *marks.values()], extra_special_tokens=marks)
    template = _chat(
        "<start_of_turn>{{ ('model' if message.role == 'assistant' else message.role) + '\\n' }}",
        "<start_of_image>",
        f"<end_of_turn>{_LINE}",
        f"<start_of_turn>model{_LINE}",
        start="{{ bos_token }}",
    )
    images = transformers.Gemma3ImageProcessor(size=_square(56))
    processor = transformers.Gemma3Processor(images, tokenizer, template, image_seq_length=4)
    layers = {"sliding_window": 64, "layer_types": ["sliding_attention", "full_attention"]}
    config = transformers.Gemma3Config(
        text_config=_text(tokenizer, head_dim=16, query_pre_attn_scalar=16, **layers),
        vision_config=_vision(56, **_SIGLIP),
        mm_tokens_per_image=4,
        boi_token_index=tokenizer.boi_token_id,
        eoi_token_index=tokenizer.eoi_token_id,
        image_token_index=tokenizer.image_token_id,
    )
    return config, processor


def _internvl() -> tuple[Any, Any]:
    """A photo is cut into up to four tiles, with four tokens for each and for the whole."""
    marks = {"start_image_token": "<img>", "end_image_token": "</img>", "video_token": "<video>"}
    marks["context_image_token"] = "<IMG_CONTEXT>"
    tokenizer = _byte_level(["<|im_start|>", "<|im_end|>", *marks.values()], extra_special_tokens=marks)
    before, *after = _CHATML
    processor = transformers.InternVLProcessor(
        transformers.GotOcr2ImageProcessor(size=_square(56), max_patches=4),
        tokenizer,
        transformers.InternVLVideoProcessor(size=_square(56)),
        image_seq_length=4,
        chat_template=_chat(before, f"<IMG_CONTEXT>{_LINE}", *after),
    )
    config = transformers.InternVLConfig(
        text_config=_text(tokenizer, model_type="qwen2"),
        vision_config=_vision(56),
        image_token_id=tokenizer.context_image_token_id,
        image_seq_length=4,
    )
    return config, processor


def _qwen3_vl() -> tuple[Any, Any]:
    """One to six tokens per photo; features of the image encoder's first layer join the language model's."""
    tokenizer = _byte_level(_QWEN_MARKS)
    before, *after = _CHATML
    processor = transformers.Qwen3VLProcessor(
        transformers.Qwen2VLImageProcessor(patch_size=16, min_pixels=32**2, max_pixels=6 * 32**2),
        tokenizer,
        transformers.Qwen3VLVideoProcessor(),
        chat_template=_chat(before, "<|vision_start|><|image_pad|><|vision_end|>", *after),
    )
    encoder = {"patch_size": 16, "num_position_embeddings": 16, "deepstack_visual_indexes": [0]}
    return transformers.Qwen3VLConfig(**_qwen(tokenizer, [4, 2, 2], **encoder)), processor


def _llava_onevision() -> tuple[Any, Any]:
    """Nine tokens for the whole photo, then those of up to four tiles, without the padding around them."""
    tokenizer = _byte_level(["<|im_start|>", "<|im_end|>", "<image>", "<video>"])
    tiles = [[42, 42], [42, 84], [84, 42], [84, 84]]
    before = "<|im_start|>{{ message.role + ' ' }}"
    processor = transformers.LlavaOnevisionProcessor(
        transformers.LlavaOnevisionImageProcessor(size=_square(42), image_grid_pinpoints=tiles),
        tokenizer,
        transformers.LlavaOnevisionVideoProcessor(size=_square(42)),
        num_image_tokens=9,
        vision_feature_select_strategy="full",
        chat_template=_chat(before, f"<image>{_LINE}", "<|im_end|>", _CHATML[2]),
    )
    config = transformers.LlavaOnevisionConfig(
        text_config=_text(tokenizer, model_type="qwen2"),
        vision_config=_vision(42, **_SIGLIP),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        video_token_index=tokenizer.convert_tokens_to_ids("<video>"),
        image_grid_pinpoints=tiles,
    )
    return config, processor


def _paligemma() -> tuple[Any, Any]:
    """No chat template; sixteen tokens per photo; the whole prompt sees itself in both directions."""
    images = transformers.SiglipImageProcessor(size=_square(56), image_seq_length=16)
    processor = transformers.PaliGemmaProcessor(images, _gemma(["<image>"]))
    tokenizer = processor.tokenizer  # to which the processor has added 1,152 tokens for places and shapes
    config = transformers.PaliGemmaConfig(
        text_config=_text(tokenizer, model_type="gemma", head_dim=16),
        vision_config=_vision(56, **_SIGLIP),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        projection_dim=32,
    )
    return config, processor


def _blip() -> tuple[Any, Any]:
    tokenizer = _word_pieces()
    config = transformers.BlipConfig(
        text_config=_text(tokenizer, encoder_hidden_size=32, sep_token_id=tokenizer.sep_token_id),
        vision_config=_vision(28),
        image_text_hidden_size=16,
        architectures=["BlipForImageTextRetrieval"],
    )
    return config, transformers.BlipProcessor(transformers.BlipImageProcessor(size=_square(28)), tokenizer)


def _blip_2() -> tuple[Any, Any]:
    """The Q-Former with four queries, whose places the processor marks at the start of the text."""
    images = transformers.BlipImageProcessor(size=_square(28))
    processor = transformers.Blip2Processor(images, _word_pieces(), num_query_tokens=4)
    tokens = len(processor.tokenizer)
    config = transformers.Blip2Config(
        vision_config=_vision(28),
        qformer_config=_layers(vocab_size=tokens, use_qformer_text_input=True),
        text_config={"model_type": "opt", "vocab_size": tokens, "hidden_size": 32, "ffn_dim": 64},
        num_query_tokens=4,
        image_text_hidden_size=16,
        image_token_index=processor.tokenizer.convert_tokens_to_ids("<image>"),
        architectures=["Blip2ForImageTextRetrieval"],
    )
    return config, processor


_ANSWERING = (
    _qwen2_5_vl,
    _smolvlm,
    _smolvlm2,
    _llava,
    _gemma3,
    _internvl,
    _qwen3_vl,
    _llava_onevision,
    _paligemma,
)
_WRITERS = {writer.__name__[1:]: writer for writer in (*_ANSWERING, _blip, _blip_2)}
# Families with a head for image–text matching, and those that answer: all but PaliGemma by a chat template.
MATCHERS: tuple[str, ...] = ("blip", "blip_2")
FAMILIES: tuple[str, ...] = tuple(family for family in _WRITERS if family not in MATCHERS)


def write_model(
    folder: Path, family: str, *, seed: int = 0, change: Callable[[Any, Any], None] | None = None
) -> Path:
    """Write a tiny checkpoint of one of `FAMILIES` or `MATCHERS`. → The folder.

    `seed` draws its weights; `change` may set other sizes in the configuration and in the processor.
    """
    config, processor = _WRITERS[family]()
    if change:
        change(config, processor)
    build = transformers.AutoModelForImageTextToText.from_config
    if family in MATCHERS:
        build = getattr(transformers, config.architectures[0])
    with torch.random.fork_rng(devices=[]):
        model = build(config)
    randomise(model, seed).save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def load(family: str = "qwen2_5_vl", **options: Any) -> Any:
    """The metric on a tiny checkpoint."""
    return capscore.load("judge", **{"backbone": tiny_judge(family), "cache": False} | options)


@functools.cache
def tiny_judge(family: str = "qwen2_5_vl") -> Any:
    """The loaded judge of a tiny checkpoint, one per process."""
    with tempfile.TemporaryDirectory() as folder:
        return load_judge(write_model(Path(folder, f"tiny-{family}"), family), device="cpu")
