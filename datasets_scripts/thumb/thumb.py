"""THumB 1.0 on COCO (Kasai et al. 2022) as a `datasets` loading script."""

import capscore  # From: capscore

_RAW = "https://raw.githubusercontent.com/jungokasai/THumB/fd099b4f311d9c4fd24e6c58ef0df038ec1615f3/mscoco"
# the files' names of the three penalties → ours
_PENALTIES = {"Fl": "fluency", "Con": "conciseness", "Inc": "inclusive_language"}


def _file(name, sha256):
    source = "https://github.com/jungokasai/THumB, folder mscoco"
    return capscore.AnnotationFile.in_folders(name, ("", "mscoco/", "THumB/mscoco/"), source, _RAW, sha256)


class Thumb(capscore.CaptionBenchmark):
    """2,500 captions of 500 photos of COCO by four systems and people, rated for precision and recall.

    There are penalties for fluency, conciseness and inclusive language.
    """

    HOMEPAGE = "https://github.com/jungokasai/THumB"
    LICENSE = "unknown (the repository states none); photos by their authors"
    FILES = {
        "ratings": _file(
            "mscoco_THumB-1.0.jsonl", "463ebf947c793a541922ead33eb10a885e77c19e9c7d27cf89e034bfff643efa"
        ),
        # JSON lines, despite its name
        "references": _file(
            "mscoco_references.json", "897672f1f53ed33a376237c33fabc89ebbd04b40e9ced82691c2e9c9324d8fdf"
        ),
    }
    IMAGES = capscore.ImageFolders(("images", "val2014"), "val2014.zip from https://cocodataset.org")
    COUNTS = {"default": {"test": {"rows": 2500, "images": 500, "machine": 2000}}}
    FIELDS = {
        "caption": str,
        "references": [str],
        **dict.fromkeys(("rating", "precision", "recall", *_PENALTIES.values()), float),
        "system": str,
        "seg_id": str,
        "set_id": int,
    }

    def rows(self, split):
        references = {}
        for row in self.file("references").jsonl():
            if row.identifier("seg_id") in references:
                raise row.error(f"seg_id {row['seg_id']!r} appears twice")
            references[row.identifier("seg_id")] = row.captions("refs")
        for row in self.file("ratings").jsonl():
            seg_id, system = row.identifier("seg_id"), row.identifier("SYS")
            if seg_id not in references:
                raise row.error(f"seg_id {seg_id!r} is not in the file of references")
            precision, recall = row.number("P", 1, 5), row.number("R", 1, 5)
            # the file writes "no penalty" as -0.0: adding zero makes it 0.0
            penalties = {ours: row.number(name, -5, 0) + 0.0 for name, ours in _PENALTIES.items()}
            total = (precision + recall) / 2 + sum(penalties.values())
            rating = row.number("human_score", -15, 5)
            if abs(rating - total) > 1e-6:
                raise row.error(f"'human_score' is {rating:g}, but (P + R) / 2 + Fl + Con + Inc is {total:g}")
            values = {
                "image_id": row.photo("image"),
                "caption": row.caption("hyp"),
                "references": references[seg_id],
                "rating": rating,
                "precision": precision,
                "recall": recall,
                **penalties,
                "system": system,
                "seg_id": seg_id,
                "set_id": row.integer("set_id", 0, 4999),
            }
            yield f"{seg_id}|{system}", values

    def count(self, rows):
        return {**super().count(rows), "machine": sum(row["system"] != "Human" for row in rows)}
