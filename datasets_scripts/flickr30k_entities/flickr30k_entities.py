"""Flickr30k Entities (Plummer et al. 2017) as a `datasets` loading script.

A phrase names its chain, the thing that it refers to. The annotations of the photo tie boxes to chains.
"""

import contextlib
import re
from xml.etree import ElementTree

import capscore  # From: capscore
from capscore.benchmarks.data import annotation_files, caption_files

_REPOSITORY = "BryanPlummer/flickr30k_entities"
_HOMEPAGE = f"https://github.com/{_REPOSITORY}"
_RAW = f"https://raw.githubusercontent.com/{_REPOSITORY}/68b3d6f12d1d710f96233f6bd2b6de799d6f4e5b"
# our split → the name that the files have for it
_SPLITS = {"train": "train", "validation": "val", "test": "test"}
_CORNERS = ("xmin", "ymin", "xmax", "ymax")
_PHRASE = re.compile(r"\[/EN#(?P<chain>\d+)/(?P<types>\S+)\s+(?P<text>[^\[\]]*[^\[\]\s])\s*\]")
_MAX_PIXELS = 100_000


def _file(name, sha256):
    return capscore.AnnotationFile((name,), _HOMEPAGE, f"{_RAW}/{name}", sha256)


class Flickr30kEntities(capscore.CaptionBenchmark):
    """158,915 captions of 31,783 photos of Flickr30k, and 276 thousand boxes around things that they name.

    Noun phrases that name the same thing are linked.
    """

    HOMEPAGE = _HOMEPAGE
    LICENSE = "other: non-commercial research and education; photos under the terms of Flickr"
    FILES = {
        "annotations": capscore.AnnotationFile(
            ("annotations.zip",),
            f"{_HOMEPAGE}; its folders Annotations and Sentences may also lie there unpacked",
            url=f"{_RAW}/annotations.zip",
            git_blob="95513f3315f98068d0aeb558649ebe09fbeffe95",
        ),
        "train": _file("train.txt", "7fac836ec29afdbda7396fe5473c4156908d60d248cae75892f5a94f08016516"),
        "val": _file("val.txt", "764e1d2b2bae38bde75f8edda435a7ad20d404e83b77233934844f6a7dbccd9a"),
        "test": _file("test.txt", "58c576ebf3af64f346cc3e2ede7eb66523ab172b45c8b42414daa9f2914047e1"),
        "unrelated": _file(
            "UNRELATED_CAPTIONS", "160c7f08433af2a24f762e936c54b276b082f88a8e8aa3a1621ef30a3758d39d"
        ),
    }
    IMAGES = capscore.ImageFolders(
        (*caption_files.FLICKR30K_FOLDERS, "Images"),
        "Flickr30k, by request from its authors (flickr30k-images.tar.gz)",
    )
    SPLITS = tuple(_SPLITS)
    COUNTS = {
        "default": {
            split: {"rows": n, "images": n, "captions": 5 * n}
            for split, n in (("train", 29783), ("validation", 1000), ("test", 1000))
        }
    }
    FIELDS = {
        "references": [str],
        "unrelated": [int],
        "phrases": [{"reference": int, "first_word": int, "text": str, "chain": str, "types": [str]}],
        "boxes": [{"chain": str, **dict.fromkeys(_CORNERS, int)}],
        "scenes": [str],
        "without_box": [str],
        "width": int,
        "height": int,
    }

    def split_files(self, split):
        return [_SPLITS[split]]

    def rows(self, split):
        unrelated = self._unrelated()
        listed = self.file(_SPLITS[split])
        with _annotation_folder(self._annotations()) as find:
            for line, photo in ((line, text.strip()) for line, text in listed.lines() if text.strip()):
                if not photo.isdigit():
                    raise listed.error(f"{photo!r:.60} is not the number of a photo", line=line)
                references, phrases = _sentences(find(f"Sentences/{photo}.txt"))
                values = {
                    "image_id": f"{photo}.jpg",
                    "references": references,
                    "unrelated": None if unrelated is None else unrelated.get(photo, []),
                    "phrases": phrases,
                    **read_annotation(find(f"Annotations/{photo}.xml")),
                }
                yield photo, values

    def count(self, rows):
        boxes = {(row["image_id"], *map(box.get, _CORNERS)) for row in rows for box in row["boxes"]}
        phrases = sum(len(row["phrases"]) for row in rows)
        return {**super().count(rows), "phrases": phrases, "boxes": len(boxes)}

    def _annotations(self):
        """The folder with Sentences and Annotations, or the archive of it."""
        for place in ("annotations", "annotations/annotations", ".") if self.data_dir else ():
            if (self.data_dir / place / "Sentences").is_dir():
                return annotation_files.AnnotationSource(self.data_dir / place)
        return self.file("annotations")

    def _unrelated(self):
        """Photo → which of its captions, from 0, are unrelated to it; None without the list."""
        file = self.file("unrelated") if self.data_dir is None else self.find("unrelated")
        if file is None:
            return None
        found = {}
        for line, text in file.lines():
            if parts := text.partition("#")[0].split():
                row = file.row(dict(zip(("photo", "caption"), parts, strict=False)), line=line)
                found.setdefault(row.identifier("photo"), []).append(row.integer("caption", 1, 5) - 1)
        return found


@contextlib.contextmanager
def _annotation_folder(source):
    """What gives a file of a folder or zip archive by folder and name, such as "Sentences/36979.txt"."""
    if source.path.is_dir():
        yield lambda name: annotation_files.AnnotationSource(source.path / name)
        return
    with source.zip() as archive:
        # the list of names, long for many files, is read once
        members = {"/".join(entry.filename.split("/")[-2:]): entry for entry in archive.infolist()}

        def find(name):
            if name not in members:
                raise source.error(f"the archive holds no {name}")
            content, member = source.entry(archive, members[name]), members[name].filename
            return annotation_files.AnnotationSource(source.path, member, content=content)

        yield find


def _sentences(source):
    """The five captions of a photo, and their phrases, each with the number of its caption."""
    captions, phrases = [], []
    for number, line in ((number, line) for number, line in source.lines() if line.strip()):
        text, found = _parsed(line)
        if "[/EN#" in text:
            expected = "has a phrase that is not [/EN#<chain>/<type> words]"
            raise source.error(f"{expected}: {line!r:.80}", line=number)
        phrases += ({"reference": len(captions), **phrase} for phrase in found)
        captions.append(text)
    if len(captions) != 5:
        raise source.error(f"has {len(captions)} captions, expected 5")
    return captions, phrases


def _parsed(line):
    """A caption, with single blanks between its tokens, and its phrases, which are marked in the line.

    "first_word" is the number of a phrase's first word in the caption, from 0; "chain" is the same for all
    phrases of a photo that name one thing, and "0" for what cannot be seen.
    """
    words, phrases, end = [], [], 0
    for match in _PHRASE.finditer(line):
        words += line[end : match.start()].split()
        phrase, types = match["text"].split(), match["types"].split("/")
        about = {"text": " ".join(phrase), "chain": match["chain"], "types": types}
        phrases.append({"first_word": len(words), **about})
        words += phrase
        end = match.end()
    return " ".join(words + line[end:].split()), phrases


def read_annotation(source):
    """Size of a photo; boxes, in pixels from 1, the last included; chains of the whole photo, or boxless."""
    try:
        with source.open() as stream:
            root = ElementTree.parse(stream).getroot()
    except ElementTree.ParseError as error:
        raise source.error(f"is not XML, or cut short: {error}", line=error.position[0]) from error

    def number(element, path, low, high, entry=None):
        return source.row({f"<{path}>": element.findtext(path)}, entry=entry).integer(f"<{path}>", low, high)

    width, height = (number(root, f"size/{side}", 1, _MAX_PIXELS) for side in ("width", "height"))
    found = {"boxes": [], "scenes": [], "without_box": [], "width": width, "height": height}
    for index, element in enumerate(root.findall("object")):
        entry = f"object[{index}]"
        chains = [(name.text or "").strip() for name in element.findall("name")]
        if not chains or not all(chains):
            raise source.error("has no <name>, the chain of mentions that it belongs to", entry=entry)
        if element.find("bndbox") is None:
            for column, tag in (("scenes", "scene"), ("without_box", "nobndbox")):
                if number(element, tag, 0, 1, entry):
                    found[column] += chains
            continue
        corners = [number(element, f"bndbox/{name}", -_MAX_PIXELS, _MAX_PIXELS, entry) for name in _CORNERS]
        xmin, ymin, xmax, ymax = corners
        if not (0 <= xmin <= xmax and 0 <= ymin <= ymax and xmin <= width and ymin <= height):
            box = f"{', '.join(map(str, corners))} ({', '.join(_CORNERS)})"
            problem = f"the box {box} does not fit a photo of {width} × {height} pixels"
            raise source.error(problem, entry=entry)
        box = dict(zip(_CORNERS, corners, strict=True))
        found["boxes"] += ({"chain": chain, **box} for chain in chains)
    return found
