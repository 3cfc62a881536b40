"""COCO Captions (Chen et al. 2015) as a `datasets` loading script."""

import datasets

import capscore  # From: capscore
from capscore.benchmarks.data import caption_files

_CITATION = """\
@article{chen2015microsoft,
  title = {Microsoft {COCO} Captions: Data Collection and Evaluation Server},
  author = {Chen, Xinlei and Fang, Hao and Lin, Tsung-Yi and Vedantam, Ramakrishna and Gupta, Saurabh and
    Doll{\\'a}r, Piotr and Zitnick, C. Lawrence},
  journal = {arXiv:1504.00325}, year = {2015}}
@inproceedings{lin2014microsoft,
  title = {Microsoft {COCO}: Common Objects in Context},
  author = {Lin, Tsung-Yi and Maire, Michael and Belongie, Serge and Hays, James and Perona, Pietro and
    Ramanan, Deva and Doll{\\'a}r, Piotr and Zitnick, C. Lawrence},
  booktitle = {ECCV}, pages = {740--755}, year = {2014}}
@inproceedings{karpathy2015deep,
  title = {Deep Visual-Semantic Alignments for Generating Image Descriptions},
  author = {Karpathy, Andrej and Fei-Fei, Li}, booktitle = {CVPR}, pages = {3128--3137}, year = {2015}}
"""
_HOMEPAGE = "https://cocodataset.org"
# year → SHA-256 of its archive, as torchvision and others quote it
_ARCHIVES = {
    "2014": "031296bbc80c45a1d1f76bf9a90ead27e94e99ec629208449507a4917a3bf009",
    "2017": "113a836d90195ee1f884e704da6304dfaaecff1f023f49b6ca93c4aaae470268",
}
# our split → the name that the files have for it
_YEAR_SPLITS = {"train": "train", "validation": "val"}
_KARPATHY_SPLITS = {"train": "train", "restval": "restval", "validation": "val", "test": "test"}


def _file(part, year):
    name = f"captions_{part}{year}.json"
    archive = f"annotations_trainval{year}.zip"
    return capscore.AnnotationFile(
        (
            name,
            f"annotations/{name}",
            f"{archive}::annotations/{name}",
            f"annotations/{archive}::annotations/{name}",
        ),
        url=f"http://images.cocodataset.org/annotations/{archive}",
        sha256=_ARCHIVES[year],
        source=f"{archive} from {_HOMEPAGE}/#download",
    )


class CocoCaptions(capscore.CaptionBenchmark):
    """Five or more captions of each COCO photo, split by year or by Karpathy."""

    VERSION = "1.0.0"
    DESCRIPTION = (
        "616,767 English captions of 123,287 photos of COCO, five and more of each, as split by the "
        "organisers in 2014 and 2017, or by Karpathy and Fei-Fei."
    )
    CITATION = _CITATION
    HOMEPAGE = _HOMEPAGE
    LICENSE = "cc-by-4.0; photos by their authors"
    FILES = {
        **{f"{part}{year}": _file(part, year) for year in _ARCHIVES for part in _YEAR_SPLITS.values()},
        "karpathy": capscore.AnnotationFile(
            ("dataset_coco.json", "caption_datasets.zip::dataset_coco.json"),
            source="https://cs.stanford.edu/people/karpathy/deepimagesent/caption_datasets.zip",
        ),
    }
    IMAGES = capscore.ImageFolders(
        ("images", "."),
        source=f"train2014.zip and val2014.zip, or train2017.zip and val2017.zip, from {_HOMEPAGE}/#download",
    )
    BUILDER_CONFIGS = [
        capscore.BenchmarkConfig(name="2014", language="en", description="the organisers' split of 2014"),
        capscore.BenchmarkConfig(name="2017", language="en", description="the organisers' split of 2017"),
        capscore.BenchmarkConfig(
            name="karpathy", language="en", description="the photos of 2014, as split by Karpathy and Fei-Fei"
        ),
    ]
    COUNTS = {
        "2014": {
            "train": {"rows": 82783, "images": 82783, "captions": 414113},
            "validation": {"rows": 40504, "images": 40504, "captions": 202654},
        },
        "2017": {
            "train": {"rows": 118287, "images": 118287, "captions": 591753},
            "validation": {"rows": 5000, "images": 5000, "captions": 25014},
        },
        "karpathy": {
            "train": {"rows": 82783, "images": 82783, "captions": 414113},
            "restval": {"rows": 30504, "images": 30504, "captions": 152634},
            "validation": {"rows": 5000, "images": 5000, "captions": 25010},
            "test": {"rows": 5000, "images": 5000, "captions": 25010},
        },
    }

    def splits(self):
        if self.config.name == "karpathy":
            return tuple(_KARPATHY_SPLITS)
        # a folder may hold one of them; if it holds none, both are reported as missing
        there = [name for name, part in _YEAR_SPLITS.items() if self.find(f"{part}{self.config.name}")]
        return tuple(there or _YEAR_SPLITS)

    def fields(self):
        return {
            "references": datasets.Sequence(datasets.Value("string")),
            "caption_ids": datasets.Sequence(datasets.Value("int64")),
            "coco_id": datasets.Value("int64"),
            "language": datasets.Value("string"),
        }

    def rows(self, split):
        read = self._karpathy if self.config.name == "karpathy" else self._year
        for folder, image_id, coco_id, captions in read(split):
            yield (
                image_id,
                {
                    "image": [f"{folder}/{image_id}", image_id],
                    "image_id": image_id,
                    "references": list(captions.values()),
                    "caption_ids": list(captions),
                    "coco_id": coco_id,
                    "language": "en",
                },
            )

    def count(self, rows):
        return {**super().count(rows), "captions": sum(len(row["references"]) for row in rows)}

    def _year(self, split):
        folder = f"{_YEAR_SPLITS[split]}{self.config.name}"
        file = self.file(folder)
        for image, captions in caption_files.photos_with_captions(file):
            if not captions:
                raise file.error(f"photo {image['file_name']} has no captions")
            yield (
                folder,
                image["file_name"],
                image["id"],
                {caption["id"]: caption["caption"] for caption in captions},
            )

    def _karpathy(self, split):
        file = self.file("karpathy")
        document = file.json()
        file.require(document, ["images"])
        for number, image in enumerate(file.items(document["images"], "'images'")):
            entry = f"images[{number}]"
            file.require(image, ["filepath", "filename", "split", "cocoid", "sentences"], entry=entry)
            if image["split"] not in _KARPATHY_SPLITS.values():
                raise file.error(
                    f"'split' is {image['split']!r:.60}, expected one of "
                    f"{', '.join(_KARPATHY_SPLITS.values())}",
                    entry=entry,
                )
            if image["split"] != _KARPATHY_SPLITS[split]:
                continue
            captions = {}
            for sentence in file.items(image["sentences"], "'sentences'", entry=entry):
                file.require(sentence, ["raw", "sentid"], entry=entry)
                sentence_id = file.integer(sentence["sentid"], "'sentid'", 0, 2**53, entry=entry)
                if sentence_id in captions:
                    raise file.error(f"the sentid {sentence_id} appears twice", entry=entry)
                captions[sentence_id] = file.caption(sentence["raw"], "'raw'", entry=entry)
            if not captions:
                raise file.error("'sentences' is [], expected captions", entry=entry)
            yield (
                file.identifier(image["filepath"], "'filepath'", entry=entry),
                file.identifier(image["filename"], "'filename'", entry=entry),
                file.integer(image["cocoid"], "'cocoid'", 0, 2**53, entry=entry),
                captions,
            )
