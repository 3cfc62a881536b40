"""Nebula as JSON, and in the Hub's Parquet format."""

from tests.photos import encode, noise
from tools.tiny.official import write_json

# photo, caption, references, score
RATED = [
    ("cc33", "a bottle of milk", ["A bottle.", "Milk on a table."], 0.5),
    ("dd44", "two dogs play chess", ["Two dogs.", "Dogs on a sofa.", "They look at a board."], 0.0),
]
EXPLANATION = {"fluency": "Fine.", "relevance": "There is no chess.", "descriptiveness": "Short."}


def write(folder):
    """The test split, and part of another one with explanations."""
    rows = [{"imgid": photo, "mt": text, "refs": refs, "score": score} for photo, text, refs, score in RATED]
    write_json(folder / "nebula_test.json", rows, indent=1)
    explained = [
        {"id": f"val_{number}", "imgid": photo, "mt": text, "score": score, "explanation": EXPLANATION}
        for number, (photo, text, _, score) in enumerate(RATED, start=1)
    ]
    write_json(folder / "nebula_exp_val.json", explained, indent=1)


def write_parquet(folder):
    """All three splits, as the Hub has them, with the photos inside."""
    import pyarrow
    from pyarrow import parquet

    (folder / "data").mkdir()
    for split, rows in (("train", RATED), ("valid", RATED[:1]), ("test", RATED[1:])):
        columns = [
            {
                "file_name": f"{photo}.png",
                "image": {"bytes": encode(noise(seed=seed), "PNG"), "path": None},
                "refs": refs,
                "mt": text,
                "human_score": score,
            }
            for seed, (photo, text, refs, score) in enumerate(rows)
        ]
        path = folder / "data" / f"{split}-00000-of-00001.parquet"
        parquet.write_table(pyarrow.Table.from_pylist(columns), path)


PHOTOS = ["images/cc33.jpg", "images/dd44.jpg"]
ROWS = {("default", "test"): 2, ("explained", "validation"): 2}
PARQUET = {("default", "train"): 2, ("default", "validation"): 1, ("default", "test"): 1}
VARIANTS = {"parquet": (write_parquet, PARQUET)}
DAMAGE = {
    ("default", "nebula_test.json"): [
        ('"refs"', '"references"'),
        ('"score": 0.5', '"score": "high"'),
        ('"a bottle of milk"', '" "'),
        ("dd44", "cc33"),
        ('"Two dogs."', "7"),
    ],
    ("explained", "nebula_exp_val.json"): [('"explanation"', '"why"')],
}
