"""VizWiz-Captions (Gurari et al. 2020) as a `datasets` loading script."""

import datasets

import capscore  # From: capscore
from capscore.benchmarks.data import caption_files

_CITATION = """\
@inproceedings{gurari2020captioning,
  title = {Captioning Images Taken by People Who Are Blind},
  author = {Gurari, Danna and Zhao, Yinan and Zhang, Meng and Bhattacharya, Nilavra},
  booktitle = {ECCV}, pages = {417--434}, year = {2020}}
"""
# our split → the name that the files have for it
_FILES = {"train": "train", "validation": "val"}


def _file(name):
    places = (f"{name}.json", f"annotations/{name}.json", f"annotations.zip::{name}.json")
    return capscore.AnnotationFile(
        places, source="https://vizwiz.cs.colorado.edu/VizWiz_final/caption/annotations.zip"
    )


class VizWizCaptions(capscore.CaptionBenchmark):
    """Captions of photos that blind people took and sent in to have them described."""

    VERSION = "1.0.0"
    DESCRIPTION = (
        "155,905 captions of 31,181 photos taken by blind people, five of each, with whether a caption only "
        "says that the photo is too bad, or was rejected."
    )
    CITATION = _CITATION
    HOMEPAGE = "https://vizwiz.org/tasks-and-datasets/image-captioning/"
    LICENSE = "cc-by-4.0"
    FILES = {name: _file(name) for name in _FILES.values()}
    IMAGES = capscore.ImageFolders(
        ("images", "."),
        source="train.zip and val.zip from https://vizwiz.org/tasks-and-datasets/image-captioning/",
    )
    BUILDER_CONFIGS = [
        capscore.BenchmarkConfig(
            name="valid",
            language="en",
            description="without captions that were rejected or only say that the photo is too bad",
        ),
        capscore.BenchmarkConfig(name="all", language="en", description="all captions, with what they are"),
    ]
    DEFAULT_CONFIG_NAME = "valid"
    COUNTS = {
        "all": {
            "train": {"rows": 23431, "images": 23431, "captions": 117155},
            "validation": {"rows": 7750, "images": 7750, "captions": 38750},
        }
    }

    def splits(self):
        # a folder may hold one of them; if it holds none, both are reported as missing
        return tuple(split for split, name in _FILES.items() if self.find(name)) or tuple(_FILES)

    def fields(self):
        columns = {
            "references": datasets.Sequence(datasets.Value("string")),
            "text_detected": datasets.Value("bool"),
            "id": datasets.Value("int64"),
        }
        if self.config.name == "all":
            columns["precanned"] = datasets.Sequence(datasets.Value("bool"))
            columns["rejected"] = datasets.Sequence(datasets.Value("bool"))
        return {**columns, "language": datasets.Value("string")}

    def rows(self, split):
        file = self.file(_FILES[split])
        photos = caption_files.photos_with_captions(
            file, image_fields=["text_detected"], caption_fields=["is_precanned", "is_rejected"]
        )
        for image, captions in photos:
            photo = image["file_name"]
            if not captions:
                raise file.error("has no captions", entry=photo)
            flags = {
                name: [file.flag(caption[f"is_{name}"], f"'is_{name}'", entry=photo) for caption in captions]
                for name in ("precanned", "rejected")
            }
            references = [caption["caption"] for caption in captions]
            if self.config.name == "valid":
                useless = zip(flags["precanned"], flags["rejected"], strict=True)
                references = [text for text, why in zip(references, useless, strict=True) if not any(why)]
                flags = {}
                if not references:
                    continue  # photos that nobody could describe: published work leaves them out too
            yield (
                photo,
                {
                    "image": [f"{_FILES[split]}/{photo}", photo],
                    "image_id": photo,
                    "references": references,
                    "text_detected": file.flag(image["text_detected"], "'text_detected'", entry=photo),
                    "id": image["id"],
                    **flags,
                    "language": "en",
                },
            )

    def count(self, rows):
        return {**super().count(rows), "captions": sum(len(row["references"]) for row in rows)}
