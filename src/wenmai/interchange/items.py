"""The items of an imported file, and ids for items without one."""

import hashlib
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from wenmai.errors import InvalidInput, bounded_repr
from wenmai.memory.ids import checked_id
from wenmai.scope import ThreadKey
from wenmai.stores.records import BusinessState, NewMessage, Preferences, TraceRecord

REASON_CHARACTERS = 500
"""Maximum length of a reason, as field names in it may be of any length."""

Json = dict[str, Any]


class BadLine(msgspec.Struct, frozen=True):
    """An unusable item and the reason; lines count from 1, 0 means the whole file."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}" if self.line else f"{self.file}: {self.reason}"


class Note(msgspec.Struct, frozen=True):
    """A remark that is not an error."""

    text: str


class SessionItem(msgspec.Struct, frozen=True):
    """A session of the file; ``fields`` are the fields of its record that the file has."""

    session_id: str
    fields: Json
    line: int


class StateItem(msgspec.Struct, frozen=True):
    """A session's business state, with all its changes."""

    session_id: str
    state: BusinessState
    line: int


class RecordItem(msgspec.Struct, frozen=True):
    """A session's preferences, or one of its traces; bound to the session when it is stored."""

    session_id: str
    record: Preferences | TraceRecord
    line: int


class MessageItem(msgspec.Struct, frozen=True):
    """A message and its thread; its id is its own or a derived one.

    Attributes:
        where: its position within the value of its line, if that has several messages.
    """

    thread: ThreadKey
    message: NewMessage
    line: int
    where: str = ""


Item = SessionItem | StateItem | RecordItem | MessageItem | BadLine | Note


class BadValueError(Exception):
    """An invalid value in the input; the message says which and why."""


class Occurrences:
    """Counts occurrences of keys, in a temporary file, so that memory use is bounded."""

    def __init__(self) -> None:
        # For SQLite an empty name is a temporary database on disk, deleted with its connection.
        self._counts = sqlite3.connect("", isolation_level=None)
        self._counts.execute("PRAGMA journal_mode = OFF")
        self._counts.execute("CREATE TABLE seen (key BLOB PRIMARY KEY, times INTEGER) WITHOUT ROWID")
        self._counts.execute("BEGIN")  # never committed: the data is private, and a commit per count doubles the time

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._counts.close()

    def count(self, key: bytes) -> int:
        """Count the key; returns its occurrences so far, including this one."""
        rows = self._counts.execute(
            "INSERT INTO seen VALUES (?, 1) ON CONFLICT DO UPDATE SET times = times + 1 RETURNING times",
            (key,),
        ).fetchall()
        times: int = rows[0][0]
        return times


class Source:
    """A file being imported, with what its readers need to derive ids.

    Attributes:
        name: of the file, for errors.
        slug: the file's name without extension if a session id may start with it, else a digest of it.
        persona_id: the persona of messages without one.
    """

    def __init__(self, path: Path, persona_id: str, occurrences: Occurrences) -> None:
        self.name = path.name
        self.slug = _slug(path.stem)
        self.persona_id = persona_id
        self._occurrences = occurrences

    def bad(self, line: int, reason: str) -> BadLine:
        """A :class:`BadLine` of this file."""
        return BadLine(self.name, line, reason[:REASON_CHARACTERS])

    def count_occurrence(self, *parts: object) -> int:
        """Count these parts; returns their occurrences in this file so far, including this one."""
        return self._occurrences.count(digest(*parts).encode())

    def with_id(self, thread: ThreadKey, message: NewMessage) -> NewMessage:
        """The message with an id: its own, else one derived from thread, content and number of occurrences.

        So the same file gives the same ids again, even if it has grown or its bad lines have been fixed.
        """
        if message.id is not None:
            return message
        content = digest(*thread, msgspec.to_builtins(message))
        return msgspec.structs.replace(message, id=f"import-{content}-{self.count_occurrence(content)}")


def digest(*parts: object) -> str:
    """24 hex digits derived from the JSON-like parts."""
    return hashlib.sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()[:24]


def valid_id(field: str, value: object) -> str:
    """The value if it is a valid id of a session, a persona or a message.

    Raises:
        BadValueError: it is not.
    """
    if not isinstance(value, str):
        raise BadValueError(f"{field}: {bounded_repr(value)} is not a text")
    try:
        return checked_id(field, value)
    except InvalidInput as problem:
        raise BadValueError(str(problem)) from problem


def parse_timestamp(field: str, value: object) -> datetime | None:
    """A UTC datetime from RFC 3339 text with an offset, or from seconds since 1970; None for None.

    Raises:
        BadValueError: it is neither, or has no offset.
    """
    if value is None:
        return None
    try:
        # strict=False reads numbers as seconds since 1970, in text or not.
        found = msgspec.convert(value, datetime, strict=False)
        if found.tzinfo is not None:
            return found.astimezone(UTC)
    except (msgspec.ValidationError, OverflowError):
        pass
    raise BadValueError(
        f"{field}: {bounded_repr(value)} is not a timestamp with a time zone, such as 2026-01-05T14:00:00Z"
    )


def _slug(stem: str) -> str:
    try:
        return valid_id("file", stem[:100])
    except BadValueError:
        return f"import-{digest(stem)[:12]}"
