"""Measures whether InfoMetIC's marks can be believed, on photos that no training and no calibration has seen.

    python -m weights.measuring.believable_marks --rows judged.jsonl --data DATA --photos PHOTOS \
        [--boxes COCO] [--output FILE]

In: rows of `making.mark_calibration.rows`, of which those of the split "measure" are used; a folder with
`xflickrco`, for Spanish; a folder of Flickr8k's photos; optionally a folder in COCO's layout
(`annotations/instances_NAME.json`, `annotations/captions_NAME.json` and photos), for regions. Out: for each
language

- planted words: how often the planted word is the least likely of its caption, and how often it is marked;
- captions of another photo: how many are said not to fit, or have most of their words marked;
- right captions: how many are said not to fit, share of their words that are marked, captions without any
mark,
  the same for captions of twelve and more semantic words, which are captions of one photo joined;
- the calibration error of p_correct, of right words and of planted ones in captions that are judged word by
word;
- how many words it cannot tell, by class;
- recall that falls when a clause is dropped, precision that falls when a noun is swapped.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from capscore.errors import InputError
from capscore.files.whole_file import write_text
from capscore.metrics.loading import default_backbone
from weights.making.mark_calibration.curves import expected_calibration_error

from .planted_errors import Row, is_lowest, read_shared_photos
from .planted_words import LANGUAGES
from .planting import KINDS, Planted, drop_clause, plant, shuffled

if TYPE_CHECKING:
    from capscore.metrics.base import Scores
    from capscore.metrics.infometic import InfoMetIC

# Right captions of each photo and language that are measured.
_CAPTIONS = 2
# Number of semantic words from which a caption is long.
_LONG = 12
# Share of a caption's words that must be marked for it to count as found.
_MOST = 0.5


def read_measured(rows: Path) -> dict[str, dict[str, list[str]]]:
    """File of each measured photo → language → captions.

    Raises:
        InputError: the file is missing, or holds no measured photo.
    """
    if not rows.is_file():
        raise InputError(
            f"{rows} is missing; make it with weights.making.mark_calibration.rows",
            field="rows",
        )
    found: dict[str, dict[str, list[str]]] = {}
    with rows.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if row["split"] == "measure":
                own: dict[str, list[str]] = defaultdict(list)
                for caption, language, _ in row["captions"]:
                    own[language].append(caption)
                found[row["file"]] = dict(own)
    if not found:
        raise InputError(f"{rows} has no photo of the split 'measure'", field="rows")
    return found


class LanguageCases:
    """What is measured of one language.

    Args:
        photos: File → language → captions.
        language: The language.
        most: Most photos.
        seed: Seed for all draws.
    """

    def __init__(
        self, photos: Mapping[str, Mapping[str, Sequence[str]]], language: str, most: int, seed: int
    ):
        self.language = language
        files = [file for file in sorted(photos) if photos[file].get(language)]
        random.Random(f"{seed} {language}").shuffle(files)
        self.files = files[:most]
        self.right: list[Row] = []
        self.long: list[Row] = []
        self.planted: list[tuple[str, Planted]] = []
        self.dropped: list[tuple[str, str, str]] = []
        chosen = []
        for file in self.files:
            own = photos[file][language]
            chances = {
                name: random.Random(f"{seed} {Path(file).name} {language}") for name in (*KINDS, "caption")
            }
            mixed = shuffled(own, chances["caption"])
            self.right += [Row(file, caption, language) for caption in mixed[:_CAPTIONS]]
            chosen.append(mixed[0])
            if len(mixed) > 2:
                self.long.append(Row(file, _joined(mixed[:3], language), language))
            if language not in LANGUAGES:
                continue
            for kind in KINDS:
                found = plant(photos[file], language, kind, chances[kind])
                if found:
                    self.planted.append((file, found))
            for caption in mixed:
                shorter = drop_clause(caption, language)
                if shorter:
                    self.dropped.append((file, caption, shorter))
                    break
        # the caption of the photo that follows in the list, which is in random order
        self.others = [
            Row(file, caption, language)
            for file, caption in zip(self.files, [*chosen[1:], *chosen[:1]], strict=True)
        ]

    def rows(self) -> list[Row]:
        """Every row to score, each once."""
        planted = [
            Row(file, text, self.language)
            for file, found in self.planted
            for text in (found.original, found.caption)
        ]
        dropped = [Row(file, text, self.language) for file, *both in self.dropped for text in both]
        return list(dict.fromkeys([*self.right, *self.long, *self.others, *planted, *dropped]))


def _joined(captions: Sequence[str], language: str) -> str:
    if language in ("zh", "ja"):
        return "。".join(caption.rstrip("。 .") for caption in captions) + "。"
    return ". ".join(caption.rstrip(" .") for caption in captions) + "."


def judged(detail: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The words that have a probability, or, with marks as published, a score."""
    return [word for word in detail["words"] if word["semantic"] and word["score"] is not None]


def _values(words: Sequence[Mapping[str, Any]]) -> list[float]:
    """How right each word is: by probability, where any word has one; a word without is then the rightest."""
    if all(word["p_correct"] is None for word in words):
        return [float(word["score"]) for word in words]
    return [1.0 if word["p_correct"] is None else float(word["p_correct"]) for word in words]


def report(cases: LanguageCases, scored: Mapping[Row, tuple[dict[str, Any], float, float]]) -> dict[str, Any]:
    """Shares of one language, ready for JSON; None where there is nothing to count."""
    language = cases.language
    kinds = {}
    right_p: list[float] = []
    wrong_p: list[float] = []
    for kind in KINDS:
        own = [(file, found) for file, found in cases.planted if found.kind == kind]
        lowest, marked, unsure, unfit = [], [], [], []
        for file, found in own:
            detail = scored[Row(file, found.caption, language)][0]
            words = judged(detail)
            here = [word["start"] < found.end and word["end"] > found.start for word in words]
            lowest.append(is_lowest(_values(words), here))
            planted = [word for word, planted_here in zip(words, here, strict=True) if planted_here]
            marked.append(any(word["correct"] is False for word in planted) or detail["fits"] is False)
            unsure.append(bool(planted) and all(word["correct"] is None for word in planted))
            unfit.append(detail["fits"] is False)
            if detail["fits"] is not False:
                wrong_p += [word["p_correct"] for word in planted if word["p_correct"] is not None]
        kinds[kind] = {
            "n": len(own),
            "lowest": _share(lowest),
            "marked": _share(marked),
            "cannot_tell": _share(unsure),
            "said_not_to_fit": _share(unfit),
        }
    for row in cases.right:
        detail = scored[row][0]
        if detail["fits"] is not False:
            right_p += [word["p_correct"] for word in judged(detail) if word["p_correct"] is not None]
    others = [scored[row][0] for row in cases.others]
    long = [row for row in cases.long if len(judged(scored[row][0])) >= _LONG]
    enough = len(right_p) >= 100 and len(wrong_p) >= 100
    return {
        "photos": len(cases.files),
        "kinds": kinds,
        "right": _right([scored[row][0] for row in cases.right]),
        "long": _right([scored[row][0] for row in long]),
        "others": {
            "n": len(others),
            "said_not_to_fit": _share([detail["fits"] is False for detail in others]),
            "found": _share([_is_found(detail) for detail in others]),
        },
        "calibration_error": (
            expected_calibration_error([*right_p, *wrong_p], [True] * len(right_p) + [False] * len(wrong_p))
            if enough
            else None
        ),
        "cannot_tell": _cannot_tell([scored[row][0] for row in cases.right]),
        "lower_recall": _share(
            [
                scored[Row(file, shorter, language)][1] < scored[Row(file, caption, language)][1]
                for file, caption, shorter in cases.dropped
            ]
        ),
        "lower_precision": _share(
            [
                scored[Row(file, found.caption, language)][2] < scored[Row(file, found.original, language)][2]
                for file, found in cases.planted
                if found.kind == "blatant"
            ]
        ),
    }


def _is_found(detail: Mapping[str, Any]) -> bool:
    words = judged(detail)
    marked = sum(word["correct"] is False for word in words)
    return detail["fits"] is False or bool(words and marked > _MOST * len(words))


def _right(details: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    words = [word["correct"] is False for detail in details for word in judged(detail)]
    clean = [
        detail["fits"] is not False and all(word["correct"] is not False for word in judged(detail))
        for detail in details
    ]
    return {
        "captions": len(details),
        "said_not_to_fit": _share([detail["fits"] is False for detail in details]),
        "words": len(words),
        "words_marked": _share(words),
        "without_mark": _share(clean),
    }


def _cannot_tell(details: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    found: dict[str, list[bool]] = defaultdict(list)
    for detail in details:
        if detail["fits"] is not False:
            for word in judged(detail):
                found[word["word_class"]].append(word["correct"] is None)
    return {name: _share(own) for name, own in sorted(found.items())}


def _share(values: Sequence[bool]) -> float | None:
    return float(np.mean(values)) if len(values) else None


def score_rows(scorer: InfoMetIC, rows: Sequence[Row]) -> dict[Row, tuple[dict[str, Any], float, float]]:
    """Row → its details, recall and precision."""
    scores: Scores = scorer.score(
        [row.caption for row in rows],
        [row.photo for row in rows],
        language=[row.language for row in rows],
    )
    recall, precision = scores.components["recall"], scores.components["precision"]
    return {
        row: (detail, float(recall[place]), float(precision[place]))
        for place, (row, detail) in enumerate(zip(rows, scores.details, strict=True))
    }


# ------------------------------------------------------------------ regions


def region_accuracy(scorer: InfoMetIC, folder: Path) -> dict[str, Any]:
    """Boxes of things that captions name, against boxes of things that they do not.

    A thing is named by a caption that has its COCO name or a form of it (`_names`); of the others only those
    count that no caption of the photo names. Both get the same weight: chance is 0.5.

    Args:
        scorer: Scorer with a judge.
        folder: Folder with `annotations/instances_*.json`, `annotations/captions_*.json` and the photos.

    Raises:
        InputError: a file is missing.
    """
    named, unnamed, n_photos = [], [], 0
    for instances in sorted(folder.glob("annotations/instances_*.json")):
        captions_file = instances.with_name(instances.name.replace("instances", "captions"))
        if not captions_file.is_file():
            raise InputError(f"{captions_file} is missing", field="boxes")
        content = json.loads(instances.read_text(encoding="utf-8"))
        names = {one["id"]: one["name"] for one in content["categories"]}
        files = {one["id"]: one["file_name"] for one in content["images"]}
        captions: dict[int, list[str]] = defaultdict(list)
        for one in json.loads(captions_file.read_text(encoding="utf-8"))["annotations"]:
            captions[one["image_id"]].append(one["caption"])
        things: dict[int, list[tuple[list[float], str]]] = defaultdict(list)
        for one in content["annotations"]:
            left, top, width, height = one["bbox"]
            if width >= 16 and height >= 16:
                things[one["image_id"]].append(
                    ([left, top, left + width, top + height], names[one["category_id"]])
                )
        rows, boxes, labels = [], [], []
        for image, own in sorted(things.items()):
            found = list(folder.rglob(Path(files[image]).name))
            if not found or not captions[image]:
                continue
            n_photos += 1
            told = " ".join(captions[image]).lower()
            for caption in captions[image]:
                said = caption.lower()
                label = [
                    1 if _is_named(name, said) else (0 if not _is_named(name, told) else -1)
                    for _, name in own
                ]
                rows.append((str(found[0]), caption))
                boxes.append([box for box, _ in own])
                labels.append(label)
        if not rows:
            continue
        scores = scorer.score(
            [caption for _, caption in rows], [file for file, _ in rows], boxes=boxes, language="en"
        )
        for detail, label in zip(scores.details, labels, strict=True):
            for region, is_named in zip(detail["regions"], label, strict=True):
                if is_named == 1:
                    named.append(region["mentioned"])
                elif is_named == 0:
                    unnamed.append(not region["mentioned"])
    accuracy = (np.mean(named) + np.mean(unnamed)) / 2 if named and unnamed else None
    return {
        "photos": n_photos,
        "named": len(named),
        "named_found": _share(named),
        "unnamed": len(unnamed),
        "unnamed_left": _share(unnamed),
        "accuracy": None if accuracy is None else float(accuracy),
    }


# words by which captions call COCO's things
_ALSO = {
    "person": "man men woman women boy boys girl girls people child children kid kids player players lady "
    "guy skier skiers surfer surfers rider riders skateboarder snowboarder batter catcher pitcher baby "
    "someone he she crowd group family couple",
    "bicycle": "bike bikes",
    "motorcycle": "motorbike motorbikes bike bikes motorcyclist",
    "airplane": "plane planes jet aircraft jetliner airliner",
    "couch": "sofa",
    "tv": "television monitor screen",
    "cell phone": "phone cellphone",
    "dining table": "table tables",
    "potted plant": "plant plants",
    "sports ball": "ball",
    "donut": "doughnut doughnuts donuts",
    "refrigerator": "fridge",
    "car": "vehicle vehicles",
    "truck": "vehicle vehicles",
    "bus": "vehicle vehicles",
    "cow": "cattle",
    "boat": "ship ships canoe kayak",
    "kite": "parasail",
    "cup": "mug glass",
    "wine glass": "glass glasses wine",
    "skis": "ski skiing skier skiers",
    "teddy bear": "teddy",
    "bird": "duck ducks pigeon seagull birds",
    "mouse": "mice",
    "laptop": "computer",
    "baseball bat": "bat",
    "baseball glove": "glove mitt",
    "tennis racket": "racket racquet",
}


def _is_named(name: str, text: str) -> bool:
    words = text.replace(".", " ").replace(",", " ").split()
    joined = " ".join(words)
    return f" {name}" in f" {joined}" or any(word in words for word in _ALSO.get(name, "").split())


# ------------------------------------------------------------------ the command


def measure(
    scorer: InfoMetIC,
    photos: Mapping[str, Mapping[str, Sequence[str]]],
    languages: Sequence[str],
    most: int,
    seed: int = 0,
) -> dict[str, Any]:
    """Language → `report`."""
    cases = [LanguageCases(photos, language, most, seed) for language in languages]
    cases = [case for case in cases if case.files]
    rows = list(dict.fromkeys(row for case in cases for row in case.rows()))
    scored = score_rows(scorer, rows)
    return {case.language: report(case, scored) for case in cases}


def print_result(result: Mapping[str, Any]) -> None:
    """Print tables of percentages."""
    from rich.console import Console
    from rich.table import Table

    console = Console()

    def percent(share: float | None) -> str:
        return "–" if share is None else f"{100 * share:.1f}"

    languages = result["languages"]
    table = Table("%", *languages, title=f"marks: {result['marks']}", show_edge=False)
    listed: list[tuple[str, Any]] = [
        (f"{kind}: {name}", lambda one, kind=kind, key=key: one["kinds"][kind][key])
        for kind in KINDS
        for name, key in (("lowest", "lowest"), ("marked", "marked"), ("cannot tell", "cannot_tell"))
    ]
    listed += [
        ("another photo's: not fitting", lambda one: one["others"]["said_not_to_fit"]),
        ("another photo's: found", lambda one: one["others"]["found"]),
        ("right: said not to fit", lambda one: one["right"]["said_not_to_fit"]),
        ("right words marked", lambda one: one["right"]["words_marked"]),
        ("right captions without mark", lambda one: one["right"]["without_mark"]),
        ("long: words marked", lambda one: one["long"]["words_marked"]),
        ("long: said not to fit", lambda one: one["long"]["said_not_to_fit"]),
        ("calibration error", lambda one: one["calibration_error"]),
        ("recall falls", lambda one: one["lower_recall"]),
        ("precision falls", lambda one: one["lower_precision"]),
    ]
    table.add_row("photos", *(str(one["photos"]) for one in languages.values()))
    for name, read in listed:
        table.add_row(name, *(percent(read(one)) for one in languages.values()))
    for word_class in ("noun", "verb", "adjective", "number"):
        table.add_row(
            f"cannot tell, {word_class}s",
            *(percent(one["cannot_tell"].get(word_class)) for one in languages.values()),
        )
    console.print(table)
    if result.get("regions"):
        console.print(f"regions: {json.dumps(result['regions'])}")


def main(argv: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--photos", type=Path)
    parser.add_argument("--boxes", type=Path)
    parser.add_argument("--backbone", default=default_backbone("infometic"))
    parser.add_argument("--weights")
    parser.add_argument("--marks")
    parser.add_argument("--false-alarms", type=float, default=0.05)
    parser.add_argument("--most", type=int, default=400, help="most photos per language")
    parser.add_argument("--languages", nargs="+", default="en de fr es zh pt ar cs ja".split())
    parser.add_argument("--output", type=Path)
    given = parser.parse_args(argv)

    import capscore

    scorer = capscore.load(
        "infometic",
        backbone=given.backbone,
        weights=given.weights,
        marks=given.marks,
        false_alarms=given.false_alarms,
    )
    photos = read_measured(given.rows)
    if given.data and given.photos:
        measured = {Path(file).name: file for file in photos}
        for photo in read_shared_photos(given.data / "xflickrco", given.photos):
            if photo.name in measured and photo.captions.get("es"):
                photos[measured[photo.name]]["es"] = list(photo.captions["es"])
    result: dict[str, Any] = {
        "marks": scorer.marks,
        "false_alarms": given.false_alarms,
        "languages": measure(scorer, photos, given.languages, given.most),
    }
    if given.boxes:
        result["regions"] = region_accuracy(scorer, given.boxes)
    print_result(result)
    if given.output:
        write_text(given.output, json.dumps(result, indent=1, ensure_ascii=False) + "\n", "the result")


if __name__ == "__main__":
    main()
