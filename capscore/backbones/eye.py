"""The eye: one pass over a photo → a feature map → embeddings of the photo and of any of its regions.

In: pixels, boxes, and rows of the text encoder. Out: rows of unit length in one space. The head reads a grid
that RoIAlign lays over a box; the photo itself is the region of its whole box.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from ..errors import CapscoreError, InputError
from .efficientnet_lite import CLASSES, FEATURES, STAGES, STEM
from .folded_trunk import FoldedTrunk, Stage
from .roi_align import align_weights

# Regions of each photo that are pooled together: more would take memory, not save time.
_REGIONS_AT_ONCE = 64
# The most that any number of a config may be: far above every useful one.
_MOST = 4096
_MOST_BLOCKS = 256
# Above 1, so that the second and third classes count as well: a box shows more than one thing.
_TEMPERATURE = 2.0


@dataclass(frozen=True)
class EyeConfig:
    """Sizes of the network; a smaller trunk makes a network for tests.

    Attributes:
        dim: Length of an embedding.
        side: Height and width of the photo that the trunk reads, in pixels.
        stem, stages, features: Trunk, as in `FoldedTrunk`.
        width: Channels of the values.
        heads: Attention heads, a divisor of the width.
        hidden: Width of the hidden layer.
        classes: Number of classes with names.
        grid: Bins along each side of a box.
        samples: Points along each side of a bin.

    Raises:
        CapscoreError: a size that is not a whole number in its range.
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

    def __post_init__(self) -> None:
        plain = {name: value for name, value in asdict(self).items() if name != "stages"}
        for name, value in plain.items():
            _check_size(name, value)
        if not isinstance(self.stages, (tuple, list)) or not self.stages:
            raise CapscoreError(f"'stages' of an eye is {self.stages!r:.60}: expected a list of stages")
        for stage in self.stages:
            if not isinstance(stage, (tuple, list)) or len(stage) != 5:
                raise CapscoreError(
                    f"a stage of an eye is {stage!r:.60}: expected five numbers, blocks, kernel, stride, "
                    "expansion, channels"
                )
            for value in stage:
                _check_size("stages", value)
            if stage[1] % 2 == 0:
                raise CapscoreError(f"a stage of an eye has the kernel {stage[1]}: expected an odd number")
        if sum(stage[0] for stage in self.stages) > _MOST_BLOCKS:
            raise CapscoreError(f"the trunk of an eye has at most {_MOST_BLOCKS} blocks")
        if self.width % self.heads:
            raise CapscoreError(f"an eye of width {self.width} cannot have {self.heads} heads: no divisor")
        object.__setattr__(self, "stages", tuple(tuple(stage) for stage in self.stages))

    def to_dict(self) -> dict[str, Any]:
        """The sizes, ready for JSON."""
        return {**asdict(self), "stages": [list(stage) for stage in self.stages]}


class Eye(nn.Module):
    """The network without weights.

    Shapes: `feature_map` takes pixels (n, 3, side, side) in [−1, 1] and gives (n, features, h, w); `embed`
    and `embed_regions` take that map. All rows of embeddings have unit length.

    Attributes:
        config: Sizes.
        trunk: Pixels → map.
        head: Map and boxes → embeddings.
        text: Rows of the text encoder → their places among the photos.
    """

    def __init__(self, config: EyeConfig | None = None) -> None:
        super().__init__()
        self.config = config or EyeConfig()
        self.trunk = FoldedTrunk(self.config.stem, self.config.stages, self.config.features)
        self.head = RegionHead(self.config)
        self.text = TextPlace(self.config.dim)

    def feature_map(self, pixels: torch.Tensor) -> torch.Tensor:
        """Pixels (n, 3, side, side) → (n, features, h, w)."""
        return self.trunk(pixels.contiguous(memory_format=torch.channels_last))

    def embed(self, maps: torch.Tensor) -> torch.Tensor:
        """Maps of n photos → (n, dim): each photo is the region of its whole box."""
        whole = torch.tensor([[[0.0, 0.0, 1.0, 1.0]]], device=maps.device)
        return self.head(maps, whole.expand(len(maps), 1, 4)).flatten(0, 1)

    def embed_regions(self, maps: torch.Tensor, boxes: Sequence[Any]) -> torch.Tensor:
        """Maps of n photos → (k_1 + … + k_n, dim), photo after photo.

        Args:
            maps: (n, features, h, w).
            boxes: n arrays or tensors (k_i, 4), left, top, right, bottom as shares of the photo's width and
                height, in [0, 1].

        Raises:
            InputError: a box without area, or one that reaches beyond the photo; named by its number and its
                photo's, counted from 0.
        """
        checked = [_check_shares(own, photo) for photo, own in enumerate(boxes)]
        if len(checked) != len(maps):
            raise InputError(f"{len(checked)} lists of boxes for {len(maps)} photos", field="boxes")
        most = max((len(own) for own in checked), default=0)
        if not most:
            return torch.zeros(0, self.config.dim, device=maps.device)
        # a photo with fewer regions than another has its whole box in their place, which is left out again
        padded = torch.tensor([0.0, 0.0, 1.0, 1.0]).repeat(len(checked), most, 1)
        given = torch.zeros(len(checked), most, dtype=torch.bool)
        for photo, own in enumerate(checked):
            padded[photo, : len(own)] = own
            given[photo, : len(own)] = True
        rows = self.head(maps, padded.to(maps.device))
        return rows[given.to(maps.device)]


class RegionHead(nn.Module):
    """What a box shows → its embedding, the sum of four views of the grid that RoIAlign lays over it.

    Shapes: maps (n, features, h, w) and boxes (n, k, 4) → (n, k, dim), rows of unit length.

    Attention: each head weights the points of the grid and mixes their values; `places` says which points it
    likes beforehand. Mean: the mean of the points by a linear map, and by a network with one hidden layer.
    Names: class probabilities of the mean weight the embeddings of the classes' names, as ConSE does
    (Norouzi et al. 2014), which knows things that no caption of the training mentions.

    RoIAlign is linear, as are scores and values. So cells are scored and valued once per photo, and a region
    costs only the mixing of its h · w cells.
    """

    def __init__(self, config: EyeConfig) -> None:
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
        return torch.cat(
            [
                self._pooled(
                    cells,
                    scores,
                    values,
                    align_weights(part, height, width, grid=self.grid, samples=self.samples),
                )
                for part in boxes.split(_REGIONS_AT_ONCE, dim=1)
            ],
            dim=1,
        )

    def _pooled(
        self, cells: torch.Tensor, scores: torch.Tensor, values: torch.Tensor, weights: torch.Tensor
    ) -> torch.Tensor:
        """Regions of n photos, (n, k, dim).

        Args:
            cells: (n, h · w, features).
            scores: (n, h · w, heads).
            values: (n, h · w, heads, width / heads).
            weights: (n, k, grid², h · w).
        """
        at_points = weights @ scores.unsqueeze(1) + self.places.T
        attention = at_points.softmax(dim=2).transpose(2, 3)  # (n, k, heads, grid²)
        mixed = torch.einsum("nkhc,nchd->nkhd", attention @ weights, values)
        mean = weights.mean(dim=2) @ cells  # (n, k, features)
        kept = self._drop(mean)
        shares = (self.classes(mean) / _TEMPERATURE).softmax(dim=-1)
        rows = (
            self.out(self._drop(F.gelu(mixed.flatten(2))))
            + self.mean(kept)
            + self.of_hidden(self._drop(F.relu(self.hidden(kept))))
            + self.name_share * F.normalize(shares @ self.names, dim=-1)
        )
        return F.normalize(rows, dim=-1)

    def _drop(self, rows: torch.Tensor) -> torch.Tensor:
        return F.dropout(rows, self.dropout, self.training)


class TextPlace(nn.Module):
    """Rows of the text encoder (n, dim) → their places among the photos (n, dim), rows of unit length.

    x = normalize(row − centre); the place is normalize(x + A x).

    Attributes:
        centre: (dim,), what all texts have in common.
        adapter: The matrix A, zero at first.
    """

    centre: torch.Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("centre", torch.zeros(dim))
        self.adapter = nn.Linear(dim, dim, bias=False)
        nn.init.zeros_(self.adapter.weight)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.adapted(F.normalize(rows.float() - self.centre, dim=-1))

    def adapted(self, centred: torch.Tensor) -> torch.Tensor:
        """Centred unit rows (…, dim) → their places among the photos."""
        return F.normalize(centred + self.adapter(centred), dim=-1)


def _check_size(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST:
        raise CapscoreError(
            f"{name!r} of an eye is {value!r:.60}: expected a whole number from 1 to {_MOST:,}"
        )


def _check_shares(boxes: Any, photo: int) -> torch.Tensor:
    """Boxes of one photo as float32 (k, 4) on the CPU."""
    checked = torch.as_tensor(boxes, dtype=torch.float32, device="cpu").reshape(-1, 4)
    left, top, right, bottom = checked.unbind(dim=1)
    # False for NaN too; what rounding puts beyond an edge is at the edge
    inside = ((checked >= -1e-4) & (checked <= 1 + 1e-4)).all(dim=1)
    has_area = (right > left) & (bottom > top)
    for fits, wrong in ((inside, "it is not within [0, 1]"), (has_area, "it has no area")):
        if not fits.all():
            number = int((~fits).nonzero()[0])
            shown = ", ".join(f"{value:g}" for value in checked[number].tolist())
            raise InputError(
                f"box {number} of photo {photo} is ({shown}): {wrong}; expected left, top, right, bottom as "
                "shares of the photo's sides, right above left and bottom above top",
                field="boxes",
            )
    return checked.clamp(0.0, 1.0)
