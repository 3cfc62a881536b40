"""MaRVL (Liu et al. 2021) as a `datasets` loading script."""

import unicodedata
from collections import defaultdict

import capscore  # From: capscore

_RAW = "https://raw.githubusercontent.com/marvl-challenge/marvl-code/3b841ddd8e922e340607fb99cafbcc1ef45aa2f8/data"
# language → SHA-256 of its file; its rows, photos, captions, groups of two true and two false rows, true rows
_LANGUAGES = {
    "id": ("8641dbecdbd29171aaea4829a95436c3320ddb0e5259fa90acddde613cb19a2c", 1128, 1091, 282, 282, 564),
    "sw": ("b7e265b4165ec7b7975735b86c31a5ab8a9699b725137276b385b4933abbb16c", 1108, 875, 276, 268, 547),
    "ta": ("b45bb30961e3697ffb71f16503baf60552e6e5b71a7789d18d694aab40aaa16d", 1242, 923, 305, 289, 616),
    "tr": ("c9a4f19836e9bc3419dd4a8a84928912346a4d54283ecf185b133fe9047e295a", 1180, 917, 295, 293, 588),
    "zh": ("60d2ba2eb108974b3e2fcb2e28b8cbdf2a8ad41ec7ca20ec6fdc2f07a7a58040", 1012, 1107, 253, 251, 504),
}
_COUNTED = ("rows", "images", "captions", "groups", "true")


def _file(language, sha256):
    folder = f"{language}/annotations"
    folders = ("", f"{folder}/", f"data/{folder}/", "annotations/", "zero_shot/annotations/")
    source, url = f"https://github.com/marvl-challenge/marvl-code, folder data/{folder}/", f"{_RAW}/{folder}"
    return capscore.AnnotationFile.in_folders(f"marvl-{language}.jsonl", folders, source, url, sha256)


class Marvl(capscore.CaptionBenchmark):
    """5,670 rows of a caption, two photos and whether the caption is true of both, in five languages.

    They were written by native speakers of Indonesian, Swahili, Tamil, Turkish and Mandarin Chinese.
    """

    HOMEPAGE = "https://marvl-challenge.github.io/"
    LICENSE = "cc-by-4.0 (texts); photos for non-commercial research only"
    FILES = {language: _file(language, sha256) for language, (sha256, *_) in _LANGUAGES.items()}
    IMAGES = capscore.ImageFolders(
        ("marvl-images", "images", "{config}/images"),
        "https://dataverse.scholarsportal.info/dataset.xhtml?persistentId=doi:10.5683/SP3/42VZ4P, for "
        "non-commercial research; they lie as marvl-images/<language>/images/<concept>/<photo>",
    )
    IMAGE_COLUMNS = ("left_image", "right_image")
    CONFIGS = {language: language for language in _LANGUAGES}
    COUNTS = {
        language: {"test": dict(zip(_COUNTED, counts, strict=True))}
        for language, (_, *counts) in _LANGUAGES.items()
    }
    FIELDS = {"caption": str, "label": bool, "concept": str, "chapter": str, "annotator_id": str, "id": str}

    def rows(self, split):
        language = self.config.name
        for row in self.file(language).jsonl():
            row.choice("language", (language,))
            concept = row.identifier("concept")
            left, right = row.photo("left_img"), row.photo("right_img")
            annotator = row.source.row(row["annotator_info"], line=row.line)
            values = {
                "left_image": _places(language, concept, left),
                "left_image_id": left,
                "right_image": _places(language, concept, right),
                "right_image_id": right,
                "caption": row.caption("caption"),
                "label": row.flag("label"),
                "concept": concept,
                "chapter": row.identifier("chapter"),
                "annotator_id": annotator.identifier("annotator_id"),
                "id": row.identifier("id"),
            }
            yield row.identifier("id"), values

    def count(self, rows):
        captions = defaultdict(list)
        for row in rows:
            captions[row["caption"]].append(row["label"])
        return {
            **super().count(rows),
            "captions": len(captions),
            "groups": sum(len(labels) == 4 and sum(labels) == 2 for labels in captions.values()),
            "true": sum(row["label"] for row in rows),
        }


def _places(language, concept, photo):
    """Possible paths of a photo. Its bare name is not enough: 1-1.jpg is in every language.

    Folders of concepts have names like 10-Köpek, which some programs unpack with letter and accent apart.
    """
    names = [f"{concept}/{photo}", f"{language}/images/{concept}/{photo}"]
    return list(dict.fromkeys([*names, *(unicodedata.normalize("NFD", name) for name in names)]))
