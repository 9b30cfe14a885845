"""Answers on a terminal: wrapped between words, replaced whole, and without anything that a terminal obeys."""

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from wenmai.chat.turn import TurnEvent
from wenmai.cli.console import printable
from wenmai.cli.streamed import Streamed
from wenmai.cli.wrapping import Wrapping

ENGLISH = "The ancestral hall was founded in the second year of the Jiajing reign by Yan Shouzheng, the seventh."
CHINESE = "严氏祠堂始建于明嘉靖二年，由七世祖严守正主持创建，三年落成。祠堂坐北朝南，背靠笔架山。"


def wrapped(text: str, size: int, width: int = 20) -> str:
    """The text as it is shown if it comes in pieces of that size."""
    wrapping = Wrapping(width, used=6)
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    return "".join(map(wrapping.add, pieces)) + wrapping.end()


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_lines_break_between_words(size: int) -> None:
    """However the text comes; a blank at the break is left out."""
    lines = wrapped(ENGLISH, size).split("\n")
    assert " ".join(lines) == ENGLISH
    assert len(lines[0]) <= 14
    assert all(len(line) <= 20 for line in lines)


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_chinese_breaks_between_characters(size: int) -> None:
    """But no line begins with a full stop or a comma."""
    lines = wrapped(CHINESE, size).split("\n")
    assert "".join(lines) == CHINESE
    assert all(cell_len(line) <= 20 and line[0] not in "，。" for line in lines)


def test_line_breaks_of_the_answer_stay() -> None:
    """Lists keep their lines and indents."""
    text = "- one\n  - two\n\n- three"
    assert wrapped(text, 1, 80) == text


def test_what_a_terminal_obeys_is_left_out() -> None:
    """Escape sequences, C1 controls, bells, reversed text; emoji and line breaks stay."""
    assert (
        printable("志\x1b]0;OWNED\x07\x1b[2J\x9b31m\u202e\u2066\ud83d\r\n\t👩\u200d👩")
        == "志]0;OWNED[2J31m\n\t👩\u200d👩"
    )


async def shown(*events: tuple[str, str]) -> str:
    """What a terminal of 40 columns receives, without its styles."""
    out = io.StringIO()
    streamed = Streamed(Console(file=out, force_terminal=True, color_system=None, width=40), "Elder › ", "instead:")
    for kind, text in events:
        await streamed.hear(TurnEvent(kind, {"text": text}))  # type: ignore[arg-type]
    streamed.end()
    return out.getvalue()


async def test_tokens_are_printed_as_they_come() -> None:
    """On one line after the name, without escapes."""
    assert await shown(("token", "It was\x1b[2J built"), ("token", " in 1523.")) == "Elder › It was[2J built in 1523.\n"


async def test_a_replacement_is_printed_whole() -> None:
    """Below what was printed, and said to be it."""
    assert await shown(("token", "It was"), ("replace", "Nobody knows.")) == (
        "Elder › It was\ninstead:\nElder › Nobody knows.\n"
    )
    assert await shown(("replace", "Nobody knows.")) == "Elder › Nobody knows.\n"
