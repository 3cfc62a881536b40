"""VALSE (Parcalabescu et al. 2022) as a `datasets` loading script."""

import capscore  # From: capscore

_RAW = "https://raw.githubusercontent.com/Heidelberg-NLP/VALSE/2152d90d4aecd11f7f74cf03420abcb63efff9c5/data"
# piece → SHA-256 of its file
_PIECES = {
    "existence": "b20fca52eba86c544083d423345a2e28e60e601ef61c56c9ac1c73a95a3a6d18",
    "plurals": "43760db7fc8c6f2a21d3536d52f81539cb101f3370e8d2effb09de43d91486a3",
    "counting-hard": "2cc83615653675fb50914ce2d8ab4041cce1278eed7ac0abf6f319dbce5c967a",
    "counting-small-quant": "ca0645885b05738f6c6df2dffec70c669aaff64114017f33425821faab4bc374",
    "counting-adversarial": "0d23529308449c98b37a91048a865a5f377325eceb9accd73f2947bc512d12b0",
    "relations": "061fc557459c318ccd6734d07c21cfa5bf5ae87aa6b1110b8f5ec3d6b2911043",
    "action-replacement": "336ba134f29a3475d0508809067218909a6bd30f079c59309d19244eccb7917f",
    "actant-swap": "915294ac3ade7c4c067b1c6841d0db93b60cb8a61ac8e2fb6b125c2a1c0ca93a",
    "coreference-standard": "dae1d9eb018acb54e29a1c4983f3563f86ec3b6beb4037a261564270b0473e95",
    "coreference-hard": "ef54d8d971d9e0f264e07de08d9915c6e3d6129a2f239888f2b938f5c2eb4139",
    "foil-it": "6f6f0d7494271ed28f6e6f075c3ba36ba1bc45d00ecf7403920f060915130460",
}


def _file(piece, sha256):
    source = "https://github.com/Heidelberg-NLP/VALSE, folder data"
    folders = ("", "data/", "VALSE/data/")
    return capscore.AnnotationFile.in_folders(f"{piece}.json", folders, source, _RAW, sha256)


class Valse(capscore.CaptionBenchmark):
    """8,782 captions, each with a foil, in eleven pieces for six linguistic phenomena and FOIL it!

    People found 7,702 of them valid: two of three annotators chose the caption, and not the foil.
    """

    HOMEPAGE = "https://github.com/Heidelberg-NLP/VALSE"
    LICENSE = "mit; photos by their authors"
    FILES = {piece: _file(piece, sha256) for piece, sha256 in _PIECES.items()}
    # folders as unpacked from the archives; their photos have distinct names
    IMAGES = capscore.ImageFolders(
        (
            *("images", "visual7w/images", "visual7w", "images_512", "SWiG/images_512"),
            *("val2017", "VisualDialog_val2018", "train2014", "val2014"),
        ),
        "the data sets that VALSE draws on: Visual7W (visual7w_images.zip), SWiG (images_512.zip), "
        "VisDial v1.0 (VisualDialog_val2018.zip), COCO (val2017.zip, train2014.zip, val2014.zip)",
    )
    CONFIGS = dict.fromkeys(("all", *_PIECES), "en")
    DEFAULT_CONFIG_NAME = "all"
    COUNTS = {
        name: {"test": {"rows": rows, "images": photos, "valid": valid}}
        for name, rows, photos, valid in (
            ("all", 8782, 6813, 7702),
            ("existence", 534, 534, 505),
            ("plurals", 1000, 939, 851),
            ("counting-hard", 1000, 1000, 868),
            ("counting-small-quant", 1000, 1000, 900),
            ("counting-adversarial", 756, 756, 691),
            ("relations", 614, 546, 535),
            ("action-replacement", 779, 779, 648),
            ("actant-swap", 1042, 1042, 949),
            ("coreference-standard", 916, 916, 708),
            ("coreference-hard", 141, 141, 104),
            ("foil-it", 1000, 992, 943),
        )
    }
    FIELDS = {
        **dict.fromkeys(("caption", "foil", "piece", "phenomenon"), str),
        "valid": bool,
        **dict.fromkeys(("votes_caption", "votes_foil", "votes_other"), int),
        **{name: [str] for name in ("classes", "classes_foil")},
        **dict.fromkeys(("source", "source_split", "source_id", "id"), str),
    }

    def rows(self, split):
        for piece in _PIECES if self.config.name == "all" else [self.config.name]:
            file = self.file(piece)
            for name, values in file.json().values.items():
                # names are unique in one file only
                yield f"{piece}|{name}", _row(file.row(values, entry=repr(name)), piece, name)

    def count(self, rows):
        return {**super().count(rows), "valid": sum(row["valid"] for row in rows)}


def _row(row, piece, name):
    mturk = row.source.row(row["mturk"], entry=row.entry)
    votes = {choice: mturk.integer(choice, 0, 3) for choice in ("caption", "foil", "other")}
    return {
        "image_id": row.photo("image_file"),
        # in 24 rows, none of them valid, the foil is the caption itself: they stay
        "caption": row.caption("caption"),
        "foil": row.caption("foil"),
        "piece": piece,
        "phenomenon": row.identifier("linguistic_phenomena"),
        "valid": votes["caption"] >= 2,
        **{f"votes_{choice}": count for choice, count in votes.items()},
        "classes": _words(row["classes"]),
        "classes_foil": _words(row["classes_foil"]),
        "source": row.identifier("dataset"),
        "source_split": row.identifier("original_split"),
        # a number or a string; the two pieces on coreference have none
        "source_id": str(row.get("dataset_idx", "")),
        "id": name,
    }


def _words(value):
    """The differing part of a caption or its foil: a word, a number, or a list of them."""
    if value is False:  # one row of plurals has no plural to name
        return []
    return [str(word) for word in (value if isinstance(value, list) else [value])]
