"""The command that explains captions of a photo: what it hands over, prints, writes and refuses."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from capscore.cli import app
from capscore.metrics.base import Scores

from ..infometic.invented import REGIONS, explanation


class InventedScorer:
    """Finds every cat wrong, and remembers what it was asked."""

    def __init__(self):
        self.options, self.asked = {}, {}

    def language_problem(self, code):
        return "no words of Klingon are known" if code == "tlh" else None

    def score(self, captions, images, *, language=None):
        self.asked = {"captions": captions, "images": images, "language": language}
        n = len(captions)
        details = [explanation(text, right="red 椅子", wrong="cat 猫", regions=REGIONS) for text in captions]
        return Scores(
            metric="infometic",
            scores=np.full(n, 1.0),
            components={
                "recall": np.full(n, 0.6),
                "precision": np.full(n, 0.4),
                "clip_cosine": np.full(n, math.nan),
            },
            settings={"backbone": "toy"},
            image_keys=[""] * n,
            truncated=np.zeros(n, bool),
            n_references=np.zeros(n, int),
            languages=[language or ""] * n,
            details=details,
        )


@pytest.fixture
def scorer(monkeypatch):
    made = InventedScorer()

    def make(metric, **options):
        made.options = options
        return made

    monkeypatch.setattr("capscore.metrics.load", make)
    return made


@pytest.fixture
def photo(tmp_path):
    path = tmp_path / "photo.png"
    Image.new("RGB", (40, 30), (9, 99, 199)).save(path)
    return path


def run(*arguments, columns=80):
    result = CliRunner(env={"COLUMNS": str(columns)}).invoke(app, ["explain", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_printed(scorer, photo):
    result = run(photo, "A red cat", "of the")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert "A red ✗[cat]" in lines
    assert "Likely wrong: cat (score 0.02)." in lines
    assert "There is no content word, so none can be wrong." in lines
    assert "Text precision  0.40" in lines
    assert "Mentioned       dog (0.40)" in lines
    assert [line.count("sky") for line in lines if line.startswith("Missed  ")] == [1, 1]
    assert "infometic|backbone:toy" in lines
    assert max(map(len, lines)) <= 80


def test_a_caption_does_nothing_to_the_terminal(scorer, photo):
    result = run(photo, "a [red]cat[/]\x1b[31m\nx")
    assert "\x1b" not in result.stdout
    assert "a [red]✗[cat][/]\\x1b[31m x" in result.stdout.splitlines()


def test_what_the_scorer_is_asked(scorer, photo, tmp_path):
    options = ["--language", "de", "--backbone", "b", "--weights", "w", "--beta", "0.2", "--no-cache"]
    assert run(photo, "one", "two", *options).exit_code == 0
    images = scorer.asked.pop("images")
    assert len(images) == 2 and images[0] is images[1]
    assert isinstance(images[0], Image.Image)  # the photo is decoded once, also for the picture
    assert scorer.asked == {"captions": ["one", "two"], "language": "de"}
    given = {"backbone": "b", "weights": "w", "beta": 0.2, "cache": False}
    assert given.items() <= scorer.options.items() and "regions" not in scorer.options
    run(photo, "one", "--regions", "windows")
    assert scorer.options["regions"] == "windows"


def test_an_unknown_finder_of_regions_is_named(photo):
    refused = run(photo, "A cat.", "--regions", "owl:x", "--backbone", "embedded", "--weights", "info_clip")
    assert refused.exit_code == 2 and "--regions owl:x: expected 'things', 'windows'" in refused.stderr


def test_json(scorer, photo, tmp_path):
    printed = json.loads(run(photo, "A red cat", "--json").stdout)
    (row,) = printed["captions"]
    assert (row["caption"], row["infometic"], row["precision"], row["clip_cosine"]) == (
        "A red cat",
        1.0,
        0.4,
        None,
    )
    assert [word["correct"] for word in row["words"]] == [None, True, False]
    assert (printed["signature"], printed["beta"], len(row["regions"])) == ("infometic|backbone:toy", 0.1, 5)
    result = run(photo, "A red cat", "--output", tmp_path / "new" / "found.json")
    assert f"Written to {tmp_path / 'new' / 'found.json'}" in result.stdout
    assert json.loads((tmp_path / "new" / "found.json").read_text(encoding="utf-8")) == printed


def test_a_page(scorer, photo, tmp_path):
    result = run(photo, "A red cat", "猫と椅子", "--language", "ja", "-q", "-o", tmp_path / "page.html")
    assert (result.exit_code, result.stdout) == (0, "")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "photo.png" in page and "猫" in page and "infometic|" in page
    assert page.count('class="tag missed"') == 6


def test_what_is_there_is_not_overwritten(scorer, photo, tmp_path):
    target = tmp_path / "page.html"
    target.write_text("mine")
    result = run(photo, "A cat", "-o", target)
    assert result.exit_code == 2 and "exists; --force overwrites it" in result.stderr
    assert target.read_text() == "mine" and not scorer.asked
    assert run(photo, "A cat", "-o", target, "--force").exit_code == 0
    assert "mine" != target.read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "out.jpg"], "expected a name that ends in .html or .htm or .json"),
        (["--language", "xx-klingon"], "unknown language code"),
        (["--language", "tlh"], "--language tlh: no words of Klingon are known"),
        (["--no-cache", "--cache-dir", "x"], "give only one of them"),
        ([" "], "a caption is empty"),
    ],
)
def test_wrong_usage(scorer, photo, options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(photo, "A cat", *options)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert not scorer.asked


@pytest.mark.parametrize(
    "caption",
    ["A " + "g" * 4_900, "dog " * 1_250, "!" * 5_000],
    ids=["word", "many words", "signs"],
)
def test_long_words_and_captions_are_explained(photo, tmp_path, caption):
    options = ("--backbone", "embedded", "--weights", "info_clip", "--no-cache", "--language", "en")
    result = run(photo, caption, "-o", tmp_path / "out.html", *options)
    assert result.exit_code == 0, result.output


def test_a_caption_that_no_tagger_reads_is_one_error(scorer, photo):
    for caption in ("a" * 1_000_000, "dogs " * 250_000):
        result = run(photo, caption)
        assert not scorer.asked
        assert result.exit_code == 2
        said = " ".join(result.stderr.split())
        assert "word classes are found in texts of at most 5,000 characters; shorten it" in said
        assert len(said) < 300


def test_a_photo_that_cannot_be_read(scorer, tmp_path):
    (tmp_path / "photo.jpg").write_bytes(b"no photo")
    result = run(tmp_path / "photo.jpg", "A cat")
    assert result.exit_code == 1 and "photo.jpg" in result.stderr and "Traceback" not in result.stderr
    assert run(tmp_path / "nowhere.jpg", "A cat").exit_code == 1
    assert not scorer.asked


def test_nothing_heavy_is_imported_before_it_runs():
    code = (
        "import sys, capscore.cli.explain; "
        "print([n for n in ('numpy', 'torch', 'PIL', 'matplotlib', 'rich.table') if n in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
