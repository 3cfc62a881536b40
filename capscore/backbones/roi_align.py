"""RoIAlign (He et al. 2017) as a matrix: boxes → how much each cell of a map counts at each point of a grid.

In: boxes as shares of a photo's sides. Out: weights that turn any map of the photo into a grid over each box.
RoIAlign is linear in the map, and separable into the two axes, so that two small matrices say all of it. That
is as fast as a kernel for small maps, has gradients, and needs no torchvision, whose import takes longer than
a score.
"""

from __future__ import annotations

import torch


def align_weights(
    boxes: torch.Tensor, height: int, width: int, *, grid: int = 7, samples: int = 2
) -> torch.Tensor:
    """Weights of the cells of a map at the points of a grid over each box.

    `align_weights(boxes, *map.shape[1:]) @ map.flatten(1).T` is RoIAlign with aligned=True of a map
    (channels, height, width), (k, grid², channels).

    Args:
        boxes: (k, 4) or (n, k, 4), left, top, right, bottom, as shares of the map's sides in [0, 1].
        height: Number of the map's rows.
        width: Number of its columns.
        grid: Number of bins along each side of a box.
        samples: Number of points along each side of a bin, whose mean is the bin's.

    Returns:
        (…, grid², height · width), rows in reading order; the weights of each row sum to 1.

    >>> align_weights(torch.tensor([[0.0, 0.0, 1.0, 1.0]]), 1, 2, grid=2, samples=1)
    tensor([[[1., 0.],
             [0., 1.],
             [1., 0.],
             [0., 1.]]])
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
