"""The built-in encoder configs: those of the published encoders, to the last parameter."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoConfig, AutoModel

from capscore.backbones.text_towers import ENCODERS, encoder_config

# As their makers' files hold them, pooler included (DistilBERT has none).
PARAMETERS = {
    "FacebookAI/roberta-base": 124_645_632,
    "xlm-roberta-base": 278_043_648,
    "FacebookAI/xlm-roberta-large": 559_890_432,
    "sentence-transformers/LaBSE": 470_926_848,
    "bert-base-multilingual-cased": 177_853_440,
    "google-bert/bert-base-multilingual-uncased": 167_356_416,
    "distilbert-base-multilingual-cased": 134_734_080,
}
# Encoders alone, as open_clip keeps them, their table of words included.
TRANSLATORS = {
    "facebook/nllb-200-distilled-600M": 413_511_680,
    "facebook/nllb-200-distilled-1.3B": 766_091_264,
}


@pytest.mark.parametrize(("name", "parameters"), PARAMETERS.items())
def test_built_in_encoders_have_their_real_size(name, parameters):
    settings = dict(encoder_config(name))
    config = AutoConfig.for_model(settings.pop("model_type"), **settings)
    with torch.device("meta"):
        encoder = AutoModel.from_config(config)
    assert sum(parameter.numel() for parameter in encoder.parameters()) == parameters


@pytest.mark.parametrize(("name", "parameters"), TRANSLATORS.items())
def test_translators_have_encoders_of_their_real_size(name, parameters):
    """Words, layers of attention 4 (d² + d), feed-forward 2 d f + f + d and two norms, a last norm."""
    settings = dict(encoder_config(name))
    d, f, layers = settings["d_model"], settings["encoder_ffn_dim"], settings["encoder_layers"]
    by_hand = settings["vocab_size"] * d + layers * (4 * (d * d + d) + 2 * d * f + f + d + 4 * d) + 2 * d
    config = AutoConfig.for_model(settings.pop("model_type"), **settings)
    with torch.device("meta"):
        encoder = AutoModel.from_config(config).encoder
    assert sum(parameter.numel() for parameter in encoder.parameters()) == by_hand == parameters


def test_each_of_them_is_looked_at_and_no_other_is_known():
    assert {name.rpartition("/")[2].lower() for name in (*PARAMETERS, *TRANSLATORS)} == set(ENCODERS)
    assert encoder_config("bert-base-uncased") is None
    assert encoder_config("") is None


def test_positions_are_counted_as_roberta_does():
    """Its positions begin after the padding index: 514 are 512 tokens."""
    for name in ("roberta-base", "xlm-roberta-base", "xlm-roberta-large"):
        config = encoder_config(name)
        assert config["max_position_embeddings"] - config["pad_token_id"] - 1 == 512
