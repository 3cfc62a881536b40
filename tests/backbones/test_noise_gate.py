"""The gate beside the embedded text encoder."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from capscore import CapscoreError, load_backbone
from capscore.backbones.embedded.noise_gate import REACH, GatedSentenceEncoder, repeats, turned_away

pytestmark = pytest.mark.usefixtures("embedded_is_read_once")

PARTS = {"noise_gate": {"width": 16, "layers": 1, "heads": 2}}
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
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return _with_gate()


def _with_gate():
    backbone = load_backbone("embedded-free", device="cpu")
    backbone.add_network_parts(PARTS)
    backbone.text.turn_to(torch.arange(512.0))
    return backbone


def _which_says(noise: float):
    """A backbone whose gate says the same of every text."""
    backbone = _with_gate()
    with torch.no_grad():
        backbone.text.gate.whole.weight.zero_()
        backbone.text.gate.whole.bias.zero_()
        backbone.text.gate.whole.bias[0] = noise
    return backbone


def test_a_repeat_is_seen_where_it_is_and_nowhere_else():
    seen = repeats(torch.tensor([[7, 7, 3, 7]]))
    assert seen.shape == (1, 4, REACH)
    # token 1 stood one earlier; token 3 two and three earlier
    assert seen.nonzero().tolist() == [[0, 1, 0], [0, 3, 1], [0, 3, 2]]


def test_what_is_kept_whole_stays_as_it_is_and_what_is_taken_goes_away(plain):
    rows = plain.encode_texts(TEXTS)
    np.testing.assert_allclose(_which_says(-100.0).encode_texts(TEXTS), rows, atol=1e-6)
    gone = _which_says(100.0).encode_texts(TEXTS)
    np.testing.assert_allclose((gone * rows).sum(axis=1), 0, atol=1e-5)


def test_in_between_a_row_is_turned_by_hand(plain):
    rows = plain.encode_texts(TEXTS).astype(np.float64)
    kept = 1 / (1 + np.exp(0.5))
    away = np.arange(512.0) / np.linalg.norm(np.arange(512.0))
    side = away - (rows @ away)[:, None] * rows
    side /= np.linalg.norm(side, axis=1, keepdims=True)
    expected = kept * rows + np.sqrt(1 - kept**2) * side
    np.testing.assert_allclose(_which_says(0.5).encode_texts(TEXTS), expected, atol=1e-5)


def test_a_photo_beside_the_direction_keeps_its_share_of_the_cosine():
    rows = torch.tensor([[0.6, 0.8, 0.0], [0.0, 1.0, 0.0]])
    photo = torch.tensor([1.0, 0.0, 0.0])
    turned = turned_away(rows, torch.tensor([0.25, 0.0]), torch.tensor([0.0, 0.0, 1.0]))
    assert (turned @ photo).tolist() == pytest.approx([0.15, 0.0], abs=1e-6)
    assert turned.norm(dim=1).tolist() == pytest.approx([1.0, 1.0], abs=1e-6)


def test_the_curve_by_hand(gated):
    network = _with_gate().text
    with torch.no_grad():
        network.curve.copy_(torch.tensor([0.5, 2.0]))
    # openness 0.731059, 0.5, 0.268941: the last keeps (0.268941 / 0.5)²
    kept = network.kept(torch.tensor([-1.0, 0.0, 1.0]))
    assert kept.tolist() == pytest.approx([1.0, 1.0, 0.289318], abs=1e-6)


@settings(max_examples=15, deadline=None)
@given(st.permutations(TEXTS), st.integers(1, 4))
def test_the_order_and_the_batch_of_texts_do_not_matter(gated, texts, size):
    alone = {text: gated.encode_texts([text])[0] for text in TEXTS}
    for start in range(0, len(texts), size):
        batch = texts[start : start + size]
        np.testing.assert_allclose(gated.encode_texts(batch), [alone[text] for text in batch], atol=1e-5)


def test_the_encoder_keeps_its_own_weights_and_only_the_gate_is_new(gated, plain):
    own, new = plain.text.state_dict(), gated.text.state_dict()
    assert isinstance(gated.text, GatedSentenceEncoder)
    assert all(torch.equal(new[name], tensor) for name, tensor in own.items())
    assert {name.partition(".")[0] for name in new.keys() - own.keys()} == {"gate", "away", "curve"}
    assert gated.network_parts() == PARTS


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"noise_gate": {"width": 16, "layers": 1}},
        {"noise_gate": {"width": 15, "layers": 1, "heads": 2}},
        {"noise_gate": {"width": 16, "layers": 1, "heads": 2, "depth": 3}},
        {"noise_gate": {"width": "wide", "layers": 1, "heads": 2}},
        {"noise_gate": {"width": 0, "layers": 1, "heads": 2}},
        {"noise_gate": {"width": 16, "layers": 1, "heads": 0}},
        {"door": {}},
    ],
)
def test_parts_that_cannot_be(parts):
    backbone = load_backbone("embedded-free", device="cpu")
    with pytest.raises(CapscoreError):
        backbone.add_network_parts(parts)
