"""Nebula (Matsuda et al. 2024) as a `datasets` loading script."""

import capscore  # From: capscore
from capscore.benchmarks.data import polaris_format

_HUB = "https://huggingface.co/datasets/Ka2ukiMatsuda/Nebula"


class Nebula(polaris_format.RatedCaptions):
    """32,978 photos, each with a caption of a captioning model, references and a human score (0 to 1).

    It was made for metrics that notice hallucinations. The explained rows have scores with explanations.
    """

    HOMEPAGE = "https://github.com/Ka2ukiMatsuda/DENEB"
    LICENSE = "unknown (the data set's card states none); photos by their authors"
    FILES = polaris_format.rated_files(
        "nebula",
        _HUB,
        capscore.AnnotationFile.in_folders(
            "nebula_{split}.csv", ("", "nebula/"), f"the Parquet files of {_HUB}"
        ),
        {"train": ("train", "train"), "validation": ("valid", "valid"), "test": ("test", "test")},
        {
            "nebula_test.json": "ac70204016a35ccc3a81603a7c1c9c836152ab8d7d3fea6a33e84eafe937df39",
            "nebula_exp_val.json": "e5930a4416fea0362bf3be9f915a84b294dd2e16e7022e9526942c03dc57cf0f",
        },
    )
    IMAGES = capscore.ImageFolders(
        ("images", "nebula/images", "images/Nebula", "Nebula"), f"the Parquet files of {_HUB} hold them"
    )
    ONE_CAPTION_A_PHOTO = True
    COUNTS = {
        "default": {
            "train": {"rows": 26382},
            "validation": {"rows": 3298},
            "test": {"rows": 3298, "images": 3298},
        },
        "explained": {"validation": {"rows": 2901, "images": 2901}},
    }
