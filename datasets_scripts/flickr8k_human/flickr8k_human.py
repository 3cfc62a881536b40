"""Flickr8k human judgements (Hodosh et al. 2013) as a `datasets` loading script."""

import capscore  # From: capscore
from capscore.benchmarks.data import caption_files


def _file(name, sha256):
    return capscore.AnnotationFile(
        (name, f"Flickr8k_text/{name}", f"Flickr8k_text.zip::{name}"),
        "Flickr8k_text.zip, by request from the authors",
        sha256=sha256,
    )


class Flickr8kHuman(capscore.CaptionBenchmark):
    """Ratings of 5,664 photo-caption pairs by three experts (1 to 4), and of 47,830 by a crowd.

    The crowd's rating is the share of yes. The captions are of other photos of Flickr8k;
    the photo's own captions are references.
    """

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
        ("images", *caption_files.FLICKR8K_FOLDERS, "Images"),
        "Flickr8k_Dataset.zip, by request from the authors",
    )
    CONFIGS = {"expert": "en", "crowdflower": "en"}
    COUNTS = {
        "expert": {
            "test": {
                "rows": 5664,
                "images": 1000,
                "ratings": 16992,
                **{f"ratings of {n}": count for n, count in enumerate((9796, 4997, 1686, 513), start=1)},
            }
        },
        "crowdflower": {"test": {"rows": 47830, "images": 1000}},
    }

    def fields(self):
        columns = {"caption": str, "caption_id": str, "references": [str]}
        if self.config.name == "expert":
            return {**columns, "ratings": [int]}
        return {**columns, "rating": float, "n_yes": int, "n_no": int}

    def rows(self, split):
        captions, by_image = self._captions()
        judged = list(self._expert() if self.config.name == "expert" else self._crowdflower())
        for row, _ in judged:
            if row["caption id"] not in captions or row["photo"] not in by_image:
                raise row.error(f"{row['caption id']} or {row['photo']} is not in Flickr8k.token.txt")
        if self.config.name == "crowdflower":
            # as published: a caption that the crowd judged is not a reference in any of its photo's rows; it
            # is removed once, and if a photo has the text twice the other copy stays
            for row, _ in judged:
                if captions[row["caption id"]] in by_image[row["photo"]]:
                    by_image[row["photo"]].remove(captions[row["caption id"]])
        for row, ratings in judged:
            image, caption = row["photo"], captions[row["caption id"]]
            if self.config.name == "expert" and caption in by_image[image]:
                continue  # 158 pairs, left out by all who report on this set
            values = {
                "image_id": image,
                "caption": caption,
                "caption_id": row["caption id"],
                "references": by_image[image],
                **ratings,
            }
            yield f"{image}|{row['caption id']}", values

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
        for line, caption_id, image, text in caption_files.token_captions(file):
            captions[caption_id] = file.row({"caption": text}, line=line).caption("caption")
            by_image.setdefault(image, []).append(captions[caption_id])
        return captions, by_image

    def _expert(self):
        ratings = ("rating 1", "rating 2", "rating 3")
        for row in self.file("expert").tsv("photo", "caption id", *ratings):
            yield row, {"ratings": [row.integer(name, 1, 4) for name in ratings]}

    def _crowdflower(self):
        for row in self.file("crowdflower").tsv("photo", "caption id", "share of yes", "yes", "no"):
            values = {
                "rating": row.number("share of yes", 0, 1),
                "n_yes": row.integer("yes", 0, 1000),
                "n_no": row.integer("no", 0, 1000),
            }
            yield row, values
