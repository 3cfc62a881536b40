"""What the network of capscore-weights has beyond the paper, by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from capscore.embedding.embedder import Embedder
from capscore.errors import CapscoreError
from capscore.infometic.network import InfoMetIC, InfoMetICConfig
from tests.training.data.test_word_pollution import CAPTION, WORDS
from tools.tiny.captions import EIGHT
from training.data.alignment_batches import AlignmentBatches
from training.data.rows import Row
from training.data.word_pollution import any_frequent, pollute
from training.engine.infometic_losses import AlignmentLoss
from weights.making.infometic_network import (
    LikeOptions,
    Settings,
    alike_or_frequent,
    like_words,
    prepare_context,
    set_sharpness,
)

pytestmark = pytest.mark.usefixtures("embedded_is_read_once")


def features(rows, backbone, folder, **options):
    return prepare_context(rows, Embedder(backbone), LikeOptions(**options), folder)


@pytest.fixture(scope="module")
def eight(embedded_free, tmp_path_factory):
    rows = [Row(text, "en", stand_in=(other,), region_texts=tuple(parts)) for text, other, parts, _ in EIGHT]
    return features(rows, embedded_free, tmp_path_factory.mktemp("features"))


def on_a_circle(degrees):
    def embed(words):
        turned = np.radians([degrees[word] for word in words])
        return np.stack([np.cos(turned), np.sin(turned)], axis=1)

    return embed


def test_words_like_a_word_come_in_order_without_the_very_first():
    degrees = {"dog": 0, "Man": 90, "puppy": 5, "cat": 20, "woman": 100, "car": 60, "red": 0, "blue": 40}
    frequent = {"noun": ["dog", "Man", "puppy", "cat", "woman", "car"], "adjective": ["red", "blue"]}
    found = like_words(frequent, on_a_circle(degrees))
    # 20, 60, 90 and 100 degrees away; puppy is the very first
    assert found["noun"]["dog"] == ["cat", "car", "Man", "woman"]
    assert found["noun"]["man"] == ["car", "cat", "puppy", "dog"]
    # of two words, the other one is the very first
    assert found["adjective"] == {"red": [], "blue": []}
    # words as like as each other come by their frequency, and at most 24
    names = [f"word{number}" for number in range(30)]
    alike = on_a_circle({name: 90.0 * (name != "word3") for name in names})
    assert like_words({"noun": names}, alike)["noun"]["word3"] == [*names[1:3], *names[4:26]]


def test_a_share_of_the_words_is_replaced_by_words_like_them():
    like = {"noun": {"dogs": ["cats"], "car": ["truck"]}, "number": {"two": ["three"]}}
    frequent = {"noun": ["houses", "tree"], "adjective": ["blue"], "number": ["nine"]}
    # red has none: it is replaced by any frequent word of its class
    of_likes = {("dogs", "cats"), ("car", "truck"), ("Two", "Three"), ("red", "blue")}
    plain = {("dogs", "houses"), ("car", "tree"), ("Two", "Nine"), ("red", "blue")}
    for share, expected in ((1.0, of_likes), (0.0, plain), (0.5, of_likes | plain)):
        found = set()
        for seed in range(80):
            rng = np.random.default_rng(seed)
            choices = alike_or_frequent(any_frequent(frequent), like, share, rng)
            one = pollute(CAPTION, "en", WORDS, choices, rng)
            found.add((WORDS[one.replaced].text, one.words[one.replaced].text))
        assert found == expected


def test_planted_words_are_like_those_they_replace(embedded_free, tmp_path):
    nouns = "dog cat horse cow sheep goat bird duck".split()
    rows = [Row(f"the {noun}", "en", stand_in=(noun,)) for noun in nouns]
    listed = like_words({"noun": list(nouns)}, embedded_free.encode_texts)["noun"]
    data = features(rows, embedded_free, tmp_path, pollutions=60, alike=1.0)
    for pair, noun in enumerate(nouns):
        drawn = {data.texts[text].split()[1] for text in data.polluted[pair]}
        assert drawn == {*listed[noun]} - {noun}


def test_the_context_of_words_written_out(embedded_free, tmp_path):
    captions = ("A tabby cat looks up.", "?!", "A small dog sleeps.")
    added = features([Row(text, "en", stand_in=(text,)) for text in captions], embedded_free, tmp_path)
    context = added.text_batch([0, 1]).context
    texts = ["A tabby cat looks up.", "A cat looks up.", "A tabby looks up.", "A tabby cat up."]
    whole, *without = embedded_free.encode_texts([*texts, "A tabby cat looks ."])
    # A|tab|by|cat|look|s|up
    expected = np.zeros((7, 512))
    for piece, word in ((1, 0), (2, 0), (3, 1), (4, 2), (5, 2), (6, 3)):
        expected[piece] = whole - without[word]
    np.testing.assert_allclose(context.added[0], expected, atol=2e-4)  # stored in half precision
    assert context.weight[0].tolist() == [0, 0.5, 0.5, 1, 0.5, 0.5, 1]
    # no word at all, and padding
    assert context.weight[1].tolist() == [0.0] * 7 and not context.added[1].any()
    # a polluted caption has its own words
    number = int(added.polluted[0][0])
    before, after = captions[0], added.texts[number]
    ((old, _),) = {pair for pair in zip(before.split(), after.split(), strict=True) if len(set(pair)) == 2}
    batch = added.text_batch([number])
    whole, less = embedded_free.encode_texts([after, before.replace(f"{old} ", "")])
    (word,) = np.flatnonzero(batch.labels[0] == 0)
    (pieces,) = np.nonzero(batch.shares[0, :, word].numpy())
    for piece in pieces:
        np.testing.assert_allclose(batch.context.added[0, piece], whole - less, atol=2e-4)
    assert batch.context.weight[0, pieces].sum() == pytest.approx(1)


def test_some_rows_of_text_batches_keep_their_caption(eight):
    options = {"tasks": ["text"], "batch_size": 8}
    for untouched, expected in ((0.0, {False}), (0.5, {True, False})):
        rows = AlignmentBatches(eight, np.arange(8), untouched=untouched, **options).batch(0, 0)
        kept = [row.text == eight.pair_text[row.pair] for row in rows]
        assert {*kept} == expected and kept == [row.other == -1 for row in rows]
        assert all(row.caption == eight.texts[row.text] for row in rows)


def test_terms_have_weights_and_pollution_compares_precision(eight):
    torch.manual_seed(0)
    sizes = InfoMetICConfig(512, context_width=4, width=32, heads=2, intra_layers=1, inter_layers=1)
    network = InfoMetIC(sizes).eval()
    loss = AlignmentLoss(eight, weights={"text": 2.0, "pollution": 0.5})
    rows = AlignmentBatches(eight, np.arange(8), untouched=0.4, tasks=["text"], batch_size=8).batch(0, 0)
    changed = [row for row in rows if row.other >= 0]
    assert 0 < len(changed) < 8
    with torch.no_grad():
        found = loss(network, rows, lambda tensor: tensor)
        _, images = loss.images(network, changed)
        right, wrong = (
            network.pairs(images, loss.texts(network, texts)[1], range(len(changed)), range(len(changed)))
            for texts in ([row.other for row in changed], [row.text for row in changed])
        )
    expected = np.log1p(np.exp((wrong.precision - right.precision).double().numpy())).mean()
    assert found["pollution"].item() == pytest.approx(expected, abs=1e-5)
    both = 2 * found["text"].item() + 0.5 * found["pollution"].item()
    assert found["loss"].item() == pytest.approx(both, abs=1e-5)


@pytest.mark.parametrize(
    ("of_sharpness", "least", "most"),
    [
        # 10 ** (-20 / 2048), which the last halving reaches, is 0.977764747: not to be rounded up
        (lambda sharpness: 0.5 * (sharpness > 0.97776475), 0.9776, 0.97776475),
        (lambda sharpness: sharpness / 10, 0.7985, 0.8001),
        (lambda sharpness: 0.08, 9.98, 10.0),  # as many as may be are not too many
        (lambda sharpness: 0.081, 0.1, 0.1),
    ],
)
def test_sharpness_is_found_by_halving(of_sharpness, least, most):
    model = InfoMetIC(InfoMetICConfig(dim=8, heads=2, intra_layers=1))
    before = model.config
    set_sharpness(
        model, lambda model, alarms_only: {"false_alarms": of_sharpness(model.config.sharpness)}, 0.08
    )
    assert least <= model.config.sharpness <= most
    assert replace(model.config, sharpness=1.0) == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"untouched": 1.0}, r"untouched=1\.0"),
        ({"alike": 1.5}, r"alike=1\.5"),
        ({"false_alarms": 1.0}, r"false_alarms=1\.0"),
        ({"validation_share": 0.0}, "is set on validation captions, but"),
    ],
)
def test_impossible_values_are_refused(changes, message):
    with pytest.raises(CapscoreError, match=message):
        Settings(**{"out": "o", "base": "b", "data": ["d"], **changes})
