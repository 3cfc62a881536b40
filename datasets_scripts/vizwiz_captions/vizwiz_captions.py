"""VizWiz-Captions (Gurari et al. 2020) as a `datasets` loading script."""

import capscore  # From: capscore
from capscore.benchmarks.data import caption_files

# our split → the name that the files have for it
_SPLITS = {"train": "train", "validation": "val"}


def _file(name):
    places = (f"{name}.json", f"annotations/{name}.json", f"annotations.zip::{name}.json")
    return capscore.AnnotationFile(
        places, "https://vizwiz.cs.colorado.edu/VizWiz_final/caption/annotations.zip"
    )


class VizWizCaptions(capscore.CaptionBenchmark):
    """155,905 captions of 31,181 photos taken by blind people, five per photo.

    Some captions only say that the photo is too bad, or were rejected; the configuration "valid" has neither
    kind.
    """

    HOMEPAGE = "https://vizwiz.org/tasks-and-datasets/image-captioning/"
    LICENSE = "cc-by-4.0"
    FILES = {name: _file(name) for name in _SPLITS.values()}
    IMAGES = capscore.ImageFolders(
        ("images", "."),
        "train.zip and val.zip from https://vizwiz.org/tasks-and-datasets/image-captioning/",
    )
    CONFIGS = {"valid": "en", "all": "en"}
    DEFAULT_CONFIG_NAME = "valid"
    SPLITS = tuple(_SPLITS)
    COUNTS = {
        "all": {
            "train": {"rows": 23431, "images": 23431, "captions": 117155},
            "validation": {"rows": 7750, "images": 7750, "captions": 38750},
        }
    }

    def split_files(self, split):
        return [_SPLITS[split]]

    def fields(self):
        flags = {"precanned": [bool], "rejected": [bool]} if self.config.name == "all" else {}
        return {"references": [str], "text_detected": bool, "id": int, **flags}

    def rows(self, split):
        for image, captions in caption_files.photos_with_captions(self.file(_SPLITS[split])):
            photo = image.identifier("file_name")
            if not captions:
                raise image.error("has no captions")
            flags = {
                name: [caption.flag(f"is_{name}") for caption in captions]
                for name in ("precanned", "rejected")
            }
            references = [caption.caption("caption") for caption in captions]
            if self.config.name == "valid":
                useless = map(any, zip(*flags.values(), strict=True))
                references = [text for text, why in zip(references, useless, strict=True) if not why]
                flags = {}
                if not references:
                    continue  # photos that nobody could describe: published work leaves them out too
            values = {
                "image": [f"{_SPLITS[split]}/{photo}", photo],
                "image_id": photo,
                "references": references,
                "text_detected": image.flag("text_detected"),
                "id": image["id"],
                **flags,
            }
            yield photo, values
