"""Pages as a visitor meets them: their elements, and Chromium, which opens them without a window.

Chromium needs Debian's packages chromium and chromium-driver, and the package selenium.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

WAIT_S = 300
READABLE = 4.5  # WCAG 2.2, 1.4.3, level AA
_SETTINGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
)
# contrast of each seen text with its ground, from 1 to 21, after WCAG 2
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


class Page(HTMLParser):
    """Elements with their attributes and text; fails where a tag is closed that is not open."""

    def __init__(self, markup: str):
        super().__init__(convert_charrefs=True)
        self.open: list[int] = []
        self.elements: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.feed(markup)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in ("meta", "wbr"):
            self.open.append(len(self.elements) - 1)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs), []))

    def handle_endtag(self, tag):
        assert self.elements[self.open.pop()][0] == tag

    def handle_data(self, data):
        for number in self.open:
            self.elements[number][2].append(data)

    def all(self, tag: str, cls: str | None = None) -> list[tuple[dict[str, str | None], str]]:
        """Attributes and text of elements with this tag and class."""
        found = []
        for name, attributes, text in self.elements:
            if name == tag and (cls is None or cls in (attributes.get("class") or "").split()):
                found.append((attributes, "".join(text)))
        return found

    def texts(self, tag: str, cls: str | None = None) -> list[str]:
        return [text for _, text in self.all(tag, cls)]


class Browser:
    """A window of Chromium, driven by Selenium."""

    def __init__(self, profile: Path):
        from selenium import webdriver

        options = webdriver.ChromeOptions()
        for setting in (*_SETTINGS, f"--user-data-dir={profile}"):
            options.add_argument(setting)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options)

    def open(self, address: str) -> None:
        self.driver.get(address)
        self.driver.get_log("browser")  # what earlier pages logged is forgotten

    def assert_no_errors(self) -> None:
        assert not [entry for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def until(self, ask: Callable[[], Any], what: str) -> Any:
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

    def text(self) -> str:
        return self.driver.find_element("tag name", "body").text

    def visible(self, selector: str, by: str = "css selector") -> list[Any]:
        return [element for element in self.driver.find_elements(by, selector) if element.is_displayed()]

    def named(self, selector: str, text: str) -> Any:
        """The seen element with this text; of Gradio's tabs only those that the selector asks for."""
        hidden = "" if "[role=tab]" in selector else ":not([role=tab]):not([tabindex='-1'])"

        def ask():
            return next((item for item in self.visible(selector + hidden) if item.text.strip() == text), None)

        return self.until(ask, f"{selector} named {text!r}")

    def box(self, label: str) -> Any:
        """The seen box for text whose label starts so."""
        path = f"//label[.//span[starts-with(normalize-space(), {label!r})]]//textarea"
        return self.until(lambda: self.visible(path, "xpath"), f"box {label!r}")[0]

    def content(self, label: str) -> str:
        """The text of that box, once there is one."""
        return self.until(lambda: self.box(label).get_property("value"), f"text of {label!r}")

    def upload(self, *files: Path) -> None:
        """Give files to the box for files on the open tab."""
        boxes = self.driver.find_elements("css selector", "input[type=file]")
        (box,) = [item for item in boxes if item.find_element("xpath", "./..").is_displayed()]
        box.send_keys("\n".join(map(str, files)))

    def look(self, width: int, dark: bool = False) -> None:
        """Make the window so many pixels wide, and ask pages for dark or light colours."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def overhang(self, element: str = "document.documentElement") -> int:
        """Pixels by which an element is wider than what is seen of it."""
        return self.driver.execute_script(f"return {element}.scrollWidth - {element}.clientWidth")

    def faint(self) -> list[Any]:
        """Seen texts that are hard to read on their ground."""
        return [text for text in self.driver.execute_script(_CONTRAST) if text[0] < READABLE]

    def open_tab(self, address: str, tab: str) -> None:
        self.open(address)
        self.named("h1", "capscore")
        self.named("button[role=tab]", tab).click()
        self.named("button.primary", tab)
