"""CapArena (Cheng et al. 2025) as a `datasets` loading script."""

import capscore  # From: capscore

_CODE = "https://github.com/njucckevin/CapArena"
_LEVELS = ("level 1", "level 2", "level 3", "level 4")
_TIES = ("tie", "tie (bothbad)", "equal")


class Caparena(capscore.CaptionBenchmark):
    """6,523 battles of two detailed captions of a photo by 14 models and a person, each judged by people."""

    HOMEPAGE = "https://caparena.github.io"
    LICENSE = "unknown; photos of DOCCI, CC BY 4.0"
    FILES = {
        "battles": capscore.AnnotationFile.in_folders(
            "caparena_annots_eval.json",
            ("", "eval/", "data/eval/"),
            f"the human pair-wise battle annotation that {_CODE} links to",
        )
    }
    IMAGES = capscore.ImageFolders(
        ("images", "all_images", "data/eval/images"), f"the images of DOCCI that {_CODE} links to"
    )
    COUNTS = {"default": {"test": {"rows": 6523}}}
    FIELDS = {
        "captions": [str],
        "systems": [str],
        "winner": str,
        "level": int,
        "in_400": bool,
        "references": [str],
    }

    def rows(self, split):
        for number, battle in enumerate(self.file("battles").json_rows()):
            systems = [battle.identifier("source1"), battle.identifier("source2")]
            if systems[0] == systems[1]:
                raise battle.wrong("source2", f"another system than {systems[0]!r}")
            winner = battle.choice("winner", (*systems, *_TIES))
            level = 0  # battles with a person's caption may have none
            if battle.get("cluster"):
                level = 1 + _LEVELS.index(battle.choice("cluster", _LEVELS))
            columns = {
                "image_id": battle.photo("img"),
                "captions": [battle.caption("caption1"), battle.caption("caption2")],
                "systems": systems,
                "winner": ("first", "second")[systems.index(winner)] if winner in systems else "tie",
                "level": level,
                "in_400": bool(battle.get("in-400")),
                "references": [battle.caption("ref")] if battle.get("ref") else [],
            }
            yield f"{number}", columns
