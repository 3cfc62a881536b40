"""Shapes of published text encoders, for checkpoints that name an encoder and hold its weights alone."""

from __future__ import annotations

from collections.abc import Mapping

_Config = Mapping[str, str | int | float]
_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
_ROBERTA: _Config = {
    "model_type": "roberta",
    "vocab_size": 50265,
    "max_position_embeddings": 514,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
}
_XLM_ROBERTA: _Config = {**_ROBERTA, "model_type": "xlm-roberta", "vocab_size": 250002}
# open_clip keeps the encoder of these translators and drops the decoder, which is not built to begin with
_NLLB: _Config = {"model_type": "m2m_100", "vocab_size": 256206, "decoder_layers": 0}
# Published shapes; everything else is transformers' default. Encoders are checked against the weights.
ENCODERS: dict[str, _Config] = {
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


def encoder_config(name: str) -> _Config | None:
    """Config of a published text encoder, by the last part of its Hub id, in any case; None if unknown."""
    return ENCODERS.get(name.rpartition("/")[2].lower())
