"""Polaris (Wada et al. 2024) as a `datasets` loading script."""

import capscore  # From: capscore
from capscore.benchmarks.data import polaris_format

_HUB = "https://huggingface.co/datasets/yuwd/Polaris"
_EXPERT = "https://github.com/hjkim811/EXPERT"
_RAW = "https://raw.githubusercontent.com/hjkim811/EXPERT/74bbef41209fce20551f2d707bc7642400d7eddf"


def _csv(name):
    folders = ("", "polaris/", "data_en/polaris/", "polaris.zip::")
    return capscore.AnnotationFile(
        tuple(f"{folder}polaris_{name}.csv" for folder in folders),
        f"polaris.zip of https://github.com/keio-smilab24/Polos, or the Parquet files of {_HUB}",
    )


def _parquet(split):
    return capscore.AnnotationFile((f"data/{split}-*.parquet", f"{split}-*.parquet"), _HUB)


def _json(folder, file, sha256=""):
    return capscore.AnnotationFile(
        (file, f"{folder}/{file}"),
        f"{_EXPERT}, folder {folder}",
        f"{_RAW}/{folder}/{file}" if sha256 else "",
        sha256,
    )


class Polaris(polaris_format.RatedCaptions):
    """131,020 human judgements (0 to 1) of captions by people and ten captioning models, with references.

    The explained rows have mean scores, and explanations of fluency, relevance and descriptiveness.
    """

    HOMEPAGE = "https://yuiga.dev/polos"
    LICENSE = "bsd-3-clause-clear"
    FILES = {
        "train_parquet": _parquet("train"),
        "validation_parquet": _parquet("validation"),
        "test_parquet": _parquet("test"),
        "train_csv": _csv("train"),
        "validation_csv": _csv("val"),
        "test_csv": _csv("test"),
        "test_json": _json("annotations", "polaris_test.json"),
        "train_explained": _json("exp_datasets", "polaris_exp_train.json"),
        "validation_explained": _json(
            "exp_datasets",
            "polaris_exp_val.json",
            "fef800bd40634682963fd8ef339e5f4197ea1ea43ef9e29f79f07d97e9a63983",
        ),
    }
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
