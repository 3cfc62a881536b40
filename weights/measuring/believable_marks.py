"""Measures whether InfoMetIC's marks can be believed, on photos that no training and no calibration has seen.

    python -m weights.measuring.believable_marks --rows mark_rows.jsonl --data DATA \
        [--coco COCO] [--output FILE]

In: rows of `weights.making.mark_calibration.rows`, of which those of the split "measure" are used; for
Spanish, a folder with `xflickrco`; photos in COCO's layout (`annotations/captions_NAME.json`, for regions
`instances_NAME.json`). Out, for each language: of planted words how many are the least likely of their
caption, marked, or undecided; captions of another photo that are marked as not fitting; false alarms in right
captions; the calibration error of p_correct, of right and of planted words; recall that falls when a clause
is dropped, precision that falls when a noun is swapped.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import capscore
from capscore.benchmarks.robustness import file_captions
from capscore.errors import InputError
from capscore.metrics.infometic import InfoMetIC
from capscore.metrics.loading import default_backbone
from capscore.options import RowOptions
from capscore.tables import Table
from weights.making.jsonl import beside
from weights.making.mark_calibration.rows import read_mark_rows
from weights.making.settings import command

from .figures import FILES, MaybePath, in_percent, mean, write_results
from .held_out import translated
from .planting import KINDS, LANGUAGES, drop_clause, plant, shuffled

_LANGUAGES = ("en", "de", "fr", "es", "zh", "pt", "ar", "cs", "ja")
COCO = "en, COCO"  # what results of its photos are called
_MOST = 400  # photos per language
_CAPTIONS = 2  # right captions of each photo and language that are measured
_LONG = 12  # semantic words from which a caption is long
_ENOUGH = 100  # right words and planted words that a calibration error needs, each
_MIN_SIDE = 16  # pixels below which a box is not measured
# Words by which captions call COCO's things, besides their names
_ALSO: Mapping[str, str] = beside(__file__, "names_in_captions.yaml")

OUTCOMES = ("lowest", "marked", "cannot_tell")  # of a planted word
# Shares of captions with a planted word, of other captions, of words, and of changed captions.
SHARES = [f"{kind}_{name}" for kind in KINDS for name in OUTCOMES]
SHARES += ["others_not_fitting", "right_not_fitting", "right_without_mark", "right_words_marked"]
SHARES += ["long_words_marked", "lower_recall", "lower_precision"]

Photos = Mapping[str, Mapping[str, Sequence[str]]]  # file → language → captions
Details = Mapping[tuple[str, str, str], Mapping[str, Any]]  # (photo, language, caption) → its result


def read_measured(rows: Path) -> dict[str, dict[str, list[str]]]:
    """File of each measured photo → language → captions."""
    found: dict[str, dict[str, list[str]]] = {}
    for row in read_mark_rows(rows):
        if row["split"] == "measure":
            captions = found[row["file"]] = {}
            for caption, language, _ in row["captions"]:
                captions.setdefault(language, []).append(caption)
    if not found:
        raise InputError(f"{rows} has no photo of the split 'measure'", field="rows")
    return found


class Case(NamedTuple):
    """A caption beside a photo.

    It is "right", "long" (several right ones joined), "other" (of another photo), one of `KINDS` (with a
    planted word, `caption[start:end]`), or "shorter" (without its last clauses).
    """

    kind: str
    photo: str
    language: str
    caption: str
    original: str = ""  # the caption before a word was planted or clauses were dropped
    start: int = 0
    end: int = 0


def language_cases(photos: Photos, language: str, max_photos: int, seed: int) -> list[Case]:
    """What is measured of one language; a photo's errors depend on its name, captions and the seed alone."""
    files = [file for file in sorted(photos) if photos[file].get(language)]
    random.Random(f"{seed} {language}").shuffle(files)
    files, first, cases = files[:max_photos], [], []
    for file in files:
        chance = partial(random.Random, f"{seed} {Path(file).name} {language}")
        mixed = shuffled(photos[file][language], chance())
        cases += [Case("right", file, language, caption) for caption in mixed[:_CAPTIONS]]
        first.append(mixed[0])
        if len(mixed) > 2:
            cases.append(Case("long", file, language, _joined(mixed[:3], language)))
        if language in LANGUAGES:
            for kind in KINDS:
                if found := plant(photos[file], language, kind, chance()):
                    cases.append(Case(kind, file, language, *found[:4]))
            for caption in mixed:
                if text := drop_clause(caption, language):
                    cases.append(Case("shorter", file, language, text, caption))
                    break
    # the caption of the photo that follows in the list, which is in random order
    for file, caption in zip(files, [*first[1:], *first[:1]], strict=True):
        cases.append(Case("other", file, language, caption))
    return cases


def _joined(captions: Sequence[str], language: str) -> str:
    stop, blank = ("。", "") if language in ("zh", "ja") else (".", " ")
    return f"{stop}{blank}".join(caption.rstrip(f"{stop} .") for caption in captions) + stop


def details_of(scorer: InfoMetIC, cases: Sequence[Case]) -> Details:
    """Score every caption of the cases with its photo, also as it was before, in one call.

    A result is an entry of `Scores.details`, with "recall" and "precision".
    """
    rows: dict[tuple[str, str, str], None] = {}
    for case in cases:
        for caption in (case.caption, case.original or case.caption):
            rows[case.photo, case.language, caption] = None
    images, languages, captions = map(list, zip(*rows, strict=True))
    scores, found = scorer.score(captions, images, language=languages), {}
    shares = (scores.components[name].tolist() for name in ("recall", "precision"))
    for row, detail, recall, precision in zip(rows, scores.details, *shares, strict=True):
        found[row] = {**detail, "recall": recall, "precision": precision}
    return found


def is_lowest(planted: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a planted word is less likely right than all other words; a tie counts against it.

    By probability where any word has one; a word without is then the rightest. Else by score.

    >>> one, other = {"score": 0.1, "p_correct": None}, {"score": 0.1, "p_correct": 0.9}
    >>> is_lowest([other], [one]), is_lowest([one], [one])
    (True, False)
    """
    by_score = all(word["p_correct"] is None for word in (*planted, *others))

    def value(word: Mapping[str, Any]) -> float:
        likely = word["score" if by_score else "p_correct"]
        return 1.0 if likely is None else float(likely)

    return bool(planted) and min(map(value, planted)) < min(map(value, others), default=np.inf)


def report(cases: Sequence[Case], details: Details) -> dict[str, Any]:
    """Shares of one language, ready for JSON; None where there is nothing to count."""
    seen: dict[str, list[float]] = defaultdict(list)  # name of `SHARES` → what is averaged
    right_p: list[float] = []
    wrong_p: list[float] = []
    for case in cases:
        detail = details[case.photo, case.language, case.caption]
        before = details[case.photo, case.language, case.original or case.caption]
        # the words that must be right or wrong: semantic words within the tower's context
        words = [word for word in detail["words"] if word["semantic"] and word["score"] is not None]
        marks, unfit = [word["correct"] is False for word in words], detail["fits"] is False
        judged = [] if unfit else [word for word in words if word["p_correct"] is not None]
        if case.kind == "right":
            right_p += [word["p_correct"] for word in judged]
            seen["right_words_marked"] += marks
            seen["right_not_fitting"].append(unfit)
            seen["right_without_mark"].append(not unfit and not any(marks))
        elif case.kind == "other":
            seen["others_not_fitting"].append(unfit)
        elif case.kind == "shorter":
            seen["lower_recall"].append(detail["recall"] < before["recall"])
        elif case.kind == "long" and len(words) >= _LONG:
            seen["long_words_marked"] += marks
        elif case.kind in KINDS:
            planted = [word for word in words if word["start"] < case.end and word["end"] > case.start]
            others = [word for word in words if word not in planted]
            wrong_p += [word["p_correct"] for word in judged if word in planted]
            marked = unfit or any(word["correct"] is False for word in planted)
            unsure = bool(planted) and all(word["correct"] is None for word in planted)
            for name, value in zip(OUTCOMES, (is_lowest(planted, others), marked, unsure), strict=True):
                seen[f"{case.kind}_{name}"].append(value)
            if case.kind == "blatant":
                seen["lower_precision"].append(detail["precision"] < before["precision"])
    found: dict[str, Any] = {name: mean(seen[name]) for name in SHARES}
    if min(len(right_p), len(wrong_p)) >= _ENOUGH:
        found["calibration_error"] = calibration_error(right_p, wrong_p)
    found["captions"] = {kind: len(seen[f"{kind}_{OUTCOMES[0]}"]) for kind in KINDS}
    return {"photos": len(seen["others_not_fitting"]), **found}


def calibration_error(right: Sequence[float], wrong: Sequence[float]) -> float:
    """Of probabilities of right and of wrong items: calibration error with 10 bins (Naeini et al. 2015).

    Mean |share right − mean p|; what is right and what is wrong count half each.
    """
    gap = np.zeros(10)
    for values, truth in ((right, 1.0), (wrong, 0.0)):
        p = np.asarray(values, np.float64)
        weights = 0.5 * (truth - p) / len(p)
        gap += np.bincount(np.minimum((p * 10).astype(int), 9), weights=weights, minlength=10)
    return float(np.abs(gap).sum())


def coco_captions(folder: Path) -> dict[str, dict[str, list[str]]]:
    """File of each photo that is there → "en" → its captions."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: {"en": []})
    for path in sorted(folder.glob("annotations/captions_*.json")):
        (captions,) = file_captions(path, RowOptions(images=folder, language="en"), partial=True)
        for image, caption in zip(captions.images, captions.captions, strict=True):
            found[str(image)]["en"].append(caption)
    if not found:
        raise InputError(f"{folder} has no annotations/captions_NAME.json", field="coco")
    return found


def coco_things(folder: Path) -> dict[str, list[tuple[list[float], str]]]:
    """File name of each photo → box and name of each thing on it that is not tiny."""
    found: dict[str, list[tuple[list[float], str]]] = defaultdict(list)
    for path in sorted(folder.glob("annotations/instances_*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        files = {image["id"]: Path(image["file_name"]).name for image in content["images"]}
        names = {category["id"]: category["name"] for category in content["categories"]}
        for row in content["annotations"]:
            left, top, width, height = row["bbox"]
            if min(width, height) >= _MIN_SIDE:
                box = [left, top, left + width, top + height]
                found[files[row["image_id"]]].append((box, names[row["category_id"]]))
    return found


def region_accuracy(scorer: InfoMetIC, photos: Photos, folder: Path) -> dict[str, Any]:
    """Share of the boxes of named things that are mentioned, and of unnamed ones that are not; chance is 0.5.

    A thing is named by a caption that has its COCO name or a form of it; of the others only those count that
    no caption of the photo names.
    """
    things, rows = coco_things(folder), []
    for file in sorted(photos):
        own = things.get(Path(file).name, [])
        rows += [(file, caption, [box for box, _ in own]) for caption in photos[file]["en"] if own]
    files, captions, boxes = map(list, zip(*rows, strict=True))
    scores = scorer.score(captions, files, boxes=boxes, language="en")
    mentioned: dict[bool, list[bool]] = {True: [], False: []}
    for detail, (file, caption, _) in zip(scores.details, rows, strict=True):
        for region, (_, name) in zip(detail["regions"], things[Path(file).name], strict=True):
            named = _is_named(name, caption)
            if named or not any(_is_named(name, other) for other in photos[file]["en"]):
                mentioned[named].append(region["mentioned"] == named)
    found, left = np.mean(mentioned[True]), np.mean(mentioned[False])
    return {
        "photos": len(set(files)),
        "named": len(mentioned[True]),
        "named_found": float(found),
        "unnamed": len(mentioned[False]),
        "unnamed_left": float(left),
        "accuracy": float(found + left) / 2,
    }


def _is_named(name: str, text: str) -> bool:
    words = text.lower().replace(".", " ").replace(",", " ").split()
    return f" {name}" in f" {' '.join(words)}" or any(word in words for word in _ALSO.get(name, "").split())


def tables(result: Mapping[str, Any]) -> Iterator[Table | str]:
    found = list(result["languages"].values())
    rows = [["photos", *(str(own["photos"]) for own in found)]]
    for name in (*SHARES, "calibration_error"):
        rows.append([name.replace("_", " "), *(in_percent(own.get(name)) for own in found)])
    yield Table(["%", *result["languages"]], rows)
    yield from (f"{name}: {json.dumps(result[name])}" for name in ("marks", "regions") if name in result)


@command(
    rows="file of mark_calibration.rows",
    data="folder with xflickrco, for Spanish; default: none",
    coco="folder in COCO's layout; default: none",
    backbone="default: that of the metric",
    weights="weights of the network; default: those that ship",
    marks="mark calibration; default: the one that ships",
    **FILES,
)
def main(rows: Path, data: MaybePath, coco: MaybePath, backbone: str | None, **others: Any) -> None:
    options = {name: others.pop(name) for name in ("weights", "marks")}
    backbone = backbone or default_backbone("infometic")
    scorer = capscore.load("infometic", backbone=backbone, false_alarms=0.05, **options)
    photos = read_measured(rows)
    if data:
        measured = {Path(file).name: file for file in photos}
        for name, text in translated(data, "xflickrco", "es", measured, ("test",)):
            photos[measured[name]]["es"] = [text]
    of_coco = coco_captions(coco) if coco else {}
    cases = {language: language_cases(photos, language, _MOST, 0) for language in _LANGUAGES}
    cases[COCO] = language_cases(of_coco, "en", _MOST, 0)
    details = details_of(scorer, list(chain.from_iterable(cases.values())))
    reports = {name: report(own, details) for name, own in cases.items() if own}
    result: dict[str, Any] = {"marks": scorer.marks, "languages": reports}
    if coco and any(coco.glob("annotations/instances_*.json")):
        result["regions"] = region_accuracy(scorer, of_coco, coco)
    write_results(others, result, [*tables(result)])


if __name__ == "__main__":
    main()
