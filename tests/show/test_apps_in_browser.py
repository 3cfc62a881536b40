"""The apps as a visitor meets them, in headless Chromium: uploads, scores, words, keyboard, widths, dark."""

from __future__ import annotations

import copy
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys

import pytest
from PIL import Image
from typer.testing import CliRunner

import capscore
from capscore.cli import app
from capscore.registry import METRICS
from capscore.show.app import launch

from ..processes import ROOT
from .browser import WAIT_S, chromium

pytest.importorskip("gradio")
data = pytest.importorskip("skimage.data")
pytestmark = pytest.mark.slow
MODULES = ("infometic", "mcs", "pr_mcs", "ref_clip_score", "clip_score", "cider")
READABLE = 4.5  # WCAG 2.2, 1.4.3, level AA


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as window:
        yield window


@pytest.fixture
def wide(browser):
    browser.size(1280)
    browser.dark(False)
    return browser


@pytest.fixture(scope="module")
def cat(tmp_path_factory):
    path = tmp_path_factory.mktemp("photos") / "cat.png"
    Image.fromarray(data.cat()).save(path)
    return path


@pytest.fixture(scope="module")
def combined(browser, tmp_path_factory):
    """The address of `capscore app`, in a process of its own; Ctrl-C ends it."""
    folder = tmp_path_factory.mktemp("app")
    command = [sys.executable, "-m", "capscore", "app", "--backbone", "embedded", "--device", "cpu"]
    environment = {**os.environ, "GRADIO_TEMP_DIR": str(folder / "uploads"), "PYTHONUNBUFFERED": "1"}
    with open(folder / "log", "w") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        found = browser.until(
            lambda: re.search(r"http://127.0.0.1:\d+", (folder / "log").read_text()) or process.poll(),
            "the address of the app",
        )
        assert isinstance(found, re.Match), (folder / "log").read_text()
        yield found[0]
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S) in (0, 130)
        assert "Traceback" not in (folder / "log").read_text()
    finally:
        process.kill()
        process.wait()


def open_tab(browser, address, tab, title=""):
    title = title or tab
    browser.open(address)
    if browser.until(lambda: browser.visible("h1"), "the page")[0].text != title:
        browser.named("button[role=tab]", tab).click()
    browser.until(lambda: [h for h in browser.visible("h1") if h.text == title], f"tab {title}")


def signature(browser):
    """The signature, once there is one."""
    path = "//label[.//span[starts-with(normalize-space(), 'Signature')]]//textarea"
    boxes = browser.driver.find_elements("xpath", path)
    (box,) = [one for one in boxes if one.is_displayed()]
    return browser.until(lambda: box.get_property("value"), "the signature")


def test_words_and_regions(wide, combined, cat, embedded):
    captions = ["a cat looks into the camera", "a piano looks into the camera"]
    open_tab(wide, combined, "Explain", "InfoMetIC")
    wide.upload(cat)
    wide.until(lambda: wide.visible("[data-testid=image] img, .image-frame img"), "the uploaded photo")
    wide.box("Captions, one per line").send_keys("\n".join(captions))
    wide.named("button", "Explain").click()
    assert signature(wide).startswith("infometic|backbone:embedded@")
    expected = capscore.load("infometic", backbone=copy.copy(embedded)).score(captions, [data.cat()] * 2)
    frame = wide.until(lambda: wide.visible("iframe"), "the page of words and regions")[0]
    wide.driver.switch_to.frame(frame)
    try:
        shown = wide.driver.find_element("tag name", "body").text
        assert "likely wrong" in shown.lower() and "piano" in shown
        assert all(f"{score:.2f}".replace("-", "−") in shown for score in expected.scores)
        assert wide.driver.find_elements("css selector", "svg, img, canvas")
        assert wide.overhang() <= 0
    finally:
        wide.driver.switch_to.default_content()
    assert wide.errors() == []


def test_two_languages_by_keyboard_alone(wide, combined, cat, embedded):
    from selenium.webdriver.common.keys import Keys

    captions = ["a cat looks into the camera", "eine Katze schaut in die Kamera", "ein Zug im Bahnhof"]
    open_tab(wide, combined, "Explain", "InfoMetIC")
    keyboard = wide.driver.switch_to

    def walk(done, what):
        """Press Tab until the focus is where it has to be."""
        for _ in range(60):
            keyboard.active_element.send_keys(Keys.TAB)
            focused = keyboard.active_element
            if done(focused):
                return focused
        raise AssertionError(f"Tab never reaches {what}")

    walk(lambda one: one.text == "Score", "the tab Score").send_keys(Keys.ENTER)
    wide.until(lambda: [h for h in wide.visible("h1") if h.text == "Score captions"], "tab Score")
    wide.upload(cat)  # a dialog of the system stands behind the box
    wide.until(lambda: wide.visible("[data-testid=image] img, .image-frame img"), "the uploaded photo")
    walk(lambda one: one.tag_name == "textarea", "the captions").send_keys("\n".join(captions))
    walk(lambda one: one.text == "Score", "the button").send_keys(Keys.ENTER)
    assert signature(wide).startswith("mcs|backbone:embedded@")
    shown = [float(one.text) for one in wide.visible("strong") if re.fullmatch(r"\d\.\d+", one.text)]
    expected = capscore.load("mcs", backbone=copy.copy(embedded)).score(captions, [data.cat()] * 3)
    assert shown == pytest.approx(list(expected.scores), abs=6e-4)
    assert shown[1] > 2 * shown[2]
    assert wide.errors() == []


def test_two_systems(wide, combined, tmp_path):
    files = []
    texts = {
        "careful": ["a brown dog runs", "a red car stands still", "two men play chess"],
        "hasty": ["a dog", "a car", "some people"],
    }
    for system, captions in texts.items():
        rows = [
            {"id": str(row), "caption": caption, "references": [reference], "image": f"{row}.jpg"}
            for row, (caption, reference) in enumerate(zip(captions, texts["careful"], strict=True))
        ]
        source, scored = tmp_path / f"{system}.rows.jsonl", tmp_path / f"{system}.jsonl"
        source.write_text("".join(json.dumps(row) + "\n" for row in rows))
        CliRunner().invoke(app, ["score", str(source), "-m", "rouge_l", "--output", str(scored)])
        files.append(scored)
    open_tab(wide, combined, "Compare systems")
    wide.upload(*files, *(file.with_suffix(".summary.json") for file in files))
    wide.until(lambda: "hasty" in wide.driver.find_element("tag name", "body").text, "the files")
    wide.named("button", "Compare").click()
    shown = wide.until(
        lambda: [one.text for one in wide.visible("table") if "p" in one.text.split()], "the comparison"
    )
    assert "careful 1.0000" in " ".join(shown)
    wide.size(400)
    assert wide.overhang() <= 0
    cells = [cell for cell in wide.visible(".grid .number") if "1.0000" in cell.text]
    assert cells and all(cell.size["height"] < 90 for cell in cells)  # no number is broken into pieces
    assert wide.errors() == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_tab_at_400_pixels(wide, combined, dark):
    wide.size(400)
    wide.dark(dark)
    wide.open(combined)
    wide.until(lambda: wide.visible("h1"), "the page")
    tabs = {"Explain": "InfoMetIC", "Score": "Score captions", "Compare systems": "Compare systems"}
    for tab, title in tabs.items():
        wide.named("button[role=tab]", tab).click()
        wide.until(lambda title=title: [h for h in wide.visible("h1") if h.text == title], f"tab {title}")
        assert wide.overhang() <= 0, title
        faint = [(round(ratio, 1), text) for ratio, text in wide.contrasts() if ratio < READABLE]
        assert not faint, f"{title}: {faint}"
    ground = wide.driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground)[:3])) < 200) == dark
    assert wide.errors() == []


@pytest.mark.parametrize("slug", MODULES)
def test_the_app_of_each_module(wide, slug, embedded, monkeypatch, tmp_path):
    """What its Space shows: an example is clicked, then the button."""
    monkeypatch.setenv("CAPSCORE_BACKBONE", "embedded")
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))
    monkeypatch.setattr(
        "capscore.backbones.embedded.backbone.load_embedded", lambda **options: copy.copy(embedded)
    )
    spec = importlib.util.spec_from_file_location(f"app_{slug}", ROOT / "metrics" / slug / "app.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    _, address, _ = launch(module.demo, prevent_thread_lock=True, quiet=True)
    try:
        open_tab(wide, address, METRICS.get(slug).title)
        wide.named("button", "English").click()
        wide.until(lambda: wide.box("Captions, one per line").get_property("value"), "the example's captions")
        wide.visible("button.primary")[0].click()
        assert any(line.startswith(f"{slug}|") for line in signature(wide).splitlines())
        assert wide.errors() == []
    finally:
        module.demo.close()


def test_leaderboard(wide, tmp_path):
    from selenium.webdriver.support.select import Select

    from capscore.benchmarks.result_file import read_results
    from capscore.show.pages import leaderboard_page

    pytest.importorskip("jsonschema")
    page = tmp_path / "board.html"
    page.write_text(leaderboard_page(read_results([ROOT / "results"]), "Results"), encoding="utf-8")

    def column(name):
        return [cell.text.splitlines()[-1] for cell in wide.visible(f'td[data-name="{name}"]')]

    for width in (1280, 400):
        wide.size(width)
        wide.open(page.as_uri())
        every = len(wide.until(lambda: wide.visible("tbody tr"), "the rows"))
        region = "const one = document.querySelector('.wide'); return one.scrollWidth - one.clientWidth"
        assert wide.driver.execute_script(region) <= 0 and wide.overhang() <= 0, width
        wide.named("th button", "Value").click()
        values = [float(value) for value in column("Value")]
        assert len(values) == every and values in (sorted(values), sorted(values, reverse=True))
        Select(wide.visible("select[name=metric]")[0]).select_by_visible_text("mcs")
        assert 0 < len(column("Metric")) < every and set(column("Metric")) == {"mcs"}
        assert [ratio for ratio, _ in wide.contrasts() if ratio < READABLE] == []
        assert wide.errors() == []
