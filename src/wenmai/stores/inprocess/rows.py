"""Rows of the in-process backend: encoded records, and the threads of session records."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

import msgspec

from wenmai.errors import InvalidInput
from wenmai.stores.records import Record

S = TypeVar("S", bound=msgspec.Struct)


def encode(value: S) -> bytes:
    """Encode the value as JSON; decoding it gives the value that readers will see.

    Raises:
        InvalidInput: a part of it is not allowed by JSON or by its declared type.
    """
    try:
        raw = msgspec.json.encode(value)
        msgspec.json.decode(raw, type=type(value))
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
        raise InvalidInput(type(value).__name__, value, f"storable ({error})") from error
    return raw


def decode(raw: bytes, of: type[S]) -> S:
    """A new value, decoded."""
    return msgspec.json.decode(raw, type=of)


@dataclass(slots=True)
class Entry:
    """An encoded message with the two fields that reads filter by."""

    raw: bytes
    turn_id: int
    completed: bool


@dataclass(slots=True)
class Thread:
    """The log of one persona in one session; message ``seq`` is at index ``seq - 1``."""

    entries: list[Entry] = field(default_factory=list)
    seq_of: dict[str, int] = field(default_factory=dict)
    open_messages: dict[int, int] = field(default_factory=dict)
    """Turn id → number of its messages that are not completed; completed turns are omitted."""
    last_turn: int = 0


@dataclass(slots=True)
class Row:
    """A stored document; the ``threads`` and ``bound`` records of a session are deleted with it.

    Attributes:
        session: the row of the session that this row is bound to.
        bound: the rows bound to this one, by serial.
    """

    serial: int
    key: str
    raw: bytes
    version: int
    user_id: str
    created_at: datetime
    updated_at: datetime
    keep_until: datetime | None
    threads: dict[str, Thread] = field(default_factory=dict)
    session: "Row | None" = None
    bound: dict[int, tuple[type[Record], "Row"]] = field(default_factory=dict)

    def is_alive(self, now: datetime) -> bool:
        """Whether neither the row nor the session that it is bound to has expired."""
        own = self.keep_until is None or now < self.keep_until
        return own and (self.session is None or self.session.is_alive(now))
