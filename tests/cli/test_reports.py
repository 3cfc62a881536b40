"""`--report` of score and compare: pages with the rows, their photos and captions."""

from __future__ import annotations

import json
import re

import pytest
from PIL import Image
from typer.testing import CliRunner

from capscore.cli import app

CAPTIONS = ["red red", "a blue ball on red", "green tree"]
REFERENCES = [["red red"], ["a red ball"], ["blue sea"]]


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


@pytest.fixture
def systems(tmp_path):
    """Two systems' captions of three photos, one of them in Japanese."""
    for number, colour in enumerate(("red", "blue", "green")):
        Image.new("RGB", (40, 30), colour).save(tmp_path / f"{number}.png")
    paths = []
    for name, captions in {"one": CAPTIONS, "two": [*CAPTIONS[1:], "red <b>red</b>"]}.items():
        rows = [
            {"image": f"{number}.png", "caption": caption, "references": references, "language": language}
            for number, (caption, references, language) in enumerate(
                zip(captions, REFERENCES, ("en", "en", "de"), strict=True)
            )
        ]
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        paths.append(path)
    return paths


def test_a_report_of_one_file(systems, tmp_path):
    page = tmp_path / "page.html"
    result = run("score", systems[0], "-m", "rouge_l", "--report", page)
    assert result.exit_code == 0, result.output
    text = page.read_text(encoding="utf-8")
    assert "<h1>one.jsonl: 3 rows</h1>" in text
    for caption in CAPTIONS:
        assert f">{caption}</p>" in text
    lowest = text.partition("Lowest rouge_l")[2].partition("<h2")[0]
    assert re.findall(r'class="soft">(line \d) · (?:\d\.png · )?(\w+)</p>', lowest)[0] == ("line 3", "German")
    assert "German" in text.partition("<h2>Languages</h2>")[2]
    assert run("score", systems[0], "-m", "rouge_l", "--report", page).exit_code == 2  # it exists
    assert run("score", systems[0], "-m", "rouge_l", "--report", tmp_path / "page.pdf").exit_code == 2


def test_photos_are_in_the_page(systems, tmp_path, monkeypatch):
    page = tmp_path / "page.html"
    result = run("score", systems[0], "--backbone", "embedded", "--report", page, "--no-cache")
    assert result.exit_code == 0, result.output
    text = page.read_text(encoding="utf-8")
    assert text.count("data:image/jpeg;base64,") == 3 and "0.png" in text


def test_a_report_of_two_systems(systems, tmp_path):
    scored = []
    for path in systems:
        scored.append(path.with_suffix(".scores.jsonl"))
        assert run("score", path, "-m", "rouge_l", "-o", scored[-1]).exit_code == 0
    page = tmp_path / "page.html"
    result = run("compare", *scored, "--report", page, "--samples", 50, "-q")
    assert result.exit_code == 0, result.output
    text = page.read_text(encoding="utf-8")
    assert "Largest differences in rouge_l" in text and text.count("data:image/jpeg;base64,") >= 3
    first = text.partition("Largest differences in rouge_l")[2].partition("</article>")[0]
    assert ">red red</p>" in first and ">a blue ball on red</p>" in first  # 1 against a half or less
    assert "red &lt;b&gt;red&lt;/b&gt;" in text
    assert "by randomisation" in text and "Rows were matched by" in text


def test_photos_of_a_comparison_need_a_report(systems):
    result = run("compare", *systems, "--images", systems[0].parent)
    assert result.exit_code == 2 and "--images" in result.output and "--report" in result.output


def test_what_was_written_is_named(systems, tmp_path):
    scored = []
    for path in systems:
        scored.append(path.with_suffix(".scores.jsonl"))
        assert run("score", path, "-m", "rouge_l", "-o", scored[-1]).exit_code == 0
    made = [tmp_path / "c.json", tmp_path / "c.md", tmp_path / "c.html"]
    options = ["-o", made[0], "--markdown", made[1], "--report", made[2]]
    result = run("compare", *scored, *options, "--samples", 20)
    assert result.exit_code == 0, result.output
    assert f"Written to {', '.join(map(str, made))}" in result.output.replace("\n", " ")
    assert "Written to" not in run("compare", *scored, "--samples", 20).output
