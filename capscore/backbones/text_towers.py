"""Text towers that borrow an image tower: M-CLIP's, sentence-transformers', and capscore's own students.

All are an encoder of transformers, the mean of its tokens, and a linear map. A student is one that learned a
CLIP text tower's embeddings in other languages (`training/`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from ..errors import BackboneUnavailable, CapscoreError, Setting
from ..text.languages import language_code
from . import base, checkpoint, find
from .base import Backbone, BackboneOptions, Tokens
from .tokens import Piece, TextTokenizer, context_length, load_tokenizer, pad_id_of, position_limit

if TYPE_CHECKING:
    from PIL import Image
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

_MODULES = ["Transformer", "Pooling", "Dense"]
STUDENT_FORMAT = 1
_STUDENT_FIELDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("dim", "max_tokens"), (int,)),
    **dict.fromkeys(("image_tower", "prefix", "teacher"), (str,)),
    "languages": (list, type(None)),
    "logit_scale": (float, int, type(None)),
}


class TextTower(nn.Module):
    """An encoder of transformers without pooler → the mean of the tokens that are not masked → a linear map.

    Called with int64 (n, L) ids and mask (1 token, 0 padding), it gives (n, dim), not normalised. Texts have
    up to `max_tokens` tokens, special ones included; None for as many as encoder and tokenizer allow.
    """

    def __init__(
        self,
        encoder: Any,
        projection: nn.Linear,
        tokenizer: PreTrainedTokenizerBase,
        max_tokens: int | None = None,
    ):
        super().__init__()
        if max_tokens is None:
            max_tokens = context_length(encoder.config, encoder, tokenizer)
        allowed = position_limit(encoder.config, encoder)
        if max_tokens < 3 or (allowed is not None and max_tokens > allowed):
            problem = f": the encoder reads 3 to {allowed} tokens"
            raise CapscoreError(Setting("max_tokens", max_tokens), problem)
        if getattr(encoder, "pooler", None) is not None:
            encoder.pooler = None
        self.encoder, self.projection = encoder, projection
        self.tokenizer, self.max_tokens = tokenizer, max_tokens
        self.dim, self.config = projection.out_features, encoder.config

    def tokenize(self, texts: Sequence[str]) -> Tokens:
        """Texts → ids without padding, at most `max_tokens` each, and whether each text was cut."""
        return TextTokenizer(self.tokenizer, self.max_tokens).tokenize(texts)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        weights = attention_mask.unsqueeze(-1).float()
        mean = (hidden.float() * weights).sum(dim=1) / weights.sum(dim=1)
        return self.projection(mean.to(self.projection.weight.dtype))


class PairedBackbone(Backbone):
    """A `TextTower` (in float32) with the image tower of another backbone.

    Its `revision` names the weights of both towers, "text+image". If the image tower is not the one that the
    text tower was made for (by default the registry's), its name is also part of `name`. `settings` is the
    digest of the files that say how the text tower is used.
    """

    def __init__(
        self,
        text: TextTower,
        options: BackboneOptions,
        *,
        settings: str,
        made_for: str | None = None,
        logit_scale: float | None = None,
    ):
        from . import load_backbone  # which imports this module when a text tower is loaded

        known = find(options.name)
        made_for = (known.image_tower if known else "") if made_for is None else made_for
        spec = options.image_tower or made_for
        if not spec:
            raise CapscoreError(
                f"{options.name} is a text tower only; name an image tower for it (its embeddings have "
                f"{text.dim} numbers), such as ",
                Setting("image_tower", "ViT-B-32-quickgelu/openai"),
            )
        options.give_to(self)
        if isinstance(spec, str):
            image = load_backbone(spec, device=self.device, dtype=self.dtype)
            self.as_made = (find(spec) or spec) == (find(made_for) or made_for)
        else:
            image, spec, self.as_made = spec, "", False
        if text.dim != image.dim:
            raise CapscoreError(
                f"the towers do not share one space: {options.name} has {text.dim} numbers per text, "
                f"{image.name} has {image.dim} per image"
            )
        self.image_name, self.image_tower = image.name, "" if self.as_made else spec
        if not self.as_made:
            self.name += f"+{image.name}"
        self.dim, self.max_tokens = text.dim, text.max_tokens
        self.logit_scale = image.logit_scale if logit_scale is None else logit_scale
        self.w, self.has_feature_map = image.w, image.has_feature_map
        self._image, self._text, self._settings = image, text, settings
        self._identify(options.revision)
        self._pad_id = pad_id_of(text.tokenizer)
        text.to(self.device, self.torch_dtype).eval().requires_grad_(False)

    def _identify(self, revision: str) -> None:
        digest = base.fingerprint_of(base.weights_digest(self._text), self._settings)
        self.revision = f"{revision or 'w' + digest[:8]}+{self._image.revision}"
        self.fingerprint = base.fingerprint_of(
            "paired", digest, self.dtype, self.max_tokens, self._image.fingerprint
        )

    def preprocess(self, image: Image.Image) -> torch.Tensor:
        return self._image.preprocess(image)

    def encode_pixels(self, pixels: Sequence[torch.Tensor]) -> np.ndarray:
        return self._image.encode_pixels(pixels)

    def feature_maps(self, pixels: Sequence[torch.Tensor]) -> torch.Tensor:
        return self._image.feature_maps(pixels)

    def encode_maps(self, maps: torch.Tensor) -> np.ndarray:
        return self._image.encode_maps(maps)

    def encode_map_regions(self, maps: torch.Tensor, boxes: Sequence[np.ndarray]) -> np.ndarray:
        return self._image.encode_map_regions(maps, boxes)

    def tokenize(self, texts: Sequence[str]) -> Tokens:
        return self._text.tokenize(texts)

    def piece_spans(self, texts: Sequence[str]) -> list[list[Piece]]:
        return TextTokenizer(self._text.tokenizer, self.max_tokens).piece_spans(texts)

    def text_network(self) -> TextTower:
        return self._text

    def embed_tokens(self, ids: Sequence[Sequence[int]]) -> torch.Tensor:
        tokens, mask = base.pad_batch(ids, self._pad_id)
        features = self._text(tokens.to(self.device), mask.to(self.device))
        return base.unit_rows(features)


def _parts(
    folder: Path, config: PretrainedConfig, encoder_prefix: str, projection_prefix: str
) -> tuple[PreTrainedModel, nn.Linear]:
    """Encoder and projection from the weights of a folder, which begin with these prefixes."""
    parts: dict[str, dict[str, torch.Tensor]] = {encoder_prefix: {}, projection_prefix: {}}
    others = []
    for name, tensor in checkpoint.read_state_dict(folder).items():
        prefix = next(filter(name.startswith, parts), None)
        if prefix is None:
            others.append(name)
        else:
            parts[prefix][name.removeprefix(prefix)] = tensor
    checkpoint.refuse_misfit(folder, (), others)
    projection = _linear(folder, parts[projection_prefix])
    encoder = checkpoint.load_strictly(config, folder, parts[encoder_prefix], without_pooler=True)
    return encoder, projection


def _linear(folder: Path, state: dict[str, torch.Tensor]) -> nn.Linear:
    with checkpoint.refusing(f"the last layer in {folder}"):
        dim, width = state["weight"].shape
        layer = nn.Linear(width, dim, bias="bias" in state)
        layer.load_state_dict(state)
    return layer


def load_multilingual_clip(folder: Path, options: BackboneOptions) -> Backbone:
    """Load a Multilingual-CLIP text tower, and the image tower of another backbone.

    config.json has little more than the name of the encoder's architecture; for an encoder that is not built
    in, its own config is read from encoder_config.json.
    """
    from transformers import AutoConfig

    named, own = folder / "config.json", folder / "encoder_config.json"
    settings = checkpoint.read_config(named)
    model_base = str(settings.get("modelBase"))
    raw = checkpoint.read_config(own) if own.is_file() else checkpoint.encoder_config(model_base)
    if raw is None:
        known = ", ".join(sorted(checkpoint.encoder_configs()))
        raise CapscoreError(
            f"{named} names the encoder {model_base!r:.60}, which is not one of {known}: put that encoder's "
            f"config.json there as {own.name}"
        )
    with checkpoint.quietly_refusing(f"{own if own.is_file() else named}"):
        config = AutoConfig.for_model(**raw)
    encoder, projection = _parts(folder, config, "transformer.", "LinearTransformation.")
    sizes = {"numDims": projection.out_features, "transformerDimensions": projection.in_features}
    if any(settings.get(key, size) != size for key, size in sizes.items()):
        raise BackboneUnavailable(f"{named} does not fit the weights, which have {sizes}")
    tower = TextTower(encoder, projection, load_tokenizer(folder, config))
    return PairedBackbone(tower, options, settings=base.settings_digest(folder))


def read_student(folder: Path) -> tuple[TextTower, dict[str, Any]]:
    """The text tower in a student's folder, float32, on the CPU, in eval mode; and what its marker says."""
    marker = checkpoint.read_marker(folder / checkpoint.STUDENT_MARKER, STUDENT_FORMAT, _STUDENT_FIELDS)
    config = checkpoint.load_config(folder)
    encoder, projection = _parts(folder, config, "encoder.", "projection.")
    if projection.out_features != marker["dim"]:
        raise BackboneUnavailable(f"the weights in {folder} do not fit its dim of {marker['dim']}")
    tower = TextTower(encoder, projection, load_tokenizer(folder, config), marker["max_tokens"])
    return tower.eval(), marker


def load_student(folder: Path, options: BackboneOptions) -> Backbone:
    """Load a saved student; prefix, languages and image tower that the options leave out are its own."""
    tower, marker = read_student(folder)
    languages = options.languages
    if languages is None and marker["languages"] is not None:
        languages = frozenset(map(language_code, marker["languages"]))
    return PairedBackbone(
        tower,
        replace(options, prefix=options.prefix or marker["prefix"], languages=languages),
        settings=base.settings_digest(folder),
        made_for=marker["image_tower"],
        logit_scale=marker["logit_scale"],
    )


def load_sentence_transformers(folder: Path, options: BackboneOptions) -> Backbone:
    """Load a text tower of sentence-transformers: Transformer → Pooling (mean) → Dense without activation."""
    path = folder / "modules.json"
    listed = [(str(module["type"]), module["path"]) for module in checkpoint.read_config(path, list)]
    kinds = [kind.rpartition(".")[2] for kind, _ in listed if kind.startswith("sentence_transformers.")]
    if len(kinds) != len(listed) or kinds not in (_MODULES, [*_MODULES, "Normalize"]):
        raise CapscoreError(f"{path} lists {listed!r:.200}; expected {', '.join(_MODULES)} of the library")
    first, pooling, dense = (checkpoint.inside(folder, place, path) for _, place in listed[:3])
    pooled = checkpoint.read_config(pooling / "config.json")
    modes = [name.removeprefix("pooling_mode_") for name, value in pooled.items() if value is True]
    function = checkpoint.read_config(dense / "config.json").get("activation_function")
    if pooled.get("pooling_mode", "mean") != "mean" or not {*modes} <= {"mean_tokens", "include_prompt"}:
        raise CapscoreError(f"{pooling} pools by {pooled!r:.200}; expected the mean of the tokens")
    if function != "torch.nn.modules.linear.Identity":
        raise CapscoreError(f"{dense} has the activation {function!r:.80}; expected none (Identity)")
    about, prompts = (
        checkpoint.read_config(place) if place.is_file() else {}
        for place in (first / "sentence_bert_config.json", folder / "config_sentence_transformers.json")
    )
    prompt = prompts.get("prompts", {}).get(prompts.get("default_prompt_name"), "")
    if about.get("do_lower_case") or (prompt and not pooled.get("include_prompt", True)):
        raise CapscoreError(f"{folder} lower-cases texts, or leaves its prompt out: neither is supported")
    config = checkpoint.load_config(first)
    encoder = checkpoint.load_strictly(config, first, without_pooler=True)
    tokenizer = load_tokenizer(first, config)
    state = {
        name.removeprefix("linear."): tensor for name, tensor in checkpoint.read_state_dict(dense).items()
    }
    longest = context_length(config, encoder, tokenizer)
    max_tokens = min(about.get("max_seq_length") or longest, longest)
    tower = TextTower(encoder, _linear(dense, state), tokenizer, max_tokens)
    if prompt:
        options = replace(options, prefix=(options.prefix or "") + prompt)
    return PairedBackbone(tower, options, settings=base.settings_digest(folder))
