"""Flickr8k human judgements (Hodosh et al. 2013) as a `datasets` loading script."""

import datasets

import capscore  # From: capscore
from capscore.benchmarks.data.caption_files import token_captions

_CITATION = """\
@article{hodosh-etal-2013-framing,
  title = {Framing Image Description as a Ranking Task: Data, Models and Evaluation Metrics},
  author = {Hodosh, Micah and Young, Peter and Hockenmaier, Julia},
  journal = {Journal of Artificial Intelligence Research}, volume = {47}, pages = {853--899}, year = {2013}}
"""


def _file(name, sha256):
    return capscore.AnnotationFile(
        (name, f"Flickr8k_text/{name}", f"Flickr8k_text.zip::{name}"),
        published=(sha256,),
        source="Flickr8k_text.zip, by request from the authors",
    )


class Flickr8kHuman(capscore.CaptionBenchmark):
    """Captions taken from other photos, rated for a photo: by three experts each, or by a crowd."""

    VERSION = "1.0.0"
    DESCRIPTION = (
        "Human ratings of 5,664 photo-caption pairs by three experts (1 to 4), and of 47,830 pairs by a "
        "crowd (share of yes), on photos of Flickr8k, with the photo's own captions as references."
    )
    CITATION = _CITATION
    HOMEPAGE = "https://hockenmaier.cs.illinois.edu/8k-pictures.html"
    LICENSE = "other: research use; photos by their authors"
    FILES = {
        "expert": _file(
            "ExpertAnnotations.txt", "56c2b1a9e1a46ba73b8b151abd7c3c8b1676fbacadb559d0c2eb6524b166cf4f"
        ),
        "crowdflower": _file(
            "CrowdFlowerAnnotations.txt", "72a74aef443df4848fb1f3c23654ee9e0ca5b528198f68e2efedf11b6ca61260"
        ),
        "captions": _file(
            "Flickr8k.token.txt", "9b8608b02da9040581f1e3d4c8738db1fb6f63314342100432adc3962f77d71a"
        ),
    }
    IMAGES = capscore.ImageFolders(
        ("images", "Flicker8k_Dataset", "Flickr8k_Dataset/Flicker8k_Dataset", "Flickr8k_Dataset", "Images"),
        source="Flickr8k_Dataset.zip, by request from the authors",
    )
    BUILDER_CONFIGS = [
        capscore.BenchmarkConfig(name="expert", language="en", description="three experts, 1 to 4"),
        capscore.BenchmarkConfig(name="crowdflower", language="en", description="a crowd, share of yes"),
    ]
    COUNTS = {
        "expert": {
            "test": {
                "rows": 5664,
                "images": 1000,
                "ratings": 16992,
                "ratings of 1": 9796,
                "ratings of 2": 4997,
                "ratings of 3": 1686,
                "ratings of 4": 513,
            }
        },
        "crowdflower": {"test": {"rows": 47830, "images": 1000}},
    }

    def fields(self):
        columns = {
            "caption": datasets.Value("string"),
            "caption_id": datasets.Value("string"),
            "references": datasets.Sequence(datasets.Value("string")),
        }
        if self.config.name == "expert":
            columns["ratings"] = datasets.Sequence(datasets.Value("int64"))
        else:
            columns["rating"] = datasets.Value("float64")
            columns["n_yes"] = datasets.Value("int64")
            columns["n_no"] = datasets.Value("int64")
        return {**columns, "language": datasets.Value("string")}

    def rows(self, split):
        captions, by_image = self._captions()
        file = self.file(self.config.name)
        judged = list(self._expert(file) if self.config.name == "expert" else self._crowdflower(file))
        for line, image, caption_id, _ in judged:
            if caption_id not in captions:
                raise file.error(f"caption {caption_id} is not in Flickr8k.token.txt", line=line)
            if image not in by_image:
                raise file.error(f"photo {image} has no captions in Flickr8k.token.txt", line=line)
        if self.config.name == "crowdflower":
            # as published: a caption that the crowd judged is not a reference in any of its photo's rows; it
            # is removed once, and if a photo has the text twice the other copy stays
            for _, image, caption_id, _ in judged:
                if captions[caption_id] in by_image[image]:
                    by_image[image].remove(captions[caption_id])
        for _, image, caption_id, ratings in judged:
            if self.config.name == "expert" and captions[caption_id] in by_image[image]:
                continue  # 158 pairs, left out by all who report on this set
            yield (
                f"{image}|{caption_id}",
                {
                    "image_id": image,
                    "caption": captions[caption_id],
                    "caption_id": caption_id,
                    "references": by_image[image],
                    **ratings,
                    "language": "en",
                },
            )

    def count(self, rows):
        counts = super().count(rows)
        if self.config.name == "expert":
            ratings = [rating for row in rows for rating in row["ratings"]]
            counts["ratings"] = len(ratings)
            counts |= {f"ratings of {value}": ratings.count(value) for value in (1, 2, 3, 4)}
        return counts

    def _captions(self):
        file = self.file("captions")
        captions, by_image = {}, {}
        for line, caption_id, image, text in token_captions(file):
            captions[caption_id] = file.caption(text, "the caption", line=line)
            by_image.setdefault(image, []).append(captions[caption_id])
        return captions, by_image

    def _expert(self, file):
        columns = ("photo", "caption id", "rating 1", "rating 2", "rating 3")
        seen = {}
        for line, (image, caption_id, *ratings) in file.tsv(*columns):
            file.once(seen, f"{image} {caption_id}", "the pair", line=line)
            numbers = [file.integer(rating, "a rating", 1, 4, line=line) for rating in ratings]
            yield line, image, caption_id, {"ratings": numbers}

    def _crowdflower(self, file):
        columns = ("photo", "caption id", "share of yes", "yes", "no")
        seen = {}
        for line, (image, caption_id, share, yes, no) in file.tsv(*columns):
            file.once(seen, f"{image} {caption_id}", "the pair", line=line)
            yield (
                line,
                image,
                caption_id,
                {
                    "rating": file.number(share, "the share of yes", 0, 1, line=line),
                    "n_yes": file.integer(yes, "the number of yes", 0, 1000, line=line),
                    "n_no": file.integer(no, "the number of no", 0, 1000, line=line),
                },
            )
