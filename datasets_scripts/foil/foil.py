"""FOIL-it (Shekhar et al. 2017) as a `datasets` loading script."""

import datasets

import capscore  # From: capscore
from capscore.benchmarks.data import caption_files

_CITATION = """\
@inproceedings{shekhar-etal-2017-foil,
  title = {{FOIL} it! Find One mismatch between Image and Language caption},
  author = {Shekhar, Ravi and Pezzelle, Sandro and Klimovich, Yauhen and Herbelot, Aur{\\'e}lie and
    Nabi, Moin and Sangineto, Enver and Bernardi, Raffaella},
  booktitle = {Proceedings of ACL (Volume 1: Long Papers)}, pages = {255--265}, year = {2017},
  url = {https://aclanthology.org/P17-1024}}
"""
_HOMEPAGE = "https://foilunitn.github.io/"


def _file(split):
    name = f"foilv1.0_{split}_2017.json"
    return capscore.AnnotationFile(
        (name, f"annotations/{name}", f"foil/{name}"), source=f"{_HOMEPAGE} ({name})"
    )


class Foil(capscore.CaptionBenchmark):
    """Captions of COCO's photos, each with a foil in which one noun is wrong."""

    VERSION = "1.0.0"
    DESCRIPTION = (
        "Captions of photos of COCO, each with a foil: the same caption with one noun exchanged for another "
        "of the same kind that is not in the photo, and which noun it is."
    )
    CITATION = _CITATION
    HOMEPAGE = _HOMEPAGE
    LICENSE = "unknown; captions of COCO, cc-by-4.0; photos by their authors"
    FILES = {"train": _file("train"), "test": _file("test"), **caption_files.COCO}
    IMAGES = capscore.ImageFolders(
        ("images", "val2014", "train2014"),
        source="val2014.zip (test) and train2014.zip (train) from https://cocodataset.org",
    )
    BUILDER_CONFIGS = [
        capscore.BenchmarkConfig(name="default", language="en", description="captions and their foils")
    ]
    SPLITS = ("train", "test")

    def splits(self):
        """Those whose file is there; where none is, the test split, whose file is then said to be missing."""
        return tuple(split for split in self.SPLITS if self.find(split)) or ("test",)

    def fields(self):
        return {
            "caption": datasets.Value("string"),
            "foil": datasets.Value("string"),
            "references": datasets.Sequence(datasets.Value("string")),
            "word": datasets.Value("string"),
            "foil_word": datasets.Value("string"),
            "id": datasets.Value("int64"),
            "language": datasets.Value("string"),
        }

    def rows(self, split):
        file = self.file(split)
        photos, captions, foils = self._read(file)
        used = {photos[photo] for photo, _ in captions.values()}
        references = caption_files.references_of(self, used, list(caption_files.COCO))
        number = {}
        for entry, (identity, foil, word, foil_word) in foils:
            if identity not in captions:
                raise file.error(f"'id' {identity} has a foil, and no caption without one", entry=entry)
            image, caption = captions[identity]
            if caption == foil:
                raise file.error("the foil is the same as the caption", entry=entry)
            number[identity] = number.get(identity, 0) + 1
            own = caption_files.letters_and_digits(caption)
            yield (
                str(identity) if number[identity] == 1 else f"{identity}|{number[identity]}",
                {
                    "image_id": photos[image],
                    "caption": caption,
                    "foil": foil,
                    "references": [
                        text
                        for text in references.get(photos[image], [])
                        if caption_files.letters_and_digits(text) != own
                    ],
                    "word": word,
                    "foil_word": foil_word,
                    "id": identity,
                    "language": "en",
                },
            )

    @staticmethod
    def _read(file):
        """Image id → photo; caption id → (image id, caption); (entry, (id, foil, word, foil word))."""
        document = file.json()
        file.require(document, ["images", "annotations"])
        photos, captions, foils = {}, {}, []
        for number, image in enumerate(file.items(document["images"], "'images'")):
            entry = f"images[{number}]"
            file.require(image, ["id", "file_name"], entry=entry)
            identity = file.integer(image["id"], "'id'", 0, 2**53, entry=entry)
            photos[identity] = file.photo(image["file_name"], "'file_name'", entry=entry)
        for number, row in enumerate(file.items(document["annotations"], "'annotations'")):
            entry = f"annotations[{number}]"
            file.require(row, ["id", "image_id", "caption", "foil", "target_word", "foil_word"], entry=entry)
            identity = file.integer(row["id"], "'id'", 0, 2**53, entry=entry)
            image = file.integer(row["image_id"], "'image_id'", 0, 2**53, entry=entry)
            if image not in photos:
                raise file.error(f"'image_id' {image} is none of its photos", entry=entry)
            caption = file.caption(row["caption"], "'caption'", entry=entry)
            if file.flag(row["foil"], "'foil'", entry=entry):
                words = (
                    file.caption(row[name], f"'{name}'", entry=entry) for name in ("target_word", "foil_word")
                )
                foils.append((entry, (identity, caption, *words)))
            elif captions.setdefault(identity, (image, caption)) != (image, caption):
                raise file.error(f"the id {identity} has two captions without a foil", entry=entry)
        return photos, captions, foils
