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
  mark, the same for captions of twelve and more semantic words, which are captions of one photo joined;
- the calibration error of p_correct, of right words and of planted ones in captions that are judged word by
  word;
- how many words it cannot tell, by class;
- recall that falls when a clause is dropped, precision that falls when a noun is swapped.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capscore.errors import InputError
from capscore.metrics.loading import default_backbone
from weights.making.mark_calibration.curves import expected_calibration_error

from .figures import mean, percent, study_parser, table, write_json
from .planted_errors import (
    Cases,
    Photo,
    Row,
    Scored,
    falls,
    is_lowest,
    is_planted,
    make_cases,
    photo_random,
    read_shared_photos,
    score_rows,
    semantic_words,
)
from .planting import KINDS, shuffled

if TYPE_CHECKING:
    from capscore.metrics.infometic import InfoMetIC

# Right captions of each photo and language that are measured.
_CAPTIONS = 2
# Number of semantic words from which a caption is long.
_LONG = 12
# Share of a caption's words that must be marked for it to count as found.
_MIN_MARKED = 0.5
# Right words and planted words that a calibration error needs, each.
_ENOUGH = 100
# Width and height in pixels below which a box is not measured.
_MIN_SIDE = 16


def read_measured(rows: Path) -> dict[str, dict[str, list[str]]]:
    """File of each measured photo → language → captions.

    Raises:
        InputError: the file is missing, or holds no measured photo.
    """
    if not rows.is_file():
        raise InputError(f"{rows} is missing; make it with weights.making.judged_rows", field="rows")
    found: dict[str, dict[str, list[str]]] = {}
    with rows.open(encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            if row["split"] == "measure":
                own = found[row["file"]] = {}
                for caption, language, _ in row["captions"]:
                    own.setdefault(language, []).append(caption)
    if not found:
        raise InputError(f"{rows} has no photo of the split 'measure'", field="rows")
    return found


@dataclass(frozen=True, eq=False)
class LanguageCases(Cases):
    """What is measured of one language, with right captions and those of another photo.

    Attributes:
        files: Files of the photos, in random order.
        right: Right captions of each photo.
        long: Several captions of a photo, joined.
        others: A caption of another photo for each photo.
    """

    files: list[str]
    right: list[Row]
    long: list[Row]
    others: list[Row]

    def rows(self) -> list[Row]:
        """Every row to score, each once."""
        return list(dict.fromkeys([*self.right, *self.long, *self.others, *super().rows()]))


def language_cases(
    photos: Mapping[str, Mapping[str, Sequence[str]]], language: str, max_photos: int, seed: int
) -> LanguageCases:
    """Draw what is measured of one language; photos: file → language → captions."""
    files = [file for file in sorted(photos) if photos[file].get(language)]
    random.Random(f"{seed} {language}").shuffle(files)
    files = files[:max_photos]
    right, long, first = [], [], []
    for file in files:
        mixed = shuffled(photos[file][language], photo_random(seed, file, language))
        right += [Row(file, caption, language) for caption in mixed[:_CAPTIONS]]
        first.append(mixed[0])
        if len(mixed) > 2:
            long.append(Row(file, _joined(mixed[:3], language), language))
    # the caption of the photo that follows in the list, which is in random order
    others = [
        Row(file, caption, language) for file, caption in zip(files, [*first[1:], *first[:1]], strict=True)
    ]
    cases = make_cases([Photo(file, photos[file]) for file in files], language, seed)
    return LanguageCases(language, len(files), cases.planted, cases.dropped, files, right, long, others)


def _joined(captions: Sequence[str], language: str) -> str:
    if language in ("zh", "ja"):
        return "。".join(caption.rstrip("。 .") for caption in captions) + "。"
    return ". ".join(caption.rstrip(" .") for caption in captions) + "."


def _values(words: Sequence[Mapping[str, Any]]) -> list[float]:
    """How right each word is: by probability, where any word has one; a word without is then the rightest."""
    if all(word["p_correct"] is None for word in words):
        return [float(word["score"]) for word in words]
    return [1.0 if word["p_correct"] is None else float(word["p_correct"]) for word in words]


def report(cases: LanguageCases, scored: Mapping[Row, Scored]) -> dict[str, Any]:
    """Shares of one language, ready for JSON; None where there is nothing to count."""
    kinds = {}
    wrong_p: list[float] = []
    for kind in KINDS:
        own = [(file, found) for file, found in cases.planted if found.kind == kind]
        lowest, marked, unsure, unfit = [], [], [], []
        for file, found in own:
            detail = scored[Row(file, found.caption, cases.language)].detail
            words = semantic_words(detail)
            here = is_planted(words, found)
            planted = [word for word, planted_here in zip(words, here, strict=True) if planted_here]
            lowest.append(is_lowest(_values(words), here))
            unfit.append(detail["fits"] is False)
            marked.append(unfit[-1] or any(word["correct"] is False for word in planted))
            unsure.append(bool(planted) and all(word["correct"] is None for word in planted))
            wrong_p += _probabilities(detail, planted)
        kinds[kind] = {
            "n": len(own),
            "lowest": mean(lowest),
            "marked": mean(marked),
            "cannot_tell": mean(unsure),
            "said_not_to_fit": mean(unfit),
        }
    right, long, others = (
        [scored[row].detail for row in rows] for rows in (cases.right, cases.long, cases.others)
    )
    right_p = [p for detail in right for p in _probabilities(detail, semantic_words(detail))]
    error = None
    if min(len(right_p), len(wrong_p)) >= _ENOUGH:
        labels = [True] * len(right_p) + [False] * len(wrong_p)
        error = expected_calibration_error([*right_p, *wrong_p], labels)
    recall, precision = falls(cases, scored)
    return {
        "photos": len(cases.files),
        "kinds": kinds,
        "right": _of_right(right),
        "long": _of_right([detail for detail in long if len(semantic_words(detail)) >= _LONG]),
        "others": {
            "n": len(others),
            "said_not_to_fit": mean([detail["fits"] is False for detail in others]),
            "found": mean([_is_found(detail) for detail in others]),
        },
        "calibration_error": error,
        "cannot_tell": _cannot_tell(right),
        "lower_recall": mean(recall),
        "lower_precision": mean(precision),
    }


def _probabilities(detail: Mapping[str, Any], words: Sequence[Mapping[str, Any]]) -> list[float]:
    """p_correct of the words of a caption that is judged word by word."""
    if detail["fits"] is False:
        return []
    return [word["p_correct"] for word in words if word["p_correct"] is not None]


def _marked(detail: Mapping[str, Any]) -> list[bool]:
    return [word["correct"] is False for word in semantic_words(detail)]


def _is_found(detail: Mapping[str, Any]) -> bool:
    marked = _marked(detail)
    return detail["fits"] is False or bool(marked and sum(marked) > _MIN_MARKED * len(marked))


def _of_right(details: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    words = [marked for detail in details for marked in _marked(detail)]
    return {
        "captions": len(details),
        "said_not_to_fit": mean([detail["fits"] is False for detail in details]),
        "words": len(words),
        "words_marked": mean(words),
        "without_mark": mean(
            [detail["fits"] is not False and not any(_marked(detail)) for detail in details]
        ),
    }


def _cannot_tell(details: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    found: dict[str, list[bool]] = defaultdict(list)
    for detail in details:
        if detail["fits"] is not False:
            for word in semantic_words(detail):
                found[word["word_class"]].append(word["correct"] is None)
    return {name: mean(own) for name, own in sorted(found.items())}


# ------------------------------------------------------------------ regions


def region_accuracy(scorer: InfoMetIC, folder: Path) -> dict[str, Any]:
    """Boxes of things that captions name, against boxes of things that they do not.

    A thing is named by a caption that has its COCO name or a form of it (`_is_named`); of the others only
    those count that no caption of the photo names. Both get the same weight: chance is 0.5.

    Args:
        scorer: Scorer with a mark calibration.
        folder: Folder with `annotations/instances_*.json`, `annotations/captions_*.json` and the photos.

    Raises:
        InputError: a file is missing.
    """
    named, unnamed, photos = [], [], set()
    for instances in sorted(folder.glob("annotations/instances_*.json")):
        rows = list(_region_rows(folder, instances))
        if not rows:
            continue
        files, captions, boxes, labels = map(list, zip(*rows, strict=True))
        photos.update((instances, file) for file in files)
        scores = scorer.score(captions, files, boxes=boxes, language="en")
        for detail, own in zip(scores.details, labels, strict=True):
            for region, is_named in zip(detail["regions"], own, strict=True):
                if is_named is True:
                    named.append(region["mentioned"])
                elif is_named is False:
                    unnamed.append(not region["mentioned"])
    found, left = mean(named), mean(unnamed)
    return {
        "photos": len(photos),
        "named": len(named),
        "named_found": found,
        "unnamed": len(unnamed),
        "unnamed_left": left,
        "accuracy": None if found is None or left is None else (found + left) / 2,
    }


def _region_rows(folder: Path, instances: Path) -> Iterator[tuple[str, str, list[list[float]], list[Any]]]:
    """Photo, caption, boxes, and of each whether it is named by the caption; None if by another one only."""
    captions_file = instances.with_name(instances.name.replace("instances", "captions"))
    if not captions_file.is_file():
        raise InputError(f"{captions_file} is missing", field="boxes")
    content = json.loads(instances.read_text(encoding="utf-8"))
    names = {category["id"]: category["name"] for category in content["categories"]}
    files = {image["id"]: image["file_name"] for image in content["images"]}
    captions: dict[int, list[str]] = defaultdict(list)
    for row in json.loads(captions_file.read_text(encoding="utf-8"))["annotations"]:
        captions[row["image_id"]].append(row["caption"])
    things: dict[int, list[tuple[list[float], str]]] = defaultdict(list)
    for row in content["annotations"]:
        left, top, width, height = row["bbox"]
        if min(width, height) >= _MIN_SIDE:
            box = [left, top, left + width, top + height]
            things[row["image_id"]].append((box, names[row["category_id"]]))
    for image, own in sorted(things.items()):
        found = list(folder.rglob(Path(files[image]).name))
        if not found:
            continue
        every = " ".join(captions[image])
        for caption in captions[image]:
            labels = [
                True if _is_named(name, caption) else None if _is_named(name, every) else False
                for _, name in own
            ]
            yield str(found[0]), caption, [box for box, _ in own], labels


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
    words = text.lower().replace(".", " ").replace(",", " ").split()
    return f" {name}" in f" {' '.join(words)}" or any(word in words for word in _ALSO.get(name, "").split())


# ------------------------------------------------------------------ the command


def measure(
    scorer: InfoMetIC,
    photos: Mapping[str, Mapping[str, Sequence[str]]],
    languages: Sequence[str],
    max_photos: int,
    seed: int = 0,
) -> dict[str, Any]:
    """Language → `report`."""
    cases = [language_cases(photos, language, max_photos, seed) for language in languages]
    cases = [case for case in cases if case.files]
    scored = score_rows(scorer, list(dict.fromkeys(row for case in cases for row in case.rows())))
    return {case.language: report(case, scored) for case in cases}


# title of a line of the table → where its share is in a report
_LINES = {
    **{
        f"{kind}: {key.replace('_', ' ')}": ("kinds", kind, key)
        for kind in KINDS
        for key in ("lowest", "marked", "cannot_tell")
    },
    "another photo's: not fitting": ("others", "said_not_to_fit"),
    "another photo's: found": ("others", "found"),
    "right: said not to fit": ("right", "said_not_to_fit"),
    "right words marked": ("right", "words_marked"),
    "right captions without mark": ("right", "without_mark"),
    "long: words marked": ("long", "words_marked"),
    "long: said not to fit": ("long", "said_not_to_fit"),
    "calibration error": ("calibration_error",),
    "recall falls": ("lower_recall",),
    "precision falls": ("lower_precision",),
    **{f"cannot tell, {name}s": ("cannot_tell", name) for name in ("noun", "verb", "adjective", "number")},
}


def _share_at(found: Any, keys: Sequence[str]) -> float | None:
    for key in keys:
        found = None if found is None else found.get(key)
    return found


def markdown(result: Mapping[str, Any]) -> str:
    """The table of percentages."""
    languages = result["languages"]
    rows = [["photos", *(str(found["photos"]) for found in languages.values())]]
    rows += [
        [title, *(percent(_share_at(found, keys)) for found in languages.values())]
        for title, keys in _LINES.items()
    ]
    text = f"marks: {result['marks']}\n\n{table(['%', *languages], rows, 1)}"
    return text + (f"\n\nregions: {json.dumps(result['regions'])}" if "regions" in result else "")


def main(argv: Sequence[str] | None = None) -> None:
    """The command."""
    import capscore

    parser = study_parser("believable_marks", __doc__, data_required=False)
    parser.add_argument("--rows", type=Path, required=True, help="file of weights.making.judged_rows")
    parser.add_argument("--photos", type=Path, help="folder of Flickr8k's photos, for Spanish")
    parser.add_argument("--boxes", type=Path, help="folder in COCO's layout, for regions")
    parser.add_argument("--backbone", default=default_backbone("infometic"))
    parser.add_argument("--weights")
    parser.add_argument("--marks")
    parser.add_argument("--false-alarms", type=float, default=0.05)
    parser.add_argument("--most", type=int, default=400, help="most photos per language")
    parser.add_argument("--languages", nargs="+", default="en de fr es zh pt ar cs ja".split())
    given = parser.parse_args(argv)
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
        for file, captions in read_shared_photos(given.data / "xflickrco", given.photos):
            if Path(file).name in measured and captions.get("es"):
                photos[measured[Path(file).name]]["es"] = list(captions["es"])
    result: dict[str, Any] = {
        "marks": scorer.marks,
        "false_alarms": given.false_alarms,
        "languages": measure(scorer, photos, given.languages, given.most),
    }
    if given.boxes:
        result["regions"] = region_accuracy(scorer, given.boxes)
    print(markdown(result))
    write_json(given.output, result)


if __name__ == "__main__":
    main()
