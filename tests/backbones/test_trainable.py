"""What fine-tuning needs of every kind of backbone: gradients to its text tower, then a new identity."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from capscore import CapscoreError, InputError, load_backbone
from capscore.backbones.embedded.text_encoder import UniversalSentenceEncoder

from ..toy import ColourBackbone
from .tiny_kinds import KINDS, Checkpoint
from .tiny_transformers import TEXTS

CAPTIONS = [text for text in TEXTS if text]


@pytest.fixture(scope="module", params=KINDS)
def checkpoint(request, tmp_path_factory):
    return Checkpoint(request.param, tmp_path_factory.mktemp("kind"))


@pytest.fixture(scope="module")
def untouched(checkpoint):
    return checkpoint.load()


@pytest.fixture
def backbone(untouched):
    return copy.deepcopy(untouched)


def outside(backbone) -> list[nn.Parameter]:
    """Parameters of the model that are not the text network's."""
    own = {id(parameter) for parameter in backbone.text_network().parameters()}
    modules = [value for value in vars(backbone).values() if isinstance(value, nn.Module)]
    if hasattr(backbone, "_image"):
        modules.append(backbone._image._model)
    found = [parameter for module in modules for parameter in module.parameters()]
    return [parameter for parameter in found if id(parameter) not in own]


def step(backbone, rate: float = 0.05) -> None:
    """One step of gradient descent that drives the captions' embeddings apart."""
    network = backbone.text_network().requires_grad_(True)
    optimizer = torch.optim.SGD(network.parameters(), lr=rate)
    rows = backbone.embed_tokens(backbone.tokenize(CAPTIONS).ids)
    (rows @ rows.T).pow(2).mean().backward()
    optimizer.step()


def test_embed_tokens_gives_the_numbers_of_encode_tokens(untouched):
    ids = untouched.tokenize(CAPTIONS).ids
    rows = untouched.embed_tokens(ids)
    assert rows.dtype == torch.float32 and rows.shape == (len(CAPTIONS), untouched.dim)
    # torch takes another way through attention where gradients are wanted
    np.testing.assert_allclose(rows.detach().numpy(), untouched.encode_tokens(ids), atol=2e-6)
    np.testing.assert_allclose(rows.detach().norm(dim=1).numpy(), 1.0, atol=1e-6)
    assert not torch.is_inference(rows)
    assert untouched.embed_tokens([]).shape == untouched.encode_tokens([]).shape == (0, untouched.dim)


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_gradients_reach_the_text_tower_and_nothing_else(backbone, mode):
    backbone.encode_texts(CAPTIONS)  # what inference leaves behind must not be in the way
    backbone.encode_images([Image.new("RGB", (40, 30))])
    network = backbone.text_network().requires_grad_(True).train(mode == "train")
    rows = backbone.embed_tokens(backbone.tokenize(CAPTIONS).ids)
    (rows[0] @ rows[1]).backward()
    silent = [name for name, parameter in network.named_parameters() if parameter.grad is None]
    assert silent == []
    moved = [name for name, parameter in network.named_parameters() if parameter.grad.abs().max() > 0]
    assert len(moved) > 0.6 * len(list(network.parameters()))
    others = outside(backbone)
    assert others
    assert all(parameter.grad is None for parameter in others)


def test_a_step_moves_texts_and_not_images(backbone, untouched):
    photo = Image.linear_gradient("L").convert("RGB")
    images = [photo]
    said = (backbone.name, backbone.revision, backbone.fingerprint)
    step(backbone)
    assert np.abs(backbone.encode_texts(CAPTIONS) - untouched.encode_texts(CAPTIONS)).max() > 1e-3
    np.testing.assert_allclose(
        backbone.encode_images(images), untouched.encode_images(images), rtol=0, atol=1e-6
    )

    again = backbone.remade(name="moved", languages=["ja", "de-CH"])
    assert (backbone.name, backbone.revision, backbone.fingerprint) == said
    assert again.fingerprint != said[2] and again.revision != said[1]
    assert again.name == "moved" and again.languages == {"ja", "de"}
    assert (again.dim, again.prefix, again.max_tokens) == (backbone.dim, backbone.prefix, backbone.max_tokens)
    assert again.text_network() is backbone.text_network(), "shared, not copied"
    np.testing.assert_allclose(
        again.encode_texts(CAPTIONS), backbone.encode_texts(CAPTIONS), rtol=0, atol=1e-6
    )


def test_what_did_not_move_is_the_same_when_remade(backbone):
    backbone.encode_texts(CAPTIONS)
    backbone.text_network().requires_grad_(True).train()
    again = backbone.remade()
    assert (again.name, again.revision, again.fingerprint) == (
        backbone.name,
        backbone.revision,
        backbone.fingerprint,
    )
    assert again.languages == backbone.languages
    assert backbone.text_network().training, "a look at the fingerprint does not end the training"
    assert all(parameter.requires_grad for parameter in backbone.text_network().parameters())
    named = backbone.remade(revision="0" * 40)
    assert named.revision.startswith("0" * 40) and named.fingerprint == backbone.fingerprint
    with pytest.raises(InputError):
        backbone.remade(languages=["nothing"])


def test_the_text_network_has_the_same_names_each_time(checkpoint, untouched):
    first, second = checkpoint.load().text_network().state_dict(), untouched.text_network().state_dict()
    assert list(first) == list(second) and all(map(torch.equal, first.values(), second.values()))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_gradients_on_a_gpu(checkpoint):
    tower = checkpoint.image_tower
    backbone = load_backbone(checkpoint.spec, device="cuda", image_tower=tower)
    network = backbone.text_network().requires_grad_(True)
    rows = backbone.embed_tokens(backbone.tokenize(CAPTIONS).ids)
    (rows[0] @ rows[1]).backward()
    assert rows.is_cuda and all(parameter.grad is not None for parameter in network.parameters())


# What cannot be fine-tuned


def test_a_backbone_that_shows_no_network_says_so():
    backbone = ColourBackbone()
    for call in (
        backbone.text_network,
        lambda: backbone.embed_tokens([[0, 1, 4]]),
        backbone.remade,
    ):
        with pytest.raises(CapscoreError):
            call()


# Parts


class Gated(UniversalSentenceEncoder):
    """The text network with one module more, as parts describe it; at first it changes nothing."""

    def __init__(self, text: UniversalSentenceEncoder, parts: dict):
        super().__init__(pieces=len(text.table))
        self.load_state_dict(text.state_dict())
        self.project_norm.eps, self.token_norm.eps = text.project_norm.eps, text.token_norm.eps
        self.parts = parts
        self.gate = nn.Linear(512, parts["width"], dtype=torch.float64)
        nn.init.zeros_(self.gate.weight)
        nn.init.zeros_(self.gate.bias)

    def forward(self, ids, mask):
        rows = super().forward(ids, mask)
        return rows + self.gate(rows.to(self.gate.weight.dtype)).float().mean(dim=1, keepdim=True)


@pytest.fixture
def gates(monkeypatch):
    monkeypatch.setattr("capscore.backbones.embedded.backbone.gated", Gated)


@pytest.mark.parametrize("name", ["embedded", "embedded-free"])
def test_parts_are_added_to_the_embedded_text_network(gates, name):
    backbone = load_backbone(name, device="cpu", dtype="bf16")
    before = backbone.encode_texts(CAPTIONS)
    assert backbone.network_parts() is None
    backbone.add_network_parts({"width": 3})
    assert backbone.network_parts() == {"width": 3}
    assert backbone.text_network().gate.weight.dtype == torch.bfloat16, "cast as the rest of it is"
    assert not backbone.text_network().training
    np.testing.assert_allclose(backbone.encode_texts(CAPTIONS), before, rtol=0, atol=1e-6)
    assert backbone.remade().fingerprint != backbone.fingerprint
    with pytest.raises(CapscoreError):
        backbone.add_network_parts({"width": 4})
