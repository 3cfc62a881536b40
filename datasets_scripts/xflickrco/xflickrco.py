"""xFlickr&CO (Bugliarello et al. 2022) as a `datasets` loading script."""

import re

import capscore  # From: capscore
from capscore.benchmarks.data import annotation_files, caption_files

_RAW = (
    "https://raw.githubusercontent.com/e-bug/iglue/43cbac91513388d40b2c6d93925f00ca9fc08a98/"
    "datasets/xFlickrCO/annotations"
)
# language → split, as its file is named → SHA-256
_FILES = annotation_files.checksums("xflickrco")
# The published tests lack the caption of one photo in German and of one in Indonesian.
_WITHOUT_CAPTION = {"de": "COCO_val2014_000000122239.jpg", "id": "6312211170.jpg"}


def _file(language, split, sha256):
    folders = ("", "annotations/", "xFlickrCO/annotations/", "datasets/xFlickrCO/annotations/")
    source = "https://github.com/e-bug/iglue, folder datasets/xFlickrCO/annotations"
    return capscore.AnnotationFile.in_folders(f"{language}/{split}.jsonl", folders, source, _RAW, sha256)


def _counts(language, split):
    """Published numbers: a split "train_200x5" has 200 photos with five captions each."""
    if split == "test":
        return {"rows": 2000, "images": 2000, "captions": 2000 - (language in _WITHOUT_CAPTION)}
    photos, captions = map(int, re.fullmatch(r"train_(\d+)(?:x(\d+))?", split).groups(default="1"))
    return {"rows": photos, "images": photos, "captions": photos * captions}


class XFlickrCo(capscore.CaptionBenchmark):
    """2,000 photos, a thousand each of Flickr30k and COCO, with one caption each in eight languages.

    In seven of them, a few photos of Flickr30k are for few-shot training.
    """

    HOMEPAGE = "https://iglue-benchmark.github.io/"
    LICENSE = "mit (the repository); photos of Flickr30k and COCO by their authors"
    FILES = {
        f"{language}.{split}": _file(language, split, sha256)
        for language, splits in _FILES.items()
        for split, sha256 in splits.items()
    }
    IMAGES = capscore.ImageFolders(
        (*caption_files.FLICKR30K_FOLDERS, "val2014"),
        "Flickr30k, by request from its authors (flickr30k-images.tar.gz), and val2014.zip from "
        "https://cocodataset.org",
    )
    CONFIGS = {language: language for language in _FILES}
    SPLITS = tuple(_FILES["de"])
    COUNTS = {
        language: {split: _counts(language, split) for split in splits} for language, splits in _FILES.items()
    }
    FIELDS = {"references": [str], "id": str}

    def split_files(self, split):
        return [name for name in (f"{self.config.name}.{split}",) if name in self.FILES]

    def rows(self, split):
        language = self.config.name
        for row in self.file(f"{language}.{split}").jsonl():
            photo = row.identifier("img_path")
            is_without = split == "test" and photo == _WITHOUT_CAPTION.get(language)
            captions = [] if is_without and row["sentences"] == [""] else row.captions("sentences")
            if not row["sentences"]:
                raise row.wrong("sentences", "captions")
            # photos of COCO have numbers for ids
            identity = row["id"] if isinstance(row["id"], str) else str(row.integer("id"))
            yield photo, {"image_id": photo, "references": captions, "id": identity}
