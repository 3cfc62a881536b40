"""Measures whether InfoMetIC's marks can be believed, on photos that no training and no calibration has seen.

    python -m weights.measuring.believable_marks --rows mark_rows.jsonl --data DATA --photos PHOTOS \
        [--boxes COCO] [--output FILE]

In: rows of `weights.making.mark_calibration.rows`, of which those of the split "measure" are used; for
Spanish, a folder with `xflickrco` and one of Flickr8k's photos; for regions, a folder in COCO's layout
(`annotations/instances_NAME.json`, `annotations/captions_NAME.json` and photos). Out, for each language: of
planted words how many are the least likely of their caption, marked, or undecided; captions of another photo
that are said not to fit; false alarms in right captions; the calibration error of p_correct, of right and of
planted words; recall that falls when a clause is dropped, precision that falls when a noun is swapped.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from capscore.errors import CapscoreError, InputError
from capscore.metrics.loading import default_backbone
from training.engine.config import main as run_as_command

from .figures import mean, percent, study_parser, table, write_results
from .planted_words import LANGUAGES
from .planting import KINDS, Planted, drop_clause, plant, shuffled

if TYPE_CHECKING:
    from capscore.metrics.infometic import InfoMetIC

_LANGUAGES = ("en", "de", "fr", "es", "zh", "pt", "ar", "cs", "ja")
_MOST = 400  # photos per language
_CAPTIONS = 2  # right captions of each photo and language that are measured
_LONG = 12  # semantic words from which a caption is long
_MIN_MARKED = 0.5  # share of a caption's words that must be marked for it to count as found
_ENOUGH = 100  # right words and planted words that a calibration error needs, each
_MIN_SIDE = 16  # pixels below which a box is not measured

Photos = Mapping[str, Mapping[str, Sequence[str]]]  # file → language → captions


# ------------------------------------------------------------------ cases


def read_measured(rows: Path) -> dict[str, dict[str, list[str]]]:
    """File of each measured photo → language → captions."""
    found: dict[str, dict[str, list[str]]] = {}
    for row in map(json.loads, rows.read_text(encoding="utf-8").splitlines()):
        if row["split"] == "measure":
            captions = found[row["file"]] = {}
            for caption, language, _ in row["captions"]:
                captions.setdefault(language, []).append(caption)
    if not found:
        raise InputError(f"{rows} has no photo of the split 'measure'", field="rows")
    return found


def spanish_captions(xflickrco: Path, photos: Path) -> dict[str, list[str]]:
    """Name of each of Flickr8k's photos in XFlickrCO's test split, matched by number → Spanish captions."""
    lines = (xflickrco / "es" / "test.jsonl").read_text(encoding="utf-8").splitlines()
    files = {file.name.partition("_")[0]: file.name for file in sorted(photos.glob("*_*.jpg"))}
    return {files[row["id"]]: row["sentences"] for row in map(json.loads, lines) if row["id"] in files}


class Row(NamedTuple):
    """A caption to score with a photo, given by its file."""

    photo: str
    caption: str
    language: str


@dataclass(frozen=True, eq=False)
class LanguageCases:
    """What is measured of one language.

    Attributes:
        language: Language of the captions.
        files: Files of the photos, in random order.
        right, long, others: Right captions, several of one photo joined, and one of another photo for each.
        planted: (file of the photo, what was planted), of all kinds.
        dropped: (file of the photo, caption, the same without its last clauses).
    """

    language: str
    files: list[str]
    right: list[Row]
    long: list[Row]
    others: list[Row]
    planted: list[tuple[str, Planted]]
    dropped: list[tuple[str, str, str]]

    def rows(self) -> list[Row]:
        """Every row to score, each once."""
        texts = [(photo, text) for photo, found in self.planted for text in (found.original, found.caption)]
        texts += [(photo, text) for photo, *both in self.dropped for text in both]
        rows = (Row(photo, text, self.language) for photo, text in texts)
        return list(dict.fromkeys([*self.right, *self.long, *self.others, *rows]))


def language_cases(photos: Photos, language: str, max_photos: int, seed: int) -> LanguageCases:
    """What is measured of one language; a photo's errors depend on its name, captions and the seed alone."""

    def chance(file: str) -> random.Random:
        return random.Random(f"{seed} {Path(file).name} {language}")

    files = [file for file in sorted(photos) if photos[file].get(language)]
    random.Random(f"{seed} {language}").shuffle(files)
    files = files[:max_photos]
    right, long, first, planted, dropped = [], [], [], [], []
    for file in files:
        mixed = shuffled(photos[file][language], chance(file))
        right += [Row(file, caption, language) for caption in mixed[:_CAPTIONS]]
        first.append(mixed[0])
        if len(mixed) > 2:
            long.append(Row(file, _joined(mixed[:3], language), language))
        if language in LANGUAGES:
            found = (plant(photos[file], language, kind, chance(file)) for kind in KINDS)
            planted += [(file, item) for item in found if item]
            shorter = ((caption, drop_clause(caption, language)) for caption in mixed)
            dropped += [(file, caption, text) for caption, text in shorter if text][:1]
    # the caption of the photo that follows in the list, which is in random order
    others = list(map(Row, files, [*first[1:], *first[:1]], [language] * len(files)))
    return LanguageCases(language, files, right, long, others, planted, dropped)


def _joined(captions: Sequence[str], language: str) -> str:
    stop, blank = ("。", "") if language in ("zh", "ja") else (".", " ")
    return f"{stop}{blank}".join(caption.rstrip(f"{stop} .") for caption in captions) + stop


# ------------------------------------------------------------------ the report


class Scored(NamedTuple):
    """A scorer's result for a row: its entry of `Scores.details`, recall and precision."""

    detail: dict[str, Any]
    recall: float
    precision: float


def score_rows(scorer: InfoMetIC, rows: Sequence[Row]) -> dict[Row, Scored]:
    """Score every row with its image, in one call."""
    images, captions, languages = map(list, zip(*rows, strict=True))
    scores = scorer.score(captions, images, language=languages)
    recall, precision = scores.components["recall"].tolist(), scores.components["precision"].tolist()
    return dict(zip(rows, map(Scored, scores.details, recall, precision), strict=True))


def semantic_words(detail: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The words that must be right or wrong: semantic words within the tower's context."""
    return [word for word in detail["words"] if word["semantic"] and word["score"] is not None]


def is_lowest(scores: Sequence[float], planted: Sequence[bool]) -> bool:
    """Whether a planted word scores below every other one; a tie counts against it.

    >>> is_lowest([0.2, 0.1, 0.7], [False, True, False]), is_lowest([0.1, 0.1], [False, True])
    (True, False)
    """
    own = [score for score, here in zip(scores, planted, strict=True) if here]
    others = [score for score, here in zip(scores, planted, strict=True) if not here]
    return bool(own) and (not others or min(own) < min(others))


def _values(words: Sequence[Mapping[str, Any]]) -> list[float]:
    """How right each word is: by probability, where any word has one; a word without is then the rightest."""
    if all(word["p_correct"] is None for word in words):
        return [float(word["score"]) for word in words]
    return [1.0 if word["p_correct"] is None else float(word["p_correct"]) for word in words]


def report(cases: LanguageCases, scored: Mapping[Row, Scored]) -> dict[str, Any]:
    """Shares of one language, ready for JSON; None where there is nothing to count."""

    def of(file: str, caption: str) -> Scored:
        return scored[Row(file, caption, cases.language)]

    kinds: dict[str, Any] = {}
    wrong_p: list[float] = []
    for kind in KINDS:
        outcomes = []
        for file, found in cases.planted:
            if found.kind != kind:
                continue
            detail = of(file, found.caption).detail
            words, unfit = semantic_words(detail), detail["fits"] is False
            here = [word["start"] < found.end and word["end"] > found.start for word in words]
            planted = [word for word, is_here in zip(words, here, strict=True) if is_here]
            marked = unfit or any(word["correct"] is False for word in planted)
            unsure = bool(planted) and all(word["correct"] is None for word in planted)
            outcomes.append((is_lowest(_values(words), here), marked, unsure, unfit))
            wrong_p += _probabilities(detail, planted)
        names = ("lowest", "marked", "cannot_tell", "said_not_to_fit")
        columns = zip(*outcomes, strict=True) if outcomes else [()] * len(names)
        kinds[kind] = {"n": len(outcomes), **dict(zip(names, map(mean, map(list, columns)), strict=True))}
    right, long, others = (
        [scored[row].detail for row in rows] for rows in (cases.right, cases.long, cases.others)
    )
    right_p = [p for detail in right for p in _probabilities(detail, semantic_words(detail))]
    error = None
    if min(len(right_p), len(wrong_p)) >= _ENOUGH:
        labels = [True] * len(right_p) + [False] * len(wrong_p)
        error = expected_calibration_error([*right_p, *wrong_p], labels)
    recall = [of(file, text).recall < of(file, caption).recall for file, caption, text in cases.dropped]
    blatant = [(file, found) for file, found in cases.planted if found.kind == "blatant"]
    precision = [
        of(file, found.caption).precision < of(file, found.original).precision for file, found in blatant
    ]
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


def expected_calibration_error(p: Sequence[float] | np.ndarray, right: Sequence[bool] | np.ndarray) -> float:
    """Calibration error with 10 bins (Naeini et al. 2015): mean |share right − mean p|.

    What is right and what is wrong count half each.

    >>> round(expected_calibration_error([0.9, 0.9, 0.1, 0.1], [True, True, False, False]), 3)
    0.1
    """
    values, truth = np.asarray(p, np.float64), np.asarray(right, bool)
    if truth.all() or not truth.any():
        raise CapscoreError("a calibration error needs what is right and what is wrong")
    weight = np.where(truth, 0.5 / truth.sum(), 0.5 / (~truth).sum())
    bins = np.minimum((values * 10).astype(int), 9)
    gap = np.bincount(bins, weights=weight * (truth - values), minlength=10)
    return float(np.abs(gap).sum())


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
    """Share of the boxes of named things that are mentioned, and of unnamed ones that are not; chance is 0.5.

    A thing is named by a caption that has its COCO name or a form of it (`_is_named`); of the others only
    those count that no caption of the photo names. `folder` is in COCO's layout.
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
            regions = list(zip((region["mentioned"] for region in detail["regions"]), own, strict=True))
            named += [mentioned for mentioned, is_named in regions if is_named is True]
            unnamed += [not mentioned for mentioned, is_named in regions if is_named is False]
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
        found = next(folder.rglob(Path(files[image]).name), None)
        every = " ".join(captions[image])
        for caption in captions[image] if found else ():
            labels = [
                _is_named(name, caption) or (None if _is_named(name, every) else False) for _, name in own
            ]
            yield str(found), caption, [box for box, _ in own], labels


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


def measure(scorer: InfoMetIC, photos: Photos, seed: int = 0) -> dict[str, Any]:
    """Language → `report`."""
    cases = [language_cases(photos, language, _MOST, seed) for language in _LANGUAGES]
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


def markdown(result: Mapping[str, Any]) -> str:
    """The table of percentages."""

    def share(found: Any, keys: Sequence[str]) -> float | None:
        for key in keys:
            found = found.get(key)
        return found

    languages = result["languages"]
    rows = [["photos", *(str(found["photos"]) for found in languages.values())]]
    rows += [
        [title, *(percent(share(found, keys)) for found in languages.values())]
        for title, keys in _LINES.items()
    ]
    text = f"marks: {result['marks']}\n\n{table(['%', *languages], rows, 1)}"
    return text + (f"\n\nregions: {json.dumps(result['regions'])}" if "regions" in result else "")


def main(argv: Sequence[str] | None = None) -> None:
    """The command."""
    import capscore

    parser = study_parser("believable_marks", __doc__, data_required=False)
    parser.add_argument("--rows", type=Path, required=True, help="file of mark_calibration.rows")
    parser.add_argument("--photos", type=Path, help="folder of Flickr8k's photos, for Spanish")
    parser.add_argument("--boxes", type=Path, help="folder in COCO's layout, for regions")
    parser.add_argument("--backbone", default=default_backbone("infometic"))
    parser.add_argument("--weights")
    given = parser.parse_args(argv)
    scorer = capscore.load("infometic", backbone=given.backbone, weights=given.weights, false_alarms=0.05)
    photos = read_measured(given.rows)
    if given.data and given.photos:
        measured = {Path(file).name: file for file in photos}
        for name, captions in spanish_captions(given.data / "xflickrco", given.photos).items():
            if name in measured and captions:
                photos[measured[name]]["es"] = captions
    result: dict[str, Any] = {
        "marks": scorer.marks,
        "languages": measure(scorer, photos),
    }
    if given.boxes:
        result["regions"] = region_accuracy(scorer, given.boxes)
    write_results(given, result, markdown(result))


if __name__ == "__main__":
    run_as_command(main)
