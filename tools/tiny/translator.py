"""A tiny M2M100, and a tiny NLLB, as folders in transformers' format; the weights are random, for a seed."""

from __future__ import annotations

import json
from pathlib import Path

import sentencepiece
import torch
from transformers import M2M100Config, M2M100ForConditionalGeneration, M2M100Tokenizer, NllbTokenizer

TEXTS = [
    "a dog runs on the beach",
    "two cats sleep on a chair",
    "ein hund läuft am strand",
    "zwei katzen schlafen auf einem stuhl",
    "un chien court sur la plage",
]
MADE_UP = 8  # words that M2M100's vocabulary ends with


def tiny_m2m100(folder: Path, *, seed: int = 0, n_positions: int = 64) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "texts.txt").write_text("\n".join(TEXTS * 3), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "texts.txt"),
        model_prefix=str(folder / "pieces"),
        vocab_size=60,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "pieces.model"))
    names = [pieces.id_to_piece(number) for number in range(pieces.get_piece_size())]
    words = ["<s>", "<pad>", "</s>", "<unk>", *(name for name in names if name[0] != "<")]
    (folder / "words.json").write_text(json.dumps({word: number for number, word in enumerate(words)}))
    tokenizer = M2M100Tokenizer(str(folder / "words.json"), str(folder / "pieces.model"))
    tokenizer.save_pretrained(folder / "model")
    n_words = len(words) + len(tokenizer.lang_code_to_id) + MADE_UP
    _model(n_words, seed, n_positions).save_pretrained(folder / "model")
    return folder / "model"


def tiny_nllb(folder: Path, *, seed: int = 0) -> Path:
    letters = "▁abcdefghijklmnopqrstuvwxyz"
    vocabulary = {word: number for number, word in enumerate(["<s>", "<pad>", "</s>", "<unk>", *letters])}
    languages = ["eng_Latn", "deu_Latn", "fra_Latn", "zho_Hans", "zho_Hant", "kor_Hang"]
    tokenizer = NllbTokenizer(vocab=vocabulary, merges=[], extra_special_tokens=languages)
    tokenizer.save_pretrained(folder)
    _model(len(tokenizer), seed, 64).save_pretrained(folder)
    return folder


def _model(n_words: int, seed: int, n_positions: int) -> M2M100ForConditionalGeneration:
    torch.manual_seed(seed)
    config = M2M100Config(
        vocab_size=n_words,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        max_position_embeddings=n_positions,
        decoder_start_token_id=2,
        init_std=0.6,  # large, so that what is written depends on what is read
    )
    return M2M100ForConditionalGeneration(config).eval()
