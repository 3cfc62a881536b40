"""Tokenizers of transformers, and where in a text its tokens are."""

from __future__ import annotations

import json
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash

from ..errors import BackboneUnavailable, CapscoreError
from .base import Tokens
from .checkpoint import CONFIGURATION, fetched, quietly_refusing

if TYPE_CHECKING:
    import torch
    from transformers import BatchEncoding, PretrainedConfig, PreTrainedTokenizerBase

# (token id, start, end) of a piece of a text
Piece = tuple[int, int, int]
BLANK = "▁"  # a blank in SentencePiece
_VOCABULARIES = (
    *("tokenizer.json", "vocab.txt", "vocab.json"),
    *("sentencepiece.bpe.model", "spiece.model", "tokenizer.model"),
)
# Special tokens of RoBERTa and its variants; a tokenizer.json alone does not name their roles.
_ROBERTA_TOKENS = {"bos_token": "<s>", "cls_token": "<s>", "pad_token": "<pad>"}
_ROBERTA_TOKENS |= {"eos_token": "</s>", "sep_token": "</s>"}
# Texts that differ in more characters than this are matched in proportion.
_MAX_COMPARED = 2000
# open_clip's cleaning makes quotation marks straight.
_STRAIGHT = {sign: "'" for sign in "\u02bc\u2018\u2019\u201a\u201b"} | {
    sign: '"' for sign in "\u201c\u201d\u201e\u201f"
}


def has_vocabulary(folder: Path) -> bool:
    return any((folder / name).is_file() for name in _VOCABULARIES)


def load_tokenizer(folder: Path, config: PretrainedConfig | None = None) -> PreTrainedTokenizerBase:
    """The tokenizer of a checkpoint folder; code that comes with it does not run.

    A tokenizer.json without any configuration is taken for a RoBERTa variant's, as in LAION's repositories.
    `config` is that of the model, if transformers does not know its config.json.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    if not has_vocabulary(folder):  # transformers would invent a tiny one
        raise BackboneUnavailable(f"{folder} has no tokenizer: none of {', '.join(_VOCABULARIES)} is in it")
    file = folder / "tokenizer.json"
    configured = any((folder / name).is_file() for name in ("tokenizer_config.json", "config.json"))
    with quietly_refusing(f"the tokenizer in {folder}"):
        for path in folder.iterdir():
            if path.suffix in CONFIGURATION and path.is_file():
                fetched(path)
        if config is None and not configured and file.is_file():
            tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(file))
            known = tokenizer.get_vocab()
            for role, token in _ROBERTA_TOKENS.items():
                if token in known:
                    setattr(tokenizer, role, token)
            return tokenizer
        # trust_remote_code is always set: otherwise transformers asks on the terminal whether it may run code
        return AutoTokenizer.from_pretrained(
            folder, config=config, local_files_only=True, trust_remote_code=False
        )


def vocabulary_digest(tokenizer: PreTrainedTokenizerBase) -> str:
    """Digest (32 hexadecimal digits) of how a tokenizer splits texts, whatever its files."""
    fast = getattr(tokenizer, "backend_tokenizer", None)
    if fast is None:
        return xxhash.xxh3_128_hexdigest(json.dumps(tokenizer.get_vocab(), sort_keys=True).encode())
    # Both are left over from the last call, and set again by the next.
    fast.no_truncation()
    fast.no_padding()
    return xxhash.xxh3_128_hexdigest(fast.to_str().encode())


def position_limit(text_config: PretrainedConfig, text_model: torch.nn.Module) -> int | None:
    """Number of positions that a text model has for tokens, special ones included; None if unlimited.

    RoBERTa and its variants count positions from the padding index on and never use the first ones.
    """
    positions = getattr(text_config, "max_position_embeddings", None)
    if not isinstance(positions, int) or positions <= 0:
        return None
    unused = 0
    for module in text_model.modules():
        padding = getattr(getattr(module, "position_embeddings", None), "padding_idx", None)
        if padding is not None:
            unused = max(unused, padding + 1)
    return positions - unused


def context_length(
    text_config: PretrainedConfig, text_model: torch.nn.Module, tokenizer: PreTrainedTokenizerBase
) -> int:
    """Largest number of tokens, special ones included, that text model and tokenizer both allow."""
    positions = position_limit(text_config, text_model)
    limit = tokenizer.model_max_length
    if positions is not None:
        limit = min(limit, positions)
    if limit > 10**6:  # a tokenizer without a limit says about 1e30
        raise CapscoreError("neither the model's config nor its tokenizer limits the length of a text")
    return int(limit)


def pad_id_of(tokenizer: PreTrainedTokenizerBase) -> int:
    """The id to pad with: the end token's if the tokenizer has no padding token."""
    for token_id in (tokenizer.pad_token_id, tokenizer.eos_token_id):
        if token_id is not None:
            return token_id
    raise CapscoreError(f"{type(tokenizer).__name__} has neither a padding nor an end-of-text token")


class TextTokenizer:
    """The tokenizer of a text tower: one of transformers, for texts that a function changes first."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, max_tokens: int, change: Callable[[str], str] = str
    ):
        self.tokenizer, self.max_tokens, self._change = tokenizer, max_tokens, change

    def tokenize(self, texts: Sequence[str]) -> Tokens:
        """Texts → ids with special tokens, without padding, at most `max_tokens` each, the end token kept."""
        texts = list(map(self._change, texts))
        if not texts:
            return Tokens(ids=[], truncated=np.zeros(0, bool))
        ids = _called(self.tokenizer, texts)["input_ids"]
        truncated = np.array([len(sequence) > self.max_tokens for sequence in ids])
        too_long = np.flatnonzero(truncated)
        if len(too_long):
            limit = {"truncation": True, "max_length": self.max_tokens}
            cut = _called(self.tokenizer, [texts[row] for row in too_long], **limit)["input_ids"]
            for row, sequence in zip(too_long, cut, strict=True):
                ids[row] = sequence
        return Tokens(ids=ids, truncated=truncated)

    def piece_spans(self, texts: Sequence[str]) -> list[list[Piece]]:
        """Texts → id, start and end of their tokens, without special ones; see `Backbone.piece_spans`."""
        changed = list(map(self._change, texts))
        return list(map(in_original, texts, changed, _pieces(self.tokenizer, changed)))


def _pieces(tokenizer: Any, texts: list[str]) -> list[list[Piece]]:
    rows: list[list[Piece]] = []
    if not tokenizer.is_fast:
        if not hasattr(tokenizer, "sp_model"):
            raise CapscoreError(f"{type(tokenizer).__name__} does not say where in a text its tokens are")
        for text in texts:
            pieces = tokenizer.tokenize(text)
            rows.append(spans_of_pieces(text, tokenizer.convert_tokens_to_ids(pieces), pieces))
        return rows
    if not texts:
        return rows
    found = _called(tokenizer, texts, add_special_tokens=False, return_offsets_mapping=True)
    # A blank that the tokenizer inserts before a word has the place of its first letter, but writes nothing.
    blank = tokenizer.convert_tokens_to_ids(BLANK)
    has_blank = blank is not None and tokenizer.convert_ids_to_tokens(blank) == BLANK
    for text, ids, offsets in zip(texts, found["input_ids"], found["offset_mapping"], strict=True):
        row = []
        for token, (start, end) in zip(ids, offsets, strict=True):
            is_inserted = has_blank and token == blank and text[start:end] != BLANK
            row.append((token, start, start if is_inserted else end))
        rows.append(settled(text, row))
    return rows


def _called(tokenizer: PreTrainedTokenizerBase, texts: list[str], **settings: bool | int) -> BatchEncoding:
    # not verbose: no warning about long texts, which `Tokens.truncated` reports
    plain = {"padding": False, "truncation": False, "verbose": False}
    plain |= {"return_attention_mask": False, "return_token_type_ids": False}
    return tokenizer(texts, **plain | settings)


def spans_of_pieces(text: str, ids: Sequence[int], pieces: Sequence[str]) -> list[Piece]:
    """Pieces of SentencePiece, which together are the normalised text → their places in the original text.

    >>> spans_of_pieces("Two ﬁne dogs", [4, 8, 2, 1], ["▁Two", "▁fine", "▁dog", "s"])
    [(4, 0, 3), (8, 4, 7), (2, 8, 11), (1, 11, 12)]
    """
    triples = zip(ids, pieces, accumulate(map(len, pieces)), strict=True)
    rows = [(token, end - len(piece.lstrip(BLANK)), end) for token, piece, end in triples]
    return in_original(text, "".join(pieces).replace(BLANK, " "), rows)


def in_original(original: str, changed: str, pieces: Sequence[Piece]) -> list[Piece]:
    """Pieces of a changed text → the same pieces in the original text, `settled`.

    Characters are compared in compatibility decomposition (NFKD), without case and blanks, quotation marks as
    straight ones. Where the texts still differ, the characters in between are matched in proportion. Letters
    and digits that were removed belong to the character before them (the "amp;" of an entity).

    >>> in_original("  The  ﬁne Café", "the fine café", [(7, 0, 3), (8, 4, 6), (9, 9, 13)])
    [(7, 2, 5), (8, 7, 8), (9, 11, 15)]
    """
    if original == changed:
        return settled(original, pieces)
    here, here_from = _folded(original)
    there, there_from = _folded(changed)
    here_from.append(len(original))
    aligned = [*_aligned(here, there), (len(here), len(here))]
    found = []
    for token, start, end in pieces:
        first, after = bisect_left(there_from, start), bisect_left(there_from, end)
        low = aligned[first][0]
        high = max((stop for _, stop in aligned[first:after]), default=low)  # low for a blank, or nothing
        start = here_from[low]
        found.append((token, start, here_from[high - 1] + 1 if low < high else start))
    return settled(original, found)


def _folded(text: str) -> tuple[str, list[int]]:
    """The form of a text for comparison, and the index in the text of each character of that form."""
    if text.isascii():
        indices = [index for index, sign in enumerate(text) if not sign.isspace()]
        return "".join(text.lower().split()), indices
    signs, indices = [], []
    for index, sign in enumerate(text):
        if sign.isspace():
            continue
        folded = _STRAIGHT.get(sign)
        if folded is None:
            folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", sign).casefold())
        folded = "".join(folded.split()) or sign
        signs.append(folded)
        indices += [index] * len(folded)
    # All characters are decomposed; this only sorts the marks on one letter.
    return unicodedata.normalize("NFD", "".join(signs)), indices


def _aligned(here: str, there: str) -> list[tuple[int, int]]:
    """The span of `here` that each character of `there` stands for."""
    same = 0
    while same < min(len(here), len(there)) and here[same] == there[same]:
        same += 1
    while 0 < same < len(here) and here[same - 1].isalnum():
        same -= 1  # the letter may equal one of an entity
    spans = [(index, index + 1) for index in range(same)]
    old, new = here[same:], there[same:]
    blocks = [("replace", 0, len(old), 0, len(new))]
    if max(len(old), len(new)) <= _MAX_COMPARED:
        blocks = list(SequenceMatcher(None, old, new, autojunk=False).get_opcodes())
    for _, start, end, new_start, new_end in blocks:
        start, end, parts = start + same, end + same, new_end - new_start
        for part in range(parts):  # the characters of both texts in proportion
            before, until = (end - start) * part, (end - start) * (part + 1)
            spans.append((start + before // parts, start + -(-until // parts)))
        if not parts and spans and any(map(str.isalnum, here[start:end])):
            spans[-1] = (spans[-1][0], end)
    return spans


def settled(text: str, pieces: Sequence[Piece]) -> list[Piece]:
    """Pieces of a text whose spans have no blanks at their ends and include all marks on their last letter.

    A piece of blanks only, or of nothing, gets an empty span before the following text. A combining mark or
    joiner that no other piece includes belongs to the piece before it. Neither starts nor ends ever decrease.

    >>> settled("a  e\u0301!", [(5, 0, 1), (6, 1, 4), (7, 5, 6)])
    [(5, 0, 1), (6, 3, 5), (7, 5, 6)]
    """
    spans = _with_marks(text, _without_blanks(text, pieces))
    return [(token, *span) for (token, *_), span in zip(pieces, spans, strict=True)]


def _without_blanks(text: str, pieces: Sequence[Piece]) -> list[tuple[int, int]]:
    spans = []
    first = last = 0  # the greatest start and end so far
    for _, start, end in pieces:
        end = start + len(text[start:end].rstrip())
        while start < len(text) and text[start].isspace():
            start += 1
        if start < end:
            first, last = max(first, start), max(last, end)
            spans.append((first, last))
        else:
            first, last = last, max(last, start)
            spans.append((last, last))
    return spans


def _with_marks(text: str, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []  # from the last to the first
    following = len(text)  # start of the next piece that does not begin inside this one
    for start, end in reversed(spans):
        if found and found[-1][0] >= end:
            following = found[-1][0]
        while start < end < following and _is_mark(text[end]):
            end += 1
        found.append((start, end))
    return found[::-1]


def _is_mark(sign: str) -> bool:
    """Whether a character is part of the preceding one: a mark, a joiner, the rest of a Korean syllable."""
    return (
        unicodedata.category(sign) in ("Mn", "Mc", "Me", "Cf")
        or sign in "\uff9e\uff9f"
        or ("\u1160" <= sign <= "\u11ff")
    )
