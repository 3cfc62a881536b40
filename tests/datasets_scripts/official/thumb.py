"""THumB 1.0 in the official files' format; captions and ratings are invented."""

from __future__ import annotations

import json
from pathlib import Path

_REFERENCES = {
    "31": ["A cow by a fence.", "Cow on a hill.", "A spotted cow.", "One cow in the grass."],
    "57": ["A kite in the sky.", "Somebody flies a kite.", "A red kite.", "A kite at the beach."],
}
# system, seg_id, set_id, caption, P, R, penalties
_RATED = [
    ("Up-Down", "31", 3, "A cow standing standing on grass.", 4.0, 3.0, (-0.5, -0.0, -0.0)),
    ("Human", "31", 3, "A spotted cow looks over a fence.", 5.0, 5.0, (-0.0, -0.0, -0.0)),
    ("VinVL-large", "57", 8, "A kite flying in the sky.", 5.0, 4.0, (-0.0, -0.1, -0.0)),
]


def write(folder: Path) -> None:
    """Ratings and references, both one JSON object per line."""
    lines = []
    for system, seg_id, set_id, caption, precision, recall, (fluency, conciseness, inclusive) in _RATED:
        row = {
            "SYS": system,
            "seg_id": seg_id,
            "set_id": set_id,
            "hyp": caption,
            "image": f"COCO_val2014_{int(seg_id):012d}.jpg",
            "P": precision,
            "R": recall,
            "Fl": fluency,
            "Inc": inclusive,
            "Con": conciseness,
            "human_score": round((precision + recall) / 2 + fluency + conciseness + inclusive, 4),
        }
        lines.append(json.dumps(row))
    (folder / "mscoco_THumB-1.0.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "mscoco_references.json").write_text(
        "".join(
            json.dumps({"seg_id": seg_id, "set_id": 0, "refs": texts}) + "\n"
            for seg_id, texts in _REFERENCES.items()
        ),
        encoding="utf-8",
    )


def write_repository(folder: Path) -> None:
    """The same as the repository has it."""
    (folder / "mscoco").mkdir()
    write(folder / "mscoco")


PHOTOS = ["val2014/COCO_val2014_000000000031.jpg", "val2014/COCO_val2014_000000000057.jpg"]
ROWS = {("default", "test"): 3}
VARIANTS = [("repository", write_repository, ROWS)]
FIRST = {
    ("default", "test"): {
        "image_id": "COCO_val2014_000000000031.jpg",
        "caption": "A cow standing standing on grass.",
        "references": _REFERENCES["31"],
        "rating": 3.0,
        "precision": 4.0,
        "recall": 3.0,
        "fluency": -0.5,
        "conciseness": 0.0,
        "inclusive_language": 0.0,
        "system": "Up-Down",
        "seg_id": "31",
        "set_id": 3,
        "language": "en",
    }
}
_RATINGS = "mscoco_THumB-1.0.jsonl"
DAMAGE = [
    ("default", _RATINGS, None),
    ("default", "mscoco_references.json", None),
    ("default", _RATINGS, (b'"hyp"', b'"caption"')),
    ("default", _RATINGS, (b'"P": 4.0', b'"P": 6.0')),
    ("default", _RATINGS, (b'"P": 4.0', b'"P": 3.0')),
    ("default", _RATINGS, (b'"Con": -0.1', b'"Con": 0.1')),
    ("default", _RATINGS, (b'"human_score": 5.0}', b'"human_sc')),
    ("default", _RATINGS, (b'"SYS": "Human"', b'"SYS": "Up-Down"')),
    ("default", _RATINGS, (b'"seg_id": "57"', b'"seg_id": "58"')),
    ("default", _RATINGS, (b"A kite", b"A k\xefte")),
    ("default", "mscoco_references.json", (b'"57"', b'"31"')),
    ("default", "mscoco_references.json", (b"Cow on a hill.", b" ")),
]
