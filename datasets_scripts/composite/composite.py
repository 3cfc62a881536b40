"""Composite (Aditya et al. 2018) as a `datasets` loading script."""

import dataclasses
import difflib
import re

import datasets

import capscore  # From: capscore
from capscore.benchmarks.data import caption_files

_CITATION = """\
@article{aditya2018image,
  title = {Image Understanding using Vision and Reasoning through Scene Description Graph},
  author = {Aditya, Somak and Yang, Yezhou and Baral, Chitta and Aloimonos, Yiannis and
    Ferm{\\"u}ller, Cornelia},
  journal = {Computer Vision and Image Understanding}, volume = {173}, pages = {33--45}, year = {2018}}
"""
_HOMEPAGE = "https://imagesdg.wordpress.com/image-to-scene-description-graph/"
# part → its name in the official files, and the files of its photos' own captions
_PARTS = {
    "flickr8k": ("8k", caption_files.FLICKR8K),
    "flickr30k": ("30k", caption_files.FLICKR30K),
    "coco": ("coco", caption_files.COCO),
}
# question → its spelling in the official files
_QUESTIONS = {"correctness": "correctness", "thoroughness": "throughness"}
# authors of the candidates, in the order of the columns Input.text1, Input.text2, …
_SYSTEMS = ("Human", "Karpathy", "SDG", "fourth")


def _official(part, question):
    name = f"{_PARTS[part][0]}_{_QUESTIONS[question]}.csv"
    return capscore.AnnotationFile((name, f"AMT_eval/{name}"), source=f"the AMT evaluations at {_HOMEPAGE}")


def _decoded(part):
    name = f"composite_{_PARTS[part][0]}"
    return capscore.AnnotationFile(
        (f"umic_{name}_decoded.json", f"{name}.json"),
        source="txt_db of https://github.com/hwanheelee1993/UMIC, its word pieces joined to text",
        optional=True,
    )


@dataclasses.dataclass
class CompositeConfig(capscore.BenchmarkConfig):
    """A part of Composite.

    Args:
        question: "correctness" (what published numbers use) or "thoroughness", both rated from 1 to 5.
        candidates: 3, as published, or 4: the fourth caption of Flickr30k and COCO photos as well.
        human_reference: whether the human candidate, one of the photo's own captions, stays among its
            references.
    """

    question: str = "correctness"
    candidates: int = 3
    human_reference: bool = False


class Composite(capscore.CaptionBenchmark):
    """A human caption and two machine captions of each photo, rated for correctness."""

    VERSION = "1.0.0"
    BUILDER_CONFIG_CLASS = CompositeConfig
    DESCRIPTION = (
        "11,985 captions of 3,995 photos of Flickr8k, Flickr30k and COCO, three a photo (one by a person, "
        "two by machines), each rated from 1 to 5 for how correct it is."
    )
    CITATION = _CITATION
    HOMEPAGE = _HOMEPAGE
    LICENSE = "unknown; photos by their authors"
    FILES = {
        **{f"{question}_{part}": _official(part, question) for part in _PARTS for question in _QUESTIONS},
        **{f"decoded_{part}": _decoded(part) for part in _PARTS},
        **caption_files.FLICKR8K,
        **caption_files.FLICKR30K,
        **caption_files.COCO,
    }
    IMAGES = capscore.ImageFolders(
        (
            "images",
            *_PARTS,
            "Flicker8k_Dataset",
            "Flickr8k_Dataset/Flicker8k_Dataset",
            "Flickr8k_Dataset",
            "flickr30k-images",
            "flickr30k_images",
            "val2014",
        ),
        source="Flickr8k and Flickr30k by request from their authors; val2014.zip from https://cocodataset.org",
    )
    BUILDER_CONFIGS = [
        CompositeConfig(name="flickr8k", language="en", description="997 photos of Flickr8k"),
        CompositeConfig(name="flickr30k", language="en", description="991 photos of Flickr30k"),
        CompositeConfig(name="coco", language="en", description="2,007 photos of COCO val2014"),
        CompositeConfig(name="all", language="en", description="all three, as published numbers are of"),
    ]
    DEFAULT_CONFIG_NAME = "all"
    COUNTS = {
        "flickr8k": {"test": {"rows": 2991, "images": 997}},
        "flickr30k": {"test": {"rows": 2973, "images": 991}},
        "coco": {"test": {"rows": 6021, "images": 2007}},
        "all": {"test": {"rows": 11985, "images": 3995}},
    }

    def fields(self):
        return {
            "caption": datasets.Value("string"),
            "references": datasets.Sequence(datasets.Value("string")),
            "rating": datasets.Value("float64"),
            "system": datasets.Value("string"),
            "language": datasets.Value("string"),
        }

    def published(self, split):
        as_published = self.config.question == "correctness" and self.config.candidates == 3
        return super().published(split) if as_published else {}

    def rows(self, split):
        self._check_options()
        for part in _PARTS if self.config.name == "all" else (self.config.name,):
            yield from self._part(part)

    def _part(self, part):
        photos = dict(self._photos(part))
        captions = caption_files.references_of(self, photos, list(_PARTS[part][1]))
        unlike = []
        for photo, rated in photos.items():
            references = captions.get(photo, [])
            if references and not self.config.human_reference:
                own = _own_reference(rated[0][0], references)
                unlike += [photo] if own is None else []
                references = [text for number, text in enumerate(references) if number != own]
            for number, (caption, rating) in enumerate(rated):
                yield (
                    f"{photo}|{number + 1}",
                    {
                        "image_id": photo,
                        "caption": caption,
                        "references": references,
                        "rating": rating,
                        "system": _SYSTEMS[number],
                        "language": "en",
                    },
                )
        if unlike:
            self.warn(
                f"composite ({part}): the human candidate is like none of the references of "
                f"{len(unlike):,} photos, such as {unlike[0]}: all of them are kept"
            )

    def _check_options(self):
        if self.config.question not in _QUESTIONS:
            raise capscore.InputError(
                f"question={self.config.question!r}: expected one of {', '.join(_QUESTIONS)}",
                field="question",
            )
        if self.config.candidates not in (3, 4):
            raise capscore.InputError(
                f"candidates={self.config.candidates!r}: expected 3 or 4", field="candidates"
            )

    def _photos(self, part):
        """(photo, its rated captions, the human one first)."""
        question = self.config.question
        seen = set()
        file, read = self.find(f"{question}_{part}"), self._official_photos
        if file is None and question == "correctness" and self.config.candidates == 3:
            file, read = self.find(f"decoded_{part}"), self._decoded_photos
        if file is None:
            file, read = self.file(f"{question}_{part}"), self._official_photos
        for place, photo, rated in read(file, part):
            if photo in seen:
                raise file.error(f"the photo {photo} appears twice", **place)
            seen.add(photo)
            yield photo, rated

    def _official_photos(self, file, part):
        number = 3 if part == "flickr8k" else self.config.candidates
        texts = [f"Input.text{n + 1}" for n in range(number)]
        answers = [f"Answer.Q{n + 1}Answer" for n in range(number)]
        rows = list(file.csv("Input.image_url", *texts, *answers, delimiter=";"))
        for position, (line, row) in enumerate(rows):
            photo = row["Input.image_url"].strip().rpartition("/")[2]
            if not photo and position >= len(rows) - 2:
                continue  # the official files end with two rows of sums, which have no photo
            if not photo:
                raise file.error("'Input.image_url' is empty, expected the address of a photo", line=line)
            photo = file.photo(photo, "the photo in 'Input.image_url'", line=line)
            yield (
                {"line": line},
                photo,
                [
                    (
                        file.caption(row[text], text, line=line),
                        file.number(row[answer], answer, 1, 5, line=line),
                    )
                    for text, answer in zip(texts, answers, strict=True)
                ],
            )

    def _decoded_photos(self, file, part):
        document = file.items(file.json(), "the document")
        for start in range(0, len(document), 3):
            three = document[start : start + 3]
            for entry, row in enumerate(three, start):
                file.require(row, ["img", "caption", "score"], entry=entry)
            photos = {self._decoded_name(file, part, row["img"], start) for row in three}
            if len(three) < 3 or len(photos) > 1:
                raise file.error(
                    f"expected three captions of one photo in a row, found {len(three)} of "
                    f"{', '.join(sorted(photos))}",
                    entry=start,
                )
            yield (
                {"entry": start},
                photos.pop(),
                [
                    (
                        file.caption(row["caption"], "'caption'", entry=entry),
                        file.number(row["score"], "'score'", 1, 5, entry=entry),
                    )
                    for entry, row in enumerate(three, start)
                ],
            )

    @staticmethod
    def _decoded_name(file, part, name, entry):
        """The official file name of a photo that UMIC calls "flickr30k_000036979.npz"."""
        patterns = {
            "flickr8k": (r"flickr8k_(\w+)\.npz", "{}.jpg"),
            "flickr30k": (r"flickr30k_0*([1-9]\d*)\.npz", "{}.jpg"),
            "coco": (r"coco_val2014_(\d{12})\.npz", "COCO_val2014_{}.jpg"),
        }
        pattern, official = patterns[part]
        match = re.fullmatch(pattern, str(name))
        if match is None:
            raise file.error(f"'img' is {name!r}, expected a name such as {pattern}", entry=entry)
        return official.format(match[1])


def _own_reference(human, references):
    """Number of the reference that equals the human candidate, apart from spelling, or None."""
    plain = [caption_files.letters_and_digits(reference) for reference in references]
    near = difflib.get_close_matches(caption_files.letters_and_digits(human), plain, n=1)
    return plain.index(near[0]) if near else None
