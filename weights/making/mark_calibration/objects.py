"""Objects that a detector finds in photos: embeddings of their regions, their names, and what names them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import xxhash

from capscore.backbones.base import Backbone
from capscore.files.write import whole_file
from weights.making.mark_calibration.features import MarkFeatures, feature_maps

# Most boxes of a photo, the most confident first.
MOST = 10
_PHOTOS = 16
# Cosine of a noun with the name of a thing from which it names the thing, and up to which it names another.
NAMED, OTHER = 0.62, 0.5
# What YOLOX finds: the 80 things of COCO, in their order (Lin et al. 2014).
THINGS = (
    "person, bicycle, car, motorcycle, airplane, bus, train, truck, boat, traffic light, fire hydrant, "
    "stop sign, parking meter, bench, bird, cat, dog, horse, sheep, cow, elephant, bear, zebra, "
    "giraffe, backpack, umbrella, handbag, tie, suitcase, frisbee, skis, snowboard, sports ball, kite, "
    "baseball bat, baseball glove, skateboard, surfboard, tennis racket, bottle, wine glass, cup, fork, "
    "knife, spoon, bowl, banana, apple, sandwich, orange, broccoli, carrot, hot dog, pizza, donut, "
    "cake, chair, couch, potted plant, bed, dining table, toilet, television, laptop, computer mouse, "
    "remote control, keyboard, cell phone, microwave, oven, toaster, sink, refrigerator, book, clock, "
    "vase, scissors, teddy bear, hair drier, toothbrush"
).split(", ")
# A person is a man, a woman or a child in captions.
_PEOPLE = ("person", "man", "woman", "child", "boy", "girl", "people")


@dataclass(frozen=True, eq=False)
class ObjectRegions:
    """Regions of t things."""

    rows: np.ndarray  # float16 (t, d), embeddings of unit length
    photo: np.ndarray  # int64 (t,), places of the photos, in ascending order
    shares: np.ndarray  # float32 (t, 4), the boxes as shares of the photo's sides
    thing: np.ndarray  # int64 (t,), places in `THINGS`

    def of_photo(self, photo: int) -> slice:
        """Where the things of a photo lie."""
        first, after = np.searchsorted(self.photo, [photo, photo + 1]).tolist()
        return slice(first, after)


def object_regions(
    features: MarkFeatures,
    boxes: Mapping[int, np.ndarray],
    backbone: Backbone,
    file: Path,
    say: Callable[[str], None],
) -> ObjectRegions:
    """Embeddings of the boxes, from the file (.npz) if it holds those of the same boxes, else written there.

    `boxes` maps a photo to its boxes (k, 6): left, top, right, bottom as shares, thing, confidence.
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
    if file.is_file() and str((stored := np.load(file))["digest"]) == digest.hexdigest():
        return ObjectRegions(*(stored[name] for name in ("rows", "photo", "shares", "thing")))
    photos = list(kept)
    rows = []
    for start in range(0, len(photos), _PHOTOS):
        part = photos[start : start + _PHOTOS]
        maps, _ = feature_maps([features.files[photo] for photo in part], backbone)
        rows.append(backbone.encode_map_regions(maps, [kept[photo][:, :4] for photo in part]))
        if start % (_PHOTOS * 64) == 0:
            say(f"things in {start + len(part):,} of {len(photos):,} photos")
    joined = np.concatenate([*kept.values(), np.zeros((0, 6))])
    found = ObjectRegions(
        np.concatenate([*rows, np.zeros((0, backbone.dim))]).astype(np.float16),
        np.repeat(np.array(photos, np.int64), [len(own) for own in kept.values()]),
        joined[:, :4].astype(np.float32),
        joined[:, 4].astype(np.int64),
    )
    with whole_file(file, "the regions of things", make_folders=True) as out:
        np.savez(out, digest=np.array(digest.hexdigest()), **asdict(found))
    return found


def names_of_objects(backbone: Backbone) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings of the names (n, d), and the thing that each names, int64 (n,)."""
    names = [(name, thing) for thing, name in enumerate(THINGS)]
    names += [(name, 0) for name in _PEOPLE[1:]]
    rows = backbone.encode_texts([name for name, _ in names])
    return np.asarray(rows, np.float32), np.array([thing for _, thing in names])


def likeness(nouns: np.ndarray, names: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Nouns (m, d) → for each of `THINGS` the highest cosine of a noun with one of its names, (80,)."""
    rows, things = names
    best = (nouns @ rows.T).max(axis=0) if len(nouns) else np.full(len(rows), -1.0)
    found = np.full(len(THINGS), -1.0)
    np.maximum.at(found, things, best)
    return found


def alike_objects(features: MarkFeatures, backbone: Backbone) -> np.ndarray:
    """`likeness` of each distinct word alone, float32 (v, 80)."""
    rows, things = names_of_objects(backbone)
    found = np.full((len(features.words), len(THINGS)), -1.0, np.float32)
    for start in range(0, len(found), 4096):
        cosines = features.embeddings[start : start + 4096].astype(np.float32) @ rows.T
        for index, thing in enumerate(things.tolist()):
            part = found[start : start + 4096, thing]
            np.maximum(part, cosines[:, index], out=part)
    return found
