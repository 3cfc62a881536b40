"""What a program may send to the demos that is no browser: place of the value → value."""

from __future__ import annotations

from ..case import accepted, cases, refused

# gradio itself refuses paths that are neither uploads nor examples: tests/show/test_app.py asks its server
_PHOTO = [
    ("no photo", None, refused("there is no photo")),
    ("empty path", "", refused("there is no photo")),
    ("not an image", lambda folder: _upload(folder, "x.png", b"text"), refused("'x.png' is not an image")),
    ("larger than it may be", lambda folder: _upload(folder, "x.png", None), refused("20 MB at most")),
    ("name with markup", lambda folder: _upload(folder, "<b>x.png", b"text"), refused("&lt;b&gt;x.png")),
]
_TEXT = [
    ("nothing", None, refused("there is no caption")),
    ("number", 7, refused("expected a text, got a int")),
    ("20,001 letters", "r" * 20_001, refused("20,001 characters")),
    ("101 lines", "red\n" * 101, refused("101 lines")),
    ("lone surrogate", "red \ud800", refused("surrogate")),
    ("script", "<script>alert(1)</script>", accepted("&lt;script&gt;")),
    ("100 lines", "red\n" * 100, accepted("2.500")),
]
_LANGUAGE = [
    ("unknown", "klingonish", refused("klingonish")),
    ("markup", "<b>", refused("&lt;b&gt;")),
    ("number", 7, refused("expected a text")),
]
_REFERENCES = [
    ("none", "", refused("there is no reference")),
    ("number", 7, refused("expected a text")),
    ("20,001 letters", "r" * 20_001, refused("characters")),
]


def _upload(folder, name, content):
    path = folder / "uploads" / name
    with open(path, "wb") as file:
        file.write(content) if content is not None else file.truncate(20 * 2**20 + 1)
    return str(path)


def _of(metric: str, place: int, label: str, rows: list) -> list:
    return [
        (f"{metric}, {label}: {name}", (metric, place, value), expected) for name, value, expected in rows
    ]


CASES = cases(
    "app",
    "app",
    [
        *_of("mcs", 0, "photo", _PHOTO),
        *_of("mcs", 1, "captions", _TEXT),
        *_of("mcs", 3, "language", _LANGUAGE),
        *_of("infometic", 2, "language", _LANGUAGE),
        *_of("cider", 2, "references", _REFERENCES),
    ],
)
