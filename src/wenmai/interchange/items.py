"""What a reader finds in a file, and the names that it gives to what has none."""

import hashlib
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from wenmai.errors import InvalidInput, shown
from wenmai.memory.ids import checked_id
from wenmai.scope import ThreadKey
from wenmai.stores.records import NewMessage

REASON_CHARACTERS = 500
"""A reason is cut there: field names in it may be of any length."""

Json = dict[str, Any]


class BadLine(msgspec.Struct, frozen=True):
    """Something that could not be used, and why; lines count from 1, 0 stands for the whole file."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}" if self.line else f"{self.file}: {self.reason}"


class Note(msgspec.Struct, frozen=True):
    """Something worth knowing that is no mistake."""

    text: str


class SessionItem(msgspec.Struct, frozen=True):
    """A session as the file gives it; ``fields`` are those of its stored record that it names."""

    session_id: str
    fields: Json
    line: int


class MessageItem(msgspec.Struct, frozen=True):
    """A message and the thread it belongs to; it has an id, its own or a derived one.

    Attributes:
        where: its place within the value of its line, if that holds several messages.
    """

    thread: ThreadKey
    message: NewMessage
    line: int
    where: str = ""


Item = SessionItem | MessageItem | BadLine | Note


class BadValueError(Exception):
    """A value of the input that cannot be used; the message says which and why."""


class Occurrences:
    """Counts how often each key came. The counts are in a temporary file, so that memory stays bounded."""

    def __init__(self) -> None:
        # SQLite's own: an empty name is a database on disk that goes away with its connection.
        self._counts = sqlite3.connect("", isolation_level=None)
        self._counts.execute("PRAGMA journal_mode = OFF")
        self._counts.execute("CREATE TABLE seen (key BLOB PRIMARY KEY, times INTEGER) WITHOUT ROWID")
        self._counts.execute("BEGIN")  # for good: nobody else reads them, and a commit a count costs twice the time

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._counts.close()

    def count(self, key: bytes) -> int:
        """How often the key has come, this time included."""
        rows = self._counts.execute(
            "INSERT INTO seen VALUES (?, 1) ON CONFLICT DO UPDATE SET times = times + 1 RETURNING times",
            (key,),
        ).fetchall()
        times: int = rows[0][0]
        return times


class Source:
    """One file that is read, and what its readers need to name things.

    Attributes:
        name: of the file, as errors show it.
        slug: the file's name without its ending where that may begin a session id, else a digest of it.
        npc_id: the persona of messages that name none.
    """

    def __init__(self, path: Path, npc_id: str, occurrences: Occurrences) -> None:
        self.name = path.name
        self.slug = _slug(path.stem)
        self.npc_id = npc_id
        self._occurrences = occurrences

    def bad(self, line: int, reason: str) -> BadLine:
        """A :class:`BadLine` of this file."""
        return BadLine(self.name, line, reason[:REASON_CHARACTERS])

    def repeat_of(self, *parts: object) -> int:
        """How often these parts have come in this file, this time included."""
        return self._occurrences.count(digest(*parts).encode())

    def named(self, thread: ThreadKey, message: NewMessage) -> NewMessage:
        """The message with an id: its own, else one made of its thread, its content and how often that came.

        So the same file gives the same ids again, also when it has grown or its bad lines have been mended.
        """
        if message.id is not None:
            return message
        content = digest(*thread, msgspec.to_builtins(message))
        return msgspec.structs.replace(message, id=f"import-{content}-{self.repeat_of(content)}")


def digest(*parts: object) -> str:
    """24 hex digits that depend on the parts, which are JSON-like."""
    return hashlib.sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()[:24]


def usable_id(field: str, value: object) -> str:
    """The value if it may name a session, a persona or a message.

    Raises:
        BadValueError: it may not.
    """
    if not isinstance(value, str):
        raise BadValueError(f"{field}: {shown(value)} is not a text")
    try:
        return checked_id(field, value)
    except InvalidInput as problem:
        raise BadValueError(str(problem)) from problem


def moment(field: str, value: object) -> datetime | None:
    """A moment in UTC from RFC 3339 text with an offset, or from seconds since 1970; None for None.

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
    raise BadValueError(f"{field}: {shown(value)} is not a moment with its time zone, such as 2026-01-05T14:00:00Z")


def _slug(stem: str) -> str:
    try:
        return usable_id("file", stem[:100])
    except BadValueError:
        return f"import-{digest(stem)[:12]}"
