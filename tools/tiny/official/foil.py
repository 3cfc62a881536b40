"""FOIL-it in the official files' format."""

from tools.tiny.official import coco, write_json

NAMES = {
    7: "COCO_val2014_000000000007.jpg",
    8: "COCO_val2014_000000000008.jpg",
    9: "COCO_train2014_000000000009.jpg",
}


def _row(identity, image, caption, foil_id, word="ORIG", foil_word="ORIG"):
    return {
        "caption": caption,
        "foil": word != "ORIG",
        "foil_id": foil_id,
        "foil_word": foil_word,
        "id": identity,
        "image_id": image,
        "target_word": word,
    }


def _document(photos, annotations):
    return {**coco({number: NAMES[number] for number in photos}, []), "annotations": annotations}


TEST = [
    _row(71, 7, "A dog on a  sofa. ", 701),
    _row(71, 7, "A cat on a sofa. ", 701, "dog", "cat"),
    # its foil comes first; a second one is of the same caption
    _row(81, 8, "Two skis at a bench.", 801, "bikes", "skis"),
    _row(81, 8, "Two bikes at a bench.", 801),
    _row(81, 8, "Two bikes at a couch.", 802, "bench", "couch"),
]
TRAIN = [_row(91, 9, "A bus.", 901), _row(91, 9, "A train.", 901, "bus", "train")]
CAPTIONS = [(7, "A dog on a sofa."), (7, "Somebody's dog."), (8, "A bench.")]


def write(folder):
    """The test split, with COCO's captions as references."""
    write_json(folder / "foilv1.0_test_2017.json", _document((7, 8), TEST))
    write_json(folder / "captions_val2014.json", coco({7: NAMES[7], 8: NAMES[8]}, CAPTIONS))


def write_both(folder):
    """Both splits in a folder, without references."""
    write_json(folder / "annotations" / "foilv1.0_train_2017.json", _document((9,), TRAIN))
    write_json(folder / "annotations" / "foilv1.0_test_2017.json", _document((7, 8), TEST))


PHOTOS = [f"val2014/{NAMES[number]}" for number in (7, 8)]
ROWS = {("default", "test"): 3}
VARIANTS = {"both splits": (write_both, {("default", "train"): 1, ("default", "test"): 3})}
DAMAGE = {
    ("default", "foilv1.0_test_2017.json"): [
        ('"foil": true', '"foil": 1'),
        ("A cat", "A dog"),
        ('"id": 71', '"id": 72'),
        ('"image_id": 8, "target_word": "bikes"', '"image_id": 5, "target_word": "bikes"'),
        ('"foil_word": "skis", "id": 81', '"foil_word": "skis", "id": -1'),
        ('"foil": true, "foil_id": 802', '"foil": false, "foil_id": 802'),
    ]
}
