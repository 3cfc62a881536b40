"""The text network: what it shares between texts changes nothing."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from capscore.backbones.embedded import BLOCKS, WINDOWS
from capscore.backbones.embedded.text_encoder import CHANNELS, UniversalSentenceEncoder

PIECES = BLOCKS * 400


@pytest.fixture(scope="module")
def network():
    chance = torch.Generator().manual_seed(0)
    net = UniversalSentenceEncoder(pieces=PIECES).eval()
    net.table.random_(0, 64, generator=chance)
    net.scale.uniform_(0.01, 0.02, generator=chance)
    net.offset.uniform_(-0.5, 0.5, generator=chance)
    for parameter in net.parameters():
        parameter.data.uniform_(-0.05, 0.05, generator=chance)
    return net


def batch(texts: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    longest = max(map(len, texts))
    ids, mask = torch.zeros(len(texts), longest, dtype=torch.long), torch.zeros(len(texts), longest).bool()
    for row, text in enumerate(texts):
        ids[row, : len(text)], mask[row, : len(text)] = torch.tensor(text), True
    return ids, mask


def by_hand(network, text: list[int]) -> torch.Tensor:
    """The second way: one text, one token after the other, every window written out."""
    embedded = [network.table[piece].float() for piece in text]
    embedded = [
        row * network.scale[piece % BLOCKS] + network.offset[piece % BLOCKS]
        for row, piece in zip(embedded, text, strict=True)
    ]
    projected = [network.project_norm(network.project(row)) for row in embedded]
    features = [embedded]
    for branch, (size, left) in enumerate(WINDOWS):
        rows = [row[branch * CHANNELS : (branch + 1) * CHANNELS] for row in projected]
        for layer in (network.first[branch], network.second[branch]):
            around = [torch.zeros(CHANNELS)] * left + rows + [torch.zeros(CHANNELS)] * (size - 1 - left)
            rows = [
                F.relu(layer(torch.cat(around[place : place + size]))) + rows[place]
                for place in range(len(text))
            ]
        features.append(rows)
    return torch.stack([network.token_norm(torch.cat(own)) for own in zip(*features, strict=True)])


TEXTS = [
    [7, 8, 9, 10, 11, 12, 13, 14, 15],
    [7, 8, 9, 10, 12, 13, 14, 15],  # without a word
    [7, 8, 9, 10, 11, 12, 13, 14, 15],
    [7],
    [3, 3, 3, 3, 3, 3],
    [0, 0, 7],  # the piece that also fills the batch up
]


def test_tokens_are_those_of_a_text_alone_by_hand(network):
    ids, mask = batch(TEXTS)
    with torch.inference_mode():
        found = network.tokens(ids, mask)
        for row, text in enumerate(TEXTS):
            torch.testing.assert_close(found[row, : len(text)], by_hand(network, text), rtol=0, atol=1e-5)
    assert not found[~mask].any()


@torch.inference_mode()
def test_order_and_company_do_not_matter(network):
    together = network(*batch(TEXTS))
    backwards = network(*batch(TEXTS[::-1]))
    torch.testing.assert_close(backwards.flip(0), together, rtol=0, atol=1e-6)
    for row, text in enumerate(TEXTS):
        torch.testing.assert_close(network(*batch([text]))[0], together[row], rtol=0, atol=1e-6)


@torch.inference_mode()
def test_batches_with_very_many_different_tokens(network):
    """So many that the number of a window of five has more than 62 bits."""
    chance = torch.Generator().manual_seed(1)
    texts = torch.randperm(PIECES, generator=chance)[:6400].view(64, 100).tolist()
    together = network(*batch(texts))
    for row in (0, 40, 63):
        torch.testing.assert_close(network(*batch([texts[row]]))[0], together[row], rtol=0, atol=1e-6)


def test_what_texts_share_is_computed_once(network, monkeypatch):
    asked = []
    hook = network.second[2].register_forward_hook(lambda layer, given, result: asked.append(len(given[0])))
    with torch.inference_mode():
        network.tokens(*batch([TEXTS[0]] * 50 + [TEXTS[4]]))
    hook.remove()
    # nine tokens, each with its own neighbours, and the six of the other text, of which two are alike
    assert asked == [9 + 6] and len(set(TEXTS[4])) == 1


def test_gradients_are_those_of_texts_one_by_one(network):
    ids, mask = batch(TEXTS)
    goal = torch.randn(len(TEXTS), ids.shape[1], 1280, generator=torch.Generator().manual_seed(2))
    names = ["project.weight", "first.2.weight", "second.0.bias", "token_norm.weight"]
    parameters = [dict(network.named_parameters())[name] for name in names]
    found = torch.autograd.grad((network.tokens(ids, mask) * goal).sum(), parameters)
    alone = sum((by_hand(network, text) * goal[row, : len(text)]).sum() for row, text in enumerate(TEXTS))
    for one, other in zip(found, torch.autograd.grad(alone, parameters), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
