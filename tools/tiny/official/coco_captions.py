"""COCO Captions in the official files' formats; captions of one photo are not side by side."""

import json

from tools.tiny.official import write_json, write_zip

VAL_2014 = {
    "COCO_val2014_000000000007.jpg": ["A dog  runs.\n", "A brown dog on a beach"],
    "COCO_val2014_000000000008.jpg": ["Two boys play."],
}
VAL_2017 = {"000000000007.jpg": ["A dog runs."]}
TRAIN_2017 = {"000000000008.jpg": ["Two boys play.", "Boys"], "000000000009.jpg": ["A red ball."]}


def _document(photos, first):
    numbered = list(enumerate(photos.items(), start=first))
    images = [{"id": number, "file_name": name} for number, (name, _) in numbered]
    annotations = [
        {"image_id": number, "id": 10 * number + index, "caption": texts[index]}
        for index in range(2)
        for number, (_, texts) in numbered
        if index < len(texts)
    ]
    return {"info": {}, "images": images, "annotations": annotations}


def _karpathy():
    splits = {"train": "train2014", "restval": "val2014", "val": "val2014", "test": "val2014"}
    images = []
    for number, (split, folder) in enumerate(splits.items(), start=1):
        sentences = [
            {"raw": f"A {split}. ", "imgid": number, "sentid": number},
            {"raw": f"The {split}", "imgid": number, "sentid": number + 10},
        ]
        name = f"COCO_{folder}_{number:012}.jpg"
        image = {"filepath": folder, "filename": name, "cocoid": number, "split": split}
        images.append({**image, "sentences": sentences})
    return {"images": images, "dataset": "coco"}


def write(folder):
    """One file of 2014 unpacked, the archive of 2017, Karpathy's file."""
    write_json(folder / "annotations" / "captions_val2014.json", _document(VAL_2014, 7))
    archive = {
        "annotations/instances_val2017.json": "{}",
        "annotations/captions_val2017.json": json.dumps(_document(VAL_2017, 7)),
        "annotations/captions_train2017.json": json.dumps(_document(TRAIN_2017, 8)),
    }
    write_zip(folder / "annotations_trainval2017.zip", archive)
    write_json(folder / "dataset_coco.json", _karpathy())


def write_others(folder):
    """The archive of 2014, a file of 2017 by itself, Karpathy's archive."""
    archive = {
        "annotations/captions_val2014.json": json.dumps(_document(VAL_2014, 7)),
        "annotations/captions_train2014.json": json.dumps(_document(TRAIN_2017, 8)),
    }
    write_zip(folder / "annotations_trainval2014.zip", archive)
    write_json(folder / "captions_train2017.json", _document(TRAIN_2017, 8))
    write_zip(folder / "caption_datasets.zip", {"dataset_coco.json": json.dumps(_karpathy())})


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
    **{("karpathy", split): 1 for split in ("train", "restval", "validation", "test")},
}
OTHERS = {("2014", "train"): 2, ("2014", "validation"): 2, ("2017", "train"): 2, ("karpathy", "restval"): 1}
VARIANTS = {"archives": (write_others, OTHERS)}
DAMAGE = {
    ("karpathy", "dataset_coco.json"): [
        ('"restval"', '"rest"'),
        ('"cocoid"', '"id"'),
        ('"sentid": 11', '"sentid": 1'),
    ],
    ("2014", "annotations/captions_val2014.json"): [
        ('"image_id": 8', '"image_id": 9'),
        ('"id": 71', '"id": 70'),
        ('"id": 8,', '"id": 7,'),
        ('"file_name"', '"name"'),
        ('"Two boys play."', '" "'),
        ('"image_id": 8', '"image_id": 7'),
        ("000000000008.jpg", "000000000007.jpg"),
    ],
}
