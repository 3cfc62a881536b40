"""Pascal-50S as JSON with labels, and in the official MATLAB files; captions are invented."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

# category, photo, two captions, how many of 48 votes the first one gets
PAIRS = [
    ("HI", "2008_000002.jpg", ("A bus waits.", "A horse jumps over a fence."), 47),
    ("HC", "2008_000001.jpg", ("A cat sits.", "A cat sits on a sofa."), 20),
    ("MM", "2008_000001.jpg", ("there is a cat", "a sofa"), 24),
    ("HM", "2008_000001.jpg", ("A grey cat rests.", "there is one cat"), 40),
    ("HC", "2008_000002.jpg", ("A red bus.", "A bus at a stop."), 11),
]


def _references(photo: str) -> list[str]:
    return [f"Caption {number} of {photo[:-4]}." for number in range(48)]


def write(folder: Path) -> None:
    """Pairs by category, with the label of the preferred caption."""
    document: dict = {"HI": [], "HC": [], "HM": [], "MM": []}
    for category, photo, captions, votes in PAIRS:
        document[category].append(
            {
                "image": f"VOC2012/JPEGImages/{photo}",
                "captions": list(captions),
                "label": int(votes < 24),
                "references": _references(photo)[:5],
            }
        )
    (folder / "pascal_50s.json").write_text(json.dumps(document, indent=1))


def _structs(names: list[str], rows: list[tuple]) -> np.ndarray:
    """What MATLAB writes as a 1×n struct."""
    structs = np.empty((1, len(rows)), dtype=[(name, object) for name in names])
    for number, row in enumerate(rows):
        structs[0, number] = row
    return structs


def _cell(text: str) -> np.ndarray:
    cell = np.empty((1, 1), dtype=object)
    cell[0, 0] = text
    return cell


def write_mat(folder: Path) -> None:
    """Pairs, and 48 votes for each, where the two captions change places half of the time."""
    from scipy.io import savemat

    codes = {"HC": 1, "HI": 2, "HM": 3, "MM": 4}
    savemat(
        folder / "pair_pascal.mat",
        {
            "new_input": _structs(
                ["image", "B", "C"],
                [(photo, f"{first} \n", second) for _, photo, (first, second), _ in PAIRS],
            ),
            "category": np.array([[codes[category] for category, *_ in PAIRS]]),
        },
    )
    triplets = []
    for _, photo, (first, second), votes in PAIRS:
        for number, reference in enumerate(_references(photo)):
            shown = (first, second) if number % 2 else (second, first)
            winner = 1 if (number < votes) == (shown[0] == first) else -1
            triplets.append((_cell(reference), *map(_cell, shown), winner))
    savemat(folder / "consensus_pascal.mat", {"triplets": _structs(["A", "B", "C", "winner"], triplets)})


PHOTOS = ["VOC2012/JPEGImages/2008_000001.jpg", "VOC2012/JPEGImages/2008_000002.jpg"]
ROWS = {("default", "test"): 5}
VARIANTS = [("mat", write_mat, ROWS)]
FIRST = {
    ("default", "test"): {
        "image_id": "2008_000001.jpg",
        "captions": ["A cat sits.", "A cat sits on a sofa."],
        "label": 1,
        "category": "HC",
        "references": [
            "Caption 0 of 2008_000001.",
            "Caption 1 of 2008_000001.",
            "Caption 2 of 2008_000001.",
            "Caption 3 of 2008_000001.",
            "Caption 4 of 2008_000001.",
        ],
        "votes": [],
        "language": "en",
    }
}
DAMAGE = [
    ("default", "pascal_50s.json", None),
    ("default", "pascal_50s.json", (b'"MM"', b'"M"')),
    ("default", "pascal_50s.json", (b'"MM"', b'"HC"')),
    ("default", "pascal_50s.json", (b'"label": 1', b'"label": 2')),
    ("default", "pascal_50s.json", (b'"references"', b'"refs"')),
    ("default", "pascal_50s.json", (b'"A cat sits."', b'""')),
    ("default", "pascal_50s.json", (b"A cat sits on", b"A c\xe4t sits on")),
    ("default", "pascal_50s.json", (b"}\n ]\n}", b"}")),
    ("default", "pascal_50s.json", (b'"Caption 4 of 2008_000001."\n', b'""\n')),
]
