"""Parses source files into evidence records: Markdown, plain text, JSONL and CSV.

A line of JSONL or a row of CSV is one passage. Markdown and plain text are chunked by
:mod:`~wenmai.grounding.evidence.chunking`. Lines that cannot be used are reported by number and skipped.
"""

import csv
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath
from typing import Any

import msgspec

from wenmai.errors import InvalidInput
from wenmai.grounding.evidence.decoding import decode, line_problem
from wenmai.grounding.evidence.fields import forbidden_character, record_from
from wenmai.grounding.evidence.markdown import Item, read_markdown, read_text
from wenmai.stores.records import EvidenceRecord

NAME_CHARACTERS = 500
_REASON_CHARACTERS = 500


class BadLine(msgspec.Struct, frozen=True):
    """A line that could not be used, and why; lines count from 1."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"


def parse(data: bytes, name: str) -> Iterator[EvidenceRecord | BadLine]:
    """The passages of a file in their order, and a :class:`BadLine` for each line that cannot be used.

    A file without any text is a bad line too. So is a passage that repeats an id with other content; an identical
    passage is skipped.

    Args:
        data: the file, UTF-8.
        name: its name; the extension gives the format (``.md``, ``.txt``, ``.jsonl``, ``.csv``), and the name is the
            default ``source_ref``.

    Raises:
        InvalidInput: at once, if the format is not known, the file is binary or not UTF-8; before the first
            passage, if its front matter or its header cannot be used.
    """
    if len(name) > NAME_CHARACTERS or forbidden_character(name):
        raise InvalidInput("file", name, f"a name of at most {NAME_CHARACTERS} characters without control characters")
    suffix = PurePath(name).suffix.lower()
    if suffix not in FORMATS:
        raise InvalidInput("file", name, f"a file whose name ends in one of {', '.join(FORMATS)}")
    return _checked(FORMATS[suffix](decode(data, name), name), name)


def read_jsonl(lines: list[str], name: str) -> Iterator[Item]:
    """One JSON object per line with the fields of an evidence record; empty lines are skipped."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield number, line_problem(line) or _from_json(line, name)


def read_csv(lines: list[str], name: str) -> Iterator[Item]:
    """A header of field names, then one passage per row; a quoted value may span lines.

    Raises:
        InvalidInput: the header has an unknown or repeated field, or no ``text``.
    """
    rows = csv.reader((f"{line}\n" for line in lines), strict=True)
    header = _header(rows, name)
    while True:
        number = rows.line_num + 1
        try:
            row = next(rows, None)
        except csv.Error as bad:
            unclosed = rows.line_num >= len(lines)
            yield number, "a quote that opens here is never closed" if unclosed else f"not CSV: {bad}"
            continue
        if row is None:
            return
        if any(cell.strip() for cell in row):
            yield number, _from_row(header, row, name)


FORMATS: Mapping[str, Callable[[list[str], str], Iterator[Item]]] = {
    ".md": read_markdown,
    ".markdown": read_markdown,
    ".txt": read_text,
    ".jsonl": read_jsonl,
    ".ndjson": read_jsonl,
    ".csv": read_csv,
}
"""Reader by file extension."""


def _from_json(line: str, name: str) -> EvidenceRecord | str:
    try:
        return record_from(msgspec.json.decode(line, type=dict[str, Any]), source_ref=name)
    except RecursionError:
        return "not a JSON object: nested too deeply"
    except ValueError as bad:  # from msgspec, and for integers of thousands of digits
        return f"not a JSON object: {bad}"
    except InvalidInput as bad:
        return str(bad)


def _from_row(header: list[str], row: list[str], name: str) -> EvidenceRecord | str:
    if len(row) != len(header):
        return f"{len(row)} values for {len(header)} columns"
    problem = next(filter(None, map(line_problem, row)), None)
    try:
        return problem or record_from(dict(zip(header, row, strict=True)), source_ref=name, lax=True)
    except InvalidInput as bad:
        return str(bad)


def _header(rows: Iterator[list[str]], name: str) -> list[str]:
    known = EvidenceRecord.__struct_fields__
    try:
        header = [column.strip() for column in next(rows, [])]
    except csv.Error as bad:
        raise InvalidInput(f"{name}:1", "header", f"CSV: {bad}") from bad
    if not set(header) <= set(known) or len(set(header)) < len(header) or "text" not in header:
        allowed = f"a header with text and any of {', '.join(known)}, each once"
        raise InvalidInput(f"{name}:1", ",".join(header), allowed)
    return header


def _checked(items: Iterator[Item], name: str) -> Iterator[EvidenceRecord | BadLine]:
    seen: dict[str, EvidenceRecord] = {}
    line = 0
    for line, item in items:
        if isinstance(item, str):
            yield BadLine(name, line, item[:_REASON_CHARACTERS])
        elif seen.setdefault(item.evidence_id, item) is item:
            yield item
        elif seen[item.evidence_id] != item:
            yield BadLine(name, line, f"evidence_id {item.evidence_id} came before with another passage")
    if line == 0:
        yield BadLine(name, 1, "the file has no text")
