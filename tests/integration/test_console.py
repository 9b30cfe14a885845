"""The console in a real browser: what an operator can see and do, with one service for all tests."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
from http_service import listening
from msgspec.structs import replace
from playwright.sync_api import Page, Route, ViewportSize, expect

from browser import ON_PHONE, ON_WIDE, PHONE, WIDE, SharedBrowser, Watched, chromium
from console_data import BUSINESS, HOSTILE, LONG_USER, OTHERS, SESSION, USER, Filled, fill
from wenmai.http.app import serve_app

pytestmark = pytest.mark.xdist_group("browser")

T = TypeVar("T")


def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """The result of a function that needs an event loop; the browser's runs in this thread."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(function, *arguments).result()


@pytest.fixture(scope="module")
def running_browser() -> Iterator[SharedBrowser]:
    """A running Chromium."""
    with chromium() as running:
        yield SharedBrowser(running)


@pytest.fixture
def browser(running_browser: SharedBrowser) -> Iterator[SharedBrowser]:
    """The same for one test."""
    yield running_browser
    running_browser.end_test()


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """A store that has some of everything."""
    folder: Path = tmp_path_factory.mktemp("console")
    return in_thread(lambda: asyncio.run(fill(folder)))


@pytest.fixture(scope="module")
def url(filled: Filled) -> Iterator[str]:
    """A service over it."""
    with listening(serve_app(filled.settings)) as running:
        yield running


def opened(browser: SharedBrowser, url: str, place: str, **context: Any) -> Watched:
    """A page of the console, in English and wide unless said otherwise."""
    made = browser.context(**{"viewport": WIDE, "locale": "en-GB", **context})
    made.set_default_timeout(10_000)
    watched = Watched(made.new_page(), url)
    watched.page.goto(f"{url}/console#{place}")
    watched.page.locator("#view .card").first.wait_for()
    return watched


def close(watched: Watched) -> None:
    """Close the page; it had no error and asked no other host."""
    assert (watched.errors, watched.foreign) == ([], [])
    watched.page.close()


PLACES = {
    "overview": "Tokens by day",
    "sessions": "Sessions",
    f"sessions?user={USER}&session={SESSION}": "Messages",
    f"memory?user={USER}&session={SESSION}": "Summaries",
    f"memory?user={USER}&session={BUSINESS}": "Chain of changes",
    f"traces?user={USER}": f"Traces: {USER}",
    "versions": "Compare",
    "versions?kind=personas": "New version",
    "evidence": "Browse: All sources",
    "audit": "API keys",
    "toString": "Tokens by day",
}
"""Places and a heading there; one that is none shows the overview."""


@pytest.mark.parametrize("half", [0, 1])
def test_every_page_is_accessible(half: int, browser: SharedBrowser, url: str) -> None:
    """No serious issue, no error, no other host."""
    watched = opened(browser, url, "overview")
    for place, heading in list(PLACES.items())[half::2]:
        watched.page.goto(f"{url}/console#{place}")
        expect(watched.page.get_by_role("heading", name=heading, exact=True).last).to_be_visible()
        assert watched.serious_issues() == [], place
    close(watched)


def test_every_page_fits_a_phone_in_the_dark(browser: SharedBrowser, url: str) -> None:
    """Nothing is wider than the window; the colours of the dark have contrast."""
    watched = opened(browser, url, "overview", viewport=PHONE, color_scheme="dark")
    for place, heading in PLACES.items():
        watched.page.goto(f"{url}/console#{place}")
        expect(watched.page.get_by_role("heading", name=heading, exact=True).last).to_be_visible()
        assert watched.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), place
        if heading in ("Tokens by day", "Messages", "Compare"):
            assert watched.serious_issues() == [], place
    close(watched)


def cells(page: Page, table: str, column: int) -> list[str]:
    """The texts of a column of a table."""
    rows = page.get_by_role("region", name=table, exact=True).locator("tbody tr")
    return [row.locator("td").nth(column).inner_text() for row in rows.all()]


def test_the_overview_shows_the_figures_of_the_api(browser: SharedBrowser, url: str) -> None:
    """Tokens by day with their table, the store and what is behind."""
    watched = opened(browser, url, "overview")
    page = watched.page
    for table in page.get_by_text("As a table").all():
        table.click()
    shown = cells(page, "Tokens by day", 0)
    days = httpx.get(f"{url}/v1/usage", params={"from": shown[0], "to": shown[-1]}).json()["days"]
    assert shown == [day["day"] for day in days]
    assert cells(page, "Tokens by day", 1) == [f"{day['tenant']['prompt_tokens']:,}" for day in days]
    assert any(day["tenant"]["prompt_tokens"] for day in days)
    query = {"from": shown[0], "to": shown[-1], "npc_id": "village_elder"}
    elder = httpx.get(f"{url}/v1/usage", params=query).json()["personas"][0]
    tokens = [day["prompt_tokens"] + day["completion_tokens"] for day in elder["days"]]
    header = page.get_by_role("region", name="Tokens by persona").locator("th").all_inner_texts()
    assert cells(page, "Tokens by persona", header.index("Village Elder")) == [f"{each:,}" for each in tokens]
    assert any(tokens)
    topics = httpx.get(f"{url}/v1/topics", params={"since": f"{shown[0]}T00:00:00Z"}).json()["topics"]
    most = [(each["title"], str(each["answers"])) for each in topics[:15]]
    assert list(zip(cells(page, "Hot topics", 0), cells(page, "Hot topics", 1), strict=True)) == most
    assert most
    expect(page.get_by_role("heading", name="Health")).to_be_visible()
    state = httpx.get(f"{url}/readyz").json()
    assert cells(page, "Store", 0) == list(state["stores"]) == ["sqlite"]
    breakers = list(zip(cells(page, "Breaker", 0), cells(page, "Breaker", 1), strict=True))
    assert breakers == [(name, each["state"]) for name, each in state["breakers"].items()]
    assert breakers
    close(watched)


def test_sessions_of_all_users_are_listed_filtered_and_opened(browser: SharedBrowser, url: str) -> None:
    """Page by page, by persona, title and user; a session has its messages with their traces; stored text is inert."""
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
    page.get_by_label("Persona").select_option("")
    page.get_by_label("Title").fill("第 7 次")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("tbody")).to_contain_text("guest-007")
    expect(rows).to_have_count(1)
    page.go_back()
    expect(page.get_by_role("link", name=USER)).to_be_visible()
    page.get_by_role("link", name=USER).click()
    expect(page.get_by_role("columnheader", name="Tokens used")).to_be_visible()
    expect(rows).to_have_count(2)
    page.get_by_role("link", name="家训").first.click()
    expect(page.locator(".messages li")).to_have_count(24)
    expect(page.locator(".messages").get_by_role("link", name="Trace")).to_have_count(12)
    page.goto(f"{url}/console#sessions?user=guest-002&session=s-002")
    expect(page.locator(".messages .text").first).to_have_text(HOSTILE)
    page.goto(f"{url}/console#sessions?user={LONG_USER}")
    expect(rows).to_have_count(1)
    close(watched)


@pytest.mark.parametrize(
    ("viewport", "number"),
    [pytest.param(WIDE, 10, id="wide", marks=pytest.mark.soak), pytest.param(PHONE, 12, id="phone")],
)
def test_a_session_is_deleted_and_a_user_erased_with_a_receipt(
    viewport: ViewportSize, number: int, browser: SharedBrowser, url: str
) -> None:
    """After a question; the erasure only when the id is typed; the export has what was stored."""
    guest, other = f"guest-0{number}", f"guest-0{number + 1}"
    watched = opened(browser, url, f"sessions?user={guest}&session=s-0{number}", viewport=viewport)
    page = watched.page
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("No sessions match")).to_be_visible()
    assert httpx.get(f"{url}/v1/sessions/s-0{number}", headers={"X-User-ID": guest}).status_code == 404
    page.goto(f"{url}/console#sessions?user={other}")
    with page.expect_download() as download:
        page.get_by_role("button", name="Export").click()
    assert f"s-0{number + 1}" in download.value.path().read_text()
    page.get_by_role("button", name="Erase user…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("User id").fill(other[:-1])
    dialog.get_by_role("button", name="Erase user").click()
    expect(dialog).to_contain_text("Type the user's id")
    dialog.get_by_label("User id").fill(other)
    dialog.get_by_role("button", name="Erase user").click()
    expect(dialog).to_contain_text("Receipt of the erasure")
    expect(dialog.locator("tr", has_text="messages").first).to_contain_text("2")
    expect(dialog).not_to_contain_text("not signed")
    assert watched.serious_issues() == []
    page.keyboard.press("Escape")
    assert httpx.get(f"{url}/v1/sessions", headers={"X-User-ID": other}).json()["sessions"] == []
    close(watched)


def test_the_audit_log_shows_acts_keys_and_that_its_chain_is_whole(browser: SharedBrowser, url: str) -> None:
    """Newest first."""
    watched = opened(browser, url, "audit")
    page = watched.page
    entries = httpx.get(f"{url}/v1/audit").json()["entries"]
    assert cells(page, "Audit", 2) == [entry["act"] for entry in entries]
    expect(page.get_by_text(f"whole · {len(entries)} entries")).to_be_visible()
    assert cells(page, "API keys", 0) == ["console"]
    close(watched)


AS_USER = {"X-User-ID": USER}


def test_traces_are_filtered_and_opened_with_the_figures_of_the_api(browser: SharedBrowser, url: str) -> None:
    """By mode and latency; an opened one has its blocks, steps, removed statements and passages."""
    watched = opened(browser, url, f"traces?user={USER}")
    page = watched.page
    page.get_by_label("Mode").select_option("conservative")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("tbody tr", has_text="normal")).to_have_count(0)
    wanted = httpx.get(f"{url}/api/v1/npc/traces?policy_mode=conservative&limit=100", headers=AS_USER).json()["traces"]
    expect(page.locator("tbody tr")).to_have_count(len(wanted))
    assert cells(page, "Traces", 0) == [each["query"] for each in wanted]
    page.get_by_label("Persona").select_option("ancestor_yan")
    page.get_by_role("button", name="Filter").click()
    of_persona = [each["query"] for each in wanted if each["npc_id"] == "ancestor_yan"]
    assert 0 < len(of_persona) < len(wanted)
    expect(page.locator("tbody tr")).to_have_count(len(of_persona))
    page.get_by_label("At least, ms").fill("100000")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_text("No traces match")).to_be_visible()
    traces = httpx.get(f"{url}/api/v1/npc/traces?limit=100", headers=AS_USER).json()["traces"]
    whole = (httpx.get(f"{url}/api/v1/npc/traces/{each['trace_id']}", headers=AS_USER).json() for each in traces)
    trace = next(each for each in whole if each["details"]["removed"])
    rated = {"rating": "down", "reason": "too long"}
    httpx.put(f"{url}/v1/traces/{trace['trace_id']}/feedback", json=rated, headers=AS_USER).raise_for_status()
    page.goto(f"{url}/console#traces?user={USER}&trace={trace['trace_id']}")
    expect(page.get_by_text("down: too long")).to_be_visible()
    total = sum(block["tokens"] for block in trace["blocks"])
    blocks = f"What the model saw ({total:,} tokens)"
    expect(page.get_by_role("heading", name=blocks)).to_be_visible()
    for table in page.get_by_text("As a table").all():
        table.click()
    assert cells(page, "What the model saw", 0) == [block["kind"] for block in trace["blocks"]]
    assert cells(page, "What the model saw", 1) == [f"{block['tokens']:,}" for block in trace["blocks"]]
    assert cells(page, "Steps", 0) == [step["name"] for step in trace["tool_calls"]]
    assert page.locator("del").all_inner_texts() == [each["text"] for each in trace["details"]["removed"]]
    found = [each["evidence_id"] for each in trace["details"]["passages"]]
    titles = [httpx.get(f"{url}/api/v1/evidence/{each}").json()["title"] for each in found]
    expect(page.get_by_role("link", name=titles[-1], exact=True)).to_be_visible()
    assert cells(page, "Passages found", 0) == titles
    assert watched.serious_issues() == []
    page.get_by_role("link", name=titles[0], exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text(found[0])
    assert watched.serious_issues() == []
    close(watched)


def test_the_memory_of_a_user_is_shown_and_recall_tried_out(browser: SharedBrowser, url: str) -> None:
    """Recall with scores and reasons, the summary with what it saves and its versions, the chain of the state."""
    watched = opened(browser, url, "memory")
    page = watched.page
    page.get_by_label("User").fill(USER)
    page.get_by_role("button", name="Search").click()
    page.get_by_label("Question").fill("祠堂是什么时候建的")
    page.get_by_role("button", name="Search").nth(1).click()
    body = {"query": "祠堂是什么时候建的", "top_k": 5, "unit": "message"}
    items = httpx.post(f"{url}/v1/recall", json=body, headers=AS_USER).json()["items"]
    shown = page.locator(".results > li")
    expect(shown).to_have_count(len(items))
    assert shown.locator(".text").all_inner_texts() == [each["text"] for each in items]
    expect(shown.first).to_contain_text("words")
    page.get_by_label("Title").select_option(SESSION)
    summary = httpx.get(f"{url}/v1/sessions/{SESSION}/summaries", headers=AS_USER).json()["summaries"][0]
    expect(page.locator("pre")).to_have_text(summary["text"])
    expect(page.get_by_text(f"→ {summary['tokens']})")).to_be_visible()
    messages = httpx.get(f"{url}/v1/sessions/{SESSION}/messages?limit=500", headers=AS_USER).json()["messages"]
    days = Counter(each["timestamp"][:10] for each in messages if each["completed"])
    episodes = page.locator("section").filter(has=page.get_by_role("heading", name="Timeline of episodes"))
    episodes.locator("summary").click()
    assert {row.locator("td,th").first.inner_text() for row in episodes.locator("tbody tr").all()} == days.keys()
    page.get_by_role("button", name="Compare versions").click()
    expect(page.locator(".diff ins").filter(has_text="用户问过").first).to_be_visible()
    page.goto(f"{url}/console#memory?user={USER}&session={BUSINESS}")
    expect(page.get_by_role("heading", name="Chain of changes")).to_be_visible()
    changes = httpx.get(f"{url}/v1/sessions/{BUSINESS}/state/changes", headers=AS_USER).json()["changes"]
    chain = page.get_by_role("region", name="Chain of changes").locator("tbody tr")
    assert [row.locator("td").nth(1).inner_text() for row in chain.all()] == [each["rule"] for each in changes[::-1]]
    assert watched.serious_issues() == []
    close(watched)


@pytest.mark.parametrize("viewport", ON_WIDE)
def test_a_prompt_is_created_compared_activated_and_rolled_back(
    viewport: ViewportSize, browser: SharedBrowser, url: str
) -> None:
    """The service answers with the version that the console shows as active."""
    watched = opened(browser, url, "versions?npc_id=ancestor_yan", viewport=viewport)
    page = watched.page
    path = f"{url}/api/v1/prompts/ancestor_yan"
    page.get_by_role("textbox", name="Prompt").fill("你是严氏先祖。\n用白话说。")
    page.get_by_label("Note").fill("plain words")
    page.get_by_role("button", name="Create").click()
    page.get_by_role("button", name="Delete").first.wait_for()
    page.get_by_role("cell", name="plain words").wait_for()
    new = max(each["number"] for each in httpx.get(f"{path}/versions").json()["versions"])
    page.get_by_role("button", name=f"Activate {new}").click()
    expect(page.get_by_role("button", name="Activate 1")).to_be_visible()
    assert httpx.get(path).json()["number"] == new
    page.get_by_label("Left").select_option("1")
    page.get_by_label("Right").select_option(str(new))
    expect(page.locator(".diff del")).to_have_text(["说话沉稳。"])
    expect(page.locator(".diff ins")).to_have_text(["用白话说。"])
    page.get_by_role("button", name="Activate 1").click()
    expect(page.get_by_role("button", name=f"Activate {new}")).to_be_visible()
    assert httpx.get(path).json()["number"] == 1
    page.get_by_role("button", name=f"Delete {new}…").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("button", name=f"Activate {new}")).to_have_count(0)
    page.goto(f"{url}/console#versions?kind=personas&npc_id=village_elder")
    page.get_by_label("Content (JSON)").fill("{")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_text("This is not valid JSON")).to_be_visible()
    close(watched)


@pytest.mark.parametrize("viewport", ON_PHONE)
def test_evidence_is_uploaded_found_and_deleted(
    viewport: ViewportSize, browser: SharedBrowser, url: str, tmp_path: Path
) -> None:
    """A report, a search with scores, an answer that cites it, the whole source; a refused file says why."""
    watched = opened(browser, url, "evidence", viewport=viewport)
    page = watched.page
    name = f"lighthouse-{viewport['width']}.md"
    file = tmp_path / name
    file.write_text("# Lighthouse\n\nThe lighthouse has 212 steps and was built in 1874.\n")
    page.get_by_label("File").set_input_files(file)
    page.get_by_role("checkbox", name="hall").check()
    page.get_by_role("button", name="Upload").click()
    expect(page.get_by_text("Added")).to_be_visible()
    stages = page.locator("ol.upload > li")
    expect(stages).to_have_text(["Received", "Found by words: 1", "No embedder: found by words only"])
    page.get_by_label("Question").fill("How many steps has the lighthouse?")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("region", name="Try a search").locator("tbody tr").first).to_contain_text("212 steps")
    chat = page.context.new_page()
    chat.goto(url)
    chat.get_by_role("textbox", name="Ask").fill("How many steps has the lighthouse?")
    chat.keyboard.press("Enter")
    expect(chat.locator(".message.assistant").last).to_contain_text("212 steps")
    chat.locator(".citations button").click()
    expect(chat.get_by_role("dialog")).to_contain_text("built in 1874")
    page.get_by_role("link", name="Browse").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("button", name="Delete the source…").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="Browse: All sources")).to_be_visible()
    assert httpx.get(f"{url}/api/v1/evidence", params={"source_ref": name}).json()["evidence"] == []
    embedded = iter([1, 2])

    def with_vectors(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json=answer.json() | {"evidence": {"passages": 2, "embedded": next(embedded)}})

    page.route("**/readyz", with_vectors)
    page.get_by_label("File").set_input_files(file)
    page.get_by_role("button", name="Upload").click()
    expect(page.get_by_role("progressbar", name="Found by meaning")).to_have_attribute("max", "2")
    expect(stages.last).to_have_text("Found by meaning: 2")
    empty = tmp_path / "empty.csv"
    empty.write_text("")
    page.get_by_label("File").set_input_files(empty)
    page.get_by_role("button", name="Upload").click()
    expect(page.locator(".note.error")).to_be_visible()
    httpx.delete(f"{url}/api/v1/evidence", params={"source_ref": name}).raise_for_status()
    page.close()
    assert watched.foreign == []


def test_a_store_that_goes_down_is_seen_on_the_open_page(browser: SharedBrowser, url: str) -> None:
    """With the breakers' states, within seconds; and when the service itself is gone."""
    made = browser.new_context(viewport=WIDE, locale="en-GB")
    page = made.new_page()
    page.clock.install()
    page.goto(f"{url}/console#overview")
    expect(page.get_by_role("region", name="Store")).to_contain_text("ok")
    state = httpx.get(f"{url}/readyz").json()
    state |= {"status": "down", "stores": {"sqlite": {"state": "down", "error": "disk I/O error"}}}
    state["breakers"]["search"] = {"state": "open", "failures": 7, "refused": 12}
    state["derived"] = {"threads": 3, "oldest_seconds": 125.0}
    page.route("**/readyz", lambda route: route.fulfill(status=503, json=state))
    page.clock.run_for(6000)
    expect(page.get_by_role("region", name="Store")).to_contain_text("disk I/O error")
    expect(page.get_by_role("region", name="Breaker")).to_contain_text("open")
    expect(page.get_by_text("3 threads, oldest 2 minutes")).to_be_visible()
    page.unroute("**/readyz")
    page.route("**/readyz", lambda route: route.abort())
    page.clock.run_for(6000)
    expect(page.get_by_text("The service does not answer")).to_be_visible()
    made.close()


def test_a_failure_is_shown_and_can_be_tried_again(browser: SharedBrowser, url: str) -> None:
    """In Chinese; a page without anything says so."""
    watched = opened(browser, url, "sessions?user=unknown", locale="zh-CN")
    page = watched.page
    expect(page.get_by_text("没有符合的会话")).to_be_visible()
    problem = {"type": "urn:problem:wenmai:store-unavailable", "detail": "the store does not answer"}
    page.route("**/v1/threads*", lambda route: route.fulfill(status=503, json=problem))
    page.get_by_role("link", name="会话", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("the store does not answer")
    assert watched.serious_issues() == []
    page.unroute("**/v1/threads*")
    page.get_by_role("button", name="重试").click()
    expect(page.get_by_role("button", name="载入更多")).to_be_visible()
    page.close()


def test_a_service_with_keys_asks_for_one_and_says_which_right_is_missing(
    browser: SharedBrowser, filled: Filled
) -> None:
    """The key is kept in the tab alone; without the right to erase, nothing is erased."""
    with listening(serve_app(replace(filled.settings, auth="keys"))) as url:
        made = browser.new_context(viewport=WIDE, locale="en-GB")
        made.set_default_timeout(10_000)
        page = made.new_page()
        page.goto(f"{url}/console#sessions?user=guest-020")
        page.get_by_role("textbox", name="API key").fill(filled.key)
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator("tbody tr")).to_have_count(1)
        page.get_by_role("button", name="Erase user…").click()
        page.get_by_role("dialog").get_by_label("User id").fill("guest-020")
        page.get_by_role("dialog").get_by_role("button", name="Erase user").click()
        expect(page.locator("#toast")).to_contain_text("lacks the right")
        assert filled.key not in str(page.evaluate("JSON.stringify(localStorage)"))
        made.close()
