"""Tokenizers of open_clip models: texts → `Tokens` without padding.

In: a tokenizer that open_clip made, or the folder of a model. Out: an `OpenClipTokenizer`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from open_clip.tokenizer import (
    DEFAULT_CONTEXT_LENGTH,
    HFTokenizer,
    SigLipTokenizer,
    SimpleTokenizer,
    basic_clean,
    canonicalize_text,
    get_clean_fn,
)

from ..errors import BackboneUnavailable, CapscoreError
from .base import Tokens
from .checkpoint import inside
from .download import CONFIGURATION, OPEN_CLIP_CONFIG, fetch
from .text_places import in_originals
from .transformers_tokenizer import (
    has_vocabulary,
    load_tokenizer,
    piece_spans,
    tokenize_texts,
    vocabulary_digest,
)


class OpenClipTokenizer(ABC):
    """Texts → the `Tokens` of open_clip's own tokenizers, but without padding."""

    context_length: int
    pad_id: int
    end_id: int
    pads_left = False
    fills_context = False  # True if ids are already padded, with a class token in the last position
    description: str  # changes with the vocabulary and the cleaning
    savable: tuple[Any, ...] = ()  # the tokenizer of transformers, if it is one

    @abstractmethod
    def __call__(self, texts: list[str]) -> Tokens:
        """Texts → ids and whether each text was cut."""

    @abstractmethod
    def piece_spans(self, texts: list[str]) -> list[list[tuple[int, int, int]]]:
        """See `Backbone.piece_spans`."""


class _ClipTokenizer(OpenClipTokenizer):
    """CLIP's English byte-pair encoding."""

    def __init__(self, tokenizer: SimpleTokenizer):
        if tokenizer.reduction_fn is not None:
            raise CapscoreError("a tokenizer with a reduction_mask drops tokens: it cannot score captions")
        self._encode, self._bpe = tokenizer.encode, tokenizer
        self.start_id, self.end_id, self.pad_id = tokenizer.sot_token_id, tokenizer.eot_token_id, 0
        self.context_length = tokenizer.context_length
        self.description = f"clip-bpe {tokenizer.vocab_size} {tokenizer.clean_fn.__name__}"

    def __call__(self, texts: list[str]) -> Tokens:
        bodies = [self._encode(text) for text in texts]
        room = self.context_length - 2
        ids = [[self.start_id, *body[:room], self.end_id] for body in bodies]
        return Tokens(ids, np.array([len(body) > room for body in bodies], bool))

    def piece_spans(self, texts: list[str]) -> list[list[tuple[int, int, int]]]:
        clean = [self._bpe.clean_fn(text) for text in texts]
        return in_originals(texts, clean, list(map(self._pieces, clean)))

    def _pieces(self, text: str) -> list[tuple[int, int, int]]:
        """`SimpleTokenizer.encode` of a cleaned text, with the place of each token."""
        bpe, pieces = self._bpe, []
        for found in bpe.pat.finditer(text):
            word = found.group()
            # Tokens are made of bytes; this is the place of each byte's character.
            place = [found.start() + k for k, sign in enumerate(word) for _ in sign.encode("utf-8")]
            first = 0
            for token in bpe.bpe("".join(bpe.byte_encoder[byte] for byte in word.encode("utf-8"))).split(" "):
                after = first + len(token.removesuffix("</w>"))
                pieces.append((bpe.encoder[token], place[first], place[after - 1] + 1))
                first = after
        return pieces


class _HubTokenizer(OpenClipTokenizer):
    """A tokenizer of transformers after open_clip's cleaning."""

    def __init__(
        self,
        tokenizer: Any,
        clean: Callable[[str], str],
        context_length: int,
        *,
        strip_sep: bool = False,
        clips_mode: bool = False,
    ):
        self._tokenizer, self._clean = tokenizer, clean
        self._strip_sep, self.fills_context = strip_sep, clips_mode
        self.savable = (tokenizer,)
        self.context_length = context_length
        self.pad_id = tokenizer.pad_token_id
        if self.pad_id is None:
            raise CapscoreError("the tokenizer has no padding token, and open_clip's towers need one")
        self.end_id = tokenizer.eos_token_id if tokenizer.eos_token_id is not None else -1
        self.pads_left = tokenizer.padding_side == "left" and not clips_mode
        special = (self.pad_id, self.end_id, self.pads_left)
        parts = (vocabulary_digest(tokenizer), clean.__name__, strip_sep, clips_mode, *special)
        self.description = " ".join(map(str, parts))

    def __call__(self, texts: list[str]) -> Tokens:
        clean = [self._clean(text) for text in texts]
        if self.fills_context:
            return self._with_class_token(clean)
        tokens = tokenize_texts(self._tokenizer, clean, self.context_length)
        if self._strip_sep:
            sep = self._tokenizer.sep_token_id
            ids = [[0 if token == sep else token for token in sequence] for sequence in tokens.ids]
            return Tokens(ids, tokens.truncated)
        return tokens

    def piece_spans(self, texts: list[str]) -> list[list[tuple[int, int, int]]]:
        clean = [self._clean(text) for text in texts]
        rows = piece_spans(self._tokenizer, clean)
        if self._strip_sep:
            sep = self._tokenizer.sep_token_id
            rows = [[(0 if token == sep else token, start, end) for token, start, end in row] for row in rows]
        return in_originals(texts, clean, rows)

    def _with_class_token(self, texts: list[str]) -> Tokens:
        """CLIPS: start, text, end, padding, and the class token in the last position of the context."""
        if not texts:
            return Tokens([], np.zeros(0, bool))
        tokenizer, room = self._tokenizer, self.context_length - 3
        bodies = tokenizer(texts, add_special_tokens=False, truncation=False, verbose=False).input_ids
        ids = []
        for body in bodies:
            start = [tokenizer.bos_token_id, *body[:room], tokenizer.eos_token_id]
            filling = [self.pad_id] * (self.context_length - 1 - len(start))
            ids.append([*start, *filling, tokenizer.cls_token_id])
        return Tokens(ids, np.array([len(body) > room for body in bodies], bool))


def _siglip_clean(text: str) -> str:
    return canonicalize_text(basic_clean(text))


def wrap_tokenizer(tokenizer: Any) -> OpenClipTokenizer:
    """A tokenizer from `open_clip.get_tokenizer` in this module's form.

    Raises:
        CapscoreError: it is something else, or has no padding token.
    """
    if isinstance(tokenizer, SimpleTokenizer):
        return _ClipTokenizer(tokenizer)
    if isinstance(tokenizer, HFTokenizer):
        return _HubTokenizer(
            tokenizer.tokenizer,
            tokenizer.clean_fn,
            tokenizer.context_length,
            strip_sep=tokenizer.strip_sep_token,
            clips_mode=tokenizer.tokenizer_mode == "clips",
        )
    if isinstance(tokenizer, SigLipTokenizer):
        return _HubTokenizer(tokenizer.tokenizer, _siglip_clean, tokenizer.context_length)
    raise CapscoreError(
        f"tokenizer is a {type(tokenizer).__name__}; expected the result of open_clip.get_tokenizer(…)"
    )


# Settings that a checkpoint's own file must not change: where files come from, and whether code runs.
_NOT_FOR_FILES = frozenset(
    ("trust_remote_code", "local_files_only", "code_revision", "cache_dir", "token", "revision", "subfolder")
)


def load_open_clip_tokenizer(folder: Path, text_cfg: dict[str, Any]) -> OpenClipTokenizer:
    """CLIP's own tokenizer, or the one in the folder, or the one that the config names.

    Raises:
        BackboneUnavailable: it is not available, or the config has unsuitable settings for it.
    """
    context_length = text_cfg.get("context_length") or DEFAULT_CONTEXT_LENGTH
    settings = dict(text_cfg.get("tokenizer_kwargs") or {})
    refused = sorted(settings.keys() & _NOT_FOR_FILES)
    if refused:
        raise BackboneUnavailable(
            f"{folder / OPEN_CLIP_CONFIG}: tokenizer_kwargs may not set {', '.join(refused)}"
        )
    wanted = text_cfg.get("hf_tokenizer_name")
    if not wanted:
        try:
            return _ClipTokenizer(SimpleTokenizer(context_length=context_length, **settings))
        except TypeError as error:
            raise BackboneUnavailable(f"{folder / OPEN_CLIP_CONFIG}: tokenizer_kwargs: {error}") from None
    own = inside(folder, wanted, folder / OPEN_CLIP_CONFIG)
    places = (folder, own, folder / own.name)
    source = next(filter(has_vocabulary, places), None)
    if source is None:
        try:
            source, _ = fetch(wanted, "", _tokenizer_files)
        except BackboneUnavailable as error:
            raise BackboneUnavailable(
                f"{folder} has no tokenizer (tokenizer.json, or sentencepiece.bpe.model with "
                f"tokenizer_config.json), and that of {wanted!r} is not available either: ",
                *error.parts,
            ) from None
    clean = get_clean_fn(settings.pop("clean", "whitespace"))
    strip_sep = settings.pop("strip_sep_token", False)
    language = settings.pop("language", None)
    tokenizer = load_tokenizer(source, settings=settings)
    if language is not None:
        if not hasattr(tokenizer, "set_src_lang_special_tokens"):
            raise BackboneUnavailable(
                f"{folder / OPEN_CLIP_CONFIG}: tokenizer_kwargs sets the language {language!r}, but "
                f"{type(tokenizer).__name__} does not mark languages"
            )
        tokenizer.set_src_lang_special_tokens(language)
    return _HubTokenizer(
        tokenizer,
        clean,
        context_length,
        strip_sep=strip_sep,
        clips_mode=text_cfg.get("tokenizer_mode") == "clips",
    )


def _tokenizer_files(names: Sequence[str]) -> list[str]:
    return [name for name in names if "/" not in name and name.endswith(CONFIGURATION)]
