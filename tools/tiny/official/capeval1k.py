"""CapEval1k as JSON, with COCO's captions."""

from tools.tiny.official import coco, write_json

NAMES = {number: f"COCO_val2014_{number:012}.jpg" for number in (64, 73)}
RATED = [
    (64, "a train at a station", 0.75),
    (64, "a train on a track with a train", 0.2),
    (73, "a motorcycle parked on the street", 1),
]


def write(folder):
    rows = [{"image": NAMES[photo], "caption": text, "score": score} for photo, text, score in RATED]
    write_json(folder / "capeval1k.json", rows)
    captions = [(64, "A train arrives."), (73, "A parked motorcycle."), (64, "A train stands\nthere.")]
    write_json(folder / "captions_val2014.json", coco(NAMES, captions))


def write_decoded(folder):
    """The same as UMIC names photos, without the captions of COCO."""
    rows = [
        {"img": f"coco_val2014_{photo:012}.npz", "caption": text, "score": score}
        for photo, text, score in RATED
    ]
    write_json(folder / "umic_capeval1k_decoded.json", rows)


PHOTOS = [f"val2014/{name}" for name in NAMES.values()]
ROWS = {("default", "test"): 3}
VARIANTS = {"decoded": (write_decoded, ROWS)}
DAMAGE = {
    ("default", "capeval1k.json"): [
        ('"caption"', '"text"'),
        ('"image"', '"photo"'),
        ("0.2", "2"),
        ("0.2", "NaN"),
        ("COCO_val2014_", "val2014_"),
        ("a train at a station", ""),
        ("a train on a track with a train", "a train at a station"),
    ],
    ("default", "captions_val2014.json"): [('"image_id": 73', '"image_id": 74')],
}
