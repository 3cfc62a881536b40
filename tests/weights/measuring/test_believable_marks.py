"""The study of marks that can be believed, on details written by hand."""

from __future__ import annotations

import json

import pytest

from capscore.errors import InputError
from weights.measuring.believable_marks import (
    Scored,
    _is_named,
    language_cases,
    markdown,
    measure,
    read_measured,
    region_accuracy,
    report,
)

PHOTOS = {
    f"{number}.jpg": {"en": [f"A dog runs on the beach {number} .", f"The brown dog {number} plays ."]}
    for number in range(4)
}


def detail(caption, *, fits=True, wrong=(), unsure=()):
    words = []
    for text in caption.split():
        start = caption.index(text)
        semantic = len(text) > 3 or text in wrong
        state = None if text in unsure or not semantic else text not in wrong
        words.append(
            {
                "text": text, "start": start, "end": start + len(text), "score": 0.2, "semantic": semantic,
                "word_class": "noun", "p_correct": (0.1 if text in wrong else 0.9) if semantic else None,
                "correct": state if fits else None,
            }
        )  # fmt: skip
    return {"fits": fits, "words": words}


@pytest.fixture
def cases():
    return language_cases(PHOTOS, "en", max_photos=10, seed=0)


def scored(cases, **given):
    """Every planted word is the least likely and marked, everything else is right; others do not fit."""
    planted = {found.caption: found.caption[found.start : found.end] for _, found in cases.planted}
    others = set(cases.others)
    return {
        row: Scored(
            detail(row.caption, fits=row not in others, wrong=(planted.get(row.caption),)),
            float(len(row.caption)),
            -1.0 if row.caption in planted else 1.0,
        )
        for row in cases.rows()
    }


def test_the_cases(cases):
    assert len(cases.files) == 4 and len(cases.right) == 8
    assert [row.photo for row in cases.others] == cases.files
    for row in cases.others:
        assert row.caption not in PHOTOS[row.photo]["en"]
    kinds = {found.kind for _, found in cases.planted}
    assert {"blatant", "same_kind"} <= kinds


def test_the_draws_depend_on_the_seed_alone(cases):
    again = language_cases(dict(reversed(PHOTOS.items())), "en", max_photos=10, seed=0)
    assert again.rows() == cases.rows()


def test_a_report(cases):
    found = report(cases, scored(cases))
    for kind in ("blatant", "same_kind"):
        assert found["kinds"][kind]["lowest"] == found["kinds"][kind]["marked"] == 1.0
        assert found["kinds"][kind]["cannot_tell"] == 0.0
    assert found["others"] == {"n": 4, "said_not_to_fit": 1.0, "found": 1.0}
    assert found["right"]["words_marked"] == 0.0 and found["right"]["without_mark"] == 1.0
    assert found["lower_precision"] == 1.0
    assert found["calibration_error"] is None  # too few words


def test_the_table_has_every_share(cases, monkeypatch):
    monkeypatch.setattr("weights.measuring.believable_marks.score_rows", lambda scorer, rows: scored(cases))
    languages = measure(None, PHOTOS, ["en", "ja"], max_photos=10)
    assert languages == {"en": report(cases, scored(cases))}
    text = markdown({"marks": "learned", "languages": languages, "regions": {"accuracy": 0.5}})
    assert "| photos | 4 |" in text and "| blatant: marked | 100.0 |" in text
    assert "| another photo's: found | 100.0 |" in text and "| cannot tell, nouns | 0.0 |" in text
    assert text.endswith('regions: {"accuracy": 0.5}')


def test_a_caption_with_most_words_marked_is_found(cases):
    rows = scored(cases)
    first = cases.others[0]
    rows[first] = Scored(detail(first.caption, wrong=first.caption.split()), 1.0, 1.0)
    second = cases.others[1]
    rows[second] = Scored(detail(second.caption), 1.0, 1.0)
    found = report(cases, rows)["others"]
    assert found["said_not_to_fit"] == 0.5 and found["found"] == 0.75


def test_right_captions_that_are_marked_or_said_not_to_fit(cases):
    rows = scored(cases)
    first, second = cases.right[:2]
    rows[first] = Scored(detail(first.caption, wrong=("dog",)), 1.0, 1.0)
    rows[second] = Scored(detail(second.caption, fits=False), 1.0, 1.0)
    found = report(cases, rows)["right"]
    assert found["captions"] == 8 and found["said_not_to_fit"] == pytest.approx(1 / 8)
    assert found["without_mark"] == pytest.approx(6 / 8)
    assert found["words_marked"] > 0


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("dog", "two dogs run.", True),
        ("person", "a man, smiling", True),
        ("car", "a carpet", True),  # a prefix counts: a thing is rather taken as named than not
        ("cat", "a dog sleeps", False),
        ("dining table", "a long table", True),
        ("tv", "a television on a shelf", True),
    ],
)
def test_what_names_a_thing(name, text, expected):
    assert _is_named(name, text) is expected


def test_measured_photos(tmp_path):
    path = tmp_path / "judged.jsonl"
    rows = [
        {"file": "1.jpg", "split": "train", "captions": [["A dog.", "en", "x"]]},
        {
            "file": "2.jpg",
            "split": "measure",
            "captions": [["A cat.", "en", "x"], ["Eine Katze.", "de", "y"]],
        },
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert read_measured(path) == {"2.jpg": {"en": ["A cat."], "de": ["Eine Katze."]}}
    path.write_text(json.dumps(rows[0]) + "\n")
    with pytest.raises(InputError, match="no photo of the split 'measure'"):
        read_measured(path)


class _Scorer:
    """Says that the first box is mentioned, and no other."""

    def score(self, captions, images, boxes, language):
        regions = [[{"mentioned": number == 0} for number in range(len(own))] for own in boxes]
        return type("Scores", (), {"details": [{"regions": own} for own in regions]})


def test_region_accuracy(tmp_path):
    folder = tmp_path / "annotations"
    folder.mkdir()
    boxes = [([0, 0, 50, 50], 1), ([60, 60, 40, 40], 2), ([5, 5, 4, 4], 3), ([60, 0, 30, 30], 4)]
    content = {
        "categories": [{"id": n, "name": name} for n, name in enumerate("dog car cup cat".split(), 1)],
        "images": [{"id": 7, "file_name": "7.jpg"}],
        "annotations": [{"image_id": 7, "category_id": c, "bbox": box} for box, c in boxes],
    }
    (folder / "instances_x.json").write_text(json.dumps(content))
    captions = [{"image_id": 7, "caption": "A dog."}, {"image_id": 7, "caption": "A dog and a cat."}]
    (folder / "captions_x.json").write_text(json.dumps({"annotations": captions}))
    (tmp_path / "7.jpg").touch()
    found = region_accuracy(_Scorer(), tmp_path)
    # named: dog, dog, cat, of which the two dogs are found; unnamed: the car twice; the cup is too small
    assert (found["named"], found["unnamed"]) == (3, 2)
    assert found["named_found"] == pytest.approx(2 / 3) and found["unnamed_left"] == 1.0
    assert found["accuracy"] == pytest.approx(5 / 6)
