"""VICR in its CSV format, with the caption files of its photos; captions and ratings are invented."""

from __future__ import annotations

import json
from pathlib import Path

_COCO = "COCO_val2014_000000000021.jpg"
_LINES = [
    "image,caption,subset,num_ratings,ratings,rating_2,rating_3,rating_4,rating_5,rating_6,rating_7",
    f"http://images.cocodataset.org/val2014/{_COCO},a dog is on the grass,train,4,4,3,5,4,,,",
    f'http://images.cocodataset.org/val2014/{_COCO},"A dog, waiting",test,5,1,2,2,1,1,,',
    "777_e.jpg,Boys run .,test,4,5,5,4,5,,,",
    f"http://images.cocodataset.org/val2014/{_COCO},A cat,val,4,1,1,1,1,,,",
]


def write(folder: Path) -> None:
    """The table of ratings, which starts with a byte order mark, and captions of the photos."""
    (folder / "VICR.csv").write_text("\n".join(_LINES) + "\n", encoding="utf-8-sig")
    (folder / "captions_val2014.json").write_text(
        json.dumps(
            {
                "images": [{"id": 21, "file_name": _COCO}],
                "annotations": [
                    {"image_id": 21, "caption": "A dog waiting."},
                    {"image_id": 21, "caption": "Dog near a door "},
                ],
            }
        )
    )
    (folder / "Flickr8k.token.txt").write_text(
        "777_e.jpg#0\tTwo boys run .\n777_e.jpg#1\tBoys run .\n", encoding="utf-8"
    )


def write_ratings(folder: Path) -> None:
    """The public part, without captions of the photos."""
    (folder / "VICR_Sample250.csv").write_text("\n".join(_LINES) + "\n", encoding="utf-8-sig")


PHOTOS = [f"val2014/{_COCO}", "Flicker8k_Dataset/777_e.jpg"]
ROWS = {("default", "train"): 1, ("default", "validation"): 1, ("default", "test"): 2}
VARIANTS = [("sample", write_ratings, ROWS)]
FIRST = {
    ("default", "train"): {
        "image_id": _COCO,
        "caption": "a dog is on the grass",
        "references": ["A dog waiting.", "Dog near a door"],
        "ratings": [4, 3, 5, 4],
        "language": "en",
    },
    ("default", "test"): {
        "image_id": _COCO,
        "caption": "A dog, waiting",
        "references": ["Dog near a door"],
        "ratings": [1, 2, 2, 1, 1],
        "language": "en",
    },
}
DAMAGE = [
    ("default", "VICR.csv", None),
    ("default", "VICR.csv", (b"subset", b"split")),
    ("default", "VICR.csv", (b"image,caption", b"caption,image")),
    ("default", "VICR.csv", (b"grass,train", b"grass,dev")),
    ("default", "VICR.csv", (b"train,4,4,3", b"train,5,4,3")),
    ("default", "VICR.csv", (b"train,4,4,3", b"train,4,9,3")),
    ("default", "VICR.csv", (b"train,4,4,3", b"train,4,4,3.5")),
    ("default", "VICR.csv", (b"a dog is on the grass", b"")),
    ("default", "VICR.csv", (b",1,1,1,1,,,\n", b",1,1")),
    ("default", "VICR.csv", (b"waiting", b"w\xe4iting")),
    ("default", "VICR.csv", (b'"A dog, waiting"', b'"A dog, waiting')),
    ("default", "VICR.csv", (b"A cat,val", b"a dog is on the grass,train")),
    ("default", "Flickr8k.token.txt", (b"777_e.jpg#1", b"777_e.jpg#0")),
]
