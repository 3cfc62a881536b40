"""EfficientNet-Lite2 against timm's."""

import pytest
import torch

from capscore.backbones.embedded.image_tower import CLASSES, FEATURES, EfficientNetLite2

SIDES = [(260, 260), (97, 33), (64, 65)]


@pytest.fixture(scope="module")
def networks():
    """Timm's network with random weights and random batch statistics, and ours with the same."""
    timm = pytest.importorskip("timm")
    torch.manual_seed(5)
    theirs = timm.create_model("efficientnet_lite2", pretrained=False)
    for name, tensor in theirs.state_dict().items():
        if name.endswith(("running_mean", "running_var")):
            tensor.uniform_(0.5, 1.5)
    ours = EfficientNetLite2()
    ours.load_state_dict(theirs.state_dict())
    return theirs.eval(), ours.eval()


def test_layers_have_the_names_and_order_of_timm(networks):
    theirs, ours = networks
    assert list(ours.state_dict()) == list(theirs.state_dict())


@pytest.mark.parametrize("sides", SIDES)
@torch.inference_mode()
def test_logits_and_feature_maps_equal_timm(networks, sides):
    theirs, ours = networks
    pixels = torch.randn(2, 3, *sides, generator=torch.Generator().manual_seed(1))
    features = ours.features(pixels)
    assert features.shape == (2, FEATURES, -(-sides[0] // 32), -(-sides[1] // 32))
    torch.testing.assert_close(features, theirs.forward_features(pixels), rtol=1e-5, atol=1e-6)
    logits = ours(pixels)
    assert logits.shape == (2, CLASSES)
    torch.testing.assert_close(logits, theirs(pixels), rtol=1e-5, atol=1e-6)
