"""CapTokenEval (Hu et al. 2023) as a `datasets` loading script; the data were never released."""

import datasets

import capscore  # From: capscore

_CITATION = """\
@inproceedings{hu-etal-2023-infometic,
  title = {InfoMetIC: An Informative Metric for Reference-free Image Caption Evaluation},
  author = {Hu, Anwen and Chen, Shizhe and Zhang, Liang and Jin, Qin},
  booktitle = {Proceedings of ACL (Volume 1: Long Papers)}, pages = {3171--3185}, year = {2023},
  url = {https://arxiv.org/abs/2305.06002}}
"""


class CapTokenEval(capscore.CaptionBenchmark):
    """Captions whose words are right or wrong about a photo, and regions that they mention or not."""

    VERSION = "1.0.0"
    DESCRIPTION = (
        "700 imperfect captions of THumB 1.0 on photos of COCO: which of their words are wrong, and which of "
        "20 regions of the photo they mention. Described in the paper, never released."
    )
    CITATION = _CITATION
    HOMEPAGE = "https://github.com/HAWLYQ/InfoMetIC"
    LICENSE = "unknown: never released; photos of COCO by their authors"
    FILES = {
        "pairs": capscore.AnnotationFile(
            ("captokeneval.jsonl",),
            source="its authors: it was never released, and the card says how the file has to look",
        )
    }
    IMAGES = capscore.ImageFolders(("images", "val2014"), source="val2014.zip from https://cocodataset.org")
    BUILDER_CONFIGS = [
        capscore.BenchmarkConfig(name="default", language="en", description="700 pairs, 20 regions each")
    ]
    COUNTS = {"default": {"test": {"rows": 700, "regions": 14000}}}

    def fields(self):
        return {
            "caption": datasets.Value("string"),
            "words": datasets.Sequence(datasets.Value("string")),
            "word_labels": datasets.Sequence(datasets.Value("int64")),
            "semantic": datasets.Sequence(datasets.Value("bool")),
            "regions": datasets.Sequence(datasets.Sequence(datasets.Value("float64"))),
            "region_labels": datasets.Sequence(datasets.Value("int64")),
            "id": datasets.Value("string"),
            "language": datasets.Value("string"),
        }

    def rows(self, split):
        file = self.file("pairs")
        seen = {}
        for line, row in file.jsonl("id", "image", "caption", "words", "regions"):
            words = [
                self._word(file, word, number, line)
                for number, word in enumerate(file.items(row["words"], "'words'", line=line), start=1)
            ]
            regions = [
                self._region(file, region, number, line)
                for number, region in enumerate(file.items(row["regions"], "'regions'", line=line), start=1)
            ]
            if not words or not regions:
                raise file.error(f"it has {len(words)} words and {len(regions)} regions", line=line)
            photo = file.photo(row["image"], "'image'", line=line)
            row_id = file.identifier(row["id"], "'id'", line=line)
            file.once(seen, row_id, "'id'", line=line)
            yield (
                row_id,
                {
                    "image_id": photo,
                    "caption": file.caption(row["caption"], "'caption'", line=line),
                    "words": [text for text, _, _ in words],
                    "word_labels": [int(correct) for _, correct, _ in words],
                    "semantic": [semantic for _, _, semantic in words],
                    "regions": [box for box, _ in regions],
                    "region_labels": [int(mentioned) for _, mentioned in regions],
                    "id": row_id,
                    "language": "en",
                },
            )

    def count(self, rows):
        return {
            **super().count(rows),
            "words": sum(len(row["words"]) for row in rows),
            "semantic words": sum(sum(row["semantic"]) for row in rows),
            "regions": sum(len(row["regions"]) for row in rows),
        }

    @staticmethod
    def _word(file, word, number, line):
        """(the word, whether it is right about the photo, whether it is semantic)."""
        place = {"line": line, "entry": f"word {number}"}
        file.require(word, ("text", "correct", "semantic"), **place)
        return (
            file.identifier(word["text"], "'text'", **place),
            file.flag(word["correct"], "'correct'", **place),
            file.flag(word["semantic"], "'semantic'", **place),
        )

    @staticmethod
    def _region(file, region, number, line):
        """(its box in pixels: left, top, right, bottom; whether the caption mentions it)."""
        place = {"line": line, "entry": f"region {number}"}
        file.require(region, ("box", "mentioned"), **place)
        box = [
            file.number(edge, "an edge of 'box'", 0, 1e5, **place)
            for edge in file.items(region["box"], "'box'", **place)
        ]
        if len(box) != 4 or box[0] >= box[2] or box[1] >= box[3]:
            raise file.error(f"'box' is {region['box']!r}, expected [left, top, right, bottom]", **place)
        return box, file.flag(region["mentioned"], "'mentioned'", **place)
