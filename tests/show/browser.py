"""Headless Chromium for tests: pages in, what a visitor sees out.

It needs Debian's packages chromium and chromium-driver.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

WAIT_S = 60
_SETTINGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
)
# how light the text and the ground of an element are, from 0 to 1, after WCAG 2
_CONTRAST = """
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
    """A window of Chromium.

    Args:
        driver: Selenium's.
    """

    def __init__(self, driver: Any):
        self.driver = driver

    def open(self, address: str) -> None:
        """Open a page and forget what earlier ones logged."""
        self.driver.get(address)
        self.driver.get_log("browser")

    def errors(self) -> list[str]:
        """What the console logged as severe since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def until(self, ask: Any, what: str, seconds: float = WAIT_S) -> Any:
        """What `ask` returns once it is true; elements that vanish meanwhile count as false."""
        from selenium.common.exceptions import WebDriverException

        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if found := ask():
                    return found
            except WebDriverException:
                pass
            time.sleep(0.1)
        shown = self.driver.find_element("tag name", "body").text
        raise AssertionError(f"{what}: not seen within {seconds} s; the page shows:\n{shown}")

    def visible(self, selector: str) -> list[Any]:
        """Elements that are seen."""
        found = self.driver.find_elements("css selector", selector)
        return [element for element in found if element.is_displayed()]

    def named(self, selector: str, text: str) -> Any:
        """The seen element with this text; of Gradio's tabs only those that the selector asks for."""
        hidden = "" if "[role=tab]" in selector else ":not([role=tab]):not([tabindex='-1'])"
        return self.until(
            lambda: next((one for one in self.visible(selector + hidden) if one.text.strip() == text), None),
            f"{selector} named {text!r}",
        )

    def box(self, label: str) -> Any:
        """The seen box for text with this label."""
        path = f"//label[.//span[normalize-space()={label!r}]]//textarea"
        return self.until(
            lambda: next(
                (one for one in self.driver.find_elements("xpath", path) if one.is_displayed()), None
            ),
            f"box {label!r}",
        )

    def upload(self, *files: Path) -> None:
        """Give files to the box for files on the open tab."""
        boxes = self.driver.find_elements("css selector", "input[type=file]")
        (box,) = [one for one in boxes if one.find_element("xpath", "./..").is_displayed()]
        box.send_keys("\n".join(map(str, files)))

    def size(self, width: int, height: int = 900) -> None:
        """Make the window so many pixels wide."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def dark(self, wanted: bool) -> None:
        """Ask pages for dark or light colours, as the settings of a computer do."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if wanted else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def overhang(self) -> int:
        """Pixels by which the page is wider than the window."""
        return self.driver.execute_script(
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )

    def contrasts(self) -> list[tuple[float, str]]:
        """Contrast of each seen text with its ground, from 1 to 21, and the text's beginning."""
        return [(ratio, text) for ratio, text in self.driver.execute_script(_CONTRAST)]


@contextmanager
def chromium(profile: Path) -> Iterator[Browser]:
    """A window of Chromium; the test is skipped where there is none, with the reason."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    programs = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    if missing := [name for name, path in programs.items() if path is None]:
        pytest.skip(f"{' and '.join(missing)} not found: apt install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = programs["chromium"]
    for setting in (*_SETTINGS, f"--user-data-dir={profile}"):
        options.add_argument(setting)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(programs["chromedriver"])
    try:
        driver = webdriver.Chrome(options=options, service=service)
    except Exception as error:  # versions that do not go together, a machine that lets no browser run
        pytest.skip(f"Chromium does not start: {str(error).splitlines()[0]}")
    try:
        yield Browser(driver)
    finally:
        driver.quit()
