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
    TrainableBackbone,
    architecture_digest,
    exact_convolutions,
    fingerprint_of,
    pad_batch,
    settings_digest,
    to_unit_rows,
    unit_rows,
    weights_digest,
)
from .checkpoint import (
    load_config,
    load_processor,
    load_strictly,
    load_with_report,
    read_json,
    refuse_misreport,
    weight_files,
)
from .tokens import (
    context_length,
    in_originals,
    load_tokenizer,
    pad_id_of,
    pad_to_length,
    piece_spans,
    tokenize_texts,
)

if TYPE_CHECKING:
    from PIL import Image


@dataclass(frozen=True)
class _Reading:
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
    "clip": _Reading(),
    "metaclip_2": _Reading(),
    "altclip": _Reading(masked=True),
    "chinese_clip": _Reading(masked=True),
    "siglip": _Reading(full=True, lowercase=True),
    "siglip2": _Reading(full=True, lowercase=True),
}
# A tower with its own code, of which nothing is known: always the same padding, and masked.
_FOREIGN = _Reading(masked=True, full=True)
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
    folder = Path(folder)
    if options.image_tower:
        raise CapscoreError(
            Setting("image_tower", options.image_tower),
            f" was given, but {options.name} has an image tower of its own",
        )
    kind, model, tokenizer = _load_model(folder, options.trust_remote_code)
    return TransformersClip(
        model,
        tokenizer,
        _load_image_processor(folder, options.trust_remote_code),
        options,
        kind=kind,
        settings=settings_digest(folder, code=options.trust_remote_code),
    )


def _load_model(folder: Path, trust_remote_code: bool) -> tuple[str, Any, Any]:
    """Kind ("" for foreign code), model in float32, tokenizer."""
    raw = read_json(folder / "config.json")
    kind = raw.get("model_type", "")
    if kind in _FAMILY:
        weight_files(folder)  # "file missing" is a clearer error than one about the config
        config = load_config(folder, f"a {kind!r} model")
        model = load_strictly(transformers.MODEL_MAPPING[type(config)], config, folder)
        return kind, model, load_tokenizer(folder, config)

    if not raw.get("auto_map"):
        raise CapscoreError(
            f"{folder / 'config.json'} describes a model of type {kind!r:.60}; "
            f"supported types are {', '.join(sorted(_FAMILY))}"
        )
    if not trust_remote_code:
        raise CapscoreError(
            f"{folder} contains code ({raw['auto_map']}), which runs only with ",
            Setting("trust_remote_code", True),
            ": set it if you have read that code and trust it",
        )
    model = _load_foreign(folder)
    return "", model, load_tokenizer(folder, model.config, trust_remote_code=True)


def _load_foreign(folder: Path) -> Any:
    model, report = load_with_report(transformers.AutoModel, folder, trust_remote_code=True)
    refuse_misreport(folder, report)
    absent = [method for method in ("get_text_features", "get_image_features") if not hasattr(model, method)]
    if absent:
        raise CapscoreError(f"{type(model).__name__} in {folder} has no {' and no '.join(absent)}")
    return model.eval()


def _load_image_processor(folder: Path, trust_remote_code: bool) -> Any:
    if not any((folder / file).is_file() for file in ("preprocessor_config.json", "processor_config.json")):
        raise BackboneUnavailable(
            f"{folder} has no preprocessor_config.json, which describes the input of its image tower"
        )
    return load_processor(
        transformers.AutoImageProcessor,
        folder,
        "image processor",
        trust_remote_code=trust_remote_code,
        **_TORCHVISION,
    )


class TransformersClip(TrainableBackbone):
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
        self._kind, self._reading = kind, _FAMILY.get(kind, _FOREIGN)
        self._tokenizer, self._image_processor = tokenizer, image_processor
        self._pad_id = pad_id_of(tokenizer)
        self._model, self._settings = model, settings
        text_config = getattr(model.config, "text_config", model.config)
        self.name, self.prefix, self.languages = options.name, options.prefix, options.languages
        self.device, self.dtype = options.device, options.dtype
        self.max_tokens = context_length(text_config, getattr(model, "text_model", model), tokenizer)
        self.logit_scale = (
            float(model.logit_scale.detach().float().exp()) if hasattr(model, "logit_scale") else 1.0
        )
        if kind in _CAUSAL:
            self._check_end_token(text_config.eos_token_id)
        self._identify(options.revision)
        self._model = (
            model.to(device=self.device, dtype=getattr(torch, self.dtype)).eval().requires_grad_(False)
        )
        self._text = _TextSide(self._model) if kind else None
        with torch.inference_mode():
            self.dim = self._text_features(self.tokenize(["a photo"]).ids).shape[1]

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

    def text_network(self) -> nn.Module:
        if self._text is None:
            raise CapscoreError(
                f"the backbone {self.name!r} cannot be fine-tuned: it runs its own code, so capscore cannot "
                "tell which of its weights belong to the text tower"
            )
        return self._text

    def text_settings(self) -> tuple[Any, ...]:
        return getattr(self._model.config, "text_config", self._model.config), self._tokenizer

    def _check_end_token(self, pooled_id: int) -> None:
        # A causal tower is read out at its end token, or at the first token if it finds none: with the
        # wrong id every text would get the same embedding.
        ids = self._tokenizer(["a photo"])["input_ids"][0]
        legacy = self._kind == "clip" and pooled_id == 2  # read out at the highest id
        where = ids.index(max(ids)) if legacy else ids.index(pooled_id) if pooled_id in ids else -1
        if where != len(ids) - 1:
            raise CapscoreError(
                f"{self.name}: the config reads texts out at {'the highest id' if legacy else pooled_id}, but"
                f" the tokenizer ends them with {ids[-1]} (of {ids})"
            )

    def _describe_preprocessing(self) -> str:
        settings = self._image_processor.to_dict()
        drop = ("_processor_class", "processor_class", "image_processor_type", "feature_extractor_type")
        settings = {key: value for key, value in settings.items() if key not in drop}
        return type(self._image_processor).__name__ + json.dumps(settings, sort_keys=True, default=str)

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

    def encode_pixels(self, pixels: Sequence[torch.Tensor]) -> np.ndarray:
        return to_unit_rows(self._image_features(pixels))

    def pixel_features(self, pixels: Sequence[torch.Tensor]) -> np.ndarray:
        return self._image_features(pixels).float().cpu().numpy()

    def network(self) -> nn.Module:
        if self._text is None:
            raise self._no_network()
        return self._model

    def embed_pixels(self, pixels: Sequence[torch.Tensor]) -> torch.Tensor:
        return unit_rows(self._features_of(pixels))

    @torch.inference_mode()
    def _image_features(self, pixels: Sequence[torch.Tensor]) -> torch.Tensor:
        return self._features_of(pixels)

    def _features_of(self, pixels: Sequence[torch.Tensor]) -> torch.Tensor:
        if not len(pixels):
            return torch.zeros(0, self.dim, device=self.device)
        batch = torch.stack(list(pixels))
        inputs: dict[str, torch.Tensor] = {}
        if self._kind == "siglip2":
            shapes, batch = batch[:, 0, :2].long(), batch[:, 1:]
            patches = torch.arange(batch.shape[1])
            inputs["spatial_shapes"] = shapes.to(self.device)
            inputs["pixel_attention_mask"] = (
                (patches < shapes.prod(dim=1, keepdim=True)).int().to(self.device)
            )
        inputs["pixel_values"] = batch.to(self.device, getattr(torch, self.dtype))
        with exact_convolutions(self.dtype):
            return _tensor(self._model.get_image_features(**inputs))

    def tokenize(self, texts: Sequence[str]) -> Tokens:
        return tokenize_texts(self._tokenizer, self._as_read(texts), self.max_tokens)

    def _as_read(self, texts: Sequence[str]) -> Sequence[str]:
        # SigLIP's own tokenizer handles capitals itself.
        if self._reading.lowercase and type(self._tokenizer).__name__ != "SiglipTokenizer":
            return [_LOWERCASE.normalize_str(text) for text in texts]
        return texts

    def piece_spans(self, texts: Sequence[str]) -> list[list[tuple[int, int, int]]]:
        read = self._as_read(texts)
        return in_originals(texts, read, piece_spans(self._tokenizer, read))

    def embed_tokens(self, ids: Sequence[Sequence[int]]) -> torch.Tensor:
        if not len(ids):
            return torch.zeros(0, self.dim, device=self.device)
        return unit_rows(self._text_features(ids))

    def token_features(self, ids: Sequence[Sequence[int]]) -> np.ndarray:
        if not len(ids):
            return np.zeros((0, self.dim), np.float32)
        with torch.inference_mode():
            return self._text_features(ids).float().cpu().numpy()

    def _text_features(self, ids: Sequence[Sequence[int]]) -> torch.Tensor:
        masked = self._reading.masked
        if self._reading.full:
            # SigLIP was trained without a mask, so its tokenizers do not list one among their outputs.
            masked = masked or "attention_mask" in self._tokenizer.model_input_names
            tokens, mask = pad_to_length(ids, self._pad_id, self.max_tokens, self._tokenizer.padding_side)
        else:
            tokens, mask = pad_batch(ids, self._pad_id)
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
