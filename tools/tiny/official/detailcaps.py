"""DetailCaps-4870 in the official Parquet format, with the photos inside; bytes stand there as they are."""

import json

from tests.photos import encode, noise

SYSTEMS = ("CogVLM", "ShareCaptioner", "LLaVA_v15")
REFERENCES = {
    "GT_Caption_GPT4O": "A white boat lies on a calm lake. Behind it are dark hills.",
    "GT_Caption_GPT4V": "A small boat floats near the shore of a lake.",
    "GT_Caption_Gemini15Pro": "The photo shows a boat, a lake and hills.",
}
# origin, captions by the systems, grades
PHOTOS_OF = [
    ("COCO", ("A white boat on a lake.", "A boat near hills, with a red sail.", "A car."), (4.5, 3, 0)),
    ("SAM", ("A boat. The water is calm.", "Hills.", "Two boats lie on a lake."), (4, 1.5, 2)),
    ("Flickr", ("A lake.", "A small boat lies near the shore.", "A boat on a street."), (2, 5, 2)),
]


def table(photos=PHOTOS_OF):
    import pyarrow

    rows = []
    for number, (source, captions, grades) in enumerate(photos):
        row = {"source": source, "image": f"{source.lower()}/{number}.jpg", **REFERENCES}
        row |= {"binary": encode(noise(seed=number), "PNG")} | dict(zip(SYSTEMS, captions, strict=True))
        grade_of = dict(zip(SYSTEMS, grades, strict=True))
        rows.append({**row, "GPT4_Eval": json.dumps(grade_of)})
    return pyarrow.Table.from_pylist(rows)


def save(rows, path):
    from pyarrow import parquet

    path.parent.mkdir(exist_ok=True)
    parquet.write_table(rows, path, compression="none", use_dictionary=False, write_statistics=False)


def write(folder):
    save(table(), folder / "DetailCaps-4870.parquet")


def write_shards(folder):
    """The file as the Hub divides it; its captions are columns of one name."""
    for number, photos in enumerate((PHOTOS_OF[:1], PHOTOS_OF[1:])):
        save(table(photos), folder / "data" / f"test-0000{number}-of-00002.parquet")


PHOTOS = []  # the file holds them
ROWS = {("default", "test"): 9}
VARIANTS = {"shards": (write_shards, ROWS)}
DAMAGE = {
    ("default", "DetailCaps-4870.parquet"): [
        ('"CogVLM": 4.5', '"CogVLM": "a"'),
        ('"CogVLM": 4.5', '"CogVLM": nul'),
        ('"LLaVA_v15": 2}', '"LLaVA_v16": 2}'),
        ("PNG\r\n", "PNX\r\n"),
        ("A car.", "      "),
        ("GT_Caption_GPT4V", "GT_Caption_GPT4X"),
    ]
}
