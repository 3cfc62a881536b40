"""HAT (Petryk et al. 2024) as a `datasets` loading script."""

import datasets

import capscore  # From: capscore

_CITATION = """\
@inproceedings{petryk2024aloha,
  title = {{ALOHa}: A New Measure for Hallucination in Captioning Models},
  author = {Petryk, Suzanne and Chan, David M. and Kachinthaya, Anish and Zou, Haodi and Canny, John and
    Gonzalez, Joseph E. and Darrell, Trevor},
  booktitle = {NAACL}, year = {2024}, url = {https://arxiv.org/abs/2404.02904}}
"""
_SHA256 = "18abffb627ef6eb8252e21e2e9bfe55d6431f91056467179d7d17ad87ff8969f"


class Hat(capscore.CaptionBenchmark):
    """Captions by machines, with the words that people found to be hallucinated."""

    VERSION = "1.0.0"
    DESCRIPTION = (
        "400 captions of photos of COCO by captioning systems; for each of their words, whether it describes "
        "something that is not in the photo."
    )
    CITATION = _CITATION
    HOMEPAGE = "https://github.com/DavidMChan/aloha"
    LICENSE = "unknown (its repository states none); captions of COCO, cc-by-4.0; photos by their authors"
    FILES = {
        "captions": capscore.AnnotationFile(
            ("hat-trainval.json", "data/hat-trainval.json"),
            url=(
                "https://raw.githubusercontent.com/DavidMChan/aloha/7da6b90ebe392228ea532a84d78eab830c2b3cb2/"
                "data/hat-trainval.json"
            ),
            sha256=_SHA256,
            published=(_SHA256,),
            source="https://github.com/DavidMChan/aloha, folder data",
        )
    }
    IMAGES = capscore.ImageFolders(("images", "val2014"), source="val2014.zip from https://cocodataset.org")
    BUILDER_CONFIGS = [
        capscore.BenchmarkConfig(name="default", language="en", description="captions with marked words")
    ]
    COUNTS = {
        "default": {
            "test": {"rows": 400, "images": 385, "hallucinated": 135, "words": 5433, "wrong words": 268}
        }
    }

    def fields(self):
        return {
            "caption": datasets.Value("string"),
            "references": datasets.Sequence(datasets.Value("string")),
            "tokens": datasets.Sequence(datasets.Value("string")),
            "token_labels": datasets.Sequence(datasets.Value("int64")),
            "id": datasets.Value("string"),
            "language": datasets.Value("string"),
        }

    def rows(self, split):
        file = self.file("captions")
        seen = {}
        for number, row in enumerate(file.items(file.json(), "the document")):
            file.require(
                row,
                ["sample_id", "caption", "grounding", "contains_hallucination", "image_path", "references"],
                entry=number,
            )
            row_id = file.identifier(row["sample_id"], "'sample_id'", entry=number)
            file.once(seen, row_id, "'sample_id'", entry=number)
            caption = file.caption(row["caption"], "'caption'", entry=number)
            tokens, labels = self._grounding(file, row["grounding"], number)
            if " ".join(tokens) != caption:
                raise file.error(
                    f"the words of 'grounding' are {' '.join(tokens)!r:.80}, and the caption is "
                    f"{caption!r:.80}",
                    entry=number,
                )
            if any(labels) != file.flag(
                row["contains_hallucination"], "'contains_hallucination'", entry=number
            ):
                raise file.error("'contains_hallucination' contradicts 'grounding'", entry=number)
            references = file.items(row["references"], "'references'", entry=number)
            yield (
                row_id,
                {
                    "image_id": file.photo(row["image_path"], "'image_path'", entry=number),
                    "caption": caption,
                    "references": [file.caption(text, "a reference", entry=number) for text in references],
                    "tokens": tokens,
                    "token_labels": labels,
                    "id": row_id,
                    "language": "en",
                },
            )

    def count(self, rows):
        labels = [row["token_labels"] for row in rows]
        return {
            **super().count(rows),
            "hallucinated": sum(any(own) for own in labels),
            "words": sum(map(len, labels)),
            "wrong words": sum(map(sum, labels)),
        }

    @staticmethod
    def _grounding(file, grounding, entry):
        """The words of a caption, and 1 for each that is hallucinated."""
        tokens, labels = [], []
        for pair in file.items(grounding, "'grounding'", entry=entry):
            if not isinstance(pair, list) or len(pair) != 2:
                raise file.error(
                    f"'grounding' has {pair!r:.60}, expected a word and true or false", entry=entry
                )
            tokens.append(file.identifier(pair[0], "a word of 'grounding'", entry=entry))
            labels.append(int(file.flag(pair[1], "a label of 'grounding'", entry=entry)))
        return tokens, labels
