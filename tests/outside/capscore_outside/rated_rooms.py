"""A benchmark: captions of photos of rooms, which people rated from 1 to 5."""

import capscore
from capscore.registry import register_benchmark


@register_benchmark("rated_rooms")
class RatedRooms(capscore.CaptionBenchmark):
    """Captions of photos of rooms, rated from 1 to 5."""

    CITATION = "@misc{rooms, title = {Rated Rooms}, author = {A. Author}, year = {2026}}"
    HOMEPAGE = "https://example.org/rooms"
    LICENSE = "CC0-1.0"
    FILES = {"ratings": capscore.AnnotationFile(("ratings.jsonl",), source="https://example.org/rooms")}
    IMAGES = capscore.ImageFolders(("photos",), source="https://example.org/rooms")
    FIELDS = {"caption": str, "references": [str], "rating": float}
    task = "ratings tau_b tau_c"

    def rows(self, split):
        for row in self.file("ratings").jsonl():
            yield (
                str(row.line),
                {
                    "image_id": row.photo("photo"),
                    "caption": row.caption("caption"),
                    "references": row.captions("references"),
                    "rating": row.number("rating", 1, 5),
                },
            )
