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
    ("default", "capeval1k.json", None),
    ("default", "capeval1k.json", (b'"caption"', b'"text"')),
    ("default", "capeval1k.json", (b'"image"', b'"photo"')),
    ("default", "capeval1k.json", (b"0.2", b"2")),
    ("default", "capeval1k.json", (b"0.2", b"NaN")),
    ("default", "capeval1k.json", (b"COCO_val2014_", b"val2014_")),
    ("default", "capeval1k.json", (b"a train at a station", b"")),
    ("default", "capeval1k.json", (b"a train at", b"a tr\xe4in at")),
    ("default", "capeval1k.json", (b": 1}]", b": 1}")),
    ("default", "capeval1k.json", (b"a train on a track with a train", b"a train at a station")),
    ("default", "captions_val2014.json", (b'"image_id": 73', b'"image_id": 74')),
]
