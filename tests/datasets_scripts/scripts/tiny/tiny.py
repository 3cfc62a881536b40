"""A benchmark of lines with a photo and a caption, for the tests of what all loading scripts share."""

import capscore


class Tiny(capscore.CaptionBenchmark):
    """Lines of a photo and a caption."""

    CITATION = "@misc{tiny}"
    HOMEPAGE = "https://example.org/tiny"
    FILES = {  # noqa: RUF012
        "captions": capscore.AnnotationFile(("captions.tsv", "text/{config}.tsv", "tiny.zip::captions.tsv"))
    }
    IMAGES = capscore.ImageFolders(("images", "photos/{config}"), "the authors")
    CONFIGS = {"de": "de"}  # noqa: RUF012
    COUNTS = {"de": {"test": {"rows": 3}}}  # noqa: RUF012

    FIELDS = {"caption": str}  # noqa: RUF012

    def rows(self, split):
        for row in self.file("captions").tsv("photo", "caption"):
            yield row["photo"], {"image_id": row["photo"], "caption": row.caption("caption")}
