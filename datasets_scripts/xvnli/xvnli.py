"""XVNLI (Bugliarello et al. 2022) as a `datasets` loading script."""

from collections import Counter, defaultdict

import datasets

import capscore  # From: capscore

_CITATION = """\
@inproceedings{bugliarello-etal-2022-iglue,
  title = {{IGLUE}: A Benchmark for Transfer Learning across Modalities, Tasks, and Languages},
  author = {Bugliarello, Emanuele and Liu, Fangyu and Pfeiffer, Jonas and Reddy, Siva and Elliott, Desmond and
    Ponti, Edoardo Maria and Vuli{\\'c}, Ivan},
  booktitle = {Proceedings of ICML}, series = {PMLR}, volume = {162}, pages = {2370--2392}, year = {2022}}
@article{xie2019visual,
  title = {Visual Entailment: A Novel Task for Fine-Grained Image Understanding},
  author = {Xie, Ning and Lai, Farley and Doran, Derek and Kadav, Asim},
  journal = {arXiv:1901.06706}, year = {2019}}
"""
_RAW = (
    "https://raw.githubusercontent.com/e-bug/iglue/43cbac91513388d40b2c6d93925f00ca9fc08a98/"
    "datasets/XVNLI/annotations"
)
# language → SHA-256 of its test.jsonl
_LANGUAGES = {
    "en": "d19e7570afec33a8cc44ebee9ee8b34af85d2e2e62af8a31da22ab23446aa016",
    "ar": "b0b7aa17cc75a85d599535aee7cb2f1b74e65506fa81b89c3317c7855e144af2",
    "es": "7968782bbca19bd13c89fe704bca568b44e2b14283fed070b58a810b0e96d783",
    "fr": "5221a7739da6d842d1fd3e2a7dc95537ae8783c772bde6c376b7a08f515ba315",
    "ru": "ce59f531491725a616a5b3db9113ab9aa89add546cc178ab66115909e5fb988b",
}
# "-": annotators did not agree
_LABELS = ("entailment", "neutral", "contradiction", "-")


def _file(language, sha256):
    places = ("", "annotations/", "XVNLI/annotations/", "datasets/XVNLI/annotations/")
    return capscore.AnnotationFile(
        tuple(f"{place}{language}/test.jsonl" for place in places),
        url=f"{_RAW}/{language}/test.jsonl",
        sha256=sha256,
        published=(sha256,),
        source="https://github.com/e-bug/iglue, folder datasets/XVNLI/annotations",
    )


class Xvnli(capscore.CaptionBenchmark):
    """Sentences that follow from a photo, contradict it, or neither, in five languages."""

    VERSION = "1.0.0"
    DESCRIPTION = (
        "1,164 sentences on 357 photos of Flickr30k, the same in five languages, labelled with whether they "
        "follow from the photo (394), contradict it (375), do neither (381), or divide annotators (14)."
    )
    CITATION = _CITATION
    HOMEPAGE = "https://iglue-benchmark.github.io/"
    LICENSE = "mit (the repository; texts from SNLI, cc-by-sa-4.0); photos of Flickr30k by their authors"
    FILES = {language: _file(language, sha256) for language, sha256 in _LANGUAGES.items()}
    IMAGES = capscore.ImageFolders(
        ("images", "flickr30k-images", "flickr30k_images", "flickr30k/images", "Images"),
        source="Flickr30k, by request from its authors (flickr30k-images.tar.gz)",
    )
    BUILDER_CONFIGS = [
        capscore.BenchmarkConfig(name=language, language=language, description=f"sentences in {language}")
        for language in _LANGUAGES
    ]
    COUNTS = {
        language: {
            "test": {
                "rows": 1164,
                "images": 357,
                "entailment": 394,
                "neutral": 381,
                "contradiction": 375,
                "unlabelled": 14,
                "pairs of experiment 1": 442,
                "pairs of experiment 2": 1259,
                "triples of experiment 3": 511,
                "pairs of experiment 1 within a premise": 377,
                "pairs of experiment 2 within a premise": 1057,
                "triples of experiment 3 within a premise": 304,
            }
        }
        for language in _LANGUAGES
    }

    def fields(self):
        return {
            "caption": datasets.Value("string"),
            "premise": datasets.Value("string"),
            "label": datasets.Value("string"),
            "premise_id": datasets.Value("string"),
            "id": datasets.Value("string"),
            "language": datasets.Value("string"),
        }

    def rows(self, split):
        file = self.file(self.config.name)
        columns = ("gold_label", "sentence1", "sentence2", "captionID", "pairID", "Flikr30kID")  # sic
        seen = {}
        for line, row in file.jsonl(*columns):
            if row["gold_label"] not in _LABELS:
                raise file.error(
                    f"'gold_label' is {row['gold_label']!r:.60}, expected one of {', '.join(_LABELS)}",
                    line=line,
                )
            photo = f"{file.identifier(row['Flikr30kID'], repr('Flikr30kID'), line=line)}.jpg"
            premise_id = file.identifier(row["captionID"], "'captionID'", line=line)
            if premise_id.rpartition("#")[0] != photo:
                raise file.error(f"'captionID' is {premise_id!r}, which is no caption of {photo}", line=line)
            pair_id = file.identifier(row["pairID"], "'pairID'", line=line)
            file.once(seen, pair_id, "'pairID'", line=line)
            yield (
                pair_id,
                {
                    "image_id": photo,
                    "caption": file.caption(row["sentence2"], "'sentence2'", line=line),
                    "premise": file.caption(row["sentence1"], "'sentence1'", line=line),
                    "label": row["gold_label"],
                    "premise_id": premise_id,
                    "id": pair_id,
                    "language": self.config.name,
                },
            )

    def count(self, rows):
        labels = Counter(row["label"] for row in rows)
        return {
            **super().count(rows),
            **{label: labels[label] for label in _LABELS[:3]},
            "unlabelled": labels["-"],
            **_comparisons(rows, "image_id", ""),
            **_comparisons(rows, "premise_id", " within a premise"),
        }


def _comparisons(rows, unit, suffix):
    """Numbers of pairs and triples with different labels within a photo or a premise."""
    groups = defaultdict(Counter)
    for row in rows:
        groups[row[unit]][row["label"]] += 1
    found = [tuple(group[label] for label in _LABELS[:3]) for group in groups.values()]
    return {
        f"pairs of experiment 1{suffix}": sum(e * c for e, n, c in found),
        f"pairs of experiment 2{suffix}": sum(e * n + e * c + n * c for e, n, c in found),
        f"triples of experiment 3{suffix}": sum(e * n * c for e, n, c in found),
    }
