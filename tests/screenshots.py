"""Makes the pictures of the documentation (``make screenshots``), and of every state to look at (``--every``)."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "integration"))

import httpx
from http_service import listening, profile_settings, settings_in
from playwright.sync_api import Browser, Page

from browser import PHONE, WIDE, chromium
from support import make_sampled_file
from wenmai.http.app import serve_app

QUESTIONS = ("家训第一条是什么？", "有什么故事吗？", "村里有没有机场？")
BUSINESS = ("押品怎么创建？", "那审批呢？")
MARKDOWN = """祠堂的事，记载有三：

1. **始建**：明嘉靖二年（1523年）
2. **重建**：火灾之后，历时六年
   * 由严培元主持

| 部分 | 用途 |
|---|---|
| 享堂 | 祭祖 |
| 戏台 | 演戏 |

> 见《砚田严氏族谱》 [原书](https://example.org/book)
"""
LONG = "这是一个非常长的标题，用来看看侧栏里的文字是怎样截断的，以及它是不是会把按钮挤出去"
VARIANTS: dict[str, dict[str, Any]] = {
    "wide": {"viewport": WIDE, "locale": "zh-CN", "color_scheme": "light"},
    "wide-dark": {"viewport": WIDE, "locale": "en-GB", "color_scheme": "dark"},
    "phone": {"viewport": PHONE, "locale": "zh-CN", "color_scheme": "light"},
    "phone-dark": {"viewport": PHONE, "locale": "en-GB", "color_scheme": "dark"},
}


def talk(page: Page, url: str, questions: tuple[str, ...] = QUESTIONS) -> None:
    """Ask the questions, one after another, in a new conversation."""
    page.goto(url)
    for number, question in enumerate(questions, 1):
        page.locator("#question").fill(question)
        page.keyboard.press("Enter")
        page.locator(".message.assistant .tools").nth(number - 1).wait_for()


def greeting(page: Page, npc: str, _: str) -> None:
    """Nothing asked yet."""
    page.goto(npc)
    page.locator(".message").wait_for()


def chat(page: Page, npc: str, _: str) -> None:
    """Answers with sources, and one that the records cannot give."""
    talk(page, npc)


def passage(page: Page, npc: str, _: str) -> None:
    """A passage that an answer quotes."""
    talk(page, npc)
    page.locator(".citations button").first.click()
    page.locator("dialog .source").wait_for()


def inspector(page: Page, _: str, assistant: str) -> None:
    """Why an answer was given, and what it changed."""
    talk(page, assistant, BUSINESS)
    page.locator(".tools button").last.click()
    page.locator("dialog .stack").wait_for()


def replay(page: Page, _: str, assistant: str) -> None:
    """The end of the inspector: the state, and both answers of a replay."""
    talk(page, assistant, BUSINESS)
    page.locator(".tools button").last.click()
    page.locator("dialog .replay button").click()
    page.locator("dialog .beside").wait_for()
    page.locator("dialog").evaluate("dialog => dialog.scrollTo(0, dialog.scrollHeight)")


def assistant(page: Page, _: str, assistant: str) -> None:
    """The assistant with the stages, and a thumb down that asks for a reason."""
    talk(page, assistant, BUSINESS)
    page.locator(".thumb.down").last.click()
    page.locator(".reason").last.wait_for()


def quick(page: Page, _: str, assistant: str) -> None:
    """The assistant before a question."""
    page.goto(assistant)
    page.locator("#follow-ups .chip").first.wait_for()


def markdown(page: Page, npc: str, _: str) -> None:
    """An answer in Markdown, in a list with a very long title."""
    session = httpx.post(f"{npc}/v1/sessions", json={"title": LONG}).json()["session_id"]
    messages = [
        {"role": "user", "content": "祠堂的历史？"},
        {"role": "assistant", "content": MARKDOWN, "npc_id": "ancestor_yan"},
    ]
    httpx.post(f"{npc}/v1/sessions/{session}/messages", json={"messages": messages}).raise_for_status()
    page.goto(f"{npc}/#{session}")
    page.locator(".rich table").wait_for()


def preferences(page: Page, npc: str, _: str) -> None:
    """Preferences, inferred and chosen, after an incognito question."""
    talk(page, npc, ("以后请详细一点回答，祠堂是哪年建的？", "祠堂还有什么故事？"))
    page.wait_for_timeout(1500)  # until they are inferred
    page.locator("#incognito").check()
    page.locator("#preferences").click()
    page.locator("dialog .form").wait_for()


def conversations(page: Page, npc: str, _: str) -> None:
    """A list of many conversations."""
    talk(page, npc, QUESTIONS[:1])
    if page.locator("#open-sidebar").is_visible():
        page.locator("#open-sidebar").click()
    page.locator("#session-list li").first.hover()


def offline(page: Page, npc: str, _: str) -> None:
    """A question without a network."""
    talk(page, npc, QUESTIONS[:1])
    page.context.set_offline(True)
    page.locator("#question").fill(QUESTIONS[1])
    page.keyboard.press("Enter")
    page.locator("#toast:popover-open").wait_for()


def failed(page: Page, npc: str, _: str) -> None:
    """A question that is refused."""
    talk(page, npc, QUESTIONS[:1])
    problem = {"detail": "the hard budget user_day is exhausted; it begins anew at 00:00 UTC"}
    page.route("**/api/v1/npc/chat", lambda route: route.fulfill(status=429, json=problem))
    page.locator("#question").fill(QUESTIONS[1])
    page.keyboard.press("Enter")
    page.locator(".note.error").wait_for()


def deleted(page: Page, npc: str, _: str) -> None:
    """A conversation that was just deleted."""
    conversations(page, npc, _)
    page.locator("#session-list li").first.locator("button").last.click()
    page.locator("#toast:popover-open").wait_for()


STATES: tuple[Callable[[Page, str, str], None], ...] = (
    *(greeting, chat, passage, inspector, replay, assistant, quick, markdown, preferences, conversations, offline),
    *(failed, deleted),
)
PICTURES = {
    "chat.png": (chat, "wide"),
    "assistant.png": (assistant, "wide"),
    "inspector.png": (inspector, "wide"),
    "inspector-phone.png": (inspector, "phone-dark"),
    "replay.png": (replay, "wide"),
    "preferences.png": (preferences, "wide-dark"),
    "conversations-phone.png": (conversations, "phone"),
}
"""The pictures of the documentation: state and variant."""


def take(
    browser: Browser, file: Path, state: Callable[[Page, str, str], None], variant: str, urls: tuple[str, str]
) -> None:
    """Take one picture."""
    page = browser.new_page(**VARIANTS[variant])
    page.set_default_timeout(10_000)
    state(page, *urls)
    page.wait_for_timeout(400)
    page.screenshot(path=file)
    page.context.close()


@contextmanager
def services() -> Iterator[tuple[str, str]]:
    """The addresses of a service with the sample and of one with the assistant, both new."""
    with ExitStack() as stack:
        folders = [Path(stack.enter_context(TemporaryDirectory())) for _ in range(2)]
        make_sampled_file(folders[0] / "wenmai.db")
        npc = stack.enter_context(listening(serve_app(settings_in(folders[0]))))
        settings = settings_in(folders[1], **profile_settings("assistant"))
        yield npc, stack.enter_context(listening(serve_app(settings)))


def main(folder: Path, *, every: bool) -> None:
    """Take the pictures of the documentation, or of every state in every variant."""
    folder.mkdir(parents=True, exist_ok=True)
    with services() as urls, chromium() as browser:
        if not every:
            for name, (state, variant) in PICTURES.items():
                take(browser, folder / name, state, variant, urls)
            return
        for number in range(200):
            httpx.post(f"{urls[0]}/v1/sessions", json={"title": f"第{number}次对话"})
        for each in STATES:
            for variant in VARIANTS:
                take(browser, folder / f"{each.__name__}-{variant}.png", each, variant, urls)


if __name__ == "__main__":
    main(Path(sys.argv[1]), every="--every" in sys.argv)
