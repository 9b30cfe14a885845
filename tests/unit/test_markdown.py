"""Markdown of answers as HTML: what an answer needs is rendered, and nothing that is stored can act."""

from datetime import UTC, datetime
from html import unescape
from html.parser import HTMLParser
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth import check_growth
from wenmai.http.markdown import MOST_CHARACTERS, rendered, rendered_answers
from wenmai.stores.records import Message

TAGS = frozenset(
    "p br hr h4 h5 h6 strong em s code pre blockquote ul ol li a table thead tbody tr th td".split(),  # noqa: SIM905
)
SAFE_LINK = {"target": "_blank", "referrerpolicy": "no-referrer", "rel": "noopener noreferrer nofollow"}


class Harmless(HTMLParser):
    """Fails at any element or attribute that an answer does not need."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Check an element."""
        assert tag in TAGS, tag
        given = dict(attrs)
        if tag == "a":
            address = given.pop("href", None) or "https://"
            assert address.startswith(("https://", "http://")), address
            assert given == SAFE_LINK
        else:
            assert given.keys() <= ({"start"} if tag == "ol" else set()), given


def checked(text: str) -> str:
    """The text rendered, and found harmless."""
    html = rendered(text)
    Harmless().feed(html)
    return html.strip()


def test_an_answer_shows_lists_emphasis_tables_and_code() -> None:
    """Headings stand below those of the page; the alignment of columns is left to the stylesheet."""
    text = "# 祠堂\n\n1. **建成** 于 *1523* 年\n   * 重修\n\n| 年 | 事 |\n|---|:-:|\n| 1523 | 建 |\n"
    text += "\n```py\na < b\n```\n一行\n下一行"
    html = checked(text)
    for part in (
        *("<h4>祠堂</h4>", "<ol>", "<strong>建成</strong>", "<em>1523</em>", "<ul>\n<li>重修</li>"),
        *("<th>事</th>", "<td>1523</td>", "<pre><code>a &lt; b\n</code></pre>", "<p>一行<br>\n下一行</p>"),
    ):
        assert part in html


HOSTILE = {
    "script": "<script>alert(1)</script>",
    "handler": "<img src=x onerror=alert(1)><b onclick='x()'>a</b>",
    "style": '<style>body{display:none}</style><p style="position:fixed">x</p>',
    "form": "<form action=https://evil.example><input name=key><button>OK</button></form>",
    "svg": '<svg onload=alert(1)><use href="data:image/svg+xml,x"/></svg><math><mtext><script>x</script>',
    "frame": "<iframe srcdoc='<script>x</script>'></iframe><base href=//evil.example><meta http-equiv=refresh>",
    "entities": "&lt;script&gt;alert(1)&#60;/script&#x3e;",
    "nested fences": "````\n```\n<script>x</script>\n```\n````\n~~~html\n<img onerror=x>\n",
    "fence of a hostile language": '```"onclick=alert(1)><script>\nx\n```',
    "remote image": "![](https://evil.example/pixel.png) ![a][b]\n\n[b]: https://evil.example/pixel.png",
    "linked image": "[![x](https://evil.example/p.png)](https://evil.example/)",
    "autolink": "<https://evil.example/\"onmouseover='x'>",
    "attributes in a link": '[x](https://evil.example/"onclick="x) [y](https://a.example \'t"onclick="x\')',
    "broken": "<scr<script>ipt>alert(1)</scr</script>ipt> <!-- --!> <![CDATA[<img src=x onerror=x>]]>",
    "table": '|<td onclick=x>|\n|-|\n|<img src="https://evil.example">|',
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_markdown_is_harmless(text: str) -> None:
    """No element, attribute or address of it survives but those that an answer needs."""
    checked(text)
    checked(f"> * {text}\n\n**{text}**\n\n`{text}`")


@pytest.mark.parametrize(
    "text",
    [
        *("<script>x</script>", "<!-- hidden -->", "![cat](https://evil.example/cat.png)", "[a]: https://a.example"),
        *("<div>\nx\n</div>", "&amp;lt;"),
    ],
)
def test_what_is_not_rendered_is_shown_as_it_was_written(text: str) -> None:
    """Nothing of an answer is hidden."""
    assert unescape(checked(text).replace("<br>", "")) == f"<p>{unescape(text)}</p>"


def test_an_indented_line_is_a_paragraph() -> None:
    """Not a block of code."""
    assert checked("    一行") == "<p>一行</p>"


@pytest.mark.parametrize(
    "address",
    [
        *("javascript:alert(1)", "JaVaScRiPt:alert(1)", "java\tscript:x", "&#106;avascript:x", "vbscript:x"),
        *("data:text/html,<script>x</script>", "file:///etc/passwd", "//evil.example", "/v1/sessions", "mailto:a@b"),
        *("https:///evil.example", "http:////evil.example", "https://", "https:/evil.example"),
    ],
)
def test_only_web_addresses_are_links(address: str) -> None:
    """Other schemes, and addresses of this service, stay as they were written."""
    assert "<a " not in checked(f"[text](<{address}>)")
    assert "<a " not in checked(f"<{address}>")


@pytest.mark.parametrize(
    ("link", "shown"),
    [
        ("[https://bank.example](https://evil.example/bank.example)", "https://bank.example (evil.example)"),
        ("[a](https://bank.example@evil.example:8443/x?y#z)", "a (evil.example:8443)"),
        ("[a](https://bаnk.example)", "a (xn--bnk-6cd.example)"),
        ("[](https://evil.example)", " (evil.example)"),
        ("<https://evil.example/x>", "https://evil.example/x"),
    ],
)
def test_a_link_shows_where_it_leads(link: str, shown: str) -> None:
    """Whatever its words say, the host stands beside them, in ASCII."""
    assert f">{shown}</a>" in checked(link)


def test_characters_that_hide_or_reorder_are_left_out() -> None:
    """Bidirectional overrides, zero-width characters, invisible tags, escapes; joiners stay, for emoji and Persian."""
    text = "a\u202etxt.exe\u2066\u200b\ufeff\U000e0041 \x1b[31mred\x9b2J\x07\x00 👩\u200d👩"
    assert checked(text) == "<p>atxt.exe [31mred2J 👩\u200d👩</p>"
    assert "\u202e" not in checked("[https://a.example/\u202e](https://evil.example/\u202egpj)")


@given(st.text(st.sampled_from("<>[]()!`*_~|-#=&;:/\\\"' \n\tahtps.@1"), max_size=80))
def test_no_text_becomes_more_than_an_answer_needs(text: str) -> None:
    """Whatever its punctuation."""
    checked(text)


@pytest.mark.parametrize(
    "unit",
    [
        *(
            "[",
            "![",
            "[a](",
            "](",
            "> ",
            "- ",
            "1. ",
            "*a ",
            "**a*b_",
            "*_",
            "` ",
            "```\n",
            "<a ",
            "<!--",
            "&a",
            "~~a ",
        ),
        *("|a", "|\n", "a|b\n-|-\n", "\\", "[a]: b\n", "a\n=\n", "- > ", "  - a\n", "<a:", "[a](<", "(", "a\n"),
    ],
)
def test_rendering_takes_linear_time(unit: str) -> None:
    """On 32 kB of any punctuation that nests."""
    check_growth(rendered, unit, 32_000)


def message(number: int, role: Literal["user", "assistant"], content: str) -> Message:
    """A message of a thread."""
    return Message(f"m{number}", number, number, "elder", role, content, datetime(2026, 1, 5, tzinfo=UTC))


async def test_the_newest_answers_of_a_page_are_rendered() -> None:
    """Questions are not; nor what exceeds the limit of a request."""
    long = "a" * (MOST_CHARACTERS - 5)
    given = [message(1, "assistant", "*早*"), message(2, "assistant", long), message(3, "user", "*问*")]
    given.append(message(4, "assistant", "*答*"))
    html = await rendered_answers(given)
    assert (html[0], html[1] is not None, html[2], html[3]) == (None, True, None, "<p><em>答</em></p>\n")


@pytest.mark.parametrize(
    "costly",
    ["![" * 16_000, "a|b\n-|-\n" * 4_000, "[" + "}" * 30_000, f"{'|a' * 100}|\n{'|-' * 100}|\n" + "|b\n" * 100],
    ids=["brackets", "tables", "one bracket", "table that is filled up"],
)
async def test_an_answer_of_little_but_markup_stays_as_it_is_written(costly: str) -> None:
    """It would take up to a second of the processor; those before and after it are rendered."""
    ordinary = "## 祠堂\n\n* **建成** 于 `1523` 年\n\n| 年 | 事 |\n|---|---|\n| 1523 | 建 |\n\n" * 20
    html = await rendered_answers(
        [message(n, "assistant", text) for n, text in enumerate((ordinary, costly, "*答*"), 1)]
    )
    assert html[1:] == [None, "<p><em>答</em></p>\n"]
    assert html[0] == rendered(ordinary)
