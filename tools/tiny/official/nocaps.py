"""nocaps and nocaps-FOIL in the official files' formats."""

from tools.tiny.official import write_json

DOMAINS = ["in-domain", "near-domain", "near-domain", "out-domain"]
NAMES = [f"{number}a{number}b.jpg" for number in range(4)]


def write(folder):
    """Captions of the validation set, and nocaps-FOIL."""
    named = list(enumerate(zip(NAMES, DOMAINS, strict=True)))
    images = [{"id": number, "file_name": photo, "domain": domain} for number, (photo, domain) in named]
    annotations = [
        {"image_id": number, "id": 10 * number + index, "caption": f"A  caption {index} of {number}. "}
        for index in range(2)
        for number in range(4)
    ]
    captions = {"info": {}, "images": images, "annotations": annotations}
    write_json(folder / "nocaps_val_4500_captions.json", captions)
    foils = [
        {
            "image_path": photo,
            "references": [f"Somebody at {photo}", "A red shirt. "],
            "baseline": "A child in a shirt. ",
            "foil": "A child in a skirt. ",
            "replacement": ["shirt", "skirt"],
            "domain": domain,
        }
        for _, (photo, domain) in named[:3]
    ]
    write_json(folder / "nocaps-val-foil.json", foils)


def write_elsewhere(folder):
    write(folder / "annotations")
    (folder / "data").mkdir()
    (folder / "annotations" / "nocaps-val-foil.json").rename(folder / "data" / "nocaps-val-foil.json")


PHOTOS = [f"images/{photo}" for photo in NAMES]
ROWS = {
    (config, "validation"): rows
    for config, rows in (("in", 1), ("near", 2), ("out", 1), ("all", 4), ("foil", 3))
}
VARIANTS = {"in folders": (write_elsewhere, {("all", "validation"): 4, ("foil", "validation"): 3})}
DAMAGE = {
    ("all", "nocaps_val_4500_captions.json"): [
        ('"domain": "out-domain"', '"x": 1'),
        ('"out-domain"', '"far"'),
        ('"A  caption 0 of 1. "', '""'),
        ("1a1b.jpg", "0a0b.jpg"),
    ],
    ("foil", "nocaps-val-foil.json"): [
        ('"foil"', '"wrong"'),
        ("in a skirt", "in a shirt"),
        ('["shirt", "skirt"]', '["shirt"]'),
        ('"in-domain"', '"in"'),
    ],
}
