"""CapEval1k as JSON, with COCO's captions; captions and scores are invented."""

from __future__ import annotations

import json
from pathlib import Path

_ROWS = [
    ("000000000064", "a train at a station", 0.75),
    ("000000000064", "a train on a track with a train", 0.2),
    ("000000000073", "a motorcycle parked on the street", 1),
]
_IMAGES = [
    {"id": 64, "file_name": "COCO_val2014_000000000064.jpg"},
    {"id": 73, "file_name": "COCO_val2014_000000000073.jpg"},
]


def write(folder: Path) -> None:
    """Rated captions, and the captions of COCO."""
    (folder / "capeval1k.json").write_text(
        json.dumps(
            [
                {"image": f"COCO_val2014_{photo}.jpg", "caption": text, "score": score}
                for photo, text, score in _ROWS
            ]
        )
    )
    captions = [(64, "A train arrives."), (73, "A parked motorcycle."), (64, "A train stands\nthere.")]
    (folder / "captions_val2014.json").write_text(
        json.dumps(
            {
                "images": _IMAGES,
                "annotations": [{"image_id": photo, "caption": text} for photo, text in captions],
            }
        )
    )


def write_decoded(folder: Path) -> None:
    """The same as UMIC names photos, without the captions of COCO."""
    (folder / "umic_capeval1k_decoded.json").write_text(
        json.dumps(
            [
                {"img": f"coco_val2014_{photo}.npz", "caption": text, "score": score}
                for photo, text, score in _ROWS
            ]
        )
    )


PHOTOS = ["val2014/COCO_val2014_000000000064.jpg", "val2014/COCO_val2014_000000000073.jpg"]
ROWS = {("default", "test"): 3}
VARIANTS = [("decoded", write_decoded, ROWS)]
FIRST = {
    ("default", "test"): {
        "image_id": "COCO_val2014_000000000064.jpg",
        "caption": "a train at a station",
        "references": ["A train arrives.", "A train stands there."],
        "rating": 0.75,
        "language": "en",
    }
}
DAMAGE = [
    ("default", "capeval1k.json", None, r"capeval1k\.json.*not found under data_dir"),
    ("default", "capeval1k.json", (b'"caption"', b'"text"'), r"entry 0: lacks the field 'caption'"),
    ("default", "capeval1k.json", (b'"image"', b'"photo"'), r"entry 0: lacks the field 'img'"),
    ("default", "capeval1k.json", (b"0.2", b"2"), r"entry 1: 'score' is 2, expected a number from 0 to 1"),
    (
        "default",
        "capeval1k.json",
        (b"0.2", b"NaN"),
        r"entry 1: 'score' is nan, expected a number from 0 to 1",
    ),
    (
        "default",
        "capeval1k.json",
        (b"COCO_val2014_", b"val2014_"),
        r"entry 0: the photo is 'val2014_000000000064",
    ),
    ("default", "capeval1k.json", (b"a train at a station", b""), r"entry 0: 'caption' is empty"),
    (
        "default",
        "capeval1k.json",
        (b"a train at", b"a tr\xe4in at"),
        r"capeval1k\.json, line 1: is not UTF-8",
    ),
    ("default", "capeval1k.json", (b": 1}]", b": 1}"), r"is not JSON: .*cut short"),
    (
        "default",
        "capeval1k.json",
        (b"a train on a track with a train", b"a train at a station"),
        r"entry 1: the pair 'COCO_val2014_000000000064\.jpg a train at a station' appears twice",
    ),
    (
        "default",
        "captions_val2014.json",
        (b'"image_id": 73', b'"image_id": 74'),
        r"captions_val2014\.json, entry 1: image_id 74 is none of its images",
    ),
]
