"""VALSE in the official files' format; captions, foils and votes are invented."""

from __future__ import annotations

import json
from pathlib import Path


def _row(origin, image_file, caption, foil, classes, votes, **more):
    """A row with the words in which caption and foil differ, and votes for foil, caption and neither."""
    return {
        **origin,
        "image_file": image_file,
        "caption": caption,
        "classes": classes[0],
        "classes_foil": classes[1],
        "mturk": dict(zip(("foil", "caption", "other"), votes, strict=True)),
        "foil": foil,
        **more,
    }


def _origin(dataset, split, phenomenon):
    return {"dataset": dataset, "original_split": split, "linguistic_phenomena": phenomenon}


_EXISTENCE = _origin("visual7w", "test", "existence")
_PLURALS = _origin("coco2017", "val", "plurals")
_COUNTING = _origin("visual7w", "test", "counting")
_RELATIONS = _origin("coco_2017", "val", "relations")
_ACTIONS = _origin("SWiG", "test", "actions")
_COREF_TRAIN = _origin("VisDial_v1.0", "train", "coreference")
_COREF_VAL = _origin("VisDial_v1.0", "val", "coreference")
_FOIL_IT = _origin("FOIL dataset", "test", "noun phrases")

_BOAT = _row(
    _EXISTENCE,
    "v7w_1.jpg",
    "There are no boats.",
    "There are boats.",
    (0, [3, 1]),
    (0, 3, 0),
    dataset_idx="1",
)
# the foil is the caption itself, and people did not find it valid: it stays
_SAME = _row(_EXISTENCE, "v7w_2.jpg", "There are 2.", "There are 2.", (2, [5]), (0, 1, 2), dataset_idx="2")
_KITE = _row(
    _PLURALS,
    "000000000007.jpg",
    "Exactly one kite  flies.",
    "A number of kites fly.",
    ("kite", "kites"),
    (0, 2, 1),
    dataset_idx=7,
)
# false for a plural that has no form of its own, as in one official row
_SHEEP = _row(
    _PLURALS,
    "000000000008.jpg",
    "A number of sheep graze.",
    "A single sheep grazes.",
    ("sheep", False),
    (1, 2, 0),
    dataset_idx=8,
)
_CUPS = _row(
    _COUNTING,
    "v7w_3.jpg",
    "There are exactly 4 cups.",
    "There are exactly 2 cups.",
    (4, 2),
    (1, 2, 0),
    dataset_idx="3",
)
_LAMP = _row(
    _COUNTING,
    "v7w_4.jpg",
    "There is exactly 1 lamp.",
    "There are exactly 2 lamps.",
    (1, 2),
    (0, 3, 0),
    dataset_idx="4",
)
_NO_CUPS = _row(
    _COUNTING,
    "v7w_3.jpg",
    "There are exactly 4 cups.",
    "There are exactly 0 cups.",
    (4, 0),
    (0, 1, 2),
    dataset_idx="3",
)
_HAT = _row(
    _RELATIONS,
    "000000000009.jpg",
    "A hat lies on a bench.",
    "A hat lies under a bench.",
    ("on", "under"),
    (0, 3, 0),
    dataset_idx=9,
)
_FENCE = _row(
    _ACTIONS,
    "painting_5.jpg",
    "A girl paints a fence.",
    "A girl climbs a fence.",
    ("paints", "climbs"),
    (0, 3, 0),
    dataset_idx="painting_5.jpg",
)
_NURSE = _row(
    _ACTIONS,
    "helping_6.jpg",
    "A nurse helps a boy.",
    "A boy helps a nurse.",
    ("nurse", "boy"),
    (0, 3, 0),
    dataset_idx="helping_6.jpg",
)
# the two pieces on coreference have no dataset_idx
_BUS = _row(
    _COREF_TRAIN,
    "COCO_val2014_000000000010.jpg",
    "a red bus. is it full? no.",
    "a red bus. is it full? yes.",
    ("no", "yes"),
    (0, 3, 0),
)
_CATS = _row(
    _COREF_VAL,
    "VisualDialog_val2018_000000000011.jpg",
    "two cats. is it day? yes.",
    "two cats. is it day? no.",
    ("yes", "no"),
    (0, 2, 1),
)
_SPOON = _row(
    _FOIL_IT,
    "COCO_val2014_000000000012.jpg",
    "a spoon on a plate.",
    "a knife on a plate.",
    ("spoon", "knife"),
    (0, 3, 0),
    dataset_idx=1200,
)
# a name is unique in its piece only
_FILES = {
    "existence": {"existence_1": _BOAT, "existence_2": _SAME},
    "plurals": {"plurals:coco2017:7": _KITE, "plurals:coco2017:8": _SHEEP},
    "counting-hard": {"counting_3": _CUPS},
    "counting-small-quant": {"counting_4": _LAMP},
    "counting-adversarial": {"counting_3": _NO_CUPS},
    "relations": {"relations:coco_2017:9": _HAT},
    "action-replacement": {"actions_test_0": _FENCE},
    "actant-swap": {"actions_test_0": _NURSE},
    "coreference-standard": {"coref_train_10": _BUS},
    "coreference-hard": {"coref_test_0": _CATS},
    "foil-it": {"1200": _SPOON},
}


def write(folder: Path) -> None:
    """A JSON document a piece, side by side."""
    folder.mkdir(parents=True, exist_ok=True)
    for piece, rows in _FILES.items():
        (folder / f"{piece}.json").write_text(json.dumps(rows), encoding="utf-8")


def _checkout(folder: Path) -> None:
    write(folder / "data")


PHOTOS = [
    *(f"visual7w/images/v7w_{number}.jpg" for number in (1, 2, 3, 4)),
    *(f"val2017/00000000000{number}.jpg" for number in (7, 8, 9)),
    "images_512/painting_5.jpg",
    "images_512/helping_6.jpg",
    "val2014/COCO_val2014_000000000010.jpg",
    "VisualDialog_val2018/VisualDialog_val2018_000000000011.jpg",
    "images/COCO_val2014_000000000012.jpg",
]
ROWS = {("all", "test"): 13, **{(piece, "test"): len(rows) for piece, rows in _FILES.items()}}
VARIANTS = [("checkout", _checkout, ROWS)]

_FIRST = {
    "image_id": "v7w_1.jpg",
    "caption": "There are no boats.",
    "foil": "There are boats.",
    "piece": "existence",
    "phenomenon": "existence",
    "valid": True,
    "votes_caption": 3,
    "votes_foil": 0,
    "votes_other": 0,
    "classes": ["0"],
    "classes_foil": ["3", "1"],
    "source": "visual7w",
    "source_split": "test",
    "source_id": "1",
    "id": "existence_1",
    "language": "en",
}
FIRST = {
    ("all", "test"): _FIRST,
    ("existence", "test"): _FIRST,
    ("plurals", "test"): {
        "image_id": "000000000007.jpg",
        "caption": "Exactly one kite flies.",
        "foil": "A number of kites fly.",
        "piece": "plurals",
        "phenomenon": "plurals",
        "valid": True,
        "votes_caption": 2,
        "votes_foil": 0,
        "votes_other": 1,
        "classes": ["kite"],
        "classes_foil": ["kites"],
        "source": "coco2017",
        "source_split": "val",
        "source_id": "7",
        "id": "plurals:coco2017:7",
        "language": "en",
    },
    ("counting-adversarial", "test"): {
        "image_id": "v7w_3.jpg",
        "caption": "There are exactly 4 cups.",
        "foil": "There are exactly 0 cups.",
        "piece": "counting-adversarial",
        "phenomenon": "counting",
        "valid": False,
        "votes_caption": 1,
        "votes_foil": 0,
        "votes_other": 2,
        "classes": ["4"],
        "classes_foil": ["0"],
        "source": "visual7w",
        "source_split": "test",
        "source_id": "3",
        "id": "counting_3",
        "language": "en",
    },
    ("coreference-hard", "test"): {
        "image_id": "VisualDialog_val2018_000000000011.jpg",
        "caption": "two cats. is it day? yes.",
        "foil": "two cats. is it day? no.",
        "piece": "coreference-hard",
        "phenomenon": "coreference",
        "valid": True,
        "votes_caption": 2,
        "votes_foil": 0,
        "votes_other": 1,
        "classes": ["yes"],
        "classes_foil": ["no"],
        "source": "VisDial_v1.0",
        "source_split": "val",
        "source_id": "",
        "id": "coref_test_0",
        "language": "en",
    },
}
DAMAGE = [
    ("existence", "existence.json", None),
    ("all", "foil-it.json", None),
    ("existence", "existence.json", (b'"2"}}', b'"2"}')),
    ("plurals", "plurals.json", (b'"foil": "A number', b'"foils": "A number')),
    ("relations", "relations.json", (b"lies on", b"li\xe9s on")),
    ("existence", "existence.json", (b'"existence_2"', b'"existence_1"')),
    ("actant-swap", "actant-swap.json", (b'"caption": 3', b'"caption": 4')),
    ("actant-swap", "actant-swap.json", (b'"caption": 3', b'"caption": 2.5')),
    ("foil-it", "foil-it.json", (b'"other": 0', b'"none": 0')),
    ("foil-it", "foil-it.json", (b"a knife on a plate.", b"  ")),
]
