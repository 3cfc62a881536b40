"""COCO Captions (Chen et al. 2015) as a `datasets` loading script."""

import capscore  # From: capscore
from capscore.benchmarks.data import caption_files

_HOMEPAGE = "https://cocodataset.org"
# year → SHA-256 of its archive, as torchvision and others quote it
_ARCHIVES = {
    "2014": "031296bbc80c45a1d1f76bf9a90ead27e94e99ec629208449507a4917a3bf009",
    "2017": "113a836d90195ee1f884e704da6304dfaaecff1f023f49b6ca93c4aaae470268",
}
# our split → the name that the files have for it
_SPLITS = {"train": "train", "restval": "restval", "validation": "val", "test": "test"}


def _file(name, year):
    archive = f"annotations_trainval{year}.zip"
    return capscore.AnnotationFile(
        (name, *(f"{place}annotations/{name}" for place in ("", f"{archive}::", f"annotations/{archive}::"))),
        f"{archive} from {_HOMEPAGE}/#download",
        f"http://images.cocodataset.org/annotations/{archive}",
        _ARCHIVES[year],
    )


def _counts(**splits):
    return {
        name: {"rows": photos, "images": photos, "captions": captions}
        for name, (photos, captions) in splits.items()
    }


class CocoCaptions(capscore.CaptionBenchmark):
    """616,767 English captions of 123,287 photos of COCO, five or more per photo.

    They are split as the organisers did in 2014 and 2017, or as Karpathy and Fei-Fei did.
    """

    HOMEPAGE = _HOMEPAGE
    LICENSE = "cc-by-4.0; photos by their authors"
    FILES = {
        **{
            f"{part}{year}": _file(f"captions_{part}{year}.json", year)
            for year in _ARCHIVES
            for part in ("train", "val")
        },
        "karpathy": capscore.AnnotationFile(
            ("dataset_coco.json", "caption_datasets.zip::dataset_coco.json"),
            "https://cs.stanford.edu/people/karpathy/deepimagesent/caption_datasets.zip",
        ),
    }
    IMAGES = capscore.ImageFolders(
        ("images", "."),
        f"train2014.zip and val2014.zip, or train2017.zip and val2017.zip, from {_HOMEPAGE}/#download",
    )
    CONFIGS = {"2014": "en", "2017": "en", "karpathy": "en"}
    SPLITS = tuple(_SPLITS)
    COUNTS = {
        "2014": _counts(train=(82783, 414113), validation=(40504, 202654)),
        "2017": _counts(train=(118287, 591753), validation=(5000, 25014)),
        "karpathy": _counts(
            train=(82783, 414113), restval=(30504, 152634), validation=(5000, 25010), test=(5000, 25010)
        ),
    }
    FIELDS = {"references": [str], "caption_ids": [int], "coco_id": int}

    def split_files(self, split):
        if self.config.name == "karpathy":
            return ["karpathy"]
        return [name for name in (f"{_SPLITS[split]}{self.config.name}",) if name in self.FILES]

    def rows(self, split):
        read = self._karpathy if self.config.name == "karpathy" else self._year
        for folder, image_id, coco_id, captions in read(split):
            values = {
                "image": [f"{folder}/{image_id}", image_id],
                "image_id": image_id,
                "references": list(captions.values()),
                "caption_ids": list(captions),
                "coco_id": coco_id,
            }
            yield image_id, values

    def _year(self, split):
        folder = f"{_SPLITS[split]}{self.config.name}"
        for image, captions in caption_files.photos_with_captions(self.file(folder)):
            if not captions:
                raise image.error("has no captions")
            texts = {caption["id"]: caption.caption("caption") for caption in captions}
            yield folder, image.identifier("file_name"), image["id"], texts

    def _karpathy(self, split):
        for image in self.file("karpathy").json().rows("images"):
            if image.choice("split", _SPLITS.values()) != _SPLITS[split]:
                continue
            sentences = list(image.rows("sentences"))
            captions = {sentence.integer("sentid"): sentence.caption("raw") for sentence in sentences}
            if not captions or len(captions) < len(sentences):
                raise image.error("has no sentences, or a sentid appears twice")
            names = image.identifier("filepath"), image.identifier("filename")
            yield *names, image.integer("cocoid"), captions
