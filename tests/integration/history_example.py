"""A handwritten history without violations, and mutations of it for tests."""

from collections.abc import Callable, Sequence
from typing import Any

from history_events import CUT, PLAIN, Event, Label, Seen, Text
from msgspec.structs import replace

A, B = "a" * 16, "b" * 16
"""The incarnations: the first is deleted, the second belongs to another user."""

History = dict[str, Event]
"""Events by a name."""


def label(number: int, incarnation: str = A) -> str:
    """A label; ``ask`` for a question of a turn."""
    return str(Label("b" if incarnation == B else "a", incarnation, f"n{number}"))


def messages_of(
    *numbers: int, incarnation: str = A, turns: Sequence[int] = (), completed: bool = True
) -> tuple[Seen, ...]:
    """Messages as read: question and answer alternate, numbered from 1."""
    labels = [label(number, incarnation) for number in numbers]
    return tuple(
        Seen(f"m-{label}", label, seq, (seq + 1) // 2, "user" if seq % 2 else "assistant", completed)
        for seq, label in enumerate(labels, 1)
    )


class HistoryBuilder:
    """Adds events in order, one every two seconds, each lasting one second."""

    def __init__(self) -> None:
        self.history: History = {}

    def add(self, event: str, kind: str, incarnation: str = "", **fields: Any) -> None:
        """Add the next event."""
        now = 100.0 + 2 * len(self.history)
        known: dict[str, Any] = {
            "id": event, "process": "p0", "kind": kind, "name": "talk-1", "outcome": "ok", "incarnation": incarnation,
            "user": "b" if incarnation == B else "a",
            "began": now, "clock_began": now, "ended": now + 1, "clock_ended": now + 1,
        }  # fmt: skip
        self.history[event] = Event(**known | fields)


def valid_history() -> History:
    """A session is opened, used in every way, and deleted; another user takes its id."""
    builder = HistoryBuilder()
    record = builder.add
    plain = {"npc": PLAIN}
    question = str(Label("a", "ask", "k1"))
    answer = ("talk-1", "trace-1", 3, "家训第一条……")
    asked: dict[str, Any] = {"labels": (question,), "key": "key-1", "answer": answer, **plain}
    more = (Seen("m-5", question, 5, 3, "user", completed=True), Seen("m-6", "", 6, 3, "assistant", completed=True))
    record("open", "open", A, got="talk-1", created=True)
    record("append", "append", A, labels=(label(1), label(2)), messages=messages_of(1, 2), **plain)
    begun = (*messages_of(1, 2, 3), replace(messages_of(1, 2, 3, 4)[3], completed=False))
    record("turn", "append", A, labels=(label(3), label(4)), messages=begun[2:], **plain)
    record("complete", "complete", A, labels=(label(4),), messages=messages_of(1, 2, 3, 4)[3:], created=True, **plain)
    record("history", "history", A, messages=messages_of(1, 2, 3, 4), **plain)
    record("rename", "rename", A, labels=(label(5),), **plain)
    record("prefer", "prefer", A, labels=(label(6),), **plain)
    record("ask", "ask", **asked)
    record("again", "ask", **asked)
    record("latest", "latest", A, messages=(*messages_of(1, 2, 3, 4)[2:], *more), **plain)
    record("whole", "history", A, messages=(*messages_of(1, 2, 3, 4), *more), **plain)
    record("aside", "append", A, labels=(label(7), label(8)), messages=messages_of(7, 8), npc=CUT)
    record("clear", "clear", A, npc=CUT)
    record("cleared", "history", A, npc=CUT)
    record("record", "record", texts=(Text(A, ""), Text(A, label(5))), process="end")
    record("preferences", "preferences", texts=(Text(A, ""), Text(A, label(6))))
    record("list", "list", texts=(Text(A, label(5)),), ends={A: 200.0})
    record("delete", "delete by name", created=True)
    record("taken", "open", B, got="talk-1", created=True)
    record("other", "append", B, labels=(label(9, B),), messages=messages_of(9, incarnation=B), **plain)
    record("its", "history", B, messages=messages_of(9, incarnation=B), **plain)
    return builder.history


Mutation = Callable[[History], None]


def change(key: str, **fields: Any) -> Mutation:
    """Change fields of one event."""

    def mutate(history: History) -> None:
        history[key] = replace(history[key], **fields)

    return mutate


def add(after: str, kind: str, incarnation: str = "", **fields: Any) -> Mutation:
    """Insert an event right after another one."""

    def mutate(history: History) -> None:
        builder = HistoryBuilder()
        builder.add("more", kind, incarnation, npc=PLAIN)
        ended = history[after].ended
        times = {"began": ended + 0.2, "clock_began": ended + 0.2, "ended": ended + 0.5, "clock_ended": ended + 0.5}
        history["more"] = replace(builder.history["more"], **times | fields)

    return mutate
