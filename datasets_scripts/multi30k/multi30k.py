"""Multi30k (Elliott et al. 2016, 2017; Barrault et al. 2018) as a `datasets` loading script."""

import capscore  # From: capscore
from capscore.benchmarks.data import annotation_files, caption_files

_RAW = "https://raw.githubusercontent.com/multi30k/dataset/2cc0f2d7c615b60e07e2d51bb5edc004444d7e0e/data"
# of each task: split's name in the files → image list, then language → SHA-256
_TASK1, _TASK2 = annotation_files.checksums("multi30k").values()
# published number of photos; each has one caption per language in task 1, five in task 2
_PHOTOS = {
    "train": 29000,
    "validation": 1014,
    "test_2016_flickr": 1000,
    "test_2017_flickr": 1000,
    "test_2017_mscoco": 461,
    "test_2018_flickr": 1071,
    "test_2016": 1000,
}
# configuration → its files, language, captions of a photo
_CONFIGS = {
    **{language: (_TASK1, language, 1) for language in ("en", "de", "fr", "cs")},
    **{f"task2_{language}": (_TASK2, language, 5) for language in ("en", "de")},
}


def _file(task, folder, name, sha256):
    """A file at its path in the repository, or without the folders above it; captions may be unpacked."""
    places = [f"{above}{folder}/{name}" for above in (f"data/{task}/", f"{task}/", "")]
    if folder == "raw":
        places.append(name)
    places += [place.removesuffix(".gz") for place in places if place.endswith(".gz")]
    return capscore.AnnotationFile(
        tuple(places),
        "https://github.com/multi30k/dataset, folder data",
        f"{_RAW}/{task}/{folder}/{name}",
        sha256,
    )


def _files():
    files = {}
    for split, known in _TASK1.items():
        files[f"{split}.images"] = _file("task1", "image_splits", f"{split}.txt", known["images"])
        for language in known.keys() - {"images"}:
            name = f"{split}.{language}"
            files[name] = _file("task1", "raw", f"{name}.gz", known[language])
    for split, known in _TASK2.items():
        images = _file("task2", "image_splits", f"{split}_images.txt", known["images"])
        files[f"task2.{split}.images"] = images
        for language in known.keys() - {"images"}:
            for number, sha256 in enumerate(known[language], start=1):
                name = f"{split}.{number}.{language}"
                files[f"task2.{name}"] = _file("task2", "raw", f"{name}.gz", sha256)
    return files


class Multi30k(capscore.CaptionBenchmark):
    """Captions of photos of Flickr30k and of test photos of three years, in four languages.

    Task 1: one English caption of each photo, translated into German, French and Czech. Task 2: five English
    and five German captions of each photo of Flickr30k, written independently.
    """

    HOMEPAGE = "https://github.com/multi30k/dataset"
    LICENSE = "other: non-commercial research and education (terms of Flickr); the repository states none"
    FILES = _files()
    IMAGES = capscore.ImageFolders(
        (
            *caption_files.FLICKR30K_FOLDERS,
            *("test_2017-flickr-images", "test_2018-flickr-images", "train2014", "val2014"),
        ),
        "Flickr30k, by request from its authors; photos of the tests of 2017 and 2018 from "
        "https://github.com/multi30k/dataset; of COCO train2014 and val2014 from https://cocodataset.org",
    )
    CONFIGS = {config: language for config, (_, language, _) in _CONFIGS.items()}
    SPLITS = tuple(_PHOTOS)
    COUNTS = {
        config: {
            split: {"rows": photos, "images": photos, "captions": n_captions * photos}
            for split, photos in _PHOTOS.items()
            if language in files.get(split.replace("validation", "val"), ())
        }
        for config, (files, language, n_captions) in _CONFIGS.items()
    }
    FIELDS = {"references": [str], "coco_caption_id": int}

    def split_files(self, split):
        split = split.replace("validation", "val")
        names = [f"{split}.{self.config.language}"]
        if self.config.name.startswith("task2_"):
            names = [f"task2.{split}.{number}.{self.config.language}" for number in range(1, 6)]
        return [name for name in names if name in self.FILES]

    def rows(self, split):
        names = self.split_files(split)
        part = "task2." if self.config.name.startswith("task2_") else ""
        images = self.file(f"{part}{split.replace('validation', 'val')}.images")
        # a line break at the end makes no line; a blank line in between is one, and an error
        listed = [text.strip() for _, text in images.lines(ended=True)]
        columns = []
        for name in names:
            file = self.file(name)
            captions = [
                file.row({"caption": text}, line=line).caption("caption")
                for line, text in file.lines(ended=True)
            ]
            if len(captions) != len(listed):
                raise file.error(
                    f"has {len(captions):,} lines, and {images} lists {len(listed):,} photos: line n is the "
                    "caption of photo n, so neither may be cut short"
                )
            columns.append(captions)
        for line, (entry, *captions) in enumerate(zip(listed, *columns, strict=True), start=1):
            photo, sign, caption_id = entry.partition("#")
            if not photo or (sign and not caption_id.isdigit()):
                raise images.error(
                    f"{entry!r} is not a photo, or not a photo and caption id of COCO", line=line
                )
            number = int(caption_id) if sign else None
            yield entry, {"image_id": photo, "references": captions, "coco_caption_id": number}
