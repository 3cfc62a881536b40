"""xFlickr&CO in the official files' format: a folder a language."""

from tools.tiny.official import write_jsonl

TEST = {
    "de": [
        (["Ein  Hund läuft."], "111", "111.jpg"),
        ([""], 122239, "COCO_val2014_000000122239.jpg"),
        (["Zwei Kinder."], 34, "COCO_val2014_000000000034.jpg"),
    ],
    "en": [(["A dog runs."], "111", "111.jpg"), (["Two children."], 34, "COCO_val2014_000000000034.jpg")],
    "ja": [(["犬が走る。"], "111", "111.jpg")],
}
BALLS = ["Ein Ball.", "Ball", "Roter Ball", "Der Ball", "Kugel"]
TRAIN = {"train_1": [(["Ein Ball."], "555", "555.jpg")], "train_100x5": [(BALLS, "555", "555.jpg")]}


def write(folder):
    files = {f"{language}/test": rows for language, rows in TEST.items()}
    files |= {f"de/{split}": rows for split, rows in TRAIN.items()}
    for name, rows in files.items():
        lines = [{"sentences": texts, "id": identity, "img_path": photo} for texts, identity, photo in rows]
        write_jsonl(folder / f"{name}.jsonl", lines)


def write_repository(folder):
    write(folder / "datasets" / "xFlickrCO" / "annotations")


PHOTOS = [
    "flickr30k-images/111.jpg",
    "flickr30k-images/555.jpg",
    "val2014/COCO_val2014_000000122239.jpg",
    "val2014/COCO_val2014_000000000034.jpg",
]
ROWS = {
    ("de", "test"): 3,
    ("de", "train_1"): 1,
    ("de", "train_100x5"): 1,
    ("en", "test"): 2,
    ("ja", "test"): 1,
}
VARIANTS = {"repository": (write_repository, {("de", "test"): 3, ("de", "train_1"): 1})}
DAMAGE = {
    ("en", "en/test.jsonl"): [
        ('"img_path"', '"image"'),
        ('"A dog runs."', '""'),
        ('["A dog runs."]', '"A dog runs."'),
        ('["A dog runs."]', "[]"),
        ('"id": 34', '"id": 3.4'),
        ("COCO_val2014_000000000034", "111"),
    ],
    ("de", "de/test.jsonl"): [],
}
