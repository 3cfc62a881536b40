"""Things that a detector finds, by name, and which words name them."""

from __future__ import annotations

import numpy as np

from capscore.backbones.base import Backbone
from weights.making.mark_calibration.features import MarkFeatures

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


def names_of_things(backbone: Backbone) -> tuple[np.ndarray, np.ndarray]:
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


def alike_things(features: MarkFeatures, backbone: Backbone) -> np.ndarray:
    """`likeness` of each distinct word alone, float32 (v, 80)."""
    rows, things = names_of_things(backbone)
    found = np.full((len(features.words), len(THINGS)), -1.0, np.float32)
    for start in range(0, len(found), 4096):
        cosines = features.embeddings[start : start + 4096].astype(np.float32) @ rows.T
        for place, thing in enumerate(things.tolist()):
            part = found[start : start + 4096, thing]
            np.maximum(part, cosines[:, place], out=part)
    return found
