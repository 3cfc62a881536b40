"""Joins the text tower of one checkpoint with the image tower of another backbone.

In: a `TextTower` and a backbone or its name. Out: a `Backbone`.
"""

from __future__ import annotations

import json
from abc import abstractmethod
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
    TrainableBackbone,
    architecture_digest,
    fingerprint_of,
    pad_batch,
    settings_digest,
    unit_rows,
    weights_digest,
)
from .checkpoint import (
    in_one_line,
    inside,
    load_config,
    load_strictly,
    quiet_transformers,
    read_any_json,
    read_json,
    read_marker,
    read_state_dict,
    refuse_misfit,
    replacing_files,
    weight_files,
)
from .tokens import (
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


class TextTower(nn.Module):
    """A text tower that reads masked batches, so that padding does not change an embedding.

    Attributes:
        tokenizer: Tokenizer of transformers.
        dim: Length of an embedding.
        max_tokens: Context length, special tokens included.
    """

    tokenizer: Any
    dim: int
    max_tokens: int

    @abstractmethod
    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """int64 (n, L) ids and mask (1 token, 0 padding) → (n, dim), not normalised."""

    @property
    @abstractmethod
    def config(self) -> Any:
        """Config of the tower's transformers encoder."""

    def tokenize(self, texts: Sequence[str]) -> Tokens:
        """Texts → ids without padding, at most `max_tokens` each, and whether each text was cut."""
        return tokenize_texts(self.tokenizer, texts, self.max_tokens)

    def piece_spans(self, texts: Sequence[str]) -> list[list[tuple[int, int, int]]]:
        """Texts → id, start and end of each piece; see `Backbone.piece_spans`."""
        return piece_spans(self.tokenizer, texts)


class PairedBackbone(TrainableBackbone):
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
        name, device, dtype = options.name, options.device, options.dtype
        image_tower = options.image_tower or made_for
        if not image_tower:
            raise CapscoreError(
                f"{name} is a text tower only; name an image tower for it (its embeddings have {text.dim} "
                "numbers), such as ",
                Setting("image_tower", "ViT-B-32-quickgelu/openai"),
            )
        # Trusting the text tower's code does not mean trusting that of an image tower that it names.
        image = (
            image_tower
            if isinstance(image_tower, Backbone)
            else options.load_backbone(image_tower, device=device, dtype=dtype, trust_remote_code=False)
        )
        if text.dim != image.dim:
            raise CapscoreError(
                f"the towers do not share one space: {name} has {text.dim} numbers per text, "
                f"{image.name} has {image.dim} per image"
            )
        spec = image_tower if isinstance(image_tower, str) else ""
        self.as_made = bool(spec) and _official(spec) == _official(made_for)
        self.image_name, self.image_tower = image.name, "" if self.as_made else spec
        self.name = name if self.as_made else f"{name}+{image.name}"
        self.dim, self.prefix, self.languages = text.dim, options.prefix, options.languages
        self.max_tokens = text.max_tokens
        self.logit_scale = image.logit_scale if logit_scale is None else logit_scale
        self.w, self.has_feature_map = image.w, image.has_feature_map
        self.device, self.dtype = device, dtype
        self._image, self._text, self._settings = image, text, settings
        self._identify(options.revision)
        self._pad_id = pad_id_of(text.tokenizer)
        self._text = text.to(device=device, dtype=getattr(torch, dtype)).eval().requires_grad_(False)

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

    def piece_spans(self, texts: Sequence[str]) -> list[list[tuple[int, int, int]]]:
        return self._text.piece_spans(texts)

    def network(self) -> nn.Module:
        raise CapscoreError(
            f"the image tower of {self.name!r} is that of another backbone, {self.image_name!r}: "
            f"fine-tune the "
            "text tower alone"
        )

    def text_network(self) -> TextTower:
        return self._text

    def text_settings(self) -> tuple[Any, ...]:
        return self._text.config, self._text.tokenizer

    def embed_tokens(self, ids: Sequence[Sequence[int]]) -> torch.Tensor:
        if not len(ids):
            return torch.zeros(0, self.dim, device=self.device)
        tokens, mask = pad_batch(ids, self._pad_id)
        return unit_rows(self._text(tokens.to(self.device), mask.to(self.device)))


def registered_image_tower(name: str) -> str:
    """The image tower that the registry names for a text tower; "" if it names none."""
    known = find(name)
    return known.image_tower if known else ""


def _official(spec: str) -> str:
    known = find(spec)
    return known.name if known else spec


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

ENCODERS: dict[str, dict[str, Any]] = {
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
    """Config of an encoder by its Hub id or the last part of it, in any case; None if it is unknown.

    >>> encoder_config("FacebookAI/xlm-roberta-large")["hidden_size"]
    1024
    """
    return ENCODERS.get(name.rpartition("/")[2].lower())


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
        self.dim = projection.out_features

    @property
    def config(self) -> Any:
        return self.encoder.config

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """int64 (n, L) ids and mask (1 token, 0 padding) → (n, dim), not normalised."""
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        weights = attention_mask.unsqueeze(-1).float()
        mean = (hidden.float() * weights).sum(dim=1) / weights.sum(dim=1)
        return self.projection(mean.to(self.projection.weight.dtype))


def load_encoder_and_projection(
    folder: Path, config: Any, state: dict[str, torch.Tensor], *, encoder_prefix: str, projection_prefix: str
) -> tuple[Any, nn.Linear]:
    """Encoder and projection from one state dict that holds both.

    Args:
        folder: Folder that the state dict was read from; named in errors.
        config: Config of the encoder.
        state: Tensors of both.
        encoder_prefix: Beginning of the names of the encoder's tensors, such as "transformer.".
        projection_prefix: Beginning of the names of the projection's weight and bias.

    Raises:
        BackboneUnavailable: tensors are missing, too many, or of another shape than the config says.
    """
    import transformers

    encoder_state = {
        key.removeprefix(encoder_prefix): t for key, t in state.items() if key.startswith(encoder_prefix)
    }
    names = {f"{projection_prefix}weight", f"{projection_prefix}bias"}
    others = [key for key in state if not key.startswith(encoder_prefix) and key not in names]
    refuse_misfit(folder, names - state.keys(), others)
    weight, bias = (state[f"{projection_prefix}{part}"] for part in ("weight", "bias"))
    if weight.ndim != 2 or weight.shape[1] != config.hidden_size or bias.shape != weight.shape[:1]:
        shapes = (
            f"weight {tuple(weight.shape)}, bias {tuple(bias.shape)}, encoder of width {config.hidden_size}"
        )
        refuse_misfit(folder, (), (), [f"{projection_prefix}* ({shapes})"])
    encoder = load_strictly(
        transformers.MODEL_MAPPING[type(config)], config, folder, encoder_state, without_pooler=True
    )
    projection = nn.Linear(weight.shape[1], weight.shape[0])
    with torch.no_grad():
        projection.weight.copy_(weight)
        projection.bias.copy_(bias)
    return encoder, projection


_OWN_CONFIG = "encoder_config.json"


def load_multilingual_clip(folder: Path, options: LoadOptions) -> Backbone:
    """Load an M-CLIP text tower, and the image tower of another backbone.

    Args:
        folder: Folder with config.json (modelBase, numDims), model.safetensors or pytorch_model.bin, and the
            tokenizer; for an encoder that is not built in, also its config as encoder_config.json.
        options: Options of the backbone. Without an image tower, the registry's is used. Trust is needed
            only for a tokenizer with its own code.

    Raises:
        BackboneUnavailable: a file is missing or damaged, or the weights do not fit the named encoder.
        CapscoreError: an unknown encoder, or no image tower of the same dimension.
    """
    folder = Path(folder)
    return PairedBackbone(
        _load_tower(folder, read_json(folder / "config.json"), options.trust_remote_code),
        options,
        settings=settings_digest(folder, code=options.trust_remote_code),
        made_for=registered_image_tower(options.name),
    )


def _load_tower(folder: Path, settings: dict[str, Any], trust_remote_code: bool) -> MeanPooledTower:
    state = read_state_dict(folder)
    config = _encoder_config(folder, str(settings.get("modelBase")))
    encoder, projection = load_encoder_and_projection(
        folder, config, state, encoder_prefix="transformer.", projection_prefix="LinearTransformation."
    )
    for key, stored in (
        ("numDims", projection.out_features),
        ("transformerDimensions", projection.in_features),
    ):
        if settings.get(key, stored) != stored:
            raise BackboneUnavailable(
                f"{folder / 'config.json'} says {key} {settings[key]!r}, "
                f"but LinearTransformation.weight has {stored}"
            )
    tokenizer = load_tokenizer(folder, config, trust_remote_code=trust_remote_code)
    return MeanPooledTower(encoder, projection, tokenizer, context_length(config, encoder, tokenizer))


def _encoder_config(folder: Path, model_base: str) -> Any:
    from transformers import AutoConfig

    own = folder / _OWN_CONFIG
    raw = read_json(own) if own.is_file() else encoder_config(model_base)
    if raw is None:
        raise CapscoreError(
            f"{folder / 'config.json'} names the encoder {model_base!r:.60}, which is not one of "
            f"{', '.join(sorted(ENCODERS))}: put that encoder's config.json there as {_OWN_CONFIG}"
        )
    raw = dict(raw)
    kind = raw.pop("model_type", "")
    try:
        return AutoConfig.for_model(kind, **raw)
    except ValueError as error:
        raise CapscoreError(
            f"{own} describes an encoder of type {kind!r:.60}: {in_one_line(error)}"
        ) from None


_MARKER = "capscore_student.json"
_FORMAT = 1
# Fields of the marker and their types.
_FIELDS: dict[str, tuple[type, ...]] = {
    "dim": (int,),
    "max_tokens": (int,),
    "image_tower": (str,),
    "prefix": (str,),
    "languages": (list, type(None)),
    "teacher": (str,),
    "logit_scale": (float, int, type(None)),
}


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
                Setting("max_tokens", max_tokens), f" was given, but the encoder reads 3 to {allowed} tokens"
            )
        super().__init__(encoder, nn.Linear(encoder.config.hidden_size, dim), tokenizer, max_tokens)
        self.image_tower, self.prefix, self.teacher = image_tower, prefix, teacher
        self.languages = None if languages is None else frozenset(map(language_code, languages))
        self.logit_scale = logit_scale

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the tower to a folder: capscore_student.json, model.safetensors, config.json, the tokenizer.

        All files are written aside and then renamed, capscore_student.json last: without it a folder holds no
        student. Other files in the folder stay.

        Raises:
            ResultWriteError: the student could not be written; an earlier one in the folder is unharmed.
        """
        with replacing_files(Path(folder), _MARKER, "the student") as aside:
            self._write(aside)

    def _write(self, folder: Path) -> None:
        self.encoder.config.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        tensors = {key: tensor.detach().cpu().contiguous() for key, tensor in self.state_dict().items()}
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        marker = {
            "format": _FORMAT,
            "dim": self.dim,
            "max_tokens": self.max_tokens,
            "image_tower": self.image_tower,
            "prefix": self.prefix,
            "languages": None if self.languages is None else sorted(self.languages),
            "teacher": self.teacher,
            "logit_scale": self.logit_scale,
        }
        (folder / _MARKER).write_text(
            json.dumps(marker, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> StudentTextTower:
        """Load a saved student, in float32, on the CPU, in eval mode.

        Raises:
            BackboneUnavailable: a file is missing or damaged, or the weights do not fit config.json.
        """
        folder = Path(folder)
        marker = read_marker(folder / _MARKER, _FORMAT, _FIELDS)
        state = read_state_dict(folder)
        read_json(folder / "config.json")
        config = load_config(folder, "an encoder", BackboneUnavailable)
        encoder, projection = load_encoder_and_projection(
            folder, config, state, encoder_prefix="encoder.", projection_prefix="projection."
        )
        if projection.out_features != marker["dim"]:
            raise BackboneUnavailable(
                f"{folder / _MARKER} says dim {marker['dim']}, "
                f"but projection.weight has {projection.out_features}"
            )
        tower = cls(encoder, load_tokenizer(folder, config), **{field: marker[field] for field in _FIELDS})
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
    folder = Path(folder)
    tower = StudentTextTower.from_pretrained(folder)
    languages = tower.languages if options.languages is None else options.languages
    return PairedBackbone(
        tower,
        replace(options, prefix=options.prefix or tower.prefix, languages=languages),
        settings=settings_digest(folder),
        made_for=tower.image_tower,
        logit_scale=tower.logit_scale,
    )


# Modules that may follow the first one; they read only embeddings and the mask.
_AFTER_TRANSFORMER = ("Pooling", "Dense", "Normalize", "LayerNorm")


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
        longest = context_length(encoder.config, encoder, self.tokenizer)
        self.max_tokens = min(model.max_seq_length or longest, longest)
        with torch.inference_mode():
            probe = torch.tensor([self.tokenize(["a"]).ids[0]])
            self.dim = self(probe, torch.ones_like(probe)).shape[1]

    @property
    def config(self) -> Any:
        return self.model[0].auto_model.config

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """int64 (n, L) ids and mask (1 token, 0 padding) → (n, dim)."""
        return self.model({"input_ids": input_ids, "attention_mask": attention_mask})["sentence_embedding"]


def load_sentence_transformers(folder: Path, options: LoadOptions) -> Backbone:
    """Load a text tower of sentence-transformers, and the image tower of another backbone.

    Args:
        folder: Folder with modules.json and the folders of the modules that it lists.
        options: Options of the backbone. The folder's default prompt is put after the prefix. Without an
            image tower, the registry's is used.

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        BackboneUnavailable: a file is missing or damaged, or the weights do not fit the config.
        CapscoreError: the modules are not a text tower, or there is no image tower of the same dimension.
    """
    folder = Path(folder)
    modules = _check_modules(folder, options.trust_remote_code)
    model = _load_model(folder, modules, options.trust_remote_code)
    return PairedBackbone(
        SentenceTransformerTower(model),
        replace(options, prefix=options.prefix + _default_prompt(model)),
        settings=settings_digest(folder, code=options.trust_remote_code),
        made_for=registered_image_tower(options.name),
    )


def _read_modules(folder: Path) -> list[dict[str, Any]]:
    path = folder / "modules.json"
    try:
        modules = [
            {"path": str(module["path"]), "type": str(module["type"])} for module in read_any_json(path)
        ]
    except (KeyError, TypeError) as error:
        raise BackboneUnavailable(f"{path} cannot be read as a list of modules: {error!r}") from None
    for module in modules:
        inside(folder, module["path"], path)
    return modules


def _check_modules(folder: Path, trust_remote_code: bool) -> list[dict[str, Any]]:
    modules = _read_modules(folder)
    foreign = [module["type"] for module in modules if _is_foreign(module)]
    if foreign and not trust_remote_code:
        raise CapscoreError(
            f"{folder / 'modules.json'} lists code of its own ({', '.join(foreign)}), which runs only with ",
            Setting("trust_remote_code", True),
            ": set it if you have read that code and trust it",
        )
    known = all(_is_foreign(module) or _kind(module) in _AFTER_TRANSFORMER for module in modules[1:])
    if not modules or _is_foreign(modules[0]) or _kind(modules[0]) != "Transformer" or not known:
        raise CapscoreError(
            f"{folder / 'modules.json'} lists {' → '.join(map(_kind, modules)) or 'no modules'}; a text "
            f"tower is a Transformer followed by any of {', '.join(_AFTER_TRANSFORMER)}"
        )
    require_vocabulary(folder / modules[0]["path"])
    for module in modules:
        if _kind(module) == "Dense" and not trust_remote_code:
            # The library would replace a function that it does not trust by Tanh and only warn.
            path = folder / module["path"] / "config.json"
            function = read_json(path).get("activation_function", "torch.nn.")
            if not str(function).startswith("torch.nn."):
                raise CapscoreError(
                    f"{path} names the function {function!r}, which runs only with ",
                    Setting("trust_remote_code", True),
                )
    return modules


def _kind(module: dict[str, Any]) -> str:
    return module["type"].rsplit(".", 1)[-1]


def _is_foreign(module: dict[str, Any]) -> bool:
    return not module["type"].startswith("sentence_transformers.")


def _load_model(folder: Path, modules: list[dict[str, Any]], trust_remote_code: bool) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise MissingExtraError(
            "sentence-transformers", "sentence-transformers", f"the text tower in {folder}"
        ) from None
    # Read first, so that a damaged file, or one that would run code, is refused before the library opens it.
    state, *_ = [
        read_state_dict(folder / module["path"])
        for module in modules
        if _kind(module) in ("Transformer", "Dense")
    ]
    safe = weight_files(folder / modules[0]["path"])[0].suffix == ".safetensors"
    try:
        with quiet_transformers():
            model = SentenceTransformer(
                str(folder),
                device="cpu",
                local_files_only=True,
                trust_remote_code=trust_remote_code,
                # These override the folder's own files.
                model_kwargs={
                    "dtype": torch.float32,
                    "use_safetensors": safe,
                    "weights_only": True,
                    "ignore_mismatched_sizes": True,  # refused below, by name
                },
            )
    except Exception as error:  # every module fails in its own way
        raise BackboneUnavailable(
            f"the modules in {folder} cannot be loaded: {in_one_line(error)}"
        ) from error
    _refuse_random_weights(model, folder / modules[0]["path"], state)
    return model.eval()


def _refuse_random_weights(model: Any, folder: Path, state: dict[str, torch.Tensor]) -> None:
    # The library does not report weights of the encoder that were missing and drawn at random. So load an
    # encoder strictly from the folder's weights, and replace the library's weights by its weights.
    encoder = model[0].auto_model
    strict = load_strictly(type(encoder), encoder.config, folder, state, without_pooler=True)
    if getattr(encoder, "pooler", None) is not None:
        encoder.pooler = None
    encoder.load_state_dict(strict.state_dict())


def _default_prompt(model: Any) -> str:
    name = getattr(model, "default_prompt_name", None)
    prompt = model.prompts.get(name, "") if name else ""
    if prompt and not all(getattr(module, "include_prompt", True) for module in model):
        raise CapscoreError(f"its prompt {prompt!r} is left out of the pooling, which is not supported here")
    return prompt
