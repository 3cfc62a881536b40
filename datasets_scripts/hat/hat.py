"""HAT (Petryk et al. 2024) as a `datasets` loading script."""

import capscore  # From: capscore


class Hat(capscore.CaptionBenchmark):
    """400 captions of photos of COCO by captioning systems, with the words that people found hallucinated."""

    HOMEPAGE = "https://github.com/DavidMChan/aloha"
    LICENSE = "unknown (its repository states none); captions of COCO, cc-by-4.0; photos by their authors"
    FILES = {
        "captions": capscore.AnnotationFile(
            ("hat-trainval.json", "data/hat-trainval.json"),
            "https://github.com/DavidMChan/aloha, folder data",
            "https://raw.githubusercontent.com/DavidMChan/aloha/7da6b90ebe392228ea532a84d78eab830c2b3cb2/data/"
            "hat-trainval.json",
            "18abffb627ef6eb8252e21e2e9bfe55d6431f91056467179d7d17ad87ff8969f",
        )
    }
    IMAGES = capscore.ImageFolders(("images", "val2014"), "val2014.zip from https://cocodataset.org")
    COUNTS = {
        "default": {
            "test": {"rows": 400, "images": 385, "hallucinated": 135, "words": 5433, "wrong words": 268}
        }
    }
    FIELDS = {"caption": str, "references": [str], "tokens": [str], "token_labels": [int], "id": str}

    def rows(self, split):
        for row in self.file("captions").json_rows():
            caption = row.caption("caption")
            pairs = [pair for pair in row.array("grounding") if isinstance(pair, list) and len(pair) == 2]
            tokens = [str(word).strip() for word, _ in pairs]
            if " ".join(tokens) != caption or not all(isinstance(label, bool) for _, label in pairs):
                raise row.wrong("grounding", "pairs of each word of the caption and true or false")
            if row.flag("contains_hallucination") != any(label for _, label in pairs):
                raise row.error("'contains_hallucination' contradicts 'grounding'")
            values = {
                "image_id": row.photo("image_path"),
                "caption": caption,
                "references": row.captions("references"),
                "tokens": tokens,
                "token_labels": [int(label) for _, label in pairs],
                "id": row.identifier("sample_id"),
            }
            yield row.identifier("sample_id"), values

    def count(self, rows):
        labels = [row["token_labels"] for row in rows]
        return {
            **super().count(rows),
            "hallucinated": sum(map(any, labels)),
            "words": sum(map(len, labels)),
            "wrong words": sum(map(sum, labels)),
        }
