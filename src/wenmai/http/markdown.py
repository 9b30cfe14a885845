"""Answers in Markdown, rendered as HTML that cannot act: the pages insert it as it is."""

import asyncio
import re
from collections.abc import Callable, Sequence
from functools import cache

from wenmai.stores.records import Message
from wenmai.text.printable import printable

MOST_CHARACTERS = 65_536
"""Of the answers that are rendered for one request; the newest come first."""

MOST_MARKS = 5_000
"""Of these answers: characters that may be Markdown, and cells of tables. Each takes up to 30 µs."""

_MARK = re.compile(r"[]\n!#$%&*+:<=>@[\\^_`{|}~-]")

_TAGS = {
    *("p", "br", "hr", "h4", "h5", "h6", "strong", "em", "s", "code", "pre", "blockquote", "ul", "ol", "li", "a"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}
_ADDRESS = re.compile(r"https?://([^/?#\\]+)", re.IGNORECASE)
"""Browsers skip further slashes before the host, which would then not be shown."""

_FIRST_HEADING, _LAST_HEADING = 4, 6
"""The page's own headings stand above those of an answer."""


def rendered(text: str) -> str:
    """The text as HTML without style, script, form, image or raw HTML; links show their host and say nothing of us."""
    return _renderer()(printable(text))


async def rendered_answers(messages: Sequence[Message]) -> list[str | None]:
    """The answers among the messages as HTML; None for other messages, and for what would take too long."""
    return await asyncio.to_thread(_rendered_answers, messages)


def _rendered_answers(messages: Sequence[Message]) -> list[str | None]:
    html: list[str | None] = []
    characters, marks = MOST_CHARACTERS, MOST_MARKS
    for message in reversed(messages):
        size = len(message.content)
        count = _marks(message.content) if message.role == "assistant" and size <= characters else marks + 1
        if count > marks:
            html.append(None)
            continue
        characters, marks = characters - size, marks - count
        html.append(rendered(message.content))
    return html[::-1]


def _marks(text: str) -> int:
    """The characters that may be Markdown, and the cells that its tables may have: short rows are filled up."""
    blocks = text.split("\n\n") if "|" in text else []
    cells = (max(map(_bars, lines)) * len(lines) for lines in (block.split("\n") for block in blocks))
    return len(_MARK.findall(text)) + sum(cells)


def _bars(line: str) -> int:
    return line.count("|")


@cache
def _renderer() -> Callable[[str], str]:
    import nh3  # noqa: PLC0415 — for the first answer that a page renders
    from markdown_it import MarkdownIt  # noqa: PLC0415 — likewise
    from markdown_it.rules_core import StateCore  # noqa: PLC0415 — likewise
    from markdown_it.token import Token  # noqa: PLC0415 — likewise

    def lower_headings(state: StateCore) -> None:
        for token in state.tokens:
            if token.type in {"heading_open", "heading_close"}:
                token.tag = f"h{min(int(token.tag[1]) + _FIRST_HEADING - 1, _LAST_HEADING)}"

    def show_addresses(state: StateCore) -> None:
        for token in state.tokens:
            shown: list[Token] = []
            host = ""
            for child in token.children or ():
                if child.type == "image":
                    child = Token("text", "", 0, content=f"![{child.content}]({child.attrGet('src')})")  # noqa: PLW2901
                elif child.type == "link_open":
                    host = _shown_host(str(child.attrGet("href")), autolink=child.info == "auto")
                elif child.type == "link_close" and host:
                    shown.append(Token("text", "", 0, content=f" ({host})"))
                shown.append(child)
            token.children = shown

    markdown = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable(["table", "strikethrough"])
    # What these would hide, or change, stays visible: definitions, and indented lines.
    markdown.disable(["reference", "code"])
    markdown.validateLink = lambda url: _ADDRESS.match(url) is not None  # type: ignore[method-assign]
    markdown.core.ruler.push("lower_headings", lower_headings)
    markdown.core.ruler.push("show_addresses", show_addresses)
    sanitizer = nh3.Cleaner(
        tags=_TAGS,
        attributes={"*": set(), "a": {"href"}, "ol": {"start"}},
        url_schemes={"http", "https"},
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank", "referrerpolicy": "no-referrer"}},
    )
    return lambda text: sanitizer.clean(str(markdown.render(text)))


def _shown_host(url: str, *, autolink: bool) -> str:
    """The host that a link's words might hide; the words of an autolink are its address."""
    address = None if autolink else _ADDRESS.match(url)
    return address[1].rpartition("@")[2] if address else ""
