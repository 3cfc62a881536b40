"""CapTokenEval (Hu et al. 2023) as a `datasets` loading script; the data were never released."""

import capscore  # From: capscore


class CapTokenEval(capscore.CaptionBenchmark):
    """700 imperfect captions of THumB 1.0 on photos of COCO, with the words that are wrong.

    Each photo has 20 regions, which a caption mentions or not. Described in the paper, never released.
    """

    HOMEPAGE = "https://github.com/HAWLYQ/InfoMetIC"
    LICENSE = "unknown: never released; photos of COCO by their authors"
    FILES = {
        "pairs": capscore.AnnotationFile(
            ("captokeneval.jsonl",),
            "its authors: it was never released, and the card says how the file has to look",
        )
    }
    IMAGES = capscore.ImageFolders(("images", "val2014"), "val2014.zip from https://cocodataset.org")
    COUNTS = {"default": {"test": {"rows": 700, "regions": 14000}}}
    FIELDS = {
        "caption": str,
        "words": [str],
        "word_labels": [int],
        "semantic": [bool],
        "regions": [[float]],
        "region_labels": [int],
        "id": str,
    }

    def rows(self, split):
        for row in self.file("pairs").jsonl():
            words, regions = list(row.rows("words")), list(row.rows("regions"))
            if not words or not regions:
                raise row.error(f"it has {len(words)} words and {len(regions)} regions")
            values = {
                "image_id": row.photo("image"),
                "caption": row.caption("caption"),
                "words": [word.identifier("text") for word in words],
                "word_labels": [int(word.flag("correct")) for word in words],
                "semantic": [word.flag("semantic") for word in words],
                "regions": [_box(region) for region in regions],
                "region_labels": [int(region.flag("mentioned")) for region in regions],
                "id": row.identifier("id"),
            }
            yield row.identifier("id"), values

    def count(self, rows):
        return {
            **super().count(rows),
            "words": sum(len(row["words"]) for row in rows),
            "semantic words": sum(sum(row["semantic"]) for row in rows),
            "regions": sum(len(row["regions"]) for row in rows),
        }


def _box(region):
    """Box in pixels: left, top, right, bottom."""
    edges = dict(enumerate(region.array("box")))
    row = region.source.row(edges, line=region.line, entry=f"{region.entry}.box")
    box = [row.number(edge, 0, 1e5) for edge in edges]
    if len(box) != 4 or box[0] >= box[2] or box[1] >= box[3]:
        raise region.wrong("box", "[left, top, right, bottom]")
    return box
