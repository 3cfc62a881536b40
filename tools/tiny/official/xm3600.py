"""Crossmodal-3600 in the official file's format."""

import json

from tools.tiny.official import write_lines, write_zip

# photo → language → captions
CAPTIONS = {
    "00aa11bb22cc33dd": {
        "de": ["Ein  Hund am Strand", "Hund läuft im Sand"],
        "bn": ["সৈকতে একটি কুকুর"],
        "quz": ["Allqu qucha patapi", "Huk allqu"],
    },
    "44ee55ff66aa77bb": {"de": ["Zwei Kinder"], "bn": ["দুটি শিশু"], "quz": ["Iskay wawakuna"]},
}


def lines(of_photos):
    """Photo → language → captions, as the file has them."""
    rows = []
    for key, captions in of_photos.items():
        row = {"image/key": key, "image/locale": "de"}
        for language, texts in captions.items():
            tokenized = [" ".join(text.split()) + " ." for text in texts]
            row[language] = {
                "caption": texts,
                "caption/tokenized": tokenized,
                "caption/tokenized/lowercase": [text.lower() for text in tokenized],
            }
        rows.append(json.dumps(row, ensure_ascii=False))
    return "\n".join(rows) + "\n"


def write(folder):
    """The unpacked captions, and the list of photos."""
    (folder / "captions.jsonl").write_text(lines(CAPTIONS), encoding="utf-8")
    write_lines(folder / "image_ids.txt", reversed(CAPTIONS))


def write_repository(folder):
    """The folder web-data of the repository, captions in their archive."""
    write_zip(folder / "web-data" / "captions.zip", {"captions.jsonl": lines(CAPTIONS)})


PHOTOS = [f"images/{key}.jpg" for key in CAPTIONS]
ROWS = {("de", "test"): 2, ("bn", "test"): 2, ("quz", "test"): 2}
VARIANTS = {"repository": (write_repository, {("de", "test"): 2, ("bn", "test"): 2})}
DAMAGE = {
    ("de", "captions.jsonl"): [
        ('"image/key": "44', '"key": "44'),
        ('"de": {', '"xx": {'),
        ('"caption/tokenized":', '"tokens":'),
        ('"Zwei Kinder"', '" "'),
        ('["Zwei Kinder"]', '"Zwei Kinder"'),
        ('["Zwei Kinder"]', "[]"),
        ("44ee55ff66aa77bb", "00aa11bb22cc33dd"),
        ("44ee55ff66aa77bb", "0000000000000000"),
    ],
    ("de", "image_ids.txt"): [("44ee", "9999999999999999\n44ee")],
}
