"""The demo: its captions are complete, and what it prints and writes is what the photos really score."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from PIL import Image

from capscore import MissingExtraError

DOCS = Path(__file__).resolve().parent.parent / "docs"
LANGUAGES = ["en", "de", "fr", "es", "ja", "zh", "ar", "ru"]
MARKS = ["right", "half", "wrong"]
PHOTOS = json.loads((DOCS / "demo_captions.json").read_text(encoding="utf-8"))
# What a caption in a language is written in; one that was left in English has none of it.
SCRIPTS = {
    "ja": r"[\u3040-\u30ff]",  # kana
    "zh": r"^[\u4e00-\u9fff，。、]+$",  # no kana, no Latin
    "ar": r"^[\u0600-\u06ff .،]+$",
    "ru": r"^[\u0400-\u04ff ,.-]+$",
}


def load_demo() -> ModuleType:
    spec = importlib.util.spec_from_file_location("capscore_demo", DOCS / "demo.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


demo = load_demo()


# ------------------------------------------------------------------------------ data


def test_there_are_at_least_six_photos_and_they_can_be_read():
    assert len(PHOTOS) >= 6
    for name, entry in PHOTOS.items():
        with Image.open(demo.photo_path(entry["file"])) as image:
            image.load()
            assert min(image.size) >= 256, name
        assert entry["title"] and entry["alt"] and entry["credit"], name


def test_every_photo_has_every_language_and_every_caption():
    for name, entry in PHOTOS.items():
        assert list(entry["captions"]) == LANGUAGES, name
        for language, captions in entry["captions"].items():
            assert list(captions) == [*MARKS, "references"], (name, language)
            assert 2 <= len(captions["references"]) <= 3, (name, language)


def test_every_caption_is_distinct_and_in_its_language():
    texts = [
        (language, text)
        for entry in PHOTOS.values()
        for language, captions in entry["captions"].items()
        for text in (*(captions[mark] for mark in MARKS), *captions["references"])
    ]
    assert len({text for _, text in texts}) == len(texts) == len(PHOTOS) * len(LANGUAGES) * 5
    for language, text in texts:
        assert text == text.strip() and len(text) >= 6
        assert text[-1] in ".。", text
        if language in SCRIPTS:
            assert re.search(SCRIPTS[language], text), (language, text)


def test_the_languages_are_those_of_the_backbone(embedded):
    assert set(LANGUAGES) <= embedded.languages


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'capscore\[demo\]'"):
        demo.photo_path("chelsea.png")


def test_a_problem_is_said_in_one_line(monkeypatch, capsys, tmp_path, embedded):
    for name in demo.SETTINGS:
        monkeypatch.setenv(name, os.environ.get(name, ""))
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    assert demo.main(["--output", str(tmp_path / "demo.html")], backbone=embedded) == 1
    assert capsys.readouterr().err.startswith("demo: the demo needs the package 'scikit-image'")
    assert os.listdir(tmp_path) == []


# --------------------------------------------------------------------------- the run


@pytest.fixture(scope="module")
def run(tmp_path_factory, embedded):
    """The demo, run from outside the checkout → what it printed, its page, the environment it set."""
    folder = tmp_path_factory.mktemp("elsewhere")
    with pytest.MonkeyPatch.context() as patch:
        for name in demo.SETTINGS:
            patch.setenv(name, "changed by the demo")
        patch.setenv("COLUMNS", "80")
        patch.chdir(folder)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            assert demo.main([], backbone=embedded) == 0
        environment = {name: os.environ[name] for name in demo.SETTINGS}
    return printed.getvalue(), folder / "demo.html", environment


@pytest.fixture(scope="module")
def expected(embedded) -> dict[str, dict[tuple[str, str, str], float]]:
    """Both metrics by hand: from the towers' embeddings, one row at a time."""
    mcs, ref = {}, {}
    for name, entry in PHOTOS.items():
        with Image.open(demo.photo_path(entry["file"])) as image:
            photo = embedded.encode_images([image.convert("RGB")])[0].astype(np.float64)
        texts = [
            text
            for captions in entry["captions"].values()
            for text in (*(captions[mark] for mark in MARKS), *captions["references"])
        ]
        rows = dict(zip(texts, embedded.encode_texts(texts).astype(np.float64), strict=True))
        for language, captions in entry["captions"].items():
            for mark in MARKS:
                text = rows[captions[mark]]
                image_term = 2.5 * max(float(photo @ text), 0.0)
                text_term = max(0.0, *(float(rows[reference] @ text) for reference in captions["references"]))
                mcs[name, language, mark] = image_term
                both = image_term > 0 and text_term > 0
                ref[name, language, mark] = 2 / (1 / image_term + 1 / text_term) if both else 0.0
    return {"mcs": mcs, "ref_clip_score": ref}


def test_a_wrong_caption_scores_under_the_right_one_everywhere(expected):
    for metric, scores in expected.items():
        for name in PHOTOS:
            for language in LANGUAGES:
                right, wrong = (scores[name, language, mark] for mark in ("right", "wrong"))
                assert right > wrong + 0.05, (metric, name, language)


def test_the_counts_printed_are_true(run, expected):
    printed = run[0].replace("\n", " ")
    for metric, label in (("mcs", "MCS"), ("ref_clip_score", "RefCLIPScore")):
        scores = expected[metric]
        triples = [
            tuple(scores[name, language, mark] for mark in MARKS) for name in PHOTOS for language in LANGUAGES
        ]
        above = sum(right > wrong for right, _, wrong in triples)
        ordered = sum(right >= half >= wrong for right, half, wrong in triples)
        n = len(PHOTOS) * len(LANGUAGES)
        assert (
            f" {label}: right > wrong in {above} of {n} photo–language pairs, "
            f"right ≥ half right ≥ wrong in {ordered} of {n}."
        ) in re.sub(" +", " ", printed)


def test_the_tables_printed_are_true(run, expected):
    lines = run[0].splitlines()
    starts = [place for place, line in enumerate(lines) if line.split()[:2] == ["photo", "caption"]]
    assert len(starts) == 2
    for start, scores in zip(starts, expected.values(), strict=True):
        assert lines[start].split()[2:] == LANGUAGES
        rows = [line for line in lines[start + 2 :] if line.strip()][: 3 * len(PHOTOS)]
        for place, line in enumerate(rows):
            name, mark = list(PHOTOS)[place // 3], MARKS[place % 3]
            assert line.split()[0] == (PHOTOS[name]["title"] if mark == "right" else "✓~✗"[place % 3])
            cells = line.split()[-len(LANGUAGES) :]
            for language, cell in zip(LANGUAGES, cells, strict=True):
                score = scores[name, language, mark]
                assert float(cell.rstrip("*")) == pytest.approx(score, abs=0.0051), (name, language, mark)
                better = [scores[name, language, other] for other in MARKS[: place % 3]]
                assert cell.endswith("*") == any(score > other for other in better), (name, language, mark)


def test_the_table_fits_eighty_columns(run):
    table = [
        line for line in run[0].splitlines() if not line.startswith(("Page: ", "MCS signature", "RefCLIP"))
    ]
    assert max(map(len, table)) <= 80
    assert "…" not in run[0], "nothing is cut off"


def test_the_backbone_is_chosen_openly(run):
    printed, _, environment = run
    assert printed.startswith("Backbone: embedded. This demo chose it (CAPSCORE_BACKBONE=embedded), because ")
    assert environment["CAPSCORE_BACKBONE"] == "embedded"
    assert environment["HF_HUB_OFFLINE"] == environment["HF_EVALUATE_OFFLINE"] == "1"
    assert "mcs|backbone:embedded@w" in printed


def test_the_page_has_every_caption_and_score(run, expected):
    printed, path, _ = run
    assert f"Page: {path} (" in printed
    page = path.read_text(encoding="utf-8")
    assert page.count("data:image/jpeg;base64,") == len(PHOTOS)
    cards = page.split("<article ")[1:]
    for (name, entry), card in zip(PHOTOS.items(), cards, strict=True):
        shown = [float(score) for score in re.findall(r"<b>(\d\.\d{3})", card)]
        wanted = [
            scores[name, language, mark]
            for language in LANGUAGES
            for mark in MARKS
            for scores in expected.values()
        ]
        np.testing.assert_allclose(shown, wanted, atol=0.00051)
        places = [
            card.index(f">{captions[mark]}</p>") for captions in entry["captions"].values() for mark in MARKS
        ]
        assert places == sorted(places)
    assert page.count('lang="ar" dir="rtl">') >= 5 * len(PHOTOS)
