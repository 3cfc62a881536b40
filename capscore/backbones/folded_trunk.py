"""EfficientNet-Lite without batch norms: each is folded into the convolution before it.

In: pixels. Out: the feature map before pooling. `folded` makes it from the network with batch norms and gives
the same map; it is smaller, faster, and has nothing left that training and use compute differently.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from .efficientnet_lite import FEATURES, STAGES, STEM, EfficientNetLite2

# blocks, kernel, stride of the first block, expansion, channels
Stage = tuple[int, int, int, int, int]


class FoldedTrunk(nn.Module):
    """The network without weights.

    Shapes: pixels (n, 3, height, width) → (n, features, height / s, width / s), rounded up, where s is the
    product of all strides: 32 for EfficientNet-Lite2.

    Args:
        stem: Channels of the first convolution.
        stages: Blocks, kernel, stride of the first block, expansion and channels of each stage.
        features: Channels of the map.
    """

    def __init__(
        self, stem: int = STEM, stages: Sequence[Sequence[int]] = STAGES, features: int = FEATURES
    ) -> None:
        super().__init__()
        self.stem = _convolution(3, stem, kernel=3, stride=2)
        listed, width = [], stem
        for blocks, kernel, stride, expansion, channels in stages:
            for number in range(blocks):
                step = stride if number == 0 else 1
                listed.append(FoldedBlock(width, channels, kernel, step, expansion))
                width = channels
        self.blocks = nn.Sequential(*listed)
        self.last = _convolution(width, features, kernel=1)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return F.relu6(self.last(self.blocks(F.relu6(self.stem(pixels)))))


class FoldedBlock(nn.Module):
    """Expansion (none by a factor of 1), depthwise convolution, projection."""

    def __init__(self, channels_in: int, channels: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = channels_in * expansion
        self.expand = _convolution(channels_in, inner, kernel=1) if expansion > 1 else None
        self.depthwise = _convolution(inner, inner, kernel, stride, groups=inner)
        self.project = _convolution(inner, channels, kernel=1)
        self.residual = stride == 1 and channels_in == channels

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        inner = rows if self.expand is None else F.relu6(self.expand(rows))
        out = self.project(F.relu6(self.depthwise(inner)))
        return out + rows if self.residual else out


def folded(network: EfficientNetLite2) -> FoldedTrunk:
    """The trunk of a network with its batch norms, as they are in eval mode, folded into the convolutions.

    Args:
        network: Network whose weights are copied; the classifier is left out.
    """
    trunk = FoldedTrunk().to(network.conv_stem.weight)
    # convolution to fill, convolution and batch norm to fill it from
    pairs: list[tuple[Any, Any, Any]] = [(trunk.stem, network.conv_stem, network.bn1)]
    stages: Any = network.blocks
    blocks = [block for stage in stages for block in stage]
    for own, block in zip(trunk.blocks, blocks, strict=True):
        if hasattr(block, "conv_pwl"):
            pairs += [
                (own.expand, block.conv_pw, block.bn1),
                (own.depthwise, block.conv_dw, block.bn2),
                (own.project, block.conv_pwl, block.bn3),
            ]
        else:
            pairs += [(own.depthwise, block.conv_dw, block.bn1), (own.project, block.conv_pw, block.bn2)]
    pairs.append((trunk.last, network.conv_head, network.bn2))
    with torch.no_grad():
        for target, convolution, norm in pairs:
            factor = norm.weight / (norm.running_var + norm.eps).sqrt()
            target.weight.copy_(convolution.weight * factor.view(-1, 1, 1, 1))
            target.bias.copy_(norm.bias - norm.running_mean * factor)
    return trunk


def _convolution(
    channels_in: int, channels: int, kernel: int, stride: int = 1, *, groups: int = 1
) -> nn.Conv2d:
    return nn.Conv2d(channels_in, channels, kernel, stride, padding=kernel // 2, groups=groups)
