"""Polaris (Wada et al. 2024) as a `datasets` loading script."""

import capscore  # From: capscore
from capscore.benchmarks.data import polaris_format

_CITATION = """\
@inproceedings{wada2024,
  title = {{Polos: Multimodal Metric Learning from Human Feedback for Image Captioning}},
  author = {Wada, Yuiga and Kaneda, Kanta and Saito, Daichi and Sugiura, Komei},
  booktitle = {Proceedings of the IEEE/CVF Conference on Computer Vision and Pattern Recognition},
  year = {2024}}
@article{kim2025expert,
  title = {{EXPERT}: An Explainable Image Captioning Evaluation Metric with Structured Explanations},
  author = {Kim, Hyunjong and Kim, Sangyeop and Jeong, Jongheon and Cho, Yeongjae and Cho, Sungzoon},
  journal = {arXiv preprint arXiv:2506.24016}, year = {2025}}
"""
_HUB = "https://huggingface.co/datasets/yuwd/Polaris"
_EXPERT = "https://github.com/hjkim811/EXPERT"
_RAW = "https://raw.githubusercontent.com/hjkim811/EXPERT/74bbef41209fce20551f2d707bc7642400d7eddf"
_EXPLAINED_VALIDATION = "fef800bd40634682963fd8ef339e5f4197ea1ea43ef9e29f79f07d97e9a63983"


def _csv(name):
    folders = ("", "polaris/", "data_en/polaris/", "polaris.zip::")
    return capscore.AnnotationFile(
        tuple(f"{folder}polaris_{name}.csv" for folder in folders),
        source=f"polaris.zip of https://github.com/keio-smilab24/Polos, or the Parquet files of {_HUB}",
    )


def _parquet(split):
    return capscore.AnnotationFile(
        (f"data/{split}-*.parquet", f"{split}-*.parquet"), source=_HUB, optional=True
    )


def _explained(name, url="", sha256=""):
    file = f"polaris_exp_{name}.json"
    return capscore.AnnotationFile(
        (file, f"exp_datasets/{file}"),
        url=url,
        sha256=sha256,
        published=(sha256,) if sha256 else (),
        source=f"{_EXPERT}, folder exp_datasets",
    )


class Polaris(polaris_format.RatedCaptions):
    """Captions of people and ten models, with the score of one person per row."""

    VERSION = "1.0.0"
    DESCRIPTION = (
        "131,020 human judgements (0 to 1) of captions by people and ten captioning models, with references; "
        "and mean scores of captions with explanations of fluency, relevance and descriptiveness."
    )
    CITATION = _CITATION
    HOMEPAGE = "https://yuiga.dev/polos"
    LICENSE = "bsd-3-clause-clear"
    FILES = {
        "train_parquet": _parquet("train"),
        "validation_parquet": _parquet("validation"),
        "test_parquet": _parquet("test"),
        "train_csv": _csv("train"),
        "validation_csv": _csv("val"),
        "test_csv": _csv("test"),
        "test_json": capscore.AnnotationFile(
            ("polaris_test.json", "annotations/polaris_test.json"),
            source=f"{_EXPERT}, folder annotations",
            optional=True,
        ),
        "train_explained": _explained("train"),
        "validation_explained": _explained(
            "val", f"{_RAW}/exp_datasets/polaris_exp_val.json", _EXPLAINED_VALIDATION
        ),
    }
    IMAGES = capscore.ImageFolders(
        ("images", "polaris/images", "data_en/polaris/images", "images/Polaris", "Polaris"),
        source="polaris.zip of https://github.com/keio-smilab24/Polos; the Parquet files hold them",
    )
    BUILDER_CONFIGS = [
        capscore.BenchmarkConfig(
            name="default", language="en", description="a judgement of one person a row"
        ),
        capscore.BenchmarkConfig(
            name="explained", language="en", description="a caption a row: mean score and explanation"
        ),
    ]
    DEFAULT_CONFIG_NAME = "default"
    N_RATINGS = True
    COUNTS = {
        "default": {"train": {"rows": 78630}, "validation": {"rows": 26268}, "test": {"rows": 26122}},
        "explained": {"validation": {"rows": 4237, "images": 2738, "ratings": 21760}},
    }

    def count(self, rows):
        found = super().count(rows)
        if self.config.name == "explained":
            found["ratings"] = sum(row["n_ratings"] for row in rows)
        return found
