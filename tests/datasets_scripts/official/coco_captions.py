"""COCO Captions in the official files' formats; captions are invented."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path


def _document(photos: dict[str, list[str]], first: int) -> str:
    """Captions of photos in COCO's layout: those of one photo are not side by side."""
    images = [
        {"id": first + place, "file_name": name, "height": 8, "width": 8, "license": 1}
        for place, name in enumerate(photos)
    ]
    annotations = [
        {"image_id": first + place, "id": 10 * (first + place) + number, "caption": texts[number]}
        for number in range(2)
        for place, texts in enumerate(photos.values())
        if number < len(texts)
    ]
    return json.dumps({"info": {}, "licenses": [], "images": images, "annotations": annotations})


_VAL_2014 = {
    "COCO_val2014_000000000007.jpg": ["A dog  runs.\n", "A brown dog on a beach"],
    "COCO_val2014_000000000008.jpg": ["Two boys play."],
}
_VAL_2017 = {"000000000007.jpg": ["A dog runs."]}
_TRAIN_2017 = {"000000000008.jpg": ["Two boys play.", "Boys"], "000000000009.jpg": ["A red ball."]}


def _karpathy() -> str:
    splits = {"train": "train2014", "restval": "val2014", "val": "val2014", "test": "val2014"}
    images = [
        {
            "filepath": folder,
            "filename": f"COCO_{folder}_{number:012}.jpg",
            "imgid": number,
            "cocoid": number,
            "split": split,
            "sentids": [number, number + 10],
            "sentences": [
                {"tokens": ["a", split], "raw": f"A {split}. ", "imgid": number, "sentid": number},
                {"tokens": [split], "raw": f"The {split}", "imgid": number, "sentid": number + 10},
            ],
        }
        for number, (split, folder) in enumerate(splits.items(), start=1)
    ]
    return json.dumps({"images": images, "dataset": "coco"})


def write(folder: Path) -> None:
    """One file of 2014 unpacked, the archive of 2017, Karpathy's file."""
    (folder / "annotations").mkdir()
    (folder / "annotations" / "captions_val2014.json").write_text(_document(_VAL_2014, 7))
    with zipfile.ZipFile(folder / "annotations_trainval2017.zip", "w") as archive:
        archive.writestr("annotations/instances_val2017.json", "{}")
        archive.writestr("annotations/captions_val2017.json", _document(_VAL_2017, 7))
        archive.writestr("annotations/captions_train2017.json", _document(_TRAIN_2017, 8))
    (folder / "dataset_coco.json").write_text(_karpathy())


def write_others(folder: Path) -> None:
    """The archive of 2014, a file of 2017 by itself, Karpathy's archive."""
    with zipfile.ZipFile(folder / "annotations_trainval2014.zip", "w") as archive:
        archive.writestr("annotations/captions_val2014.json", _document(_VAL_2014, 7))
        archive.writestr("annotations/captions_train2014.json", _document(_TRAIN_2017, 8))
    (folder / "captions_train2017.json").write_text(_document(_TRAIN_2017, 8))
    with zipfile.ZipFile(folder / "caption_datasets.zip", "w") as archive:
        archive.writestr("dataset_coco.json", _karpathy())


PHOTOS = [
    "val2014/COCO_val2014_000000000007.jpg",
    "images/COCO_val2014_000000000008.jpg",
    "val2017/000000000007.jpg",
    "train2017/000000000008.jpg",
    "images/train2017/000000000009.jpg",
    "train2014/COCO_train2014_000000000001.jpg",
    *(f"val2014/COCO_val2014_{number:012}.jpg" for number in (2, 3, 4)),
]

ROWS = {
    ("2014", "validation"): 2,
    ("2017", "train"): 2,
    ("2017", "validation"): 1,
    ("karpathy", "train"): 1,
    ("karpathy", "restval"): 1,
    ("karpathy", "validation"): 1,
    ("karpathy", "test"): 1,
}

FIRST = {
    ("2014", "validation"): {
        "image_id": "COCO_val2014_000000000007.jpg",
        "references": ["A dog runs.", "A brown dog on a beach"],
        "caption_ids": [70, 71],
        "coco_id": 7,
        "language": "en",
    },
    ("karpathy", "validation"): {
        "image_id": "COCO_val2014_000000000003.jpg",
        "references": ["A val.", "The val"],
        "caption_ids": [3, 13],
        "coco_id": 3,
        "language": "en",
    },
}

VARIANTS = [
    (
        "archives",
        write_others,
        {
            ("2014", "train"): 2,
            ("2014", "validation"): 2,
            ("2017", "train"): 2,
            ("karpathy", "restval"): 1,
        },
    )
]

_VAL = "annotations/captions_val2014.json"
DAMAGE = [
    ("karpathy", "dataset_coco.json", None),
    ("2014", _VAL, (b"]}", b"]")),
    ("2014", _VAL, (b'"image_id": 8', b'"image_id": 9')),
    ("2014", _VAL, (b'"id": 71', b'"id": 70')),
    ("2014", _VAL, (b'"id": 8,', b'"id": 7,')),
    ("2014", _VAL, (b'"file_name"', b'"name"')),
    ("2014", _VAL, (b'"Two boys play."', b'" "')),
    ("2014", _VAL, (b"A brown dog", b"A br\xf6wn dog")),
    ("2014", _VAL, (b'"image_id": 8', b'"image_id": 7')),
    ("2014", _VAL, (b"000000000008.jpg", b"000000000007.jpg")),
    ("karpathy", "dataset_coco.json", (b'"restval"', b'"rest"')),
    ("karpathy", "dataset_coco.json", (b'"cocoid"', b'"id"')),
    ("karpathy", "dataset_coco.json", (b'"sentid": 11', b'"sentid": 1')),
]
