"""Pascal-50S as JSON with labels, and in the official MATLAB files."""

import numpy as np

from tools.tiny.official import write_json

# category, photo, two captions, how many of 48 votes the first one gets
PAIRS = [
    ("HI", "2008_000002.jpg", ("A bus waits.", "A horse jumps over a fence."), 47),
    ("HC", "2008_000001.jpg", ("A cat sits.", "A cat sits on a sofa."), 20),
    ("MM", "2008_000001.jpg", ("there is a cat", "a sofa"), 24),
    ("HM", "2008_000001.jpg", ("A grey cat rests.", "there is one cat"), 40),
    ("HC", "2008_000002.jpg", ("A red bus.", "A bus at a stop."), 11),
]


def _references(photo):
    return [f"Caption {number} of {photo[:-4]}." for number in range(48)]


def write(folder):
    """Pairs by category, with the label of the preferred caption."""
    document = {"HI": [], "HC": [], "HM": [], "MM": []}
    for category, photo, captions, votes in PAIRS:
        pair = {"image": f"VOC2012/JPEGImages/{photo}", "captions": list(captions)}
        pair |= {"label": int(votes < 24), "references": _references(photo)[:5]}
        document[category].append(pair)
    write_json(folder / "pascal_50s.json", document, indent=1)


def _structs(names, rows):
    """What MATLAB writes as a 1×n struct."""
    structs = np.empty((1, len(rows)), dtype=[(name, object) for name in names.split()])
    for number, row in enumerate(rows):
        structs[0, number] = row
    return structs


def _cell(text):
    cell = np.empty((1, 1), dtype=object)
    cell[0, 0] = text
    return cell


def write_mat(folder):
    """Pairs, and 48 votes for each, where the two captions change places half of the time."""
    from scipy.io import savemat

    pairs = [(photo, f"{first} \n", second) for _, photo, (first, second), _ in PAIRS]
    codes = [["HC", "HI", "HM", "MM"].index(category) + 1 for category, *_ in PAIRS]
    content = {"new_input": _structs("image B C", pairs), "category": np.array([codes])}
    savemat(folder / "pair_pascal.mat", content)
    triplets = []
    for _, photo, (first, second), votes in PAIRS:
        for number, reference in enumerate(_references(photo)):
            shown = (first, second) if number % 2 else (second, first)
            winner = 1 if (number < votes) == (shown[0] == first) else -1
            triplets.append((_cell(reference), *map(_cell, shown), winner))
    savemat(folder / "consensus_pascal.mat", {"triplets": _structs("A B C winner", triplets)})


PHOTOS = [f"VOC2012/JPEGImages/2008_00000{number}.jpg" for number in (1, 2)]
ROWS = {("default", "test"): 5}
VARIANTS = {"mat": (write_mat, ROWS)}
DAMAGE = {
    ("default", "pascal_50s.json"): [
        ('"MM"', '"M"'),
        ('"MM"', '"HC"'),
        ('"label": 1', '"label": 2'),
        ('"references"', '"refs"'),
        ('"A cat sits."', '""'),
        ('"Caption 4 of 2008_000001."\n', '""\n'),
    ]
}
