"""An open_clip model (architecture and tag, Hub id, or local folder) → a `Backbone`."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import open_clip
import torch
from open_clip.hf_configs import arch_dict
from open_clip.hf_model import HFTextEncoder
from open_clip.model import CLIP, CustomTextCLIP, set_model_preprocess_cfg
from open_clip.pretrained import get_pretrained_cfg
from open_clip.tokenizer import DEFAULT_CONTEXT_LENGTH, SimpleTokenizer, get_clean_fn
from open_clip.transform import PreprocessCfg, image_transform_v2, merge_preprocess_dict
from open_clip.transformer import text_global_pool
from PIL import Image

from ..errors import BackboneUnavailable, CapscoreError, Setting
from ..files.scratch import process_folder
from . import base, checkpoint
from .base import Backbone, BackboneOptions, Tokens
from .clip_towers import ClipTowers, TextSide
from .tokens import Piece, TextTokenizer, has_vocabulary, in_original, load_tokenizer, vocabulary_digest

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# The text half of open_clip's CLIP, which has the parts of both towers in one module.
_TEXT_PARTS = ("token_embedding", "positional_embedding", "transformer", "ln_final", "text_projection")


class ClipTokenizer:
    """CLIP's English byte-pair encoding; its `description` changes with vocabulary and cleaning."""

    pads_left = False

    def __init__(self, tokenizer: SimpleTokenizer):
        self._bpe = tokenizer
        self.end_id, self.pad_id = tokenizer.eot_token_id, 0
        self.max_tokens = tokenizer.context_length
        self.description = f"clip-bpe {tokenizer.vocab_size} {tokenizer.clean_fn.__name__}"

    def tokenize(self, texts: Sequence[str]) -> Tokens:
        whole = [[self._bpe.sot_token_id, *self._bpe.encode(text), self.end_id] for text in texts]
        truncated = np.array([len(ids) > self.max_tokens for ids in whole], bool)
        return Tokens(base.cut(whole, self.max_tokens, [self.end_id]), truncated)

    def piece_spans(self, texts: Sequence[str]) -> list[list[Piece]]:
        clean = list(map(self._bpe.clean_fn, texts))
        return list(map(in_original, texts, clean, map(self._pieces, clean)))

    def _pieces(self, text: str) -> list[Piece]:
        """`SimpleTokenizer.encode` of a cleaned text, with the place of each token."""
        bpe, pieces = self._bpe, []
        for found in bpe.pat.finditer(text):
            word, indices = "", []  # the word's bytes as signs, and the index of each byte's character
            for index, character in enumerate(found.group(), found.start()):
                written = character.encode("utf-8")
                word += "".join(bpe.byte_encoder[byte] for byte in written)
                indices += [index] * len(written)
            first = 0
            for token in bpe.bpe(word).split(" "):
                after = first + len(token.removesuffix("</w>"))
                pieces.append((bpe.encoder[token], indices[first], indices[after - 1] + 1))
                first = after
        return pieces


class _HubTokenizer(TextTokenizer):
    """A tokenizer of transformers after open_clip's cleaning; the separator becomes 0 if `strip_sep`."""

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        max_tokens: int,
        clean: Callable[[str], str],
        strip_sep: bool,
    ):
        super().__init__(tokenizer, max_tokens, clean)
        self._sep_id = tokenizer.sep_token_id if strip_sep else None
        self.pad_id = tokenizer.pad_token_id
        if self.pad_id is None:
            raise CapscoreError("the tokenizer has no padding token, and open_clip's towers need one")
        self.end_id = -1 if tokenizer.eos_token_id is None else tokenizer.eos_token_id
        self.pads_left = tokenizer.padding_side == "left"
        special = (self.pad_id, self.end_id, self.pads_left)
        # False: the tokens do not fill the context
        parts = (vocabulary_digest(tokenizer), clean.__name__, strip_sep, False, *special)
        self.description = " ".join(map(str, parts))

    def tokenize(self, texts: Sequence[str]) -> Tokens:
        tokens = super().tokenize(texts)
        for row in tokens.ids:
            row[:] = map(self._stripped, row)
        return tokens

    def piece_spans(self, texts: Sequence[str]) -> list[list[Piece]]:
        rows = super().piece_spans(texts)
        for row in rows:
            row[:] = [(self._stripped(token), start, end) for token, start, end in row]
        return rows

    def _stripped(self, token: int) -> int:
        return 0 if token == self._sep_id else token


_Tokenizer = ClipTokenizer | _HubTokenizer


class OpenClipBackbone(ClipTowers):
    """A model of open_clip as a Backbone; made by `load_folder` or `load_open_clip`.

    The model's `visual.preprocess_cfg` says how it reads images. `settings` is the digest of the files that
    say how the weights are used, or of the architecture's configuration.
    """

    _tokenizer: _Tokenizer

    def __init__(self, model: Any, tokenizer: _Tokenizer, options: BackboneOptions, settings: str):
        self._settings = settings
        reading = PreprocessCfg(**model.visual.preprocess_cfg)
        self._transform = image_transform_v2(reading, is_train=False)
        self._tower = getattr(model, "text", model)
        self._tight = _padding_is_free(self._tower, tokenizer)
        text = TextSide(model, _TEXT_PARTS) if isinstance(model, CLIP) else self._tower
        super().__init__(model, text, tokenizer, options)

    def _identify(self, revision: str) -> None:
        digest = base.fingerprint_of(base.weights_digest(self._model), self._settings)
        self.revision = revision or f"w{digest[:8]}"
        reading = json.dumps(self._model.visual.preprocess_cfg, sort_keys=True, default=str)
        self.fingerprint = base.fingerprint_of(
            digest, self.dtype, reading, self.max_tokens, self._tokenizer.description
        )

    def preprocess(self, image: Image.Image) -> torch.Tensor:
        return self._transform(image)

    def pixel_features(self, pixels: Sequence[torch.Tensor]) -> torch.Tensor:
        batch = torch.stack(list(pixels)).to(device=self.device, dtype=self.torch_dtype)
        with base.exact_convolutions(self.dtype):
            return self._model.encode_image(batch)

    def token_features(self, ids: Sequence[Sequence[int]]) -> torch.Tensor:
        side = "left" if self._tokenizer.pads_left else "right"
        length = None if self._tight else self.max_tokens
        batch = base.pad_batch(ids, self._tokenizer.pad_id, length, side)[0].to(self.device)
        if batch.shape[1] < self.max_tokens and not isinstance(self._text, HFTextEncoder):
            return _causal_text_features(self._tower, batch)
        return self._model.encode_text(batch)


def _padding_is_free(tower: torch.nn.Module, tokenizer: _Tokenizer) -> bool:
    """Whether padding to the longest text of a batch gives the same numbers as padding to the context."""
    if tokenizer.pads_left:
        return False
    if isinstance(tower, HFTextEncoder):
        # The tower masks its own padding id; another id would be attended to.
        return tokenizer.pad_id == tower.config.pad_token_id
    causal = getattr(tower, "attn_mask", None) is not None and getattr(tower, "cls_emb", None) is None
    pool = _pooling(tower)[0]
    # "argmax" pools at the highest id: padding must not be higher than the end of text.
    reads_the_text = pool in ("first", "eos") or (pool == "argmax" and tokenizer.pad_id <= tokenizer.end_id)
    return causal and reads_the_text


def _causal_text_features(tower: Any, ids: torch.Tensor) -> torch.Tensor:
    """open_clip's causal text tower on fewer positions than its context has."""
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


def load_folder(folder: Path, options: BackboneOptions) -> Backbone:
    """Load a folder or repository of `open_clip.push_to_hf_hub`; code in it never runs, trusted or not."""
    path = folder / checkpoint.OPEN_CLIP_CONFIG
    if not path.is_file():
        raise BackboneUnavailable(
            f"{folder} has open_clip weights but no {checkpoint.OPEN_CLIP_CONFIG}; name their architecture: "
            f"'open_clip:ARCHITECTURE/{folder}' (`open_clip.list_models()` lists them)"
        )
    config = checkpoint.read_config(path)
    with checkpoint.refusing(f"{path}"):
        model_cfg, preprocess_cfg = config["model_cfg"], dict(config.get("preprocess_cfg", {}))
        model_cfg = {**model_cfg, **{part: dict(model_cfg[part]) for part in ("text_cfg", "vision_cfg")}}
        own = {"w": base.PUBLISHED_W, **config.get("capscore", {})}  # of a converted metric
        prefix, w = options.prefix or own.get("prefix", options.prefix), float(own["w"])
        if not 0 < w < float("inf"):
            raise ValueError(f"w is {w}")
    digest = base.settings_digest(folder)
    options = replace(options, prefix=prefix)
    found = _build(folder, _weights_in(folder), model_cfg, preprocess_cfg, options, digest)
    found.w = w
    return found


def tag_config(model: str, tag: str) -> dict[str, Any]:
    """open_clip's record of the weights of an architecture under a tag; an error if there is none."""
    config = get_pretrained_cfg(model, tag)
    if not config:
        known = ", ".join(open_clip.list_pretrained_tags_by_model(model)) or "none"
        missing = f"open_clip has no weights {tag!r} for {model}, and no such file exists"
        raise CapscoreError(f"{missing}; its tags: {known}")
    return config


def load_open_clip(pair: str, options: BackboneOptions) -> OpenClipBackbone:
    """Load "MODEL/TAG", an architecture that open_clip knows, such as "ViT-B-32-quickgelu/openai".

    The tag may also be a file or folder with weights, whose last part the name then has. Weights whose tag
    says that they were trained with QuickGELU use it: without it the numbers are wrong.
    """
    model, _, pretrained = pair.partition("/")
    if not pretrained:
        raise CapscoreError(Setting("backbone", f"open_clip:{pair}"), ": expected open_clip:MODEL/TAG")
    model_cfg = open_clip.get_model_config(model)
    if model_cfg is None:
        raise CapscoreError(f"open_clip has no architecture {model!r}; `open_clip.list_models()` lists them")
    local = Path(os.path.expanduser(pretrained))
    if local.exists():
        if options.revision:
            given = Setting("revision", options.revision)
            raise CapscoreError(given, f" does not go with local weights: {local}")
        folder, weights = (local, _weights_in(local)) if local.is_dir() else (local.parent, local)
        options = replace(options, name=f"{model}/{local.resolve().name}")
        return _build(folder, weights, model_cfg, {}, options)
    tag = tag_config(model, pretrained)
    repo, _, file = tag["hf_hub"].rpartition("/")
    # Most tags name no file; then it is open_clip's usual one.
    named = (str(Path(file).with_suffix(".safetensors")), file) if file else ()

    def choose(names: Sequence[str]) -> list[str]:
        """One copy of the weights, preferably safetensors, and the configuration."""
        best = [name for name in named if name in names] or checkpoint.open_clip_weights(names)
        return [*best[:1], *_configuration(names)]

    folder, commit = checkpoint.fetch_model(repo, options.revision, choose)
    present = (folder / name for name in named if (folder / name).is_file())
    weights = next(present, None) or _weights_in(folder)
    model_cfg["quick_gelu"] = bool(tag.get("quick_gelu", False))
    options = replace(options, name=f"{model}/{pretrained}", revision=commit)
    return _build(folder, weights, model_cfg, tag, options)


def _configuration(names: Sequence[str]) -> list[str]:
    return [name for name in names if "/" not in name and name.endswith(checkpoint.CONFIGURATION)]


def _weights_in(folder: Path) -> Path:
    files = sorted(path.name for path in folder.iterdir() if path.is_file())
    for name in checkpoint.open_clip_weights(files):
        return folder / name
    raise BackboneUnavailable(f"{folder} has no open_clip weights; it has {', '.join(files) or 'no files'}")


def _build(
    folder: Path,
    weights: Path,
    model_cfg: dict[str, Any],
    preprocess_cfg: dict[str, Any],
    options: BackboneOptions,
    settings: str = "",
) -> OpenClipBackbone:
    """Architecture, weights and tokenizer as a backbone, from local files wherever there are some."""
    options.refuse_image_tower()
    tokenizer = _load_tokenizer(folder, model_cfg["text_cfg"])
    settings = settings or base.fingerprint_of(json.dumps(model_cfg, sort_keys=True), tokenizer.description)
    model_cfg = deepcopy(model_cfg)
    text_cfg = model_cfg["text_cfg"]
    what = f"the configuration of {options.name}"
    with tempfile.TemporaryDirectory(dir=process_folder()) as scratch, checkpoint.quietly_refusing(what):
        if text_cfg.get("hf_model_name"):
            text_folder = _text_config_folder(folder, text_cfg["hf_model_name"], Path(scratch))
            text_cfg |= {"hf_model_name": str(text_folder), "hf_model_pretrained": False}
        if "timm_model_name" in model_cfg["vision_cfg"]:
            model_cfg["vision_cfg"]["timm_model_pretrained"] = False
        custom = model_cfg.pop("custom_text", False) or "hf_model_name" in text_cfg
        kind = CLIP if not custom else open_clip.CoCa if "multimodal_cfg" in model_cfg else CustomTextCLIP
        checkpoint.refuse_oversized(folder, model_cfg, checkpoint.fetched(weights).stat().st_size)
        model = kind(**model_cfg)
    with checkpoint.refusing(f"{weights}"):
        if weights.suffix != ".safetensors":
            # Checked before open_clip reads it: on some torch versions its loader would unpickle anything.
            torch.load(weights, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(weights))
        open_clip.load_checkpoint(model, str(weights), strict=True, weights_only=True)
    preprocess = merge_preprocess_dict(PreprocessCfg(), preprocess_cfg)
    set_model_preprocess_cfg(model, {**preprocess, "size": model.visual.image_size})
    return OpenClipBackbone(model, tokenizer, options, settings)


def _load_tokenizer(folder: Path, text_cfg: dict[str, Any]) -> _Tokenizer:
    """CLIP's own tokenizer, or the one in the folder, or the one that the config names."""
    config = folder / checkpoint.OPEN_CLIP_CONFIG
    context_length = text_cfg.get("context_length") or DEFAULT_CONTEXT_LENGTH
    with checkpoint.quietly_refusing(f"the tokenizer that {config} names"):
        settings = {"clean": None, "strip_sep_token": False} | (text_cfg.get("tokenizer_kwargs") or {})
        clean, strip_sep = settings.pop("clean"), settings.pop("strip_sep_token")
        if settings or text_cfg.get("tokenizer_mode"):
            what = f"tokenizer_kwargs {sorted(settings)} or tokenizer_mode"
            raise BackboneUnavailable(f"{config}: {what}: only clean and strip_sep_token are supported")
        wanted = text_cfg.get("hf_tokenizer_name")
        if not wanted:
            return ClipTokenizer(SimpleTokenizer(context_length=context_length, clean=clean or "lower"))
        named = checkpoint.inside(folder, wanted, config)
        source = next(filter(has_vocabulary, (folder, named, folder / named.name)), None)
        if source is None:
            source = _fetched(folder, wanted, "tokenizer", _configuration)
        cleaned = get_clean_fn(clean or "whitespace")
        return _HubTokenizer(load_tokenizer(source), context_length, cleaned, strip_sep)


def _text_config_folder(folder: Path, wanted: str, scratch: Path) -> Path:
    """The folder with the config.json of a text tower of transformers: local, built in, or from the Hub."""
    named = checkpoint.inside(folder, wanted, folder / checkpoint.OPEN_CLIP_CONFIG)
    for place in (named, folder / named.name, folder):
        config = place / "config.json"
        if config.is_file() and checkpoint.read_config(config).get("model_type") in arch_dict:
            return place
    # LAION's and NLLB-SigLIP's repositories hold weights, but no config.json of the text tower.
    published = checkpoint.encoder_config(wanted)
    if published is not None and wanted.partition("/")[0] in (named.name, "FacebookAI", "facebook"):
        (scratch / "config.json").write_text(json.dumps(published))
        return scratch
    return _fetched(folder, wanted, "config.json", lambda names: [n for n in names if n == "config.json"])


def _fetched(folder: Path, repo: str, what: str, choose: Callable[[Sequence[str]], list[str]]) -> Path:
    try:
        return checkpoint.fetch_model(repo, "", choose)[0]
    except BackboneUnavailable as error:
        message = f"{folder} has no {what} of its text tower, and that of {repo!r} is not available either: "
        raise BackboneUnavailable(message, *error.parts) from None
