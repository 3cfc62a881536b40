"""The apps as a visitor meets them, in headless Chromium: uploads, scores, words, keyboard, widths, dark."""

import copy
import importlib.util
import re

import pytest
from PIL import Image

import capscore
from capscore.benchmarks.result_file import read_results
from capscore.registry import METRICS
from capscore.show.app import build_app, launch
from capscore.show.pages import leaderboard_page

from ..cli.conftest import judge
from ..processes import ROOT

pytest.importorskip("gradio")
data = pytest.importorskip("skimage.data")
pytestmark = pytest.mark.slow
__all__ = ["judge"]
PHOTO = "[data-testid=image] img, .image-frame img"
CAPTIONS = "Captions, one per line"


@pytest.fixture(scope="module")
def cat(tmp_path_factory):
    path = tmp_path_factory.mktemp("photos") / "cat.png"
    Image.fromarray(data.cat()).save(path)
    return path


@pytest.fixture(scope="module")
def combined(embedded, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADIO_TEMP_DIR", str(tmp_path_factory.mktemp("uploads")))
        page = build_app(backbone=copy.copy(embedded))
        _, address, _ = launch(page, server_name="127.0.0.1", prevent_thread_lock=True, quiet=True)
        yield address
        page.close()


def test_words_and_regions(browser, combined, cat, embedded):
    captions = ["a cat looks into the camera", "a piano looks into the camera"]
    browser.open_tab(combined, "Explain")
    assert browser.content(CAPTIONS) and browser.until(lambda: browser.visible(PHOTO), "the example's photo")
    browser.visible("button[aria-label='Remove Image'], button[aria-label='Clear']")[0].click()
    browser.upload(cat)
    browser.until(lambda: browser.visible(PHOTO), "the uploaded photo")
    browser.box(CAPTIONS).clear()
    browser.box(CAPTIONS).send_keys("\n".join(captions))
    browser.named("button", "Explain").click()
    assert browser.content("Signature").startswith("infometic|backbone:embedded@")
    expected = capscore.load("infometic", backbone=copy.copy(embedded)).score(captions, [data.cat()] * 2)
    frame = browser.until(lambda: browser.visible("iframe"), "the page of words and regions")[0]
    browser.driver.switch_to.frame(frame)
    try:
        shown = browser.text()
        assert "likely wrong" in shown.lower() and "piano" in shown and browser.overhang() <= 0
        assert all(f"{score:.2f}".replace("-", "−") in shown for score in expected.scores)
        assert browser.driver.find_elements("css selector", "svg, img, canvas")
    finally:
        browser.driver.switch_to.default_content()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_tab_at_400_pixels(browser, combined, dark):
    browser.look(400, dark)
    for tab in ("Explain", "Score", "Compare"):
        browser.open_tab(combined, tab)
        assert browser.overhang() <= 0 and not browser.faint(), tab
    ground = browser.driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground)[:3])) < 200) == dark


@pytest.mark.parametrize("slug", [path.parent.name for path in sorted(ROOT.glob("metrics/*/app.py"))])
def test_the_app_of_each_module(browser, slug, embedded, judge, monkeypatch, tmp_path):
    """What its Space shows: an example is clicked, then the button."""
    monkeypatch.setenv("CAPSCORE_BACKBONE", "embedded")
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))
    loader = "capscore.backbones.embedded.backbone.load_embedded"
    monkeypatch.setattr(loader, lambda **options: copy.copy(embedded))
    spec = importlib.util.spec_from_file_location(f"app_{slug}", ROOT / "metrics" / slug / "app.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    _, address, _ = launch(module.demo, prevent_thread_lock=True, quiet=True)
    try:
        browser.open(address)
        browser.named("h1", METRICS.get(slug).title)
        browser.named("button", "English").click()
        assert browser.content(CAPTIONS)
        browser.visible("button.primary")[0].click()
        assert any(line.startswith(f"{slug}|") for line in browser.content("Signature").splitlines())
    finally:
        module.demo.close()


def test_leaderboard(browser, tmp_path):
    select = pytest.importorskip("selenium.webdriver.support.select")
    pytest.importorskip("jsonschema")
    page = tmp_path / "board.html"
    page.write_text(leaderboard_page(read_results([ROOT / "results"]), "Results"), encoding="utf-8")

    def column(name):
        return [cell.text.splitlines()[-1] for cell in browser.visible(f'td[data-name="{name}"]')]

    for width in (1280, 400):
        browser.look(width)
        browser.open(page.as_uri())
        n_rows = len(browser.until(lambda: browser.visible("tbody tr"), "the rows"))
        assert browser.overhang() <= 0 and browser.overhang("document.querySelector('.wide')") <= 0, width
        browser.named("th button", "Value").click()
        values = [float(value) for value in column("Value")]
        assert len(values) == n_rows and values in (sorted(values), sorted(values, reverse=True))
        select.Select(browser.visible("select[name=metric]")[0]).select_by_visible_text("MCS")
        assert 0 < len(column("Metric")) < n_rows and set(column("Metric")) == {"MCS"}
        assert not browser.faint()
