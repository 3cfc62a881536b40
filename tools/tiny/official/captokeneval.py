"""CapTokenEval in the format that its card documents."""

from tools.tiny.official import write_jsonl


def _pair(name, photo, words, regions):
    return {
        "id": name,
        "image": photo,
        "caption": " ".join(text for text, _, _ in words),
        "words": [{"text": text, "correct": right, "semantic": noun} for text, right, noun in words],
        "regions": [{"box": box, "mentioned": mentioned} for box, mentioned in regions],
    }


TWO_DOGS = [
    ("two", False, True),
    ("dogs", True, True),
    ("on", True, False),
    ("a", True, False),
    ("sofa", True, True),
]
PHOTOS = [f"val2014/COCO_val2014_0000000000{number}.jpg" for number in (21, 22)]


def write(folder):
    first, second = (name.rpartition("/")[2] for name in PHOTOS)
    pairs = [
        _pair("a", first, TWO_DOGS, [([10, 20, 110.5, 90], True), ([0, 0, 40, 30], False)]),
        _pair("b", second, [("a", True, False), ("kite", False, True)], [([5, 5, 9, 9], False)]),
    ]
    write_jsonl(folder / "captokeneval.jsonl", pairs)


ROWS = {("default", "test"): 2}
DAMAGE = {
    ("default", "captokeneval.jsonl"): [
        ('"words"', '"tokens"'),
        ('"correct": false', '"right": false'),
        ('"id": "b"', '"id": "a"'),
        ('"semantic": true', '"semantic": 1'),
        ("[5, 5, 9, 9]", "[9, 5, 5, 9]"),
        ("[5, 5, 9, 9]", "[5, 9, 9, 9]"),
        ("[5, 5, 9, 9]", "[-5, 5, 9, 9]"),
        ("[5, 5, 9, 9]", "[5, 5, 9]"),
        ('[{"box": [5, 5, 9, 9], "mentioned": false}]', "[]"),
    ]
}
