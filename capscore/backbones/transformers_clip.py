"""Loads models of transformers' CLIP family: CLIP, AltCLIP, Chinese-CLIP, SigLIP, SigLIP 2 and MetaCLIP 2.

In: a checkpoint folder. Out: a `Backbone` with both of its towers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import transformers
from tokenizers.normalizers import Lowercase
from torch import nn

from ..errors import BackboneUnavailable, CapscoreError, Setting
from .base import (
    Backbone,
    LoadOptions,
    Tokens,
    architecture_digest,
    exact_convolutions,
    fingerprint_of,
    pad_batch,
    settings_digest,
    weights_digest,
)
from .checkpoint import load_config, load_folder_strictly, load_strictly, read_json, refusing
from .tokens import (
    Piece,
    context_length,
    in_originals,
    load_tokenizer,
    pad_id_of,
    piece_spans,
    tokenize_texts,
)

if TYPE_CHECKING:
    from PIL import Image


@dataclass(frozen=True)
class _TextInput:
    """How a kind of text tower reads a batch.

    Attributes:
        masked: Whether it attends in both directions, so that padding must be masked. A causal tower pools
            at the end token, before the padding.
        full: Whether it was trained on texts padded to the whole context, and reads the padding.
        lowercase: Whether it was trained on lower-cased texts.
    """

    masked: bool = False
    full: bool = False
    lowercase: bool = False


_FAMILY = {
    "clip": _TextInput(),
    "metaclip_2": _TextInput(),
    "altclip": _TextInput(masked=True),
    "chinese_clip": _TextInput(masked=True),
    "siglip": _TextInput(full=True, lowercase=True),
    "siglip2": _TextInput(full=True, lowercase=True),
}
# A tower with its own code, of which nothing is known: always the same padding, and masked.
_FOREIGN = _TextInput(masked=True, full=True)
_CAUSAL = ("clip", "metaclip_2")
# SigLIP 2 was trained on lower-cased texts, but its checkpoints name Gemma's tokenizer, which keeps capitals.
# transformers' own Siglip2Tokenizer lower-cases first, too.
_LOWERCASE = Lowercase()
# There are two implementations of image processors, with torchvision and with PIL, whose results differ by up
# to one level of 255, and versions of transformers have different defaults. torchvision's is the usual
# default of version 5, and version 4 has it under another name. The class is part of the fingerprint.
_TORCHVISION = {"use_fast": True} if transformers.__version__.startswith("4.") else {"backend": "torchvision"}


def load_folder(folder: Path, options: LoadOptions) -> Backbone:
    """Load a checkpoint folder of the family.

    Args:
        folder: Folder with config.json, model.safetensors (or pytorch_model.bin), a tokenizer and
            preprocessor_config.json.
        options: Options of the backbone, without an image tower: these checkpoints have their own.

    Raises:
        BackboneUnavailable: a file is missing or damaged, or the weights do not fit the config.
        CapscoreError: another kind of model, or one whose code is not trusted.
    """
    if options.image_tower:
        raise CapscoreError(
            Setting("image_tower", options.image_tower), f": {options.name} has an image tower of its own"
        )
    trusted = options.trust_remote_code
    raw = read_json(folder / "config.json")
    kind = raw.get("model_type", "")
    if isinstance(kind, str) and kind in _FAMILY:
        config = load_config(folder)
        model = load_strictly(transformers.MODEL_MAPPING[type(config)], config, folder)
    elif not raw.get("auto_map"):
        raise CapscoreError(
            f"{folder / 'config.json'} describes a model of type {kind!r:.60}; "
            f"supported types are {', '.join(sorted(_FAMILY))}"
        )
    elif not trusted:
        raise CapscoreError(
            f"{folder} contains code ({raw['auto_map']}), which runs only with ",
            Setting("trust_remote_code", True),
            ": set it if you have read that code and trust it",
        )
    else:
        kind = ""
        model = load_folder_strictly(transformers.AutoModel, folder, trust_remote_code=True)
        for method in ("get_text_features", "get_image_features"):
            if not hasattr(model, method):
                raise CapscoreError(f"{type(model).__name__} in {folder} has no {method}")
    tokenizer = load_tokenizer(folder, model.config, trust_remote_code=trusted and not kind)
    if not any((folder / file).is_file() for file in ("preprocessor_config.json", "processor_config.json")):
        raise BackboneUnavailable(
            f"{folder} has no preprocessor_config.json, which describes the input of its image tower"
        )
    with refusing(f"the image processor in {folder}"):
        image_processor = transformers.AutoImageProcessor.from_pretrained(
            folder, local_files_only=True, trust_remote_code=trusted, **_TORCHVISION
        )
    settings = settings_digest(folder, code=trusted)
    return TransformersClip(model, tokenizer, image_processor, options, kind=kind, settings=settings)


class TransformersClip(Backbone):
    """A model of transformers with `get_text_features` and `get_image_features`.

    Args:
        model: Model in float32.
        tokenizer: Tokenizer of the model.
        image_processor: Image processor of the model, with torchvision or PIL.
        options: Options of the backbone.
        kind: `model_type` of the model; "" for one with its own code.
        settings: Digest of the files that say how the weights are used.

    Raises:
        CapscoreError: tokenizer and text tower disagree about the token that ends a text.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        image_processor: Any,
        options: LoadOptions,
        *,
        kind: str,
        settings: str,
    ):
        self._kind, self._text_input = kind, _FAMILY.get(kind, _FOREIGN)
        self._tokenizer, self._image_processor = tokenizer, image_processor
        self._pad_id = pad_id_of(tokenizer)
        self._model, self._settings = model, settings
        text_config = getattr(model.config, "text_config", model.config)
        self.name, self.prefix, self.languages = options.name, options.prefix, options.languages
        self.device, self.dtype = options.device, options.dtype
        self.max_tokens = context_length(text_config, getattr(model, "text_model", model), tokenizer)
        scale = getattr(model, "logit_scale", None)
        self.logit_scale = 1.0 if scale is None else float(scale.detach().float().exp())
        if kind in _CAUSAL:
            self._check_end_token(text_config.eos_token_id)
        self._identify(options.revision)
        model = model.to(device=self.device, dtype=getattr(torch, self.dtype)).eval().requires_grad_(False)
        self._model, self._text = model, _TextSide(model) if kind else None
        with torch.inference_mode():
            self.dim = self.token_features(self.tokenize(["a photo"]).ids).shape[1]

    def _identify(self, revision: str) -> None:
        digest = fingerprint_of(weights_digest(self._model), self._settings)
        self.revision = revision or f"w{digest[:8]}"
        self.fingerprint = fingerprint_of(
            "transformers_clip",
            digest,
            architecture_digest(self._model),
            self.dtype,
            self.max_tokens,
            self._describe_preprocessing(),
        )

    def _describe_preprocessing(self) -> str:
        drop = ("_processor_class", "processor_class", "image_processor_type", "feature_extractor_type")
        settings = {key: value for key, value in self._image_processor.to_dict().items() if key not in drop}
        return type(self._image_processor).__name__ + json.dumps(settings, sort_keys=True, default=str)

    def _check_end_token(self, pooled_id: int) -> None:
        # A causal tower is read out at its end token, or at the first token if it finds none: with the
        # wrong id every text would get the same embedding.
        ids = self._tokenizer(["a photo"])["input_ids"][0]
        legacy = self._kind == "clip" and pooled_id == 2  # read out at the highest id
        index = ids.index(max(ids)) if legacy else ids.index(pooled_id) if pooled_id in ids else -1
        if index != len(ids) - 1:
            raise CapscoreError(
                f"{self.name}: the config reads texts out at {'the highest id' if legacy else pooled_id}, but"
                f" the tokenizer ends them with {ids[-1]} (of {ids})"
            )

    def text_network(self) -> nn.Module:
        if (
            self._text is None
        ):  # it runs its own code: which of its weights belong to the text tower is unknown
            return super().text_network()
        return self._text

    def network(self) -> nn.Module:
        return super().network() if self._text is None else self._model

    def text_settings(self) -> tuple[Any, ...]:
        return getattr(self._model.config, "text_config", self._model.config), self._tokenizer

    def preprocess(self, image: Image.Image) -> torch.Tensor:
        """One RGB image → (3, height, width); for SigLIP 2 NaFlex → (patches + 1, values per patch).

        The first row of the latter begins with height and width in patches.
        """
        # With an explicit layout: some processors mistake an image 3 pixels high for channels first.
        batch = self._image_processor(
            images=np.array(image), input_data_format="channels_last", return_tensors="pt"
        )
        pixels = batch["pixel_values"][0].float()
        if "spatial_shapes" not in batch:
            return pixels
        head = torch.zeros(1, pixels.shape[1])
        head[0, :2] = batch["spatial_shapes"][0]
        return torch.cat([head, pixels])

    def pixel_features(self, pixels: Sequence[torch.Tensor]) -> torch.Tensor:
        if not len(pixels):
            return torch.zeros(0, self.dim, device=self.device)
        batch = torch.stack(list(pixels))
        inputs: dict[str, torch.Tensor] = {}
        if self._kind == "siglip2":
            shapes, batch = batch[:, 0, :2].long(), batch[:, 1:]
            mask = torch.arange(batch.shape[1]) < shapes.prod(dim=1, keepdim=True)
            inputs["spatial_shapes"] = shapes.to(self.device)
            inputs["pixel_attention_mask"] = mask.int().to(self.device)
        inputs["pixel_values"] = batch.to(self.device, getattr(torch, self.dtype))
        with exact_convolutions(self.dtype):
            return _tensor(self._model.get_image_features(**inputs))

    def tokenize(self, texts: Sequence[str]) -> Tokens:
        return tokenize_texts(self._tokenizer, self._cased(texts), self.max_tokens)

    def piece_spans(self, texts: Sequence[str]) -> list[list[Piece]]:
        cased = self._cased(texts)
        return in_originals(texts, cased, piece_spans(self._tokenizer, cased))

    def _cased(self, texts: Sequence[str]) -> Sequence[str]:
        # SigLIP's own tokenizer handles capitals itself.
        if self._text_input.lowercase and type(self._tokenizer).__name__ != "SiglipTokenizer":
            return [_LOWERCASE.normalize_str(text) for text in texts]
        return texts

    def token_features(self, ids: Sequence[Sequence[int]]) -> torch.Tensor:
        if not len(ids):
            return torch.zeros(0, self.dim, device=self.device)
        masked, length, side = self._text_input.masked, None, "right"
        if self._text_input.full:
            # SigLIP was trained without a mask, so its tokenizers do not list one among their outputs.
            masked = masked or "attention_mask" in self._tokenizer.model_input_names
            length, side = self.max_tokens, self._tokenizer.padding_side
        tokens, mask = pad_batch(ids, self._pad_id, length, side)
        inputs = {"input_ids": tokens.to(self.device)}
        if masked:
            inputs["attention_mask"] = mask.to(self.device)
        return _tensor(self._model.get_text_features(**inputs))


class _TextSide(nn.Module):
    """The text tower of a model and its projection, if there is one."""

    def __init__(self, model: Any):
        super().__init__()
        self.text_model = model.text_model
        self.text_projection = getattr(model, "text_projection", None)


def _tensor(features: Any) -> torch.Tensor:
    # transformers 4 returns the tensor, version 5 an output object that holds it.
    return features if isinstance(features, torch.Tensor) else features.pooler_output
