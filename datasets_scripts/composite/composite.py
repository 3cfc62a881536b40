"""Composite (Aditya et al. 2018) as a `datasets` loading script."""

import dataclasses
import difflib
import itertools
import re

import capscore  # From: capscore
from capscore.benchmarks.data import caption_files

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
# part → a photo's name in UMIC's files, and the official one
_DECODED = {
    "flickr8k": (r"flickr8k_(\w+)\.npz", "{}.jpg"),
    "flickr30k": (r"flickr30k_0*([1-9]\d*)\.npz", "{}.jpg"),
    "coco": (r"coco_val2014_(\d{12})\.npz", "COCO_val2014_{}.jpg"),
}


def _official(name):
    return capscore.AnnotationFile((name, f"AMT_eval/{name}"), f"the AMT evaluations at {_HOMEPAGE}")


def _decoded(name):
    return capscore.AnnotationFile(
        (f"umic_{name}_decoded.json", f"{name}.json"),
        "txt_db of https://github.com/hwanheelee1993/UMIC, its word pieces joined to text",
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
    """11,985 captions of 3,995 photos of Flickr8k, Flickr30k and COCO, rated for correctness from 1 to 5.

    Each photo has three, one by a person and two by machines.
    """

    BUILDER_CONFIG_CLASS = CompositeConfig
    HOMEPAGE = _HOMEPAGE
    LICENSE = "unknown; photos by their authors"
    FILES = {
        **{
            f"{question}_{part}": _official(f"{name}_{spelling}.csv")
            for part, (name, _) in _PARTS.items()
            for question, spelling in _QUESTIONS.items()
        },
        **{f"decoded_{part}": _decoded(f"composite_{name}") for part, (name, _) in _PARTS.items()},
        **caption_files.FLICKR8K,
        **caption_files.FLICKR30K,
        **caption_files.COCO,
    }
    IMAGES = capscore.ImageFolders(
        ("images", *_PARTS, *caption_files.FLICKR8K_FOLDERS, *caption_files.FLICKR30K_FOLDERS[1:], "val2014"),
        "Flickr8k and Flickr30k by request from their authors; val2014.zip from https://cocodataset.org",
    )
    CONFIGS = dict.fromkeys((*_PARTS, "all"), "en")
    DEFAULT_CONFIG_NAME = "all"
    COUNTS = {
        name: {"test": {"rows": 3 * photos, "images": photos}}
        for name, photos in (("flickr8k", 997), ("flickr30k", 991), ("coco", 2007), ("all", 3995))
    }
    FIELDS = {"caption": str, "references": [str], "rating": float, "system": str}

    def published(self, split):
        as_published = self.config.question == "correctness" and self.config.candidates == 3
        return super().published(split) if as_published else {}

    def rows(self, split):
        for option, known in (("question", tuple(_QUESTIONS)), ("candidates", (3, 4))):
            if getattr(self.config, option) not in known:
                raise capscore.InputError(f"expected one of {', '.join(map(str, known))}", field=option)
        for part in _PARTS if self.config.name == "all" else (self.config.name,):
            yield from self._part(part)

    def _part(self, part):
        photos = dict(self._photos(part))
        captions = caption_files.references_of(self, photos, _PARTS[part][1])
        unlike = []
        for photo, rated in photos.items():
            references = captions.get(photo, [])
            if references and not self.config.human_reference:
                own = _own_reference(rated[0][0], references)
                unlike += [photo] if own is None else []
                references = [text for number, text in enumerate(references) if number != own]
            for number, (caption, rating) in enumerate(rated):
                values = {
                    "image_id": photo,
                    "caption": caption,
                    "references": references,
                    "rating": rating,
                    "system": _SYSTEMS[number],
                }
                yield f"{photo}|{number + 1}", values
        if unlike:
            self.warn(
                f"composite ({part}): the human candidate is like none of the references of "
                f"{len(unlike):,} photos, such as {unlike[0]}: all of them are kept"
            )

    def _photos(self, part):
        """(photo, its rated captions, the human one first)."""
        question = self.config.question
        file, read = self.find(f"{question}_{part}"), self._official_photos
        if file is None and question == "correctness" and self.config.candidates == 3:
            file, read = self.find(f"decoded_{part}"), self._decoded_photos
        if file is None:
            file, read = self.file(f"{question}_{part}"), self._official_photos
        seen = set()
        for row, photo, rated in read(file, part):
            if photo in seen:
                raise row.error(f"the photo {photo} appears twice")
            seen.add(photo)
            yield photo, rated

    def _official_photos(self, file, part):
        number = 3 if part == "flickr8k" else self.config.candidates
        rows = list(file.csv(delimiter=";"))
        for position, row in enumerate(rows):
            photo = row["Input.image_url"].strip().rpartition("/")[2]
            if not photo and position >= len(rows) - 2:
                continue  # the official files end with two rows of sums, which have no photo
            if not photo or any(character.isspace() for character in photo):
                raise row.wrong("Input.image_url", "the address of a photo")
            rated = [
                (row.caption(f"Input.text{n}"), row.number(f"Answer.Q{n}Answer", 1, 5))
                for n in range(1, number + 1)
            ]
            yield row, photo, rated

    @staticmethod
    def _decoded_photos(file, part):
        """UMIC's files, with three captions of a photo in a row."""
        pattern, official = _DECODED[part]
        rows = file.json_rows()
        while three := list(itertools.islice(rows, 3)):
            matches = [re.fullmatch(pattern, str(row["img"])) for row in three]
            if len(three) < 3 or not all(matches) or len({match[1] for match in matches}) > 1:
                raise three[0].error(f"expected three rows of one photo, such as {pattern}")
            rated = [(row.caption("caption"), row.number("score", 1, 5)) for row in three]
            yield three[0], official.format(matches[0][1]), rated


def _own_reference(human, references):
    """Number of the reference that equals the human candidate, apart from spelling, or None."""
    plain = [caption_files.letters_and_digits(reference) for reference in references]
    near = difflib.get_close_matches(caption_files.letters_and_digits(human), plain, n=1)
    return plain.index(near[0]) if near else None
