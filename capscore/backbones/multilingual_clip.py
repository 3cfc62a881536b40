"""Loads Multilingual-CLIP ("M-CLIP") text towers, such as M-CLIP/XLM-Roberta-Large-Vit-B-32.

In: a checkpoint folder from the Hub, and an image tower. Out: a `Backbone`.

The checkpoints hold an encoder (`transformer.*`), a projection (`LinearTransformation.*`) and only the name
of the encoder's architecture (`modelBase`). The configs of the encoders that M-CLIP used are built in, and
checked against the weights.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import BackboneUnavailable, CapscoreError
from .base import Backbone, LoadOptions, settings_digest
from .checkpoint import in_one_line, read_json, read_state_dict
from .encoder_configs import ENCODERS, encoder_config
from .mean_pooled import MeanPooledTower, load_encoder_and_projection
from .paired import PairedBackbone, registered_image_tower
from .transformers_tokenizer import context_length, load_tokenizer

_OWN_CONFIG = "encoder_config.json"


def recognises(folder: Path) -> bool:
    """Whether a folder's config.json is that of an M-CLIP checkpoint."""
    if not (folder / "config.json").is_file():
        return False
    return {"modelBase", "numDims"} <= read_json(folder / "config.json").keys()


def load_folder(folder: Path, options: LoadOptions) -> Backbone:
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
