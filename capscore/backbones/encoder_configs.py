"""The name of a published text encoder → its transformers config, for checkpoints without one.

The configs hold only the published shapes; everything else is transformers' default for the model type.
Encoders built from them are checked against the weights.
"""

from __future__ import annotations

from typing import Any

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
