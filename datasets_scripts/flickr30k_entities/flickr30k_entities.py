"""Flickr30k Entities (Plummer et al. 2017) as a `datasets` loading script."""

import datasets

import capscore  # From: capscore
from capscore.benchmarks.data.annotation_files import AnnotationSource
from capscore.benchmarks.data.flickr30k_entities import (
    CORNERS,
    annotation_folder,
    box_error,
    listed_photos,
    read_annotation,
    read_sentences,
    unrelated_captions,
)

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
        # a folder may hold some of the lists; if it holds none, all are reported as missing
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
            "boxes": [{"chain": text, **dict.fromkeys(CORNERS, number)}],
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
            for _, photo in listed_photos(photos):
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
                {(row["image_id"], *(box[name] for name in CORNERS)) for row in rows for box in row["boxes"]}
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
        """Photo → which of its captions, from 0, are unrelated to it; None without the list."""
        file = self.file("unrelated") if self.data_dir is None else self.find("unrelated")
        return None if file is None else unrelated_captions(file)


def _captions(file):
    """The five captions of a photo, and the phrases in them."""
    captions = read_sentences(file)
    if len(captions) != 5:
        raise file.error(f"has {len(captions)} captions, expected 5")
    phrases = [
        {
            "reference": number,
            "first_word": phrase.first_word,
            "text": phrase.text,
            "chain": phrase.chain,
            "types": list(phrase.types),
        }
        for number, caption in enumerate(captions)
        for phrase in caption.phrases
    ]
    return [caption.text for caption in captions], phrases


def _regions(file):
    """Boxes, and which chains of mentions have none, of a photo; pixels as in the file, from 1."""
    annotation = read_annotation(file)
    width, height = annotation.width, annotation.height
    regions = {"boxes": [], "scenes": [], "without_box": [], "width": width, "height": height}
    for thing in annotation.objects:
        if thing.corners is None:
            regions["scenes"] += thing.chains if thing.is_scene else ()
            regions["without_box"] += thing.chains if thing.has_no_box else ()
            continue
        xmin, ymin, xmax, ymax = thing.corners
        if not (0 <= xmin <= xmax and 0 <= ymin <= ymax and xmin <= width and ymin <= height):
            raise box_error(file, thing, annotation)
        regions["boxes"] += [
            {"chain": chain, **dict(zip(CORNERS, thing.corners, strict=True))} for chain in thing.chains
        ]
    return regions
