"""Polaris (Wada et al. 2024) as a `datasets` loading script."""

import capscore  # From: capscore
from capscore.benchmarks.data import polaris_format

_HUB = "https://huggingface.co/datasets/yuwd/Polaris"


class Polaris(polaris_format.RatedCaptions):
    """131,020 human judgements (0 to 1) of captions by people and ten captioning models, with references.

    The explained rows have mean scores, and explanations of fluency, relevance and descriptiveness.
    """

    HOMEPAGE = "https://yuiga.dev/polos"
    LICENSE = "bsd-3-clause-clear"
    FILES = polaris_format.rated_files(
        "polaris",
        _HUB,
        capscore.AnnotationFile.in_folders(
            "polaris_{split}.csv",
            ("", "polaris/", "data_en/polaris/", "polaris.zip::"),
            f"polaris.zip of https://github.com/keio-smilab24/Polos, or the Parquet files of {_HUB}",
        ),
        {"train": ("train", "train"), "validation": ("validation", "val"), "test": ("test", "test")},
        {"polaris_exp_val.json": "fef800bd40634682963fd8ef339e5f4197ea1ea43ef9e29f79f07d97e9a63983"},
    )
    IMAGES = capscore.ImageFolders(
        ("images", "polaris/images", "data_en/polaris/images", "images/Polaris", "Polaris"),
        "polaris.zip of https://github.com/keio-smilab24/Polos; the Parquet files hold them",
    )
    N_RATINGS = True
    COUNTS = {
        "default": {"train": {"rows": 78630}, "validation": {"rows": 26268}, "test": {"rows": 26122}},
        "explained": {"validation": {"rows": 4237, "images": 2738, "ratings": 21760}},
    }

    def count(self, rows):
        ratings = [row["n_ratings"] for row in rows if "n_ratings" in row]
        return {**super().count(rows), **({"ratings": sum(ratings)} if ratings else {})}
