"""An open_clip model (architecture and tag, Hub id, or local folder) → a `Backbone`.

Texts are padded to the longest of a batch if that does not change the numbers: see `padding_is_free`.
"""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
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

from ..errors import BackboneUnavailable, CapscoreError, Setting
from ..text.languages import language_code
from .base import (
    Backbone,
    LoadOptions,
    Tokens,
    architecture_digest,
    exact_convolutions,
    fingerprint_of,
    pad_batch,
    resolve_device,
    resolve_dtype,
    settings_digest,
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
    refuse_pointer,
    refusing,
)
from .text_towers import encoder_config
from .tokens import (
    Piece,
    has_vocabulary,
    in_originals,
    load_tokenizer,
    piece_spans,
    tokenize_texts,
    vocabulary_digest,
)

# Settings that a checkpoint's own file must not change: where files come from, and whether code runs.
_NOT_FOR_FILES = frozenset(
    ("trust_remote_code", "local_files_only", "code_revision", "cache_dir", "token", "revision", "subfolder")
)


class _ClipTokenizer:
    """CLIP's English byte-pair encoding.

    Both tokenizers give the `Tokens` of open_clip's own, but without padding, and have `context_length`, the
    ids of padding and end, `pads_left`, `fills_context` (ids are padded already, with a class token in the
    last position), `description`, which changes with vocabulary and cleaning, and `settings` to be saved.
    """

    pads_left = fills_context = False
    settings: tuple[Any, ...] = ()

    def __init__(self, tokenizer: SimpleTokenizer):
        if tokenizer.reduction_fn is not None:
            raise CapscoreError("a tokenizer with a reduction_mask drops tokens: it cannot score captions")
        self._bpe = tokenizer
        self.end_id, self.pad_id = tokenizer.eot_token_id, 0
        self.context_length = tokenizer.context_length
        self.description = f"clip-bpe {tokenizer.vocab_size} {tokenizer.clean_fn.__name__}"

    def tokenize(self, texts: list[str]) -> Tokens:
        bodies = [self._bpe.encode(text) for text in texts]
        room = self.context_length - 2
        ids = [[self._bpe.sot_token_id, *body[:room], self.end_id] for body in bodies]
        return Tokens(ids, np.array([len(body) > room for body in bodies], bool))

    def piece_spans(self, texts: list[str]) -> list[list[Piece]]:
        clean = [self._bpe.clean_fn(text) for text in texts]
        return in_originals(texts, clean, list(map(self._pieces, clean)))

    def _pieces(self, text: str) -> list[Piece]:
        """`SimpleTokenizer.encode` of a cleaned text, with the place of each token."""
        bpe, pieces = self._bpe, []
        for found in bpe.pat.finditer(text):
            word = found.group()
            # Tokens are made of bytes; this is the index of each byte's character.
            indices = [found.start() + k for k, sign in enumerate(word) for _ in sign.encode("utf-8")]
            first = 0
            for token in bpe.bpe("".join(bpe.byte_encoder[byte] for byte in word.encode("utf-8"))).split(" "):
                after = first + len(token.removesuffix("</w>"))
                pieces.append((bpe.encoder[token], indices[first], indices[after - 1] + 1))
                first = after
        return pieces


class _HubTokenizer:
    """A tokenizer of transformers after open_clip's cleaning."""

    def __init__(
        self,
        tokenizer: Any,
        clean: Callable[[str], str],
        context_length: int,
        strip_sep: bool = False,
        fills_context: bool = False,
    ):
        self._tokenizer, self._clean, self._strip_sep = tokenizer, clean, strip_sep
        self.settings, self.context_length, self.fills_context = (tokenizer,), context_length, fills_context
        self.pad_id = tokenizer.pad_token_id
        if self.pad_id is None:
            raise CapscoreError("the tokenizer has no padding token, and open_clip's towers need one")
        self.end_id = tokenizer.eos_token_id if tokenizer.eos_token_id is not None else -1
        self.pads_left = tokenizer.padding_side == "left" and not fills_context
        special = (self.pad_id, self.end_id, self.pads_left)
        parts = (vocabulary_digest(tokenizer), clean.__name__, strip_sep, fills_context, *special)
        self.description = " ".join(map(str, parts))

    def tokenize(self, texts: list[str]) -> Tokens:
        clean = [self._clean(text) for text in texts]
        if self.fills_context:
            return self._with_class_token(clean)
        tokens = tokenize_texts(self._tokenizer, clean, self.context_length)
        if self._strip_sep:
            return Tokens([list(map(self._stripped, ids)) for ids in tokens.ids], tokens.truncated)
        return tokens

    def piece_spans(self, texts: list[str]) -> list[list[Piece]]:
        clean = [self._clean(text) for text in texts]
        rows = [
            [(self._stripped(token), start, end) for token, start, end in row]
            for row in piece_spans(self._tokenizer, clean)
        ]
        return in_originals(texts, clean, rows)

    def _stripped(self, token: int) -> int:
        return 0 if self._strip_sep and token == self._tokenizer.sep_token_id else token

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


_Tokenizer = _ClipTokenizer | _HubTokenizer


def _siglip_clean(text: str) -> str:
    return canonicalize_text(basic_clean(text))


class OpenClipBackbone(Backbone):
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
        tokenizer: _Tokenizer,
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
        self.max_tokens = tokenizer.context_length
        self.logit_scale = float(model.logit_scale.detach().float().exp())
        self._identify(options.revision)
        self._model = model.to(device=self.device, dtype=getattr(torch, self.dtype))
        self._text = _TextSide(self._model) if isinstance(self._model, CLIP) else self._model.text
        with torch.inference_mode():
            self.dim = self.token_features(self.tokenize(["a photo"]).ids).shape[1]

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

        Raises:
            CapscoreError: the tokenizer is something else, or has no padding token.

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
        if isinstance(tokenizer, SimpleTokenizer):
            wrapped: _Tokenizer = _ClipTokenizer(tokenizer)
        elif isinstance(tokenizer, HFTokenizer):
            wrapped = _HubTokenizer(
                tokenizer.tokenizer,
                tokenizer.clean_fn,
                tokenizer.context_length,
                tokenizer.strip_sep_token,
                tokenizer.tokenizer_mode == "clips",
            )
        elif isinstance(tokenizer, SigLipTokenizer):
            wrapped = _HubTokenizer(tokenizer.tokenizer, _siglip_clean, tokenizer.context_length)
        else:
            raise CapscoreError(f"a {type(tokenizer).__name__} is no tokenizer of open_clip.get_tokenizer(…)")
        return cls(model, wrapped, preprocess, options)

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

    def network(self) -> torch.nn.Module:
        return self._model

    def text_settings(self) -> tuple[Any, ...]:
        config = (self._text.config,) if isinstance(self._text, HFTextEncoder) else ()
        return (*config, *self._tokenizer.settings)

    def preprocess(self, image: Image.Image) -> torch.Tensor:
        return self._transform(image)

    def pixel_features(self, pixels: Sequence[torch.Tensor]) -> torch.Tensor:
        batch = torch.stack(list(pixels)).to(device=self.device, dtype=getattr(torch, self.dtype))
        with exact_convolutions(self.dtype):
            return self._model.encode_image(batch)

    def tokenize(self, texts: Sequence[str]) -> Tokens:
        return self._tokenizer.tokenize(list(texts))

    def piece_spans(self, texts: Sequence[str]) -> list[list[Piece]]:
        return self._tokenizer.piece_spans(list(texts))

    def token_features(self, ids: Sequence[Sequence[int]]) -> torch.Tensor:
        if not len(ids):
            return torch.zeros(0, self.dim, device=self.device)
        side = "left" if self._tokenizer.pads_left else "right"
        length = None if self._tight else self.max_tokens
        batch = pad_batch(ids, self._tokenizer.pad_id, length, side)[0].to(self.device)
        if batch.shape[1] < self.max_tokens and not isinstance(self._text, HFTextEncoder):
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


def padding_is_free(model: Any, tokenizer: _Tokenizer) -> bool:
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


def load_folder(folder: Path, options: LoadOptions) -> Backbone:
    """Load a folder from `open_clip.push_to_hf_hub.save_for_hf`, or a downloaded repository of that form.

    Args:
        folder: Folder with open_clip_config.json, the weights and, for text towers other than CLIP's own, the
            tokenizer; the config of such a tower may be in the folder (config.json) or in a subfolder of its
            name.
        options: Options of the backbone. Code in the folder never runs, trusted or not.

    Raises:
        BackboneUnavailable: a file is missing, damaged, or does not fit; the message names it.
    """
    path = folder / OPEN_CLIP_CONFIG
    if not path.is_file():
        raise BackboneUnavailable(
            f"{folder} has open_clip weights but no {OPEN_CLIP_CONFIG}; name their architecture: "
            f"'open_clip:ARCHITECTURE/{folder}' (`open_clip.list_models()` lists them)"
        )
    config = read_json(path)
    model_cfg, preprocess_cfg = config.get("model_cfg"), config.get("preprocess_cfg", {})
    towers = [isinstance(model_cfg, dict) and model_cfg.get(f"{part}_cfg") for part in ("text", "vision")]
    if not all(isinstance(part, dict) for part in (preprocess_cfg, *towers)):
        raise BackboneUnavailable(
            f"{path} is not an open_clip configuration: it needs 'model_cfg' with 'text_cfg' and 'vision_cfg'"
        )
    return _build(folder, _weights_in(folder), model_cfg, preprocess_cfg, options, settings_digest(folder))


def load_open_clip(model: str, pretrained: str, options: LoadOptions) -> OpenClipBackbone:
    """Load an architecture that open_clip knows, with weights.

    Args:
        model: Architecture, such as "ViT-B-32-quickgelu".
        pretrained: Tag of open_clip, such as "openai", or a file or folder with weights for the architecture.
            Weights whose tag says that they were trained with QuickGELU use it: without it the numbers are
            wrong.
        options: Options of the backbone, whose revision is one of the Hub repository with the tag's weights.
            The name becomes MODEL/TAG, where TAG is the last part of a path.

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
        folder, weights = (local, _weights_in(local)) if local.is_dir() else (local.parent, local)
        return _build(
            folder, weights, model_cfg, {}, replace(options, name=f"{model}/{local.resolve().name}")
        )
    tag = get_pretrained_cfg(model, pretrained)
    if not tag:
        known = ", ".join(open_clip.list_pretrained_tags_by_model(model)) or "none"
        raise CapscoreError(
            f"open_clip has no weights {pretrained!r} for {model}, and no such file exists; its tags: {known}"
        )
    repo, _, file = tag["hf_hub"].rpartition("/")
    # Most tags name no file; then it is open_clip's usual one.
    named = (str(Path(file).with_suffix(".safetensors")), file) if file else ()

    def choose(names: Sequence[str]) -> list[str]:
        """One copy of the weights, preferably safetensors, and the configuration."""
        best = [name for name in named if name in names] or open_clip_weights(names)
        settings = [name for name in names if "/" not in name and name.endswith(CONFIGURATION)]
        return [*best[:1], *settings]

    folder, commit = fetch(repo, options.revision, choose)
    present = (folder / name for name in named if (folder / name).is_file())
    weights = next(present, None) or _weights_in(folder)
    model_cfg["quick_gelu"] = bool(tag.get("quick_gelu", False))
    options = replace(options, name=f"{model}/{pretrained}", revision=commit)
    return _build(folder, weights, model_cfg, tag, options)


def _weights_in(folder: Path) -> Path:
    files = sorted(path.name for path in folder.iterdir() if path.is_file())
    names = open_clip_weights(files)
    if not names:
        raise BackboneUnavailable(
            f"{folder} has no open_clip weights (open_clip_model.safetensors or "
            f"open_clip_pytorch_model.bin); it has {', '.join(files) or 'no files'}"
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
    if options.image_tower:
        raise CapscoreError(
            Setting("image_tower", options.image_tower), f": {options.name} has an image tower of its own"
        )
    tokenizer = _load_tokenizer(folder, model_cfg["text_cfg"])
    settings = settings or fingerprint_of(json.dumps(model_cfg, sort_keys=True), tokenizer.description)
    model_cfg = deepcopy(model_cfg)
    text_cfg = model_cfg["text_cfg"]
    with tempfile.TemporaryDirectory() as scratch:
        if text_cfg.get("hf_model_name"):
            text_folder = _text_config_folder(folder, text_cfg["hf_model_name"], Path(scratch))
            text_cfg["hf_model_name"] = str(text_folder)
            text_cfg["hf_model_pretrained"] = False
        if "timm_model_name" in model_cfg["vision_cfg"]:
            model_cfg["vision_cfg"]["timm_model_pretrained"] = False
        custom = model_cfg.pop("custom_text", False) or "hf_model_name" in text_cfg
        kind = CLIP if not custom else open_clip.CoCa if "multimodal_cfg" in model_cfg else CustomTextCLIP
        refuse_oversized(folder, model_cfg, weights.stat().st_size, lambda: kind(**model_cfg))
        with refusing(f"the open_clip configuration of {options.name}"):
            model = kind(**model_cfg)
    with refusing(f"{weights}"):
        refuse_pointer(weights)
        if weights.suffix != ".safetensors":
            # Checked before open_clip reads it: on some torch versions its loader would unpickle anything.
            torch.load(weights, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(weights))
        open_clip.load_checkpoint(model, str(weights), strict=True, weights_only=True)
    preprocess = merge_preprocess_dict(PreprocessCfg(), preprocess_cfg)
    set_model_preprocess_cfg(model, {**preprocess, "size": model.visual.image_size})
    return OpenClipBackbone(model, tokenizer, None, options, settings)


def _load_tokenizer(folder: Path, text_cfg: dict[str, Any]) -> _Tokenizer:
    """CLIP's own tokenizer, or the one in the folder, or the one that the config names."""
    config = folder / OPEN_CLIP_CONFIG
    context_length = text_cfg.get("context_length") or DEFAULT_CONTEXT_LENGTH
    settings = dict(text_cfg.get("tokenizer_kwargs") or {})
    refused = sorted(settings.keys() & _NOT_FOR_FILES)
    if refused:
        raise BackboneUnavailable(f"{config}: tokenizer_kwargs may not set {', '.join(refused)}")
    wanted = text_cfg.get("hf_tokenizer_name")
    if not wanted:
        with refusing(f"the tokenizer_kwargs in {config}"):
            return _ClipTokenizer(SimpleTokenizer(context_length=context_length, **settings))
    named = inside(folder, wanted, config)
    source = next(filter(has_vocabulary, (folder, named, folder / named.name)), None)
    if source is None:
        try:
            source, _ = fetch(wanted, "", _tokenizer_files)
        except BackboneUnavailable as error:
            raise BackboneUnavailable(
                f"{folder} has no tokenizer, and that of {wanted!r} is not available either: ", *error.parts
            ) from None
    clean = get_clean_fn(settings.pop("clean", "whitespace"))
    strip_sep = settings.pop("strip_sep_token", False)
    language = settings.pop("language", None)
    tokenizer = load_tokenizer(source, settings=settings)
    if language is not None:
        with refusing(f"the language {language!r} of the tokenizer in {config}"):
            tokenizer.set_src_lang_special_tokens(language)
    fills_context = text_cfg.get("tokenizer_mode") == "clips"
    return _HubTokenizer(tokenizer, clean, context_length, strip_sep, fills_context)


def _tokenizer_files(names: Sequence[str]) -> list[str]:
    return [name for name in names if "/" not in name and name.endswith(CONFIGURATION)]


def _text_config_folder(folder: Path, wanted: str, scratch: Path) -> Path:
    """The folder with the config.json of a text tower of transformers: local, built in, or from the Hub."""
    named = inside(folder, wanted, folder / OPEN_CLIP_CONFIG)
    for place in (named, folder / named.name, folder):
        config = place / "config.json"
        if config.is_file() and read_json(config).get("model_type") in arch_dict:
            return place
    # LAION's and NLLB-SigLIP's repositories hold weights, but no config.json of the text tower.
    published = (
        encoder_config(wanted) if wanted.partition("/")[0] in (named.name, "FacebookAI", "facebook") else None
    )
    if published is not None:
        (scratch / "config.json").write_text(json.dumps(published))
        return scratch
    try:
        return fetch(wanted, "", lambda names: [name for name in names if name == "config.json"])[0]
    except BackboneUnavailable as error:
        raise BackboneUnavailable(
            f"the text tower needs the config.json of {wanted!r}, which is not in {folder} either: ",
            *error.parts,
        ) from None
