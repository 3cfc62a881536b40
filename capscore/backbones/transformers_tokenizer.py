"""Loads tokenizers of transformers from checkpoint folders, and tokenises texts with them.

In: a checkpoint folder; texts. Out: a tokenizer; `Tokens`, without padding, whose last special token is never
cut off.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xxhash
from torch import nn

from ..errors import BackboneUnavailable, CapscoreError, MissingExtraError
from .base import Tokens, pad_batch
from .checkpoint import in_one_line, quiet_transformers
from .text_places import BLANK, settled, spans_of_pieces

# Files that hold a vocabulary.
_VOCABULARIES = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "sentencepiece.bpe.model",
    "spiece.model",
    "tokenizer.model",
)
# Special tokens of RoBERTa and its variants; a tokenizer.json alone does not name their roles.
_ROBERTA_TOKENS = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "pad_token": "<pad>",
    "sep_token": "</s>",
    "cls_token": "<s>",
}


def has_vocabulary(folder: Path) -> bool:
    """Whether a folder has a file that holds a tokenizer's vocabulary."""
    return any((folder / name).is_file() for name in _VOCABULARIES)


def require_vocabulary(folder: Path) -> None:
    """Raise `BackboneUnavailable` if a folder has no vocabulary: transformers would invent a tiny one."""
    if not has_vocabulary(folder):
        raise BackboneUnavailable(f"{folder} has no tokenizer: none of {', '.join(_VOCABULARIES)} is in it")


def load_tokenizer(
    folder: Path,
    config: Any = None,
    *,
    trust_remote_code: bool = False,
    settings: Mapping[str, Any] | None = None,
) -> Any:
    """The tokenizer of a checkpoint folder.

    Args:
        folder: Folder with tokenizer.json or another vocabulary. A tokenizer.json without any configuration
            is taken for a RoBERTa variant's, as in LAION's repositories.
        config: Config of the model, if transformers does not know its config.json.
        trust_remote_code: Whether transformers may run the tokenizer's own code.
        settings: Further arguments of the tokenizer's class; they cannot make code run.

    Raises:
        BackboneUnavailable: the vocabulary is missing or damaged, or needs code that is not trusted.
        MissingExtraError: the vocabulary is a SentencePiece model and that library is not installed.
    """
    from transformers import AutoTokenizer

    require_vocabulary(folder)
    # Always set, and last: otherwise transformers asks on the terminal whether it may run code.
    arguments = {
        **(settings or {}),
        **({} if config is None else {"config": config}),
        "local_files_only": True,
        "trust_remote_code": trust_remote_code,
    }
    configured = any((folder / name).is_file() for name in ("tokenizer_config.json", "config.json"))
    try:
        with quiet_transformers():
            if config is None and not configured and (folder / "tokenizer.json").is_file():
                return _bare_tokenizer(folder / "tokenizer.json", settings or {})
            return AutoTokenizer.from_pretrained(folder, **arguments)
    except Exception as error:  # the tokenizers library raises plain Exception for a damaged file
        for package in ("sentencepiece", "protobuf"):  # needed by SiglipTokenizer
            if isinstance(error, ImportError) and f"requires the {package}" in str(error).lower():
                raise MissingExtraError(package, "siglip", f"the tokenizer in {folder}") from None
        raise BackboneUnavailable(
            f"the tokenizer in {folder} cannot be loaded: {in_one_line(error)}"
        ) from error


def _bare_tokenizer(file: Path, settings: Mapping[str, Any]) -> Any:
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(file), **settings)
    vocabulary = tokenizer.get_vocab()
    for role, token in _ROBERTA_TOKENS.items():
        if token in vocabulary and role not in settings:
            setattr(tokenizer, role, token)
    return tokenizer


def vocabulary_digest(tokenizer: Any) -> str:
    """Digest (32 hexadecimal digits) of how a tokenizer splits texts, whatever its files."""
    fast = getattr(tokenizer, "backend_tokenizer", None)
    if fast is None:
        return xxhash.xxh3_128_hexdigest(json.dumps(tokenizer.get_vocab(), sort_keys=True).encode())
    # Both are left over from the last call, and set again by the next.
    fast.no_truncation()
    fast.no_padding()
    return xxhash.xxh3_128_hexdigest(fast.to_str().encode())


def position_limit(text_config: Any, text_model: nn.Module) -> int | None:
    """Number of positions that a text model has for tokens, special ones included; None if unlimited.

    RoBERTa and its variants count positions from the padding index on and never use the first ones.
    """
    positions = getattr(text_config, "max_position_embeddings", None)
    if not isinstance(positions, int) or positions <= 0:
        return None
    tables = (getattr(module, "position_embeddings", None) for module in text_model.modules())
    paddings = [table.padding_idx for table in tables if isinstance(table, nn.Embedding)]
    return positions - max((index + 1 for index in paddings if index is not None), default=0)


def context_length(text_config: Any, text_model: nn.Module, tokenizer: Any) -> int:
    """Largest number of tokens, special ones included, that text model and tokenizer both allow.

    Raises:
        CapscoreError: neither of them sets a limit.
    """
    limits = [tokenizer.model_max_length, position_limit(text_config, text_model)]
    limit = min(limit for limit in limits if limit is not None)
    if limit > 10**6:  # a tokenizer without a limit says about 1e30
        raise CapscoreError("neither the model's config nor its tokenizer limits the length of a text")
    return int(limit)


def tokenize_texts(tokenizer: Any, texts: Sequence[str], max_tokens: int) -> Tokens:
    """Texts → ids with special tokens, without padding, at most `max_tokens` each.

    A text that is cut keeps its end token.
    """
    texts = list(texts)
    if not texts:
        return Tokens(ids=[], truncated=np.zeros(0, bool))
    ids = _ids(tokenizer, texts)
    truncated = np.array([len(sequence) > max_tokens for sequence in ids])
    too_long = np.flatnonzero(truncated)
    if len(too_long):
        cut = _ids(tokenizer, [texts[row] for row in too_long], truncation=True, max_length=max_tokens)
        for row, sequence in zip(too_long, cut, strict=True):
            ids[row] = sequence
    return Tokens(ids=ids, truncated=truncated)


def piece_spans(tokenizer: Any, texts: Sequence[str]) -> list[list[tuple[int, int, int]]]:
    """Texts → (id, start, end) of their tokens, without special ones; see `Backbone.piece_spans`.

    Raises:
        CapscoreError: the tokenizer does not say where its tokens are.
    """
    texts = list(texts)
    if not texts:
        return []
    if not tokenizer.is_fast:
        return [_slow_piece_spans(tokenizer, text) for text in texts]
    found = tokenizer(
        texts,
        add_special_tokens=False,
        padding=False,
        truncation=False,
        return_offsets_mapping=True,
        return_attention_mask=False,
        return_token_type_ids=False,
        verbose=False,
    )
    # A tokenizer that inserts a blank before the first word, or before every word, gives it the place of the
    # word's first letter. As a token of its own it writes nothing.
    blank = tokenizer.convert_tokens_to_ids(BLANK)
    if blank is None or tokenizer.convert_ids_to_tokens(blank) != BLANK:
        blank = -1  # there is no such token; the id is that of the unknown token
    return [
        settled(
            text,
            [
                (token, start, start if token == blank and text[start:end] != BLANK else end)
                for token, (start, end) in zip(ids, offsets, strict=True)
            ],
        )
        for text, ids, offsets in zip(texts, found["input_ids"], found["offset_mapping"], strict=True)
    ]


def _slow_piece_spans(tokenizer: Any, text: str) -> list[tuple[int, int, int]]:
    if not hasattr(tokenizer, "sp_model"):
        raise CapscoreError(
            f"{type(tokenizer).__name__} does not say where in a text its tokens are: only tokenizers of the "
            "tokenizers library and of SentencePiece do"
        )
    pieces = tokenizer.tokenize(text)
    return spans_of_pieces(text, tokenizer.convert_tokens_to_ids(pieces), pieces)


def _ids(
    tokenizer: Any, texts: list[str], truncation: bool = False, max_length: int | None = None
) -> list[list[int]]:
    return tokenizer(
        texts,
        padding=False,
        truncation=truncation,
        max_length=max_length,
        return_attention_mask=False,
        return_token_type_ids=False,
        verbose=False,  # no warning about long texts: `Tokens.truncated` reports them
    )["input_ids"]


def pad_id_of(tokenizer: Any) -> int:
    """The id to pad with: the end token's if the tokenizer has no padding token."""
    for token_id in (tokenizer.pad_token_id, tokenizer.eos_token_id):
        if token_id is not None:
            return token_id
    raise CapscoreError(f"{type(tokenizer).__name__} has neither a padding nor an end-of-text token")


def pad_to_length(
    ids: Sequence[Sequence[int]], pad_id: int, length: int, side: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids → int64 tensors (n, length) of ids and of mask (1 token, 0 padding), padded on one side.

    `side` is "left" or "right".
    """
    if side == "left":
        padded, mask = pad_batch([sequence[::-1] for sequence in ids], pad_id, length)
        return padded.flip(1), mask.flip(1)
    return pad_batch(ids, pad_id, length)
