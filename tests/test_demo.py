"""The demo: its captions are complete, and what it prints and writes is what the photos really score."""

import contextlib
import doctest
import html
import io
import itertools
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

import capscore
import demo
import judge_demo
from capscore.perturbations import KINDS

from .shipped_weights import pr_mcs_on

LANGUAGES = ["en", "de", "fr", "es", "ja", "zh", "ar", "ru"]
PERTURBED = ["en", "de", "fr", "es", "ja"]
MARKS = ["right", "half", "wrong"]
PHOTOS = json.loads(Path(capscore.__file__).with_name("show").joinpath("examples.json").read_text("utf-8"))


def test_every_perturbation_changes_every_right_caption():
    perturbed = demo.perturb_right(PHOTOS)
    assert list(perturbed) == PERTURBED
    for language, kinds in perturbed.items():
        assert list(kinds) == ["original", *KINDS]
        assert kinds["original"] == [entry["captions"][language]["right"] for entry in PHOTOS.values()]
        for kind, photo in itertools.product(KINDS, range(len(PHOTOS))):
            assert kinds["original"][photo] != kinds[kind][photo], (language, kind)


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
        judge_demo.main()
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
def expected(embedded):
    """(photo, language, mark) → score, by both metrics."""
    found = []
    for metric in ("mcs", "ref_clip_score"):
        scorer, scores = capscore.load(metric, backbone=embedded, cache=False), {}
        for (name, entry), language in itertools.product(PHOTOS.items(), LANGUAGES):
            captions, photo = entry["captions"][language], str(demo.photo_path(entry["file"]))
            given = [[captions[mark] for mark in MARKS], [photo] * len(MARKS)]
            if scorer.needs_references:
                given.append([captions["references"]] * len(MARKS))
            scored = scorer.score(*given, language=language).scores
            scores |= {(name, language, mark): score for mark, score in zip(MARKS, scored, strict=True)}
        found.append(scores)
    return found


@pytest.mark.slow
def test_tables_fit_80_columns_and_the_page_has_every_caption_and_score_and_loads_nothing(run, expected):
    printed, page = run[0], run[1].read_text(encoding="utf-8")
    shown = [line for line in printed.splitlines() if not line.startswith("Page: ") and "|" not in line]
    assert max(map(len, shown)) <= 80 and "…" not in printed and "mcs|backbone:embedded@w" in printed
    for scores, (name, language) in itertools.product(expected, itertools.product(PHOTOS, LANGUAGES)):
        assert scores[name, language, "right"] > scores[name, language, "wrong"] + 0.05, (name, language)
    cards = page.partition("<main>")[2].partition('<section class="overview')[0].split("<article ")[1:]
    for (name, entry), card in zip(PHOTOS.items(), cards, strict=True):
        wanted = []
        for language, mark in itertools.product(LANGUAGES, MARKS):
            wanted += [scores[name, language, mark] for scores in expected]
            assert f">{entry['captions'][language][mark]}</p>" in card
        shown = [float(score) for score in re.findall(r"<b>(\d\.\d{3})", card)]
        np.testing.assert_allclose(shown, wanted, atol=0.00051)
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids)) and set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)
    assert not re.search(r'<script|(?:src|href)="(?!#|data:image/)|url\(|@import', page)
    plain = html.unescape(re.sub("</?mark>", "", page))
    for number, kinds in enumerate(demo.perturb_right(PHOTOS).values()):
        assert all(f">{texts[number]}</span>" in plain for texts in kinds.values())
    assert all(f"<bdi>planted: {noun}</bdi>" in plain for noun, _ in demo.PLANTED.values())


def test_examples_in_the_docstrings():
    assert doctest.testmod(demo).failed == 0
