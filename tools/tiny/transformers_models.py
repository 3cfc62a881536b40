"""Writers of tiny checkpoints, laid out as the Hub has the real ones, with vocabularies built from scratch.

In: a folder. Out: the folder, with config, random weights, tokenizer and image processor in it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from torch import nn

WIDTH = 32
DIM = 16
SIDE = 32

TEXTS = [
    "a cat on the mat",
    "Two dogs run on the beach!",
    "",
    "Ein Mann fährt Rad.",
    "кошка на окне",
    "海辺を走る二匹の犬",
    "a " * 6 + "very long walk",
]
LONG = "a dog and a cat and a man on the beach " * 40

_WORDS = ["cat", "dog", "dogs", "beach", "the", "run", "on", "man", "walk"]
_CHARACTERS = sorted(set("abcdefghijklmnopqrstuvwxyzABEGMRTE.,!ä" + "".join(TEXTS).replace(" ", "")))


def random_photos() -> list[Image.Image]:
    """RGB images of many shapes, smooth enough to survive a resize; the last one is 3 pixels high."""
    random = np.random.default_rng(0)
    photos = []
    for width, height in ((40, 40), (64, 33), (33, 80), (100, 50), (50, 3)):
        rough = Image.fromarray(random.integers(0, 256, (5, 5, 3), dtype=np.uint8))
        photos.append(rough.resize((width, height), Image.Resampling.BILINEAR))
    return photos


def write_json(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def randomise(model: nn.Module, seed: int = 0) -> nn.Module:
    """Weights large enough for two texts to differ visibly; the usual start is nearly blind to its input."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "logit" in name:
                parameter.fill_(1.5)
            elif parameter.ndim > 1:
                parameter.normal_(0, 0.25, generator=generator)
            elif not (parameter == 1).all():  # a LayerNorm's scale stays
                parameter.normal_(0, 0.1, generator=generator)
    return model.eval()


# Tokenizers


def clip_tokenizer(folder: Path, max_length: int = 77, pad_token: str = "<|endoftext|>") -> int:
    """CLIP's byte-level BPE; returns the size of the vocabulary. Padding is the end token, as OpenAI's."""
    byte_level = pre_tokenizers.ByteLevel.alphabet()
    pieces = sorted(byte_level) + [f"{piece}</w>" for piece in sorted(byte_level)]
    merges = [("c", "a"), ("ca", "t</w>"), ("d", "o"), ("do", "g</w>"), ("t", "h"), ("th", "e</w>")]
    pieces += [left + right for left, right in merges] + ["<|startoftext|>", "<|endoftext|>"]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(
        models.BPE(vocabulary, merges, end_of_word_suffix="</w>", unk_token="<|endoftext|>")
    )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.RobertaProcessing(
        ("<|endoftext|>", vocabulary["<|endoftext|>"]),
        ("<|startoftext|>", vocabulary["<|startoftext|>"]),
        trim_offsets=False,
        add_prefix_space=False,
    )
    start, end = "<|startoftext|>", "<|endoftext|>"
    roles = {"bos": start, "eos": end, "unk": end, "pad": pad_token}
    return _write_tokenizer(tokenizer, folder, "CLIPTokenizer", max_length, roles)


def xlm_roberta_tokenizer(folder: Path, max_length: int = 512) -> int:
    """XLM-R's Unigram: <s> 0, <pad> 1, </s> 2, <unk> 3; returns the size of the vocabulary."""
    pieces = [(piece, 0.0) for piece in ("<s>", "<pad>", "</s>", "<unk>")]
    pieces += [("▁", -2.0), *((character, -3.0) for character in _CHARACTERS)]
    pieces += [(f"▁{word}", -1.0) for word in _WORDS] + [("<mask>", 0.0)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace("▁", prepend_scheme="always")]
    )
    tokenizer.decoder = decoders.Metaspace("▁", prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    roles = {"bos": "<s>", "eos": "</s>", "sep": "</s>", "cls": "<s>", "unk": "<unk>", "pad": "<pad>"}
    roles["mask"] = "<mask>"
    return _write_tokenizer(tokenizer, folder, "XLMRobertaTokenizer", max_length, roles)


def bert_tokenizer(
    folder: Path, max_length: int = 512, lowercase: bool = False, tokenizer_class: str = "BertTokenizer"
) -> int:
    """BERT's WordPiece; returns the size of the vocabulary."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = special + _CHARACTERS + [f"##{character}" for character in _CHARACTERS] + _WORDS
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase, strip_accents=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    cased = {"do_lower_case": lowercase, "strip_accents": False}
    roles = {role: f"[{role.upper()}]" for role in ("cls", "sep", "unk", "pad", "mask")}
    return _write_tokenizer(tokenizer, folder, tokenizer_class, max_length, roles, **cased)


def gemma_tokenizer(folder: Path, tokenizer_class: str) -> int:
    """Gemma's BPE with bytes to fall back on, ending in <eos> as SigLIP 2 has it; returns its size."""
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]
    pieces = special + [f"<0x{byte:02X}>" for byte in range(256)] + ["▁", *_CHARACTERS]
    merges = [("c", "a"), ("ca", "t"), ("d", "o"), ("do", "g")]
    pieces += [left + right for left, right in merges]
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(
        models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A <eos>", pair="$A $B <eos>", special_tokens=[("<eos>", 1)]
    )
    ends = {"add_bos_token": False, "add_eos_token": True, "padding_side": "right"}
    roles = {role: f"<{role}>" for role in ("bos", "eos", "unk", "pad", "mask")}
    names = {"model_input_names": ["input_ids"]}
    return _write_tokenizer(tokenizer, folder, tokenizer_class, None, roles, **ends, **names)


def siglip_tokenizer(folder: Path) -> int:
    """SigLIP's SentencePiece model, trained on the test texts; returns the size of the vocabulary."""
    import sentencepiece

    folder.mkdir(parents=True, exist_ok=True)
    corpus = [text.lower() for text in TEXTS if text] * 20 + [LONG]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus),
        model_prefix=str(folder / "spiece"),
        vocab_size=80,
        hard_vocab_limit=False,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        minloglevel=2,
    )
    (folder / "spiece.vocab").unlink()
    size = sentencepiece.SentencePieceProcessor(str(folder / "spiece.model")).get_piece_size()
    about = {"tokenizer_class": "SiglipTokenizer", "model_max_length": 16}
    about |= {"model_input_names": ["input_ids"], "do_lower_case": True}
    about |= {"eos_token": "</s>", "pad_token": "</s>", "unk_token": "<unk>"}
    write_json(folder / "tokenizer_config.json", about)
    return size


def _write_tokenizer(
    tokenizer: Tokenizer,
    folder: Path,
    tokenizer_class: str,
    max_length: int | None,
    roles: dict[str, str],
    **settings: Any,
) -> int:
    """Write a tokenizer, its special tokens by their roles; → the size of its vocabulary."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.add_special_tokens(sorted({*roles.values()}))
    tokenizer.save(str(folder / "tokenizer.json"))
    limit = {} if max_length is None else {"model_max_length": max_length}
    special = {f"{role}_token": token for role, token in roles.items()}
    about = {"tokenizer_class": tokenizer_class, **limit, **settings, **special}
    write_json(folder / "tokenizer_config.json", about)
    return tokenizer.get_vocab_size(with_added_tokens=False)


# Image processors


def clip_image_processor(folder: Path, kind: str = "CLIPImageProcessor", squeeze: bool = False) -> None:
    """preprocessor_config.json of CLIP's sort: resize the short side and crop the centre, or squeeze."""
    square = {"height": SIDE, "width": SIDE}
    size = square if squeeze else {"shortest_edge": SIDE}
    settings = {"image_processor_type": kind, "do_resize": True, "size": size, "resample": 3}
    settings |= {"do_center_crop": not squeeze, "crop_size": square, "do_convert_rgb": True}
    mean, std = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
    settings |= {"do_rescale": True, "do_normalize": True, "image_mean": mean, "image_std": std}
    write_json(folder / "preprocessor_config.json", settings)


_HALVES = {"do_rescale": True, "do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}


def siglip_image_processor(folder: Path) -> None:
    """preprocessor_config.json of SigLIP: squeeze to a square."""
    size = {"height": SIDE, "width": SIDE}
    settings = {"image_processor_type": "SiglipImageProcessor", "do_resize": True, "size": size}
    write_json(folder / "preprocessor_config.json", settings | {"resample": 2, **_HALVES})


# Models

_TEXT = {"hidden_size": WIDTH, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
_ROBERTA_IDS = {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1}
_VISION = {**_TEXT, "image_size": SIDE, "patch_size": 8}


def write_clip(
    folder: Path,
    *,
    legacy_eos: bool = True,
    pad_token: str = "<|endoftext|>",
    seed: int = 0,
    context: int = 20,
) -> Path:
    """OpenAI's CLIP: the config of the real checkpoint says, wrongly, eos_token_id 2 (`legacy_eos`)."""
    from transformers import CLIPConfig, CLIPModel

    size = clip_tokenizer(folder, max_length=context, pad_token=pad_token)
    text = {
        **_TEXT,
        "vocab_size": size,
        "max_position_embeddings": context + 4,
        "bos_token_id": 0 if legacy_eos else size - 2,
        "eos_token_id": 2 if legacy_eos else size - 1,
    }
    config = CLIPConfig(text_config=text, vision_config=_VISION, projection_dim=DIM)
    clip_image_processor(folder)
    return _save(CLIPModel(config), folder, seed)


def write_metaclip_2(folder: Path) -> Path:
    """MetaCLIP 2: CLIP's causal tower with XLM-R's tokenizer, whose limit (512) is not the tower's."""
    size = xlm_roberta_tokenizer(folder)
    return _write_family(folder, "MetaClip2", vocab_size=size, max_position_embeddings=21, **_ROBERTA_IDS)


def write_altclip(folder: Path) -> Path:
    """AltCLIP: an XLM-R tower, whose 40 positions hold 38 tokens."""
    text = {"vocab_size": xlm_roberta_tokenizer(folder), "max_position_embeddings": 40, **_ROBERTA_IDS}
    return _write_family(folder, "AltCLIP", **text, project_dim=24, type_vocab_size=1)


def write_chinese_clip(folder: Path) -> Path:
    """Chinese-CLIP: a BERT tower."""
    size = bert_tokenizer(folder, lowercase=True)
    text = {"vocab_size": size, "max_position_embeddings": 26, "pad_token_id": 0}
    return _write_family(folder, "ChineseCLIP", "ChineseCLIPImageProcessor", **text)


def _write_family(folder: Path, family: str, processor: str = "CLIPImageProcessor", **text: Any) -> Path:
    import transformers

    config_class, model_class = (getattr(transformers, f"{family}{part}") for part in ("Config", "Model"))
    config = config_class(text_config=_TEXT | text, vision_config=_VISION, projection_dim=DIM)
    clip_image_processor(folder, processor, squeeze=processor != "CLIPImageProcessor")
    return _save(model_class(config), folder)


def write_siglip(folder: Path) -> Path:
    """SigLIP with its SentencePiece tokenizer."""
    return _write_siglip(folder, siglip_tokenizer(folder))


def write_siglip_2(folder: Path, tokenizer_class: str = "GemmaTokenizer") -> Path:
    """SigLIP 2 at a fixed resolution: SigLIP's model with Gemma's tokenizer."""
    return _write_siglip(folder, gemma_tokenizer(folder, tokenizer_class))


def _write_siglip(folder: Path, size: int) -> Path:
    from transformers import SiglipConfig, SiglipModel

    text = {**_TEXT, "vocab_size": size, "max_position_embeddings": 16, "projection_size": WIDTH}
    config = SiglipConfig(text_config=text, vision_config=_VISION)
    siglip_image_processor(folder)
    return _save(SiglipModel(config), folder)


def write_siglip_2_naflex(folder: Path) -> Path:
    """SigLIP 2 that keeps an image's shape (NaFlex)."""
    from transformers import Siglip2Config, Siglip2Model

    size = gemma_tokenizer(folder, "GemmaTokenizer")
    text = {**_TEXT, "vocab_size": size, "max_position_embeddings": 64, "projection_size": WIDTH}
    vision = {**_TEXT, "patch_size": 16, "num_patches": 16}
    settings = {"image_processor_type": "Siglip2ImageProcessor", "patch_size": 16, "max_num_patches": 256}
    settings |= {"do_resize": True, "resample": 2, **_HALVES}
    write_json(folder / "preprocessor_config.json", settings)
    return _save(Siglip2Model(Siglip2Config(text_config=text, vision_config=vision)), folder)


def tiny_encoder(folder: Path, kind: str = "xlm-roberta") -> nn.Module:
    """An encoder ("xlm-roberta", "bert", "distilbert"); writes its tokenizer to the folder, nothing else."""
    from transformers import AutoConfig, AutoModel

    if kind == "xlm-roberta":
        size = xlm_roberta_tokenizer(folder)
    else:
        size = bert_tokenizer(
            folder, tokenizer_class="BertTokenizer" if kind == "bert" else "DistilBertTokenizer"
        )
    settings = {**_TEXT, "vocab_size": size, "max_position_embeddings": 40, "pad_token_id": 0}
    if kind == "xlm-roberta":
        settings |= {"pad_token_id": 1, "type_vocab_size": 1}
    if kind == "distilbert":
        settings = {key: settings[key] for key in ("vocab_size", "max_position_embeddings", "pad_token_id")}
        settings |= {"dim": WIDTH, "hidden_dim": 64, "n_layers": 2, "n_heads": 4}
    return randomise(AutoModel.from_config(AutoConfig.for_model(kind, **settings)))


def write_encoder(folder: Path, kind: str = "xlm-roberta") -> str:
    """An untrained encoder with its tokenizer, as the Hub has them; returns the folder."""
    encoder = tiny_encoder(folder, kind)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        type(encoder)(encoder.config).save_pretrained(folder)
    return str(folder)


def write_multilingual_clip(folder: Path, *, dim: int = DIM, pickled: bool = True) -> Path:
    """An M-CLIP text tower; `pickled` as the published ones are. Its tiny encoder's config is beside it."""
    from safetensors.torch import save_file

    encoder = tiny_encoder(folder)
    projection = randomise(nn.Linear(WIDTH, dim), seed=1)
    encoder.config.save_pretrained(folder)
    (folder / "config.json").rename(folder / "encoder_config.json")
    about = {"architectures": ["MultilingualCLIP"], "model_type": "M-CLIP", "modelBase": "tiny-roberta"}
    write_json(folder / "config.json", about | {"numDims": dim, "transformerDimensions": WIDTH})
    state = {f"transformer.{key}": tensor for key, tensor in encoder.state_dict().items()}
    # The published files are old enough to hold this buffer.
    state["transformer.embeddings.position_ids"] = torch.arange(40).unsqueeze(0)
    state |= {f"LinearTransformation.{key}": tensor for key, tensor in projection.state_dict().items()}
    if pickled:
        torch.save(state, folder / "pytorch_model.bin")
    else:
        save_file(state, folder / "model.safetensors")
    return folder


def write_sentence_transformer(folder: Path, *, dim: int = DIM, prompt: str = "") -> Path:
    """clip-ViT-B-32-multilingual-v1's layout: DistilBERT at the root, 1_Pooling, 2_Dense without bias."""
    from safetensors.torch import save_file

    encoder = tiny_encoder(folder, "distilbert")
    _save(encoder, folder, seed=0)
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": 20, "do_lower_case": False})
    names = ("", "1_Pooling", "2_Dense")
    kinds = ("Transformer", "Pooling", "Dense")
    modules = [
        {"idx": row, "name": str(row), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for row, (path, kind) in enumerate(zip(names, kinds, strict=True))
    ]
    write_json(folder / "modules.json", modules)
    pooling = {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}
    write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": WIDTH, **pooling})
    dense = {"in_features": WIDTH, "out_features": dim, "bias": False}
    dense["activation_function"] = "torch.nn.modules.linear.Identity"
    write_json(folder / "2_Dense" / "config.json", dense)
    layer = randomise(nn.Linear(WIDTH, dim, bias=False), seed=1)
    save_file({"linear.weight": layer.weight.detach()}, folder / "2_Dense" / "model.safetensors")
    if prompt:
        prompts = {"prompts": {"caption": prompt}, "default_prompt_name": "caption"}
        write_json(folder / "config_sentence_transformers.json", prompts)
    return folder


def _save(model: Any, folder: Path, seed: int = 0) -> Path:
    from capscore.backbones.checkpoint import quietly_refusing

    with quietly_refusing("the tiny checkpoint"):
        randomise(model, seed).save_pretrained(folder)
    return folder
