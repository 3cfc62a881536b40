"""The demo: its captions are complete, and what it prints and writes is what the photos really score."""

from __future__ import annotations

import contextlib
import doctest
import html
import importlib.util
import io
import itertools
import json
import os
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from PIL import Image

import capscore
from capscore.perturbations import KINDS

from .shipped_weights import pr_mcs_on

DOCS = Path(__file__).resolve().parent.parent / "docs"
LANGUAGES = ["en", "de", "fr", "es", "ja", "zh", "ar", "ru"]
PERTURBED = ["en", "de", "fr", "es", "ja"]
MARKS = ["right", "half", "wrong"]
PHOTOS = json.loads(Path(capscore.__file__).with_name("show").joinpath("examples.json").read_text("utf-8"))


def load_demo(name: str = "demo") -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"capscore_{name}", DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


demo = load_demo()


def test_every_perturbation_changes_every_right_caption():
    perturbed = demo.perturb_right(PHOTOS)
    assert list(perturbed) == PERTURBED
    for language, kinds in perturbed.items():
        assert list(kinds) == ["original", *KINDS]
        assert kinds["original"] == [entry["captions"][language]["right"] for entry in PHOTOS.values()]
        for kind in KINDS:
            for before, after in zip(kinds["original"], kinds[kind], strict=True):
                assert before != after, (language, kind)


def test_a_problem_is_one_line(monkeypatch, capsys, tmp_path, embedded):
    for name in demo.SETTINGS:
        monkeypatch.setenv(name, os.environ.get(name, ""))
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    assert demo.main(["--output", str(tmp_path / "demo.html")], loaded=[embedded]) == 1
    assert capsys.readouterr().err.startswith("demo: the demo needs the package 'scikit-image'")
    assert os.listdir(tmp_path) == []


def test_one_command_judges_the_photos_with_a_tiny_model(monkeypatch, capfd, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [])
    with pytest.raises(SystemExit) as ended:
        load_demo("judge_demo").main()
    told, page = capfd.readouterr().out, html.unescape((tmp_path / "judge.html").read_text(encoding="utf-8"))
    assert ended.value.code == 0 and "Scored 6 of 6 rows" in told
    assert "A tiny untrained model judges" in told and "<h1>Untrained judge, its numbers mean nothing" in page
    pattern = r'<p class="text"[^>]*>(.*?)</p>.*?<p class="reason"[^>]*>(.+?)</p>'
    reasons = dict(re.findall(pattern, page, re.S))
    assert reasons.keys() == {entry["captions"]["en"]["right"] for entry in PHOTOS.values()}
    assert all(f": {reason}" in told for reason in reasons.values())


@pytest.fixture(scope="module")
def tuned(base_of_pr_mcs):
    return pr_mcs_on(base_of_pr_mcs)


@pytest.fixture(scope="module")
def run(tmp_path_factory, embedded, tuned, base_of_pr_mcs):
    """The demo, run from outside the checkout → what it printed, its page."""
    folder = tmp_path_factory.mktemp("elsewhere")
    with pytest.MonkeyPatch.context() as patch:
        for name in demo.SETTINGS:
            patch.setenv(name, "changed by the demo")
        patch.setenv("COLUMNS", "80")
        patch.chdir(folder)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            assert demo.main([], loaded=[embedded, tuned, base_of_pr_mcs]) == 0
        assert os.environ["HF_HUB_OFFLINE"] == "1"
    return printed.getvalue(), folder / "demo.html"


@pytest.fixture(scope="module")
def expected(embedded) -> dict[str, dict[tuple[str, str, str], float]]:
    """Both metrics by hand: from the towers' embeddings, one row at a time."""
    mcs, ref = {}, {}
    for name, entry in PHOTOS.items():
        with Image.open(demo.photo_path(entry["file"])) as image:
            photo = embedded.encode_images([image.convert("RGB")])[0].astype(np.float64)
        for language, captions in entry["captions"].items():
            texts = [*(captions[mark] for mark in MARKS), *captions["references"]]
            rows = embedded.encode_texts(texts).astype(np.float64)
            for mark, text in zip(MARKS, rows, strict=False):
                image_term = embedded.w * max(float(photo @ text), 0.0)
                text_term = max(0.0, *(rows[len(MARKS) :] @ text))
                mcs[name, language, mark] = image_term
                both = image_term > 0 and text_term > 0
                ref[name, language, mark] = 2 / (1 / image_term + 1 / text_term) if both else 0.0
    return {"mcs": mcs, "ref_clip_score": ref}


@pytest.mark.slow
def test_a_wrong_caption_scores_under_the_right_one_everywhere(expected):
    for scores in expected.values():
        for name, language in itertools.product(PHOTOS, LANGUAGES):
            assert scores[name, language, "right"] > scores[name, language, "wrong"] + 0.05, (name, language)


@pytest.mark.slow
def test_the_tables_printed_are_true_and_fit_80_columns(run, expected):
    lines = run[0].splitlines()
    starts = [index for index, line in enumerate(lines) if line.split()[:2] == ["photo", "caption"]]
    for start, scores in zip(starts, expected.values(), strict=True):
        rows = [line for line in lines[start + 2 :] if line.strip()][: 3 * len(PHOTOS)]
        for line, (name, mark) in zip(rows, itertools.product(PHOTOS, MARKS), strict=True):
            for language, cell in zip(LANGUAGES, line.split()[-len(LANGUAGES) :], strict=True):
                score = scores[name, language, mark]
                assert float(cell.rstrip("*")) == pytest.approx(score, abs=0.0051), (name, language, mark)
                better = [scores[name, language, other] for other in MARKS[: MARKS.index(mark)]]
                assert cell.endswith("*") == any(score > other for other in better), (name, language, mark)
    shown = [line for line in lines if not line.startswith("Page: ") and "|" not in line]
    assert max(map(len, shown)) <= 80 and "…" not in run[0] and "mcs|backbone:embedded@w" in run[0]


@pytest.mark.slow
def test_the_page_has_every_caption_and_score_and_loads_nothing(run, expected):
    page = run[1].read_text(encoding="utf-8")
    cards = page.partition("<main>")[2].partition('<section class="overview')[0].split("<article ")[1:]
    for (name, entry), card in zip(PHOTOS.items(), cards, strict=True):
        shown = [float(score) for score in re.findall(r"<b>(\d\.\d{3})", card)]
        wanted = []
        for language, mark in itertools.product(LANGUAGES, MARKS):
            wanted += [scores[name, language, mark] for scores in expected.values()]
        np.testing.assert_allclose(shown, wanted, atol=0.00051)
        assert all(f">{texts[mark]}</p>" in card for texts in entry["captions"].values() for mark in MARKS)
    assert page.count('lang="ar" dir="rtl">') >= 5 * len(PHOTOS)
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids)) and set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)
    assert not re.search(r'<script|(?:src|href)="(?!#|data:image/)|url\(|@import', page)


@pytest.mark.slow
def test_the_page_has_the_perturbed_and_the_explained_captions(run):
    page = html.unescape(re.sub("</?mark>", "", run[1].read_text(encoding="utf-8")))
    for number, kinds in enumerate(demo.perturb_right(PHOTOS).values()):
        assert all(f">{texts[number]}</span>" in page for texts in kinds.values())
    assert all(f"<bdi>planted: {noun}</bdi>" in page for noun, _ in demo.PLANTED.values())
    assert 'class="said word-wrong"' in page and "<dt>InfoMetIC</dt><dd><code>infometic|" in page


def test_examples_in_the_docstrings():
    assert doctest.testmod(demo).failed == 0
