"""Boxes of a detector → embeddings of these regions, on disk.

From them the judge learns which words name what a region shows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xxhash

from capscore.backbones.base import Backbone
from capscore.files.whole_file import whole_file
from weights.making.mark_calibration.features import MarkFeatures, feature_maps

# Most boxes of a photo, the most confident first.
MOST = 10
_PHOTOS = 16


@dataclass(frozen=True, eq=False)
class ThingRegions:
    """Regions of t things.

    Attributes:
        rows: float16 (t, d), embeddings of unit length.
        photo: int64 (t,), places of the photos, in ascending order.
        shares: float32 (t, 4), the boxes as shares of the photo's sides.
        thing: int64 (t,), places in `weights.making.mark_calibration.mentions.THINGS`.
    """

    rows: np.ndarray
    photo: np.ndarray
    shares: np.ndarray
    thing: np.ndarray

    def of_photo(self, photo: int) -> slice:
        """Where the things of a photo lie."""
        first, after = np.searchsorted(self.photo, [photo, photo + 1]).tolist()
        return slice(first, after)


def thing_regions(
    features: MarkFeatures,
    boxes: Mapping[int, np.ndarray],
    backbone: Backbone,
    file: Path,
    say: Callable[[str], None],
) -> ThingRegions:
    """Embeddings of the boxes, from the file if it holds those of the same boxes, else computed and written.

    Args:
        features: Features.
        boxes: Photo → boxes (k, 6): left, top, right, bottom as shares, thing, confidence.
        backbone: Backbone with a feature map.
        file: File for the embeddings (.npz).
        say: Function that takes a sentence about the progress.

    Raises:
        ImageError: a photo cannot be read.
    """
    kept = {
        photo: own[np.argsort(-own[:, 5], kind="stable")[:MOST]]
        for photo, own in sorted(boxes.items())
        if len(own)
    }
    digest = xxhash.xxh3_128(json.dumps([features.files[photo] for photo in kept]).encode())
    digest.update(backbone.fingerprint.encode())
    for own in kept.values():
        digest.update(np.ascontiguousarray(own))
    if file.is_file():
        stored = np.load(file)
        if str(stored["digest"]) == digest.hexdigest():
            return ThingRegions(stored["rows"], stored["photo"], stored["shares"], stored["thing"])
    photos = list(kept)
    rows = []
    for start in range(0, len(photos), _PHOTOS):
        part = photos[start : start + _PHOTOS]
        maps, _ = feature_maps([features.files[photo] for photo in part], backbone)
        rows.append(backbone.encode_map_regions(maps, [kept[photo][:, :4] for photo in part]))
        if start % (_PHOTOS * 64) == 0:
            say(f"things in {start + len(part):,} of {len(photos):,} photos")
    joined = np.concatenate([*kept.values(), np.zeros((0, 6))])
    found = ThingRegions(
        np.concatenate([*rows, np.zeros((0, backbone.dim))]).astype(np.float16),
        np.repeat(np.array(photos, np.int64), [len(own) for own in kept.values()]),
        joined[:, :4].astype(np.float32),
        joined[:, 4].astype(np.int64),
    )
    with whole_file(file, "the regions of things", make_folders=True) as out:
        np.savez(
            out,
            digest=np.array(digest.hexdigest()),
            rows=found.rows,
            photo=found.photo,
            shares=found.shares,
            thing=found.thing,
        )
    return found
