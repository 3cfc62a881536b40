"""A benchmark: captions of photos of rooms, which people rated from 1 to 5."""

import datasets

import capscore
from capscore.benchmarks.tasks import RatingTask
from capscore.registry import register_benchmark


@register_benchmark("rated_rooms")
class RatedRooms(capscore.CaptionBenchmark):
    """Captions of photos of rooms, rated from 1 to 5."""

    VERSION = "1.0.0"
    DESCRIPTION = "Captions of photos of rooms, rated from 1 to 5."
    CITATION = "@misc{rooms, title = {Rated Rooms}, author = {A. Author}, year = {2026}}"
    HOMEPAGE = "https://example.org/rooms"
    LICENSE = "CC0-1.0"
    FILES = {"ratings": capscore.AnnotationFile(("ratings.jsonl",), source="https://example.org/rooms")}
    IMAGES = capscore.ImageFolders(("photos",), source="https://example.org/rooms")
    BUILDER_CONFIGS = [capscore.BenchmarkConfig(name="default", language="en", description="All rooms")]
    task = RatingTask("tau_b", "tau_c")

    def fields(self):
        return {
            "caption": datasets.Value("string"),
            "references": datasets.Sequence(datasets.Value("string")),
            "rating": datasets.Value("float64"),
            "language": datasets.Value("string"),
        }

    def rows(self, split):
        file = self.file("ratings")
        for line, row in file.jsonl("photo", "caption", "references", "rating"):
            yield (
                str(line),
                {
                    "image_id": file.photo(row["photo"], "'photo'", line=line),
                    "caption": file.caption(row["caption"], "'caption'", line=line),
                    "references": row["references"],
                    "rating": file.number(row["rating"], "'rating'", 1, 5, line=line),
                    "language": "en",
                },
            )
