"""The eye's network: the trunk against the one with batch norms, RoIAlign against torchvision's, attention by
hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from capscore.backbones.embedded.backbone import load_efficientnet
from capscore.backbones.embedded.image_tower import (
    EfficientNetLite2,
    FoldedTrunk,
    ImageTower,
    ImageTowerConfig,
    TextPlace,
    align_weights,
)
from capscore.errors import CapscoreError
from weights.making.image_tower.features import folded

from .tiny_eye import SMALL, random_eye

WHOLE = [[0.0, 0.0, 1.0, 1.0]]


# ------------------------------------------------------------------ trunk


def random_network() -> EfficientNetLite2:
    """Random weights and statistics that keep activations within the reach of ReLU6."""
    torch.manual_seed(0)
    network = EfficientNetLite2().eval()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, 0.5, 0.5)
            nn.init.normal_(module.running_mean, 0.0, 0.3)
            nn.init.uniform_(module.running_var, 0.05, 0.5)
    return network


@pytest.mark.parametrize("side", [256, 96])
def test_folding_batch_norms_changes_nothing(side):
    network = random_network().double()  # float32 rounds the same sums in another order
    trunk = folded(network)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in trunk.modules())
    pixels = torch.rand(2, 3, side, side, generator=torch.Generator().manual_seed(1)).double() * 2 - 1
    with torch.inference_mode():
        expected, found = network.features(pixels), trunk(pixels)
    assert expected.shape == (2, 1280, side // 32, side // 32)
    assert expected.std() > 0.1  # a dead network would agree with anything
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_folding_the_published_weights_changes_nothing():
    network = load_efficientnet()
    pixels = torch.rand(1, 3, 256, 256, generator=torch.Generator().manual_seed(2)) * 2 - 1
    with torch.inference_mode():
        expected, found = network.features(pixels), folded(network)(pixels)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-5)


def test_the_folded_trunk_has_the_published_number_of_weights():
    weights = sum(tensor.numel() for tensor in FoldedTrunk().parameters())
    network = EfficientNetLite2()
    convolutions = [module for module in network.modules() if isinstance(module, nn.Conv2d)]
    assert weights == sum(each.weight.numel() + each.out_channels for each in convolutions) == 4_782_024


# ------------------------------------------------------------------ RoIAlign


def aligned(maps: torch.Tensor, boxes: torch.Tensor, **options) -> torch.Tensor:
    """Maps (n, c, h, w) and boxes (n, k, 4) → (n · k, c, grid, grid), as torchvision has it."""
    weights = align_weights(boxes, *maps.shape[2:], **options)
    cells = maps.flatten(2).transpose(1, 2).unsqueeze(1)
    grid = options.get("grid", 7)
    return (weights @ cells).transpose(2, 3).unflatten(-1, (grid, grid)).flatten(0, 1)


edges = st.tuples(st.floats(0, 0.999), st.floats(0.0005, 1)).map(
    lambda pair: (pair[0], min(1.0, pair[0] + pair[1]))
)


@given(
    boxes=st.lists(st.tuples(edges, edges), min_size=1, max_size=6),
    size=st.sampled_from([(8, 8), (5, 9), (1, 1), (2, 7)]),
    grid=st.sampled_from([7, 3, 1]),
    samples=st.sampled_from([2, 1, 3]),
)
def test_roi_align_is_torchvisions(boxes, size, grid, samples):
    from torchvision.ops import roi_align

    height, width = size
    maps = torch.randn(2, 4, height, width, generator=torch.Generator().manual_seed(3))
    shares = torch.tensor([[x[0], y[0], x[1], y[1]] for x, y in boxes]).repeat(2, 1, 1)
    scaled = [own * torch.tensor([width, height, width, height]) for own in shares]
    expected = roi_align(maps, scaled, grid, spatial_scale=1.0, sampling_ratio=samples, aligned=True)
    found = aligned(maps, shares, grid=grid, samples=samples)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=1e-5)


def test_roi_align_has_torchvisions_gradient():
    from torchvision.ops import roi_align

    maps = torch.randn(1, 2, 8, 8, generator=torch.Generator().manual_seed(4))
    box = torch.tensor([[0.11, 0.2, 0.83, 0.47]])
    gradients = []
    for align in (
        lambda of: aligned(of, box.unsqueeze(0)),
        lambda of: roi_align(of, [box * 8], 7, sampling_ratio=2, aligned=True),
    ):
        own = maps.clone().requires_grad_()
        align(own).square().sum().backward()
        gradients.append(own.grad.numpy())
    assert np.abs(gradients[1]).max() > 0.01
    np.testing.assert_allclose(*gradients, atol=1e-5)


def test_the_weights_of_a_bin_sum_to_one():
    boxes = torch.tensor([WHOLE[0], [0.999, 0.0, 1.0, 1.0], [0.3, 0.4, 0.3001, 0.4001]])
    weights = align_weights(boxes, 8, 8)
    assert weights.shape == (3, 49, 64)
    np.testing.assert_allclose(weights.sum(dim=2), np.ones((3, 49)), atol=1e-6)


# ------------------------------------------------------------------ head


def by_hand(eye: ImageTower, feature_map: torch.Tensor, box: list[float]) -> np.ndarray:
    """The embedding of a region by torchvision's RoIAlign of the map, and the head's layers one by one."""
    from torchvision.ops import roi_align

    config, head = eye.config, eye.head
    height, width = feature_map.shape[1:]
    scaled = torch.tensor([box]) * torch.tensor([width, height, width, height])
    grid = roi_align(feature_map[None], [scaled], config.grid, 1.0, config.samples, aligned=True)[0]
    points = grid.flatten(1).T
    size, mixed = config.width // config.heads, []
    for number in range(config.heads):
        attention = torch.softmax(points @ head.scores.weight[number] + head.places[number], dim=0)
        part = slice(number * size, (number + 1) * size)
        mixed.append(attention @ (points @ head.values.weight[part].T + head.values.bias[part]))
    mean = points.mean(dim=0)
    named = torch.softmax((head.classes.weight @ mean + head.classes.bias) / 2, dim=0) @ head.names
    row = (
        head.out.weight @ torch.nn.functional.gelu(torch.cat(mixed))
        + head.mean.weight @ mean
        + head.mean.bias
        + head.of_hidden.weight @ (head.hidden.weight @ mean + head.hidden.bias).clamp(min=0)
        + head.name_share * named / named.norm()
    )
    return (row / row.norm()).detach().numpy()


@pytest.mark.parametrize("sizes", [{}, {"heads": 4, "grid": 3, "samples": 2}])
def test_attention_over_a_box_by_hand(sizes):
    eye = random_eye(**sizes)
    with torch.no_grad():
        maps = torch.rand(2, eye.config.features, 4, 6, generator=torch.Generator().manual_seed(5)) * 3
        boxes = [[[0.1, 0.2, 0.7, 0.9], [0.5, 0.5, 0.55, 1.0]], [[0.0, 0.0, 0.4, 1.0]]]
        rows = eye.embed_regions(maps, boxes).numpy()
        expected = [by_hand(eye, own, box) for own, listed in zip(maps, boxes, strict=True) for box in listed]
        np.testing.assert_allclose(rows, expected, atol=1e-6)
        # attention matters: a plain mean is another row
        assert np.abs(rows[0] - rows[1]).max() > 1e-3
        np.testing.assert_allclose(
            eye.embed(maps).numpy(), [by_hand(eye, own, WHOLE[0]) for own in maps], atol=1e-6
        )


def test_the_photo_is_the_region_of_its_whole_box():
    eye = random_eye()
    pixels = torch.rand(3, 3, eye.config.side, eye.config.side) * 2 - 1
    with torch.inference_mode():
        maps = eye.feature_map(pixels)
        rows, regions = eye.embed(maps), eye.embed_regions(maps, [WHOLE] * 3)
    assert rows.shape == (3, 512)
    np.testing.assert_allclose(rows, regions, atol=1e-6)
    np.testing.assert_allclose(rows.norm(dim=1), np.ones(3), atol=1e-6)


def test_regions_do_not_depend_on_the_others():
    eye = random_eye()
    generator = np.random.default_rng(6)
    low = generator.uniform(0, 0.9, (150, 2))
    boxes = np.hstack([low, low + generator.uniform(0.01, 0.1, (150, 2))])
    with torch.inference_mode():
        maps = eye.feature_map(torch.rand(3, 3, eye.config.side, eye.config.side))
        together = eye.embed_regions(maps, [boxes[:140], np.zeros((0, 4)), boxes[140:]]).numpy()
        alone = [eye.embed_regions(maps[[0]], [boxes[[row]]]).numpy()[0] for row in (0, 63, 64, 139)]
        last = eye.embed_regions(maps[[2]], [boxes[140:]]).numpy()
    assert together.shape == (150, 512)
    np.testing.assert_allclose(together[[0, 63, 64, 139]], alone, atol=1e-6)
    np.testing.assert_allclose(together[140:], last, atol=1e-6)
    assert eye.embed_regions(maps, [[], [], []]).shape == (0, 512)


def test_everything_learns():
    eye = random_eye()
    maps = eye.feature_map(torch.rand(2, 3, eye.config.side, eye.config.side))
    texts = eye.text(torch.randn(3, 512))
    rows = torch.cat([eye.embed(maps), eye.embed_regions(maps, [WHOLE, [[0.1, 0.1, 0.5, 0.5]]])])
    (rows @ texts.T).square().sum().backward()
    for name, parameter in eye.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


# ------------------------------------------------------------------ text


def test_the_place_of_a_text_by_hand():
    place = TextPlace(2)
    place.centre.copy_(torch.tensor([1.0, 0.0]))
    rows = torch.tensor([[4.0, 4.0], [1.0, -2.0]])
    # without an adapter, a centred row of unit length: (3, 4) / 5 and (0, −1)
    np.testing.assert_allclose(place(rows).detach(), [[0.6, 0.8], [0.0, -1.0]], atol=1e-6)
    with torch.no_grad():
        place.adapter.weight.copy_(torch.tensor([[0.0, 1.0], [0.0, 0.0]]))
    # x + A x: (0.6 + 0.8, 0.8) / √2.6 and (−1, −1) / √2
    expected = [[1.4 / 2.6**0.5, 0.8 / 2.6**0.5], [-(0.5**0.5), -(0.5**0.5)]]
    np.testing.assert_allclose(place(rows).detach(), expected, atol=1e-6)


# ------------------------------------------------------------------ sizes


@pytest.mark.parametrize(
    "sizes",
    [
        {"width": 10, "heads": 4},
        {"side": 0},
        {"features": True},
        {"dim": 10**9},
        {"grid": 2.5},
        {"stages": ()},
        {"stages": ((1, 3, 1, 1),)},
        {"stages": ((1, 4, 1, 1, 8),)},
        {"stages": ((4000, 3, 1, 1, 8),)},
        {"stages": (("1", 3, 1, 1, 8),)},
    ],
)
def test_sizes_that_no_network_has(sizes):
    with pytest.raises(CapscoreError):
        ImageTowerConfig(**{**SMALL, **sizes})


def test_sizes_survive_json():
    config = ImageTowerConfig(**SMALL)
    assert ImageTowerConfig(**config.to_dict()) == config
    assert ImageTowerConfig().to_dict()["stages"][1] == [3, 3, 2, 6, 24]
