"""MaRVL (Liu et al. 2021) as a `datasets` loading script."""

import unicodedata
from collections import defaultdict

import datasets

import capscore  # From: capscore

_CITATION = """\
@inproceedings{liu-etal-2021-visually,
  title = {Visually Grounded Reasoning across Languages and Cultures},
  author = {Liu, Fangyu and Bugliarello, Emanuele and Ponti, Edoardo Maria and Reddy, Siva and
    Collier, Nigel and Elliott, Desmond},
  booktitle = {Proceedings of EMNLP}, pages = {10467--10485}, year = {2021},
  url = {https://aclanthology.org/2021.emnlp-main.818}}
"""
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
_FIELDS = (
    "concept",
    "language",
    "caption",
    "left_img",
    "right_img",
    "annotator_info",
    "chapter",
    "id",
    "label",
)


def _file(language, sha256):
    name = f"marvl-{language}.jsonl"
    places = (
        "",
        f"{language}/annotations/",
        f"data/{language}/annotations/",
        "annotations/",
        "zero_shot/annotations/",
    )
    return capscore.AnnotationFile(
        tuple(f"{place}{name}" for place in places),
        url=f"{_RAW}/{language}/annotations/{name}",
        sha256=sha256,
        published=(sha256,),
        source=f"https://github.com/marvl-challenge/marvl-code, folder data/{language}/annotations",
    )


class Marvl(capscore.CaptionBenchmark):
    """Captions that are true of some pairs of photos and false of others, in five languages."""

    VERSION = "1.0.0"
    DESCRIPTION = (
        "5,670 rows of a caption, two photos and whether the caption is true of the two, written and chosen "
        "by native speakers of Indonesian, Swahili, Tamil, Turkish and Mandarin Chinese."
    )
    CITATION = _CITATION
    HOMEPAGE = "https://marvl-challenge.github.io/"
    LICENSE = "cc-by-4.0 (texts); photos for non-commercial research only"
    FILES = {language: _file(language, sha256) for language, (sha256, *_) in _LANGUAGES.items()}
    IMAGES = capscore.ImageFolders(
        ("marvl-images", "images", "{config}/images"),
        source=(
            "https://dataverse.scholarsportal.info/dataset.xhtml?persistentId=doi:10.5683/SP3/42VZ4P, for "
            "non-commercial research; they lie as marvl-images/<language>/images/<concept>/<photo>"
        ),
    )
    BUILDER_CONFIGS = [
        capscore.BenchmarkConfig(name=language, language=language, description=f"captions in {language}")
        for language in _LANGUAGES
    ]
    COUNTS = {
        language: {"test": dict(zip(_COUNTED, counts, strict=True))}
        for language, (_, *counts) in _LANGUAGES.items()
    }

    @property
    def image_columns(self):
        return ("left_image", "right_image")

    def fields(self):
        return {
            "left_image": datasets.Image(),
            "left_image_id": datasets.Value("string"),
            "right_image": datasets.Image(),
            "right_image_id": datasets.Value("string"),
            "caption": datasets.Value("string"),
            "label": datasets.Value("bool"),
            "concept": datasets.Value("string"),
            "chapter": datasets.Value("string"),
            "annotator_id": datasets.Value("string"),
            "id": datasets.Value("string"),
            "language": datasets.Value("string"),
        }

    def rows(self, split):
        language = self.config.name
        file = self.file(language)
        seen = {}
        for line, row in file.jsonl(*_FIELDS):
            if row["language"] != language:
                raise file.error(f"'language' is {row['language']!r:.60}, expected {language!r}", line=line)
            file.require(row["annotator_info"], ("annotator_id",), line=line)
            concept = file.identifier(row["concept"], "'concept'", line=line)
            left = file.photo(row["left_img"], "'left_img'", line=line)
            right = file.photo(row["right_img"], "'right_img'", line=line)
            row_id = file.identifier(row["id"], "'id'", line=line)
            file.once(seen, row_id, "'id'", line=line)
            yield (
                row_id,
                {
                    "left_image": _places(language, concept, left),
                    "left_image_id": left,
                    "right_image": _places(language, concept, right),
                    "right_image_id": right,
                    "caption": file.caption(row["caption"], "'caption'", line=line),
                    "label": file.flag(row["label"], "'label'", line=line),
                    "concept": concept,
                    "chapter": file.identifier(row["chapter"], "'chapter'", line=line),
                    "annotator_id": file.identifier(
                        row["annotator_info"]["annotator_id"], "'annotator_id'", line=line
                    ),
                    "id": row_id,
                    "language": language,
                },
            )

    def count(self, rows):
        captions = defaultdict(list)
        for row in rows:
            captions[row["caption"]].append(row["label"])
        return {
            "rows": len(rows),
            "images": len({row[column] for row in rows for column in ("left_image_id", "right_image_id")}),
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
