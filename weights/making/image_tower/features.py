"""Photos → what the frozen half of the trunk gives for each view, computed once, in memory-mapped files.

A view is a file of (photos, channels, height, width) in float16, named by the digest of what it is made of.
The trunk's other half, which is trained, shares its layers.
"""

from __future__ import annotations

import json
import math
import zlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xxhash
from PIL import Image
from torch import nn
from torch.nn import functional as F

from capscore.backbones.base import weights_digest
from capscore.backbones.embedded.image_tower import (
    EfficientNetLite2,
    FoldedBlock,
    FoldedTrunk,
    ImageTower,
    photo_pixels,
)
from capscore.embedding.photos import in_batches
from capscore.files.console import progress_bar
from capscore.files.write import whole_file
from capscore.images.load import load_image
from weights.making.held_out import Photo
from weights.making.image_tower.rows import PhotoRow
from weights.making.settings import ImageTowerSettings

_AT_ONCE = 32
# Smallest share of the photo's area in a crop; largest logarithm of its stretch, relative to the photo's.
LEAST_AREA, STRETCH = 0.45, 0.25
# Largest changes of contrast and, in grey levels of 255, of brightness; share of views without colours.
CONTRAST, BRIGHTNESS, GREY_SHARE = 0.25, 18.0, 0.1


def stored(path: Path, computed: Callable[[], np.ndarray]) -> np.ndarray:
    """An array from its file, memory-mapped, which is written first where it is not there."""
    if not path.exists():
        found = computed()
        with whole_file(path, path.stem, make_folders=True) as stream:
            np.save(stream, found)
    return np.load(path, mmap_mode="r")


def photo_features(
    settings: ImageTowerSettings, rows: Sequence[PhotoRow], network: nn.Module, side: int = 256
) -> tuple[list[np.ndarray], str]:
    """Per view, the whole photo and random ones, the features of all photos; and their digest.

    `network` is the frozen half of the trunk.
    """
    network = network.eval().to(memory_format=torch.channels_last)
    photos = [[row.name, row.file.stat().st_size] for row in rows if row.file]
    described = json.dumps([weights_digest(network), side, settings.half_precision, photos])
    digest = xxhash.xxh3_64_hexdigest(described.encode())

    def computed(view: int) -> np.ndarray:
        parts, half = [], settings.half_precision and view > 0

        def read(row: PhotoRow) -> np.ndarray:
            return view_pixels(load_image(row.file), row.photo, view, side)

        with progress_bar(f"View {view}", len(rows)) as advance, ThreadPoolExecutor() as threads:
            for part in in_batches(rows, _AT_ONCE):
                pixels = torch.from_numpy(np.stack(list(threads.map(read, part))))
                with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=half):
                    maps = network(pixels.contiguous(memory_format=torch.channels_last)).float().contiguous()
                parts.append(maps.numpy().astype(np.float16))
                advance(len(part))
        return np.concatenate(parts)

    files = [settings.features_folder / f"view-{view}-{digest}.npy" for view in range(settings.views)]
    return [stored(file, partial(computed, view)) for view, file in enumerate(files)], digest


def view_pixels(
    image: Image.Image, photo: Photo, view: int, side: int, *, least_area: float = LEAST_AREA
) -> np.ndarray:
    """The pixels of a view, as the network reads them, float32 (3, side, side) in [−1, 1].

    View 0 is the whole photo, resized as the backbone does; others are random, drawn by the photo's number.
    """
    if view == 0:
        return photo_pixels(image, side).numpy()
    # a digest that is the same in every process, unlike Python's hash
    chance = np.random.default_rng([0, view, zlib.crc32(photo.collection.encode()), photo.number])
    area, stretch = chance.uniform(least_area, 1.0), math.exp(chance.uniform(-STRETCH, STRETCH))
    # a part that would be wider or higher than the photo keeps its area
    across = min(1.0, max(area, math.sqrt(area * stretch)))
    down = area / across
    left, top = chance.uniform(0, 1 - across), chance.uniform(0, 1 - down)
    width, height = image.size
    box = left * width, top * height, (left + across) * width, (top + down) * height
    pixels = np.asarray(image.resize((side, side), Image.Resampling.BILINEAR, box=box), dtype=np.float32)
    if chance.random() < 0.5:
        pixels = pixels[:, ::-1]
    contrast, brightness = chance.uniform(-CONTRAST, CONTRAST), chance.uniform(-BRIGHTNESS, BRIGHTNESS)
    pixels = (pixels - 127.5) * (1 + contrast) + 127.5 + brightness
    if chance.random() < GREY_SHARE:
        pixels = np.broadcast_to(pixels.mean(axis=2, keepdims=True), pixels.shape)
    scaled = (pixels.clip(0, 255) / 127.5 - 1).transpose(2, 0, 1)
    return np.ascontiguousarray(scaled, dtype=np.float32)


def frozen_half(trunk: FoldedTrunk, blocks: int) -> nn.Module:
    """Pixels (n, 3, side, side) → what the first blocks give, (n, 88, side / 16, side / 16) after eleven."""
    return nn.Sequential(OrderedDict(stem=trunk.stem, relu=nn.ReLU6(), blocks=trunk.blocks[:blocks]))


class TrainedHalf(nn.Module):
    """What `frozen_half` gives → the feature map of the trunk, (n, features, h, w).

    The rest of the trunk, and the tower's text place, are frozen.
    """

    def __init__(self, tower: ImageTower, blocks: int, *, train_depthwise: bool = True):
        super().__init__()
        trunk = tower.trunk
        nn.ModuleList([trunk.stem, trunk.blocks[:blocks], tower.text]).requires_grad_(False)
        self.blocks, self.last = trunk.blocks[blocks:], trunk.last
        for block in () if train_depthwise else self.blocks:
            block.depthwise.requires_grad_(False)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            rows = _strided(block, rows) if block.depthwise.stride != (1, 1) else block(rows)
        return F.relu6(self.last(rows))


def _strided(block: FoldedBlock, rows: torch.Tensor) -> torch.Tensor:
    """A block with a stride, in float32: in bfloat16 its gradient takes CPUs a hundred times as long."""
    inner = rows if block.expand is None else F.relu6(block.expand(rows))
    with torch.autocast(rows.device.type, enabled=False):
        inner = F.relu6(block.depthwise(inner.float()))
    return block.project(inner)


def folded(network: EfficientNetLite2) -> FoldedTrunk:
    """The trunk of a network with its batch norms, as in eval mode, folded into the convolutions; a copy."""
    trunk = FoldedTrunk().to(network.conv_stem.weight)

    def parts(whole: nn.Module, kind: type) -> list[Any]:
        return [part for part in whole.modules() if isinstance(part, kind)]

    # both have their convolutions in one order, and the network a batch norm for each
    convolutions, norms = parts(network, nn.Conv2d), parts(network, nn.BatchNorm2d)
    with torch.no_grad():
        for target, convolution, norm in zip(parts(trunk, nn.Conv2d), convolutions, norms, strict=True):
            factor = norm.weight / (norm.running_var + norm.eps).sqrt()
            target.weight.copy_(convolution.weight * factor.view(-1, 1, 1, 1))
            target.bias.copy_(norm.bias - norm.running_mean * factor)
    return trunk
