"""What a program may send to the demos that is no browser: place of the value → value."""

from __future__ import annotations

import math

from ..case import accepted, cases, refused

_PHOTO = [
    ("no photo", None, refused("there is no photo")),
    ("empty path", "", refused("there is no photo")),
    ("a file of this machine", "/etc/passwd", refused("was not uploaded")),
    ("a script", __file__, refused("was not uploaded")),
    ("a device", "/dev/zero", refused("was not uploaded")),
    ("a folder", "/tmp", refused("was not uploaded")),
    (
        "a path that leads out of the uploads",
        lambda folder: f"{folder}/uploads/../outside.png",
        refused("was not uploaded"),
    ),
    ("a link that leads out of the uploads", lambda folder: _link(folder), refused("was not uploaded")),
    ("the folder of uploads", lambda folder: f"{folder}/uploads", refused("was not uploaded")),
    ("a file that is not there", lambda folder: f"{folder}/uploads/none.png", refused("was not uploaded")),
    ("a web address", "http://127.0.0.1:1/red.png", refused("was not uploaded")),
    ("an address of a file", "file:///etc/passwd", refused("was not uploaded")),
    ("a data URI", "data:image/png;base64,AAAA", refused("was not uploaded")),
    ("nul", "red\0.png", refused("was not uploaded")),
    ("100,000 letters", "r" * 100_000, refused("was not uploaded")),
    ("lone surrogate", "\ud800.png", refused("was not uploaded")),
    ("number", 7, refused("was not uploaded")),
    ("dict", {"path": "/etc/passwd"}, refused("was not uploaded")),
    ("list", ["/etc/passwd"], refused("was not uploaded")),
    ("not an image", lambda folder: _upload(folder, "x.png", b"text"), refused("'x.png' is not an image")),
    ("larger than it may be", lambda folder: _upload(folder, "x.png", None), refused("20 MB at most")),
    ("name with markup", lambda folder: _upload(folder, "<b>x.png", b"text"), refused("&lt;b&gt;x.png")),
]
_TEXT = [
    ("nothing", None, refused("there is no caption")),
    ("blank", " \n ", refused("there is no caption")),
    ("number", 7, refused("expected a text, got a int")),
    ("list", ["red"], refused("expected a text, got a list")),
    ("20,001 letters", "r" * 20_001, refused("20,001 characters")),
    ("101 lines", "red\n" * 101, refused("101 lines")),
    ("lone surrogate", "red \ud800", refused("surrogate")),
    ("script", "<script>alert(1)</script>", accepted("&lt;script&gt;")),
    ("closing tags", "</div></iframe><b onclick=x>red", accepted("&lt;/iframe&gt;")),
    ("100 lines", "red\n" * 100, accepted("2.500")),
]
_LANGUAGE = [
    ("unknown", "klingonish", refused("klingonish")),
    ("markup", "<b>", refused("&lt;b&gt;")),
    ("path", "../../etc", refused("language code")),
    ("number", 7, refused("expected a text")),
    ("20,001 letters", "e" * 20_001, refused("characters")),
]
_MISSED = [
    ("not a number", math.nan, refused("missed regions=nan")),
    ("infinite", math.inf, refused("missed regions=inf")),
    ("a billion", 1e9, refused("missed regions=1000000000.0")),
    ("negative", -1, refused("missed regions=-1")),
    ("text", "3", refused("missed regions='3'")),
]
_REFERENCES = [
    ("none", "", refused("there is no reference")),
    ("number", 7, refused("expected a text")),
    ("20,001 letters", "r" * 20_001, refused("characters")),
    ("101 lines for a photo", "a\n" * 101 + "\nb", refused("101 lines")),
]


def _upload(folder, name, content):
    path = folder / "uploads" / name
    with open(path, "wb") as file:
        file.write(content) if content is not None else file.truncate(20 * 2**20 + 1)
    return str(path)


def _link(folder):
    path = folder / "uploads" / "link.png"
    path.symlink_to(folder / "outside.png")
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
        *_of("infometic", 3, "missed", _MISSED),
        *_of("cider", 2, "references", _REFERENCES),
    ],
)
