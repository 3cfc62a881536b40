"""Flickr30k Entities in the official files' format."""

from tools.tiny.official import write_lines, write_text, write_zip

SENTENCES = {
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


def _box(chains, *corners):
    names = "".join(f"<name>{chain}</name>" for chain in chains.split())
    edges = zip(("xmin", "ymin", "xmax", "ymax"), corners, strict=True)
    values = "".join(f"<{name}>{value}</{name}>" for name, value in edges)
    return f"  <object>{names}<bndbox>{values}</bndbox></object>\n"


def _without_box(chain, scene):
    return f"  <object><name>{chain}</name><scene>{scene}</scene><nobndbox>{1 - scene}</nobndbox></object>\n"


OBJECTS = {
    "111": _box("7 8", 1, 2, 30, 40) + _box("7", 5, 5, 9, 9) + _without_box("9", 1) + _without_box("8", 0),
    "222": _box("1", 1, 1, 2, 2),
    "333": _box("1", 1, 1, 64, 48),
}


def _files():
    files = {}
    for photo, sentences in SENTENCES.items():
        files[f"annotations/Sentences/{photo}.txt"] = sentences
        files[f"annotations/Annotations/{photo}.xml"] = (
            f"<annotation>\n  <filename>{photo}.jpg</filename>\n"
            "  <size><width>64</width><height>48</height><depth>3</depth></size>\n"
            f"{OBJECTS[photo]}</annotation>\n"
        )
    return files


def _write_lists(folder):
    for name, photo in (("train", "111"), ("val", "222"), ("test", "333")):
        write_lines(folder / f"{name}.txt", [photo])


def write(folder):
    """Annotations unpacked; lists and captions that have nothing to do with their photo."""
    _write_lists(folder)
    unrelated = ["# format: <imageID> <sentence number>", "111 3", "333 5"]
    write_lines(folder / "UNRELATED_CAPTIONS", unrelated)
    for name, content in _files().items():
        write_text(folder / name, content)


def write_archive(folder):
    """Annotations in their archive; without the list of unrelated captions."""
    _write_lists(folder)
    write_zip(folder / "annotations.zip", _files())


PHOTOS = [f"flickr30k-images/{photo}.jpg" for photo in SENTENCES]
ROWS = {("default", "train"): 1, ("default", "validation"): 1, ("default", "test"): 1}
VARIANTS = {"archive": (write_archive, ROWS)}
DAMAGE = {
    ("default", "annotations/Sentences/111.txt"): [("a red ball]", "a red ball"), ("They play .\n", "")],
    ("default", "annotations/Annotations/111.xml"): [
        ("<xmin>1<", "<xmin>a<"),
        ("<xmin>1<", "<xmin>31<"),
        ("<ymin>2<", "<ymin>41<"),
        ("<xmin>1<", "<xmin>-1<"),
        ("<ymin>2</ymin><xmax>30</xmax><ymax>40<", "<ymin>49</ymin><xmax>30</xmax><ymax>49<"),
        ("<width>64</width>", ""),
        ("<width>64</width>", "<width>0</width>"),
        ("<name>9</name>", ""),
    ],
    ("default", "train.txt"): [("111", "111\n111"), ("111", "111.jpg")],
    ("default", "UNRELATED_CAPTIONS"): [("111 3", "111 6")],
}
