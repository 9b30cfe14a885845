"""The events that processes of a random history record (calls, times, results), and their shared clock.

An event is written twice, when a call starts and when it ends. A call that was cancelled or killed has only its start,
and may take effect at any later time, or never.
"""

import mmap
import os
import re
import struct
import time
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from math import inf
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from wenmai.clock import system_clock, to_micros
from wenmai.scope import Scope

USERS = {"a": Scope("t", "s", "alice"), "b": Scope("t", "s", "bob"), "c": Scope("u", "s", "alice")}
"""Two users who use the same session ids, and one of another tenant with the first one's user id."""

PLAIN, CUT = "ancestor_yan", "village_elder"
"""The personas: the second one's thread is cleared and truncated, the first one's never."""

NAMES = ("talk-1", "talk-10", "talk-2")

LIFETIME = 60
"""Session lifetime in seconds of the histories' clock."""

LAG = 1.0
"""How far the expiry of a session may lag behind its last activity."""

UNKNOWN = "ask"
"""Replaces the incarnation in the label of a question asked without knowing it."""

_LABEL = re.compile(r"\b([abc])x([0-9a-f]{16}|ask)x(\w+)\b")


class Label(NamedTuple):
    """The origin of a text: its user, incarnation and event."""

    user: str
    incarnation: str
    number: str

    def __str__(self) -> str:
        return "x".join(self)


def labels_in(text: str) -> list[str]:
    """The labels in a text."""
    return [found[0] for found in _LABEL.finditer(text)]


def label_of(text: str) -> Label:
    """The inverse of ``str(label)``."""
    return Label(*text.split("x", 2))


class Seen(msgspec.Struct, frozen=True):
    """A message as it was read or acknowledged."""

    id: str
    label: str
    seq: int
    turn: int
    role: str
    completed: bool


class Text(msgspec.Struct, frozen=True):
    """A label that was read, and the incarnation that it was read in; "" if unknown."""

    incarnation: str
    label: str


Kind = Literal[
    "open", "append", "complete", "ask", "rename", "prefer", "use", "clear", "truncate", "delete", "delete by name",
    "history", "latest", "record", "preferences", "traces", "list",
]  # fmt: skip


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call and its outcome.

    Attributes:
        process: name of the process.
        name: the id of the session.
        incarnation: known to or returned to the caller; "" if it names the session only by id.
        began, ended: seconds of a monotonic clock shared by all processes.
        clock_began, clock_ended: seconds of the histories' clock.
        outcome: ``refused`` changed nothing, ``unknown`` may have changed something.
        error: the name of the exception.
        labels: of what it writes.
        messages: as acknowledged or read.
        texts: all other texts that were read.
        number: how many, or the last ``seq`` that a truncation keeps.
        ends: expiry of the sessions that were read, by incarnation, in seconds of the histories' clock.
        created: the session is new, or something was deleted, or an answer was completed.
        key, answer: of a question with an Idempotency-Key, and the answer to any question.
    """

    id: str
    process: str
    kind: Kind
    user: str
    name: str
    began: float
    clock_began: float
    incarnation: str = ""
    npc: str = ""
    ended: float = inf
    clock_ended: float = inf
    outcome: Literal["ok", "refused", "unknown"] = "unknown"
    error: str = ""
    labels: tuple[str, ...] = ()
    messages: tuple[Seen, ...] = ()
    texts: tuple[Text, ...] = ()
    number: int = 0
    ends: dict[str, float] = {}
    created: bool = False
    got: str = ""
    key: str = ""
    answer: tuple[str, str, int, str] | None = None

    def __str__(self) -> str:
        held = f" [{self.incarnation}]" if self.incarnation else ""
        return f"{self.id} {self.kind} {self.user}:{self.name}{held} {self.outcome} {self.error}".rstrip()


class SharedClock:
    """A running clock that can be advanced, shared by all processes that open the same file."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(8))
        with path.open("r+b") as file:
            self._offset = mmap.mmap(file.fileno(), 8)

    def __call__(self) -> datetime:
        """The current time."""
        micros: int = struct.unpack("q", self._offset[:8])[0]
        return system_clock() + timedelta(microseconds=micros)

    def seconds(self) -> float:
        """The current time in seconds."""
        return to_micros(self()) / 1e6

    def advance(self, seconds: float) -> None:
        """Advance the clock in all processes."""
        (micros,) = struct.unpack("q", self._offset[:8])
        self._offset[:8] = struct.pack("q", micros + int(seconds * 1e6))


class Journal:
    """Writes the events of one process; written events survive ``kill -9``."""

    def __init__(self, path: Path, process: str, clock: SharedClock) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._process = process
        self._clock = clock
        self._number = 0

    def number(self) -> str:
        """A unique number."""
        self._number += 1
        return f"{self._process}n{self._number}"

    def begin(self, kind: Kind, user: str, name: str, **fields: object) -> Event:
        """Record the start of a call."""
        known = {"id": self.number(), "process": self._process, "kind": kind, "user": user, "name": name} | fields
        event = Event(**known, began=time.monotonic(), clock_began=self._clock.seconds())  # type: ignore[arg-type]
        self._write(event)
        return event

    def end(self, event: Event, **fields: object) -> None:
        """Record its end."""
        times = {"ended": time.monotonic(), "clock_ended": self._clock.seconds()}
        self._write(msgspec.structs.replace(event, **times, **fields))

    def fail(self, event: Event, error: str) -> None:
        """Record an error that leaves unknown whether the call has taken or will take effect."""
        self._write(msgspec.structs.replace(event, error=error))

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _write(self, event: Event) -> None:
        os.write(self._file, msgspec.json.encode(event) + b"\n")


def events_in(paths: Iterable[Path]) -> list[Event]:
    """The events of all processes, by start."""
    found: dict[str, Event] = {}
    for path in paths:
        for event in _lines(path):
            found[event.id] = event
    return sorted(found.values(), key=lambda event: event.began)


def _lines(path: Path) -> Iterator[Event]:
    decoder = msgspec.json.Decoder(Event)
    for line in path.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):
            yield decoder.decode(line)
