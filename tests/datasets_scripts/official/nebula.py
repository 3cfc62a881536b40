"""Nebula as JSON, and in the Hub's Parquet format; captions and scores are invented."""

from __future__ import annotations

import json
from pathlib import Path

# photo, caption, references, score
_ROWS = [
    ("cc33", "a bottle of milk", ["A bottle.", "Milk on a table."], 0.5),
    ("dd44", "two dogs play chess", ["Two dogs.", "Dogs on a sofa.", "They look at a board."], 0.0),
]
_EXPLANATION = {"fluency": "Fine.", "relevance": "There is no chess.", "descriptiveness": "Short."}


def write(folder: Path) -> None:
    """The test split, and part of another one with explanations."""
    (folder / "nebula_test.json").write_text(
        json.dumps(
            [
                {"imgid": photo, "mt": text, "refs": refs, "score": score}
                for photo, text, refs, score in _ROWS
            ],
            indent=1,
        )
    )
    (folder / "nebula_exp_val.json").write_text(
        json.dumps(
            [
                {
                    "id": f"val_{number}",
                    "imgid": photo,
                    "mt": text,
                    "score": score,
                    "explanation": _EXPLANATION,
                }
                for number, (photo, text, _, score) in enumerate(_ROWS, start=1)
            ],
            indent=1,
        )
    )


def write_parquet(folder: Path) -> None:
    """All three splits, as the Hub has them, with the photos inside."""
    import pyarrow
    from pyarrow import parquet

    from ...photos import encode, noise

    (folder / "data").mkdir()
    for split, rows in (("train", _ROWS), ("valid", _ROWS[:1]), ("test", _ROWS[1:])):
        table = pyarrow.Table.from_pylist(
            [
                {
                    "file_name": f"{photo}.png",
                    "image": {"bytes": encode(noise(seed=seed), "PNG"), "path": None},
                    "refs": refs,
                    "mt": text,
                    "human_score": score,
                }
                for seed, (photo, text, refs, score) in enumerate(rows)
            ]
        )
        parquet.write_table(table, folder / "data" / f"{split}-00000-of-00001.parquet")


PHOTOS = ["images/cc33.jpg", "images/dd44.jpg"]
ROWS = {("default", "test"): 2, ("explained", "validation"): 2}
VARIANTS = [
    (
        "parquet",
        write_parquet,
        {("default", "train"): 2, ("default", "validation"): 1, ("default", "test"): 1},
    )
]
FIRST = {
    ("default", "test"): {
        "image_id": "cc33.jpg",
        "caption": "a bottle of milk",
        "references": ["A bottle.", "Milk on a table."],
        "rating": 0.5,
        "language": "en",
    },
    ("explained", "validation"): {
        "image_id": "cc33.jpg",
        "caption": "a bottle of milk",
        "references": [],
        "rating": 0.5,
        "fluency": "Fine.",
        "relevance": "There is no chess.",
        "descriptiveness": "Short.",
        "language": "en",
    },
}
DAMAGE = [
    ("default", "nebula_test.json", None),
    ("default", "nebula_test.json", (b'"refs"', b'"references"')),
    ("default", "nebula_test.json", (b'"score": 0.5', b'"score": "high"')),
    ("default", "nebula_test.json", (b'"a bottle of milk"', b'" "')),
    ("default", "nebula_test.json", (b"dd44", b"cc33")),
    ("default", "nebula_test.json", (b"Milk on", b"M\xeflk on")),
    ("default", "nebula_test.json", (b"}\n]", b"}")),
    ("default", "nebula_test.json", (b'"Two dogs."', b"7")),
    ("explained", "nebula_exp_val.json", (b'"explanation"', b'"why"')),
]
