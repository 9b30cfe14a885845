"""Tables of Markdown as sentences, one for each row: ``part: crank bolt; torque: 40 Nm.``."""

import re

from wenmai.text.cjk import CJK

_CELL_END = re.compile(r"(?<!\\)\|")
_CHINESE = re.compile(f"[{CJK}]")


def rows_as_sentences(lines: list[str]) -> list[str]:
    """The lines, with each row of a table as a sentence that names its columns; a head without rows is dropped.

    A table has a head, a line of delimiters such as ``|---|---|``, and rows with vertical bars.
    """
    written: list[str] = []
    head: list[str] | None = None
    for at, line in enumerate(lines):
        below = lines[at + 1] if at + 1 < len(lines) else ""
        if head is None and "|" in line and _is_delimiters(below):
            head = _cells(line)
        elif head is not None and "|" not in line:
            head = None
            written.append(line)
        elif head is None:
            written.append(line)
        elif not _is_delimiters(line):
            written.append(_sentence(head, _cells(line)))
    return written


def _is_delimiters(line: str) -> bool:
    """Whether it is the line below a head."""
    return "-" in line and "|" in line and not line.strip("|:- \t")


def _cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|")
    cells = [cell.strip().replace(r"\|", "|") for cell in _CELL_END.split(inner)]
    return cells[:-1] if cells[-1] == "" else cells


def _sentence(head: list[str], cells: list[str]) -> str:
    named = [(head[place] if place < len(head) else "", cell) for place, cell in enumerate(cells) if cell.strip(" -—")]
    colon, semicolon, stop = "：；。" if _CHINESE.search("".join(cells)) else (": ", "; ", ".")
    text = semicolon.join(f"{column}{colon}{cell}" if column else cell for column, cell in named)
    return text + stop if text and text[-1] not in ".!?。！？" else text
