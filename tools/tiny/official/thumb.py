"""THumB 1.0 in the official files' format."""

from tools.tiny.official import write_jsonl

REFERENCES = {
    "31": ["A cow by a fence.", "Cow on a hill.", "A spotted cow.", "One cow in the grass."],
    "57": ["A kite in the sky.", "Somebody flies a kite.", "A red kite.", "A kite at the beach."],
}
# system, seg_id, set_id, caption, P, R, penalties
RATED = [
    ("Up-Down", "31", 3, "A cow standing standing on grass.", 4.0, 3.0, (-0.5, -0.0, -0.0)),
    ("Human", "31", 3, "A spotted cow looks over a fence.", 5.0, 5.0, (-0.0, -0.0, -0.0)),
    ("VinVL-large", "57", 8, "A kite flying in the sky.", 5.0, 4.0, (-0.0, -0.1, -0.0)),
]


def _rows():
    for system, seg_id, set_id, caption, precision, recall, (fluency, conciseness, inclusive) in RATED:
        yield {
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


def write(folder):
    """Ratings and references, both one JSON object per line."""
    write_jsonl(folder / "mscoco_THumB-1.0.jsonl", _rows())
    references = [{"seg_id": seg_id, "set_id": 0, "refs": texts} for seg_id, texts in REFERENCES.items()]
    write_jsonl(folder / "mscoco_references.json", references)


def write_repository(folder):
    write(folder / "mscoco")


PHOTOS = [f"val2014/COCO_val2014_0000000000{seg_id}.jpg" for seg_id in REFERENCES]
ROWS = {("default", "test"): 3}
VARIANTS = {"repository": (write_repository, ROWS)}
DAMAGE = {
    ("default", "mscoco_THumB-1.0.jsonl"): [
        ('"hyp"', '"caption"'),
        ('"P": 4.0', '"P": 6.0'),
        ('"P": 4.0', '"P": 3.0'),
        ('"Con": -0.1', '"Con": 0.1'),
        ('"SYS": "Human"', '"SYS": "Up-Down"'),
        ('"seg_id": "57"', '"seg_id": "58"'),
    ],
    ("default", "mscoco_references.json"): [('"57"', '"31"'), ("Cow on a hill.", " ")],
}
