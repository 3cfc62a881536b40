"""Multi30k in the official repository's format; captions are invented."""

from __future__ import annotations

import gzip
from pathlib import Path

# split, as its files are named → its photos
_PHOTOS = {
    "train": ["111.jpg", "222.jpg", "333.jpg"],
    "val": ["444.jpg", "555.jpg"],
    "test_2016_flickr": ["666.jpg", "777.jpg"],
    "test_2017_flickr": ["888_a.jpg", "999_b.jpg"],
    "test_2017_mscoco": ["COCO_train2014_000000000012.jpg#34", "COCO_val2014_000000000056.jpg#78"],
    "test_2018_flickr": ["121_c.jpg", "343_d.jpg"],
}
_TEXTS = {
    "en": "A dog  in picture {}.",
    "de": "Ein Hund auf grünem Gras {}.",
    "fr": "Un chien {}.",
    "cs": "Pes na obrázku {}.",
}
_ROWS = {split.replace("val", "validation"): len(photos) for split, photos in _PHOTOS.items()}


def _lines(texts: list[str]) -> bytes:
    return ("\n".join(texts) + "\n").encode()


def _captions(language: str, photos: list[str]) -> bytes:
    return _lines([_TEXTS[language].format(number) for number in range(1, len(photos) + 1)])


def write(folder: Path) -> None:
    """Files of task 1 side by side, lists in a folder; the captions of two splits are unpacked."""
    (folder / "image_splits").mkdir(parents=True)
    for split, photos in _PHOTOS.items():
        (folder / "image_splits" / f"{split}.txt").write_bytes(_lines(photos))
        for language in _TEXTS:
            if language == "cs" and "2017" in split:
                continue
            content = _captions(language, photos)
            if split in ("train", "val"):
                (folder / f"{split}.{language}").write_bytes(content)
            else:
                (folder / f"{split}.{language}.gz").write_bytes(gzip.compress(content))


def write_repository(folder: Path) -> None:
    """The repository's folder data, with both tasks."""
    for task in ("task1", "task2"):
        for name in ("raw", "image_splits"):
            (folder / "data" / task / name).mkdir(parents=True)
    for split in ("train", "val"):
        photos = _PHOTOS[split]
        (folder / f"data/task1/image_splits/{split}.txt").write_bytes(_lines(photos))
        (folder / f"data/task2/image_splits/{split}_images.txt").write_bytes(_lines(photos))
        for language in ("en", "de"):
            content = gzip.compress(_captions(language, photos))
            (folder / f"data/task1/raw/{split}.{language}.gz").write_bytes(content)
            for number in range(1, 6):
                (folder / f"data/task2/raw/{split}.{number}.{language}.gz").write_bytes(content)


PHOTOS = [
    "flickr30k-images/111.jpg",
    *(f"images/{photo.partition('#')[0]}" for photos in _PHOTOS.values() for photo in photos),
]

ROWS = {
    (language, split): rows
    for language in _TEXTS
    for split, rows in _ROWS.items()
    if not (language == "cs" and "2017" in split)
}

FIRST = {
    ("en", "train"): {
        "image_id": "111.jpg",
        "references": ["A dog in picture 1."],
        "coco_caption_id": None,
        "language": "en",
    },
    ("de", "test_2017_mscoco"): {
        "image_id": "COCO_train2014_000000000012.jpg",
        "references": ["Ein Hund auf grünem Gras 1."],
        "coco_caption_id": 34,
        "language": "de",
    },
    ("cs", "validation"): {
        "image_id": "444.jpg",
        "references": ["Pes na obrázku 1."],
        "coco_caption_id": None,
        "language": "cs",
    },
}

VARIANTS = [
    (
        "the repository",
        write_repository,
        {
            ("en", "train"): 3,
            ("de", "validation"): 2,
            ("task2_en", "train"): 3,
            ("task2_de", "validation"): 2,
        },
    )
]

DAMAGE = [
    ("en", "image_splits/train.txt", None),
    ("de", "train.de", ("Ein Hund auf grünem Gras 2.\n".encode(), b"")),
    ("en", "image_splits/val.txt", (b"555.jpg\n", b"")),
    ("fr", "train.fr", (b"Un chien 2.", b"")),
    ("fr", "train.fr", (b" 3.\n", b"")),
    ("de", "val.de", ("grünem".encode(), b"gr\xfcnem")),
    ("en", "image_splits/train.txt", (b"222.jpg", b"111.jpg")),
    ("en", "image_splits/test_2017_mscoco.txt", (b"#34", b"#x34")),
    ("cs", "test_2016_flickr.cs.gz", (b"\x1f\x8b", b"\x1f\x8c")),
]
