"""A window of Chromium; tests are skipped where there is none, with the reason."""

import shutil

import pytest

from tools.tiny.browser import Browser


@pytest.fixture(scope="package")
def window(tmp_path_factory):
    exceptions = pytest.importorskip("selenium.common.exceptions", reason="selenium is not installed")
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        pytest.skip("Chromium is not found: apt install chromium chromium-driver")
    try:
        browser = Browser(tmp_path_factory.mktemp("profile"))
    except exceptions.WebDriverException as error:  # of other versions, or a machine that runs no browser
        pytest.skip(f"Chromium does not start: {str(error).splitlines()[0]}")
    yield browser
    browser.driver.quit()


@pytest.fixture
def browser(window):
    window.look(1280)
    yield window
    window.assert_no_errors()
