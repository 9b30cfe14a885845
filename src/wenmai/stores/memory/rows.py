"""What the in-process backend keeps: encoded records, and the threads that hang on session records."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

import msgspec

from wenmai.errors import InvalidInput
from wenmai.stores.records import Record

S = TypeVar("S", bound=msgspec.Struct)


def encode(value: S) -> bytes:
    """The value as JSON, which is what it will be when it is read again.

    Raises:
        InvalidInput: a part of it is of a kind that JSON or its declared type does not allow.
    """
    try:
        raw = msgspec.json.encode(value)
        msgspec.json.decode(raw, type=type(value))
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
        raise InvalidInput(type(value).__name__, value, f"storable ({error})") from error
    return raw


def decode(raw: bytes, of: type[S]) -> S:
    """A fresh value of what was encoded."""
    return msgspec.json.decode(raw, type=of)


@dataclass(slots=True)
class Entry:
    """A message of a thread with the two facts that reads select by."""

    raw: bytes
    turn_id: int
    completed: bool


@dataclass(slots=True)
class Thread:
    """The log of one persona in one session; the message numbered ``seq`` stands at ``seq - 1``."""

    entries: list[Entry] = field(default_factory=list)
    seq_of: dict[str, int] = field(default_factory=dict)
    open_messages: dict[int, int] = field(default_factory=dict)
    """Turn id → how many of its messages are not completed; complete turns are not named."""
    last_turn: int = 0


@dataclass(slots=True)
class Row:
    """A stored document; ``threads`` and the ``bound`` records hang on a session's and go when it goes.

    Attributes:
        session: the row of the session that this one hangs on.
        bound: the rows that hang on this one, by serial.
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

    def lives(self, now: datetime) -> bool:
        """Whether it is not past its end, nor the session that it hangs on."""
        own = self.keep_until is None or now < self.keep_until
        return own and (self.session is None or self.session.lives(now))
