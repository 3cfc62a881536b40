"""Loads models of transformers' CLIP family: CLIP, AltCLIP, Chinese-CLIP, SigLIP, SigLIP 2 and MetaCLIP 2."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import transformers
from tokenizers.normalizers import Lowercase
from torch import nn

from ..errors import CapscoreError
from . import base
from .base import Backbone, BackboneOptions, Tokens
from .checkpoint import load_config, load_strictly, read_json, refusing
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


# Types of models whose text tower is read out at the end token, before the padding; attends in both
# directions, so that padding is masked; was trained on lower-cased texts that fill the whole context.
_CAUSAL = ("clip", "metaclip_2")
_MASKED = ("altclip", "chinese_clip")
_PADDED = ("siglip", "siglip2")
_FAMILY = sorted((*_CAUSAL, *_MASKED, *_PADDED))
# SigLIP 2 was trained on lower-cased texts, but its checkpoints name Gemma's tokenizer, which keeps capitals.
# transformers' own Siglip2Tokenizer lower-cases first, too.
_LOWERCASE = Lowercase()
# Image processors with torchvision and with PIL differ by up to one level of 255, and versions of
# transformers have different defaults: torchvision's is taken, which version 4 has under another name.
_TORCHVISION = {"use_fast": True} if transformers.__version__.startswith("4.") else {"backend": "torchvision"}


def load_folder(folder: Path, options: BackboneOptions) -> Backbone:
    """Load a checkpoint folder of the family, with model, tokenizer and preprocessor_config.json."""
    options.refuse_image_tower()
    kind = read_json(folder / "config.json").get("model_type", "")
    if kind not in _FAMILY:
        raise CapscoreError(
            f"{folder / 'config.json'} describes a model of type {kind!r:.60}; supported types are "
            f"{', '.join(_FAMILY)}, and code that comes with weights never runs"
        )
    config = load_config(folder)
    model = load_strictly(transformers.MODEL_MAPPING[type(config)], config, folder)
    tokenizer = load_tokenizer(folder, config)
    with refusing(f"the image processor in {folder}"):
        image_processor = transformers.AutoImageProcessor.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, **_TORCHVISION
        )
    settings = base.settings_digest(folder)
    return TransformersClip(model, tokenizer, image_processor, options, kind, settings)


class TransformersClip(Backbone):
    """A model of transformers' CLIP family, in float32.

    `kind` is its `model_type`, `settings` the digest of the files that say how the weights are used.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        image_processor: Any,
        options: BackboneOptions,
        kind: str,
        settings: str,
    ):
        self._kind = kind
        self._tokenizer, self._image_processor = tokenizer, image_processor
        self._pad_id = pad_id_of(tokenizer)
        self._model, self._settings = model, settings
        text_config = getattr(model.config, "text_config", model.config)
        self.name, self.prefix, self.languages = options.name, options.prefix, options.languages
        self.device, self.dtype = options.device, options.dtype
        self.max_tokens = context_length(text_config, model.text_model, tokenizer)
        scale = getattr(model, "logit_scale", None)
        self.logit_scale = 1.0 if scale is None else float(scale.detach().float().exp())
        if kind in _CAUSAL:
            self._check_end_token(text_config.eos_token_id)
        self._identify(options.revision)
        self._model = model.to(self.device, getattr(torch, self.dtype)).eval().requires_grad_(False)
        self._text = _TextSide(model)
        with torch.inference_mode():
            self.dim = self.token_features(self.tokenize(["a photo"]).ids).shape[1]

    def _identify(self, revision: str) -> None:
        digest = base.fingerprint_of(base.weights_digest(self._model), self._settings)
        self.revision = revision or f"w{digest[:8]}"
        drop = ("_processor_class", "processor_class", "image_processor_type", "feature_extractor_type")
        settings = {key: value for key, value in self._image_processor.to_dict().items() if key not in drop}
        preprocessing = json.dumps(settings, sort_keys=True, default=str)
        self.fingerprint = base.fingerprint_of(
            "transformers_clip",
            digest,
            base.architecture_digest(self._model),
            self.dtype,
            self.max_tokens,
            type(self._image_processor).__name__ + preprocessing,
        )

    def _check_end_token(self, pooled_id: int) -> None:
        # A causal tower is read out at its end token, or at the first token if it finds none: with the
        # wrong id every text would get the same embedding.
        ids = self._tokenizer(["a photo"])["input_ids"][0]
        if self._kind == "clip" and pooled_id == 2:  # old CLIP, read out at the highest id
            pooled_id = max(ids)
        if pooled_id not in ids[-1:] or ids.index(pooled_id) != len(ids) - 1:
            raise CapscoreError(
                f"{self.name}: the config reads texts out at {pooled_id}, but the tokenizer ends them with "
                f"{ids[-1]} (of {ids})"
            )

    def text_network(self) -> nn.Module:
        return self._text

    def network(self) -> nn.Module:
        return self._model

    def preprocess(self, image: Image.Image) -> torch.Tensor:
        """One RGB image → (3, height, width); for SigLIP 2 NaFlex → (patches + 1, values per patch).

        The first row of the latter begins with height and width in patches.
        """
        # With an explicit layout: some processors mistake an image 3 pixels high for channels first.
        layout = {"input_data_format": "channels_last", "return_tensors": "pt"}
        batch = self._image_processor(images=np.array(image), **layout)
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
        with base.exact_convolutions(self.dtype):
            return _tensor(self._model.get_image_features(**inputs))

    def tokenize(self, texts: Sequence[str]) -> Tokens:
        return tokenize_texts(self._tokenizer, self._cased(texts), self.max_tokens)

    def piece_spans(self, texts: Sequence[str]) -> list[list[Piece]]:
        cased = self._cased(texts)
        return in_originals(texts, cased, piece_spans(self._tokenizer, cased))

    def _cased(self, texts: Sequence[str]) -> Sequence[str]:
        # SigLIP's own tokenizer handles capitals itself.
        if self._kind in _PADDED and type(self._tokenizer).__name__ != "SiglipTokenizer":
            return [_LOWERCASE.normalize_str(text) for text in texts]
        return texts

    def token_features(self, ids: Sequence[Sequence[int]]) -> torch.Tensor:
        if not len(ids):
            return torch.zeros(0, self.dim, device=self.device)
        masked, length, side = self._kind in _MASKED, None, "right"
        if self._kind in _PADDED:
            # SigLIP was trained without a mask, so its tokenizers do not list one among their outputs.
            masked = "attention_mask" in self._tokenizer.model_input_names
            length, side = self.max_tokens, self._tokenizer.padding_side
        tokens, mask = base.pad_batch(ids, self._pad_id, length, side)
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
