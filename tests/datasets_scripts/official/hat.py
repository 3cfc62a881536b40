"""HAT in the official file's format; captions and labels are invented."""

from __future__ import annotations

import json
from pathlib import Path

_PHOTOS = ["COCO_val2014_000000000011.jpg", "COCO_val2014_000000000012.jpg"]


def _row(sample, photo, grounding):
    return {
        "sample_id": sample,
        "caption": " ".join(token for token, _ in grounding),
        "grounding": grounding,
        "contains_hallucination": any(label for _, label in grounding),
        "image_path": photo,
        "session_id": "s",
        "references": ["A dog.", "Somebody's dog. "],
        "is_gold": False,
        "is_positive": True,
        "is_machine_generated": True,
    }


_ROWS = [
    _row("a", _PHOTOS[0], [["A", False], ["dog", False], ["with", True], ["a", True], ["kite.", True]]),
    _row("b", _PHOTOS[1], [["A", False], ["dog,", False], ["asleep.", False]]),
    _row("c", _PHOTOS[1], [["Two", True], ["dogs.", False]]),
]


def write(folder: Path) -> None:
    """A list of captions with their words."""
    (folder / "hat-trainval.json").write_text(json.dumps(_ROWS))


PHOTOS = [f"val2014/{photo}" for photo in _PHOTOS]
ROWS = {("default", "test"): 3}
FIRST = {
    ("default", "test"): {
        "image_id": "COCO_val2014_000000000011.jpg",
        "caption": "A dog with a kite.",
        "references": ["A dog.", "Somebody's dog."],
        "tokens": ["A", "dog", "with", "a", "kite."],
        "token_labels": [0, 0, 1, 1, 1],
        "id": "a",
        "language": "en",
    }
}
_FILE = "hat-trainval.json"
DAMAGE = [
    ("default", _FILE, None),
    ("default", _FILE, (b'"grounding"', b'"words"')),
    ("default", _FILE, (b'["dog", false]', b'["cat", false]')),
    ("default", _FILE, (b'["dog", false]', b'["dog"]')),
    ("default", _FILE, (b'["dog", false]', b'["dog", 0]')),
    ("default", _FILE, (b'hallucination": true', b'hallucination": false')),
    ("default", _FILE, (b'"sample_id": "b"', b'"sample_id": "a"')),
    ("default", _FILE, (b"}]", b"}")),
]
