"""EfficientNet-Lite2 in plain torch: pixels → feature map → logits of the 1,000 ImageNet classes.

EfficientNet (Tan and Le 2019) without squeeze-and-excitation and with ReLU6 in place of Swish. Parameters
have timm's names, so a state dict of timm's `efficientnet_lite2` loads here and the other way round. timm
itself is not used, because importing it imports torch's compiler, which takes longer than scoring a photo.
"""

from __future__ import annotations

import numpy as np
import torch
from PIL import Image
from torch import nn

# (blocks, kernel, stride of the first block, expansion, channels), stage by stage
STAGES = (
    (1, 3, 1, 1, 16),
    (3, 3, 2, 6, 24),
    (3, 5, 2, 6, 48),
    (4, 3, 2, 6, 88),
    (4, 5, 1, 6, 120),
    (5, 5, 2, 6, 208),
    (1, 3, 1, 6, 352),
)
STEM = 32
FEATURES = 1280
CLASSES = 1000


def photo_pixels(image: Image.Image, side: int) -> torch.Tensor:
    """A photo as the network reads it, float32 (3, side, side) in [−1, 1].

    It is resized as a whole and not cropped: captions also mention things at the edges.

    Args:
        image: The photo, RGB.
        side: Height and width of the result.

    >>> photo_pixels(Image.new("RGB", (300, 200), (255, 0, 0)), side=4)[:, 0, 0].tolist()
    [1.0, -1.0, -1.0]
    """
    resized = image.resize((side, side), Image.Resampling.BICUBIC)
    pixels = torch.from_numpy(np.array(resized, dtype=np.float32)).permute(2, 0, 1)
    return pixels.div_(127.5).sub_(1.0)


class EfficientNetLite2(nn.Module):
    """The network without weights.

    Shapes: pixels (n, 3, height, width) → logits (n, 1000); `features` gives (n, 1280, height/32, width/32).
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv_stem = _convolution(3, STEM, kernel=3, stride=2)
        self.bn1 = nn.BatchNorm2d(STEM)
        self.act = nn.ReLU6(inplace=True)
        stages, width = [], STEM
        for blocks, kernel, stride, expansion, channels in STAGES:
            stage: list[nn.Module] = []
            for number in range(blocks):
                step = stride if number == 0 else 1
                if expansion == 1:
                    stage.append(_Separable(width, channels, kernel, step))
                else:
                    stage.append(_InvertedResidual(width, channels, kernel, step, expansion))
                width = channels
            stages.append(nn.Sequential(*stage))
        self.blocks = nn.Sequential(*stages)
        self.conv_head = _convolution(width, FEATURES, kernel=1)
        self.bn2 = nn.BatchNorm2d(FEATURES)
        self.classifier = nn.Linear(FEATURES, CLASSES)

    def features(self, pixels: torch.Tensor) -> torch.Tensor:
        """The feature map before pooling, (n, 1280, height/32, width/32)."""
        stem = self.act(self.bn1(self.conv_stem(pixels)))
        return self.act(self.bn2(self.conv_head(self.blocks(stem))))

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(pixels).mean(dim=(2, 3)))


class _Separable(nn.Module):
    """Depthwise convolution, then a pointwise one. The residual path needs equal shapes."""

    def __init__(self, channels_in: int, channels: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.conv_dw = _convolution(channels_in, channels_in, kernel, stride, groups=channels_in)
        self.bn1 = nn.BatchNorm2d(channels_in)
        self.act = nn.ReLU6(inplace=True)
        self.conv_pw = _convolution(channels_in, channels, kernel=1)
        self.bn2 = nn.BatchNorm2d(channels)
        self.residual = stride == 1 and channels_in == channels

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        out = self.bn2(self.conv_pw(self.act(self.bn1(self.conv_dw(rows)))))
        return out + rows if self.residual else out


class _InvertedResidual(nn.Module):
    """Expansion, depthwise convolution, projection (MobileNetV2's block)."""

    def __init__(self, channels_in: int, channels: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = channels_in * expansion
        self.conv_pw = _convolution(channels_in, inner, kernel=1)
        self.bn1 = nn.BatchNorm2d(inner)
        self.conv_dw = _convolution(inner, inner, kernel, stride, groups=inner)
        self.bn2 = nn.BatchNorm2d(inner)
        self.act = nn.ReLU6(inplace=True)
        self.conv_pwl = _convolution(inner, channels, kernel=1)
        self.bn3 = nn.BatchNorm2d(channels)
        self.residual = stride == 1 and channels_in == channels

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        inner = self.act(self.bn1(self.conv_pw(rows)))
        inner = self.act(self.bn2(self.conv_dw(inner)))
        out = self.bn3(self.conv_pwl(inner))
        return out + rows if self.residual else out


def _convolution(
    channels_in: int, channels: int, kernel: int, stride: int = 1, *, groups: int = 1
) -> nn.Conv2d:
    return nn.Conv2d(channels_in, channels, kernel, stride, padding=kernel // 2, groups=groups, bias=False)
