"""Tokenizers of transformers, and where in a text its tokens are.

The last special token of a text is never cut off; spans count characters of the text as it was given.
"""

from __future__ import annotations

import json
import unicodedata
from bisect import bisect_left
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import BackboneUnavailable, CapscoreError
from .base import Tokens
from .checkpoint import refusing

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
    """Whether a folder has a file that holds a tokenizer's vocabulary."""
    return any((folder / name).is_file() for name in _VOCABULARIES)


def require_vocabulary(folder: Path) -> None:
    """Raise `BackboneUnavailable` if a folder has no vocabulary: transformers would invent a tiny one."""
    if not has_vocabulary(folder):
        raise BackboneUnavailable(f"{folder} has no tokenizer: none of {', '.join(_VOCABULARIES)} is in it")


def load_tokenizer(folder: Path, config: Any = None) -> Any:
    """The tokenizer of a checkpoint folder; code that comes with it does not run.

    A tokenizer.json without any configuration is taken for a RoBERTa variant's, as in LAION's repositories.
    `config` is that of the model, if transformers does not know its config.json.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    require_vocabulary(folder)
    file = folder / "tokenizer.json"
    configured = any((folder / name).is_file() for name in ("tokenizer_config.json", "config.json"))
    with refusing(f"the tokenizer in {folder}"):
        if config is None and not configured and file.is_file():
            tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(file))
            known = tokenizer.get_vocab()
            for role, token in _ROBERTA_TOKENS.items():
                if token in known:
                    setattr(tokenizer, role, token)
            return tokenizer
        settings = {} if config is None else {"config": config}
        # Always set: otherwise transformers asks on the terminal whether it may run code.
        where: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
        return AutoTokenizer.from_pretrained(folder, **settings, **where)


def vocabulary_digest(tokenizer: Any) -> str:
    """Digest (32 hexadecimal digits) of how a tokenizer splits texts, whatever its files."""
    import xxhash

    fast = getattr(tokenizer, "backend_tokenizer", None)
    if fast is None:
        return xxhash.xxh3_128_hexdigest(json.dumps(tokenizer.get_vocab(), sort_keys=True).encode())
    # Both are left over from the last call, and set again by the next.
    fast.no_truncation()
    fast.no_padding()
    return xxhash.xxh3_128_hexdigest(fast.to_str().encode())


def position_limit(text_config: Any, text_model: Any) -> int | None:
    """Number of positions that a text model has for tokens, special ones included; None if unlimited.

    RoBERTa and its variants count positions from the padding index on and never use the first ones.
    """
    positions = getattr(text_config, "max_position_embeddings", None)
    if not isinstance(positions, int) or positions <= 0:
        return None
    tables = (getattr(module, "position_embeddings", None) for module in text_model.modules())
    paddings = [getattr(table, "padding_idx", None) for table in tables]
    return positions - max((index + 1 for index in paddings if index is not None), default=0)


def context_length(text_config: Any, text_model: Any, tokenizer: Any) -> int:
    """Largest number of tokens, special ones included, that text model and tokenizer both allow."""
    limits = [tokenizer.model_max_length, position_limit(text_config, text_model)]
    limit = min(limit for limit in limits if limit is not None)
    if limit > 10**6:  # a tokenizer without a limit says about 1e30
        raise CapscoreError("neither the model's config nor its tokenizer limits the length of a text")
    return int(limit)


def pad_id_of(tokenizer: Any) -> int:
    """The id to pad with: the end token's if the tokenizer has no padding token."""
    for token_id in (tokenizer.pad_token_id, tokenizer.eos_token_id):
        if token_id is not None:
            return token_id
    raise CapscoreError(f"{type(tokenizer).__name__} has neither a padding nor an end-of-text token")


def tokenize_texts(tokenizer: Any, texts: Sequence[str], max_tokens: int) -> Tokens:
    """Texts → ids with special tokens, without padding, at most `max_tokens` each, the end token kept."""
    texts = list(texts)
    if not texts:
        return Tokens(ids=[], truncated=np.zeros(0, bool))
    ids = _called(tokenizer, texts)["input_ids"]
    truncated = np.array([len(sequence) > max_tokens for sequence in ids])
    too_long = np.flatnonzero(truncated)
    if len(too_long):
        cut = _called(tokenizer, [texts[row] for row in too_long], truncation=True, max_length=max_tokens)
        for row, sequence in zip(too_long, cut["input_ids"], strict=True):
            ids[row] = sequence
    return Tokens(ids=ids, truncated=truncated)


def piece_spans(tokenizer: Any, texts: Sequence[str]) -> list[list[Piece]]:
    """Texts → id, start and end of their tokens, without special ones; see `Backbone.piece_spans`."""
    texts = list(texts)
    if not texts:
        return []
    if not tokenizer.is_fast:
        if not hasattr(tokenizer, "sp_model"):
            raise CapscoreError(f"{type(tokenizer).__name__} does not say where in a text its tokens are")
        pieces = [(text, tokenizer.tokenize(text)) for text in texts]
        return [spans_of_pieces(text, tokenizer.convert_tokens_to_ids(row), row) for text, row in pieces]
    found = _called(tokenizer, texts, add_special_tokens=False, return_offsets_mapping=True)
    # A blank that the tokenizer inserts before a word has the place of its first letter, but writes nothing.
    blank = tokenizer.convert_tokens_to_ids(BLANK)
    if blank is None or tokenizer.convert_ids_to_tokens(blank) != BLANK:
        blank = -1  # there is no such token; the id is that of the unknown token
    rows = []
    for text, ids, offsets in zip(texts, found["input_ids"], found["offset_mapping"], strict=True):
        row = [
            (token, start, start if token == blank and text[start:end] != BLANK else end)
            for token, (start, end) in zip(ids, offsets, strict=True)
        ]
        rows.append(settled(text, row))
    return rows


def _called(tokenizer: Any, texts: list[str], **settings: Any) -> Any:
    # not verbose: no warning about long texts, which `Tokens.truncated` reports
    plain = {"padding": False, "truncation": False, "verbose": False}
    plain |= {"return_attention_mask": False, "return_token_type_ids": False}
    return tokenizer(texts, **{**plain, **settings})


def spans_of_pieces(text: str, ids: Sequence[int], pieces: Sequence[str]) -> list[Piece]:
    """Pieces of SentencePiece, which together are the normalised text → their places in the original text.

    >>> spans_of_pieces("Two ﬁne dogs", [4, 8, 2, 1], ["▁Two", "▁fine", "▁dog", "s"])
    [(4, 0, 3), (8, 4, 7), (2, 8, 11), (1, 11, 12)]
    """
    triples = zip(ids, pieces, accumulate(map(len, pieces)), strict=True)
    rows = [(token, end - len(piece.lstrip(BLANK)), end) for token, piece, end in triples]
    return in_originals([text], ["".join(pieces).replace(BLANK, " ")], [rows])[0]


def in_originals(
    originals: Sequence[str], changed: Sequence[str], rows: Sequence[Sequence[Piece]]
) -> list[list[Piece]]:
    """Pieces of n changed texts → the same pieces in the original texts, `settled`."""
    found = []
    for original, text, row in zip(originals, changed, rows, strict=True):
        spans = original_spans(original, text, [(start, end) for _, start, end in row])
        found.append(settled(original, [(row[index][0], *span) for index, span in enumerate(spans)]))
    return found


def original_spans(original: str, changed: str, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in a changed text → the corresponding spans in the original.

    Characters are compared in compatibility decomposition (NFKD), without case and blanks, quotation marks as
    straight ones. Where the texts still differ, the characters in between are matched in proportion. Letters
    and digits that were removed belong to the character before them (the "amp;" of an entity). A span whose
    start is its end is empty.

    >>> original_spans("  The  ﬁne Café", "the fine café", [(0, 3), (4, 6), (9, 13)])
    [(2, 5), (7, 8), (11, 15)]
    """
    if original == changed:
        return list(spans)
    here, here_from = _folded(original)
    there, there_from = _folded(changed)
    here_from.append(len(original))
    aligned = _aligned(here, there)
    found = []
    for start, end in spans:
        first, after = bisect_left(there_from, start), bisect_left(there_from, end)
        if first < after:
            low, high = aligned[first][0], max(stop for _, stop in aligned[first:after])
            found.append((here_from[low], here_from[high - 1] + 1 if low < high else here_from[low]))
        else:  # a blank, or nothing
            place = here_from[aligned[first][0]] if first < len(aligned) else len(original)
            found.append((place, place))
    return found


def _folded(text: str) -> tuple[str, list[int]]:
    """The form of a text for comparison, and the index in the text of each character of that form."""
    if text.isascii():
        indices = [index for index, sign in enumerate(text) if not sign.isspace()]
        return "".join(text.lower().split()), indices
    signs, indices = [], []
    for index, sign in enumerate(text):
        if sign.isspace():
            continue
        folded = _STRAIGHT.get(sign) or unicodedata.normalize(
            "NFKD", unicodedata.normalize("NFKD", sign).casefold()
        )
        folded = "".join(folded.split()) or sign
        signs.append(folded)
        indices += [index] * len(folded)
    # All characters are decomposed; this only sorts the marks on one letter.
    return unicodedata.normalize("NFD", "".join(signs)), indices


def _aligned(here: str, there: str) -> list[tuple[int, int]]:
    """A span of `here` for each character of `there`."""
    same = 0
    while same < min(len(here), len(there)) and here[same] == there[same]:
        same += 1
    while same and same < len(here) and here[same - 1].isalnum():  # the letter may equal one of an entity
        same -= 1
    spans = [(index, index + 1) for index in range(same)]
    old, new = here[same:], there[same:]
    blocks: Sequence[tuple[str, int, int, int, int]] = [("replace", 0, len(old), 0, len(new))]
    if max(len(old), len(new)) <= _MAX_COMPARED:
        blocks = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    for _, start, end, new_start, new_end in blocks:
        start, length, parts = start + same, end - start, new_end - new_start
        for part in range(parts):
            spans.append((start + part * length // parts, start - (-(part + 1) * length // parts)))
        if not parts and spans and any(map(str.isalnum, here[start : start + length])):
            spans[-1] = (spans[-1][0], start + length)
    return spans


def settled(text: str, pieces: Sequence[Piece]) -> list[Piece]:
    """Pieces of a text whose spans have no blanks at their ends and include all marks on their last letter.

    A piece of blanks only, or of nothing, gets an empty span before the following text. A combining mark or
    joiner that no other piece includes belongs to the piece before it. Neither starts nor ends ever decrease.

    >>> settled("a  e\u0301!", [(5, 0, 1), (6, 1, 4), (7, 5, 6)])
    [(5, 0, 1), (6, 3, 5), (7, 5, 6)]
    """
    spans: list[tuple[int, int]] = []
    first = last = 0
    for _, start, end in pieces:
        end = min(max(end, start), len(text))
        while start < end and text[end - 1].isspace():
            end -= 1
        start = min(start, end)
        while start < len(text) and text[start].isspace():
            start += 1
        end = max(start, end)
        first, last = max(first, start if start < end else last), max(last, end)
        spans.append((first, last) if start < end else (last, last))
    following = len(text)  # start of the next piece that does not begin inside this one
    for row in range(len(spans) - 1, -1, -1):
        start, end = spans[row]
        if row + 1 < len(spans) and spans[row + 1][0] >= end:
            following = spans[row + 1][0]
        while start < end < following and _is_mark(text[end]):
            end += 1
        spans[row] = (start, end)
    return [(piece, start, end) for (piece, _, _), (start, end) in zip(pieces, spans, strict=True)]


def _is_mark(sign: str) -> bool:
    """Whether a character is part of the preceding one: a mark, a joiner, the rest of a Korean syllable."""
    return (
        unicodedata.category(sign) in ("Mn", "Mc", "Me", "Cf")
        or sign in "\uff9e\uff9f"
        or ("\u1160" <= sign <= "\u11ff")
    )
