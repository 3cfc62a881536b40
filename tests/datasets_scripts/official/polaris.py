"""Polaris in the official CSV and Parquet formats and with explanations; captions and scores are invented."""

from __future__ import annotations

import csv
import json
from pathlib import Path

A, B = "aa11", "bb22"
# photo, caption, references, score: a row is one person's judgement, so captions come back
_ROWS = [
    (A, "a boat on a lake", ["A boat.", 'It\'s a lake with a "boat".  '], 0.75),
    (A, "a boat on a lake", ["A boat.", 'It\'s a lake with a "boat".  '], 1.0),
    (B, "a man", ["A man, reading."], 0.25),
]
_EXPLANATION = {
    "fluency": "It reads well.",
    "relevance": "There is a boat.",
    "descriptiveness": "The weather is left out.",
}


def write(folder: Path) -> None:
    """One table a split; the list of references is written as Python writes it."""
    for name, rows in (("train", _ROWS), ("val", _ROWS[:1]), ("test", _ROWS[1:])):
        with open(folder / f"polaris_{name}.csv", "w", encoding="utf-8", newline="") as file:
            table = csv.writer(file)
            table.writerow(["mt", "refs", "score", "imgid"])
            table.writerows([text, repr(refs), score, photo] for photo, text, refs, score in rows)
    (folder / "polaris_exp_val.json").write_text(
        json.dumps(
            [
                {
                    "id": f"val_{number}",
                    "imgid": photo,
                    "mt": text,
                    "score": 0.5,
                    "count": 8,
                    "explanation": _EXPLANATION,
                }
                for number, (photo, text, _, _) in enumerate(_ROWS[1:], start=1)
            ],
            indent=1,
        )
    )


def write_json(folder: Path) -> None:
    """The test split as EXPERT has it."""
    (folder / "polaris_test.json").write_text(
        json.dumps(
            [{"imgid": photo, "mt": text, "refs": refs, "score": score} for photo, text, refs, score in _ROWS]
        )
    )


def write_parquet(folder: Path) -> None:
    """Two files of a split, as the Hub has it, with the photos inside."""
    import pyarrow
    from pyarrow import parquet

    from ...photos import encode, noise

    (folder / "data").mkdir()
    photos = {photo: encode(noise(seed=seed), "JPEG") for seed, photo in enumerate((A, B))}
    for number, rows in enumerate((_ROWS[:2], _ROWS[2:])):
        table = pyarrow.Table.from_pylist(
            [
                {
                    "refs": refs,
                    "cand": text,
                    "img": {"bytes": photos[photo], "path": f"{photo}.jpg"},
                    "human_score": score,
                }
                for photo, text, refs, score in rows
            ]
        )
        parquet.write_table(table, folder / "data" / f"test-0000{number}-of-00002.parquet")


PHOTOS = [f"images/{A}.jpg", f"images/{B}.jpg"]
ROWS = {
    ("default", "train"): 3,
    ("default", "validation"): 1,
    ("default", "test"): 2,
    ("explained", "validation"): 2,
}
VARIANTS = [
    ("json", write_json, {("default", "test"): 3}),
    ("parquet", write_parquet, {("default", "test"): 3}),
]
FIRST = {
    ("default", "train"): {
        "image_id": f"{A}.jpg",
        "caption": "a boat on a lake",
        "references": ["A boat.", 'It\'s a lake with a "boat".'],
        "rating": 0.75,
        "language": "en",
    },
    ("explained", "validation"): {
        "image_id": f"{A}.jpg",
        "caption": "a boat on a lake",
        "references": [],
        "rating": 0.5,
        "n_ratings": 8,
        "fluency": "It reads well.",
        "relevance": "There is a boat.",
        "descriptiveness": "The weather is left out.",
        "language": "en",
    },
}
DAMAGE = [
    ("explained", "polaris_exp_val.json", None),
    ("default", "polaris_train.csv", (b"mt,", b"text,")),
    ("default", "polaris_train.csv", (b",refs,", b",references,")),
    ("default", "polaris_train.csv", (b"0.75", b"75")),
    ("default", "polaris_train.csv", (b"['A boat.'", b"['A boat.")),
    ("default", "polaris_train.csv", (b"\"['A man, reading.']\"", b"7")),
    ("default", "polaris_train.csv", (b"0.25,bb22", b"0.25")),
    ("default", "polaris_train.csv", (b"aa11", b"")),
    ("default", "polaris_train.csv", (b"aa11", b"a boat on a lake")),
    ("default", "polaris_train.csv", (b"a boat", b"a b\xf6at")),
    ("explained", "polaris_exp_val.json", (b'"fluency"', b'"flow"')),
    ("explained", "polaris_exp_val.json", (b"val_2", b"val_1")),
    ("explained", "polaris_exp_val.json", (b'"count": 8', b'"count": 0')),
    ("explained", "polaris_exp_val.json", (b'"count"', b'"counts"')),
]
