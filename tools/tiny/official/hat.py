"""HAT in the official file's format."""

from tools.tiny.official import write_json

NAMES = ["COCO_val2014_000000000011.jpg", "COCO_val2014_000000000012.jpg"]


def _row(sample, photo, grounding):
    return {
        "sample_id": sample,
        "caption": " ".join(token for token, _ in grounding),
        "grounding": grounding,
        "contains_hallucination": any(label for _, label in grounding),
        "image_path": photo,
        "references": ["A dog.", "Somebody's dog. "],
    }


KITE = [["A", False], ["dog", False], ["with", True], ["a", True], ["kite.", True]]


def write(folder):
    rows = [
        _row("a", NAMES[0], KITE),
        _row("b", NAMES[1], [["A", False], ["dog,", False], ["asleep.", False]]),
        _row("c", NAMES[1], [["Two", True], ["dogs.", False]]),
    ]
    write_json(folder / "hat-trainval.json", rows)


PHOTOS = [f"val2014/{name}" for name in NAMES]
ROWS = {("default", "test"): 3}
DAMAGE = {
    ("default", "hat-trainval.json"): [
        ('"grounding"', '"words"'),
        ('["dog", false]', '["cat", false]'),
        ('["dog", false]', '["dog"]'),
        ('["dog", false]', '["dog", 0]'),
        ('hallucination": true', 'hallucination": false'),
        ('"sample_id": "b"', '"sample_id": "a"'),
    ]
}
