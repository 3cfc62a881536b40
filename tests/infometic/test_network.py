"""The networks of InfoMetIC and InfoCLIP: config, numbers, switches, padding, gradients, initial weights."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, fields, replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from capscore.errors import CapscoreError, InputError
from capscore.infometic.alignment import Alignment, InfoCLIP, WordContext
from capscore.infometic.network import InfoMetIC, InfoMetICConfig

from .forward_in_numpy import pair_scores
from .tiny_pairs import TINY, context_of, encode, encode_texts, images_of, texts_of, tiny_model

SWITCHED = {
    "as in the paper": {},
    "as in the public code": {"shared_norm": True, "text_positions": False, "global_box": True},
    "no box positions": {"box_positions": False},
    "no image in the fusion": {"global_in_fusion": False},
    "no null token": {"null_token": False},
    "input scale": {"input_scale": 1.0},
    "narrow": {"width": 4},
    "one head": {"heads": 1},
    "no intra layers": {"intra_layers": 0},
    "no inter layers": {"inter_layers": 0, "intra_layers": 1},
    "no layers": {"intra_layers": 0, "inter_layers": 0},
    "words": {"context_width": 3},
    "words, narrow and blunter": {"context_width": 7, "width": 4, "sharpness": 0.5},
}
PLAIN, READER = tiny_model(), tiny_model(replace(TINY, context_width=3))
FILLED, NO_NULL = (tiny_model(replace(TINY, **{name: False})) for name in ("mask_padding", "null_token"))
SIZES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), min_size=1, max_size=3)


def scores(model, images, texts, pairs, **padding):
    with torch.no_grad():
        return model.pairs(*encode(model, images, texts, **padding), *zip(*pairs, strict=True))


def of_text(model, text, context=None, *, mask=None):
    """Scores of one image with one text, whose scored pieces are those of the mask."""
    (t_g, tokens), parts = text, None
    if context is not None and model.reads_words:
        parts = WordContext(*(torch.from_numpy(np.array(part)).float()[None] for part in context))
    t_g, tokens = (torch.from_numpy(np.array(part)).float()[None] for part in (t_g, tokens))
    here = torch.ones(tokens.shape[:2]).bool()
    with torch.no_grad():
        images, _ = encode(model, images_of([3]), texts_of([1]))
        texts = model.encode_texts(t_g, tokens, here, None if mask is None else torch.tensor([mask]), parts)
        return model.pairs(images, texts, [0], [0])


def close(found, expected, atol=1e-6):
    return torch.allclose(found, expected, rtol=0, atol=atol)


def identity_network(**config):
    """No layers and the identity as every projection: products, softmax, mean and cosine remain."""
    switches = {"intra_layers": 0, "inter_layers": 0, "text_positions": False, "box_positions": False}
    model = InfoMetIC(InfoMetICConfig(heads=1, **switches, **config))
    with torch.no_grad():
        for linear in (model.region_query, model.region_key, model.token_query, model.token_key):
            linear.weight.copy_(torch.eye(config["dim"]))
    return model


# ---- numbers


IMAGE = (np.array([0.6, 0.8]), np.array([[1.0, 0.0], [0.0, 1.0]]), np.zeros((2, 4)))


def test_numbers_by_hand():
    model = identity_network(dim=2, input_scale=2.0)
    model.log_scale.data.fill_(np.log(10.0))
    text = (np.array([1.0, 0.0]), np.array([[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]]))
    found = scores(model, [IMAGE], [text], [(0, 0)])
    # Everything comes in doubled. Regions: 2·2 = 4, 0, and 0 for null: e⁴ : 1 : 1; pieces: 2.4, 4, −2.4.
    assert found.region_scores[0].tolist() == pytest.approx([0.964663, 0.017668, 0.017668], abs=1e-6)
    assert found.token_scores[0].tolist() == pytest.approx([0.167750, 0.830870, 0.001381], abs=1e-6)
    # Regions' mean: 2·(0.964663, 0.017668); its cosine with (0.6, 0.8): 0.592933 / 0.964825. Pieces' mean:
    # x = 0.167750 + 0.6·0.830870 − 0.001381 = 0.664891, y = 0.8·0.830870 = 0.664696; x / √(x² + y²).
    assert found.recall.item() == pytest.approx(6.145494, abs=1e-5)
    assert found.precision.item() == pytest.approx(7.072106, abs=1e-5)
    assert found.overall.item() == pytest.approx(6.145494 + 7.072106, abs=2e-5)


def test_numbers_of_words_by_hand():
    model = identity_network(dim=2, input_scale=2.0, context_width=1, sharpness=0.5)
    with torch.no_grad():
        model.word_query.weight.copy_(10 * torch.eye(2))
        for name, row in (("image", [1, 0]), ("text", [0, 3]), ("alone", [1, 0]), ("added", [10, 0])):
            getattr(model, f"word_{name}").weight.copy_(torch.tensor([row]))
        model.word_image.bias.fill_(0.5)
        model.word_hidden.weight.fill_(1.0)
        model.word_hidden.bias.fill_(-1.0)
        model.word_out.weight.fill_(0.5)
        model.log_scale.fill_(np.log(10.0))
    text = (np.array([1.0, 0.0]), np.array([[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0], [0.0, 1.0]]))
    context = np.array([[0.1, 0.0], [0.1, 0.0], [0.0, -0.05], [0.0, 0.0]]), np.array([0.5, 0.5, 1.0, 0.0])
    states, _ = encode(model, [IMAGE], [text])
    found = model.pairs(states, encode_texts(model, [text], [context]), [0], [0])
    # Of the image 1.2 + 0.5, of the text 0, of the pieces 2, 1.2, −2, of what words add 2, 2, 0; after the
    # two gelu 4.699994, 3.899810, −0.147694, of which a half counts. What words add is asked for by
    # 10·0.6·0.1 twice and −10·0.8·0.05. With 2.4, 4, −2.4 as above: 5.349997, 6.549905, −2.873847.
    # Half of it, pieces of the first word half a weight: e^2.674998 / 2 : e^3.274953 / 2 : e^−1.436923
    assert found.token_scores[0].tolist() == pytest.approx([0.350289, 0.638238, 0.011473, 0], abs=1e-6)
    assert found.token_scores[0, 3] == 0
    # x = 0.350289 + 0.6·0.638238 − 0.011473 = 0.721759, y = 0.8·0.638238 = 0.510591
    assert found.precision.item() == pytest.approx(8.163739, abs=1e-5)


def test_literal_numbers_of_a_whole_network():
    """As `pair_scores` gave them, written down so that the two cannot change together."""
    found = scores(PLAIN, images_of([3]), texts_of([4]), [(0, 0)])
    regions, tokens = found.region_scores[0].tolist(), found.token_scores[0].tolist()
    assert regions == pytest.approx([0.228317750, 0.080884399, 0.211064809, 0.479733042], abs=2e-6)
    assert tokens == pytest.approx([0.169810080, 0.184061182, 0.121284957, 0.524843780], abs=2e-6)
    assert found.recall.item() == pytest.approx(-0.407702073, abs=5e-6)
    assert found.precision.item() == pytest.approx(0.524221233, abs=5e-6)


@pytest.mark.parametrize("switches", SWITCHED.values(), ids=SWITCHED.keys())
def test_every_switch_against_a_second_computation(switches):
    model = tiny_model(replace(TINY, **switches))
    images, texts, null = images_of([3, 1]), texts_of([2, 5]), model.config.null_token
    pairs = [(0, 0), (1, 0), (0, 1), (1, 1)]
    found = scores(model, images, texts, pairs)
    for row, (i, t) in enumerate(pairs):
        expected = pair_scores(
            model, images[i], texts[t], context_of(texts[t]) if model.reads_words else None
        )
        m, n = len(images[i][1]), len(texts[t][1])
        regions, tokens = found.region_scores[row].numpy(), found.token_scores[row].numpy()
        kept = np.concatenate([regions[:m], regions[-1:] if null else []])
        assert kept == pytest.approx(expected["regions"], abs=2e-6)
        assert tokens[:n] == pytest.approx(expected["tokens"], abs=2e-6)
        assert not regions[m:-1].any() and not tokens[n:].any() and (null or regions[-1] == 0)
        assert found.recall[row].item() == pytest.approx(expected["recall"], abs=5e-6)
        assert found.precision[row].item() == pytest.approx(expected["precision"], abs=5e-6)


def test_without_masking_the_filling_is_attended_to():
    (t_g, tokens), masked = texts_of([3])[0], scores(PLAIN, images_of([3]), texts_of([3]), [(0, 0)])
    found = scores(FILLED, images_of([3]), texts_of([3]), [(0, 0)])
    filled = (t_g, np.concatenate([tokens, np.zeros((2, 6))]))
    expected = of_text(PLAIN, filled, mask=[True] * 3 + [False] * 2)
    assert found.token_scores.shape == (1, 3)
    assert close(found.token_scores, expected.token_scores[:, :3], 2e-6)
    assert close(found.overall, expected.overall, 5e-6)
    assert not close(found.recall, masked.recall, 1e-3)


# ---- padding, batches, order


@pytest.mark.parametrize(
    "model", [PLAIN, READER, FILLED, NO_NULL, InfoCLIP(9.0, 2.0)], ids="plain words filled null clip".split()
)
@given(sizes=SIZES, more=st.integers(0, 3), fill=st.sampled_from([0.0, 7.0, float("nan"), float("inf")]))
def test_neither_padding_nor_the_rest_of_the_batch_matters(model, sizes, more, fill):
    images, texts = images_of([m for m, _ in sizes]), texts_of([n for _, n in sizes])
    pairs = [(i, t) for i in range(len(sizes)) for t in range(len(sizes))]
    found = scores(model, images, texts, pairs, m=max(m for m, _ in sizes) + more, l=5, fill=fill)
    for row, (i, t) in enumerate(pairs):
        alone = scores(model, [images[i]], [texts[t]], [(0, 0)])
        (m, _), (_, n) = sizes[i], sizes[t]
        regions, tokens = found.region_scores[row], found.token_scores[row]
        assert close(torch.cat([regions[:m], regions[-1:]]), alone.region_scores[0], 1e-5)
        assert close(tokens[:n], alone.token_scores[0], 1e-5)
        assert not regions[m:-1].any() and not tokens[n:].any()
        assert close(found.recall[row], alone.recall[0], 1e-5)
        assert close(found.precision[row], alone.precision[0], 1e-5)
        assert torch.isfinite(found.overall[row])
        assert regions.sum().item() == pytest.approx(1.0 if m or model is not NO_NULL else 0.0, abs=1e-5)
        assert tokens.sum().item() == pytest.approx(1.0 if n else 0.0, abs=1e-5)
        assert n or found.precision[row] == 0


@given(st.permutations(range(4)), st.permutations(range(3)))
def test_the_order_of_regions_and_pairs_does_not_matter(order, of_images):
    images, texts = images_of([4, 4, 4]), texts_of([5])
    plain = scores(PLAIN, images, texts, [(i, 0) for i in range(3)])
    turned = [(v_g, regions[list(order)], boxes[list(order)]) for v_g, regions, boxes in images]
    found = scores(PLAIN, turned, texts, [(i, 0) for i in of_images])
    assert close(found.region_scores, plain.region_scores[list(of_images)][:, [*order, 4]], 1e-5)
    assert close(found.token_scores, plain.token_scores[list(of_images)], 1e-5)
    assert close(found.recall, plain.recall[list(of_images)], 1e-5)


def test_an_empty_text_and_an_image_without_regions():
    found = scores(PLAIN, images_of([0]), texts_of([0]), [(0, 0)])
    assert found.region_scores.tolist() == [[1.0]]  # all that there is to mention is nothing
    assert found.token_scores.shape == (1, 0) and found.precision.item() == 0
    assert np.isfinite(found.recall.item())
    bare = tiny_model(replace(TINY, null_token=False, global_in_fusion=False))
    for model, regions in ((bare, [[0.0]]), (InfoCLIP(), [[1.0]])):
        nothing = scores(model, images_of([0]), texts_of([0]), [(0, 0)])
        assert nothing.region_scores.tolist() == regions
        assert (nothing.recall.item(), nothing.precision.item()) == (0.0, 0.0)


@pytest.mark.parametrize("chunk", [None, 1, 4, 100])
def test_all_pairs_are_the_pairs_one_by_one(chunk):
    images, texts = encode(PLAIN, images_of([3, 0]), texts_of([2, 5, 1]))
    with torch.no_grad():
        recall, precision = PLAIN.all_pairs(images, texts, chunk)
        found = PLAIN.pairs(images, texts, [0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2])
    assert close(recall, found.recall.view(2, 3), 1e-5) and close(precision, found.precision.view(2, 3), 1e-5)
    none = PLAIN.pairs(images, texts, [], [])
    assert (none.region_scores.shape, none.token_scores.shape, none.recall.shape) == ((0, 4), (0, 5), (0,))
    empty = PLAIN.encode_images(*(torch.zeros(0, *shape) for shape in ((6,), (2, 6), (2, 4), (2,))))
    assert [part.shape for part in PLAIN.all_pairs(empty, texts, chunk)] == [(0, 3)] * 2


# ---- gradients


@pytest.mark.parametrize("config", [TINY, READER.config], ids=["plain", "words"])
def test_chunks_give_the_same_gradients(config):
    model, gradients = tiny_model(config), []
    for chunk in (None, 2):
        recall, precision = model.all_pairs(*encode(model, images_of([3, 1]), texts_of([2, 5])), chunk)
        (recall.softmax(0).diagonal().sum() + precision.softmax(1).diagonal().sum()).backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters()])
        model.zero_grad()
    assert all(map(lambda first, second: close(first, second, 1e-5), *gradients))


@pytest.mark.parametrize(
    "switches",
    [{"width": 4}, {"shared_norm": True, "mask_padding": False}, {"context_width": 3, "mask_padding": False}],
)
def test_gradients_reach_every_weight(switches):
    model = tiny_model(replace(TINY, **switches))
    # one text without pieces and one image without regions: they must not spoil the others' gradients
    found = model.pairs(*encode(model, images_of([3, 0]), texts_of([5, 0])), [0, 0, 1, 1], [0, 1, 0, 1])
    (found.overall.sum() + found.region_scores[:, 0].sum() + found.token_scores[:, 0].sum()).backward()
    for name, parameter in model.named_parameters():
        assert torch.isfinite(parameter.grad).all() and parameter.grad.abs().sum() > 0, name


def test_half_precision_stays_finite():
    images, texts = images_of([3, 0]), texts_of([5, 0])
    with torch.autocast("cpu", torch.bfloat16):
        found = scores(READER, images, texts, [(0, 0), (1, 1)])
    exact = scores(READER, images, texts, [(0, 0), (1, 1)])
    assert torch.isfinite(found.overall).all() and close(found.overall.float(), exact.overall, 0.1)


# ---- pieces that count


def test_special_tokens_are_context_without_a_score():
    (t_g, tokens), inner = texts_of([4])[0], [False, True, True, False]
    found = of_text(PLAIN, (t_g, tokens), mask=inner)
    every, alone = of_text(PLAIN, (t_g, tokens)), of_text(PLAIN, (t_g, tokens[1:3]))
    shares = every.token_scores[0] * torch.tensor(inner)
    assert close(found.token_scores[0], shares / shares.sum())  # the same states, another softmax
    assert close(found.region_scores, every.region_scores)
    assert not close(found.region_scores, alone.region_scores, 1e-3)
    clip = InfoCLIP(sharpness=5.0)
    found, alone = of_text(clip, (t_g, tokens), mask=inner), of_text(clip, (t_g, tokens[1:3]))
    assert close(found.token_scores[:, 1:3], alone.token_scores) and not found.token_scores[0, [0, 3]].any()
    context = context_of((t_g, tokens))  # whose third piece is of no word that counts
    for mask, expected in (
        (inner, [0.0, 1.0, 0.0, 0.0]),
        ([False, False, True, False], [0.0, 0.0, 1.0, 0.0]),
        ([False] * 4, [0.0] * 4),
    ):
        found = of_text(READER, (t_g, tokens), context, mask=mask)
        assert found.token_scores[0].tolist() == expected and torch.isfinite(found.overall).all()


def test_pieces_of_no_word_that_counts_have_no_score_but_are_read():
    (text,) = texts_of([4])
    added, weight = context_of(text)
    found = of_text(READER, text, (added, weight))
    assert weight.tolist() == [0.5, 0.5, 0.0, 1.0]
    assert found.token_scores[0, 2] == 0 and (found.token_scores[0, [0, 1, 3]] > 0).all()
    other = of_text(READER, (text[0], text[1] * [[1], [1], [-1], [1]]), (added, weight))
    assert not close(other.precision, found.precision, 1e-3)
    without = of_text(READER, text, (added * [[1], [1], [-9], [1]], weight))
    assert close(without.token_scores, found.token_scores)


def test_in_a_text_without_a_word_that_counts_all_pieces_do():
    (text,) = texts_of([4])
    added = context_of(text)[0]
    none, every = (of_text(READER, text, (added, np.full(4, weight))) for weight in (0, 1))
    assert (none.token_scores > 0).all() and close(none.token_scores, every.token_scores)


@pytest.mark.parametrize("model", [PLAIN, READER], ids=["plain", "words"])
def test_sharpness_is_a_power_of_scores_but_not_of_weights(model):
    (text,) = texts_of([5])
    context = context_of(text)
    plain = of_text(model, text, context)
    sharp = of_text(tiny_model(replace(model.config, sharpness=3.0)), text, context)
    weight = context[1] if model is READER else np.ones(5)
    given = plain.token_scores[0].double().numpy()
    powers = weight * np.divide(given, weight, out=np.zeros(5), where=weight > 0) ** 3.0
    assert sharp.token_scores[0].tolist() == pytest.approx(powers / powers.sum(), abs=1e-5)
    assert close(sharp.region_scores, plain.region_scores) and close(sharp.recall, plain.recall)


def test_a_context_of_words_is_needed_or_left_alone():
    (text,) = texts_of([3])
    with pytest.raises(InputError, match="need a WordContext"):
        of_text(READER, text)
    with pytest.raises(InputError, match=r"6 pieces.*at most 5"):
        of_text(PLAIN, texts_of([6])[0])
    nonsense = WordContext(torch.full((1, 1, 2), float("nan")), torch.full((7,), -1.0))
    t_g, tokens = (torch.from_numpy(part).float()[None] for part in text)
    for aligner in (PLAIN, InfoCLIP()):
        assert not aligner.reads_words
        told = aligner.encode_texts(t_g, tokens, torch.ones(1, 3).bool(), context=nonsense)
        assert (told.words, told.hidden, told.log_weight) == (None, None, None)


# ---- InfoCLIP


def test_numbers_of_info_clip_by_hand():
    model = InfoCLIP(sharpness=5.0, scale=100.0)
    text = (np.array([1.0, 0.0]), np.array([[0.6, 0.8], [-1.0, 0.0]]))
    found = scores(model, [IMAGE], [text], [(0, 0)])
    assert found.region_scores[0].tolist() == pytest.approx([0.986703, 0.006648, 0.006648], abs=1e-6)
    assert found.token_scores[0].tolist() == pytest.approx([0.999665, 0.000335], abs=1e-6)
    # (0.986703, 0.006648) with (0.6, 0.8); (0.599463, 0.799732) with (1, 0)
    assert found.recall.item() == pytest.approx(60.5377, abs=1e-3)
    assert found.precision.item() == pytest.approx(59.9785, abs=1e-3)
    assert list(model.parameters()) == []
    for bad in ({"sharpness": 0}, {"scale": math.inf}):
        with pytest.raises(CapscoreError, match="sharpness"):
            InfoCLIP(**bad)


def test_info_clip_is_the_network_without_layers_and_projections():
    network, plain = identity_network(dim=6, input_scale=3.0), InfoCLIP(sharpness=9.0, scale=2.0)
    network.log_scale.data.fill_(math.log(2.0))
    images, texts, pairs = images_of([3, 1]), texts_of([4, 2]), [(0, 1), (1, 0), (1, 1)]
    found, expected = (scores(model, images, texts, pairs) for model in (network, plain))
    for field in fields(Alignment):
        assert close(getattr(found, field.name), getattr(expected, field.name), 1e-5), field.name


# ---- a new network


def test_a_new_network_has_the_papers_start():
    torch.manual_seed(0)
    model = InfoMetIC(InfoMetICConfig(dim=64, width=32, heads=4))
    assert model.scale.item() == pytest.approx(1 / 0.07, rel=1e-6)
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
        assert model.get_parameter(name).std().item() == pytest.approx(expected, rel=0.2), name
    torch.manual_seed(0)
    assert InfoMetIC(model.config).fingerprint() == model.fingerprint()
    assert InfoMetIC(model.config).fingerprint() != model.fingerprint()
    reader = InfoMetIC(InfoMetICConfig(dim=64, heads=4, context_width=16))
    assert torch.equal(reader.word_query.weight, 5 * torch.eye(64))
    assert reader.token_query.weight.std().item() == pytest.approx(0.1 * 64**-0.5, rel=0.1)


def test_the_papers_size():
    """512 wide: 12·512² + 13·512 a layer, ten layers, three norms, four projections, positions, scale."""
    with torch.device("meta"):
        count = sum(parameter.numel() for parameter in InfoMetIC(InfoMetICConfig()).parameters())
    assert count == 10 * (12 * 512**2 + 13 * 512) + 3 * 2 * 512 + 4 * 512**2 + 4 * 512 + 32 * 512 + 1


# ---- config

PAPER = {
    "dim": 512, "width": None, "heads": 16, "intra_layers": 4, "inter_layers": 2, "shared_norm": False,
    "mask_padding": True, "pad_token": None, "frame": False, "text_positions": True, "box_positions": True,
    "global_box": False, "global_in_fusion": True, "null_token": True, "input_scale": 10.0,
    "context_width": None, "sharpness": 1.0, "n_regions": 20, "max_tokens": 32, "caption_tokens": None,
    "unit_inputs": True, "prefix": None, "backbone": "", "backbone_revision": "", "backbone_fingerprint": "",
}  # fmt: skip
RELEASED = {
    "shared_norm": True, "mask_padding": False, "pad_token": 0, "frame": True, "text_positions": False,
    "global_box": True, "input_scale": 1.0, "caption_tokens": 32, "unit_inputs": False, "prefix": "",
}  # fmt: skip


def test_the_papers_values_and_those_of_the_public_code():
    assert asdict(InfoMetICConfig()) == PAPER
    assert asdict(InfoMetICConfig().released()) == {**PAPER, **RELEASED}
    released = InfoMetICConfig(dim=64, width=32, context_width=8, sharpness=2.0, max_tokens=12).released()
    assert (released.width, released.context_width, released.sharpness) == (None, None, 1.0)
    assert released.max_tokens == released.caption_tokens == 12
    assert InfoMetICConfig().reading == ""
    assert InfoMetICConfig(mask_padding=False).reading == "pad=zeros"
    assert InfoMetICConfig(frame=True, caption_tokens=8).reading == "frame,32+8tokens"
    assert InfoMetICConfig().released().reading == "frame,pad=0,32+32tokens,raw"


def test_a_config_survives_json_and_so_does_the_digest_of_one_from_before():
    config = InfoMetICConfig(dim=320, width=64, heads=4, context_width=96, sharpness=0.8, backbone="embedded")
    assert InfoMetICConfig.from_dict(json.loads(json.dumps(asdict(config)))) == config
    new = {"pad_token", "frame", "caption_tokens", "unit_inputs", "prefix"}
    old = {name: value for name, value in PAPER.items() if name not in new}
    assert InfoMetICConfig.from_dict(old) == InfoMetICConfig() and InfoMetICConfig().identity() == old
    assert InfoMetICConfig(unit_inputs=False).identity() == {**old, "unit_inputs": False}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"dim": 0}, "dim=0: expected a whole number from 1 to"),
        ({"dim": True}, "dim=True"),
        ({"dim": 2**14 + 1}, "dim=16385"),
        ({"width": 30}, "heads=16 does not divide the width 30"),
        ({"intra_layers": -1}, "intra_layers=-1: expected a whole number from 0 to 100"),
        ({"shared_norm": 1}, "shared_norm=1: expected true or false"),
        ({"input_scale": 0}, "input_scale=0: expected a number above 0"),
        ({"input_scale": float("nan")}, "input_scale=nan"),
        ({"backbone": None}, "backbone=None: expected a string$"),
        ({"pad_token": -1, "mask_padding": False}, "pad_token=-1: expected a whole number from 0 to"),
        ({"pad_token": 0}, "pad_token=0 has no effect with mask_padding=True"),
        ({"head": 4}, "'head'"),
    ],
)
def test_values_that_cannot_be(values, message):
    with pytest.raises(CapscoreError, match=message):
        InfoMetICConfig.from_dict(values)


def backbone(**changes):
    parts = {"name": "some/tower", "revision": "abc123", "dim": 512, "fingerprint": "f" * 32}
    return SimpleNamespace(**{**parts, **changes})


def test_which_backbone_goes_with_the_weights():
    config = InfoMetICConfig().on(backbone(dim=64))
    assert (config.dim, config.backbone, config.backbone_revision) == (64, "some/tower", "abc123")
    config = InfoMetICConfig().on(backbone())
    for same in ({}, {"fingerprint": "0" * 32}, {"revision": "main"}):
        config.check_backbone(backbone(**same))
    for other in ({"revision": "w1", "fingerprint": "0" * 32}, {"dim": 64}):
        with pytest.raises(CapscoreError, match="made for some/tower @ abc123, not for some/tower @"):
            config.check_backbone(backbone(**other))
    InfoMetICConfig().check_backbone(backbone())
    with pytest.raises(CapscoreError, match="an unnamed backbone"):
        InfoMetICConfig().check_backbone(backbone(dim=64))
    with pytest.raises(CapscoreError, match="made for an unnamed backbone, not for some/tower"):
        replace(InfoMetICConfig(), backbone_fingerprint="1" * 32).check_backbone(backbone(revision=""))
