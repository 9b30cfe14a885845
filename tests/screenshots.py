"""Makes the pictures of the documentation: ``make screenshots``."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parent / "integration"))

from http_service import listening, settings_in
from playwright.sync_api import Page

from browser import PHONE, WIDE, chromium
from support import make_sampled_file
from wenmai.http.app import serve_app

QUESTIONS = ("家训第一条是什么？", "有什么故事吗？", "村里有没有机场？")


def main(folder: Path) -> None:
    """Talk, and take a picture of the conversation, of a passage, of the inspector, and of the same on a phone."""
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as data:
        make_sampled_file(Path(data) / "wenmai.db")
        with listening(serve_app(settings_in(Path(data)))) as url, chromium() as browser:
            page = browser.new_page(viewport=WIDE, locale="zh-CN", device_scale_factor=1.5)
            talk(page, url)
            page.screenshot(path=folder / "chat.png")
            page.locator(".citations button").first.click()
            page.locator("dialog .source").wait_for()
            page.screenshot(path=folder / "passage.png")
            phone = browser.new_page(viewport=PHONE, locale="en-GB", color_scheme="dark", device_scale_factor=1.5)
            talk(phone, url)
            phone.get_by_role("button", name="Why this answer").first.click()
            phone.locator("dialog .stack").wait_for()
            phone.screenshot(path=folder / "inspector-phone.png")


def talk(page: Page, url: str) -> None:
    """Ask the questions, one after another."""
    page.goto(url)
    for number, question in enumerate(QUESTIONS, 1):
        page.locator("#question").fill(question)
        page.keyboard.press("Enter")
        page.locator(".message.assistant .tools").nth(number - 1).wait_for()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
