"""Text towers that borrow an image tower: M-CLIP's, sentence-transformers', and capscore's own students.

In: a checkpoint folder, and an image tower. Out: a `Backbone` with the image tower of another backbone. A
student is a text tower that learned a CLIP text tower's embeddings in other languages (`training/`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from ..errors import BackboneUnavailable, CapscoreError, MissingExtraError, Setting
from ..text.languages import language_code
from . import base, checkpoint, find
from .base import Backbone, LoadOptions, Tokens
from .tokens import (
    Piece,
    context_length,
    load_tokenizer,
    pad_id_of,
    piece_spans,
    position_limit,
    require_vocabulary,
    tokenize_texts,
)

if TYPE_CHECKING:
    from PIL import Image

# Modules of sentence-transformers that may follow the first one; they read only embeddings and the mask.
_AFTER_TRANSFORMER = ("Pooling", "Dense", "Normalize", "LayerNorm")
_STUDENT_FORMAT = 1
_STUDENT_FIELDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("dim", "max_tokens"), (int,)),
    **dict.fromkeys(("image_tower", "prefix", "teacher"), (str,)),
    "languages": (list, type(None)),
    "logit_scale": (float, int, type(None)),
}
_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
_ROBERTA = {
    "model_type": "roberta",
    "vocab_size": 50265,
    "max_position_embeddings": 514,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
}
_XLM_ROBERTA = {**_ROBERTA, "model_type": "xlm-roberta", "vocab_size": 250002}
# open_clip keeps the encoder of these translators and drops the decoder, which is not built to begin with
_NLLB = {"model_type": "m2m_100", "vocab_size": 256206, "decoder_layers": 0}
# Published shapes; everything else is transformers' default. Encoders are checked against the weights.
_ENCODERS: dict[str, dict[str, Any]] = {
    "roberta-base": _ROBERTA,
    "xlm-roberta-base": _XLM_ROBERTA,
    "xlm-roberta-large": {**_XLM_ROBERTA, **_LARGE},
    "labse": {"model_type": "bert", "vocab_size": 501153},
    "bert-base-multilingual-cased": {"model_type": "bert", "vocab_size": 119547},
    "bert-base-multilingual-uncased": {"model_type": "bert", "vocab_size": 105879},
    "distilbert-base-multilingual-cased": {"model_type": "distilbert", "vocab_size": 119547},
    "nllb-200-distilled-600m": _NLLB,
    "nllb-200-distilled-1.3b": {**_NLLB, "encoder_layers": 24, "encoder_ffn_dim": 8192},
}


def encoder_config(name: str) -> dict[str, Any] | None:
    """Config of a published text encoder, by the last part of its Hub id, in any case; None if unknown."""
    return _ENCODERS.get(name.rpartition("/")[2].lower())


class TextTower(nn.Module):
    """A text tower that reads masked batches, so that padding does not change an embedding.

    Called with int64 (n, L) ids and mask (1 token, 0 padding), it gives (n, dim), not normalised. `tokenizer`
    is one of transformers.
    """

    tokenizer: Any
    dim: int
    max_tokens: int
    config: Any

    def tokenize(self, texts: Sequence[str]) -> Tokens:
        """Texts → ids without padding, at most `max_tokens` each, and whether each text was cut."""
        return tokenize_texts(self.tokenizer, texts, self.max_tokens)


class PairedBackbone(Backbone):
    """A `TextTower` (in float32) with the image tower of another backbone.

    Its `revision` names the weights of both towers, "text+image", since a score depends on both. If the image
    tower is not the one that the text tower was made for (by default the registry's), its name is also part
    of `name`. `settings` is the digest of the files that say how the text tower is used.

    Attributes:
        image_name: Name of the image tower's backbone.
        image_tower: Spec of the image tower for `load_backbone`; "" for the one that the text tower was made
            for, and if a backbone was given.
        as_made: Whether the image tower is the one that the text tower was made for.
    """

    def __init__(
        self,
        text: TextTower,
        options: LoadOptions,
        *,
        settings: str,
        made_for: str | None = None,
        logit_scale: float | None = None,
    ):
        if made_for is None:
            known = find(options.name)
            made_for = known.image_tower if known else ""
        image_tower = options.image_tower or made_for
        if not image_tower:
            raise CapscoreError(
                f"{options.name} is a text tower only; name an image tower for it (its embeddings have "
                f"{text.dim} numbers), such as ",
                Setting("image_tower", "ViT-B-32-quickgelu/openai"),
            )
        self.device, self.dtype = options.device, options.dtype
        image, spec = image_tower, ""
        if isinstance(image, str):
            spec = image
            image = options.load_backbone(spec, device=self.device, dtype=self.dtype)
        if text.dim != image.dim:
            raise CapscoreError(
                f"the towers do not share one space: {options.name} has {text.dim} numbers per text, "
                f"{image.name} has {image.dim} per image"
            )
        self.as_made = bool(spec) and (find(spec) or spec) == (find(made_for) or made_for)
        self.image_name, self.image_tower = image.name, "" if self.as_made else spec
        self.name = options.name if self.as_made else f"{options.name}+{image.name}"
        self.dim, self.prefix, self.languages = text.dim, options.prefix, options.languages
        self.max_tokens = text.max_tokens
        self.logit_scale = image.logit_scale if logit_scale is None else logit_scale
        self.w, self.has_feature_map = image.w, image.has_feature_map
        self._image, self._text, self._settings = image, text, settings
        self._identify(options.revision)
        self._pad_id = pad_id_of(text.tokenizer)
        self._text = text.to(self.device, getattr(torch, self.dtype)).eval().requires_grad_(False)

    def _identify(self, revision: str) -> None:
        digest = base.fingerprint_of(base.weights_digest(self._text), self._settings)
        architecture = base.architecture_digest(self._text)
        self.revision = f"{revision or 'w' + digest[:8]}+{self._image.revision}"
        self.fingerprint = base.fingerprint_of(
            "paired", digest, architecture, self.dtype, self.max_tokens, self._image.fingerprint
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
        return piece_spans(self._text.tokenizer, texts)

    def text_network(self) -> TextTower:
        return self._text

    def embed_tokens(self, ids: Sequence[Sequence[int]]) -> torch.Tensor:
        if not len(ids):
            return torch.zeros(0, self.dim, device=self.device)
        tokens, mask = base.pad_batch(ids, self._pad_id)
        features = self._text(tokens.to(self.device), mask.to(self.device))
        return nn.functional.normalize(features.float(), dim=-1)


class MeanPooledTower(TextTower):
    """A transformers encoder without pooler, the attention-masked mean of its tokens, a Linear with bias."""

    def __init__(self, encoder: Any, projection: nn.Linear, tokenizer: Any, max_tokens: int):
        super().__init__()
        if getattr(encoder, "pooler", None) is not None:
            encoder.pooler = None
        self.encoder, self.projection = encoder, projection
        self.tokenizer, self.max_tokens = tokenizer, max_tokens
        self.dim, self.config = projection.out_features, encoder.config

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        weights = attention_mask.unsqueeze(-1).float()
        mean = (hidden.float() * weights).sum(dim=1) / weights.sum(dim=1)
        return self.projection(mean.to(self.projection.weight.dtype))


def _encoder_and_projection(
    folder: Path, config: Any, encoder_prefix: str, projection_prefix: str
) -> tuple[Any, nn.Linear]:
    """Encoder and projection from the weights of a folder, which begin with these prefixes."""
    import transformers

    state = checkpoint.read_state_dict(folder)
    parts: dict[str, dict[str, torch.Tensor]] = {encoder_prefix: {}, projection_prefix: {}}
    others = []
    for name, tensor in state.items():
        prefix = next(filter(name.startswith, parts), None)
        if prefix is None:
            others.append(name)
        else:
            parts[prefix][name.removeprefix(prefix)] = tensor
    checkpoint.refuse_misfit(folder, (), others)
    encoder = checkpoint.load_strictly(
        transformers.MODEL_MAPPING[type(config)], config, folder, parts[encoder_prefix], without_pooler=True
    )
    with checkpoint.refusing(f"{projection_prefix}weight and bias in {folder}"):
        weights = parts[projection_prefix]
        projection = nn.Linear(config.hidden_size, len(weights["bias"]))
        projection.load_state_dict(weights)
    return encoder, projection


def load_multilingual_clip(folder: Path, options: LoadOptions) -> Backbone:
    """Load a Multilingual-CLIP text tower, and the image tower of another backbone.

    config.json has little more than the name of the encoder's architecture; for an encoder that is not built
    in, its own config is read from encoder_config.json.
    """
    from transformers import AutoConfig

    named, own = folder / "config.json", folder / "encoder_config.json"
    settings = checkpoint.read_json(named)
    model_base = str(settings.get("modelBase"))
    raw = checkpoint.read_json(own) if own.is_file() else encoder_config(model_base)
    if raw is None:
        raise CapscoreError(
            f"{named} names the encoder {model_base!r:.60}, which is not one of "
            f"{', '.join(sorted(_ENCODERS))}: put that encoder's config.json there as {own.name}"
        )
    with checkpoint.refusing(f"{own if own.is_file() else named}"):
        config = AutoConfig.for_model(**raw)
    encoder, projection = _encoder_and_projection(folder, config, "transformer.", "LinearTransformation.")
    sizes = {"numDims": projection.out_features, "transformerDimensions": projection.in_features}
    if any(settings.get(key, size) != size for key, size in sizes.items()):
        raise BackboneUnavailable(f"{named} does not fit the weights, which have {sizes}")
    tokenizer = load_tokenizer(folder, config)
    return PairedBackbone(
        MeanPooledTower(encoder, projection, tokenizer, context_length(config, encoder, tokenizer)),
        options,
        settings=base.settings_digest(folder),
    )


class StudentTextTower(MeanPooledTower):
    """A transformers encoder → attention-masked mean over all tokens → Linear(hidden, dim), not normalised.

    Args:
        encoder: Model from `transformers.AutoModel`.
        tokenizer: Tokenizer of the encoder.
        dim: Length of the teacher's embeddings.
        max_tokens: Context length, special tokens included; None for the longest that the encoder allows.
        image_tower: Spec of the teacher's image tower for `load_backbone`.
        prefix: Text put before every candidate and reference.
        languages: Codes of its training languages, stored in `language_code`'s form; None if not known.
        teacher: Name of the teacher, for the record.
        logit_scale: Factor on cosines during training; None for the image tower's.

    Raises:
        CapscoreError: `max_tokens` is out of the encoder's range, or a language code is unknown.
    """

    def __init__(
        self,
        encoder: Any,
        tokenizer: Any,
        *,
        dim: int,
        max_tokens: int | None = None,
        image_tower: str = "",
        prefix: str = "",
        languages: Iterable[str] | None = None,
        teacher: str = "",
        logit_scale: float | None = None,
    ):
        allowed = position_limit(encoder.config, encoder)
        if max_tokens is None:
            max_tokens = context_length(encoder.config, encoder, tokenizer)
        elif max_tokens < 3 or (allowed is not None and max_tokens > allowed):
            raise CapscoreError(
                Setting("max_tokens", max_tokens), f": the encoder reads 3 to {allowed} tokens"
            )
        super().__init__(encoder, nn.Linear(encoder.config.hidden_size, dim), tokenizer, max_tokens)
        self.image_tower, self.prefix, self.teacher = image_tower, prefix, teacher
        self.languages = None if languages is None else frozenset(map(language_code, languages))
        self.logit_scale = logit_scale

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the tower to a folder: model.safetensors, config.json, the tokenizer, then
        capscore_student.json.

        Raises:
            ResultWriteError: the student could not be written; an earlier one in the folder is unharmed.
        """
        content: dict[str, Any] = {"format": _STUDENT_FORMAT}
        content |= {field: getattr(self, field) for field in _STUDENT_FIELDS}
        content["languages"] = None if self.languages is None else sorted(self.languages)

        def save_more(folder: Path) -> None:
            self.encoder.config.save_pretrained(folder)
            self.tokenizer.save_pretrained(folder)

        marker, tensors = checkpoint.STUDENT_MARKER, self.state_dict()
        checkpoint.write_checkpoint(Path(folder), marker, content, tensors, "the student", save_more)

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> StudentTextTower:
        """Load a saved student, in float32, on the CPU, in eval mode."""
        folder = Path(folder)
        marker = checkpoint.read_marker(folder / checkpoint.STUDENT_MARKER, _STUDENT_FORMAT, _STUDENT_FIELDS)
        config = checkpoint.load_config(folder)
        encoder, projection = _encoder_and_projection(folder, config, "encoder.", "projection.")
        if projection.out_features != marker["dim"]:
            raise BackboneUnavailable(f"the weights in {folder} do not fit its dim of {marker['dim']}")
        fields = {field: marker[field] for field in _STUDENT_FIELDS}
        tower = cls(encoder, load_tokenizer(folder, config), **fields)
        tower.projection = projection
        return tower.eval()


def load_student(folder: Path, options: LoadOptions) -> Backbone:
    """Load a saved student; prefix, languages and image tower that the options leave out are its own."""
    tower = StudentTextTower.from_pretrained(folder)
    languages = tower.languages if options.languages is None else options.languages
    return PairedBackbone(
        tower,
        replace(options, prefix=options.prefix or tower.prefix, languages=languages),
        settings=base.settings_digest(folder),
        made_for=tower.image_tower,
        logit_scale=tower.logit_scale,
    )


class SentenceTransformerTower(TextTower):
    """The modules of a `SentenceTransformer`, from ids and mask to the sentence's embedding."""

    def __init__(self, model: Any):
        super().__init__()
        self.model = model
        self.tokenizer = model.tokenizer
        encoder = model[0].auto_model
        self.config = encoder.config
        longest = context_length(encoder.config, encoder, self.tokenizer)
        self.max_tokens = min(model.max_seq_length or longest, longest)
        with torch.inference_mode():
            probe = torch.tensor([self.tokenize(["a"]).ids[0]])
            self.dim = self(probe, torch.ones_like(probe)).shape[1]

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.model({"input_ids": input_ids, "attention_mask": attention_mask})["sentence_embedding"]


def load_sentence_transformers(folder: Path, options: LoadOptions) -> Backbone:
    """Load a text tower of sentence-transformers, and the image tower of another backbone.

    The modules (Transformer → Pooling → Dense) are the library's; capscore does the tokenising and padding.
    The folder's default prompt is put after the prefix.
    """
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        name = "sentence-transformers"
        raise MissingExtraError(name, name, f"the text tower in {folder}") from None
    first, *others = _checked_modules(folder)
    require_vocabulary(first)
    # Read first, so that a damaged file, or one that would run code, is refused before the library opens it.
    state, *_ = map(checkpoint.read_state_dict, (first, *others))
    # These override the folder's own files; shapes that differ are refused below, by name.
    arguments: dict[str, Any] = {
        "dtype": torch.float32,
        "weights_only": True,
        "ignore_mismatched_sizes": True,
    }
    arguments["use_safetensors"] = checkpoint.weight_files(first)[0].suffix == ".safetensors"
    where: dict[str, Any] = {"device": "cpu", "local_files_only": True, "trust_remote_code": False}
    with checkpoint.refusing(f"the modules in {folder}"):
        model: Any = SentenceTransformer(str(folder), model_kwargs=arguments, **where).eval()
    # The library does not report weights of the encoder that were missing and drawn at random. So load an
    # encoder strictly from the folder's weights, and replace the library's weights by its weights.
    encoder: Any = model[0].auto_model
    strict = checkpoint.load_strictly(type(encoder), encoder.config, first, state, without_pooler=True)
    if getattr(encoder, "pooler", None) is not None:
        encoder.pooler = None
    encoder.load_state_dict(strict.state_dict())
    prompt = model.prompts.get(model.default_prompt_name, "") if model.default_prompt_name else ""
    if prompt and not all(getattr(module, "include_prompt", True) for module in model):
        raise CapscoreError(f"its prompt {prompt!r} is left out of the pooling, which is not supported here")
    return PairedBackbone(
        SentenceTransformerTower(model),
        replace(options, prefix=options.prefix + prompt),
        settings=base.settings_digest(folder),
    )


def _checked_modules(folder: Path) -> list[Path]:
    """Folders of the modules with weights; code of other packages, and towers of no texts, are refused."""
    path = folder / "modules.json"
    kinds, places = [], []
    for module in checkpoint.read_json(path, list):
        kind, place = str(module["type"]), checkpoint.inside(folder, module["path"], path)
        foreign = not kind.startswith("sentence_transformers.")
        kinds.append(kind.rpartition(".")[2])
        if kinds[-1] == "Dense":
            # The library would replace a function that it does not trust by Tanh and only warn.
            function = checkpoint.read_json(place / "config.json").get("activation_function", "torch.nn.")
            foreign |= not str(function).startswith("torch.nn.")
        if foreign:
            raise CapscoreError(f"{folder} lists code of its own ({kind!r:.80}), which never runs")
        if kinds[-1] in ("Transformer", "Dense"):
            places.append(place)
    if kinds[:1] != ["Transformer"] or not {*kinds[1:]} <= {*_AFTER_TRANSFORMER}:
        raise CapscoreError(f"{path} lists {kinds}; expected a Transformer and any of {_AFTER_TRANSFORMER}")
    return places
