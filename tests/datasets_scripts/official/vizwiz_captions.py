"""VizWiz-Captions in the official files' format; captions are invented."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

_BAD = "The picture is too bad to tell."
# split, as its files are named → photo → (caption, is_precanned, is_rejected)
_CAPTIONS = {
    "train": {"VizWiz_train_00000000.jpg": [("A tin of beans.", False, False)]},
    "val": {
        "VizWiz_val_00000000.jpg": [
            ("A  bottle on a table", False, False),
            (_BAD, True, False),
            ("asdf", False, True),
            ("A green bottle.", False, False),
        ],
        "VizWiz_val_00000001.jpg": [(_BAD, True, False), (_BAD, True, False)],
        "VizWiz_val_00000002.jpg": [("A dog.", False, False)],
    },
}


def _document(split: str) -> str:
    images, annotations = [], []
    for number, (photo, captions) in enumerate(_CAPTIONS[split].items(), start=7):
        images.append({"file_name": photo, "vizwiz_url": "", "id": number, "text_detected": number == 7})
        for caption, precanned, rejected in captions:
            annotations.append(
                {
                    "caption": caption,
                    "image_id": number,
                    "is_precanned": precanned,
                    "is_rejected": rejected,
                    "id": len(annotations),
                    "text_detected": number == 7,
                }
            )
    return json.dumps({"info": {}, "images": images, "annotations": annotations})


def write(folder: Path) -> None:
    """The validation set, unpacked."""
    (folder / "annotations").mkdir()
    (folder / "annotations" / "val.json").write_text(_document("val"))


def write_archive(folder: Path) -> None:
    """The archive of all annotations; the test has no captions."""
    with zipfile.ZipFile(folder / "annotations.zip", "w") as archive:
        for split in _CAPTIONS:
            archive.writestr(f"annotations/{split}.json", _document(split))
        archive.writestr("annotations/test.json", json.dumps({"images": []}))


PHOTOS = [
    "val/VizWiz_val_00000000.jpg",
    "images/VizWiz_val_00000001.jpg",
    "images/val/VizWiz_val_00000002.jpg",
]

ROWS = {("valid", "validation"): 2, ("all", "validation"): 3}

FIRST = {
    ("valid", "validation"): {
        "image_id": "VizWiz_val_00000000.jpg",
        "references": ["A bottle on a table", "A green bottle."],
        "text_detected": True,
        "id": 7,
        "language": "en",
    },
    ("all", "validation"): {
        "image_id": "VizWiz_val_00000000.jpg",
        "references": ["A bottle on a table", _BAD, "asdf", "A green bottle."],
        "text_detected": True,
        "id": 7,
        "precanned": [False, True, False, False],
        "rejected": [False, False, True, False],
        "language": "en",
    },
}

VARIANTS = [
    (
        "the archive",
        write_archive,
        {
            ("valid", "train"): 1,
            ("valid", "validation"): 2,
            ("all", "train"): 1,
            ("all", "validation"): 3,
        },
    )
]

_VAL = "annotations/val.json"
DAMAGE = [
    ("valid", _VAL, None),
    ("valid", _VAL, (b'"is_rejected"', b'"rejected"')),
    ("all", _VAL, (b'"is_precanned": false', b'"is_precanned": 0')),
    ("all", _VAL, (b'"asdf"', b'""')),
    ("all", _VAL, (b'"image_id": 9', b'"image_id": 8')),
    ("all", _VAL, (b'"id": 1,', b'"id": 0,')),
    ("all", _VAL, (b"00000001.jpg", b"00000000.jpg")),
    ("all", _VAL, (b"]}", b"]")),
    ("all", _VAL, (b"A green", b"A gr\xebn")),
]
