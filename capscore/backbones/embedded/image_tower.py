"""The image tower: one pass over a photo → a feature map → embeddings of the photo and of any of its regions.

The trunk is in plain torch, since importing timm or torchvision takes longer than scoring a photo.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.nn import functional as F

from ...errors import CapscoreError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

# blocks, kernel, stride of the first block, expansion, channels
Stage = tuple[int, int, int, int, int]
STAGES: tuple[Stage, ...] = (
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
# Regions of each photo that are pooled together: more would take memory, not save time.
_REGIONS_AT_ONCE = 64
# Far above every useful size.
_MAX_SIZE = 4096
_MAX_BLOCKS = 256
# Above 1, so that the second and third classes count as well: a box shows more than one thing.
_TEMPERATURE = 2.0


def photo_pixels(image: Image.Image, side: int) -> torch.Tensor:
    """A whole photo, not cropped, as the network reads it: float32 (3, side, side) in [−1, 1]."""
    resized = image.resize((side, side), Image.Resampling.BICUBIC)
    pixels = torch.from_numpy(np.array(resized, dtype=np.float32)).permute(2, 0, 1)
    return pixels.div_(127.5).sub_(1.0)


class EfficientNetLite2(nn.Module):
    """EfficientNet (Tan and Le 2019) without squeeze-and-excitation and with ReLU6 in place of Swish.

    Parameters have the names of timm's `efficientnet_lite2`. Pixels (n, 3, height, width) → logits (n, 1000).
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
    channels_in: int, channels: int, kernel: int, stride: int = 1, groups: int = 1, bias: bool = False
) -> nn.Conv2d:
    padding = kernel // 2
    return nn.Conv2d(channels_in, channels, kernel, stride, padding=padding, groups=groups, bias=bias)


class FoldedTrunk(nn.Module):
    """EfficientNet-Lite whose batch norms are folded into the convolutions before them.

    Shapes: pixels (n, 3, height, width) → (n, features, height / s, width / s), rounded up, where s is the
    product of all strides: 32 for EfficientNet-Lite2.
    """

    def __init__(
        self, stem: int = STEM, stages: Sequence[Sequence[int]] = STAGES, features: int = FEATURES
    ) -> None:
        super().__init__()
        self.stem = _convolution(3, stem, kernel=3, stride=2, bias=True)
        listed, width = [], stem
        for blocks, kernel, stride, expansion, channels in stages:
            for number in range(blocks):
                step = stride if number == 0 else 1
                listed.append(FoldedBlock(width, channels, kernel, step, expansion))
                width = channels
        self.blocks = nn.Sequential(*listed)
        self.last = _convolution(width, features, kernel=1, bias=True)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return F.relu6(self.last(self.blocks(F.relu6(self.stem(pixels)))))


class FoldedBlock(nn.Module):
    """Expansion (none by a factor of 1), depthwise convolution, projection."""

    def __init__(self, channels_in: int, channels: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = channels_in * expansion
        self.expand = _convolution(channels_in, inner, kernel=1, bias=True) if expansion > 1 else None
        self.depthwise = _convolution(inner, inner, kernel, stride, groups=inner, bias=True)
        self.project = _convolution(inner, channels, kernel=1, bias=True)
        self.residual = stride == 1 and channels_in == channels

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        inner = rows if self.expand is None else F.relu6(self.expand(rows))
        out = self.project(F.relu6(self.depthwise(inner)))
        return out + rows if self.residual else out


def align_weights(
    boxes: torch.Tensor, height: int, width: int, *, grid: int = 7, samples: int = 2
) -> torch.Tensor:
    """Weights of the cells of a map at the points of a grid over each box: RoIAlign (He et al. 2017).

    RoIAlign is linear in the map, and separable into the two axes, so that two small matrices say all of it.
    `align_weights(boxes, *map.shape[1:]) @ map.flatten(1).T` is RoIAlign with aligned=True of a map
    (channels, height, width), (k, grid², channels).

    Args:
        boxes: (k, 4) or (n, k, 4), left, top, right, bottom, as shares of the map's sides in [0, 1].
        height, width: Numbers of the map's rows and columns.
        grid: Number of bins along each side of a box, each the mean of `samples`² points.
        samples: Number of points along each side of a bin.

    Returns:
        (…, grid², height · width), rows in reading order; the weights of each row sum to 1.
    """
    left, top, right, bottom = boxes.unbind(dim=-1)
    down = _axis(top, bottom, height, grid, samples)
    across = _axis(left, right, width, grid, samples)
    both = down[..., :, None, :, None] * across[..., None, :, None, :]
    return both.flatten(-4, -3).flatten(-2)


def _axis(low: torch.Tensor, high: torch.Tensor, size: int, grid: int, samples: int) -> torch.Tensor:
    """Weights of `size` cells in `grid` bins from low to high, (…, grid, size)."""
    steps = (torch.arange(grid * samples, device=low.device, dtype=low.dtype) + 0.5) / (grid * samples)
    # the centre of the first cell is at 0, and points beyond a centre at the edge count as being there
    points = (low[..., None] + (high - low)[..., None] * steps) * size - 0.5
    cells = torch.arange(size, device=low.device, dtype=low.dtype)
    near = (1.0 - (points.clamp(0.0, size - 1.0)[..., None] - cells).abs()).clamp(min=0.0)
    return near.unflatten(-2, (grid, samples)).mean(dim=-2)


@dataclass(frozen=True)
class ImageTowerConfig:
    """Sizes of the network; a smaller trunk makes a network for tests.

    The trunk reads photos of `side` pixels (see `FoldedTrunk`). `width` is the number of channels of the
    values and a multiple of the attention `heads`, `hidden` the width of the hidden layer, `classes` the
    number of classes with names; `grid` and `samples` are those of `align_weights`. `text_hidden` is the
    width of the hidden layer of `TextPlace`, 0 for none.
    """

    dim: int = 512
    side: int = 256
    stem: int = STEM
    stages: tuple[Stage, ...] = STAGES
    features: int = FEATURES
    width: int = 576
    heads: int = 12
    hidden: int = 704
    classes: int = CLASSES
    grid: int = 8
    samples: int = 1
    text_hidden: int = 0

    def __post_init__(self) -> None:
        stages = tuple(map(tuple, self.stages))
        object.__setattr__(self, "stages", stages)
        sizes = [value for name, value in vars(self).items() if name not in ("stages", "text_hidden")]
        if (
            not all(type(size) is int and 1 <= size <= _MAX_SIZE for size in (*sizes, *sum(stages, ())))
            or {len(stage) for stage in stages} != {5}
            or sum(blocks for blocks, *_ in stages) > _MAX_BLOCKS
            or self.width % self.heads
            or type(self.text_hidden) is not int
            or not 0 <= self.text_hidden <= _MAX_SIZE
        ):
            raise CapscoreError(f"no image tower has the sizes {self!r:.300}")

    def to_dict(self) -> dict[str, object]:
        """The sizes, ready for JSON."""
        return {**asdict(self), "stages": [list(stage) for stage in self.stages]}


class ImageTower(nn.Module):
    """The network: `trunk` pixels → map, `head` map and boxes → embeddings, `text` place of texts.

    Shapes: `feature_map` takes pixels (n, 3, side, side) in [−1, 1] and gives (n, features, h, w); `embed`
    and `embed_regions` take that map. All rows of embeddings have unit length.
    """

    def __init__(self, config: ImageTowerConfig | None = None) -> None:
        super().__init__()
        self.config = config or ImageTowerConfig()
        self.trunk = FoldedTrunk(self.config.stem, self.config.stages, self.config.features)
        self.head = RegionHead(self.config)
        self.text = TextPlace(self.config.dim, self.config.text_hidden)

    def _get_name(self) -> str:
        return "Eye"  # a network's printed form is part of its backbone's fingerprint

    def feature_map(self, pixels: torch.Tensor) -> torch.Tensor:
        """Pixels (n, 3, side, side) → (n, features, h, w)."""
        return self.trunk(pixels.contiguous(memory_format=torch.channels_last))

    def embed(self, maps: torch.Tensor) -> torch.Tensor:
        """Maps of n photos → (n, dim): each photo is the region of its whole box."""
        whole = torch.tensor([[[0.0, 0.0, 1.0, 1.0]]], device=maps.device)
        return self.head(maps, whole.expand(len(maps), 1, 4)).flatten(0, 1)

    def embed_regions(self, maps: torch.Tensor, boxes: Sequence[ArrayLike]) -> torch.Tensor:
        """Maps of n photos → (k_1 + … + k_n, dim), photo after photo."""
        listed = [torch.as_tensor(rows, dtype=torch.float32).reshape(-1, 4).clamp(0.0, 1.0) for rows in boxes]
        longest = max(map(len, listed), default=0)
        if not longest:
            return torch.zeros(0, self.config.dim, device=maps.device)
        # a photo with fewer regions than another has its whole box in their place, which is left out again
        padded = torch.tensor([0.0, 0.0, 1.0, 1.0]).repeat(len(listed), longest, 1)
        present = torch.zeros(len(listed), longest, dtype=torch.bool)
        for photo, rows in enumerate(listed):
            padded[photo, : len(rows)] = rows
            present[photo, : len(rows)] = True
        return self.head(maps, padded.to(maps.device))[present.to(maps.device)]


class RegionHead(nn.Module):
    """What a box shows → its embedding, the sum of four views of the grid that RoIAlign lays over it.

    Shapes: maps (n, features, h, w) and boxes (n, k, 4) → (n, k, dim), rows of unit length. Attention: each
    head weights the points of the grid and mixes their values; `places` says which points it likes
    beforehand. Mean: the mean of the points by a linear map, and by a network with one hidden layer. Names:
    class probabilities of the mean weight the embeddings of the classes' names, as ConSE does (Norouzi et al.
    2014). RoIAlign is linear, as are scores and values, so cells are scored and valued once per photo.
    """

    def __init__(self, config: ImageTowerConfig) -> None:
        super().__init__()
        self.heads, self.grid, self.samples = config.heads, config.grid, config.samples
        self.dropout = 0.0
        self.scores = nn.Linear(config.features, config.heads, bias=False)
        self.places = nn.Parameter(torch.zeros(config.heads, config.grid**2))
        self.values = nn.Linear(config.features, config.width)
        self.out = nn.Linear(config.width, config.dim, bias=False)
        self.mean = nn.Linear(config.features, config.dim)
        self.hidden = nn.Linear(config.features, config.hidden)
        self.of_hidden = nn.Linear(config.hidden, config.dim, bias=False)
        self.classes = nn.Linear(config.features, config.classes)
        # (classes, dim), directions among the texts
        self.names = nn.Parameter(torch.empty(config.classes, config.dim))
        if not self.names.is_meta:  # drawing there imports a compiler, more than a second of start
            nn.init.normal_(self.names, std=1 / math.sqrt(config.dim))
        self.name_share = nn.Parameter(torch.ones(()))

    def forward(self, maps: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
        height, width = maps.shape[-2:]
        cells = maps.flatten(2).transpose(1, 2)
        scores, values = self.scores(cells), self.values(cells).unflatten(-1, (self.heads, -1))
        rows = []
        for part in boxes.split(_REGIONS_AT_ONCE, dim=1):
            weights = align_weights(part, height, width, grid=self.grid, samples=self.samples)
            rows.append(self._pooled(cells, scores, values, weights))
        return torch.cat(rows, dim=1)

    def _pooled(
        self, cells: torch.Tensor, scores: torch.Tensor, values: torch.Tensor, weights: torch.Tensor
    ) -> torch.Tensor:
        """Cells (n, h·w, features), scores (n, h·w, heads), values (n, h·w, heads, width/heads), weights
        (n, k, grid², h·w) → regions of n photos, (n, k, dim)."""
        at_points = weights @ scores.unsqueeze(1) + self.places.T
        attention = at_points.softmax(dim=2).transpose(2, 3)  # (n, k, heads, grid²)
        mixed = torch.einsum("nkhc,nchd->nkhd", attention @ weights, values)
        mean = weights.mean(dim=2) @ cells  # (n, k, features)
        dropped = self._drop(mean)
        shares = (self.classes(mean) / _TEMPERATURE).softmax(dim=-1)
        rows = (
            self.out(self._drop(F.gelu(mixed.flatten(2))))
            + self.mean(dropped)
            + self.of_hidden(self._drop(F.relu(self.hidden(dropped))))
            + self.name_share * F.normalize(shares @ self.names, dim=-1)
        )
        return F.normalize(rows, dim=-1)

    def _drop(self, rows: torch.Tensor) -> torch.Tensor:
        return F.dropout(rows, self.dropout, self.training)


class TextPlace(nn.Module):
    """Rows of the text encoder (n, dim) → their places among the photos (n, dim), rows of unit length.

    x = normalize(row − centre), what all texts have in common; the place is normalize(x + A x), A zero at
    first, or with a hidden layer normalize(x + A x + C gelu(B x)), C zero at first.
    """

    centre: torch.Tensor

    def __init__(self, dim: int, hidden: int = 0) -> None:
        super().__init__()
        self.register_buffer("centre", torch.zeros(dim))
        self.adapter = nn.Linear(dim, dim, bias=False)
        nn.init.zeros_(self.adapter.weight)
        self.inner = nn.Linear(dim, hidden) if hidden else None
        self.outer = nn.Linear(hidden, dim, bias=False) if hidden else None
        if self.outer is not None:
            nn.init.zeros_(self.outer.weight)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.adapted(F.normalize(rows.float() - self.centre, dim=-1))

    def adapted(self, centred: torch.Tensor) -> torch.Tensor:
        """Centred unit rows (…, dim) → their places among the photos."""
        moved = self.adapter(centred)
        if self.inner is not None and self.outer is not None:
            moved = moved + self.outer(F.gelu(self.inner(centred)))
        return F.normalize(centred + moved, dim=-1)
