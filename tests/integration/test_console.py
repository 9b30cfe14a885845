"""The console in a real browser: what an operator can see and do, with one service for all tests."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
from http_service import listening
from playwright.sync_api import Browser, Page, expect

from browser import PHONE, WIDE, Watched, chromium
from console_data import HOSTILE, LONG_USER, OTHERS, SESSION, USER, fill
from wenmai.http.app import serve_app

pytestmark = pytest.mark.xdist_group("browser")

T = TypeVar("T")


def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """The result of a function that needs an event loop; the browser's runs in this thread."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(function, *arguments).result()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A running Chromium."""
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service that has some of everything."""
    folder: Path = tmp_path_factory.mktemp("console")
    settings = in_thread(lambda: asyncio.run(fill(folder)))
    with listening(serve_app(settings)) as running:
        yield running


def opened(browser: Browser, url: str, place: str, **context: Any) -> Watched:
    """A page of the console in a new context, in English and wide unless said otherwise."""
    made = browser.new_context(**{"viewport": WIDE, "locale": "en-GB", **context})
    made.set_default_timeout(10_000)
    watched = Watched(made.new_page(), url)
    watched.page.goto(f"{url}/console#{place}")
    watched.page.locator("#view .card").first.wait_for()
    return watched


def close(watched: Watched) -> None:
    """Close the page; it had no error and asked no other host."""
    assert (watched.errors, watched.foreign) == ([], [])
    watched.page.context.close()


PLACES = {
    "overview": "Tokens by day",
    "sessions": "Sessions",
    f"sessions?user={USER}&session={SESSION}": "Messages",
    "audit": "API keys",
}


@pytest.mark.parametrize("context", [{}, {"viewport": PHONE, "color_scheme": "dark"}], ids=["wide", "phone, dark"])
def test_every_page_is_accessible_and_fits(context: dict[str, Any], browser: Browser, url: str) -> None:
    """No serious issue, no error, no other host, nothing wider than the window."""
    watched = opened(browser, url, "overview", **context)
    for place, heading in PLACES.items():
        watched.page.goto(f"{url}/console#{place}")
        expect(watched.page.get_by_role("heading", name=heading, exact=True).last).to_be_visible()
        assert watched.serious_issues() == [], place
        assert watched.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), place
    close(watched)


def cells(page: Page, heading: str, column: int) -> list[str]:
    """The texts of a column of the table under a heading."""
    rows = page.locator("section", has=page.get_by_role("heading", name=heading, exact=True)).locator("tbody tr")
    return [row.locator("td").nth(column).inner_text() for row in rows.all()]


def test_the_overview_shows_the_figures_of_the_api(browser: Browser, url: str) -> None:
    """Tokens by day with their table, the store and what is behind."""
    watched = opened(browser, url, "overview")
    page = watched.page
    usage = httpx.get(f"{url}/v1/usage", params={"from": "2026-01-01", "to": "2026-01-01"}).json()
    assert usage["tenant"]["calls"] == 0
    page.get_by_text("As a table").first.click()
    shown = cells(page, "Tokens by day", 0)
    days = httpx.get(f"{url}/v1/usage", params={"from": shown[0], "to": shown[-1]}).json()["days"]
    assert shown == [day["day"] for day in days]
    assert cells(page, "Tokens by day", 1) == [f"{day['tenant']['prompt_tokens']:,}" for day in days]
    assert any(day["tenant"]["prompt_tokens"] for day in days)
    expect(page.get_by_role("heading", name="Health")).to_be_visible()
    assert cells(page, "Health", 0)[0] == "sqlite"
    close(watched)


def test_sessions_of_all_users_are_listed_filtered_and_opened(browser: Browser, url: str) -> None:
    """Page by page, by persona, by user; a session has its messages, with their traces; stored text cannot act."""
    watched = opened(browser, url, "sessions")
    page = watched.page
    rows = page.locator("tbody tr")
    first = rows.count()
    assert 25 <= first < OTHERS
    page.get_by_role("button", name="Load more").click()
    expect(rows).to_have_count(OTHERS + 2)
    expect(page.get_by_role("link", name=HOSTILE[:60])).to_be_visible()
    page.get_by_label("Persona").select_option("ancestor_yan")
    page.get_by_role("button", name="Filter").click()
    expect(rows).to_have_count(1)
    page.get_by_role("link", name=USER).click()
    expect(page.get_by_role("columnheader", name="Tokens used")).to_be_visible()
    expect(rows).to_have_count(2)
    page.get_by_role("link", name="家训").first.click()
    expect(page.locator(".messages li")).to_have_count(32)
    expect(page.locator(".messages").get_by_role("link", name="Trace")).to_have_count(16)
    page.goto(f"{url}/console#sessions?user=guest-002&session=s-002")
    expect(page.locator(".messages .text").first).to_have_text(HOSTILE)
    page.goto(f"{url}/console#sessions?user={LONG_USER}")
    expect(rows).to_have_count(1)
    close(watched)


def test_a_session_is_deleted_and_a_user_erased_with_a_receipt(browser: Browser, url: str) -> None:
    """After a question; the erasure only when the id is typed; the export has what was stored."""
    watched = opened(browser, url, "sessions?user=guest-010&session=s-010")
    page = watched.page
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("No sessions match")).to_be_visible()
    assert httpx.get(f"{url}/v1/sessions/s-010", headers={"X-User-ID": "guest-010"}).status_code == 404
    page.goto(f"{url}/console#sessions?user=guest-011")
    with page.expect_download() as download:
        page.get_by_role("button", name="Export").click()
    assert "s-011" in download.value.path().read_text()
    page.get_by_role("button", name="Erase user…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("User id").fill("guest-01")
    dialog.get_by_role("button", name="Erase user").click()
    expect(dialog).to_contain_text("Type the user's id")
    dialog.get_by_label("User id").fill("guest-011")
    dialog.get_by_role("button", name="Erase user").click()
    expect(dialog).to_contain_text("Receipt of the erasure")
    expect(dialog.locator("tr", has_text="messages").first).to_contain_text("2")
    expect(dialog).not_to_contain_text("not signed")
    assert watched.serious_issues() == []
    page.keyboard.press("Escape")
    assert httpx.get(f"{url}/v1/sessions", headers={"X-User-ID": "guest-011"}).json()["sessions"] == []
    close(watched)


def test_the_audit_log_shows_acts_keys_and_that_its_chain_is_whole(browser: Browser, url: str) -> None:
    """Newest first."""
    watched = opened(browser, url, "audit")
    page = watched.page
    entries = httpx.get(f"{url}/v1/audit").json()["entries"]
    assert cells(page, "Audit", 2) == [entry["act"] for entry in entries]
    expect(page.get_by_text(f"whole · {len(entries)} entries")).to_be_visible()
    assert cells(page, "API keys", 0) == ["console"]
    close(watched)
