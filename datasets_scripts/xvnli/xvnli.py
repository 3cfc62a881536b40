"""XVNLI (Bugliarello et al. 2022) as a `datasets` loading script."""

from collections import Counter, defaultdict

import capscore  # From: capscore
from capscore.benchmarks.data import caption_files

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
    folders = ("", "annotations/", "XVNLI/annotations/", "datasets/XVNLI/annotations/")
    source = "https://github.com/e-bug/iglue, folder datasets/XVNLI/annotations"
    return capscore.AnnotationFile.in_folders(f"{language}/test.jsonl", folders, source, _RAW, sha256)


class Xvnli(capscore.CaptionBenchmark):
    """1,164 sentences on 357 photos of Flickr30k, the same in five languages, labelled by people.

    They follow from the photo (394), contradict it (375), do neither (381), or divide annotators (14).
    """

    HOMEPAGE = "https://iglue-benchmark.github.io/"
    LICENSE = "mit (the repository; texts from SNLI, cc-by-sa-4.0); photos of Flickr30k by their authors"
    FILES = {language: _file(language, sha256) for language, sha256 in _LANGUAGES.items()}
    IMAGES = capscore.ImageFolders(
        (*caption_files.FLICKR30K_FOLDERS, "Images"),
        "Flickr30k, by request from its authors (flickr30k-images.tar.gz)",
    )
    CONFIGS = {language: language for language in _LANGUAGES}
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
    FIELDS = dict.fromkeys(("caption", "premise", "label", "premise_id", "id"), str)

    def rows(self, split):
        for row in self.file(self.config.name).jsonl():
            photo = f"{row.identifier('Flikr30kID')}.jpg"  # sic
            premise_id = row.identifier("captionID")
            if premise_id.rpartition("#")[0] != photo:
                raise row.wrong("captionID", f"a caption of {photo}")
            values = {
                "image_id": photo,
                "caption": row.caption("sentence2"),
                "premise": row.caption("sentence1"),
                "label": row.choice("gold_label", _LABELS),
                "premise_id": premise_id,
                "id": row.identifier("pairID"),
            }
            yield row.identifier("pairID"), values

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
