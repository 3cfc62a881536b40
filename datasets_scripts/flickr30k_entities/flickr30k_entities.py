"""Flickr30k Entities (Plummer et al. 2017) as a `datasets` loading script."""

import capscore  # From: capscore
from capscore.benchmarks.data import annotation_files, caption_files
from capscore.benchmarks.data import flickr30k_entities as entities

_HOMEPAGE = "https://github.com/BryanPlummer/flickr30k_entities"
_RAW = (
    "https://raw.githubusercontent.com/BryanPlummer/flickr30k_entities/"
    "68b3d6f12d1d710f96233f6bd2b6de799d6f4e5b"
)
# our split → the name that the files have for it
_SPLITS = {"train": "train", "validation": "val", "test": "test"}


def _file(name, sha256):
    return capscore.AnnotationFile((name,), _HOMEPAGE, f"{_RAW}/{name}", sha256)


class Flickr30kEntities(capscore.CaptionBenchmark):
    """158,915 captions of 31,783 photos of Flickr30k, and 276 thousand boxes around things that they name.

    Noun phrases that name the same thing are linked.
    """

    HOMEPAGE = _HOMEPAGE
    LICENSE = "other: non-commercial research and education; photos under the terms of Flickr"
    FILES = {
        "annotations": capscore.AnnotationFile(
            ("annotations.zip",),
            f"{_HOMEPAGE}; its folders Annotations and Sentences may also lie there unpacked",
            url=f"{_RAW}/annotations.zip",
            git_blob="95513f3315f98068d0aeb558649ebe09fbeffe95",
        ),
        "train": _file("train.txt", "7fac836ec29afdbda7396fe5473c4156908d60d248cae75892f5a94f08016516"),
        "val": _file("val.txt", "764e1d2b2bae38bde75f8edda435a7ad20d404e83b77233934844f6a7dbccd9a"),
        "test": _file("test.txt", "58c576ebf3af64f346cc3e2ede7eb66523ab172b45c8b42414daa9f2914047e1"),
        "unrelated": _file(
            "UNRELATED_CAPTIONS", "160c7f08433af2a24f762e936c54b276b082f88a8e8aa3a1621ef30a3758d39d"
        ),
    }
    IMAGES = capscore.ImageFolders(
        (*caption_files.FLICKR30K_FOLDERS, "Images"),
        "Flickr30k, by request from its authors (flickr30k-images.tar.gz)",
    )
    SPLITS = tuple(_SPLITS)
    COUNTS = {
        "default": {
            split: {"rows": photos, "images": photos, "captions": 5 * photos}
            for split, photos in (("train", 29783), ("validation", 1000), ("test", 1000))
        }
    }
    FIELDS = {
        "references": [str],
        "unrelated": [int],
        "phrases": [{"reference": int, "first_word": int, "text": str, "chain": str, "types": [str]}],
        "boxes": [{"chain": str, **dict.fromkeys(entities.CORNERS, int)}],
        "scenes": [str],
        "without_box": [str],
        "width": int,
        "height": int,
    }

    def split_files(self, split):
        return [_SPLITS[split]]

    def rows(self, split):
        unrelated = self._unrelated()
        photos = self.file(_SPLITS[split])
        with entities.annotation_folder(self._annotations()) as find:
            for photo in entities.listed_photos(photos):
                references, phrases = entities.read_sentences(find(f"Sentences/{photo}.txt"))
                values = {
                    "image_id": f"{photo}.jpg",
                    "references": references,
                    "unrelated": None if unrelated is None else unrelated[photo],
                    "phrases": phrases,
                    **entities.read_annotation(find(f"Annotations/{photo}.xml")),
                }
                yield photo, values

    def count(self, rows):
        corners = {(row["image_id"], *map(box.get, entities.CORNERS)) for row in rows for box in row["boxes"]}
        return {
            **super().count(rows),
            "phrases": sum(len(row["phrases"]) for row in rows),
            "boxes": len(corners),
        }

    def _annotations(self):
        """The folder with Sentences and Annotations, or the archive of it."""
        for place in ("annotations", "annotations/annotations", ".") if self.data_dir else ():
            if (self.data_dir / place / "Sentences").is_dir():
                return annotation_files.AnnotationSource(self.data_dir / place)
        return self.file("annotations")

    def _unrelated(self):
        """Photo → which of its captions, from 0, are unrelated to it; None without the list."""
        file = self.file("unrelated") if self.data_dir is None else self.find("unrelated")
        return None if file is None else entities.unrelated_captions(file)
