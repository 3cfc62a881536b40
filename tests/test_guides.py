"""The examples of guides and of the notebook run as they stand."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from PIL import Image

from .test_readme import run_examples

DOCS = Path(__file__).resolve().parents[1] / "docs"


@pytest.fixture
def here(tmp_path, monkeypatch):
    from skimage import data

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CAPSCORE_BACKBONE", "embedded")
    Image.fromarray(data.cat()).save("cat.jpg")
    return tmp_path


def printed(guide: str, *, before: str = "", after: str = "", without: str = "no such text") -> str:
    """What a guide's examples print, with code before and after them; those with a text are left out."""
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / guide).read_text(encoding="utf-8"), flags=re.S)
    assert blocks
    return run_examples([before, *(block for block in blocks if without not in block), after], guide)


def test_first_score(here):
    pytest.importorskip("rjieba")
    lines = printed("first-score.md").splitlines()
    right, wrong = (float(number) for number in lines[0].strip("[]").split())
    assert right > 3 * wrong  # "several times the second"
    assert len(lines[1].split()) == 3
    assert lines[-1].startswith("mcs|backbone:embedded@")


def test_which_metric(here):
    # five pairs of captions differ in rating and agree; one is tied in rating: 5 / √(6 · 5)
    assert float(printed("which-metric.md")) == pytest.approx(0.9128709291752769, abs=1e-12)


def test_my_language(here):
    assert "Khmer ('km') is written without spaces" in printed("my-language.md")


@pytest.mark.slow
def test_infometic(here):
    Image.new("RGB", (420, 330), "tan").save("photo.jpg")
    shown = printed(
        "infometic.md",
        before='captions, photos = ["a dog", "a cat"], ["photo.jpg", "photo.jpg"]',
        after="print(len(scores), len(scores.details[0]['regions']), scores.details[0]['words'][1]['text'])",
    )
    assert shown == "2 2 dog\n"


def test_scores(here):
    shown = printed(
        "scores.md",
        without="mine.json",
        before='import capscore\ncaptions, images = ["a cat"], ["cat.jpg"]',
        after='print(scores.percentiles()[0] < scores.percentiles("shuffled")[0])',
    )
    assert shown == "True\n"


@pytest.mark.slow
def test_integrations(here):
    pytest.importorskip("torchmetrics")
    assert 0.5 < float(printed("integrations.md")) < 1


@pytest.mark.slow
def test_notebook(here):
    """All of it but the installation."""
    notebook = json.loads((DOCS / "first_score.ipynb").read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] for cell in cells)
    install, *examples = ("".join(cell["source"]) for cell in cells)
    assert install.startswith("%pip install")
    shown = run_examples(examples, "first_score.ipynb")
    assert shown.count("better than") == 3
    numbers = [float(number) for number in re.findall(r"^(\d\.\d{3})  [^b]", shown, re.M)]
    right, jumbled, repeated = numbers[-3:]
    assert jumbled < right / 2 and repeated < right / 2
    assert "a striped cat with green eyes → No word looks wrong." in shown
    assert "a striped piano with green eyes → Likely wrong: piano" in shown
