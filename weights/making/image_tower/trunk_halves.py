"""The trunk in two halves: the frozen one, whose output is on disk, and the one that is trained.

Both share their layers with the trunk, so that the trunk is trained with its second half.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from capscore.backbones.embedded.image_tower import EfficientNetLite2, FoldedBlock, FoldedTrunk, Stage


class FrozenHalf(nn.Module):
    """Pixels (n, 3, side, side) → what the first blocks give, (n, 88, side / 16, side / 16) after 4 stages.

    Args:
        trunk: The trunk.
        blocks: Number of its first blocks, as `blocks_of_stages` counts them.
    """

    def __init__(self, trunk: FoldedTrunk, blocks: int):
        super().__init__()
        self.stem, self.blocks = trunk.stem, trunk.blocks[:blocks]

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.blocks(F.relu6(self.stem(pixels)))


class TrainedHalf(nn.Module):
    """What `FrozenHalf` gives → the feature map of the trunk, (n, features, h, w).

    Args:
        trunk, blocks: As for `FrozenHalf`.
        train_depthwise: Whether the depthwise convolutions are trained.
    """

    def __init__(self, trunk: FoldedTrunk, blocks: int, *, train_depthwise: bool = True):
        super().__init__()
        self.blocks, self.last = trunk.blocks[blocks:], trunk.last
        if not train_depthwise:
            for block in self.blocks:
                block.depthwise.requires_grad_(False)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            rows = _strided(block, rows) if block.depthwise.stride != (1, 1) else block(rows)
        return F.relu6(self.last(rows))


def _strided(block: FoldedBlock, rows: torch.Tensor) -> torch.Tensor:
    """A block whose depthwise convolution has a stride, with that in float32.

    In bfloat16 CPUs take a hundred times as long for its gradient.
    """
    inner = rows if block.expand is None else F.relu6(block.expand(rows))
    with torch.autocast(rows.device.type, enabled=False):
        inner = F.relu6(block.depthwise(inner.float()))
    return block.project(inner)


def blocks_of_stages(stages: Sequence[Stage], frozen: int) -> int:
    """Number of blocks in the first `frozen` stages.

    >>> from capscore.backbones.embedded.image_tower import STAGES
    >>> blocks_of_stages(STAGES, 4)
    11
    """
    return sum(stage[0] for stage in stages[:frozen])


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
