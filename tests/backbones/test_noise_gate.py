"""The gate beside the embedded text encoder: what it reads, what it says of a text, and what that does."""

import numpy as np
import pytest
import torch

from capscore import CapscoreError
from capscore.backbones.embedded import noise_gate
from capscore.backbones.embedded.noise_gate import FOUND, joined_verdict, sentence_cuts, turned_away
from tools.tiny.gate import PARTS

SENTENCES = ["a dog runs on the beach with a ball.", "two black cats sleep on a big sofa."]
SENTENCES.append("ein Hund bellt laut auf der kleinen Wiese.")
TEXTS = ["a dog runs on the beach", "ein Hund", "犬が走る。", " ".join(SENTENCES), "dog dog dog"]


@pytest.fixture(scope="module")
def plain(backbones):
    return backbones("image tower")


@pytest.fixture(scope="module")
def gated(backbones):
    return backbones("noise gate")


def pieces_of(text: str) -> list[str]:
    """Words as pieces, punctuation apart, as SentencePiece has them."""
    pieces: list[str] = []
    for word in text.split():
        core = word.rstrip(".!?…,\"”)'")
        if core:
            pieces.append("▁" + core)
        pieces += list(word[len(core) :])
    return pieces


@pytest.mark.parametrize(
    "parts",
    [
        ["two dogs"],
        ["a dog runs home with a ball.", "it is brown and has a red collar"],
        # noise moves full stops: in a short text a part has at least eight pieces
        ["runs home. a dog brown the ball with"],
        ["a dog runs home. it is brown"],
        ["An old man reads “the news today.”", "He is old now and wears a hat"],
        ["is it a cat that sits there?", "a dog is here on the sofa!"],
        ["mr. smith reads on a bench."] * 12,
        ["a man reads on a bench."] * 12,
    ],
)
def test_a_text_is_cut_into_its_sentences(parts):
    pieces = pieces_of(" ".join(parts))
    cuts = sentence_cuts(pieces)
    between = zip([0, *cuts], cuts, strict=False)
    assert ["".join(pieces[a:b]).replace("▁", " ").strip() for a, b in between] == parts


def test_full_width_signs_need_no_blank_and_words_are_never_cut():
    pieces = list("犬が走っている。猫が寝ている。" * 4)
    assert sentence_cuts(pieces) == [8, 15, 23, 30, 38, 45, 53, 60]
    pieces = ["▁dog", "s"] * 150
    cuts = sentence_cuts(pieces)
    assert cuts[-1] == 300 and len(cuts) == 4 and max(np.diff([0, *cuts])) <= noise_gate.LONGEST + 8
    assert all(pieces[cut].startswith("▁") for cut in cuts[:-1])


def test_a_repeat_is_seen_where_it_is_and_nowhere_else():
    seen = noise_gate.repeats(torch.tensor([[7, 7, 3, 7]]))
    assert seen.shape == (1, 4, noise_gate.REACH)
    # token 1 stood one earlier; token 3 two and three earlier
    assert seen.nonzero().tolist() == [[0, 1, 0], [0, 3, 1], [0, 3, 2]]


def test_the_curve_by_hand():
    network = noise_gate.GatedSentenceEncoder(17, width=8, layers=1, heads=2)
    network.curve.copy_(torch.tensor([0.5, 2.0]))
    # openness 0.731059, 0.5, 0.268941: the last keeps (0.268941 / 0.5)²
    kept = network.kept(torch.tensor([-1.0, 0.0, 1.0]))
    assert kept.tolist() == pytest.approx([1.0, 1.0, 0.289318], abs=1e-6)


def test_a_photo_beside_the_direction_keeps_its_share_of_the_cosine():
    rows, photo = torch.tensor([[0.6, 0.8, 0.0], [0.0, 1.0, 0.0]]), torch.tensor([1.0, 0.0, 0.0])
    turned = turned_away(rows, torch.tensor([0.25, 0.0]), torch.tensor([0.0, 0.0, 1.0]))
    assert (turned @ photo).tolist() == pytest.approx([0.15, 0.0], abs=1e-6)
    assert turned.norm(dim=1).tolist() == pytest.approx([1.0, 1.0], abs=1e-6)


def test_the_verdict_on_a_text_is_that_on_each_sentence(gated, plain):
    rows, verdicts = gated.encode_judged(gated.tokenize(TEXTS).ids)
    assert verdicts.shape == (5, 1 + len(FOUND)) and verdicts.dtype == np.float32
    assert np.ptp(verdicts[:, 0]) > 1e-3
    np.testing.assert_allclose(rows, gated.encode_texts(TEXTS), atol=1e-6)
    # a second computation: the network's parts alone, one text at a time
    network = gated.text

    def alone(pieces):
        ids = torch.tensor([pieces])
        with torch.no_grad():
            found = network.read(ids, torch.ones_like(ids))
            return network.kept(found.noise)[0].item(), found.kinds.softmax(dim=-1)[0].numpy()

    tokens = gated.tokenize(TEXTS).ids
    for number in (0, 1, 2, 4):
        kept, kinds = alone(tokens[number])
        assert abs(kept - verdicts[number, 0]) < 1e-6
        np.testing.assert_allclose(kinds, verdicts[number, 1:], atol=1e-6)
    stop = gated.tokenize(["a. b"]).ids[0][2]
    parts = [[*ids[:-1], stop, ids[-1]] for ids in gated.tokenize(SENTENCES).ids]
    parts[-1].remove(stop)  # the one at the end of the text is not read
    lengths = np.array(list(map(len, parts))) - 2
    kept, kinds = (np.array(values) for values in zip(*map(alone, parts), strict=True))
    assert abs(verdicts[3, 0] - (kept * lengths).sum() / lengths.sum()) < 1e-6
    # its noise is that of the sentences that lose something, by how much they lose
    weights = lengths * (1 - kept) + 1e-6 * lengths
    np.testing.assert_allclose(verdicts[3, 1:], (weights / weights.sum()) @ kinds, atol=1e-5)
    of_texts, of_verdicts = torch.from_numpy(plain.encode_texts(TEXTS)), torch.from_numpy(verdicts[:, 0])
    np.testing.assert_allclose(rows, turned_away(of_texts, of_verdicts, network.away), atol=1e-6)


def test_a_sentence_that_is_said_again_keeps_nothing(gated):
    verdicts = torch.tensor([[0.8, 1, 0, 0, 0, 0, 0], [0.5, 0, 0, 1, 0, 0, 0], [0.8, 1, 0, 0, 0, 0, 0]])
    lengths = torch.tensor([2.0, 1.0, 1.0])
    kept = joined_verdict(verdicts, lengths, ["A dog runs.", "It barks.", "a dog runs"])
    # 0.5 · 0.8 + 0.25 · 0.5; 0.1 is lost in the first, 0.125 in the second, 0.25 in the last
    assert kept.tolist() == pytest.approx([0.525, 0.210526, 0.526316, 0.263158, 0, 0, 0], abs=1e-5)
    assert joined_verdict(verdicts, lengths, ["A dog.", "It barks.", "A cat."])[0] == pytest.approx(0.725)
    twice = gated.encode_judged(gated.tokenize(["A dog runs on the long and yellow beach. " * 2]).ids)[1]
    once = gated.encode_judged(gated.tokenize(["A dog runs on the long and yellow beach. It."]).ids)[1]
    assert twice[0, 0] < 0.51 and twice[0, 0] < once[0, 0]


TWICE = {"a dog runs. A dog runs.": 2, "A dog runs, a dog runs": 2, "a dog runs a dog runs": 2}


@pytest.mark.parametrize(("text", "parts"), [*TWICE.items(), ("a dog runs a dog sits", 1), ("dog", 1)])
def test_a_short_text_that_says_the_same_twice_has_two_parts(gated, text, parts):
    (ids,) = gated.tokenize([text]).ids
    assert len(sentence_cuts(gated.tokenizer.pieces(ids[1:-1]))) == parts


def test_a_gated_text_is_read_far_beyond_the_context(gated):
    tokens = gated.tokenize(["dog " * 505, "dog. " * 900, "dog " * 5000])
    assert tokens.truncated.tolist() == [False, True, True]
    assert list(map(len, tokens.ids)) == [507, 1801, 4096] and tokens.ids[2][-1] == 2


CHANGES = {"width": 15}, {"depth": 3}, {"width": "wide"}, {"layers": 0}, {"width": 10**6}


def test_impossible_parts_are_refused(plain):
    sizes = [None, {"width": 16, "layers": 1}, *(PARTS["noise_gate"] | change for change in CHANGES)]
    for parts in (*({"noise_gate": wrong} for wrong in sizes), {"door": PARTS["noise_gate"]}):
        with pytest.raises(CapscoreError, match="takes no such parts"):
            plain.add_network_parts(parts)
