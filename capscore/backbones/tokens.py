"""Places in a normalised text → places in the original text.

In: a text, the form that a tokenizer gave it before splitting (lower case, NFKC, blanks collapsed, entities
resolved, …), and spans in that form. Out: spans in characters of the original text.
"""

from __future__ import annotations

import json
import unicodedata
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

BLANK = "▁"  # a blank in SentencePiece
# Characters searched after a difference for a place where both texts continue alike, and how many must agree.
_REACH, _ALIKE = 40, 4
# Quotation marks are compared as straight ones, since open_clip's cleaning makes them straight.
_STRAIGHT = {sign: "'" for sign in "\u02bc\u2018\u2019\u201a\u201b"} | {
    sign: '"' for sign in "\u201c\u201d\u201e\u201f"
}


def original_spans(original: str, changed: str, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in `changed` → the corresponding spans in `original`.

    Characters are compared in compatibility decomposition (NFKD) and without case, several blanks as one,
    quotation marks as straight ones. Where the texts still differ, both are searched for the nearest place
    from which they continue alike; the characters in between are matched in proportion. Letters and digits
    that were removed belong to the character before them (the "amp;" of an entity); removed blanks and
    punctuation belong to none.

    Args:
        original: Original text.
        changed: Its changed form, in the same order.
        spans: n pairs of start and end in `changed`; a span whose start is its end is empty.

    Returns:
        n pairs in characters of `original`, from 0.

    >>> original_spans("  The  ﬁne Café", "the fine café", [(0, 3), (4, 6), (9, 13)])
    [(2, 5), (7, 8), (11, 15)]
    """
    if original == changed:
        return [(start, end) for start, end in spans]
    starts, ends = _places(original, changed)
    return [
        (starts[start], ends[end - 1])
        if start < end
        else (starts[start], starts[start])
        if start < len(starts)
        else (len(original), len(original))
        for start, end in spans
    ]


def in_originals(
    originals: Sequence[str], changed: Sequence[str], rows: Sequence[Sequence[tuple[int, int, int]]]
) -> list[list[tuple[int, int, int]]]:
    """Pieces (token id, start, end) of n changed texts → the same pieces in the originals, `settled`."""
    return [
        settled(
            original,
            [
                (token, *span)
                for (token, _, _), span in zip(
                    row, original_spans(original, text, [(start, end) for _, start, end in row]), strict=True
                )
            ],
        )
        for original, text, row in zip(originals, changed, rows, strict=True)
    ]


def spans_of_pieces(text: str, ids: Sequence[int], pieces: Sequence[str]) -> list[tuple[int, int, int]]:
    """Pieces of SentencePiece, which together are the normalised text → their places in the original text.

    Args:
        text: Original text.
        ids: n token ids.
        pieces: Text of each token; "▁" stands for a blank.

    >>> spans_of_pieces("Two ﬁne dogs", [4, 8, 2, 1], ["▁Two", "▁fine", "▁dog", "s"])
    [(4, 0, 3), (8, 4, 7), (2, 8, 11), (1, 11, 12)]
    """
    written = [piece.replace(BLANK, " ") for piece in pieces]
    if written and written[0].startswith(" "):  # SentencePiece puts a blank before every text
        written[0] = written[0][1:]
    spans, place = [], 0
    for piece in written:
        bare = len(piece) - len(piece.lstrip(" "))
        spans.append((place + bare, place + len(piece)))
        place += len(piece)
    found = original_spans(text, "".join(written), spans)
    return settled(text, [(token, *span) for token, span in zip(ids, found, strict=True)])


def settled(text: str, pieces: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Pieces of a text whose spans have no blanks at their ends and include all marks on their last
    character.

    A piece of blanks only, or of nothing, gets an empty span before the following text. A combining mark or
    joiner that no other piece includes belongs to the piece before it. Spans are in order: neither starts nor
    ends ever decrease.

    Args:
        text: Text of the pieces.
        pieces: Token id, start and end of each piece, in order.

    >>> settled("a  e\u0301!", [(5, 0, 1), (6, 1, 4), (7, 5, 6)])
    [(5, 0, 1), (6, 3, 5), (7, 5, 6)]
    """
    spans: list[tuple[int, int]] = []
    first = last = 0
    for _, start, end in pieces:
        end = min(max(end, start), len(text))
        start = min(start, end)
        while start < end and text[start].isspace():
            start += 1
        while start < end and text[end - 1].isspace():
            end -= 1
        while start == end < len(text) and text[end].isspace():
            start, end = start + 1, end + 1
        first, last = max(first, start if start < end else last), max(last, end)
        spans.append((first, last) if start < end else (last, last))
    following = len(text)  # start of the next piece that does not begin inside this one
    for row in range(len(spans) - 1, -1, -1):
        start, end = spans[row]
        if row + 1 < len(spans) and spans[row + 1][0] >= end:
            following = spans[row + 1][0]
        limit = following
        while start < end < limit and _belongs(text, start, end):
            end += 1
        spans[row] = (start, end)
    return [(piece, start, end) for (piece, _, _), (start, end) in zip(pieces, spans, strict=True)]


def _belongs(text: str, start: int, place: int) -> bool:
    """Whether the character at a place is part of the preceding one, in a piece that begins at `start`."""
    category = unicodedata.category(text[place])
    if category[0] == "M" or category == "Cf":
        return True
    if text[place] < "\u1100":
        return False
    composed = unicodedata.normalize("NFC", text[start:place])  # the letters of a Korean syllable
    return len(unicodedata.normalize("NFC", text[start : place + 1])) == len(composed)


def _places(original: str, changed: str) -> tuple[list[int], list[int]]:
    """Start and end in `original` of each character of `changed`."""
    here, here_from = _folded(original)
    there, there_from = _folded(changed)
    starts: list[int] = []
    ends: list[int] = []
    for (start, end), character in zip(_aligned(here, there), there_from, strict=True):
        begin = here_from[start] if start < len(here) else len(original)
        finish = here_from[end - 1] + 1 if start < end else begin
        if character == len(starts) - 1:  # a further character of a single one's decomposition
            ends[-1] = max(ends[-1], finish)
            continue
        _repeat_last(starts, ends, character)
        starts.append(begin)
        ends.append(finish)
    _repeat_last(starts, ends, len(changed))
    return starts, ends


def _repeat_last(starts: list[int], ends: list[int], length: int) -> None:
    """Add entries for blanks that follow a blank, which the comparison left out."""
    missing = length - len(starts)
    if missing:
        starts.extend([ends[-1]] * missing)
        ends.extend([ends[-1]] * missing)


def _folded(text: str) -> tuple[str, list[int]]:
    """The form of a text for comparison, and the place in the text of each character of that form."""
    signs: list[str] = []
    places: list[int] = []
    for place, sign in enumerate(text):
        if sign.isspace():
            folded = "" if signs and signs[-1] == " " else " "
        elif sign.isascii():
            folded = sign.lower()
        elif sign in _STRAIGHT:
            folded = _STRAIGHT[sign]
        else:
            folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", sign).casefold()) or sign
        if folded:
            signs.append(folded)
            places.extend([place] * len(folded))
    # All characters are decomposed; this only sorts the marks on one letter.
    return unicodedata.normalize("NFD", "".join(signs)), places


def _aligned(here: str, there: str) -> list[tuple[int, int]]:
    """A span of `here` for each character of `there`."""
    spans: list[tuple[int, int]] = []
    i = j = 0
    while j < len(there):
        if i < len(here) and here[i] == there[j]:
            spans.append((i, i + 1))
            i, j = i + 1, j + 1
            continue
        kept = _after_signs(here, i, there[j])
        if kept > i and _alike(here, there, kept, j):
            i = kept
        elif there[j] == " " and _alike(here, there, i, j + 1):  # an inserted blank
            spans.append((i, i))
            j += 1
        else:
            skip, fill = _next_alike(here, there, i, j)
            spans.extend(_in_proportion(i, skip, fill))
            i, j = i + skip, j + fill
            if spans and not fill and any(map(str.isalnum, here[i - skip : i])):
                # the removed part, up to where the texts continue alike
                i = _after_signs(here, i, there[j]) if j < len(there) else len(here)
                spans[-1] = (spans[-1][0], i)
    if spans and any(map(str.isalnum, here[i:])):
        spans[-1] = (spans[-1][0], len(here))
    return spans


def _after_signs(text: str, place: int, sought: str) -> int:
    """The first place, from `place` on, of a letter, a digit or the character sought."""
    while place < len(text) and text[place] != sought and not text[place].isalnum():
        place += 1
    return place


def _next_alike(here: str, there: str, i: int, j: int) -> tuple[int, int]:
    """Characters of each text to skip so that they continue alike; the rest of both if they never do."""
    for total in range(1, _REACH):
        for fill in range(min(total, len(there) - j) + 1):
            if _alike(here, there, i + total - fill, j + fill):
                return total - fill, fill
    return len(here) - i, len(there) - j


def _alike(here: str, there: str, i: int, j: int) -> bool:
    """Whether two texts continue alike, except for signs missing from and blanks inserted into the second."""
    alike = 0
    while alike < _ALIKE and i < len(here) and j < len(there):
        if here[i] == there[j]:
            alike, i, j = alike + 1, i + 1, j + 1
        elif not here[i].isalnum():
            i += 1
        elif there[j] == " ":
            j += 1
        else:
            return False
    return alike == _ALIKE or (j == len(there) and (alike > 0 or i == len(here)))


def _in_proportion(start: int, count: int, parts: int) -> list[tuple[int, int]]:
    """`count` characters from `start` on, divided among `parts` characters."""
    return [(start + part * count // parts, start - (-(part + 1) * count // parts)) for part in range(parts)]


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
