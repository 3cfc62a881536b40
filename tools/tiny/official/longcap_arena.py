"""LongCap-Arena as tables of VELA's repository, and in the Hub's Parquet format."""

import csv

from tests.photos import encode, noise

LONG = "A room with two chairs. A lamp, which is green, stands in the corner."
# photo, caption, references, score
RATED = [
    ("sa_1.jpg", "Two chairs stand in a room. The lamp is off.", [LONG], 0.625),
    ("sa_1.jpg", "A room.", [LONG], 0.25),
    ("sa_2.jpg", "Boats lie in a harbour. It is evening.", ["Five boats. The sky is red."], 1.0),
]


def write(folder):
    """Each test set and aspect is a table; lists of references are written as Python writes them."""
    (folder / "test").mkdir()
    for name, rows in (("desc_dci_val", RATED), ("rel_dci_val", RATED[:1]), ("flu_dci_test", RATED[1:])):
        with open(folder / "test" / f"{name}.csv", "w", encoding="utf-8", newline="") as file:
            table = csv.writer(file)
            table.writerow(["imgid", "cand", "refs", "score"])
            table.writerows([photo, text, repr(refs), score] for photo, text, refs, score in rows)


def write_parquet(folder):
    """Some of the Hub's files, with the photos inside."""
    import pyarrow
    from pyarrow import parquet

    (folder / "data").mkdir()
    for name, rows in (("train.desc", RATED), ("val.desc", RATED[:1]), ("dci_test.flu", RATED[:2])):
        columns = [
            {"file_name": photo, "image": {"bytes": encode(noise(), "JPEG"), "path": photo}, "refs": refs}
            | {"cand": text, "score": score}
            for photo, text, refs, score in rows
        ]
        path = folder / "data" / f"{name}-00000-of-00001.parquet"
        parquet.write_table(pyarrow.Table.from_pylist(columns), path)


PHOTOS = ["images/sa_1.jpg", "images/sa_2.jpg"]
ROWS = {("test_a_descriptiveness", "test"): 3, ("test_a_relevance", "test"): 1, ("test_b_fluency", "test"): 2}
PARQUET = {
    ("descriptiveness", "train"): 3,
    ("descriptiveness", "validation"): 1,
    ("test_b_fluency", "test"): 2,
}
VARIANTS = {"parquet": (write_parquet, PARQUET)}
DAMAGE = {
    ("test_a_descriptiveness", "test/desc_dci_val.csv"): [
        ("cand,", "text,"),
        (",refs,", ",references,"),
        ("0.625", "62.5"),
        ("['A room", "[A room"),
        ("sa_2.jpg", ""),
    ]
}
