"""Polaris in the official CSV and Parquet formats and with explanations."""

import csv

from tests.photos import encode, noise
from tools.tiny.official import write_json

A, B = "aa11", "bb22"
BOAT = ["A boat.", 'It\'s a lake with a "boat".  ']
# photo, caption, references, score: a row is one person's judgement, so captions come back
RATED = [
    (A, "a boat on a lake", BOAT, 0.75),
    (A, "a boat on a lake", BOAT, 1.0),
    (B, "a man", ["A man, reading."], 0.25),
]
EXPLANATION = {
    "fluency": "It reads well.",
    "relevance": "There is a boat.",
    "descriptiveness": "The weather is left out.",
}


def write(folder):
    """One table a split; the list of references is written as Python writes it."""
    for name, rows in (("train", RATED), ("val", RATED[:1]), ("test", RATED[1:])):
        with open(folder / f"polaris_{name}.csv", "w", encoding="utf-8", newline="") as file:
            table = csv.writer(file)
            table.writerow(["mt", "refs", "score", "imgid"])
            table.writerows([text, repr(refs), score, photo] for photo, text, refs, score in rows)
    explained = [
        {"id": f"val_{n}", "imgid": photo, "mt": text, "score": 0.5, "count": 8, "explanation": EXPLANATION}
        for n, (photo, text, _, _) in enumerate(RATED[1:], start=1)
    ]
    write_json(folder / "polaris_exp_val.json", explained, indent=1)


def write_expert(folder):
    """The test split as EXPERT has it."""
    rows = [{"imgid": photo, "mt": text, "refs": refs, "score": score} for photo, text, refs, score in RATED]
    write_json(folder / "polaris_test.json", rows)


def write_parquet(folder):
    """Two files of a split, as the Hub has it, with the photos inside."""
    import pyarrow
    from pyarrow import parquet

    (folder / "data").mkdir()
    photos = {photo: encode(noise(seed=seed), "JPEG") for seed, photo in enumerate((A, B))}
    for number, rows in enumerate((RATED[:2], RATED[2:])):
        columns = [
            {
                "refs": refs,
                "cand": text,
                "img": {"bytes": photos[photo], "path": f"{photo}.jpg"},
                "human_score": score,
            }
            for photo, text, refs, score in rows
        ]
        path = folder / "data" / f"test-0000{number}-of-00002.parquet"
        parquet.write_table(pyarrow.Table.from_pylist(columns), path)


PHOTOS = [f"images/{A}.jpg", f"images/{B}.jpg"]
ROWS = {
    ("default", "train"): 3,
    ("default", "validation"): 1,
    ("default", "test"): 2,
    ("explained", "validation"): 2,
}
TEST = {("default", "test"): 3}
VARIANTS = {"json": (write_expert, TEST), "parquet": (write_parquet, TEST)}
DAMAGE = {
    ("explained", "polaris_exp_val.json"): [
        ('"fluency"', '"flow"'),
        ("val_2", "val_1"),
        ('"count": 8', '"count": 0'),
        ('"count"', '"counts"'),
    ],
    ("default", "polaris_train.csv"): [
        ("mt,", "text,"),
        (",refs,", ",references,"),
        ("0.75", "75"),
        ("['A boat.'", "['A boat."),
        ("\"['A man, reading.']\"", "7"),
        ("0.25,bb22", "0.25"),
        ("aa11", ""),
        ("aa11", "a boat on a lake"),
    ],
}
