"""Composite in the official files' format, with the caption files of its photos."""

from tools.tiny.official import coco, write_json, write_lines

CAT = "COCO_val2014_000000000007.jpg"
OWN = {
    "333_c.jpg": ["A girl jumps .", "A girl in a red dress jumps over a puddle .", "Girl in the rain ."],
    "444_d.jpg": ["Two men cook .", "Men in a kitchen ."],
    "555.jpg": ["An old man feeds pigeons .", "A man sits in a park ."],
    CAT: ["A cat sleeps on a keyboard.", "A cat, lying down."],
}
PUDDLE = [
    ("A girl in a red dress jumps over a puddle", 5),
    ("a dog runs", 1),
    ("The scene contains girl and rain.", 3),
]
COOKS = [("Two men cook", 4), ("a man is sitting", 2), ("man is cooking.", 4)]
PIGEONS = [
    ("An old man feeds pigeons.", 5),
    ("a man on a bench", 3),
    ("person is standing; it is outdoors.", 2),
    ("person is feeding bird.", 4),
]
CATS = [("A cat, lying down", 4), ("a cat on a desk", 5), ("cat is sleeping.", 4), ("cat is lying.", 1)]
# part → stem of its files, photo → rated captions
RATED = {
    "flickr8k": ("8k", {"333_c.jpg": PUDDLE, "444_d.jpg": COOKS}),
    "flickr30k": ("30k", {"555.jpg": PIGEONS}),
    "coco": ("coco", {CAT: CATS}),
}
DECODED = {
    "333_c.jpg": "flickr8k_333_c.npz",
    "444_d.jpg": "flickr8k_444_d.npz",
    "555.jpg": "flickr30k_000000000555.npz",
    CAT: "coco_val2014_000000000007.npz",
}


def _table(rated, shift=0):
    """The results of an AMT task, and below them two rows of sums."""
    numbers = range(1, 1 + len(next(iter(rated.values()))))
    header = ["HITId", "Title", "Input.image_url", *(f"Input.text{n}" for n in numbers)]
    header += [f"Answer.Q{n}Answer" for n in numbers]
    rows = [[*header, "Approve"]]
    for hit, (photo, captions) in enumerate(rated.items()):
        texts = [f'"{text}"' if ";" in text else text for text, _ in captions]
        answers = [str(max(1, rating - shift)) for _, rating in captions]
        rows.append([f"H{hit}", "Rate", f"http://photos.example/{photo}", *texts, *answers, ""])
    sums = [*[""] * (len(header) - 2), "", "x"]
    return [";".join(row) for row in (*rows, ["17", *sums], ["", *sums])]


def write(folder):
    """The tables of answers, and the photos' own captions."""
    for stem, rated in RATED.values():
        write_lines(folder / f"{stem}_correctness.csv", _table(rated))
        write_lines(folder / f"{stem}_throughness.csv", _table(rated, shift=1))
    flickr = {"Flickr8k.token.txt": ["333_c.jpg", "444_d.jpg"], "results_20130124.token": ["555.jpg"]}
    for name, photos in flickr.items():
        lines = [f"{photo}#{number}\t{text}" for photo in photos for number, text in enumerate(OWN[photo])]
        write_lines(folder / name, lines)
    captions = coco({9: "another.jpg", 7: CAT}, [(7, OWN[CAT][0]), (9, "Something else."), (7, OWN[CAT][1])])
    write_json(folder / "annotations" / "captions_val2014.json", captions)


def write_decoded(folder):
    """What others decoded of UMIC's texts, with Karpathy's files of captions."""
    for part, (stem, rated) in RATED.items():
        rows = [
            {"img": DECODED[photo], "caption": text.lower(), "score": rating}
            for photo, captions in rated.items()
            for text, rating in captions[:3]
        ]
        write_json(folder / f"umic_composite_{stem}_decoded.json", rows)
        images = [{"filename": name, "sentences": [{"raw": text} for text in OWN[name]]} for name in rated]
        write_json(folder / f"dataset_{part}.json", {"images": images, "dataset": part})


PHOTOS = [
    "Flicker8k_Dataset/333_c.jpg",
    "Flicker8k_Dataset/444_d.jpg",
    "flickr30k-images/555.jpg",
    f"val2014/{CAT}",
]
ROWS = {("flickr8k", "test"): 6, ("flickr30k", "test"): 3, ("coco", "test"): 3, ("all", "test"): 12}
VARIANTS = {"decoded": (write_decoded, ROWS)}
DAMAGE = {
    ("coco", "coco_correctness.csv"): [],
    ("flickr8k", "8k_correctness.csv"): [
        ("Input.image_url", "Input.image"),
        (";1;3;\n", ";1;3"),
        (";5;1;3;", ";7;1;3;"),
        ("a dog runs", ""),
        ("444_d.jpg", "333_c.jpg"),
        ("http://photos.example/333_c.jpg", ""),
        ("photos.example/333_c.jpg", "photos.example/333 c.jpg"),
    ],
    ("flickr30k", "results_20130124.token"): [("555.jpg#1", "555.jpg#0")],
    ("coco", "annotations/captions_val2014.json"): [("val2014_000000000007", "val2014_000000000008")],
}
