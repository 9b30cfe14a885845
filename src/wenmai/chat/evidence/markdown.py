"""Markdown and plain text to passages; headings become titles, front matter holds for all of the file."""

import re
from collections.abc import Iterator
from pathlib import PurePath

import yaml

from wenmai.chat.evidence.chunking import chunk
from wenmai.chat.evidence.decoding import line_problem
from wenmai.chat.evidence.fields import TITLE_CHARACTERS, SourceFields, record_from, source_fields
from wenmai.errors import InvalidInput
from wenmai.stores.records import EvidenceRecord

Item = tuple[int, EvidenceRecord | str]
"""A line's number, and the passage that begins there or the reason why it cannot be used."""

_FRONT_MATTER_LINES = 100
_HEADING = re.compile(r"^ {0,3}(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*$")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_COMMENT = re.compile(r"<!--[^>]*-->")
_IMAGE = re.compile(r"!\[([^\[\]]*)\]\([^()\s]*\)")
_LINK = re.compile(r"\[([^\[\]]+)\]\([^()\s]*\)")
_STRONG = re.compile(r"\*\*([^*\n]+)\*\*|__([^_\n]+)__")
_QUOTE = re.compile(r"^ {0,3}>[ \t]?", re.MULTILINE)
_HEADING_SEPARATOR = " · "


def read_markdown(lines: list[str], name: str) -> Iterator[Item]:
    """The sections of a Markdown file, cut into passages; a passage's title is the path of its headings.

    The file may begin with front matter, YAML between two lines of ``---``, with the fields of
    :class:`~wenmai.chat.evidence.fields.SourceFields`. Links, images, bold, quote marks and comments are
    reduced to their text.

    Raises:
        InvalidInput: the front matter is not YAML, or has a field that is unknown or not allowed.
    """
    source, body_start = _front_matter(lines, name)
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
        heading = None if fence else _HEADING.match(line)
        if heading is None:
            section.append(line)
            continue
        yield from _passages(_plain(section), _title(source, path, name), source, name, begin)
        level = len(heading[1])
        path = {depth: title for depth, title in path.items() if depth < level}
        path[level] = _plain([heading[2]])
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
    for piece in chunk(text):
        given = {
            "text": piece,
            "title": title,
            "source_type": source.source_type,
            "source_ref": source.source_ref or name,
            "source_url": source.source_url,
            "domains": source.domains,
            "language": source.language,
            "confidence": source.confidence,
            "verified": source.verified,
            "tags": source.tags,
        }
        try:
            yield begin, record_from(given)
        except InvalidInput as bad:
            yield begin, str(bad)


def _front_matter(lines: list[str], name: str) -> tuple[SourceFields, int]:
    """What the front matter states, and how many lines it takes."""
    numbers = range(1, min(len(lines), _FRONT_MATTER_LINES))
    end = next((number for number in numbers if lines[number].rstrip() == "---"), 0)
    if end == 0 or lines[0].rstrip() != "---":
        return SourceFields(), 0
    try:
        stated = yaml.safe_load("\n".join(lines[1:end]))
    except yaml.YAMLError as bad:
        raise InvalidInput(f"{name}:1-{end + 1}", "front matter", f"YAML: {bad}") from bad
    if not isinstance(stated, dict | None):
        raise InvalidInput(f"{name}:1-{end + 1}", "front matter", "a list of fields, one 'name: value' a line")
    return source_fields(stated or {}, where=f"{name}:1-{end + 1}"), end + 1


def _title(source: SourceFields, path: dict[int, str], name: str) -> str:
    parts = [source.title, *path.values()]
    told = list(dict.fromkeys(part for part in parts if part)) or [PurePath(name).stem]
    return _HEADING_SEPARATOR.join(told)[:TITLE_CHARACTERS]


def _plain(lines: list[str]) -> str:
    text = _COMMENT.sub("", "\n".join(lines))
    text = _LINK.sub(r"\1", _IMAGE.sub(r"\1", text))
    return _QUOTE.sub("", _STRONG.sub(r"\1\2", text)).strip()
