"""Loads models of transformers' CLIP family: CLIP, AltCLIP, Chinese-CLIP, SigLIP, SigLIP 2 and MetaCLIP 2."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import transformers
from tokenizers.normalizers import Lowercase

from ..errors import CapscoreError
from . import base
from .base import Backbone, BackboneOptions
from .checkpoint import load_config, load_strictly, quietly_refusing, read_config
from .clip_towers import ClipTowers, TextSide
from .tokens import TextTokenizer, context_length, load_tokenizer, pad_id_of

if TYPE_CHECKING:
    from PIL import Image
    from transformers import BaseImageProcessor, PreTrainedTokenizerBase

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
    kind = read_config(folder / "config.json").get("model_type", "")
    if kind not in _FAMILY:
        raise CapscoreError(
            f"{folder / 'config.json'} describes a model of type {kind!r:.60}; supported types are "
            f"{', '.join(_FAMILY)}, and code that comes with weights never runs"
        )
    config = load_config(folder)
    model = load_strictly(config, folder)
    tokenizer = load_tokenizer(folder, config)
    with quietly_refusing(f"the image processor in {folder}"):
        image_processor = transformers.AutoImageProcessor.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, **_TORCHVISION
        )
    return TransformersClip(model, tokenizer, image_processor, options, base.settings_digest(folder))


def _lower_case(text: str) -> str:
    return _LOWERCASE.normalize_str(text)


class TransformersClip(ClipTowers):
    """A model of transformers' CLIP family."""

    _tokenizer: TextTokenizer

    def __init__(
        self,
        model: Any,
        tokenizer: PreTrainedTokenizerBase,
        image_processor: BaseImageProcessor,
        options: BackboneOptions,
        settings: str,
    ):
        self._kind, self._settings = model.config.model_type, settings
        self._image_processor, self._pad_id = image_processor, pad_id_of(tokenizer)
        text_config = getattr(model.config, "text_config", model.config)
        # SigLIP's own tokenizer handles capitals itself.
        lowers = self._kind in _PADDED and type(tokenizer).__name__ != "SiglipTokenizer"
        max_tokens = context_length(text_config, model.text_model, tokenizer)
        if self._kind in _CAUSAL:
            _check_end_token(options.name, self._kind, tokenizer, text_config.eos_token_id)
        text = TextSide(model, ("text_model", "text_projection"))
        texts = TextTokenizer(tokenizer, max_tokens, _lower_case if lowers else str)
        super().__init__(model, text, texts, options)

    def _identify(self, revision: str) -> None:
        digest = base.fingerprint_of(base.weights_digest(self._model), self._settings)
        self.revision = revision or f"w{digest[:8]}"
        drop = ("_processor_class", "processor_class", "image_processor_type", "feature_extractor_type")
        settings = {key: value for key, value in self._image_processor.to_dict().items() if key not in drop}
        preprocessing = json.dumps(settings, sort_keys=True, default=str)
        self.fingerprint = base.fingerprint_of(
            "transformers_clip",
            digest,
            self.dtype,
            self.max_tokens,
            type(self._image_processor).__name__ + preprocessing,
        )

    def preprocess(self, image: Image.Image) -> torch.Tensor:
        """One RGB image → (3, height, width); for SigLIP 2 NaFlex → (patches + 1, values per patch)."""
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
        batch = torch.stack(list(pixels))
        inputs = {}
        if self._kind == "siglip2":
            shapes, batch = batch[:, 0, :2].long(), batch[:, 1:]
            mask = torch.arange(batch.shape[1]) < shapes.prod(dim=1, keepdim=True)
            inputs = {"spatial_shapes": shapes, "pixel_attention_mask": mask.int()}
        inputs["pixel_values"] = batch.to(self.torch_dtype)
        with base.exact_convolutions(self.dtype):
            return self._features(self._model.get_image_features, inputs)

    def token_features(self, ids: Sequence[Sequence[int]]) -> torch.Tensor:
        tokenizer = self._tokenizer.tokenizer
        masked, length, side = self._kind in _MASKED, None, "right"
        if self._kind in _PADDED:
            # SigLIP was trained without a mask, so its tokenizers do not list one among their outputs.
            masked = "attention_mask" in tokenizer.model_input_names
            length, side = self.max_tokens, tokenizer.padding_side
        tokens, mask = base.pad_batch(ids, self._pad_id, length, side)
        inputs = {"input_ids": tokens}
        if masked:
            inputs["attention_mask"] = mask
        return self._features(self._model.get_text_features, inputs)

    def _features(self, tower: Callable[..., Any], inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        found = tower(**{name: tensor.to(self.device) for name, tensor in inputs.items()})
        # transformers 4 returns the tensor, version 5 an output object that holds it
        return getattr(found, "pooler_output", found)


def _check_end_token(name: str, kind: str, tokenizer: PreTrainedTokenizerBase, pooled_id: int) -> None:
    # A causal tower is read out at its end token, or at the first token if it finds none: with the wrong id
    # every text would get the same embedding.
    ids = tokenizer(["a photo"])["input_ids"][0]
    if kind == "clip" and pooled_id == 2:  # old CLIP, read out at the highest id
        pooled_id = max(ids)
    if pooled_id not in ids[-1:] or ids.index(pooled_id) != len(ids) - 1:
        raise CapscoreError(
            f"{name}: the config reads texts out at {pooled_id}, but the tokenizer ends them with {ids[-1]} "
            f"(of {ids})"
        )
