"""PR-MCS on captions that nobody expects: numbers, always, whatever stands beside them."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import capscore
from capscore.backbones.embedded.noise_gate import FOUND
from capscore.embedding.embedder import Embedder

from ..backbones.tiny_eye import write_eye
from ..backbones.tiny_gate import with_gate
from ..shipped_weights import pr_mcs_on
from ..toy import RED

SENTENCES = [
    "A brown dog runs on the beach.",
    "Two cats sleep on a red sofa.",
    "A man rides a bike in the street.",
    "A woman reads a book in the park.",
    "Three boys play football on the grass.",
    "A white boat lies in the harbour.",
    "An old man sits on a bench.",
    "A girl eats an apple at the table.",
    "Some birds fly over the blue sea.",
    "A black horse stands in a field.",
]
SPOILT = "A woman woman woman reads reads a a book book in in the the park park."
LONG = " ".join(SENTENCES * 30)  # 2,130 words
HOSTILE = {
    "empty": "",
    "blanks": " \t\n\u3000",
    "one sign": "!",
    "full stops": "." * 500,
    "an emoji": "🐱",
    "emoji": "🐱🐶👩‍👩‍👧🇩🇪" * 20,
    "an address": "https://example.org/photos/a-dog?size=9&of=cat#x",
    "digits": "1234567890" * 300,
    "a long word": "c" * 3000,
    "2,000 words": LONG,
    "2,000 words without a full stop": LONG.replace(".", "").lower(),
    "one word 2,000 times": "cat " * 2000,
    "2,000 signs without a blank": "猫がカメラを見ている" * 200,
    "many full stops": "一只猫看着镜头。" * 100,
    "scripts": "A cat кошка 猫 قطة แมว sits",
    "zero width": "a\u200b cat\u200d looks\ufeff to the side",
    "directions": "a \u202ecat\u202c sits",
    "combining": "e\u0301" * 200,
    "control characters": "a\x00cat\x07",
    "unknown letters": "\U00013000\U00013001 \U0001f9ff\ue000",
}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return capscore.load_backbone(write_eye(tmp_path_factory.mktemp("eyes") / "small"), device="cpu")


@pytest.fixture(scope="module")
def gated(plain):
    return with_gate(copy.copy(plain))


@pytest.fixture(scope="module")
def shipped(base_of_pr_mcs):
    return pr_mcs_on(base_of_pr_mcs)


def scored(metric, backbone, captions, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the recipe, and of captions that were cut
        scorer = capscore.load(metric, backbone=backbone, cache=False, empty="score", **options)
        return scorer.score(captions, [RED] * len(captions))


def verdicts_of(backbone, captions):
    return backbone.encode_judged(backbone.tokenize(captions).ids)[1]


def kept_of(backbone, captions):
    return verdicts_of(backbone, captions)[:, 0]


@pytest.mark.parametrize("name", ["gated", "shipped"])
def test_each_has_a_score_and_a_verdict(name, request):
    found = scored("pr_mcs", request.getfixturevalue(name), [*HOSTILE.values()])
    assert np.isfinite(found.scores).all() and (found.scores >= 0).all()
    for told in found.details:
        assert 0 <= told["kept"] <= 1 and told["lost"] == 1 - told["kept"]
        assert told["kind"] in FOUND and 1 / len(FOUND) - 1e-6 < told["p_kind"] <= 1 + 1e-6


def test_what_keeps_all_of_its_score_has_that_of_mcs(plain, gated):
    opened = copy.deepcopy(gated, {id(gated.tokenizer): gated.tokenizer})
    with torch.no_grad():
        opened.text.gate.whole.weight.zero_()
        opened.text.gate.whole.bias.fill_(-40.0)
    captions = [*HOSTILE.values(), *SENTENCES]
    found = scored("pr_mcs", opened, captions)
    assert [told["kept"] for told in found.details] == [1.0] * len(captions)
    np.testing.assert_allclose(found.scores, scored("mcs", plain, captions).scores, rtol=0, atol=1e-6)


@given(st.permutations([*HOSTILE]), st.integers(1, 9), st.data())
@settings(max_examples=3)
def test_order_duplicates_and_batch_size_do_not_matter(gated, alone, names, batch_size, data):
    names = [*names, *data.draw(st.lists(st.sampled_from(names), max_size=4))]
    rows = Embedder(gated, batch_size=batch_size, progress=False).texts([HOSTILE[name] for name in names])
    for name, place in zip(names, rows.index.tolist(), strict=True):
        np.testing.assert_allclose(rows.verdicts[place], alone[name][1], atol=1e-5)
        np.testing.assert_allclose(rows.matrix[place], alone[name][0], atol=1e-5)


@pytest.fixture(scope="module")
def alone(gated):
    """Embedding and verdict of each hostile caption by itself."""
    found = {name: gated.encode_judged(gated.tokenize([text]).ids) for name, text in HOSTILE.items()}
    return {name: (rows[0], verdicts[0]) for name, (rows, verdicts) in found.items()}


def test_a_long_caption_is_the_mean_of_its_sentences(gated):
    lengths = np.array([len(gated.tokenize([text]).ids[0]) - 2 for text in SENTENCES])
    kept = kept_of(gated, SENTENCES)
    assert np.ptp(kept) > 1e-3
    (whole,) = kept_of(gated, [LONG])
    assert abs(whole - (kept * lengths).sum() / lengths.sum()) < 1e-5


def test_one_spoilt_sentence_of_ten_costs_its_share(shipped):
    right, wrong = SENTENCES[3], SPOILT
    texts = [" ".join(SENTENCES), " ".join([*SENTENCES[:3], wrong, *SENTENCES[4:]]), right, wrong]
    before, after, *_, lost = *kept_of(shipped, texts)[:2], 1 - kept_of(shipped, texts)[3]
    lengths = [len(shipped.tokenize([text]).ids[0]) - 2 for text in texts]
    assert before > 0.8 and lost > 0.7
    assert before - after == pytest.approx(lengths[3] / lengths[1] * lost, abs=0.1)
    assert FOUND[verdicts_of(shipped, texts)[1, 1:].argmax()] == "repetition"


def test_text_behind_the_last_sentence_that_the_encoder_reads_counts(shipped):
    """The encoder reads 512 pieces, the gate 4,096."""
    noise = " ".join([SPOILT] * 60)
    before, after = kept_of(shipped, [LONG[:6000], f"{LONG[:6000]} {noise}"])
    assert before > 0.8 and after < before - 0.2


def test_the_fast_path_of_torch_gives_the_same(gated):
    texts = [*SENTENCES, *(text for text in HOSTILE.values() if len(text) < 300)]
    ids = gated.tokenize(texts).ids
    fast = gated.encode_judged(ids)
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        slow = gated.encode_judged(ids)
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    for one, other in zip(fast, slow, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
