"""nocaps and nocaps-FOIL in the official files' formats; captions are invented."""

from __future__ import annotations

import json
from pathlib import Path

_DOMAINS = ["in-domain", "near-domain", "near-domain", "out-domain"]
_PHOTOS = [f"{number}a{number}b.jpg" for number in range(4)]


def write(folder: Path) -> None:
    """Captions of the validation set, and nocaps-FOIL."""
    images = [
        {"id": number, "file_name": photo, "open_images_id": photo[:-4], "domain": domain, "height": 8}
        for number, (photo, domain) in enumerate(zip(_PHOTOS, _DOMAINS, strict=True))
    ]
    annotations = [
        {"image_id": number, "id": 10 * number + place, "caption": f"A  caption {place} of {number}. "}
        for place in range(2)
        for number in range(4)
    ]
    (folder / "nocaps_val_4500_captions.json").write_text(
        json.dumps({"licenses": [], "info": {}, "images": images, "annotations": annotations})
    )
    foils = [
        {
            "image_path": photo,
            "references": [f"Somebody at {photo}", "A red shirt. "],
            "baseline": "A child in a shirt. ",
            "foil": "A child in a skirt. ",
            "replacement": ["shirt", "skirt"],
            "domain": domain,
        }
        for photo, domain in zip(_PHOTOS[:3], _DOMAINS[:3], strict=True)
    ]
    (folder / "nocaps-val-foil.json").write_text(json.dumps(foils))


def write_elsewhere(folder: Path) -> None:
    """The same, in folders."""
    for name in ("annotations", "data"):
        (folder / name).mkdir()
    write(folder / "annotations")
    (folder / "annotations" / "nocaps-val-foil.json").rename(folder / "data" / "nocaps-val-foil.json")


PHOTOS = [f"images/{photo}" for photo in _PHOTOS]

ROWS = {
    ("in", "validation"): 1,
    ("near", "validation"): 2,
    ("out", "validation"): 1,
    ("all", "validation"): 4,
    ("foil", "validation"): 3,
}

FIRST = {
    ("near", "validation"): {
        "image_id": "1a1b.jpg",
        "references": ["A caption 0 of 1.", "A caption 1 of 1."],
        "id": 1,
        "domain": "near-domain",
        "language": "en",
    },
    ("foil", "validation"): {
        "image_id": "0a0b.jpg",
        "caption": "A child in a shirt.",
        "foil": "A child in a skirt.",
        "references": ["Somebody at 0a0b.jpg", "A red shirt."],
        "word": "shirt",
        "foil_word": "skirt",
        "domain": "in-domain",
        "language": "en",
    },
}

VARIANTS = [("in folders", write_elsewhere, {("all", "validation"): 4, ("foil", "validation"): 3})]

_CAPTIONS, _FOIL = "nocaps_val_4500_captions.json", "nocaps-val-foil.json"
DAMAGE = [
    ("all", _CAPTIONS, None),
    ("all", _CAPTIONS, (b'"domain": "out-domain"', b'"x": 1')),
    ("all", _CAPTIONS, (b'"out-domain"', b'"far"')),
    ("all", _CAPTIONS, (b'"A  caption 0 of 1. "', b'""')),
    ("all", _CAPTIONS, (b"1a1b.jpg", b"0a0b.jpg")),
    ("foil", _FOIL, (b'"foil"', b'"wrong"')),
    ("foil", _FOIL, (b"in a skirt", b"in a shirt")),
    ("foil", _FOIL, (b'["shirt", "skirt"]', b'["shirt"]')),
    ("foil", _FOIL, (b'"in-domain"', b'"in"')),
    ("foil", _FOIL, (b"}]", b"}")),
    ("foil", _FOIL, (b"A child", b"A ch\xeeld")),
]
