"""A benchmark of lines with a photo and a caption, for the tests of what all loading scripts share."""

import datasets

import capscore


class Tiny(capscore.CaptionBenchmark):
    """Lines of a photo and a caption."""

    VERSION = "1.0.0"
    HOMEPAGE = "https://example.org/tiny"
    FILES = {  # noqa: RUF012
        "captions": capscore.AnnotationFile(("captions.tsv", "text/{config}.tsv", "tiny.zip::captions.tsv"))
    }
    IMAGES = capscore.ImageFolders(("images", "photos/{config}"), source="the authors")
    BUILDER_CONFIGS = [capscore.BenchmarkConfig(name="de", language="de")]  # noqa: RUF012
    COUNTS = {"de": {"test": {"rows": 3}}}  # noqa: RUF012

    def fields(self):
        return {"caption": datasets.Value("string")}

    def rows(self, split):
        file = self.file("captions")
        for line, (photo, caption) in file.tsv("photo", "caption"):
            yield photo, {"image_id": photo, "caption": file.caption(caption, "the caption", line=line)}
