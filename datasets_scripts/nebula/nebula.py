"""Nebula (Matsuda et al. 2024) as a `datasets` loading script."""

import capscore  # From: capscore
from capscore.benchmarks.data import polaris_format

_CITATION = """\
@inproceedings{matsuda2024deneb,
  title = {{DENEB}: A Hallucination-Robust Automatic Evaluation Metric for Image Captioning},
  author = {Matsuda, Kazuki and Wada, Yuiga and Sugiura, Komei},
  booktitle = {Proceedings of the Asian Conference on Computer Vision (ACCV)},
  year = {2024}, pages = {3570--3586}}
@article{kim2025expert,
  title = {{EXPERT}: An Explainable Image Captioning Evaluation Metric with Structured Explanations},
  author = {Kim, Hyunjong and Kim, Sangyeop and Jeong, Jongheon and Cho, Yeongjae and Cho, Sungzoon},
  journal = {arXiv preprint arXiv:2506.24016}, year = {2025}}
"""
_HUB = "https://huggingface.co/datasets/Ka2ukiMatsuda/Nebula"
_EXPERT = "https://github.com/hjkim811/EXPERT"
_RAW = "https://raw.githubusercontent.com/hjkim811/EXPERT/74bbef41209fce20551f2d707bc7642400d7eddf"
_TEST = "ac70204016a35ccc3a81603a7c1c9c836152ab8d7d3fea6a33e84eafe937df39"
_EXPLAINED_VALIDATION = "e5930a4416fea0362bf3be9f915a84b294dd2e16e7022e9526942c03dc57cf0f"


def _parquet(split):
    return capscore.AnnotationFile(
        (f"data/{split}-*.parquet", f"{split}-*.parquet"), source=_HUB, optional=True
    )


def _csv(name):
    return capscore.AnnotationFile(
        (f"nebula_{name}.csv", f"nebula/nebula_{name}.csv"), source=f"the Parquet files of {_HUB}"
    )


def _json(folder, file, sha256=""):
    return capscore.AnnotationFile(
        (file, f"{folder}/{file}"),
        url=f"{_RAW}/{folder}/{file}" if sha256 else "",
        sha256=sha256,
        published=(sha256,) if sha256 else (),
        source=f"{_EXPERT}, folder {folder}",
    )


class Nebula(polaris_format.RatedCaptions):
    """Captions by many models, each with a human score, chosen to show hallucinations."""

    VERSION = "1.0.0"
    DESCRIPTION = (
        "32,978 photos, each with a caption of a captioning model, references and a human score (0 to 1), "
        "made for metrics that notice hallucinations; and scores with explanations."
    )
    CITATION = _CITATION
    HOMEPAGE = "https://github.com/Ka2ukiMatsuda/DENEB"
    LICENSE = "unknown (the data set's card states none); photos by their authors"
    FILES = {
        "train_parquet": _parquet("train"),
        "validation_parquet": _parquet("valid"),
        "test_parquet": _parquet("test"),
        "train_csv": _csv("train"),
        "validation_csv": _csv("valid"),
        "test_csv": _csv("test"),
        "test_json": _json("annotations", "nebula_test.json", _TEST),
        "train_explained": _json("exp_datasets", "nebula_exp_train.json"),
        "validation_explained": _json("exp_datasets", "nebula_exp_val.json", _EXPLAINED_VALIDATION),
    }
    IMAGES = capscore.ImageFolders(
        ("images", "nebula/images", "images/Nebula", "Nebula"),
        source=f"the Parquet files of {_HUB} hold them",
    )
    BUILDER_CONFIGS = [
        capscore.BenchmarkConfig(name="default", language="en", description="a photo and its caption a row"),
        capscore.BenchmarkConfig(
            name="explained", language="en", description="score and explanation of a caption"
        ),
    ]
    DEFAULT_CONFIG_NAME = "default"
    ONE_CAPTION_A_PHOTO = True
    COUNTS = {
        "default": {
            "train": {"rows": 26382},
            "validation": {"rows": 3298},
            "test": {"rows": 3298, "images": 3298},
        },
        "explained": {"validation": {"rows": 2901, "images": 2901}},
    }
