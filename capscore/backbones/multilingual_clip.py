"""Multilingual-CLIP ("M-CLIP") text towers, such as M-CLIP/XLM-Roberta-Large-Vit-B-32, from a folder.

In: a folder as the Hub has it, and whose image tower goes with it. Out: a `Backbone`.

The checkpoints hold an encoder (`transformer.*`), a projection (`LinearTransformation.*`) and the *name* of
the encoder's architecture (`modelBase`). Its config would have to come from another repository; for the
encoders that M-CLIP used it is built in, and checked against the weights.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import BackboneUnavailable, CapscoreError
from .base import Backbone, settings_digest
from .checkpoint import in_one_line, read_json, read_state_dict
from .mean_pooled import MeanPooledTower, load_encoder_and_projection
from .paired import PairedBackbone, registered_image_tower
from .transformers_tokenizer import context_length, load_tokenizer

_XLM_ROBERTA = {
    "model_type": "xlm-roberta",
    "vocab_size": 250002,
    "max_position_embeddings": 514,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
}
_BASE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
_BERT = {
    "model_type": "bert",
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    **_BASE,
}

# By the last part of `modelBase`, lower-cased: "FacebookAI/xlm-roberta-large" is "xlm-roberta-large".
_ENCODERS: dict[str, dict[str, Any]] = {
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
}
_OWN_CONFIG = "encoder_config.json"


def recognises(folder: Path) -> bool:
    """Whether a folder's config.json is that of an M-CLIP checkpoint."""
    if not (folder / "config.json").is_file():
        return False
    return {"modelBase", "numDims"} <= read_json(folder / "config.json").keys()


def load_folder(
    folder: Path,
    *,
    name: str,
    revision: str,
    prefix: str,
    languages: frozenset[str] | None,
    device: str,
    dtype: str,
    image_tower: str | Backbone | None,
    trust_remote_code: bool,
) -> Backbone:
    """Load an M-CLIP text tower, and the image tower of another backbone.

    Args:
        folder: config.json (modelBase, numDims), model.safetensors or pytorch_model.bin, the tokenizer; where
            `modelBase` is an encoder that is not built in, its config as encoder_config.json.
        name: what signatures call the backbone.
        revision: commit of the weights; "" for a digest of them.
        prefix: text put before every candidate and reference; M-CLIP was trained without.
        languages: what the text tower was trained on, or None if not known.
        device: as of `resolve_device`.
        dtype: "float32", "bfloat16" or "float16".
        image_tower: what the images go through; None for what the registry names.
        trust_remote_code: let a tokenizer's own code run; the towers' code is here.

    Raises:
        BackboneUnavailable: a file is missing or torn, or the weights are not of the encoder that is named.
        CapscoreError: an encoder that nobody knows, no image tower, or one of another dimension.
    """
    folder = Path(folder)
    settings = read_json(folder / "config.json")
    tower = _load_tower(folder, settings, trust_remote_code)
    return PairedBackbone(
        tower,
        image_tower,
        made_for=registered_image_tower(name),
        name=name,
        revision=revision,
        settings=settings_digest(folder, code=trust_remote_code),
        prefix=prefix,
        languages=languages,
        device=device,
        dtype=dtype,
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

    if (folder / _OWN_CONFIG).is_file():
        raw = read_json(folder / _OWN_CONFIG)
    else:
        raw = _ENCODERS.get(model_base.rsplit("/", 1)[-1].lower())
        if raw is None:
            raise CapscoreError(
                f"{folder / 'config.json'} names the encoder {model_base!r}, which is not one of "
                f"{', '.join(sorted(_ENCODERS))}: put that encoder's config.json there as {_OWN_CONFIG}"
            )
    raw = dict(raw)
    kind = raw.pop("model_type", "")
    try:
        return AutoConfig.for_model(kind, **raw)
    except ValueError as error:
        raise CapscoreError(
            f"{folder / _OWN_CONFIG} describes an encoder of type {kind!r}: {in_one_line(error)}"
        ) from None
