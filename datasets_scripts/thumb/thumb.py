"""THumB 1.0 on COCO (Kasai et al. 2022) as a `datasets` loading script."""

import datasets

import capscore  # From: capscore

_CITATION = """\
@inproceedings{kasai2022thumb,
  title = {Transparent Human Evaluation for Image Captioning},
  author = {Kasai, Jungo and Sakaguchi, Keisuke and Dunagan, Lavinia and Morrison, Jacob and
    Le Bras, Ronan and Choi, Yejin and Smith, Noah A.},
  booktitle = {Proceedings of NAACL}, year = {2022}, url = {https://arxiv.org/abs/2111.08940}}
"""
_RAW = "https://raw.githubusercontent.com/jungokasai/THumB/fd099b4f311d9c4fd24e6c58ef0df038ec1615f3/mscoco"
# the files' names of the three penalties → ours
_PENALTIES = {"Fl": "fluency", "Con": "conciseness", "Inc": "inclusive_language"}


def _file(name, sha256):
    return capscore.AnnotationFile(
        (name, f"mscoco/{name}", f"THumB/mscoco/{name}"),
        url=f"{_RAW}/{name}",
        sha256=sha256,
        published=(sha256,),
        source="https://github.com/jungokasai/THumB, folder mscoco",
    )


class Thumb(capscore.CaptionBenchmark):
    """Captions of people and four systems, rated for precision and recall, with penalties."""

    VERSION = "1.0.0"
    DESCRIPTION = (
        "2,500 captions of 500 photos of COCO, of four systems and of people, rated for precision and recall "
        "(1 to 5), with penalties for fluency, conciseness and inclusive language."
    )
    CITATION = _CITATION
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
    IMAGES = capscore.ImageFolders(("images", "val2014"), source="val2014.zip from https://cocodataset.org")
    BUILDER_CONFIGS = [capscore.BenchmarkConfig(name="default", language="en", description="THumB 1.0")]
    COUNTS = {"default": {"test": {"rows": 2500, "images": 500, "machine": 2000}}}

    def fields(self):
        return {
            "caption": datasets.Value("string"),
            "references": datasets.Sequence(datasets.Value("string")),
            "rating": datasets.Value("float64"),
            "precision": datasets.Value("float64"),
            "recall": datasets.Value("float64"),
            **{name: datasets.Value("float64") for name in _PENALTIES.values()},
            "system": datasets.Value("string"),
            "seg_id": datasets.Value("string"),
            "set_id": datasets.Value("int64"),
            "language": datasets.Value("string"),
        }

    def rows(self, split):
        references = self._references()
        file = self.file("ratings")
        columns = ("SYS", "seg_id", "set_id", "hyp", "image", "P", "R", *_PENALTIES, "human_score")
        seen = {}
        for line, row in file.jsonl(*columns):
            seg_id = file.identifier(row["seg_id"], "'seg_id'", line=line)
            system = file.identifier(row["SYS"], "'SYS'", line=line)
            photo = file.photo(row["image"], "'image'", line=line)
            file.once(seen, f"{seg_id} {system}", "the caption of", line=line)
            if seg_id not in references:
                raise file.error(f"seg_id {seg_id!r} is not in the file of references", line=line)
            precision = file.number(row["P"], "'P'", 1, 5, line=line)
            recall = file.number(row["R"], "'R'", 1, 5, line=line)
            # the file writes "no penalty" as -0.0: adding zero makes it 0.0
            penalties = {
                ours: file.number(row[name], f"'{name}'", -5, 0, line=line) + 0.0
                for name, ours in _PENALTIES.items()
            }
            total = (precision + recall) / 2 + sum(penalties.values())
            rating = file.number(row["human_score"], "'human_score'", -15, 5, line=line)
            if abs(rating - total) > 1e-6:
                raise file.error(
                    f"'human_score' is {rating:g}, but (P + R) / 2 + Fl + Con + Inc is {total:g}", line=line
                )
            yield (
                f"{seg_id}|{system}",
                {
                    "image_id": photo,
                    "caption": file.caption(row["hyp"], "'hyp'", line=line),
                    "references": references[seg_id],
                    "rating": rating,
                    "precision": precision,
                    "recall": recall,
                    **penalties,
                    "system": system,
                    "seg_id": seg_id,
                    "set_id": file.integer(row["set_id"], "'set_id'", 0, 4999, line=line),
                    "language": "en",
                },
            )

    def count(self, rows):
        return {**super().count(rows), "machine": sum(row["system"] != "Human" for row in rows)}

    def _references(self):
        file = self.file("references")
        references = {}
        for line, row in file.jsonl("seg_id", "refs"):
            seg_id = file.identifier(row["seg_id"], "'seg_id'", line=line)
            if seg_id in references:
                raise file.error(f"seg_id {seg_id!r} appears twice", line=line)
            texts = file.items(row["refs"], "'refs'", line=line)
            references[seg_id] = [file.caption(text, "a reference", line=line) for text in texts]
        return references
