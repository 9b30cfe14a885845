"""Makes the pictures of the console: a part of ``make screenshots``."""

import asyncio
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parent / "integration"))

import httpx
from http_service import listening
from playwright.sync_api import Browser, Page

from browser import PHONE, WIDE, chromium
from console_data import BUSINESS, QUESTIONS, SESSION, USER, Filled, fill
from wenmai.http.app import serve_app

AS_USER = {"X-User-ID": USER}


def main(folder: Path) -> None:
    """Take a picture of the pages of the console, in both languages, light and dark, wide and on a phone."""
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as data:
        filled: Filled = asyncio.run(fill(Path(data)))
        with listening(serve_app(filled.settings)) as url, chromium() as browser:
            for question in QUESTIONS:
                body = {"npc_id": "village_elder", "query": question, "session_id": "talk"}
                httpx.post(f"{url}/api/v1/npc/chat", json=body, headers=AS_USER).raise_for_status()
            traces = httpx.get(f"{url}/api/v1/npc/traces?session_id={SESSION}", headers=AS_USER).json()["traces"]
            trace = next(each["trace_id"] for each in traces if each["policy_mode"] == "normal")
            opened(browser, url, "overview").screenshot(path=folder / "console-overview.png", full_page=True)
            opened(browser, url, "sessions").screenshot(path=folder / "console-sessions.png")
            page = opened(browser, url, f"traces?user={USER}&trace={trace}", locale="en-GB")
            page.screenshot(path=folder / "console-trace.png", full_page=True)
            page = opened(browser, url, f"memory?user={USER}&session={BUSINESS}")
            page.screenshot(path=folder / "console-memory.png", full_page=True)
            opened(browser, url, f"traces?user={USER}").screenshot(path=folder / "console-traces.png")
            evidence(opened(browser, url, "evidence", color_scheme="dark"), folder)
            opened(browser, url, "audit").screenshot(path=folder / "console-audit.png")
            page = opened(browser, url, "versions", locale="en-GB", color_scheme="dark")
            page.screenshot(path=folder / "console-versions.png")
            memory(opened(browser, url, f"memory?user={USER}&session={BUSINESS}", viewport=PHONE), folder)


def memory(page: Page, folder: Path) -> None:
    """Recall tried out, on a phone."""
    page.get_by_label("问题").fill("贷款审批要交什么材料")
    page.get_by_role("button", name="查找").nth(1).click()
    page.locator(".results > li").first.wait_for()
    page.screenshot(path=folder / "console-memory-phone.png")


def evidence(page: Page, folder: Path) -> None:
    """A search tried out."""
    page.get_by_label("问题").fill("祠堂是谁扩建的？")
    page.get_by_role("button", name="查找").first.click()
    page.wait_for_timeout(600)
    page.screenshot(path=folder / "console-evidence.png")


def opened(browser: Browser, url: str, place: str, **context: object) -> Page:
    """A page of the console, in Chinese and wide unless said otherwise."""
    page = browser.new_page(**{"viewport": WIDE, "locale": "zh-CN", **context})  # type: ignore[arg-type]
    page.goto(f"{url}/console#{place}")
    page.locator("#view .card").nth(1).wait_for()
    page.wait_for_timeout(300)
    return page


if __name__ == "__main__":
    main(Path(sys.argv[1]))
