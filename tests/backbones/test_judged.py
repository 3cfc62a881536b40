"""Embedding and verdict of a text come from one pass of the text network."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from capscore import load_backbone
from capscore.backbones.embedded.noise_gate import FOUND, GatedSentenceEncoder, turned_away

from .tiny_eye import write_eye
from .tiny_gate import with_gate

SENTENCES = ["A dog runs on the beach.", "Two cats sleep on a sofa.", "Ein Hund bellt laut."]
TEXTS = ["a dog runs on the beach", "ein Hund", "犬が走る。", " ".join(SENTENCES), "dog dog dog"]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return load_backbone(write_eye(tmp_path_factory.mktemp("eyes") / "small"), device="cpu")


@pytest.fixture(scope="module")
def gated(tmp_path_factory):
    folder = write_eye(tmp_path_factory.mktemp("eyes") / "small")
    return with_gate(load_backbone(folder, device="cpu"))


def test_the_verdict_is_that_of_the_gate_on_each_sentence(gated, plain):
    rows, verdicts = gated.encode_judged(gated.tokenize(TEXTS).ids)
    assert verdicts.shape == (5, 1 + len(FOUND)) and verdicts.dtype == np.float32
    assert np.ptp(verdicts[:, 0]) > 1e-3
    np.testing.assert_allclose(verdicts[:, 1:].sum(axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(rows, gated.encode_texts(TEXTS), atol=1e-6)
    # a second computation: the network's parts alone, one text at a time
    network = gated.text

    def alone(text):
        ids = torch.tensor(gated.tokenize([text]).ids)
        with torch.no_grad():
            found = network.read(ids, torch.ones_like(ids))
            return network.kept(found.noise)[0].item(), found.kinds.softmax(dim=-1)[0].numpy()

    for number in (0, 1, 2, 4):
        kept, kinds = alone(TEXTS[number])
        assert abs(kept - verdicts[number, 0]) < 1e-6
        np.testing.assert_allclose(kinds, verdicts[number, 1:], atol=1e-6)
    lengths = np.array([len(gated.tokenize([text]).ids[0]) - 2 for text in SENTENCES])
    kept = np.array([alone(text)[0] for text in SENTENCES])
    assert abs(verdicts[3, 0] - (kept * lengths).sum() / lengths.sum()) < 1e-6
    expected = turned_away(
        torch.from_numpy(plain.encode_texts(TEXTS)), torch.from_numpy(verdicts[:, 0]), network.away
    )
    np.testing.assert_allclose(rows, expected.numpy(), atol=1e-6)


def test_the_network_reads_each_text_once(gated, monkeypatch):
    read = []
    tokens = GatedSentenceEncoder.tokens
    monkeypatch.setattr(
        GatedSentenceEncoder,
        "tokens",
        lambda self, ids, mask: read.append(int(mask.sum())) or tokens(self, ids, mask),
    )
    short = [TEXTS[number] for number in (0, 1, 2, 4)]
    ids = gated.tokenize(short).ids
    gated.encode_judged(ids)
    assert sum(read) == sum(map(len, ids))


def test_without_a_gate_there_is_no_verdict(plain):
    rows, verdicts = plain.encode_judged(plain.tokenize(TEXTS).ids)
    assert verdicts.shape == (5, 0) and plain.kinds_of_noise == ()
    np.testing.assert_allclose(rows, plain.encode_texts(TEXTS), atol=1e-6)


def test_no_text_at_all(gated):
    rows, verdicts = gated.encode_judged([])
    assert rows.shape == (0, 512) and verdicts.shape == (0, 7)


def test_a_gate_can_be_trained_through_the_embedding(gated):
    gated.text.requires_grad_(True)
    try:
        rows = gated.embed_tokens(gated.tokenize(TEXTS).ids)
        (rows @ rows[0].detach()).sum().backward()
        assert gated.text.gate.whole.weight.grad.abs().max() > 0
    finally:
        gated.text.zero_grad()
        gated.text.requires_grad_(False)
