"""The network of InfoMetIC: its numbers, its switches, padding, gradients."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from capscore.errors import InputError
from capscore.infometic.alignment import InfoCLIP, WordContext
from capscore.infometic.network import InfoMetIC, InfoMetICConfig

from .forward_in_numpy import pair_scores
from .tiny_pairs import TINY, context_of, encode, encode_texts, images_of, texts_of, tiny_model

SWITCHED = {
    "as in the paper": {},
    "as in the public code": {"shared_norm": True, "text_positions": False, "global_box": True},
    "shared norm": {"shared_norm": True},
    "no text positions": {"text_positions": False},
    "no box positions": {"box_positions": False},
    "a position for the image": {"global_box": True},
    "no image in the fusion": {"global_in_fusion": False},
    "no null token": {"null_token": False},
    "input scale": {"input_scale": 1.0},
    "narrow": {"width": 4},
    "wide": {"width": 8},
    "one head": {"heads": 1},
    "no intra layers": {"intra_layers": 0},
    "no inter layers": {"inter_layers": 0},
    "one layer each": {"intra_layers": 1, "inter_layers": 1},
    "no layers": {"intra_layers": 0, "inter_layers": 0},
    "words": {"context_width": 3},
    "sharper": {"sharpness": 2.5},
    "words, narrow and blunter": {"context_width": 7, "width": 4, "sharpness": 0.5},
}
WORDS = replace(TINY, context_width=3)


@pytest.fixture(scope="module")
def model():
    return tiny_model()


def scores(model, images, texts, pairs, **padding):
    with torch.no_grad():
        return model.pairs(*encode(model, images, texts, **padding), *zip(*pairs, strict=True))


def same(found, row, expected, n_regions, n_tokens, null=True):
    """Whether row `row` of an alignment has the numbers of `pair_scores`, and 0 for padding."""
    regions = found.region_scores[row].numpy()
    tokens = found.token_scores[row].numpy()
    kept = np.concatenate([regions[:n_regions], regions[-1:] if null else []])
    assert kept == pytest.approx(expected["regions"], abs=2e-6)
    assert (regions[n_regions:-1] == 0).all() and (null or regions[-1] == 0)
    assert tokens[:n_tokens] == pytest.approx(expected["tokens"], abs=2e-6)
    assert (tokens[n_tokens:] == 0).all()
    assert found.recall[row].item() == pytest.approx(expected["recall"], abs=5e-6)
    assert found.precision[row].item() == pytest.approx(expected["precision"], abs=5e-6)


# Numbers


def test_numbers_by_hand():
    """No layers and the identity as every projection: products, softmax, mean and cosine remain."""
    config = InfoMetICConfig(
        dim=2,
        heads=1,
        intra_layers=0,
        inter_layers=0,
        text_positions=False,
        box_positions=False,
        input_scale=2.0,
    )
    model = InfoMetIC(config)
    with torch.no_grad():
        for linear in (model.region_query, model.region_key, model.token_query, model.token_key):
            linear.weight.copy_(torch.eye(2))
        model.log_scale.fill_(np.log(10.0))
    v_g, t_g = np.array([0.6, 0.8]), np.array([1.0, 0.0])
    image = (v_g, np.array([[1.0, 0.0], [0.0, 1.0]]), np.zeros((2, 4)))
    text = (t_g, np.array([[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]]))
    found = scores(model, [image], [text], [(0, 0)])
    # Everything comes in doubled. Regions: 2·2 = 4, 0, and 0 for null: e⁴ : 1 : 1.
    assert found.region_scores[0].tolist() == pytest.approx([0.964663, 0.017668, 0.017668], abs=1e-6)
    # Pieces: 4·(0.6, 1, −0.6) = 2.4, 4, −2.4.
    assert found.token_scores[0].tolist() == pytest.approx([0.167750, 0.830870, 0.001381], abs=1e-6)
    # Regions' mean: 2·(0.964663, 0.017668); its cosine with (0.6, 0.8): 0.592933 / 0.964825.
    assert found.recall.item() == pytest.approx(6.145494, abs=1e-5)
    # Pieces' mean: x = 0.167750 + 0.6·0.830870 − 0.001381 = 0.664891, y = 0.8·0.830870 = 0.664696;
    # x / √(x² + y²).
    assert found.precision.item() == pytest.approx(7.072106, abs=1e-5)
    assert found.overall.item() == pytest.approx(6.145494 + 7.072106, abs=2e-5)


def test_literal_numbers_of_a_whole_network(model):
    """As `pair_scores` gave them, written down so that the two cannot change together."""
    found = scores(model, images_of([3]), texts_of([4]), [(0, 0)])
    regions, tokens = found.region_scores[0].tolist(), found.token_scores[0].tolist()
    assert regions == pytest.approx([0.228317750, 0.080884399, 0.211064809, 0.479733042], abs=2e-6)
    assert tokens == pytest.approx([0.169810080, 0.184061182, 0.121284957, 0.524843780], abs=2e-6)
    assert found.recall.item() == pytest.approx(-0.407702073, abs=5e-6)
    assert found.precision.item() == pytest.approx(0.524221233, abs=5e-6)


@pytest.mark.parametrize("switches", SWITCHED.values(), ids=SWITCHED.keys())
def test_every_switch_against_a_second_computation(switches):
    model = tiny_model(replace(TINY, **switches))
    images, texts = images_of([3, 1]), texts_of([2, 5])
    pairs = [(0, 0), (1, 0), (0, 1), (1, 1)]
    found = scores(model, images, texts, pairs)
    for row, (i, t) in enumerate(pairs):
        context = context_of(texts[t]) if model.reads_words else None
        expected = pair_scores(model, images[i], texts[t], context)
        same(found, row, expected, len(images[i][1]), len(texts[t][1]), null=model.config.null_token)


@pytest.mark.parametrize("name", [name for name in SWITCHED if name != "as in the paper"])
def test_every_switch_changes_the_scores(model, name):
    images, texts = images_of([3]), texts_of([4])
    plain = scores(model, images, texts, [(0, 0)])
    other = tiny_model(replace(TINY, **SWITCHED[name]))
    # the same weights under the same names, so that it is the switch alone that makes the difference
    own = other.state_dict()
    shared = {name: tensor for name, tensor in model.state_dict().items() if name in own}
    if other.config.width is None:
        other.load_state_dict({**own, **shared})
    switched = scores(other, images, texts, [(0, 0)])
    same_recall = name in ("no text positions", "words", "sharper")
    assert abs(plain.recall - switched.recall).item() > 1e-4 or same_recall
    if name not in ("a position for the image", "no box positions"):
        assert abs(plain.precision - switched.precision).item() > 1e-4


def test_without_masking_texts_are_filled_up_and_the_filling_is_attended_to(model):
    loose = tiny_model(replace(TINY, mask_padding=False))
    images, texts = images_of([2]), texts_of([3])
    found = scores(loose, images, texts, [(0, 0)])
    assert found.token_scores.shape == (1, 3)
    # the same pair with two zero vectors after its pieces, which get no score
    t_g, tokens = texts[0]
    filled = np.concatenate([tokens, np.zeros((2, 6))])
    pieces, here = torch.from_numpy(filled).float()[None], torch.ones(1, 5).bool()
    scored = torch.tensor([[True, True, True, False, False]])
    states = model.encode_texts(torch.from_numpy(t_g).float()[None], pieces, here, scored)
    expected = model.pairs(encode(model, images, texts)[0], states, [0], [0])
    assert found.token_scores[0].tolist() == pytest.approx(expected.token_scores[0, :3].tolist(), abs=2e-6)
    assert found.recall.item() == pytest.approx(expected.recall.item(), abs=5e-6)
    assert found.precision.item() == pytest.approx(expected.precision.item(), abs=5e-6)
    masked = scores(model, images, texts, [(0, 0)])
    assert abs(found.recall - masked.recall).item() > 1e-3


def test_special_tokens_are_context_without_a_score(model):
    (v_g, regions, boxes), (t_g, tokens) = images_of([2])[0], texts_of([4])[0]
    image = [torch.from_numpy(part).float()[None] for part in (v_g, regions, boxes)]
    images = model.encode_images(*image, torch.ones(1, 2).bool())
    pieces, here = torch.from_numpy(tokens).float()[None], torch.ones(1, 4).bool()
    t_g = torch.from_numpy(t_g).float()[None]
    inner = torch.tensor([[False, True, True, False]])
    found = model.pairs(images, model.encode_texts(t_g, pieces, here, inner), [0], [0])
    every = model.pairs(images, model.encode_texts(t_g, pieces, here), [0], [0])
    alone = model.pairs(images, model.encode_texts(t_g, pieces[:, 1:3], here[:, 1:3]), [0], [0])
    assert found.token_scores[0, 0] == found.token_scores[0, 3] == 0
    shares = every.token_scores[0, 1:3] / every.token_scores[0, 1:3].sum()
    assert torch.allclose(found.token_scores[0, 1:3], shares, atol=1e-6)  # the same states, another softmax
    assert torch.allclose(found.region_scores, every.region_scores, atol=1e-6)
    assert not torch.allclose(found.region_scores, alone.region_scores, atol=1e-3)


# Properties


SIZES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), min_size=1, max_size=3)


@given(sizes=SIZES, more=st.integers(0, 3), fill=st.sampled_from([0.0, 7.0, float("nan"), float("inf")]))
@pytest.mark.parametrize("kind", ["plain", "words", "filled"])
def test_neither_padding_nor_the_rest_of_the_batch_matters(kind, sizes, more, fill):
    model = {"plain": MODEL, "words": MODEL_OF_WORDS, "filled": MODEL_FILLED}[kind]
    images, texts = images_of([m for m, _ in sizes]), texts_of([n for _, n in sizes])
    m = max(size for size, _ in sizes) + more
    pairs = [(i, t) for i in range(len(sizes)) for t in range(len(sizes))]
    found = scores(model, images, texts, pairs, m=m, l=5, fill=fill)
    for row, (i, t) in enumerate(pairs):
        alone = scores(model, [images[i]], [texts[t]], [(0, 0)])
        n_regions, n_tokens = sizes[i][0], sizes[t][1]
        regions = torch.cat([found.region_scores[row, :n_regions], found.region_scores[row, -1:]])
        assert torch.allclose(regions, alone.region_scores[0], atol=1e-5)
        assert (found.region_scores[row, n_regions:-1] == 0).all()
        assert torch.allclose(found.token_scores[row, :n_tokens], alone.token_scores[0], atol=1e-5)
        assert (found.token_scores[row, n_tokens:] == 0).all()
        assert found.recall[row].item() == pytest.approx(alone.recall.item(), abs=1e-5)
        assert found.precision[row].item() == pytest.approx(alone.precision.item(), abs=1e-5)


@given(st.permutations(range(4)), st.permutations(range(3)))
def test_the_order_of_regions_and_pairs_does_not_matter(order, of_images):
    images, texts = images_of([4, 4, 4]), texts_of([5])
    plain = scores(MODEL, images, texts, [(i, 0) for i in range(3)])
    turned = [(v_g, regions[list(order)], boxes[list(order)]) for v_g, regions, boxes in images]
    found = scores(MODEL, turned, texts, [(i, 0) for i in of_images])
    for row, i in enumerate(of_images):
        expected = plain.region_scores[i][[*order, 4]]
        assert torch.allclose(found.region_scores[row], expected, atol=1e-5)
        assert torch.allclose(found.token_scores[row], plain.token_scores[i], atol=1e-5)
        assert torch.allclose(found.recall[row], plain.recall[i], atol=1e-5)


@given(sizes=SIZES, null=st.booleans())
def test_scores_sum_to_1_and_are_never_nan(sizes, null):
    model = MODEL if null else MODEL_WITHOUT_NULL
    images, texts = images_of([m for m, _ in sizes]), texts_of([n for _, n in sizes])
    found = scores(model, images, texts, [(i, i) for i in range(len(sizes))])
    for row, (m, n) in enumerate(sizes):
        assert found.region_scores[row].sum().item() == pytest.approx(1.0 if m or null else 0.0, abs=1e-5)
        assert found.token_scores[row].sum().item() == pytest.approx(1.0 if n else 0.0, abs=1e-5)
        assert torch.isfinite(found.recall[row]) and torch.isfinite(found.precision[row])
        assert n or found.precision[row] == 0
        assert m or null or found.recall[row] == 0


MODEL = tiny_model()
MODEL_WITHOUT_NULL = tiny_model(replace(TINY, null_token=False))
MODEL_OF_WORDS = tiny_model(WORDS)
MODEL_FILLED = tiny_model(replace(TINY, mask_padding=False))


def test_an_empty_text_and_an_image_without_regions(model):
    images, texts = images_of([0]), texts_of([0])
    found = scores(model, images, texts, [(0, 0)])
    assert found.region_scores.tolist() == [[1.0]]  # all that there is to mention is nothing
    assert found.token_scores.shape == (1, 0)
    assert found.precision.item() == 0
    assert np.isfinite(found.recall.item())
    nothing = scores(
        tiny_model(replace(TINY, null_token=False, global_in_fusion=False)), images, texts, [(0, 0)]
    )
    assert nothing.region_scores.tolist() == [[0.0]]
    assert (nothing.recall.item(), nothing.precision.item()) == (0.0, 0.0)


def test_no_images_and_no_pairs(model):
    images, texts = encode(model, images_of([2, 3]), texts_of([1]))
    none = model.pairs(images, texts, [], [])
    assert (none.region_scores.shape, none.token_scores.shape, none.recall.shape) == ((0, 4), (0, 1), (0,))
    empty = model.encode_images(
        torch.zeros(0, 6), torch.zeros(0, 2, 6), torch.zeros(0, 2, 4), torch.zeros(0, 2).bool()
    )
    recall, precision = model.all_pairs(empty, texts, chunk=4)
    assert len(empty) == 0 and recall.shape == precision.shape == (0, 1)


# All pairs of a batch


@pytest.mark.parametrize("chunk", [None, 1, 4, 5, 6, 100])
def test_all_pairs_are_the_pairs_one_by_one(model, chunk):
    images, texts = encode(model, images_of([3, 0]), texts_of([2, 5, 1]))
    with torch.no_grad():
        recall, precision = model.all_pairs(images, texts, chunk)
        for i in range(2):
            for t in range(3):
                found = model.pairs(images, texts, [i], [t])
                assert recall[i, t].item() == pytest.approx(found.recall.item(), abs=1e-5)
                assert precision[i, t].item() == pytest.approx(found.precision.item(), abs=1e-5)
    assert recall.shape == precision.shape == (2, 3)


@pytest.mark.parametrize("config", [TINY, WORDS], ids=["plain", "words"])
def test_chunks_give_the_same_gradients(config):
    model, gradients = tiny_model(config), []
    for chunk in (None, 2):
        recall, precision = model.all_pairs(*encode(model, images_of([3, 1]), texts_of([2, 5])), chunk)
        (recall.softmax(0).diagonal().sum() + precision.softmax(1).diagonal().sum()).backward()
        gradients.append({name: parameter.grad.clone() for name, parameter in model.named_parameters()})
        model.zero_grad()
    for name, gradient in gradients[0].items():
        assert torch.allclose(gradient, gradients[1][name], atol=1e-5), name


# Gradients


@pytest.mark.parametrize(
    "switches",
    [
        {},
        {"width": 4},
        {"shared_norm": True, "mask_padding": False},
        {"context_width": 3},
        {"context_width": 3, "mask_padding": False},
    ],
)
def test_gradients_reach_every_weight(switches):
    model = tiny_model(replace(TINY, **switches))
    # one text without pieces and one image without regions: they must not spoil the others' gradients
    images, texts = encode(model, images_of([3, 0]), texts_of([5, 0]))
    found = model.pairs(images, texts, [0, 0, 1, 1], [0, 1, 0, 1])
    (found.overall.sum() + found.region_scores[:, 0].sum() + found.token_scores[:, 0].sum()).backward()
    for name, parameter in model.named_parameters():
        assert torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("switches", [{"width": 4}, {"context_width": 2, "sharpness": 1.5}])
def test_gradients_against_differences(switches):
    model = tiny_model(replace(TINY, intra_layers=1, inter_layers=1, **switches)).double()
    images, texts = images_of([2]), texts_of([3])

    def loss():
        image, text = encode(model, images, texts)
        found = model.pairs(image, text, [0], [0])
        return found.overall[0] + found.region_scores[0, 0] - 2 * found.token_scores[0, 1]

    loss().backward()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            flat = parameter.view(-1)
            at = 1 if name == "text_position" else len(flat) // 2  # of a piece that is there
            value = flat[at].item()
            sides = []
            for step in (1e-5, -1e-5):
                flat[at] = value + step
                sides.append(loss().item())
            flat[at] = value
            slope = (sides[0] - sides[1]) / 2e-5
            assert parameter.grad.view(-1)[at].item() == pytest.approx(slope, abs=1e-6), name


@pytest.mark.parametrize("config", [TINY, WORDS], ids=["plain", "words"])
def test_half_precision_stays_finite(config):
    model = tiny_model(config)
    with torch.autocast("cpu", torch.bfloat16):
        found = scores(model, images_of([3, 0]), texts_of([5, 0]), [(0, 0), (1, 1)])
    exact = scores(model, images_of([3, 0]), texts_of([5, 0]), [(0, 0), (1, 1)])
    assert torch.isfinite(found.overall).all()
    assert torch.allclose(found.overall.float(), exact.overall, atol=0.1)


# What words add to their text


def test_numbers_of_words_by_hand():
    """As above, with a hidden layer of one unit beside it."""
    config = InfoMetICConfig(
        dim=2,
        heads=1,
        intra_layers=0,
        inter_layers=0,
        text_positions=False,
        box_positions=False,
        input_scale=2.0,
        context_width=1,
        sharpness=0.5,
    )
    model = InfoMetIC(config)
    with torch.no_grad():
        for linear in (model.region_query, model.region_key, model.token_query, model.token_key):
            linear.weight.copy_(torch.eye(2))
        model.word_query.weight.copy_(10 * torch.eye(2))
        for name, row in (("image", [1, 0]), ("text", [0, 3]), ("alone", [1, 0]), ("added", [10, 0])):
            getattr(model, f"word_{name}").weight.copy_(torch.tensor([row]))
        model.word_image.bias.fill_(0.5)
        model.word_hidden.weight.fill_(1.0)
        model.word_hidden.bias.fill_(-1.0)
        model.word_out.weight.fill_(0.5)
        model.log_scale.fill_(np.log(10.0))
    v_g, t_g = np.array([0.6, 0.8]), np.array([1.0, 0.0])
    image = (v_g, np.array([[1.0, 0.0], [0.0, 1.0]]), np.zeros((2, 4)))
    text = (t_g, np.array([[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0], [0.0, 1.0]]))
    context = np.array([[0.1, 0.0], [0.1, 0.0], [0.0, -0.05], [0.0, 0.0]]), np.array([0.5, 0.5, 1.0, 0.0])
    states, _ = encode(model, [image], [text])
    found = model.pairs(states, encode_texts(model, [text], [context]), [0], [0])
    # Of the image 1.2 + 0.5, of the text 0, of the pieces 2, 1.2, −2, of what words add 2, 2, 0; after the
    # two gelu 4.699994, 3.899810, −0.147694, of which a half counts. What words add is asked for by
    # 10·0.6·0.1 twice and −10·0.8·0.05. With 2.4, 4, −2.4 as above: 5.349997, 6.549905, −2.873847.
    # Half of it, pieces of the first word half a weight: e^2.674998 / 2 : e^3.274953 / 2 : e^−1.436923
    shares = [0.350289, 0.638238, 0.011473, 0]
    assert found.token_scores[0].tolist() == pytest.approx(shares, abs=1e-6)
    assert found.token_scores[0, 3] == 0
    # x = 0.350289 + 0.6·0.638238 − 0.011473 = 0.721759, y = 0.8·0.638238 = 0.510591
    assert found.precision.item() == pytest.approx(8.163739, abs=1e-5)
    assert found.region_scores[0].tolist() == pytest.approx([0.964663, 0.017668, 0.017668], abs=1e-6)


def pair_of(model, text, context):
    """The scores of one image with a text and what its words add, without gradients."""
    with torch.no_grad():
        images, _ = encode(model, images_of([3]), texts_of([1]))
        return model.pairs(images, encode_texts(model, [text], [context]), [0], [0])


def test_pieces_of_no_word_that_counts_have_no_score_but_are_read():
    (text,) = texts_of([4])
    added, weight = context_of(text)
    found = pair_of(MODEL_OF_WORDS, text, (added, weight))
    assert weight.tolist() == [0.5, 0.5, 0.0, 1.0]
    assert found.token_scores[0, 2] == 0 and (found.token_scores[0, [0, 1, 3]] > 0).all()
    assert found.token_scores[0].sum().item() == pytest.approx(1)
    other = (text[0], text[1] * [[1], [1], [-1], [1]])
    assert abs(pair_of(MODEL_OF_WORDS, other, (added, weight)).precision - found.precision).item() > 1e-3
    # nothing of it says what such a piece adds
    added[2] = 5.0
    assert torch.allclose(
        pair_of(MODEL_OF_WORDS, text, (added, weight)).token_scores, found.token_scores, rtol=0, atol=1e-6
    )


def test_a_word_of_two_pieces_has_no_more_than_one_of_one_piece():
    model = tiny_model(replace(WORDS, text_positions=False))
    (text,) = texts_of([1])
    same = (text[0], text[1].repeat(3, axis=0))
    added = context_of(text)[0].repeat(3, axis=0)
    halves = pair_of(model, same, (added, np.array([0.5, 0.5, 1.0])))
    assert halves.token_scores[0].tolist() == pytest.approx([0.25, 0.25, 0.5], abs=1e-6)
    plain = pair_of(tiny_model(replace(TINY, text_positions=False)), same, None)
    assert plain.token_scores[0].tolist() == pytest.approx([1 / 3] * 3, abs=1e-6)


def test_of_a_text_without_a_word_that_counts_all_pieces_do():
    (text,) = texts_of([4])
    added = context_of(text)[0]
    none = pair_of(MODEL_OF_WORDS, text, (added, np.zeros(4)))
    every = pair_of(MODEL_OF_WORDS, text, (added, np.ones(4)))
    assert (none.token_scores > 0).all() and torch.isfinite(none.overall).all()
    assert torch.allclose(none.token_scores, every.token_scores, rtol=0, atol=1e-6)
    assert none.token_scores[0].sum().item() == pytest.approx(1)
    empty = pair_of(MODEL_OF_WORDS, texts_of([0])[0], (np.zeros((0, 6)), np.zeros(0)))
    assert empty.token_scores.shape == (1, 0) and empty.precision.item() == 0


def test_special_tokens_do_not_count_whatever_their_weight():
    ((t_g, tokens),) = texts = texts_of([4])
    added, weight = (torch.from_numpy(part).float()[None] for part in context_of(texts[0]))
    here = torch.ones(1, 4).bool()
    parts = [torch.from_numpy(part).float()[None] for part in (t_g, tokens)]
    with torch.no_grad():
        images, _ = encode(MODEL_OF_WORDS, images_of([2]), texts)
        for inner, expected in (
            ([False, True, True, False], [0.0, 1.0, 0.0, 0.0]),
            # the only piece that may have a score is of no word that counts
            ([False, False, True, False], [0.0, 0.0, 1.0, 0.0]),
            ([False] * 4, [0.0] * 4),
        ):
            states = MODEL_OF_WORDS.encode_texts(
                *parts, here, torch.tensor([inner]), WordContext(added, weight)
            )
            found = MODEL_OF_WORDS.pairs(images, states, [0], [0])
            assert found.token_scores[0].tolist() == expected
            assert torch.isfinite(found.overall).all()


@pytest.mark.parametrize("sharpness", [0.25, 3.0])
@pytest.mark.parametrize("config", [TINY, WORDS], ids=["plain", "words"])
def test_sharpness_is_a_power_of_scores_but_not_of_weights(config, sharpness):
    (text,) = texts_of([5])
    context = context_of(text)
    plain = pair_of(tiny_model(config), text, context)
    sharp = pair_of(tiny_model(replace(config, sharpness=sharpness)), text, context)
    weight = context[1] if config is WORDS else np.ones(5)
    scores = plain.token_scores[0].double().numpy()
    powers = weight * np.divide(scores, weight, out=np.zeros(5), where=weight > 0) ** sharpness
    assert sharp.token_scores[0].tolist() == pytest.approx(powers / powers.sum(), abs=1e-5)
    assert torch.allclose(sharp.region_scores, plain.region_scores, rtol=0, atol=1e-6)
    assert torch.allclose(sharp.recall, plain.recall, rtol=0, atol=1e-6)


def test_a_new_networks_words_are_asked_for_by_what_the_cosine_loses():
    torch.manual_seed(0)
    model = InfoMetIC(InfoMetICConfig(dim=64, heads=4, context_width=16))
    assert torch.equal(model.word_query.weight, 5 * torch.eye(64))
    assert model.token_query.weight.std().item() == pytest.approx(0.1 * 64**-0.5, rel=0.1)
    assert model.region_query.weight.std().item() == pytest.approx(64**-0.5, rel=0.1)
    assert model.reads_words and not MODEL.reads_words


@pytest.mark.parametrize("aligner", [MODEL, InfoCLIP()], ids=["network", "InfoCLIP"])
def test_what_reads_no_words_leaves_a_context_alone(aligner):
    ((t_g, tokens),) = texts = texts_of([3])
    assert not aligner.reads_words
    images, plain = encode(aligner, images_of([2]), texts)
    parts = [torch.from_numpy(part).float()[None] for part in (t_g, tokens)]
    nonsense = WordContext(torch.full((1, 1, 2), float("nan")), torch.full((7,), -1.0))
    told = aligner.encode_texts(*parts, torch.ones(1, 3).bool(), context=nonsense)
    assert (told.words, told.hidden, told.log_weight) == (None, None, None)
    with torch.no_grad():
        found, expected = (aligner.pairs(images, states, [0], [0]) for states in (told, plain))
    assert torch.allclose(found.token_scores, expected.token_scores, rtol=0, atol=1e-6)
    assert torch.allclose(found.overall, expected.overall, rtol=0, atol=1e-6)


def word_input(n=2, l=3, d=6):  # noqa: E741
    return {"added": torch.zeros(n, l, d), "weight": torch.full((n, l), 0.5)}


def test_a_network_that_reads_words_is_told_of_them():
    text = torch.zeros(1, 6), torch.zeros(1, 3, 6), torch.ones(1, 3).bool()
    with pytest.raises(
        InputError, match="these weights read what each word adds to its text and need a WordContext"
    ):
        MODEL_OF_WORDS.encode_texts(*text)


# A new network


def test_a_new_network_has_the_papers_start():
    torch.manual_seed(0)
    model = InfoMetIC(InfoMetICConfig(dim=64, width=32, heads=4))
    assert model.scale.item() == pytest.approx(1 / 0.07, rel=1e-6)
    spread = {
        name: parameter.std().item() for name, parameter in model.named_parameters() if parameter.ndim > 1
    }
    for name, expected in (
        ("region_query.weight", 64**-0.5),
        ("token_key.weight", 32**-0.5),
        ("box_position.weight", 0.01),
        ("text_position", 0.01),
        ("image_layers.0.attention_in.weight", 32**-0.5),
        ("image_layers.3.mlp_out.weight", 32**-0.5 * 8**-0.5),
        ("inter_layers.1.attention_out.weight", 32**-0.5 * 4**-0.5),
        ("text_layers.2.mlp_in.weight", 64**-0.5),
    ):
        assert spread[name] == pytest.approx(expected, rel=0.2), name
    torch.manual_seed(0)
    assert InfoMetIC(model.config).fingerprint() == model.fingerprint()
    assert InfoMetIC(model.config).fingerprint() != model.fingerprint()


def test_the_papers_size():
    """512 wide: 12·512² + 13·512 a layer, ten layers, three norms, four projections, positions, scale."""
    count = sum(parameter.numel() for parameter in InfoMetIC(InfoMetICConfig()).parameters())
    assert count == 10 * (12 * 512**2 + 13 * 512) + 3 * 2 * 512 + 4 * 512**2 + 4 * 512 + 32 * 512 + 1
