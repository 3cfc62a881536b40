"""Flickr30k Entities (Plummer et al. 2017) as a `datasets` loading script."""

import re
from collections import defaultdict
from xml.etree import ElementTree

import datasets

import capscore  # From: capscore
from capscore.benchmark.data.annotation_files import AnnotationSource
from capscore.benchmark.data.annotation_folder import annotation_folder

_CITATION = """\
@article{flickrentitiesijcv,
  title = {Flickr30K Entities: Collecting Region-to-Phrase Correspondences for Richer Image-to-Sentence
    Models},
  author = {Plummer, Bryan A. and Wang, Liwei and Cervantes, Christopher M. and Caicedo, Juan C. and
    Hockenmaier, Julia and Lazebnik, Svetlana},
  journal = {IJCV}, volume = {123}, number = {1}, pages = {74--93}, year = {2017}}
@article{young-etal-2014-image,
  title = {From image descriptions to visual denotations: New similarity metrics for semantic inference over
    event descriptions},
  author = {Young, Peter and Lai, Alice and Hodosh, Micah and Hockenmaier, Julia},
  journal = {TACL}, volume = {2}, pages = {67--78}, year = {2014}}
"""
_HOMEPAGE = "https://github.com/BryanPlummer/flickr30k_entities"
_RAW = (
    "https://raw.githubusercontent.com/BryanPlummer/flickr30k_entities/"
    "68b3d6f12d1d710f96233f6bd2b6de799d6f4e5b"
)
# our split → the name that the files have for it
_SPLITS = {"train": "train", "validation": "val", "test": "test"}
_PHRASE = re.compile(r"\[/EN#(?P<chain>\d+)/(?P<types>\S+)\s+(?P<text>[^\[\]]*[^\[\]\s])\s*\]")
_CORNERS = ("xmin", "ymin", "xmax", "ymax")


def _file(name, sha256, optional=False):
    return capscore.AnnotationFile(
        (name,),
        url=f"{_RAW}/{name}",
        sha256=sha256,
        published=(sha256,),
        source=_HOMEPAGE,
        optional=optional,
    )


class Flickr30kEntities(capscore.CaptionBenchmark):
    """The captions of Flickr30k, with their noun phrases and the boxes in the photo that these name."""

    VERSION = "1.0.0"
    DESCRIPTION = (
        "158,915 captions of 31,783 photos of Flickr30k, their noun phrases tied together where they name "
        "the same thing, and 276 thousand boxes around these things."
    )
    CITATION = _CITATION
    HOMEPAGE = _HOMEPAGE
    LICENSE = "other: non-commercial research and education; photos under the terms of Flickr"
    FILES = {
        "annotations": capscore.AnnotationFile(
            ("annotations.zip",),
            url=f"{_RAW}/annotations.zip",
            git_blob="95513f3315f98068d0aeb558649ebe09fbeffe95",
            source=f"{_HOMEPAGE}; its folders Annotations and Sentences may also lie there unpacked",
        ),
        "train": _file("train.txt", "7fac836ec29afdbda7396fe5473c4156908d60d248cae75892f5a94f08016516"),
        "val": _file("val.txt", "764e1d2b2bae38bde75f8edda435a7ad20d404e83b77233934844f6a7dbccd9a"),
        "test": _file("test.txt", "58c576ebf3af64f346cc3e2ede7eb66523ab172b45c8b42414daa9f2914047e1"),
        "unrelated": _file(
            "UNRELATED_CAPTIONS",
            "160c7f08433af2a24f762e936c54b276b082f88a8e8aa3a1621ef30a3758d39d",
            optional=True,
        ),
    }
    IMAGES = capscore.ImageFolders(
        ("images", "flickr30k-images", "flickr30k_images", "flickr30k/images", "Images"),
        source="Flickr30k, by request from its authors (flickr30k-images.tar.gz)",
    )
    BUILDER_CONFIGS = [
        capscore.BenchmarkConfig(name="default", language="en", description="captions, phrases and boxes")
    ]
    COUNTS = {
        "default": {
            split: {"rows": photos, "images": photos, "captions": 5 * photos}
            for split, photos in (("train", 29783), ("validation", 1000), ("test", 1000))
        }
    }

    def splits(self):
        # a folder may hold lists of some of them; where none is there, all are wanted, and missed by name
        return tuple(split for split, name in _SPLITS.items() if self.find(name)) or tuple(_SPLITS)

    def fields(self):
        text, number = datasets.Value("string"), datasets.Value("int64")
        return {
            "references": datasets.Sequence(text),
            "unrelated": datasets.Sequence(number),
            "phrases": [
                {
                    "reference": number,
                    "first_word": number,
                    "text": text,
                    "chain": text,
                    "types": datasets.Sequence(text),
                }
            ],
            "boxes": [{"chain": text, **dict.fromkeys(_CORNERS, number)}],
            "scenes": datasets.Sequence(text),
            "without_box": datasets.Sequence(text),
            "width": number,
            "height": number,
            "language": text,
        }

    def rows(self, split):
        unrelated = self._unrelated()
        photos = self.file(_SPLITS[split])
        with annotation_folder(self._annotations()) as find:
            for line, text in photos.lines():
                if not text.strip():
                    continue
                photo = text.strip()
                if not photo.isdigit():
                    raise photos.error(f"{photo!r:.60} is no photo's number", line=line)
                references, phrases = _captions(find(f"Sentences/{photo}.txt"))
                yield (
                    photo,
                    {
                        "image_id": f"{photo}.jpg",
                        "references": references,
                        "unrelated": None if unrelated is None else unrelated[photo],
                        "phrases": phrases,
                        **_regions(find(f"Annotations/{photo}.xml")),
                        "language": "en",
                    },
                )

    def count(self, rows):
        return {
            **super().count(rows),
            "captions": sum(len(row["references"]) for row in rows),
            "phrases": sum(len(row["phrases"]) for row in rows),
            "boxes": len(
                {(row["image_id"], *(box[name] for name in _CORNERS)) for row in rows for box in row["boxes"]}
            ),
        }

    def _annotations(self):
        """The folder with Sentences and Annotations, or the archive of it."""
        if self.data_dir is not None:
            for place in ("annotations", "annotations/annotations", "."):
                if (self.data_dir / place / "Sentences").is_dir():
                    return AnnotationSource(self.data_dir / place)
        return self.file("annotations")

    def _unrelated(self):
        """Photo → which of its captions, from 0, have nothing to do with it; None without the list."""
        file = self.file("unrelated") if self.data_dir is None else self.find("unrelated")
        if file is None:
            return None
        found = defaultdict(list)
        for line, text in file.lines():
            if not text.strip() or text.startswith("#"):
                continue
            photo, _, number = text.strip().partition(" ")
            found[photo].append(file.integer(number, "the number of the caption", 1, 5, line=line) - 1)
        return found


def _captions(file):
    """The five captions of a photo, and the phrases in them."""
    references, phrases = [], []
    for line, text in file.lines():
        if not text.strip():
            continue
        words, end = [], 0
        for match in _PHRASE.finditer(text):
            words += text[end : match.start()].split()
            phrase = match["text"].split()
            phrases.append(
                {
                    "reference": len(references),
                    "first_word": len(words),
                    "text": " ".join(phrase),
                    "chain": match["chain"],
                    "types": match["types"].split("/"),
                }
            )
            words += phrase
            end = match.end()
        caption = " ".join(words + text[end:].split())
        if "[/EN#" in caption:
            raise file.error(f"has a phrase that is not [/EN#<chain>/<type> words]: {text!r:.80}", line=line)
        references.append(file.caption(caption, "the caption", line=line))
    if len(references) != 5:
        raise file.error(f"has {len(references)} captions, expected 5")
    return references, phrases


def _regions(file):
    """Boxes, and which chains of mentions have none, of a photo; pixels as in the file, from 1."""
    try:
        with file.open() as stream:
            root = ElementTree.parse(stream).getroot()
    except ElementTree.ParseError as error:
        raise file.error(f"is not XML, or cut short: {error}", line=error.position[0]) from error
    width, height = (_number(file, root, f"size/{name}", 1) for name in ("width", "height"))
    regions = {"boxes": [], "scenes": [], "without_box": [], "width": width, "height": height}
    for number, thing in enumerate(root.findall("object")):
        entry = f"object[{number}]"
        chains = [(name.text or "").strip() for name in thing.findall("name")]
        if not chains or not all(chains):
            raise file.error("has no <name>, the chain of mentions that it is of", entry=entry)
        if thing.find("bndbox") is None:
            scene, none = (_number(file, thing, name, 0, entry) for name in ("scene", "nobndbox"))
            regions["scenes"] += chains if scene else []
            regions["without_box"] += chains if none else []
            continue
        xmin, ymin, xmax, ymax = (_number(file, thing, f"bndbox/{name}", 0, entry) for name in _CORNERS)
        if not (xmin <= xmax and ymin <= ymax and xmin <= width and ymin <= height):
            raise file.error(
                f"the box {xmin}, {ymin}, {xmax}, {ymax} (xmin, ymin, xmax, ymax) is none of a photo of "
                f"{width} × {height} pixels",
                entry=entry,
            )
        regions["boxes"] += [
            {"chain": chain, "xmin": xmin, "ymin": ymin, "xmax": xmax, "ymax": ymax} for chain in chains
        ]
    return regions


def _number(file, element, path, low, entry=None):
    """The whole number in a tag."""
    return file.integer(element.findtext(path), f"<{path}>", low, 100_000, entry=entry)
