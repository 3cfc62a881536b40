"""Tokenizers of open_clip models: texts → `Tokens` without padding.

In: a tokenizer that open_clip made, or the folder of a model. Out: an `OpenClipTokenizer`.
"""

from __future__ import annotations

import json
import os
import pickle
import tempfile
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import torch
from open_clip.hf_configs import arch_dict
from open_clip.hf_model import HFTextEncoder
from open_clip.model import CLIP, CustomTextCLIP, set_model_preprocess_cfg
from open_clip.pretrained import get_pretrained_cfg
from open_clip.tokenizer import (
    DEFAULT_CONTEXT_LENGTH,
    HFTokenizer,
    SigLipTokenizer,
    SimpleTokenizer,
    basic_clean,
    canonicalize_text,
    get_clean_fn,
)
from open_clip.transform import PreprocessCfg, image_transform_v2, merge_preprocess_dict
from open_clip.transformer import text_global_pool
from PIL import Image
from safetensors import SafetensorError

from ..errors import BackboneUnavailable, CapscoreError, Setting
from ..text.languages import language_code
from .base import (
    Backbone,
    LoadOptions,
    Tokens,
    TrainableBackbone,
    architecture_digest,
    exact_convolutions,
    fingerprint_of,
    resolve_device,
    resolve_dtype,
    settings_digest,
    to_unit_rows,
    unit_rows,
    weights_digest,
    without_addresses,
)
from .checkpoint import (
    CONFIGURATION,
    OPEN_CLIP_CONFIG,
    fetch,
    inside,
    open_clip_weights,
    read_json,
    refuse_oversized,
    why_torn,
)
from .text_towers import encoder_config
from .tokens import (
    has_vocabulary,
    in_originals,
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


class OpenClipBackbone(TrainableBackbone):
    """A model of open_clip as a Backbone; made by `load_folder`, `load_open_clip` or `from_model`.

    Args:
        model: CLIP, CustomTextCLIP or CoCa of open_clip, which is moved, cast in place and set to eval mode.
        tokenizer: Tokenizer of the model.
        preprocess: Transform for evaluation; None for one built from the model's own settings.
        options: Options of the backbone.
        settings: Digest of the files that say how the weights are used; "" for the architecture's.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: OpenClipTokenizer,
        preprocess: Callable[[Image.Image], torch.Tensor] | None,
        options: LoadOptions,
        settings: str = "",
    ):
        self._model, self._tokenizer, self._settings = model.eval(), tokenizer, settings
        self._transform = preprocess or image_transform_v2(
            PreprocessCfg(**model.visual.preprocess_cfg), is_train=False
        )
        self._tight = padding_is_free(model, tokenizer)
        self.name, self.prefix, self.languages = options.name, options.prefix, options.languages
        self.device, self.dtype = options.device, options.dtype
        self.dim = _embedding_length(model)
        self.max_tokens = tokenizer.context_length
        self.logit_scale = float(model.logit_scale.detach().float().exp())
        self._identify(options.revision)
        self._model = model.to(device=self.device, dtype=getattr(torch, self.dtype))
        self._text = _text_side(self._model)

    @classmethod
    def from_model(
        cls,
        model: Any,
        tokenizer: Any,
        preprocess: Callable[[Image.Image], torch.Tensor] | None = None,
        *,
        name: str,
        revision: str = "",
        prefix: str = "",
        languages: Iterable[str] | None = None,
        device: str | None = None,
        dtype: str | None = None,
    ) -> OpenClipBackbone:
        """Wrap an open_clip model, which is moved, cast in place and set to eval mode.

        Args:
            model: CLIP, CustomTextCLIP or CoCa of open_clip.
            tokenizer: Tokenizer from `open_clip.get_tokenizer`.
            preprocess: Transform for evaluation; None for one built from the model's own settings.
            name: Name in signatures.
            revision: Revision in signatures; "" for a digest of the weights and the architecture.
            prefix, languages, device, dtype: See `load_backbone` and `Backbone`.

        >>> model, _, preprocess = open_clip.create_model_and_transforms("ViT-B-32")  # doctest: +SKIP
        >>> OpenClipBackbone.from_model(
        ...     model, open_clip.get_tokenizer("ViT-B-32"), preprocess, name="ViT-B-32/random"
        ... ).dim  # doctest: +SKIP
        512
        """
        options = LoadOptions(
            name=name,
            revision=revision,
            prefix=prefix,
            languages=frozenset(map(language_code, languages)) if languages else None,
            device=resolve_device(device),
            dtype=resolve_dtype(dtype),
        )
        return cls(model, wrap_tokenizer(tokenizer), preprocess, options)

    def _identify(self, revision: str) -> None:
        digest, architecture = weights_digest(self._model), architecture_digest(self._model)
        self.revision = revision or f"w{fingerprint_of(digest, self._settings or architecture)[:8]}"
        self.fingerprint = fingerprint_of(
            digest,
            architecture,
            self.dtype,
            without_addresses(repr(self._transform)),
            self.max_tokens,
            self._tokenizer.description,
        )

    def text_network(self) -> torch.nn.Module:
        return self._text

    def text_settings(self) -> tuple[Any, ...]:
        config = (self._text.config,) if isinstance(self._text, HFTextEncoder) else ()
        return (*config, *self._tokenizer.savable)

    def preprocess(self, image: Image.Image) -> torch.Tensor:
        return self._transform(image)

    def encode_pixels(self, pixels: Sequence[torch.Tensor]) -> np.ndarray:
        return to_unit_rows(self._image_features(pixels))

    def pixel_features(self, pixels: Sequence[torch.Tensor]) -> np.ndarray:
        return self._image_features(pixels).float().cpu().numpy()

    def network(self) -> torch.nn.Module:
        return self._model

    def embed_pixels(self, pixels: Sequence[torch.Tensor]) -> torch.Tensor:
        return unit_rows(self._features_of(pixels))

    def _image_features(self, pixels: Sequence[torch.Tensor]) -> torch.Tensor:
        with torch.inference_mode():
            return self._features_of(pixels)

    def _features_of(self, pixels: Sequence[torch.Tensor]) -> torch.Tensor:
        batch = torch.stack(list(pixels)).to(device=self.device, dtype=getattr(torch, self.dtype))
        with exact_convolutions(self.dtype):
            return self._model.encode_image(batch)

    def tokenize(self, texts: Sequence[str]) -> Tokens:
        return self._tokenizer(list(texts))

    def piece_spans(self, texts: Sequence[str]) -> list[list[tuple[int, int, int]]]:
        return self._tokenizer.piece_spans(list(texts))

    def embed_tokens(self, ids: Sequence[Sequence[int]]) -> torch.Tensor:
        return unit_rows(self._text_features(ids))

    def token_features(self, ids: Sequence[Sequence[int]]) -> np.ndarray:
        with torch.inference_mode():
            return self._text_features(ids).float().cpu().numpy()

    def _text_features(self, ids: Sequence[Sequence[int]]) -> torch.Tensor:
        if not len(ids):
            return torch.zeros(0, self.dim, device=self.device)
        width = max(map(len, ids)) if self._tight else self.max_tokens
        batch = torch.full((len(ids), width), self._tokenizer.pad_id)
        for row, sequence in enumerate(ids):
            where = slice(width - len(sequence), width) if self._tokenizer.pads_left else slice(len(sequence))
            batch[row, where] = torch.as_tensor(sequence)
        batch = batch.to(self.device)
        if width < self.max_tokens and not isinstance(self._text, HFTextEncoder):
            return _causal_text_features(self._model, batch)
        return self._model.encode_text(batch)


class _TextSide(torch.nn.Module):
    """The text half of open_clip's CLIP, which has the parts of both towers in one module."""

    def __init__(self, model: CLIP):
        super().__init__()
        self.token_embedding = model.token_embedding
        self.positional_embedding = model.positional_embedding
        self.transformer = model.transformer
        self.ln_final = model.ln_final
        self.text_projection = model.text_projection


def _text_side(model: Any) -> torch.nn.Module:
    return _TextSide(model) if isinstance(model, CLIP) else model.text


def padding_is_free(model: Any, tokenizer: OpenClipTokenizer) -> bool:
    """Whether padding to the longest text of a batch gives the same numbers as padding to the whole context.

    It does if padding is masked (transformers' towers), or if it only follows the text (causal attention,
    pooled at a token of the text). It does not if padding is attended to (SigLIP), if the last position is
    pooled, or if a class token stands at the end of the context (CoCa).
    """
    if tokenizer.pads_left or tokenizer.fills_context:
        return False
    tower = getattr(model, "text", model)
    if isinstance(tower, HFTextEncoder):
        # The tower masks its own padding id; another id would be attended to.
        return tokenizer.pad_id == tower.config.pad_token_id
    causal = getattr(tower, "attn_mask", None) is not None and getattr(tower, "cls_emb", None) is None
    pool = _pooling(tower)[0]
    # "argmax" pools at the highest id: padding must not be higher than the end of text.
    reads_the_text = pool in ("first", "eos") or (pool == "argmax" and tokenizer.pad_id <= tokenizer.end_id)
    return causal and reads_the_text


def _causal_text_features(model: Any, ids: torch.Tensor) -> torch.Tensor:
    """open_clip's causal text tower on fewer positions than its context has."""
    tower = getattr(model, "text", model)
    width = ids.shape[1]
    cast = tower.transformer.get_cast_dtype()
    x = tower.token_embedding(ids).to(cast) + tower.positional_embedding[:width].to(cast)
    x = tower.ln_final(tower.transformer(x, attn_mask=tower.attn_mask[:width, :width]))
    pool, end_id = _pooling(tower)
    x = text_global_pool(x, ids, pool, eos_token_id=end_id)
    projection = tower.text_projection
    if projection is None:
        return x
    return projection(x) if isinstance(projection, torch.nn.Linear) else x @ projection


def _pooling(tower: Any) -> tuple[str, int | None]:
    if isinstance(tower, CLIP):
        return tower.text_pool_type, tower.text_eos_id
    return tower.pool_type, tower.eos_id


def _embedding_length(model: Any) -> int:
    tower = getattr(model, "text", model)
    if isinstance(tower, HFTextEncoder):
        return tower.output_dim
    projection = tower.text_projection
    if projection is None:
        return tower.ln_final.weight.shape[0]
    return projection.out_features if isinstance(projection, torch.nn.Linear) else projection.shape[1]


def load_folder(folder: Path, options: LoadOptions) -> Backbone:
    """Load a folder from `open_clip.push_to_hf_hub.save_for_hf`, or a downloaded repository of that form.

    Args:
        folder: Folder with open_clip_config.json, the weights and, for text towers other than CLIP's own, the
            tokenizer; the config of such a tower may be in the folder (config.json) or in a subfolder of its
            name.
        options: Options of the backbone, without an image tower: these models have their own. Code in the
            folder never runs, trusted or not.

    Raises:
        BackboneUnavailable: a file is missing, damaged, or does not fit; the message names it.
    """
    if options.image_tower:
        raise CapscoreError(
            Setting("image_tower", options.image_tower),
            f": {options.name} is an open_clip model and has its own",
        )
    path = folder / OPEN_CLIP_CONFIG
    if not path.is_file():
        raise BackboneUnavailable(
            f"{folder} has open_clip weights but no {OPEN_CLIP_CONFIG}; name their architecture: "
            f"'open_clip:ARCHITECTURE/{folder}' (`open_clip.list_models()` lists them)"
        )
    config = read_json(path)
    model_cfg, preprocess_cfg = config.get("model_cfg"), config.get("preprocess_cfg", {})
    if not isinstance(model_cfg, dict) or not isinstance(preprocess_cfg, dict) or not _has_towers(model_cfg):
        raise BackboneUnavailable(
            f"{path} is not an open_clip configuration: it needs 'model_cfg' with 'text_cfg' and 'vision_cfg'"
        )
    weights = _weights_in(folder)
    return _build(folder, weights, model_cfg, preprocess_cfg, options, settings_digest(folder))


def _has_towers(model_cfg: dict[str, Any]) -> bool:
    return all(isinstance(model_cfg.get(tower), dict) for tower in ("text_cfg", "vision_cfg"))


def load_open_clip(model: str, pretrained: str, options: LoadOptions) -> OpenClipBackbone:
    """Load an architecture that open_clip knows, with weights.

    Args:
        model: Architecture, such as "ViT-B-32-quickgelu".
        pretrained: Tag of open_clip, such as "openai", or a file or folder with weights for the architecture.
            Weights whose tag says that they were trained with QuickGELU use QuickGELU, whatever the
            architecture's name says: without it the numbers are wrong.
        options: Options of the backbone. The revision is a commit, branch or tag of the Hub repository with
            the tag's weights; "" for `main`. The name is ignored: it becomes MODEL/TAG, where TAG is the last
            part of a file's or folder's path.

    Raises:
        BackboneUnavailable: the weights are not available; the message says why.
        CapscoreError: an unknown architecture or tag.
    """
    model_cfg = open_clip.get_model_config(model)
    if model_cfg is None:
        raise CapscoreError(f"open_clip has no architecture {model!r}; `open_clip.list_models()` lists them")
    local = Path(os.path.expanduser(pretrained))
    if pretrained and local.exists():
        if options.revision:
            raise CapscoreError(
                Setting("revision", options.revision), f" does not go with local weights: {local}"
            )
        folder = local if local.is_dir() else local.parent
        weights = _weights_in(local) if local.is_dir() else local
        options = replace(options, name=f"{model}/{local.resolve().name}")
        return _build(folder, weights, model_cfg, {}, options)
    tag = get_pretrained_cfg(model, pretrained)
    if not tag:
        known = ", ".join(open_clip.list_pretrained_tags_by_model(model)) or "none"
        raise CapscoreError(
            f"open_clip has no weights {pretrained!r} for {model}, and no such file exists; its tags: {known}"
        )
    repo, _, file = tag["hf_hub"].rpartition("/")
    # Most tags name no file; then it is open_clip's usual one.
    named = (str(Path(file).with_suffix(".safetensors")), file) if file else ()
    folder, commit = fetch(repo, options.revision, lambda names: _files_of_tag(names, named))
    present = (folder / name for name in named if (folder / name).is_file())
    weights = next(present, None) or _weights_in(folder)
    model_cfg["quick_gelu"] = bool(tag.get("quick_gelu", False))
    options = replace(options, name=f"{model}/{pretrained}", revision=commit)
    return _build(folder, weights, model_cfg, tag, options)


def _files_of_tag(names: Sequence[str], named: Sequence[str]) -> list[str]:
    """Files of a tag's repository: one copy of the weights, preferably safetensors, and the configuration."""
    best = [name for name in named if name in names] or open_clip_weights(names)
    return [name for name in names if name in best[:1] or ("/" not in name and name.endswith(CONFIGURATION))]


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def _weights_in(folder: Path) -> Path:
    names = open_clip_weights(_names(folder))
    if not names:
        raise BackboneUnavailable(
            f"{folder} has no open_clip weights (open_clip_model.safetensors or "
            f"open_clip_pytorch_model.bin); it has {', '.join(_names(folder)) or 'no files'}"
        )
    return folder / names[0]


def _build(
    folder: Path,
    weights: Path,
    model_cfg: dict[str, Any],
    preprocess_cfg: dict[str, Any],
    options: LoadOptions,
    settings: str = "",
) -> OpenClipBackbone:
    """Architecture, weights and tokenizer as a backbone, from local files wherever there are some.

    `settings` is the digest of those files; "" if none of them describe the model.
    """
    tokenizer = load_open_clip_tokenizer(folder, model_cfg["text_cfg"])
    settings = settings or fingerprint_of(json.dumps(model_cfg, sort_keys=True), tokenizer.description)
    model_cfg = deepcopy(model_cfg)
    text_cfg = model_cfg["text_cfg"]
    with tempfile.TemporaryDirectory() as scratch:
        if text_cfg.get("hf_model_name"):
            place = _text_config_folder(folder, text_cfg["hf_model_name"], Path(scratch))
            text_cfg["hf_model_name"] = str(place)
            text_cfg["hf_model_pretrained"] = False
        if "timm_model_name" in model_cfg["vision_cfg"]:
            model_cfg["vision_cfg"]["timm_model_pretrained"] = False
        custom = model_cfg.pop("custom_text", False) or "hf_model_name" in text_cfg
        kind = CLIP if not custom else open_clip.CoCa if "multimodal_cfg" in model_cfg else CustomTextCLIP
        refuse_oversized(folder, model_cfg, weights.stat().st_size, lambda: kind(**model_cfg))
        try:
            model = kind(**model_cfg)
        except (TypeError, ValueError, RuntimeError, AssertionError) as error:
            raise BackboneUnavailable(f"open_clip cannot build {options.name}: {error}") from error
    _fill(model, weights)
    preprocess = merge_preprocess_dict(PreprocessCfg(), preprocess_cfg)
    set_model_preprocess_cfg(model, {**preprocess, "size": model.visual.image_size})
    return OpenClipBackbone(model, tokenizer, None, options, settings)


def _fill(model: Any, weights: Path) -> None:
    """Load weights; a pickle is opened for tensors only."""
    try:
        if weights.suffix != ".safetensors":
            # Checked before open_clip reads it: on some torch versions its loader would unpickle anything.
            torch.load(weights, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(weights))
        open_clip.load_checkpoint(model, str(weights), strict=True, weights_only=True)
    except SafetensorError as error:
        raise BackboneUnavailable(why_torn(weights, error)) from None
    except (pickle.UnpicklingError, EOFError) as error:
        raise BackboneUnavailable(
            f"{weights} is damaged, or holds more than tensors and is not opened for safety: "
            f"{str(error).splitlines()[0] if str(error) else 'it is empty'}"
        ) from None
    except (RuntimeError, KeyError, AttributeError, StopIteration) as error:
        first = " ".join(str(error).split())[:400]
        raise BackboneUnavailable(f"{weights} does not fit the architecture: {first}") from error
    except OSError as error:
        raise BackboneUnavailable(f"{weights} cannot be read: {error}") from error


def _text_config_folder(folder: Path, wanted: str, scratch: Path) -> Path:
    """The folder with the config.json of a text tower of transformers: local, built in, or from the Hub."""
    short = wanted.rpartition("/")[2] if isinstance(wanted, str) else ""
    for place in (inside(folder, wanted, folder / OPEN_CLIP_CONFIG), folder / short, folder):
        file = place / "config.json"
        if file.is_file() and _model_type(file) in arch_dict:
            return place
    # LAION's and NLLB-SigLIP's repositories hold weights, but no config.json of the text tower.
    makers = (short, "FacebookAI", "facebook")
    published = encoder_config(wanted) if wanted.partition("/")[0] in makers else None
    if published is not None:
        (scratch / "config.json").write_text(json.dumps(published))
        return scratch
    try:
        return fetch(wanted, "", lambda names: [name for name in names if name == "config.json"])[0]
    except BackboneUnavailable as error:
        raise BackboneUnavailable(
            f"the text tower needs the config.json of {wanted!r}, which is neither in {folder} nor in "
            f"{folder / short}: ",
            *error.parts,
        ) from None


def _model_type(config: Path) -> str | None:
    try:
        kind = read_json(config).get("model_type")
    except BackboneUnavailable:
        return None
    return kind if isinstance(kind, str) else None
