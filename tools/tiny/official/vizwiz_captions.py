"""VizWiz-Captions in the official files' format."""

import json

from tools.tiny.official import write_json, write_zip

BAD = ("The picture is too bad to tell.", True, False)
# split, as its files are named → photo → (caption, is_precanned, is_rejected)
CAPTIONS = {
    "train": {"VizWiz_train_00000000.jpg": [("A tin of beans.", False, False)]},
    "val": {
        "VizWiz_val_00000000.jpg": [
            ("A  bottle on a table", False, False),
            BAD,
            ("asdf", False, True),
            ("A green bottle.", False, False),
        ],
        "VizWiz_val_00000001.jpg": [BAD, BAD],
        "VizWiz_val_00000002.jpg": [("A dog.", False, False)],
    },
}


def _document(split):
    images, annotations = [], []
    for number, (photo, captions) in enumerate(CAPTIONS[split].items(), start=7):
        images.append({"file_name": photo, "id": number, "text_detected": number == 7})
        for caption, precanned, rejected in captions:
            row = {"caption": caption, "image_id": number, "is_precanned": precanned}
            annotations.append({**row, "is_rejected": rejected, "id": len(annotations)})
    return {"info": {}, "images": images, "annotations": annotations}


def write(folder):
    """The validation set, unpacked."""
    write_json(folder / "annotations" / "val.json", _document("val"))


def write_archive(folder):
    """The archive of all annotations; the test has no captions."""
    files = {f"annotations/{split}.json": json.dumps(_document(split)) for split in CAPTIONS}
    write_zip(folder / "annotations.zip", {**files, "annotations/test.json": '{"images": []}'})


PHOTOS = [
    "val/VizWiz_val_00000000.jpg",
    "images/VizWiz_val_00000001.jpg",
    "images/val/VizWiz_val_00000002.jpg",
]
ROWS = {("valid", "validation"): 2, ("all", "validation"): 3}
VARIANTS = {"archive": (write_archive, {**ROWS, ("valid", "train"): 1, ("all", "train"): 1})}
DAMAGE = {
    ("valid", "annotations/val.json"): [('"is_rejected"', '"rejected"')],
    ("all", "annotations/val.json"): [
        ('"is_precanned": false', '"is_precanned": 0'),
        ('"asdf"', '""'),
        ('"image_id": 9', '"image_id": 8'),
        ('"id": 1}', '"id": 0}'),
        ("00000001.jpg", "00000000.jpg"),
    ],
}
