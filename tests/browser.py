"""A real Chromium for tests of the pages."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, sync_playwright

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""Programs, the first of which takes half the CPU of the others."""

WIDE: ViewportSize = {"width": 1280, "height": 800}
PHONE: ViewportSize = {"width": 390, "height": 844}
ON_WIDE = (pytest.param(WIDE, id="wide"), pytest.param(PHONE, id="phone", marks=pytest.mark.soak))
ON_PHONE = (pytest.param(WIDE, id="wide", marks=pytest.mark.soak), pytest.param(PHONE, id="phone"))
"""The sizes of screens for a test; a page takes seconds of CPU, so that the second size is of the long forms."""

SERIOUS = ("serious", "critical")


@contextmanager
def chromium() -> Iterator[Browser]:
    """A running browser; where none is installed, skips the test, or fails it in continuous integration."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("no Chromium: the pages are not tested")
        pytest.skip("no Chromium: install Debian's package chromium-headless-shell to test the pages")
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=options)
        yield browser
        browser.close()


class SharedBrowser:
    """A browser whose contexts serve one test after the other: a new one takes a second of CPU."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._shared: dict[str, BrowserContext] = {}

    def context(self, **settings: Any) -> BrowserContext:
        """The context with these settings, without pages and stored data when a test begins."""
        key = repr(sorted(settings.items()))
        if key not in self._shared:
            self._shared[key] = self._browser.new_context(**settings)
        return self._shared[key]

    def new_context(self, **settings: Any) -> BrowserContext:
        """A context for the running test alone, such as one with a clock of its own."""
        return self._browser.new_context(**settings)

    def end_test(self) -> None:
        """Close all pages and what is not shared, and delete what pages have stored."""
        for context in self._browser.contexts:
            if context not in self._shared.values():
                context.close()
                continue
            for page in context.pages:
                page.evaluate("localStorage.clear()")
                page.close()
            context.clear_cookies()


class Watched:
    """A page whose errors and requests to other hosts are collected."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.errors: list[str] = []
        self.foreign: list[str] = []
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on(
            "request",
            lambda request: None if request.url.startswith((url, "data:")) else self.foreign.append(request.url),
        )

    def serious_issues(self) -> list[str]:
        """What axe finds on the page as it is now."""
        found = Axe().run(self.page).response["violations"]
        return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found if each["impact"] in SERIOUS]
