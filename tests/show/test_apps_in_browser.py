"""The apps as a visitor meets them, in headless Chromium: uploads, scores, words, keyboard, widths, dark.

It needs Debian's packages chromium and chromium-driver.
"""

from __future__ import annotations

import copy
import importlib.util
import re
import shutil
import time

import pytest
from PIL import Image

import capscore
from capscore.registry import METRICS
from capscore.show.app import build_app, launch

from ..processes import ROOT

pytest.importorskip("gradio")
data = pytest.importorskip("skimage.data")
pytestmark = pytest.mark.slow
WAIT_S = 60
READABLE = 4.5  # WCAG 2.2, 1.4.3, level AA
PHOTO = "[data-testid=image] img, .image-frame img"
CAPTIONS = "Captions, one per line"
SETTINGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
)
# contrast of each seen text with its ground, from 1 to 21, after WCAG 2
CONTRAST = """
const light = (colour) => {
  const [r, g, b] = colour.match(/[\\d.]+/g).map(Number).map((v) => v / 255)
    .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const solid = (colour) => !/rgba\\(.*, 0\\)$/.test(colour) && colour !== 'transparent';
const found = [];
for (const element of document.querySelectorAll('h1, p, label, button, th, td, strong, .hint')) {
  const text = element.textContent.trim();
  if (!text || !element.offsetParent || element.querySelector('img, svg')) continue;
  let ground = element;
  while (ground && !solid(getComputedStyle(ground).backgroundColor)) ground = ground.parentElement;
  const below = ground ? getComputedStyle(ground).backgroundColor : 'rgb(255, 255, 255)';
  const [a, b] = [getComputedStyle(element).color, below].map(light).sort((x, y) => y - x);
  found.push([(a + 0.05) / (b + 0.05), text.slice(0, 40)]);
}
return found;
"""


class Browser:
    """A window of Chromium, driven by Selenium."""

    def __init__(self, driver):
        self.driver = driver

    def open(self, address):
        self.driver.get(address)
        self.driver.get_log("browser")  # what earlier pages logged is forgotten

    def assert_no_errors(self):
        assert not [entry for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def until(self, ask, what):
        """What `ask` returns once it is true; elements that vanish meanwhile count as false."""
        from selenium.common.exceptions import WebDriverException

        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            try:
                if found := ask():
                    return found
            except WebDriverException:
                pass
            time.sleep(0.1)
        raise AssertionError(f"{what}: not seen within {WAIT_S} s; the page shows:\n{self.text()}")

    def text(self):
        return self.driver.find_element("tag name", "body").text

    def visible(self, selector, by="css selector"):
        return [element for element in self.driver.find_elements(by, selector) if element.is_displayed()]

    def named(self, selector, text):
        """The seen element with this text; of Gradio's tabs only those that the selector asks for."""
        hidden = "" if "[role=tab]" in selector else ":not([role=tab]):not([tabindex='-1'])"
        return self.until(
            lambda: next(
                (item for item in self.visible(selector + hidden) if item.text.strip() == text), None
            ),
            f"{selector} named {text!r}",
        )

    def box(self, label):
        """The seen box for text whose label starts so."""
        path = f"//label[.//span[starts-with(normalize-space(), {label!r})]]//textarea"
        return self.until(lambda: self.visible(path, "xpath"), f"box {label!r}")[0]

    def content(self, label):
        """The text of that box, once there is one."""
        return self.until(lambda: self.box(label).get_property("value"), f"text of {label!r}")

    def upload(self, *files):
        """Give files to the box for files on the open tab."""
        boxes = self.driver.find_elements("css selector", "input[type=file]")
        (box,) = [item for item in boxes if item.find_element("xpath", "./..").is_displayed()]
        box.send_keys("\n".join(map(str, files)))

    def look(self, width, dark=False):
        """Make the window so many pixels wide, and ask pages for dark or light colours."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def overhang(self, element="document.documentElement"):
        """Pixels by which an element is wider than what is seen of it."""
        return self.driver.execute_script(f"return {element}.scrollWidth - {element}.clientWidth")

    def faint(self):
        """Seen texts that are hard to read on their ground."""
        return [text for text in self.driver.execute_script(CONTRAST) if text[0] < READABLE]

    def open_tab(self, address, tab):
        self.open(address)
        self.named("h1", "capscore")
        self.named("button[role=tab]", tab).click()
        self.named("button.primary", tab)


@pytest.fixture(scope="module")
def window(tmp_path_factory):
    """A window of Chromium; tests are skipped where there is none, with the reason."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and chromedriver):
        pytest.skip("Chromium is not found: apt install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for setting in (*SETTINGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(setting)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    try:
        driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(chromedriver))
    except Exception as error:  # versions that do not go together, a machine that lets no browser run
        pytest.skip(f"Chromium does not start: {str(error).splitlines()[0]}")
    yield Browser(driver)
    driver.quit()


@pytest.fixture
def browser(window):
    window.look(1280)
    yield window
    window.assert_no_errors()


@pytest.fixture(scope="module")
def cat(tmp_path_factory):
    path = tmp_path_factory.mktemp("photos") / "cat.png"
    Image.fromarray(data.cat()).save(path)
    return path


@pytest.fixture(scope="module")
def combined(embedded, tmp_path_factory):
    """The address of the app with all tabs."""
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
        assert "likely wrong" in shown.lower() and "piano" in shown
        assert all(f"{score:.2f}".replace("-", "−") in shown for score in expected.scores)
        assert browser.driver.find_elements("css selector", "svg, img, canvas")
        assert browser.overhang() <= 0
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
def test_the_app_of_each_module(browser, slug, embedded, monkeypatch, tmp_path):
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
        browser.open(address)
        browser.named("h1", METRICS.get(slug).title)
        browser.named("button", "English").click()
        assert browser.content(CAPTIONS)
        browser.visible("button.primary")[0].click()
        assert any(line.startswith(f"{slug}|") for line in browser.content("Signature").splitlines())
    finally:
        module.demo.close()


def test_leaderboard(browser, tmp_path):
    from selenium.webdriver.support.select import Select

    from capscore.benchmarks.result_file import read_results
    from capscore.show.pages import leaderboard_page

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
        Select(browser.visible("select[name=metric]")[0]).select_by_visible_text("MCS")
        assert 0 < len(column("Metric")) < n_rows and set(column("Metric")) == {"MCS"}
        assert not browser.faint()
