"""InfoCLIP, the scoring of InfoMetIC on embeddings as they are."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from capscore.infometic.alignment import InfoCLIP
from capscore.infometic.network import Alignment, InfoMetIC, InfoMetICConfig

from .tiny_pairs import encode, images_of, texts_of


def by_hand(image, text, sharpness, scale):
    """The same once more, in plain numbers."""
    (v_g, regions, _), (t_g, tokens) = image, text
    regions = [*regions, np.zeros_like(v_g)]

    def read(query, parts, whole):
        powers = [
            math.exp(sharpness * sum(q * x for q, x in zip(query, part, strict=True))) for part in parts
        ]
        scores = [power / sum(powers) for power in powers]
        mean = [sum(s * part[k] for s, part in zip(scores, parts, strict=True)) for k in range(len(whole))]
        length = math.hypot(*mean) * math.hypot(*whole)
        return scores, scale * sum(
            a * b for a, b in zip(mean, whole, strict=True)
        ) / length if length else 0.0

    region_scores, recall = read(t_g, regions, v_g)
    token_scores, precision = read(v_g, tokens, t_g) if len(tokens) else ([], 0.0)
    return region_scores, token_scores, recall, precision


def test_numbers_by_hand():
    model = InfoCLIP(sharpness=5.0, scale=100.0)
    image = (np.array([0.6, 0.8]), np.array([[1.0, 0.0], [0.0, 1.0]]), np.zeros((2, 4)))
    text = (np.array([1.0, 0.0]), np.array([[0.6, 0.8], [-1.0, 0.0]]))
    found = model.pairs(*encode(model, [image], [text]), [0], [0])
    # e⁵ : 1 : 1
    assert found.region_scores[0].tolist() == pytest.approx([0.986703, 0.006648, 0.006648], abs=1e-6)
    # e⁵ : e⁻³
    assert found.token_scores[0].tolist() == pytest.approx([0.999665, 0.000335], abs=1e-6)
    # (0.986703, 0.006648) with (0.6, 0.8): 0.597341 / 0.986726
    assert found.recall.item() == pytest.approx(60.5377, abs=1e-3)
    # (0.599463, 0.799732) with (1, 0): 0.599463 / 0.999463
    assert found.precision.item() == pytest.approx(59.9785, abs=1e-3)


@given(
    sizes=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), min_size=1, max_size=3),
    sharpness=st.sampled_from([0.5, 10.0, 40.0]),
    more=st.integers(0, 2),
    fill=st.sampled_from([0.0, 3.0, float("nan")]),
)
def test_a_second_computation_whatever_the_batch_and_padding(sizes, sharpness, more, fill):
    model = InfoCLIP(sharpness=sharpness, scale=7.0)
    images, texts = images_of([m for m, _ in sizes]), texts_of([n for _, n in sizes])
    most, longest = (max(size[part] for size in sizes) + more for part in (0, 1))
    states = encode(model, images, texts, m=most, l=longest, fill=fill)
    recall, precision = model.all_pairs(*states, chunk=3)
    pairs = [(i, t) for i in range(len(sizes)) for t in range(len(sizes))]
    found = model.pairs(*states, *zip(*pairs, strict=True))
    for row, (i, t) in enumerate(pairs):
        regions, tokens, *both = by_hand(images[i], texts[t], sharpness, 7.0)
        m, n = sizes[i][0], sizes[t][1]
        of_regions, of_tokens = found.region_scores[row].tolist(), found.token_scores[row].tolist()
        assert [*of_regions[:m], of_regions[-1]] == pytest.approx(regions, abs=1e-4)
        assert of_tokens[:n] == pytest.approx(tokens, abs=1e-4)
        assert not any(of_regions[m:-1]) and not any(of_tokens[n:])
        assert [found.recall[row].item(), found.precision[row].item()] == pytest.approx(both, abs=1e-3)
        assert [recall[i, t].item(), precision[i, t].item()] == pytest.approx(both, abs=1e-3)


def test_it_is_the_network_without_layers_and_projections():
    config = InfoMetICConfig(
        dim=6,
        heads=1,
        intra_layers=0,
        inter_layers=0,
        text_positions=False,
        box_positions=False,
        input_scale=3.0,
    )
    network, plain = InfoMetIC(config), InfoCLIP(sharpness=9.0, scale=2.0)
    with torch.no_grad():
        for linear in (network.region_query, network.region_key, network.token_query, network.token_key):
            linear.weight.copy_(torch.eye(6))
        network.log_scale.fill_(math.log(2.0))
    images, texts = images_of([3, 1]), texts_of([4, 2])
    found, expected = (
        model.pairs(*encode(model, images, texts), [0, 1, 1], [1, 0, 1]) for model in (network, plain)
    )
    for name in Alignment.__dataclass_fields__:
        assert torch.allclose(getattr(found, name), getattr(expected, name), atol=1e-5), name


def test_nothing_to_mention_and_nothing_said():
    model = InfoCLIP()
    found = model.pairs(*encode(model, images_of([0]), texts_of([0])), [0], [0])
    assert found.region_scores.tolist() == [[1.0]]
    assert found.token_scores.shape == (1, 0)
    assert (found.recall.item(), found.precision.item()) == (0.0, 0.0)


def test_it_has_no_parameters():
    assert list(InfoCLIP().parameters()) == []


def test_special_tokens_have_no_score():
    model = InfoCLIP(sharpness=5.0)
    images, _ = encode(model, images_of([2]), texts_of([1]))
    t_g, tokens = (torch.from_numpy(part).float()[None] for part in texts_of([4])[0])
    here = torch.ones(1, 4).bool()
    inner = torch.tensor([[False, True, True, False]])
    found = model.pairs(images, model.encode_texts(t_g, tokens, here, inner), [0], [0])
    alone = model.pairs(images, model.encode_texts(t_g, tokens[:, 1:3], here[:, 1:3]), [0], [0])
    assert found.token_scores[0, 0] == found.token_scores[0, 3] == 0
    assert torch.allclose(found.token_scores[:, 1:3], alone.token_scores, atol=1e-6)
