"""The chat page in a real browser: what a person can do with it, and that stored text cannot act in it."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
from http_service import listening, profile_settings, settings_in
from playwright.sync_api import Page, Route, ViewportSize, expect

from browser import ON_PHONE, ON_WIDE, PHONE, WIDE, SharedBrowser, Watched, chromium
from identity_provider import AUDIENCE, ISSUER, identity_provider
from support import make_sampled_file
from wenmai.auth.keys import ApiKeys
from wenmai.chat.pipeline import Chat
from wenmai.chat.turn import OnEvent, StepEnded, TurnAnswer, TurnEvent, TurnRequest
from wenmai.clock import system_clock
from wenmai.http.app import serve_app
from wenmai.stores.opening import open_store

pytestmark = pytest.mark.xdist_group("browser")

T = TypeVar("T")

QUESTION = "家训第一条是什么？"
TITLE = "家训第一条：孝悌为本"


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


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A service with the sample, on a real port."""
    in_thread(make_sampled_file, tmp_path / "wenmai.db")
    with listening(serve_app(settings_in(tmp_path))) as running:
        yield running


@pytest.fixture(scope="module")
def assistant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service with the profile `assistant`, on a real port."""
    settings = profile_settings("assistant")
    with listening(serve_app(settings_in(tmp_path_factory.mktemp("assistant"), **settings))) as running:
        yield running


def opened(browser: SharedBrowser, url: str, *, alone: bool = False, **context: Any) -> Watched:
    """The chat page, in Chinese and wide unless said otherwise; ``alone`` in a context for this test."""
    settings: dict[str, Any] = {"viewport": WIDE, "locale": "zh-CN", **context}
    made = browser.new_context(**settings) if alone else browser.context(**settings)
    made.set_default_timeout(10_000)
    watched = Watched(made.new_page(), url)
    watched.page.goto(url)
    return watched


def show_list(page: Page) -> None:
    """Open the list of conversations, which a phone hides."""
    if page.locator("#open-sidebar").is_visible():
        page.locator("#open-sidebar").click()


def ask(page: Page, question: str) -> None:
    """Ask, and wait until the answer is complete."""
    answers = page.locator(".message.assistant .tools")
    before = answers.count()
    page.get_by_role("textbox", name="输入问题").fill(question)
    page.keyboard.press("Enter")
    expect(answers).to_have_count(before + 1)


def enter_key(page: Page, key: str) -> None:
    """Sign in with an API key or a token."""
    page.get_by_role("textbox", name="API 密钥或令牌").fill(key)
    page.get_by_role("button", name="登录").click()


@pytest.mark.parametrize(
    ("context", "names"),
    [
        ({"viewport": WIDE, "color_scheme": "light"}, ("为什么这样答", "偏好")),
        ({"viewport": PHONE, "color_scheme": "dark", "locale": "en-GB"}, ("Why this answer", "Preferences")),
    ],
    ids=["wide, light, Chinese", "phone, dark, English"],
)
def test_the_page_is_accessible(
    context: dict[str, Any], names: tuple[str, str], browser: SharedBrowser, url: str
) -> None:
    """With an answer, with each dialog and on a phone with the list: no serious issue, no error, no other host."""
    watched = opened(browser, url, **context)
    page = watched.page
    page.locator("#question").fill(QUESTION)
    page.keyboard.press("Enter")
    page.get_by_role("button", name=TITLE).click()
    expect(page.get_by_role("dialog")).to_contain_text("孝顺父母")
    issues = watched.serious_issues()
    page.keyboard.press("Escape")
    for name in names:
        page.get_by_role("button", name=name).first.click()
        page.locator("dialog[open] .content > *").first.wait_for()
        issues += watched.serious_issues()
        page.keyboard.press("Escape")
    if context["viewport"] == PHONE:
        page.locator("#open-sidebar").click()
        expect(page.locator("#session-list .open")).to_be_visible()
        expect(page.locator("#close-sidebar")).to_be_focused()
        page.keyboard.press("Escape")
        expect(page.locator("#open-sidebar")).to_be_focused()
        page.locator("#open-sidebar").click()
    issues += watched.serious_issues()
    assert (issues, watched.errors, watched.foreign) == ([], [], [])
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("viewport", ON_WIDE)
def test_a_conversation_with_two_personas_survives_a_reload(
    viewport: ViewportSize, browser: SharedBrowser, url: str
) -> None:
    """Three turns, a citation, a persona switch; after a reload the same messages with their sources."""
    page = opened(browser, url, viewport=viewport).page
    expect(page.locator(".message.assistant")).to_have_count(1)
    ask(page, QUESTION)
    page.locator("#follow-ups .chip").first.click()
    expect(page.locator(".message.assistant .tools")).to_have_count(2)
    page.get_by_role("radio", name="严氏先祖").press("ArrowRight")
    expect(page.get_by_role("radio", name="村中长者")).to_be_focused()
    ask(page, "村里有没有机场？")
    last = page.locator(".message.assistant").last
    expect(page.locator("#announcer")).to_have_text(last.locator(".text").inner_text())
    expect(last).to_contain_text("村中长者")
    expect(last.locator(".note.conservative")).to_be_visible()
    texts = page.locator(".message .text").all_inner_texts()[1:]
    page.reload()
    expect(page.locator(".message")).to_have_count(6)
    assert page.locator(".message .text").all_inner_texts() == texts
    expect(page.get_by_role("button", name=TITLE)).to_be_visible()
    expect(page.get_by_role("radio", name="村中长者")).to_have_attribute("aria-checked", "true")


@pytest.mark.parametrize("viewport", ON_PHONE)
def test_conversations_are_listed_renamed_and_deleted_with_undo(
    viewport: ViewportSize, browser: SharedBrowser, url: str
) -> None:
    """Switching, searching, renaming; undo brings one back, without it the service has it no more."""
    page = opened(browser, url, alone=True, viewport=viewport).page
    ask(page, QUESTION)
    show_list(page)
    page.get_by_role("button", name="新对话").first.click()
    ask(page, "祠堂是什么时候建的？")
    show_list(page)
    items = page.locator("#session-list li")
    expect(items).to_have_count(2)
    expect(page.locator("#session-list h2")).to_have_text(["今天"])
    page.clock.set_fixed_time(datetime.now(UTC) + timedelta(days=1))
    page.reload()
    show_list(page)
    expect(page.locator("#session-list h2")).to_have_text(["昨天"])
    page.get_by_role("button", name=QUESTION, exact=True).click()
    expect(page.locator(".message.user")).to_have_text([QUESTION])
    show_list(page)
    page.locator("#search").fill("祠堂")
    expect(items).to_have_count(1)
    page.locator("#search").fill("")
    items.filter(has_text=QUESTION).hover()
    page.get_by_role("button", name=f"改名: {QUESTION}").click()
    page.get_by_role("textbox", name="标题").fill("家训的开头")
    page.get_by_role("button", name="保存").click()
    expect(items.filter(has_text="家训的开头")).to_have_count(1)
    items.filter(has_text="家训的开头").hover()
    page.get_by_role("button", name="删除: 家训的开头").click()
    expect(items).to_have_count(1)
    page.get_by_role("button", name="撤销").click()
    expect(items).to_have_count(2)
    show_list(page)
    items.filter(has_text="家训的开头").hover()
    page.get_by_role("button", name="删除: 家训的开头").click()
    expect(page.locator(".message.user")).to_have_count(0)
    page.goto("about:blank")
    page.wait_for_timeout(300)
    titles = [each["title"] for each in httpx.get(f"{url}/v1/sessions").json()["sessions"]]
    assert titles == ["祠堂是什么时候建的？"]


def test_a_long_list_is_searched_scrolled_and_exported(browser: SharedBrowser, url: str) -> None:
    """A search finds what was not loaded yet; scrolling loads the rest; an export has the messages."""
    with httpx.Client(base_url=url) as client:
        for number in range(120):
            made = client.post("/v1/sessions", json={"title": f"对话{number:03}"})
            assert made.status_code == 201
    page = opened(browser, url).page
    items = page.locator("#session-list li")
    expect(items).to_have_count(100)
    page.locator("#search").fill("对话000")
    expect(items).to_have_count(1)
    items.hover()
    with page.expect_download() as download:
        page.get_by_role("button", name="导出: 对话000").click()
    assert "对话000" in download.value.path().read_text(encoding="utf-8")
    page.locator("#search").fill("")
    expect(items).to_have_count(120)
    page.reload()
    expect(items).to_have_count(100)
    page.locator("#session-list").evaluate("list => list.scrollTo(0, list.scrollHeight)")
    expect(items).to_have_count(120)


def test_a_lost_connection_is_resumed(browser: SharedBrowser, url: str) -> None:
    """A question asked without a network is answered, once, when it is back; it can also be given up."""
    page = opened(browser, url, alone=True).page
    expect(page.locator(".message.assistant")).to_have_count(1)
    page.clock.install()
    page.context.set_offline(True)
    page.locator("#question").fill(QUESTION)
    page.keyboard.press("Enter")
    expect(page.locator("#toast")).to_contain_text("连接断开")
    for _ in range(6):
        page.clock.fast_forward(20_000)
        page.wait_for_timeout(50)
    page.context.set_offline(False)
    expect(page.get_by_role("button", name=TITLE)).to_be_visible()
    page.context.set_offline(True)
    page.locator("#question").fill("有什么故事吗？")
    page.keyboard.press("Enter")
    expect(page.locator("#toast")).to_contain_text("连接断开")
    page.get_by_role("button", name="停止").click()
    expect(page.locator(".note.pending")).to_have_text("已停止")
    page.context.set_offline(False)
    session_id = httpx.get(f"{url}/v1/sessions").json()["sessions"][0]["session_id"]
    messages = httpx.get(f"{url}/v1/sessions/{session_id}/messages").json()["messages"]
    assert [each["role"] for each in messages] == ["user", "assistant"]


@pytest.mark.parametrize("viewport", ON_PHONE)
def test_preferences_are_kept_and_an_incognito_turn_is_not(
    viewport: ViewportSize, browser: SharedBrowser, url: str
) -> None:
    """A choice is stored with the session; an incognito turn changes no preference."""
    page = opened(browser, url, viewport=viewport).page
    page.get_by_role("button", name="偏好").click()
    expect(page.get_by_role("dialog")).to_contain_text("第一问之后")
    page.keyboard.press("Escape")
    ask(page, QUESTION)
    page.get_by_role("button", name="偏好").click()
    page.get_by_role("combobox", name="详略").select_option("brief")
    page.get_by_role("textbox", name="添加兴趣").fill("祠堂")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="清除: 祠堂")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("checkbox", name="无痕").check()
    ask(page, "以后请详细一点回答，严氏的始迁祖是谁？")
    session_id = httpx.get(f"{url}/v1/sessions").json()["sessions"][0]["session_id"]
    preference = httpx.get(f"{url}/api/v1/npc/sessions/{session_id}").json()["preference"]
    assert (preference["verbosity"], preference["interest_tags"]) == ("brief", ["祠堂"])
    page.get_by_role("button", name="偏好").click()
    page.get_by_role("button", name="清除: 详略").click()
    expect(page.get_by_role("combobox", name="详略")).to_have_value("normal")
    expect(page.get_by_role("combobox", name="详略")).to_be_focused()
    expect(page.get_by_role("button", name="清除: 详略")).to_have_count(0)
    preference = httpx.get(f"{url}/api/v1/npc/sessions/{session_id}").json()["preference"]
    assert (preference["verbosity"], preference["chosen"]) == ("normal", [])


@pytest.mark.parametrize("viewport", ON_PHONE)
def test_the_inspector_shows_the_figures_of_the_trace(viewport: ViewportSize, browser: SharedBrowser, url: str) -> None:
    """Blocks with their tokens, steps, evidence with scores, versions, removed statements, as the API says them."""
    page = opened(browser, url, viewport=viewport).page
    ask(page, QUESTION)
    trace_id = httpx.get(f"{url}/api/v1/npc/traces").json()["traces"][0]["trace_id"]
    trace = httpx.get(f"{url}/api/v1/npc/traces/{trace_id}").json()

    def with_removal(route: Route) -> None:
        answer = route.fetch()
        changed = answer.json()
        changed["details"]["removed"] = [{"text": "<b>百间</b>", "reason": "value", "replaced_by": "三进"}]
        route.fulfill(response=answer, json=changed)

    page.route(f"**/traces/{trace_id}", with_removal)
    page.get_by_role("button", name="为什么这样答").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("del")).to_have_text("<b>百间</b>")
    expect(dialog.locator("ins")).to_have_text("三进")
    expect(dialog).to_contain_text(f"人设 {trace['request_input']['persona_version']}")
    expect(dialog).to_contain_text(f"({sum(block['tokens'] for block in trace['blocks'])} 词元)")
    for block in trace["blocks"]:
        expect(dialog).to_contain_text(f"{block['kind']}: {block['tokens']}")
    dialog.get_by_text("数据表").click()
    rows = dialog.locator("table").last.locator("tbody tr").all_inner_texts()
    assert [row.split("\t")[:2] for row in rows] == [[step["name"], step["status"]] for step in trace["tool_calls"]]
    expect(dialog.locator("table").first).to_contain_text(trace["evidence_ids"][0])


@pytest.mark.parametrize("viewport", ON_WIDE)
def test_the_assistant_shows_the_stages_and_is_corrected(
    viewport: ViewportSize, browser: SharedBrowser, assistant: str
) -> None:
    """Quick questions of the role; the current stage is marked; a click corrects it, and the next turn goes on."""
    watched = opened(browser, assistant, viewport=viewport)
    page = watched.page
    chips = page.locator("#follow-ups .chip")
    expect(chips.first).to_have_text("押品怎么创建？")
    page.get_by_role("combobox", name="我的身份").select_option("团队负责人")
    expect(chips.first).to_have_text("押品怎么审批？")
    ask(page, "押品怎么创建？")
    expect(page.locator(".message.assistant").last).to_contain_text("复核要点：")
    current = page.locator(".stages [aria-current=step]")
    expect(current).to_have_text("创建")
    expect(chips.first).to_have_text("押品怎么审批？")
    page.get_by_role("button", name="入库", exact=True).click()
    expect(current).to_have_text("入库")
    expect(current).to_be_focused()
    ask(page, "这一步怎么办理？")
    expect(page.locator(".message.assistant").last).to_contain_text("入库")
    page.reload()
    expect(current).to_have_text("入库")
    page.get_by_role("combobox", name="当前业务").select_option("授信")
    expect(page.locator(".stages li")).to_have_text(["创建", "审批", "结清"])
    session = httpx.get(f"{assistant}/v1/sessions").json()["sessions"][0]["session_id"]
    state = httpx.get(f"{assistant}/v1/sessions/{session}/state").json()
    assert state["operation_chain"][-1]["business_object"] == "授信"
    assert (watched.serious_issues(), watched.errors) == ([], [])


def test_feedback_is_given_shown_and_withdrawn(browser: SharedBrowser, assistant: str) -> None:
    """A thumb with a reason is in the trace, after a reload it is marked; the inspector shows it and the state."""
    watched = opened(browser, assistant)
    page = watched.page
    ask(page, "押品怎么创建？")
    ask(page, "那审批呢？")
    down = page.get_by_role("button", name="没帮上").last
    down.click()
    page.get_by_role("textbox", name="为什么？（可不填）").last.fill("没写材料")
    page.keyboard.press("Enter")
    expect(page.locator("#toast")).to_contain_text("已保存")
    page.reload()
    expect(down).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="为什么这样答").last.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("没帮上: 没写材料")
    expect(dialog.get_by_role("row", name="环节 创建 审批")).to_be_visible()
    dialog.get_by_role("button", name="重放").click()
    expect(dialog.locator(".beside .text")).to_have_count(2)
    assert watched.serious_issues() == []
    page.keyboard.press("Escape")
    down.click()
    expect(down).to_have_attribute("aria-pressed", "false")
    traces = httpx.get(f"{assistant}/api/v1/npc/traces").json()["traces"]
    assert {each["rating"] for each in traces} == {None}
    assert watched.errors == []


HOSTILE = (
    "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
    "![](https://evil.example/pixel.png) [link](javascript:alert(1)) <style>body{display:none}</style> \x1b[31mred"
    " **bold**"
)


def test_stored_text_is_shown_and_does_not_act(browser: SharedBrowser, url: str) -> None:
    """As a message, a title and an interest: the characters are there, nothing is loaded or run."""
    session_id = httpx.post(f"{url}/v1/sessions", json={"title": HOSTILE[:60]}).json()["session_id"]
    messages = [
        {"role": "user", "content": HOSTILE},
        {"role": "assistant", "content": HOSTILE, "npc_id": "village_elder"},
    ]
    assert httpx.post(f"{url}/v1/sessions/{session_id}/messages", json={"messages": messages}).status_code == 201
    watched = opened(browser, f"{url}/#{session_id}")
    expect(watched.page.locator(".message .text")).to_have_count(2)
    question, answer = watched.page.locator(".message .text").all()
    assert question.text_content() == HOSTILE
    expect(answer.locator("strong")).to_have_text("bold")
    expect(answer).to_contain_text(HOSTILE.partition(" <style>")[0])
    expect(watched.page.locator("#session-list .open")).to_have_text(HOSTILE[:60])
    assert watched.page.title() == "Wenmai 文脉"
    assert (
        watched.page.locator("#conversation img, #conversation a, #conversation style, #session-list img").count() == 0
    )
    assert [each for each in watched.foreign if "evil" in each] == []


def test_long_words_stay_within_the_inspector(browser: SharedBrowser, url: str) -> None:
    """As the title of a passage that is not cited, and as the reason of a thumb down; on a phone too."""
    long = "W" * 150
    passages = [
        {"evidence_id": "tower", "title": "The tower", "text": "The tower was built in 1874.", "domains": ["hall"]},
        {"evidence_id": "long", "title": long, "text": "Another tower was painted.", "domains": ["hall"]},
    ]
    httpx.post(f"{url}/api/v1/evidence", json={"evidence": passages}).raise_for_status()
    page = opened(browser, url, viewport=PHONE).page
    ask(page, "When was the tower built?")
    trace_id = httpx.get(f"{url}/api/v1/npc/traces").json()["traces"][0]["trace_id"]
    rated = {"rating": "down", "reason": long}
    httpx.put(f"{url}/v1/traces/{trace_id}/feedback", json=rated).raise_for_status()
    page.locator(".message.assistant .tools button").last.click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("td", has_text=long)).to_be_visible()
    expect(dialog.locator("p", has_text=long)).to_be_visible()
    assert dialog.evaluate("shown => shown.scrollWidth <= shown.clientWidth")


def test_a_service_with_keys_asks_for_one(browser: SharedBrowser, tmp_path: Path) -> None:
    """The page itself is public and empty; with a key it works, and the key is not kept beyond the tab."""
    in_thread(make_sampled_file, tmp_path / "wenmai.db")
    settings = settings_in(tmp_path, auth="keys")

    async def key() -> str:
        async with open_store(settings.store) as store:
            assert store.documents is not None
            return (await ApiKeys(store.documents, system_clock).create(tenant_id="default", rights=["chat", "read"]))[
                0
            ]

    text = in_thread(asyncio.run, key())
    with listening(serve_app(settings)) as url:
        page = opened(browser, url).page
        enter_key(page, "wmk_wrong")
        enter_key(page, text)
        ask(page, QUESTION)
        expect(page.get_by_role("button", name=TITLE)).to_be_visible()
        assert text not in str(page.evaluate("JSON.stringify(localStorage)"))


def test_a_token_signs_in_to_both_pages(browser: SharedBrowser, tmp_path: Path) -> None:
    """They act as the token's user; an expired one is refused, and another tab begins without any."""
    in_thread(make_sampled_file, tmp_path / "wenmai.db")
    with identity_provider() as provider:
        named = {"jwt_issuer": ISSUER, "jwt_audience": AUDIENCE, "jwt_keys": provider.url}
        settings = settings_in(tmp_path, auth="jwt", **named)
        allowed: dict[str, Any] = {"tenant": "default", "sites": None, "scope": "wenmai:chat wenmai:read wenmai:admin"}
        with listening(serve_app(settings)) as url:
            page = opened(browser, url).page
            enter_key(page, provider.token(**allowed, exp=time.time() - 3600))
            enter_key(page, provider.token(**allowed))
            ask(page, QUESTION)
            page.goto(f"{url}/console#sessions")
            expect(page.locator("tbody tr")).to_have_count(1)
            expect(page.locator("tbody")).to_contain_text("u1")
            page.evaluate("sessionStorage.clear()")
            page.reload()
            expect(page.get_by_role("textbox", name="API 密钥或令牌")).to_be_visible()


def test_an_answer_without_its_model_says_what_was_missing(browser: SharedBrowser, tmp_path: Path) -> None:
    """In words, not as the name of a component."""
    in_thread(make_sampled_file, tmp_path / "wenmai.db")
    refused = "http://127.0.0.1:9/v1"
    settings = settings_in(tmp_path, model="openai:any", model_base_url=refused, model_api_key="none")
    with listening(serve_app(settings)) as url:
        page = opened(browser, url).page
        ask(page, QUESTION)
        expect(page.locator(".message.assistant .note.pending")).to_contain_text("暂时不可用：语言模型")


@pytest.mark.parametrize("viewport", ON_WIDE)
def test_a_reload_in_the_middle_of_an_answer_finds_it_completed(
    viewport: ViewportSize, browser: SharedBrowser, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The question is there at once, and the answer when it is complete."""
    reached, go = threading.Event(), threading.Event()
    answered = Chat.ask

    async def paused(chat: Chat, request: TurnRequest, *, on_event: OnEvent | None = None) -> TurnAnswer:
        async def paused_event(event: TurnEvent) -> None:
            if on_event is not None:
                await on_event(event)
            if isinstance(event, StepEnded) and event.name == "retrieve":
                reached.set()
                await asyncio.to_thread(go.wait, 20)

        return await answered(chat, request, on_event=paused_event)

    monkeypatch.setattr(Chat, "ask", paused)
    page = opened(browser, url, viewport=viewport).page
    page.locator("#question").fill(QUESTION)
    page.keyboard.press("Enter")
    assert reached.wait(10)
    expect(page.get_by_role("button", name="停止")).to_be_visible()
    session_id = httpx.get(f"{url}/v1/sessions").json()["sessions"][0]["session_id"]
    page.goto(f"{url}/#{session_id}")
    page.reload()
    expect(page.locator(".message.user")).to_have_text([QUESTION])
    expect(page.locator(".note.pending")).to_contain_text("还在生成")
    go.set()
    expect(page.get_by_role("button", name=TITLE)).to_be_visible()
    expect(page.locator(".message")).to_have_count(2)
