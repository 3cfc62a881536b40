"""VALSE in the official files' format."""

from tools.tiny.official import write_json

EXISTENCE = ("visual7w", "test", "existence")
PLURALS = ("coco2017", "val", "plurals")
COUNTING = ("visual7w", "test", "counting")
ACTIONS = ("SWiG", "test", "actions")


def _row(origin, image_file, caption, foil, classes, votes, index=None):
    """A row with the words in which caption and foil differ, and votes for foil, caption and neither."""
    named = zip(("dataset", "original_split", "linguistic_phenomena"), origin, strict=True)
    return {
        **dict(named),
        "image_file": image_file,
        "caption": caption,
        "classes": classes[0],
        "classes_foil": classes[1],
        "mturk": dict(zip(("foil", "caption", "other"), votes, strict=True)),
        "foil": foil,
        **({} if index is None else {"dataset_idx": index}),
    }


def _cups(number, votes):
    foil = f"There are exactly {number} cups."
    return _row(COUNTING, "v7w_3.jpg", "There are exactly 4 cups.", foil, (4, number), votes, "3")


def _dialogue(split, photo, text, right, wrong, votes):
    """The two pieces on coreference have no dataset_idx."""
    origin = ("VisDial_v1.0", split, "coreference")
    return _row(origin, photo, f"{text} {right}.", f"{text} {wrong}.", (right, wrong), votes)


BOAT = _row(
    EXISTENCE, "v7w_1.jpg", "There are no boats.", "There are boats.", (0, [3, 1]), (0, 3, 0), index="1"
)
# the foil is the caption itself, and people did not find it valid: it stays
SAME = _row(EXISTENCE, "v7w_2.jpg", "There are 2.", "There are 2.", (2, [5]), (0, 1, 2), index="2")
KITE = _row(
    PLURALS,
    "000000000007.jpg",
    "Exactly one kite  flies.",
    "A number of kites fly.",
    ("kite", "kites"),
    (0, 2, 1),
    index=7,
)
# false for a plural that has no form of its own, as in one official row
SHEEP = _row(
    PLURALS,
    "000000000008.jpg",
    "A number of sheep graze.",
    "A single sheep grazes.",
    ("sheep", False),
    (1, 2, 0),
    index=8,
)
LAMP = _row(
    COUNTING,
    "v7w_4.jpg",
    "There is exactly 1 lamp.",
    "There are exactly 2 lamps.",
    (1, 2),
    (0, 3, 0),
    index="4",
)
HAT = _row(
    ("coco_2017", "val", "relations"),
    "000000000009.jpg",
    "A hat lies on a bench.",
    "A hat lies under a bench.",
    ("on", "under"),
    (0, 3, 0),
    index=9,
)
FENCE = _row(
    ACTIONS,
    "painting_5.jpg",
    "A girl paints a fence.",
    "A girl climbs a fence.",
    ("paints", "climbs"),
    (0, 3, 0),
    index="painting_5.jpg",
)
NURSE = _row(
    ACTIONS,
    "helping_6.jpg",
    "A nurse helps a boy.",
    "A boy helps a nurse.",
    ("nurse", "boy"),
    (0, 3, 0),
    index="helping_6.jpg",
)
BUS = _dialogue("train", "COCO_val2014_000000000010.jpg", "a red bus. is it full?", "no", "yes", (0, 3, 0))
CATS = _dialogue(
    "val", "VisualDialog_val2018_000000000011.jpg", "two cats. is it day?", "yes", "no", (0, 2, 1)
)
SPOON = _row(
    ("FOIL dataset", "test", "noun phrases"),
    "COCO_val2014_000000000012.jpg",
    "a spoon on a plate.",
    "a knife on a plate.",
    ("spoon", "knife"),
    (0, 3, 0),
    index=1200,
)
# a name is unique in its piece only
PIECES = {
    "existence": {"existence_1": BOAT, "existence_2": SAME},
    "plurals": {"plurals:coco2017:7": KITE, "plurals:coco2017:8": SHEEP},
    "counting-hard": {"counting_3": _cups(2, (1, 2, 0))},
    "counting-small-quant": {"counting_4": LAMP},
    "counting-adversarial": {"counting_3": _cups(0, (0, 1, 2))},
    "relations": {"relations:coco_2017:9": HAT},
    "action-replacement": {"actions_test_0": FENCE},
    "actant-swap": {"actions_test_0": NURSE},
    "coreference-standard": {"coref_train_10": BUS},
    "coreference-hard": {"coref_test_0": CATS},
    "foil-it": {"1200": SPOON},
}


def write(folder):
    """A JSON document a piece, side by side."""
    for piece, rows in PIECES.items():
        write_json(folder / f"{piece}.json", rows)


def write_checkout(folder):
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
ROWS = {("all", "test"): 13, **{(piece, "test"): len(rows) for piece, rows in PIECES.items()}}
VARIANTS = {"checkout": (write_checkout, ROWS)}
DAMAGE = {
    ("existence", "existence.json"): [('"existence_2"', '"existence_1"')],
    ("all", "foil-it.json"): [('"other": 0', '"none": 0'), ("a knife on a plate.", "  ")],
    ("plurals", "plurals.json"): [('"foil": "A number', '"foils": "A number')],
    ("actant-swap", "actant-swap.json"): [
        ('"caption": 3', '"caption": 4'),
        ('"caption": 3', '"caption": 2.5'),
    ],
}
