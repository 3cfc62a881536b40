"""The gate behind the embedded text encoder."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from capscore import CapscoreError, load_backbone
from capscore.backbones.use_gated import REACH, GatedSentenceEncoder, repeats

pytestmark = pytest.mark.usefixtures("embedded_is_read_once")

PARTS = {"gate": {"width": 16, "layers": 1, "heads": 2}}
TEXTS = [
    "a dog runs on the beach",
    "ein Hund",
    "犬が走る。",
    "Deux chiens courent dans la neige, et un chat dort.",
]


@pytest.fixture(scope="module")
def plain():
    return load_backbone("embedded-free", device="cpu")


@pytest.fixture(scope="module")
def gated():
    torch.manual_seed(0)
    backbone = load_backbone("embedded-free", device="cpu")
    backbone.add_network_parts(PARTS)
    backbone.text.turn_away(torch.arange(512.0))
    return backbone


def _shut(backbone, logit: float):
    """The gate says the same of every text."""
    with torch.no_grad():
        backbone.text.gate.leave.weight.zero_()
        backbone.text.gate.leave.bias.fill_(logit)
    return backbone


def test_a_repeat_is_seen_where_it_is_and_nowhere_else():
    seen = repeats(torch.tensor([[7, 7, 3, 7]]))
    assert seen.shape == (1, 4, REACH)
    # token 1 stood one earlier; token 3 two and three earlier
    assert seen.nonzero().tolist() == [[0, 1, 0], [0, 3, 1], [0, 3, 2]]


def test_an_open_gate_changes_nothing_and_a_shut_one_turns_every_text_away(plain):
    backbone = load_backbone("embedded-free", device="cpu")
    backbone.add_network_parts(PARTS)
    direction = torch.randn(512, generator=torch.Generator().manual_seed(1))
    backbone.text.turn_away(direction)
    np.testing.assert_allclose(
        _shut(backbone, -40.0).encode_texts(TEXTS), plain.encode_texts(TEXTS), atol=1e-6
    )
    away = F.normalize(direction, dim=0).numpy()
    np.testing.assert_allclose(_shut(backbone, 40.0).encode_texts(TEXTS), [away] * len(TEXTS), atol=1e-6)


def test_in_between_a_text_is_mixed_by_hand(plain):
    backbone = load_backbone("embedded-free", device="cpu")
    backbone.add_network_parts(PARTS)
    backbone.text.turn_away(torch.arange(512.0))
    opening = 1 / (1 + np.exp(0.5))  # σ(−0.5)
    away = np.arange(512.0) / np.linalg.norm(np.arange(512.0))
    rows = opening * plain.encode_texts(TEXTS).astype(np.float64) + (1 - opening) * away
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    np.testing.assert_allclose(_shut(backbone, 0.5).encode_texts(TEXTS), rows, atol=1e-5)


@settings(max_examples=15, deadline=None)
@given(st.permutations(TEXTS), st.integers(1, 4))
def test_the_order_and_the_batch_of_texts_do_not_matter(gated, texts, size):
    alone = {text: gated.encode_texts([text])[0] for text in TEXTS}
    for start in range(0, len(texts), size):
        batch = texts[start : start + size]
        np.testing.assert_allclose(gated.encode_texts(batch), [alone[text] for text in batch], atol=1e-5)


def test_logits_are_those_that_the_rows_are_mixed_by(gated, plain):
    ids = gated.tokenize(TEXTS).ids
    with torch.no_grad():
        rows, logits = gated.embed_gated(ids)
    opening = torch.sigmoid(-logits).unsqueeze(1)
    mixed = opening * torch.from_numpy(plain.encode_texts(TEXTS)) + (1 - opening) * gated.text.away
    torch.testing.assert_close(rows, F.normalize(mixed, dim=-1), atol=1e-5, rtol=0)


def test_the_encoder_keeps_its_own_weights_and_only_the_gate_is_new(gated, plain):
    own, new = plain.text.state_dict(), gated.text.state_dict()
    assert isinstance(gated.text, GatedSentenceEncoder)
    assert all(torch.equal(new[name], tensor) for name, tensor in own.items())
    assert {name.partition(".")[0] for name in new.keys() - own.keys()} == {"gate", "away", "centre"}
    assert gated.network_parts() == PARTS


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"gate": {"width": 16, "layers": 1}},
        {"gate": {"width": 15, "layers": 1, "heads": 2}},
        {"gate": {"width": 16, "layers": 1, "heads": 2, "depth": 3}},
        {"gate": {"width": "wide", "layers": 1, "heads": 2}},
        {"gate": {"width": 0, "layers": 1, "heads": 2}},
        {"door": {}},
    ],
)
def test_parts_that_cannot_be(parts):
    backbone = load_backbone("embedded-free", device="cpu")
    with pytest.raises(CapscoreError, match="takes the parts"):
        backbone.add_network_parts(parts)
