"""FOIL-it (Shekhar et al. 2017) as a `datasets` loading script."""

import capscore  # From: capscore
from capscore.benchmarks.data import caption_files

_HOMEPAGE = "https://foilunitn.github.io/"


def _file(name):
    return capscore.AnnotationFile((name, f"annotations/{name}", f"foil/{name}"), f"{_HOMEPAGE} ({name})")


class Foil(capscore.CaptionBenchmark):
    """Captions of photos of COCO, each with a foil: the same caption with one noun replaced by a wrong one.

    The wrong noun is of the same kind, and names something that is not in the photo.
    """

    HOMEPAGE = _HOMEPAGE
    LICENSE = "unknown; captions of COCO, cc-by-4.0; photos by their authors"
    FILES = {
        "train": _file("foilv1.0_train_2017.json"),
        "test": _file("foilv1.0_test_2017.json"),
        **caption_files.COCO,
    }
    IMAGES = capscore.ImageFolders(
        ("images", "val2014", "train2014"),
        "val2014.zip (test) and train2014.zip (train) from https://cocodataset.org",
    )
    SPLITS = ("train", "test")
    FIELDS = {"caption": str, "foil": str, "references": [str], "word": str, "foil_word": str, "id": int}

    def split_files(self, split):
        return [split]

    def rows(self, split):
        photos, captions, foils = _read(self.file(split).json())
        used = {photos[photo] for photo, _ in captions.values()}
        references = caption_files.references_of(self, used, caption_files.COCO)
        number = {}
        for row in foils:
            identity, foil = row["id"], row.caption("caption")
            if identity not in captions:
                raise row.error(f"the id {identity} has a foil, and no caption without one")
            image, caption = captions[identity]
            if caption == foil:
                raise row.error("the foil is the same as the caption")
            number[identity] = number.get(identity, 0) + 1
            values = {
                "image_id": photos[image],
                "caption": caption,
                "foil": foil,
                "references": caption_files.others_than(caption, references.get(photos[image], [])),
                "word": row.caption("target_word"),
                "foil_word": row.caption("foil_word"),
                "id": identity,
            }
            yield str(identity) if number[identity] == 1 else f"{identity}|{number[identity]}", values


def _read(document):
    """Image id → photo; caption id → (image id, caption); rows of foils."""
    photos = {image.integer("id"): image.photo("file_name") for image in document.rows("images")}
    captions, foils = {}, []
    for row in document.rows("annotations"):
        own = (row.integer("image_id"), row.caption("caption"))
        if own[0] not in photos:
            raise row.wrong("image_id", "the id of one of its photos")
        if row.flag("foil"):
            row.integer("id")
            foils.append(row)
        elif captions.setdefault(row.integer("id"), own) != own:
            raise row.error(f"the id {row['id']} has two captions without a foil")
    return photos, captions, foils
