"""Reads a file as JSON values, and dispatches each value to the reader of its format.

A file is either JSON lines, of any length and read one line at a time, or one JSON document.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from wenmai.errors import InvalidInput, bounded_repr
from wenmai.interchange.items import BadValueError, Item, Json, Note, Occurrences, Source
from wenmai.interchange.locomo import is_locomo, read_locomo
from wenmai.interchange.messages import is_line, read_line
from wenmai.interchange.openai import as_conversation, is_conversation, read_conversation

LINE_BYTES = 64_000_000
DOCUMENT_BYTES = 256_000_000
"""Size limits of a line and of a document, which are read into memory as a whole."""

_LISTS = 2
_MARK = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")

Reader = Callable[[Source, Json, int], Iterator[Item]]
"""Reads the object of a line; raises :class:`BadValueError` if the rest of it is unusable."""

FORMATS: Mapping[str, tuple[Callable[[Json], bool], Reader]] = {
    "openai": (is_conversation, read_conversation),
    "locomo": (is_locomo, read_locomo),
    "jsonl": (is_line, read_line),
}
"""Name → (whether an object has this format, its reader)."""


class Read(NamedTuple):
    """An item, and the number of bytes read so far."""

    item: Item
    position: int


def read_items(path: Path, *, persona_id: str, format_name: str | None = None) -> Iterator[Read]:
    """The items of the file, in order.

    Args:
        path: the file, UTF-8.
        persona_id: the persona of messages without one.
        format_name: one of :data:`FORMATS`; None detects it for each value.

    Raises:
        InvalidInput: the file cannot be read.
    """
    position, empty = 0, True
    with Occurrences() as occurrences:
        source = Source(path, persona_id, occurrences)
        for line, value, position in _values(path):
            empty = False
            for item in _items(source, value, line, format_name):
                yield Read(item, position)
        if empty:  # such as the export of a user without sessions
            yield Read(Note(f"{source.name}: the file is empty"), position)


def _items(source: Source, value: object, line: int, forced: str | None, depth: int = 0) -> Iterator[Item]:
    """The items of a value; items read before an error are kept.

    A value may be a list of objects, and each of these a list of messages.
    """
    if isinstance(value, BadValueError):
        yield source.bad(line, str(value))
        return
    if isinstance(value, list) and depth < _LISTS:
        conversation = as_conversation(value)
        for each in value if conversation is None else [conversation]:
            yield from _items(source, each, line, forced, depth + 1)
        return
    if not isinstance(value, dict):
        yield source.bad(line, f"{bounded_repr(value)} is not a JSON object")
        return
    try:
        yield from _reader(value, forced)(source, value, line)
    except BadValueError as problem:
        yield source.bad(line, str(problem))
    except RecursionError:
        yield source.bad(line, "nested too deeply")


def _reader(value: Json, forced: str | None) -> Reader:
    if forced is not None:
        return FORMATS[forced][1]
    for has_shape, reader in FORMATS.values():
        if has_shape(value):
            return reader
    raise BadValueError("neither a message with session_id, role and content nor a conversation of a known format")


def _values(path: Path) -> Iterator[tuple[int, object, int]]:
    """``(line, value, bytes read so far)``; an unreadable value is a :class:`BadValueError`."""
    try:
        if (document := _document(path)) is not None:
            yield 0, document, path.stat().st_size
            return
        yield from _json_lines(path)
    except OSError as problem:
        raise InvalidInput("file", str(path), f"readable: {problem.strerror}") from problem


def _document(path: Path) -> object:
    """The file as one JSON document; None for JSON lines: the first line is a value, or the whole is not JSON."""
    with path.open("rb") as file:
        lines = iter(lambda: file.readline(LINE_BYTES).removeprefix(_MARK), b"")
        first = next((line.strip() for line in lines if line.strip()), b"")
    if not first.startswith((b"{", b"[")) or path.stat().st_size > DOCUMENT_BYTES:
        return None
    if not isinstance(_decoded(first), BadValueError):
        return None
    document = _decoded(path.read_bytes().removeprefix(_MARK))
    return None if isinstance(document, BadValueError) else document


def _json_lines(path: Path) -> Iterator[tuple[int, object, int]]:
    number, position = 0, 0
    with path.open("rb") as file:
        while line := file.readline(LINE_BYTES):
            number += 1
            position += len(line)
            if number == 1 and line.startswith(_UTF16):
                yield (
                    1,
                    BadValueError("the file is UTF-16; convert it with: iconv -f UTF-16 -t UTF-8"),
                    position,
                )
                return
            if len(line) == LINE_BYTES and not line.endswith(b"\n"):
                position += _skip_line(file)
                yield number, BadValueError(f"longer than {LINE_BYTES} bytes"), position
            elif text := line.removeprefix(_MARK).strip():
                yield number, _decoded(text), position


def _skip_line(file: BinaryIO) -> int:
    skipped = 0
    while rest := file.readline(LINE_BYTES):
        skipped += len(rest)
        if rest.endswith(b"\n"):
            break
    return skipped


def _decoded(text: bytes) -> object:
    try:
        return msgspec.json.decode(text)
    except UnicodeDecodeError as problem:
        return BadValueError(f"not UTF-8: {problem.reason}")
    except RecursionError:
        return BadValueError("not JSON: nested too deeply")
    except ValueError as problem:  # msgspec's errors, and integers of thousands of digits
        return BadValueError(f"not JSON: {problem}")
