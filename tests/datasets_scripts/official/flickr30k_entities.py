"""Flickr30k Entities in the official files' format; captions and boxes are invented."""

from __future__ import annotations

import zipfile
from pathlib import Path

_SENTENCES = {
    "111": (
        "[/EN#7/people Two  boys] kick [/EN#8/other a red ball] .\n"
        "[/EN#7/people/bodyparts Kids] on [/EN#9/scene grass] with [/EN#0/notvisual what] .\n"
        "They play .\n"
        "[/EN#7/people Boys] .\n"
        "A park where [/EN#7/people children] play .\n"
    ),
    "222": "[/EN#1/animals A dog] .\n" * 5,
    "333": "[/EN#1/animals A cat] .\n" * 5,
}


def _box(chains: str, corners: tuple[int, int, int, int]) -> str:
    names = "".join(f"<name>{chain}</name>" for chain in chains.split())
    values = "".join(
        f"<{name}>{value}</{name}>"
        for name, value in zip(("xmin", "ymin", "xmax", "ymax"), corners, strict=True)
    )
    return f"  <object>{names}<bndbox>{values}</bndbox></object>\n"


def _without_box(chain: str, scene: int) -> str:
    return f"  <object><name>{chain}</name><scene>{scene}</scene><nobndbox>{1 - scene}</nobndbox></object>\n"


_OBJECTS = {
    "111": _box("7 8", (1, 2, 30, 40))
    + _box("7", (5, 5, 9, 9))
    + _without_box("9", 1)
    + _without_box("8", 0),
    "222": _box("1", (1, 1, 2, 2)),
    "333": _box("1", (1, 1, 64, 48)),
}


def _files() -> dict[str, str]:
    files = {}
    for photo, sentences in _SENTENCES.items():
        files[f"Sentences/{photo}.txt"] = sentences
        files[f"Annotations/{photo}.xml"] = (
            f"<annotation>\n  <filename>{photo}.jpg</filename>\n"
            "  <size><width>64</width><height>48</height><depth>3</depth></size>\n"
            f"{_OBJECTS[photo]}</annotation>\n"
        )
    return files


def _write_lists(folder: Path) -> None:
    for name, photo in (("train", "111"), ("val", "222"), ("test", "333")):
        (folder / f"{name}.txt").write_text(f"{photo}\n")


def write(folder: Path) -> None:
    """Annotations unpacked; lists and captions that have nothing to do with their photo."""
    _write_lists(folder)
    (folder / "UNRELATED_CAPTIONS").write_text("# format: <imageID> <sentence number>\n111 3\n333 5\n")
    for name, content in _files().items():
        path = folder / "annotations" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def write_archive(folder: Path) -> None:
    """Annotations in their archive; without the list of unrelated captions."""
    _write_lists(folder)
    with zipfile.ZipFile(folder / "annotations.zip", "w") as archive:
        for name, content in _files().items():
            archive.writestr(f"annotations/{name}", content)


PHOTOS = [f"flickr30k-images/{photo}.jpg" for photo in _SENTENCES]

ROWS = {("default", "train"): 1, ("default", "validation"): 1, ("default", "test"): 1}


def _phrase(reference: int, first_word: int, text: str, chain: str, *types: str) -> dict:
    return {
        "reference": reference,
        "first_word": first_word,
        "text": text,
        "chain": chain,
        "types": list(types),
    }


FIRST = {
    ("default", "train"): {
        "image_id": "111.jpg",
        "references": [
            "Two boys kick a red ball .",
            "Kids on grass with what .",
            "They play .",
            "Boys .",
            "A park where children play .",
        ],
        "unrelated": [2],
        "phrases": [
            _phrase(0, 0, "Two boys", "7", "people"),
            _phrase(0, 3, "a red ball", "8", "other"),
            _phrase(1, 0, "Kids", "7", "people", "bodyparts"),
            _phrase(1, 2, "grass", "9", "scene"),
            _phrase(1, 4, "what", "0", "notvisual"),
            _phrase(3, 0, "Boys", "7", "people"),
            _phrase(4, 3, "children", "7", "people"),
        ],
        "boxes": [
            {"chain": "7", "xmin": 1, "ymin": 2, "xmax": 30, "ymax": 40},
            {"chain": "8", "xmin": 1, "ymin": 2, "xmax": 30, "ymax": 40},
            {"chain": "7", "xmin": 5, "ymin": 5, "xmax": 9, "ymax": 9},
        ],
        "scenes": ["9"],
        "without_box": ["8"],
        "width": 64,
        "height": 48,
        "language": "en",
    }
}

VARIANTS = [
    (
        "the archive",
        write_archive,
        {("default", "train"): 1, ("default", "validation"): 1, ("default", "test"): 1},
    )
]

_TEXT, _XML = "annotations/Sentences/111.txt", "annotations/Annotations/111.xml"
DAMAGE = [
    ("default", _TEXT, None),
    ("default", _XML, None),
    ("default", _TEXT, (b"a red ball]", b"a red ball")),
    ("default", _TEXT, (b"They play .\n", b"")),
    ("default", _TEXT, (b"They play", b"They pl\xe4y")),
    ("default", _XML, (b"</annotation>", b"")),
    ("default", _XML, (b"<xmin>1<", b"<xmin>a<")),
    ("default", _XML, (b"<xmin>1<", b"<xmin>31<")),
    ("default", _XML, (b"<width>64</width>", b"")),
    ("default", _XML, (b"<name>9</name>", b"")),
    ("default", "train.txt", (b"111", b"111\n111")),
    ("default", "train.txt", (b"111", b"111.jpg")),
    ("default", "UNRELATED_CAPTIONS", (b"111 3", b"111 6")),
]
