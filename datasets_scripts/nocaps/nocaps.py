"""nocaps (Agrawal et al. 2019) and nocaps-FOIL (Petryk et al. 2024) as a `datasets` loading script."""

from collections import Counter

import datasets

import capscore  # From: capscore
from capscore.benchmarks.data import caption_files

_CITATION = """\
@inproceedings{agrawal2019nocaps,
  title = {{nocaps}: novel object captioning at scale},
  author = {Agrawal, Harsh and Desai, Karan and Wang, Yufei and Chen, Xinlei and Jain, Rishabh and
    Johnson, Mark and Batra, Dhruv and Parikh, Devi and Lee, Stefan and Anderson, Peter},
  booktitle = {ICCV}, pages = {8948--8957}, year = {2019}}
@inproceedings{petryk2024aloha,
  title = {{ALOHa}: A New Measure for Hallucination in Captioning Models},
  author = {Petryk, Suzanne and Chan, David M. and Kachinthaya, Anish and Zou, Haodi and Canny, John and
    Gonzalez, Joseph E. and Darrell, Trevor},
  booktitle = {NAACL}, year = {2024}, url = {https://arxiv.org/abs/2404.02904}}
"""
_FOIL_SHA256 = "ec15966bbaf4ba7faa5cb3eb6a5ebbd4b38bc3345de42b7f0e5f6cc333f642ca"
# domain → published number of its photos in the validation set
_DOMAINS = {"in-domain": 648, "near-domain": 2938, "out-domain": 914}
# configuration → the domains in it
_CONFIGS = {
    "in": ("in-domain",),
    "near": ("near-domain",),
    "out": ("out-domain",),
    "all": tuple(_DOMAINS),
}


def _counts(domains):
    photos = sum(_DOMAINS[domain] for domain in domains)
    return {"rows": photos, "images": photos, "captions": 10 * photos}


class Nocaps(capscore.CaptionBenchmark):
    """Captions of photos with objects that COCO's captions do not name; and captions with a wrong word."""

    VERSION = "1.0.0"
    DESCRIPTION = (
        "45,000 captions of 4,500 photos of Open Images, ten of each, by whether COCO's captions name their "
        "objects; and 2,500 of the captions with one word exchanged so that they are wrong (nocaps-FOIL)."
    )
    CITATION = _CITATION
    HOMEPAGE = "https://nocaps.org/"
    LICENSE = "cc-by-2.0; nocaps-FOIL: unknown (its repository states none); photos of Open Images, cc-by-2.0"
    FILES = {
        "captions": capscore.AnnotationFile(
            ("nocaps_val_4500_captions.json", "annotations/nocaps_val_4500_captions.json"),
            source="https://nocaps.s3.amazonaws.com/nocaps_val_4500_captions.json (https://nocaps.org/download)",
        ),
        "foil": capscore.AnnotationFile(
            ("nocaps-val-foil.json", "data/nocaps-val-foil.json"),
            url=(
                "https://raw.githubusercontent.com/DavidMChan/aloha/7da6b90ebe392228ea532a84d78eab830c2b3cb2/"
                "data/nocaps-val-foil.json"
            ),
            sha256=_FOIL_SHA256,
            published=(_FOIL_SHA256,),
            source="https://github.com/DavidMChan/aloha, folder data",
        ),
    }
    IMAGES = capscore.ImageFolders(
        ("images", "val", "validation"),
        source="the addresses in the captions' file, https://s3.amazonaws.com/nocaps/val/<photo>.jpg",
    )
    BUILDER_CONFIGS = [
        capscore.BenchmarkConfig(name="in", language="en", description="objects that COCO's captions name"),
        capscore.BenchmarkConfig(name="near", language="en", description="such objects and others"),
        capscore.BenchmarkConfig(name="out", language="en", description="objects that they do not name"),
        capscore.BenchmarkConfig(name="all", language="en", description="all three"),
        capscore.BenchmarkConfig(
            name="foil", language="en", description="nocaps-FOIL: a caption, and one with a wrong word"
        ),
    ]
    SPLITS = ("validation",)
    COUNTS = {
        **{config: {"validation": _counts(domains)} for config, domains in _CONFIGS.items()},
        "foil": {
            "validation": {
                "rows": 2500,
                "images": 2500,
                "captions": 22496,
                "in-domain": 245,
                "near-domain": 1494,
                "out-domain": 761,
            }
        },
    }

    def fields(self):
        references = {"references": datasets.Sequence(datasets.Value("string"))}
        if self.config.name == "foil":
            columns = {
                "caption": datasets.Value("string"),
                "foil": datasets.Value("string"),
                **references,
                "word": datasets.Value("string"),
                "foil_word": datasets.Value("string"),
            }
        else:
            columns = {**references, "id": datasets.Value("int64")}
        return {**columns, "domain": datasets.Value("string"), "language": datasets.Value("string")}

    def rows(self, split):
        return self._foils() if self.config.name == "foil" else self._captions()

    def count(self, rows):
        counts = {**super().count(rows), "captions": sum(len(row["references"]) for row in rows)}
        if self.config.name == "foil":
            domains = Counter(row["domain"] for row in rows)
            counts |= {domain: domains[domain] for domain in _DOMAINS}
        return counts

    def _captions(self):
        file = self.file("captions")
        for image, captions in caption_files.photos_with_captions(file, image_fields=["domain"]):
            photo = image["file_name"]
            domain = self._domain(file, image["domain"], photo)
            if domain not in _CONFIGS[self.config.name]:
                continue
            if not captions:
                raise file.error("has no captions", entry=photo)
            yield (
                photo,
                {
                    "image_id": photo,
                    "references": [caption["caption"] for caption in captions],
                    "id": image["id"],
                    "domain": domain,
                    "language": "en",
                },
            )

    def _foils(self):
        file = self.file("foil")
        for number, row in enumerate(file.items(file.json(), "the document")):
            file.require(
                row,
                ["image_path", "references", "baseline", "foil", "replacement", "domain"],
                entry=number,
            )
            photo = file.identifier(row["image_path"], "'image_path'", entry=number)
            caption = file.caption(row["baseline"], "'baseline'", entry=number)
            foil = file.caption(row["foil"], "'foil'", entry=number)
            if caption == foil:
                raise file.error("'foil' is the same as 'baseline'", entry=number)
            words = file.items(row["replacement"], "'replacement'", entry=number)
            if len(words) != 2:
                raise file.error(
                    f"'replacement' is {words!r:.60}, expected a word and the one in its place", entry=number
                )
            references = file.items(row["references"], "'references'", entry=number)
            yield (
                photo,
                {
                    "image_id": photo,
                    "caption": caption,
                    "foil": foil,
                    "references": [file.caption(text, "a reference", entry=number) for text in references],
                    "word": file.caption(words[0], "'replacement'", entry=number),
                    "foil_word": file.caption(words[1], "'replacement'", entry=number),
                    "domain": self._domain(file, row["domain"], number),
                    "language": "en",
                },
            )

    @staticmethod
    def _domain(file, domain, entry):
        if domain not in _DOMAINS:
            raise file.error(
                f"'domain' is {domain!r:.60}, expected one of {', '.join(_DOMAINS)}", entry=entry
            )
        return domain
