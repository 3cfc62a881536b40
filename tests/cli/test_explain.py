"""`capscore explain`: what it hands over, prints, writes and refuses."""

import json
import math

import numpy as np
import pytest
from PIL import Image

import capscore
from capscore.metrics.infometic import InfoMetIC
from capscore.metrics.scores import Scores
from tools.tiny.colours import JudgingColours

from ..infometic.invented import REGIONS, explanation
from .conftest import assert_refused, run


class InventedScorer(InfoMetIC):
    """Finds every cat wrong, and remembers what it was asked."""

    def __init__(self):
        self.options, self.asked = {}, {}
        self.mark_calibration, self.beta = None, 0.1

    def language_problem(self, code):
        return "no words of Klingon are known" if code == "tlh" else ""

    def score(self, captions, images, references=None, language=None):
        self.asked = {"captions": captions, "images": images, "language": language}
        n = len(captions)
        found = {"recall": 0.6, "precision": 0.4, "clip_cosine": math.nan}
        said = {"metric": "infometic", "scores": np.full(n, 1.0), "settings": {"backbone": "toy"}}
        said["components"] = {name: np.full(n, value) for name, value in found.items()}
        rows = {"image_keys": [""] * n, "truncated": np.zeros(n, bool), "n_references": np.zeros(n, int)}
        rows["languages"] = language or [""] * n
        marks = {"right": "red 椅子", "wrong": "cat 猫", "regions": REGIONS}
        return Scores(**said, **rows, details=[explanation(text, **marks) for text in captions])


@pytest.fixture
def scorer(monkeypatch):
    made = InventedScorer()

    def make(metric, **options):
        made.options = options
        made.beta = options.get("beta", 0.1)
        return made

    monkeypatch.setattr("capscore.metrics.load", make)
    return made


@pytest.fixture
def photo(tmp_path):
    path = tmp_path / "photo.png"
    Image.new("RGB", (40, 30), (9, 99, 199)).save(path)
    return path


def test_words_scores_and_regions_are_printed(scorer, photo):
    lines = run("explain", photo, "A red cat", "of the").stdout.splitlines()
    expected = ["A red ✗[cat]", "Likely wrong: cat (score 0.02).", "Text precision  0.40"]
    expected += ["Mentioned       dog (0.40)", "infometic|backbone:toy"]
    expected += ["There is no content word, so none can be wrong."]
    assert set(expected) <= set(lines) and max(map(len, lines)) <= 80
    assert [line.count("sky") for line in lines if line.startswith("Missed  ")] == [1, 1]
    shown = run("explain", photo, "a [red]cat[/]\x1b[31m\nx").stdout
    assert "\x1b" not in shown and "a [red]✗[cat][/]\\x1b[31m x" in shown.splitlines()


def test_the_scorer_gets_captions_photo_and_options(scorer, photo):
    options = ["--language", "de", "--backbone", "b", "--weights", "w", "--beta", "0.2", "--no-cache"]
    assert run("explain", photo, "one", "two", *options, "--regions", "detr:x").exit_code == 0
    first, second = scorer.asked.pop("images")
    assert first is second and isinstance(first, Image.Image)  # decoded once
    assert scorer.asked == {"captions": ["one", "two"], "language": ["de", "de"]}
    given = {"backbone": "b", "weights": "w", "beta": 0.2, "cache": False, "regions": "detr:x"}
    assert given.items() <= scorer.options.items()


def test_a_language_for_each_caption_and_a_note_where_it_is_plainly_another(scorer, photo):
    done = run("explain", photo, "A red cat", "猫と椅子", "--language", "en", "--language", "ja")
    assert scorer.asked["language"] == ["en", "ja"] and done.stderr == ""
    done = run("explain", photo, "A red cat", "猫と椅子")
    assert "caption 2 seems to be in another language; it is read as English" in done.stderr
    assert "caption 1" not in done.stderr and scorer.asked["language"] is None


def test_json_and_python_have_every_word_region_and_score(scorer, photo):
    printed = json.loads(run("explain", photo, "A red cat", "--json").stdout)
    assert printed == {"image": str(photo), **capscore.explain(photo, "A red cat").to_dict()}
    (row,) = printed["captions"]
    found = [row[name] for name in ("caption", "infometic", "precision", "clip_cosine")]
    assert found == ["A red cat", 1.0, 0.4, None]
    assert [word["correct"] for word in row["words"]] == [None, True, False]
    assert (printed["signature"], printed["beta"], len(row["regions"])) == ("infometic|backbone:toy", 0.1, 5)
    with pytest.raises(capscore.InputError, match="2 languages and 1 captions"):
        capscore.explain(photo, "A red cat", language=["en", "de"])


def test_a_judge_says_score_margin_mass_and_reason(judge, photo, tmp_path):
    asked = ("explain", photo, "A cat", "猫", "-m", "judge", "--backbone", "b", "-o", tmp_path / "page.html")
    shown = run(*asked).stdout
    assert judge == ["b"] and "\x1b" not in shown
    assert [line.split()[0] for line in shown.splitlines()[2:5]] == ["score", "margin", "mass"]
    assert shown.count("reason  too <b>\\x1b</b>") == 2 and "|reading:yes|" in shown
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count("too &lt;b&gt;\\x1b&lt;/b&gt;</p>") == 2 and page.count("<img") == 1
    printed = json.loads(run(*asked[:-2], "--reading", "grade", "--json").stdout)
    assert "beta" not in printed and "|reading:grade|" in printed["signature"]
    keys = ["caption", "language", "judge", "margin", "mass", "reason"]
    assert [list(row) for row in printed["captions"]] == [keys] * 2


@pytest.mark.parametrize("language, told", [("xx-klingon", "unknown"), ("tlh", "no words of Klingon")])
def test_a_language_that_cannot_be_read_is_refused(scorer, photo, language, told):
    assert_refused(run("explain", photo, "A cat", "--language", language), told)
    assert not scorer.asked


def test_any_metric_gives_its_scores_and_what_it_says(photo, tmp_path):
    references = ("--reference", "a red dog", "--reference", "dog")
    asked = ("explain", photo, "a red dog", "a cat", "-m", "rouge_l", *references)
    lines = run(*asked, "-o", tmp_path / "page.html").stdout.splitlines()
    assert lines[1:3] == ["a red dog", "score   1.0000"] and lines[-2].startswith("rouge_l|")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "a red dog" in page and "score <b>1.000</b>" in page and "rouge_l|" in page
    printed = json.loads(run(*asked, "--json").stdout)
    assert printed["captions"][0]["rouge_l"] == 1.0 and printed["image"] == str(photo)
    assert '"mcs|backbone:embedded@' in run("explain", photo, "a cat", "-m", "mcs@embedded", "--json").stdout


def test_what_pr_mcs_finds_is_shown(photo):
    scorer = capscore.load("pr_mcs", backbone=JudgingColours(), cache=False)
    found = capscore.explain(photo, ["red", "red mask"], scorer)
    assert found.name == "photo.png" and not found.marks_words
    assert [item.found for item in found.captions] == [scorer.found(row) for row in found.scores.details]
    table = found.to_pandas()
    assert list(table.columns) == ["caption", "language", "pr_mcs", *found.scores.components]
    assert table["pr_mcs"].tolist() == found.scores.scores.tolist()
    assert found.captions[0].found.replace(" %", " %") in found.to_html()
