"""Text towers that borrow an image tower: M-CLIP's, sentence-transformers', and capscore's own students.

In: a checkpoint folder, and an image tower. Out: a `Backbone` with the image tower of another backbone. A
student is a text tower that learned a CLIP text tower's embeddings in other languages (`training/`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

from ..errors import BackboneUnavailable, CapscoreError, MissingExtraError, Setting
from ..text.languages import language_code
from . import find
from .base import (
    Backbone,
    LoadOptions,
    Tokens,
    architecture_digest,
    fingerprint_of,
    pad_batch,
    settings_digest,
    weights_digest,
)
from .checkpoint import (
    STUDENT_MARKER,
    inside,
    load_config,
    load_strictly,
    read_json,
    read_marker,
    read_state_dict,
    refuse_misfit,
    refusing,
    replacing_files,
    weight_files,
)
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
    "dim": (int,),
    "max_tokens": (int,),
    "image_tower": (str,),
    "prefix": (str,),
    "languages": (list, type(None)),
    "teacher": (str,),
    "logit_scale": (float, int, type(None)),
}

_BASE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
_ROBERTA = {
    "max_position_embeddings": 514,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
}
_XLM_ROBERTA = {"model_type": "xlm-roberta", "vocab_size": 250002, **_ROBERTA}
_BERT = {
    "model_type": "bert",
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    **_BASE,
}
# open_clip keeps the encoder of these translators and drops the decoder, which is not built to begin with
_NLLB = {
    "model_type": "m2m_100",
    "vocab_size": 256206,
    "max_position_embeddings": 1024,
    "d_model": 1024,
    "encoder_attention_heads": 16,
    "decoder_attention_heads": 16,
    "decoder_layers": 0,
    "scale_embedding": True,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
}
# Published shapes; everything else is transformers' default. Encoders are checked against the weights.
_ENCODERS: dict[str, dict[str, Any]] = {
    "roberta-base": {"model_type": "roberta", "vocab_size": 50265, **_ROBERTA, **_BASE},
    "xlm-roberta-base": {**_XLM_ROBERTA, **_BASE},
    "xlm-roberta-large": {**_XLM_ROBERTA, **_LARGE},
    "labse": {**_BERT, "vocab_size": 501153},
    "bert-base-multilingual-cased": {**_BERT, "vocab_size": 119547},
    "bert-base-multilingual-uncased": {**_BERT, "vocab_size": 105879},
    "distilbert-base-multilingual-cased": {
        "model_type": "distilbert",
        "vocab_size": 119547,
        "max_position_embeddings": 512,
        "dim": 768,
        "n_layers": 6,
        "n_heads": 12,
        "hidden_dim": 3072,
        "sinusoidal_pos_embds": False,
    },
    "nllb-200-distilled-600m": {**_NLLB, "encoder_layers": 12, "encoder_ffn_dim": 4096},
    "nllb-200-distilled-1.3b": {**_NLLB, "encoder_layers": 24, "encoder_ffn_dim": 8192},
}


def encoder_config(name: str) -> dict[str, Any] | None:
    """Config of a published text encoder, for checkpoints without one; None if it is unknown.

    Args:
        name: Hub id of the encoder, or the last part of it, in any case.

    >>> encoder_config("FacebookAI/xlm-roberta-large")["hidden_size"]
    1024
    """
    return _ENCODERS.get(name.rpartition("/")[2].lower())


class TextTower(nn.Module):
    """A text tower that reads masked batches, so that padding does not change an embedding.

    Called with int64 (n, L) ids and mask (1 token, 0 padding), it gives (n, dim), not normalised.

    Attributes:
        tokenizer: Tokenizer of transformers.
        dim: Length of an embedding.
        max_tokens: Context length, special tokens included.
        config: Config of the tower's transformers encoder.
    """

    tokenizer: Any
    dim: int
    max_tokens: int
    config: Any

    def tokenize(self, texts: Sequence[str]) -> Tokens:
        """Texts → ids without padding, at most `max_tokens` each, and whether each text was cut."""
        return tokenize_texts(self.tokenizer, texts, self.max_tokens)


class PairedBackbone(Backbone):
    """A `TextTower` with the image tower of another backbone.

    Its `revision` names the weights of both towers, "text+image", since a score depends on both. If the image
    tower is not the one that the text tower was made for, its name is also part of `name`.

    Attributes:
        image_name: Name of the image tower's backbone.
        image_tower: Spec of the image tower for `load_backbone`; "" for the one that the text tower was made
            for, and if a backbone was given.
        as_made: Whether the image tower is the one that the text tower was made for.

    Args:
        text: Text tower, in float32.
        options: Options of the backbone; the languages are the text tower's.
        settings: Digest of the files that say how the text tower is used.
        made_for: Image tower that the text tower was made for, used if the options name none; "" if not
            known.
        logit_scale: Factor on cosines; None for the image tower's.

    Raises:
        CapscoreError: there is no image tower, or the two towers do not share one space.
        BackboneUnavailable: the image tower is not available.
    """

    def __init__(
        self,
        text: TextTower,
        options: LoadOptions,
        *,
        settings: str,
        made_for: str = "",
        logit_scale: float | None = None,
    ):
        image_tower = options.image_tower or made_for
        if not image_tower:
            raise CapscoreError(
                f"{options.name} is a text tower only; name an image tower for it (its embeddings have "
                f"{text.dim} numbers), such as ",
                Setting("image_tower", "ViT-B-32-quickgelu/openai"),
            )
        self.device, self.dtype = options.device, options.dtype
        # Trusting the text tower's code does not mean trusting that of an image tower that it names.
        image = (
            image_tower
            if isinstance(image_tower, Backbone)
            else options.load_backbone(
                image_tower, device=self.device, dtype=self.dtype, trust_remote_code=False
            )
        )
        if text.dim != image.dim:
            raise CapscoreError(
                f"the towers do not share one space: {options.name} has {text.dim} numbers per text, "
                f"{image.name} has {image.dim} per image"
            )
        spec = image_tower if isinstance(image_tower, str) else ""
        self.as_made = bool(spec) and _registered(spec) == _registered(made_for)
        self.image_name, self.image_tower = image.name, "" if self.as_made else spec
        self.name = options.name if self.as_made else f"{options.name}+{image.name}"
        self.dim, self.prefix, self.languages = text.dim, options.prefix, options.languages
        self.max_tokens = text.max_tokens
        self.logit_scale = image.logit_scale if logit_scale is None else logit_scale
        self.w, self.has_feature_map = image.w, image.has_feature_map
        self._image, self._text, self._settings = image, text, settings
        self._identify(options.revision)
        self._pad_id = pad_id_of(text.tokenizer)
        self._text = (
            text.to(device=self.device, dtype=getattr(torch, self.dtype)).eval().requires_grad_(False)
        )

    def _identify(self, revision: str) -> None:
        digest = fingerprint_of(weights_digest(self._text), self._settings)
        self.revision = f"{revision or 'w' + digest[:8]}+{self._image.revision}"
        self.fingerprint = fingerprint_of(
            "paired",
            digest,
            architecture_digest(self._text),
            self.dtype,
            self.max_tokens,
            self._image.fingerprint,
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

    def text_settings(self) -> tuple[Any, ...]:
        return self._text.config, self._text.tokenizer

    def embed_tokens(self, ids: Sequence[Sequence[int]]) -> torch.Tensor:
        if not len(ids):
            return torch.zeros(0, self.dim, device=self.device)
        tokens, mask = pad_batch(ids, self._pad_id)
        features = self._text(tokens.to(self.device), mask.to(self.device))
        return nn.functional.normalize(features.float(), dim=-1)


def _registered(spec: str) -> str:
    known = find(spec)
    return known.name if known else spec


def _registered_image_tower(name: str) -> str:
    known = find(name)
    return known.image_tower if known else ""


class MeanPooledTower(TextTower):
    """A transformers encoder, the attention-masked mean of all its tokens, a Linear with bias.

    Args:
        encoder: Model from `transformers.AutoModel`; its pooler, which is not used, is removed.
        projection: Linear layer from the encoder's width to the embedding's length.
        tokenizer: Tokenizer of the encoder.
        max_tokens: Context length, special tokens included.
    """

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

    state = read_state_dict(folder)
    encoder_state = {
        key.removeprefix(encoder_prefix): t for key, t in state.items() if key.startswith(encoder_prefix)
    }
    names = {f"{projection_prefix}weight", f"{projection_prefix}bias"}
    others = [key for key in state if not key.startswith(encoder_prefix) and key not in names]
    refuse_misfit(folder, names - state.keys(), others)
    weight, bias = (state[f"{projection_prefix}{part}"] for part in ("weight", "bias"))
    if weight.ndim != 2 or weight.shape[1] != config.hidden_size or bias.shape != weight.shape[:1]:
        width = (config.hidden_size,)
        refuse_misfit(folder, (), (), [(f"{projection_prefix}*", (*weight.shape, *bias.shape), width)])
    encoder = load_strictly(
        transformers.MODEL_MAPPING[type(config)], config, folder, encoder_state, without_pooler=True
    )
    projection = nn.Linear(weight.shape[1], weight.shape[0])
    projection.load_state_dict({"weight": weight, "bias": bias})
    return encoder, projection


def load_multilingual_clip(folder: Path, options: LoadOptions) -> Backbone:
    """Load a Multilingual-CLIP text tower, and the image tower of another backbone.

    Args:
        folder: Folder with config.json, which has little more than the name of the encoder's architecture
            (modelBase), model.safetensors or pytorch_model.bin, and the tokenizer; for an encoder that is not
            built in, also its config as encoder_config.json.
        options: Options of the backbone. Without an image tower, the registry's is used. Trust is needed
            only for a tokenizer with its own code.

    Raises:
        BackboneUnavailable: a file is missing or damaged, or the weights do not fit the named encoder.
        CapscoreError: an unknown encoder, or no image tower of the same dimension.
    """
    from transformers import AutoConfig

    named, own = folder / "config.json", folder / "encoder_config.json"
    settings = read_json(named)
    model_base = str(settings.get("modelBase"))
    raw = read_json(own) if own.is_file() else encoder_config(model_base)
    if raw is None:
        raise CapscoreError(
            f"{named} names the encoder {model_base!r:.60}, which is not one of "
            f"{', '.join(sorted(_ENCODERS))}: put that encoder's config.json there as {own.name}"
        )
    with refusing(f"{own if own.is_file() else named}"):
        config = AutoConfig.for_model(**raw)
    encoder, projection = _encoder_and_projection(folder, config, "transformer.", "LinearTransformation.")
    sizes = {"numDims": projection.out_features, "transformerDimensions": projection.in_features}
    for key, stored in sizes.items():
        if settings.get(key, stored) != stored:
            raise BackboneUnavailable(
                f"{named} says {key} {settings[key]!r:.60}, but LinearTransformation.weight has {stored}"
            )
    tokenizer = load_tokenizer(folder, config, trust_remote_code=options.trust_remote_code)
    return PairedBackbone(
        MeanPooledTower(encoder, projection, tokenizer, context_length(config, encoder, tokenizer)),
        options,
        settings=settings_digest(folder, code=options.trust_remote_code),
        made_for=_registered_image_tower(options.name),
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
        """Write the tower to a folder: capscore_student.json, model.safetensors, config.json, the tokenizer.

        Without capscore_student.json, which comes last, a folder holds no student. Other files stay.

        Raises:
            ResultWriteError: the student could not be written; an earlier one in the folder is unharmed.
        """
        marker: dict[str, Any] = {"format": _STUDENT_FORMAT}
        marker |= {field: getattr(self, field) for field in _STUDENT_FIELDS}
        marker["languages"] = None if self.languages is None else sorted(self.languages)
        with replacing_files(Path(folder), STUDENT_MARKER, "the student") as scratch:
            self.encoder.config.save_pretrained(scratch)
            self.tokenizer.save_pretrained(scratch)
            tensors = {key: tensor.detach().cpu().contiguous() for key, tensor in self.state_dict().items()}
            save_file(tensors, scratch / "model.safetensors", metadata={"format": "pt"})
            text = json.dumps(marker, indent=2, ensure_ascii=False) + "\n"
            (scratch / STUDENT_MARKER).write_text(text, encoding="utf-8")

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> StudentTextTower:
        """Load a saved student, in float32, on the CPU, in eval mode.

        Raises:
            BackboneUnavailable: a file is missing or damaged, or the weights do not fit config.json.
        """
        folder = Path(folder)
        marker = read_marker(folder / STUDENT_MARKER, _STUDENT_FORMAT, _STUDENT_FIELDS)
        config = load_config(folder)
        encoder, projection = _encoder_and_projection(folder, config, "encoder.", "projection.")
        if projection.out_features != marker["dim"]:
            raise BackboneUnavailable(
                f"{folder / STUDENT_MARKER} says dim {marker['dim']}, "
                f"but projection.weight has {projection.out_features}"
            )
        fields = {field: marker[field] for field in _STUDENT_FIELDS}
        tower = cls(encoder, load_tokenizer(folder, config), **fields)
        tower.projection = projection
        return tower.eval()


def load_student(folder: Path, options: LoadOptions) -> Backbone:
    """Load a saved student with the image tower that it was made for, or with another one.

    Args:
        folder: Folder from `StudentTextTower.save_pretrained`.
        options: Options of the backbone; prefix, languages and image tower that are left out come from the
            folder. No code comes with a student, so trust has no effect.

    Raises:
        BackboneUnavailable: a file is missing or damaged, or the image tower is not available.
        CapscoreError: no image tower, or one of another dimension.
    """
    tower = StudentTextTower.from_pretrained(folder)
    languages = tower.languages if options.languages is None else options.languages
    return PairedBackbone(
        tower,
        replace(options, prefix=options.prefix or tower.prefix, languages=languages),
        settings=settings_digest(folder),
        made_for=tower.image_tower,
        logit_scale=tower.logit_scale,
    )


class SentenceTransformerTower(TextTower):
    """The modules of a SentenceTransformer, from ids and mask to the sentence's embedding.

    Args:
        model: `sentence_transformers.SentenceTransformer` whose first module is a Transformer.
    """

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

    The modules are the library's; capscore does the tokenising and padding.

    Args:
        folder: Folder with modules.json (Transformer → Pooling → Dense) and the folders of the modules.
        options: Options of the backbone. The folder's default prompt is put after the prefix. Without an
            image tower, the registry's is used.

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        BackboneUnavailable: a file is missing or damaged, or the weights do not fit the config.
        CapscoreError: the modules are not a text tower, or there is no image tower of the same dimension.
    """
    trusted = options.trust_remote_code
    model = _load_modules(folder, _checked_modules(folder, trusted), trusted)
    prompt = model.prompts.get(model.default_prompt_name, "") if model.default_prompt_name else ""
    if prompt and not all(getattr(module, "include_prompt", True) for module in model):
        raise CapscoreError(f"its prompt {prompt!r} is left out of the pooling, which is not supported here")
    return PairedBackbone(
        SentenceTransformerTower(model),
        replace(options, prefix=options.prefix + prompt),
        settings=settings_digest(folder, code=trusted),
        made_for=_registered_image_tower(options.name),
    )


def _checked_modules(folder: Path, trusted: bool) -> list[tuple[str, Path]]:
    """Kind and folder of each module; untrusted code, or a module that is no text tower's, is refused."""
    path = folder / "modules.json"
    with refusing(f"the list of modules in {path}"):
        listed = [(str(module["type"]), str(module["path"])) for module in read_json(path, list)]
    modules = [(kind.rpartition(".")[2], inside(folder, name, path)) for kind, name in listed]
    foreign = [kind for kind, _ in listed if not kind.startswith("sentence_transformers.")]
    functions = [
        # The library would replace a function that it does not trust by Tanh and only warn.
        str(read_json(place / "config.json").get("activation_function", "torch.nn."))
        for kind, place in modules
        if kind == "Dense"
    ]
    code = foreign + [name for name in functions if not name.startswith("torch.nn.")]
    if code and not trusted:
        raise CapscoreError(
            f"{folder} lists code of its own ({', '.join(code)}), which runs only with ",
            Setting("trust_remote_code", True),
            ": set it if you have read that code and trust it",
        )
    kinds = [kind for kind, _ in modules]
    known = (*_AFTER_TRANSFORMER, *(kind.rpartition(".")[2] for kind in foreign))
    if kinds[:1] != ["Transformer"] or listed[0][0] in foreign or not set(kinds[1:]) <= set(known):
        raise CapscoreError(
            f"{path} lists {' → '.join(kinds) or 'no modules'}; expected a Transformer followed by any of "
            f"{', '.join(_AFTER_TRANSFORMER)}"
        )
    return modules


def _load_modules(folder: Path, modules: list[tuple[str, Path]], trusted: bool) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise MissingExtraError(
            "sentence-transformers", "sentence-transformers", f"the text tower in {folder}"
        ) from None
    encoder_folder = modules[0][1]
    require_vocabulary(encoder_folder)
    # Read first, so that a damaged file, or one that would run code, is refused before the library opens it.
    state, *_ = [read_state_dict(place) for kind, place in modules if kind in ("Transformer", "Dense")]
    with refusing(f"the modules in {folder}"):
        model = SentenceTransformer(
            str(folder),
            device="cpu",
            local_files_only=True,
            trust_remote_code=trusted,
            # These override the folder's own files.
            model_kwargs={
                "dtype": torch.float32,
                "use_safetensors": weight_files(encoder_folder)[0].suffix == ".safetensors",
                "weights_only": True,
                "ignore_mismatched_sizes": True,  # refused below, by name
            },
        )
    # The library does not report weights of the encoder that were missing and drawn at random. So load an
    # encoder strictly from the folder's weights, and replace the library's weights by its weights.
    encoder: Any = model[0].auto_model
    strict = load_strictly(type(encoder), encoder.config, encoder_folder, state, without_pooler=True)
    if getattr(encoder, "pooler", None) is not None:
        encoder.pooler = None
    encoder.load_state_dict(strict.state_dict())
    return model.eval()
