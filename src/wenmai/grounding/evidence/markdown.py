"""Markdown and plain text to passages; headings become titles, front matter applies to the whole file."""

import re
from collections.abc import Iterator
from pathlib import PurePath

from wenmai.errors import InvalidInput
from wenmai.grounding.evidence.chunking import chunk
from wenmai.grounding.evidence.decoding import line_problem
from wenmai.grounding.evidence.fields import TITLE_CHARACTERS, SourceFields, record_from
from wenmai.grounding.evidence.front_matter import front_matter
from wenmai.grounding.evidence.tables import rows_as_sentences
from wenmai.stores.records import EvidenceRecord

Item = tuple[int, EvidenceRecord | str]
"""A line's number, and the passage that begins there or the reason why it cannot be used."""

_INDENT = 3
_LEVELS = 6
_HEADING_CHARACTERS = 1_000
"""Characters of a heading that are read; a title is shorter."""

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_COMMENT_OPENS, _COMMENT_CLOSES = "<!--", "-->"
_IMAGE = re.compile(r"!\[([^\[\]]*)\]\([^()\s]*\)")
_LINK = re.compile(r"\[([^\[\]]+)\]\([^()\s]*\)")
_STRONG = re.compile(r"\*\*([^*\n]+)\*\*|__([^_\n]+)__")
_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_QUOTE = re.compile(r"^ {0,3}>[ \t]?", re.MULTILINE)
_HEADING_SEPARATOR = " · "


def read_markdown(lines: list[str], name: str) -> Iterator[Item]:
    """The sections of a Markdown file, cut into passages; a passage's title is the path of its headings.

    The file may begin with front matter (:mod:`.front_matter`). Links, images, bold, code in a line, quote marks and
    comments are reduced to their text, and each row of a table becomes a sentence.

    Raises:
        InvalidInput: the front matter cannot be read, or has a field that is unknown or not allowed.
    """
    source, body_start = front_matter(lines, name)
    path: dict[int, str] = {}
    section: list[str] = []
    begin = body_start + 1
    fence = ""
    for number, line in enumerate(lines[body_start:], start=body_start + 1):
        problem = line_problem(line)
        if problem:
            yield number, problem
            continue
        mark = _FENCE.match(line)
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        heading = None if fence else _heading(line)
        if heading is None:
            section.append(line)
            continue
        yield from _passages(_plain(section), _title(source, path, name), source, name, begin)
        level, title = heading
        path = {depth: above for depth, above in path.items() if depth < level} | {level: title}
        section = []
        begin = number
    yield from _passages(_plain(section), _title(source, path, name), source, name, begin)


def read_text(lines: list[str], name: str) -> Iterator[Item]:
    """The paragraphs of a plain text, cut into passages; the title is the file's name without its ending."""
    usable: list[str] = []
    for number, line in enumerate(lines, start=1):
        problem = line_problem(line)
        if problem:
            yield number, problem
        else:
            usable.append(line)
    yield from _passages("\n".join(usable), PurePath(name).stem, SourceFields(), name, 1)


def _passages(text: str, title: str, source: SourceFields, name: str, begin: int) -> Iterator[Item]:
    for passage in chunk(text):
        given = {
            "text": passage,
            "title": title,
            "source_type": source.source_type,
            "source_ref": source.source_ref or name,
            "source_url": source.source_url,
            "domains": source.domains,
            "language": source.language,
            "confidence": source.confidence,
            "verified": source.verified,
            "tags": source.tags,
            "effective_date": source.effective_date,
            "supersedes": source.supersedes,
        }
        try:
            yield begin, record_from(given)
        except InvalidInput as bad:
            yield begin, str(bad)


def _heading(line: str) -> tuple[int, str] | None:
    """The level and the text of a heading; None for any other line."""
    body = line.lstrip(" ")
    text = body.lstrip("#")
    level = len(body) - len(text)
    if len(line) - len(body) > _INDENT or not 1 <= level <= _LEVELS or text[:1] not in {" ", "\t"}:
        return None
    text = text.strip(" \t")
    unmarked = text.rstrip("#")
    if unmarked[-1:] in {"", " ", "\t"}:  # a closing run of hashes
        text = unmarked.rstrip(" \t")
    return level, _plain([text[:_HEADING_CHARACTERS]])[:TITLE_CHARACTERS]


def _title(source: SourceFields, path: dict[int, str], name: str) -> str:
    parts = [source.title, *path.values()]
    names = list(dict.fromkeys(part for part in parts if part)) or [PurePath(name).stem]
    return _HEADING_SEPARATOR.join(names)[:TITLE_CHARACTERS]


def _plain(lines: list[str]) -> str:
    blocks: list[list[str]] = [[]]  # outside of fences and inside, in turn
    for line in lines:
        if _FENCE.match(line):
            blocks.append([])
        blocks[-1].append(line)
    for prose in blocks[::2]:
        prose[:] = [_CODE.sub(r"\1", line) for line in rows_as_sentences(prose)]
    text = _without_comments("\n".join(line for block in blocks for line in block))
    text = _LINK.sub(r"\1", _IMAGE.sub(r"\1", text))
    return _QUOTE.sub("", _STRONG.sub(r"\1\2", text)).strip()


def _without_comments(text: str) -> str:
    """The text without ``<!-- … -->``; one that is never closed is text."""
    kept: list[str] = []
    position = 0
    while (begin := text.find(_COMMENT_OPENS, position)) >= 0:
        end = text.find(_COMMENT_CLOSES, begin + len(_COMMENT_OPENS))
        if end < 0:
            break
        kept.append(text[position:begin])
        position = end + len(_COMMENT_CLOSES)
    return "".join([*kept, text[position:]])
