"""The study of marks that can be believed, on details written by hand."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from capscore.errors import InputError
from tools.tiny.official import write_json, write_jsonl, write_lines
from weights.measuring import believable_marks as study
from weights.measuring.believable_marks import Case, calibration_error, language_cases, report

PHOTOS = {
    f"{number}.jpg": {
        "en": [f"A dog runs on the beach {number} while it rains .", f"The brown dog {number} plays ."]
    }
    for number in range(4)
}


def detail(caption, *, fits=True, wrong=(), recall=1.0, precision=1.0):
    """A word of more than three letters is semantic, and right unless it is among the wrong ones."""
    words = []
    for text in caption.split():
        start, semantic = caption.index(text), len(text) > 3 or text in wrong
        p = (0.1 if text in wrong else 0.9) if semantic else None
        words.append(
            {
                "text": text, "start": start, "end": start + len(text), "score": 0.2, "semantic": semantic,
                "word_class": "noun", "p_correct": p, "correct": p > 0.5 if semantic and fits else None,
            }
        )  # fmt: skip
    return {"fits": fits, "words": words, "recall": recall, "precision": precision}


@pytest.fixture
def cases():
    return language_cases(PHOTOS, "en", max_photos=10, seed=0)


@pytest.fixture
def details(cases):
    """Every planted word is the least likely and marked, everything else is right; others do not fit."""
    found = {}
    for case in cases:
        wrong, fits = case.caption[case.start : case.end], case.kind != "other"
        planted = (wrong,) if wrong else ()
        for caption, words in ((case.original or case.caption, ()), (case.caption, planted)):
            precision = -1.0 if words else 1.0
            shown = detail(caption, fits=fits, wrong=words, recall=float(len(caption)), precision=precision)
            found[case.photo, "en", caption] = shown
    return found


def of_kind(cases, kind):
    return [case for case in cases if case.kind == kind]


def test_the_cases_are_right_captions_those_of_other_photos_and_planted_ones(cases):
    others = of_kind(cases, "other")
    assert len(of_kind(cases, "right")) == 8 and len({case.photo for case in others}) == len(others) == 4
    assert all(case.caption not in PHOTOS[case.photo]["en"] for case in others)
    assert {"blatant", "same_kind", "shorter"} <= {case.kind for case in cases}
    assert language_cases(dict(reversed(PHOTOS.items())), "en", max_photos=10, seed=0) == cases
    three = {"0.jpg": {"en": ["A cat .", "A dog .", "A cow .", "A fox ."], "zh": ["猫。", "狗。", "牛。"]}}
    (long,), (chinese,) = (of_kind(language_cases(three, code, 1, 0), "long") for code in ("en", "zh"))
    assert long.caption.count(". A") == 2 and chinese.caption.count("。") == 3


def test_a_report_counts_planted_words_and_captions_of_other_photos(cases, details, monkeypatch):
    found = report(cases, details)
    for kind in ("blatant", "same_kind"):
        assert [found[f"{kind}_{name}"] for name in study.OUTCOMES] == [1.0, 1.0, 0.0]
        assert found["captions"][kind] == 4
    assert found["photos"] == 4 and found["others_not_fitting"] == 1.0
    assert found["right_words_marked"] == 0.0 and found["right_without_mark"] == 1.0
    assert found["lower_precision"] == found["lower_recall"] == 1.0
    for kind, name in (("shorter", "lower_recall"), ("blatant", "lower_precision")):
        key = of_kind(cases, kind)[0][1:4]
        same = {**details, key: {**details[key], "recall": 1e9, "precision": 1.0}}
        assert report(cases, same)[name] == 0.75
    assert "calibration_error" not in found  # too few words
    monkeypatch.setattr(study, "_ENOUGH", 2)
    # right words have .9, and planted ones .1
    assert report(cases, details)["calibration_error"] == pytest.approx(0.1)


def test_right_captions_that_are_marked_count_as_false_alarms(cases, details, monkeypatch):
    first, second = (case[1:4] for case in of_kind(cases, "right")[:2])
    details[first], details[second] = detail(first[2], wrong=("dog",)), detail(second[2], fits=False)
    found = report(cases, details)
    assert found["right_not_fitting"] == pytest.approx(1 / 8)
    assert found["right_without_mark"] == pytest.approx(6 / 8) and found["right_words_marked"] > 0
    long = Case("long", "0.jpg", "en", "a dog " + "that runs and runs " * 6)
    details[long[1:4]] = detail(long.caption, wrong=("dog",))
    assert report([*cases, long], details)["long_words_marked"] == pytest.approx(1 / 19)
    monkeypatch.setattr(study, "_LONG", 20)
    assert report([*cases, long], details)["long_words_marked"] is None


def test_the_calibration_error():
    """By hand: two of three right ones and one of two wrong ones have .95, the others .25."""
    top, low = 1 / 6 * 2 * 0.05 - 1 / 4 * 0.95, 1 / 6 * 0.75 - 1 / 4 * 0.25
    found = calibration_error([0.95, 0.95, 0.25], [0.95, 0.25])
    assert found == pytest.approx(abs(top) + abs(low), abs=1e-12)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("person", "a man, smiling", True),
        ("car", "a carpet", True),  # a prefix counts: a thing is rather taken as named than not
        ("cat", "a dog sleeps", False),
        ("dining table", "a long table", True),
    ],
)
def test_words_that_name_a_thing(name, text, expected):
    assert study._is_named(name, text) is expected


def write_coco(folder):
    """A dog and a car, a cup that is too small, and a cat, of which the captions name the dog and the cat."""
    boxes = [([0, 0, 50, 50], 1), ([60, 60, 40, 40], 2), ([5, 5, 4, 4], 3), ([60, 0, 30, 30], 4)]
    images = [{"id": 7, "file_name": "7.jpg"}]
    instances = {
        "categories": [{"id": n, "name": name} for n, name in enumerate("dog car cup cat".split(), 1)],
        "images": images,
        "annotations": [{"image_id": 7, "category_id": c, "bbox": box} for box, c in boxes],
    }
    listed = enumerate(("A dog.", "A dog and a cat."))
    captions = [{"id": n, "image_id": 7, "caption": text} for n, text in listed]
    write_json(folder / "annotations" / "instances_x.json", instances)
    write_json(folder / "annotations" / "captions_x.json", {"images": images, "annotations": captions})
    write_lines(folder / "7.jpg", [])


class FirstBox:
    marks = "learned"

    def score(self, captions, images, boxes=None, language=None):
        details = [detail(caption) for caption in captions]
        for number, own in enumerate(details):
            named = boxes[number] if boxes else ()
            own["regions"] = [{"mentioned": not index} for index, _ in enumerate(named)]
        flat = dict.fromkeys(("recall", "precision"), np.ones(len(details)))
        return SimpleNamespace(details=details, components=flat)


def test_the_command_measures_languages_photos_of_coco_and_regions(tmp_path, monkeypatch):
    write_coco(tmp_path / "coco")
    rows = [{"file": "x.jpg", "split": "train", "captions": []}]
    for file, captions in PHOTOS.items():
        captions = [[caption, "en", "x"] for caption in captions["en"]]
        rows.append({"file": file, "split": "measure", "captions": captions})
    write_jsonl(tmp_path / "rows.jsonl", rows)
    monkeypatch.setattr("capscore.load", lambda name, **given: FirstBox())
    given = ["--rows", "rows.jsonl", "--coco", "coco", "--output", "out.json", "--markdown", "out.md"]
    monkeypatch.chdir(tmp_path)
    study.main(given)
    found = json.loads((tmp_path / "out.json").read_text())
    assert list(found["languages"]) == ["en", "en, COCO"]
    english, coco = found["languages"].values()
    assert (english["right_without_mark"], english["blatant_marked"]) == (1, 0)
    assert (coco["right_without_mark"], coco["photos"]) == (1, 1)
    # named: dog, dog, cat, of which the two dogs are found; unnamed: the car twice
    regions = found["regions"]
    assert (regions["photos"], regions["named"], regions["unnamed"]) == (1, 3, 2)
    assert regions["named_found"] == pytest.approx(2 / 3) and regions["unnamed_left"] == 1.0
    assert regions["accuracy"] == pytest.approx(5 / 6)
    table = (tmp_path / "out.md").read_text()
    assert "| photos | 4 | 1 |" in table and "| right without mark | 100.0 | 100.0 |" in table
    write_jsonl(tmp_path / "rows.jsonl", rows[:1])
    with pytest.raises(InputError, match="no photo of the split 'measure'"):
        study.main(given)
