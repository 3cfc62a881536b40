"""nocaps (Agrawal et al. 2019) and nocaps-FOIL (Petryk et al. 2024) as a `datasets` loading script."""

from collections import Counter

import capscore  # From: capscore
from capscore.benchmarks.data import caption_files

# domain → published number of its photos in the validation set
_DOMAINS = {"in-domain": 648, "near-domain": 2938, "out-domain": 914}
# configuration → the domains in it
_CONFIGS = {**{domain.removesuffix("-domain"): (domain,) for domain in _DOMAINS}, "all": tuple(_DOMAINS)}


def _counts(domains):
    photos = sum(_DOMAINS[domain] for domain in domains)
    return {"rows": photos, "images": photos, "captions": 10 * photos}


class Nocaps(capscore.CaptionBenchmark):
    """45,000 captions of 4,500 photos of Open Images, by whether COCO's captions name their objects.

    nocaps-FOIL has 2,500 of the captions with one word replaced so that they are wrong.
    """

    HOMEPAGE = "https://nocaps.org/"
    LICENSE = "cc-by-2.0; nocaps-FOIL: unknown (its repository states none); photos of Open Images, cc-by-2.0"
    FILES = {
        "captions": capscore.AnnotationFile(
            ("nocaps_val_4500_captions.json", "annotations/nocaps_val_4500_captions.json"),
            "https://nocaps.s3.amazonaws.com/nocaps_val_4500_captions.json (https://nocaps.org/download)",
        ),
        "foil": capscore.AnnotationFile(
            ("nocaps-val-foil.json", "data/nocaps-val-foil.json"),
            "https://github.com/DavidMChan/aloha, folder data",
            "https://raw.githubusercontent.com/DavidMChan/aloha/7da6b90ebe392228ea532a84d78eab830c2b3cb2/data/"
            "nocaps-val-foil.json",
            "ec15966bbaf4ba7faa5cb3eb6a5ebbd4b38bc3345de42b7f0e5f6cc333f642ca",
        ),
    }
    IMAGES = capscore.ImageFolders(
        ("images", "val", "validation"),
        "the addresses in the captions' file, https://s3.amazonaws.com/nocaps/val/<photo>.jpg",
    )
    CONFIGS = dict.fromkeys((*_CONFIGS, "foil"), "en")
    SPLITS = ("validation",)
    COUNTS = {
        **{config: {"validation": _counts(domains)} for config, domains in _CONFIGS.items()},
        "foil": {
            "validation": {
                **{"rows": 2500, "images": 2500, "captions": 22496},
                **dict(zip(_DOMAINS, (245, 1494, 761), strict=True)),
            }
        },
    }

    def fields(self):
        if self.config.name != "foil":
            return {"references": [str], "id": int, "domain": str}
        texts = {"caption": str, "foil": str, "references": [str], "word": str, "foil_word": str}
        return {**texts, "domain": str}

    def rows(self, split):
        return self._foils() if self.config.name == "foil" else self._captions()

    def count(self, rows):
        counts = super().count(rows)
        if self.config.name == "foil":
            domains = Counter(row["domain"] for row in rows)
            counts["captions"] = sum(len(row["references"]) for row in rows)
            counts |= {domain: domains[domain] for domain in _DOMAINS}
        return counts

    def _captions(self):
        for image, captions in caption_files.photos_with_captions(self.file("captions")):
            domain = image.choice("domain", _DOMAINS)
            if domain not in _CONFIGS[self.config.name]:
                continue
            if not captions:
                raise image.error("has no captions")
            photo = image.identifier("file_name")
            values = {
                "image_id": photo,
                "references": [caption.caption("caption") for caption in captions],
                "id": image["id"],
                "domain": domain,
            }
            yield photo, values

    def _foils(self):
        for row in self.file("foil").json_rows():
            photo, caption, foil = row.identifier("image_path"), row.caption("baseline"), row.caption("foil")
            words = row.captions("replacement")
            if caption == foil or len(words) != 2:
                raise row.error("'foil' is the same as 'baseline', or 'replacement' is not two words")
            values = {
                "image_id": photo,
                "caption": caption,
                "foil": foil,
                "references": row.captions("references"),
                "word": words[0],
                "foil_word": words[1],
                "domain": row.choice("domain", _DOMAINS),
            }
            yield photo, values
