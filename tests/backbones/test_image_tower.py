"""The image tower: EfficientNet against timm, RoIAlign against torchvision, the rest by hand."""

import numpy as np
import pytest
import torch

from capscore.backbones.embedded import image_tower
from capscore.backbones.embedded.backbone import load_efficientnet
from capscore.backbones.embedded.image_tower import ImageTowerConfig, TextPlace, align_weights
from capscore.errors import CapscoreError
from tools.tiny.image_tower import SMALL, random_image_tower
from weights.making.image_tower.features import folded

WHOLE = [[0.0, 0.0, 1.0, 1.0]]


def rand(*shape, seed=1):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


@torch.inference_mode()
def test_efficientnet_equals_timm():
    timm = pytest.importorskip("timm")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        theirs = timm.create_model("efficientnet_lite2", pretrained=False).eval()
        for name, tensor in theirs.state_dict().items():
            if name.endswith(("running_mean", "running_var")):
                tensor.uniform_(0.5, 1.5)
    ours = image_tower.EfficientNetLite2().eval()
    assert list(ours.state_dict()) == list(theirs.state_dict()), "a published file is read in this order"
    ours.load_state_dict(theirs.state_dict())
    for sides in ((260, 260), (97, 33)):
        pixels = rand(2, 3, *sides) * 4 - 2
        pairs = (ours.features(pixels), theirs.forward_features(pixels)), (ours(pixels), theirs(pixels))
        for found, expected in pairs:
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


@torch.inference_mode()
def test_folding_batch_norms_changes_nothing():
    network = load_efficientnet().double()  # float32 rounds the same sums in another order
    trunk = folded(network)
    pixels = rand(2, 3, 96, 96).double() * 2 - 1
    expected = network.features(pixels)
    assert expected.std() > 0.1  # a dead network would agree with anything
    torch.testing.assert_close(trunk(pixels), expected, atol=1e-5, rtol=0)
    assert sum(tensor.numel() for tensor in image_tower.FoldedTrunk().parameters()) == 4_782_024


def aligned(maps: torch.Tensor, boxes: torch.Tensor, **options) -> torch.Tensor:
    """Maps (n, c, h, w) and boxes (n, k, 4) → (n · k, c, grid, grid), as torchvision has it."""
    weights = align_weights(boxes, *maps.shape[2:], **options)
    cells = maps.flatten(2).transpose(1, 2).unsqueeze(1)
    grid = options.get("grid", 7)
    return (weights @ cells).transpose(2, 3).unflatten(-1, (grid, grid)).flatten(0, 1)


@pytest.mark.parametrize("size, grid, samples", [((8, 8), 7, 2), ((5, 9), 3, 1), ((1, 1), 7, 3)])
def test_roi_align_and_its_gradient_are_torchvisions(size, grid, samples):
    from torchvision.ops import roi_align

    (height, width), random = size, np.random.default_rng(0)
    corners = np.sort(random.uniform(0, 1, (6, 2, 2)), axis=1).reshape(6, 4)
    corners = np.array([*corners, [0.0, 0.0, 1.0, 1.0], [0.999, 0.2, 1.0, 0.2005]])
    shares = torch.from_numpy(corners).repeat(2, 1, 1)
    scaled = [own * torch.tensor([width, height, width, height]) for own in shares]
    weights = align_weights(shares, height, width, grid=grid, samples=samples)
    np.testing.assert_allclose(weights.sum(dim=-1), torch.ones(weights.shape[:-1]), atol=1e-6)
    found, gradients = [], []
    theirs = {"output_size": grid, "sampling_ratio": samples, "aligned": True}
    for ours in (True, False):
        maps = (rand(2, 4, height, width) * 4 - 2).double().requires_grad_()
        by_weights = aligned(maps, shares, grid=grid, samples=samples)
        found.append(by_weights if ours else roi_align(maps, scaled, **theirs))
        found[-1].square().sum().backward()
        gradients.append(maps.grad.numpy())
    np.testing.assert_allclose(*(rows.detach().numpy() for rows in found), atol=1e-5)
    np.testing.assert_allclose(*gradients, rtol=1e-6, atol=1e-6)


def by_hand(eye, feature_map, box):
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
    row = head.out.weight @ torch.nn.functional.gelu(torch.cat(mixed)) + head.mean.weight @ mean
    row += head.of_hidden.weight @ (head.hidden.weight @ mean + head.hidden.bias).clamp(min=0)
    row += head.mean.bias + head.name_share * named / named.norm()
    return (row / row.norm()).detach().numpy()


@pytest.mark.parametrize("sizes", [{}, {"heads": 4, "grid": 3, "samples": 2}])
def test_attention_over_a_box_by_hand(sizes):
    eye = random_image_tower(**sizes)
    boxes = [[[0.1, 0.2, 0.7, 0.9], [0.5, 0.5, 0.55, 1.0]], [[0.0, 0.0, 0.4, 1.0]]]
    with torch.no_grad():
        maps = rand(2, eye.config.features, 4, 6) * 3
        rows = eye.embed_regions(maps, boxes).numpy()
        expected = [by_hand(eye, own, box) for own, listed in zip(maps, boxes, strict=True) for box in listed]
        whole = [by_hand(eye, own, WHOLE[0]) for own in maps]
        np.testing.assert_allclose(eye.embed(maps).numpy(), whole, atol=1e-6)
    np.testing.assert_allclose(rows, expected, atol=1e-6)
    assert np.abs(rows[0] - rows[1]).max() > 1e-3


@torch.inference_mode()
def test_regions_do_not_depend_on_the_others():
    eye, random = random_image_tower(), np.random.default_rng(6)
    low = random.uniform(0, 0.9, (150, 2))
    boxes = np.hstack([low, low + random.uniform(0.01, 0.1, (150, 2))])
    maps = eye.feature_map(rand(3, 3, eye.config.side, eye.config.side))
    together = eye.embed_regions(maps, [boxes[:140], np.zeros((0, 4)), boxes[140:]]).numpy()
    alone = [eye.embed_regions(maps[[0]], [boxes[[row]]]).numpy()[0] for row in (0, 63, 64, 139)]
    np.testing.assert_allclose(together[[0, 63, 64, 139]], alone, atol=1e-6)
    last = eye.embed_regions(maps[[2]], [boxes[140:]]).numpy()
    np.testing.assert_allclose(together[140:], last, atol=1e-6)
    assert eye.embed_regions(maps, [[], [], []]).shape == (0, 512)


@torch.no_grad()
def test_the_place_of_a_text_by_hand():
    place = TextPlace(2)
    place.centre.copy_(torch.tensor([1.0, 0.0]))
    rows = torch.tensor([[4.0, 4.0], [1.0, -2.0]])
    # without an adapter, a centred row of unit length: (3, 4) / 5 and (0, −1)
    np.testing.assert_allclose(place(rows), [[0.6, 0.8], [0.0, -1.0]], atol=1e-6)
    place.adapter.weight.copy_(torch.tensor([[0.0, 1.0], [0.0, 0.0]]))
    # x + A x: (0.6 + 0.8, 0.8) / √2.6 and (−1, −1) / √2
    expected = [[1.4 / 2.6**0.5, 0.8 / 2.6**0.5], [-(0.5**0.5), -(0.5**0.5)]]
    np.testing.assert_allclose(place(rows), expected, atol=1e-6)
    place = TextPlace(2, hidden=1)
    place.inner.weight.copy_(torch.tensor([[1.0, 0.0]]))
    place.inner.bias.fill_(0.4)
    place.outer.weight.copy_(torch.tensor([[0.0], [2.0]]))
    # x = (0.6, 0.8), gelu(0.6 + 0.4) = Φ(1) = 0.841345, so x + (0, 2 · 0.841345)
    expected = np.array([0.6, 0.8 + 2 * 0.8413447])
    found = place(torch.tensor([[3.0, 4.0]]))[0]
    np.testing.assert_allclose(found, expected / np.linalg.norm(expected), atol=1e-6)


STAGES = ((), ((1, 3, 1, 1),), ((4000, 3, 1, 1, 8),), (("1", 3, 1, 1, 8),))
SIZES = [{"width": 10, "heads": 4}, {"side": 0}, {"features": True}, {"dim": 10**9}, {"text_hidden": -1}]


@pytest.mark.parametrize("sizes", [*SIZES, *({"stages": stages} for stages in STAGES)], ids=str)
def test_sizes_that_no_network_has(sizes):
    with pytest.raises(CapscoreError):
        ImageTowerConfig(**{**SMALL, **sizes})
