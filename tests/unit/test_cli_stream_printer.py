"""Streamed answers on a terminal: line wrapping, replacement, and removal of control characters."""

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from wenmai.chat.turn import Replacement, Token
from wenmai.cli.terminal.stream_printer import StreamPrinter
from wenmai.cli.terminal.wrapping import LineWrapper
from wenmai.text.printable import printable

ENGLISH = "The ancestral hall was founded in the second year of the Jiajing reign by Yan Shouzheng, the seventh."
CHINESE = "严氏祠堂始建于明嘉靖二年，由七世祖严守正主持创建，三年落成。祠堂坐北朝南，背靠笔架山。"


def wrapped(text: str, size: int, width: int = 20) -> str:
    """The wrapped text if it is streamed in chunks of that size."""
    wrapper = LineWrapper(width, used=6)
    chunks = [text[start : start + size] for start in range(0, len(text), size)]
    return "".join(map(wrapper.add, chunks)) + wrapper.end()


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_lines_break_between_words(size: int) -> None:
    """For every chunk size; whitespace at the break is dropped."""
    lines = wrapped(ENGLISH, size).split("\n")
    assert " ".join(lines) == ENGLISH
    assert len(lines[0]) <= 14
    assert all(len(line) <= 20 for line in lines)


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_chinese_breaks_between_characters(size: int) -> None:
    """No line begins with a full stop or a comma."""
    lines = wrapped(CHINESE, size).split("\n")
    assert "".join(lines) == CHINESE
    assert all(cell_len(line) <= 20 and line[0] not in "，。" for line in lines)


def test_line_breaks_of_the_answer_are_kept() -> None:
    """Lists keep their lines and indents."""
    text = "- one\n  - two\n\n- three"
    assert wrapped(text, 1, 80) == text


def test_control_characters_are_removed() -> None:
    """Escape sequences, C1 controls, bells and bidirectional marks are removed; emoji and line breaks are kept."""
    assert (
        printable("志\x1b]0;OWNED\x07\x1b[2J\x9b31m\u202e\u2066\ud83d\r\n\t👩\u200d👩")
        == "志]0;OWNED[2J31m\n\t👩\u200d👩"
    )


async def printed(*events: tuple[str, str]) -> str:
    """The output on a terminal of 40 columns, without styles."""
    out = io.StringIO()
    printer = StreamPrinter(Console(file=out, force_terminal=True, color_system=None, width=40), "Elder › ", "instead:")
    for kind, text in events:
        await printer.on_event(Token(text) if kind == "token" else Replacement(text))
    printer.end()
    return out.getvalue()


async def test_tokens_are_printed_as_they_arrive() -> None:
    """On one line after the name, without escape sequences."""
    assert (
        await printed(("token", "It was\x1b[2J built"), ("token", " in 1523.")) == "Elder › It was[2J built in 1523.\n"
    )


async def test_a_replacement_is_printed_whole() -> None:
    """On a new line, marked as the replacement."""
    assert await printed(("token", "It was"), ("replace", "It is unknown.")) == (
        "Elder › It was\ninstead:\nElder › It is unknown.\n"
    )
    assert await printed(("replace", "It is unknown.")) == "Elder › It is unknown.\n"
